"""What can be compiled: by name, the arguments of an operation, and how it is traced over a mechanism."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ..robot.robot import Robot
from .graph import Expr, Graph, Vector
from .mechanism import SIZES, Mechanism
from .parameters import Parameters, at_run_time, folded, layout
from .program import Program, program
from .rnea import rnea

Outputs = tuple[tuple[tuple[str, tuple[int, ...]], ...], Vector]


@dataclass(frozen=True, slots=True)
class Options:
    """What a set of kernels is made for.

    Attributes:
        runtime: base parameters are inputs, not constants.
        friction: joint friction is part of the dynamics.
        forces: frames at which external forces act.
    """

    runtime: bool = False
    friction: bool = False
    forces: tuple[str, ...] = ()


@dataclass(eq=False)
class Trace:
    """One operation being traced: the graph, the inputs by name, and what the robot is."""

    robot: Robot
    mechanism: Mechanism
    options: Options
    graph: Graph
    given: dict[str, Vector]
    parameters: Parameters
    frame: str | None = None

    def __getattr__(self, name: str) -> Vector:
        try:
            return self.given[name]
        except KeyError:
            raise AttributeError(name) from None

    def zeros(self, n: int) -> Vector:
        """N zeros."""
        return [self.graph.constant(0.0)] * n

    def inverse_dynamics(self, v: Sequence[Expr], a: Sequence[Expr]) -> Vector:
        """Tau (nv) with rotor inertia, and friction if asked for."""
        tau = rnea(self.graph, self.mechanism, self.given["q"], v, a, self.parameters.inertia)
        for k, x in self.rotors(a) + self.losses(v):
            tau[k] = tau[k] + x
        return tau

    def rotors(self, a: Sequence[Expr]) -> list[tuple[int, Expr]]:
        """(index, torque) that rotors take."""
        links = enumerate(self.mechanism.links)
        return [(x.v, self.parameters.armature[i] * a[x.v]) for i, x in links if SIZES[x.kind][1] == 1]

    def losses(self, v: Sequence[Expr]) -> list[tuple[int, Expr]]:
        """(index, torque) that friction takes."""
        out = []
        for i, link in enumerate(self.mechanism.links):
            if self.options.friction and SIZES[link.kind][1] == 1:
                viscous = self.parameters.damping[i] * v[link.v]
                coulomb = self.parameters.friction[i] * self.graph.sign(v[link.v])
                out.append((link.v, viscous + coulomb))
        return out


def _rnea(t: Trace) -> Outputs:
    return _vector("tau", t.inverse_dynamics(t.v, t.a))


def _nle(t: Trace) -> Outputs:
    return _vector("h", t.inverse_dynamics(t.v, t.zeros(t.mechanism.nv)))


def _gravity(t: Trace) -> Outputs:
    nothing = t.zeros(t.mechanism.nv)
    return _vector("g", t.inverse_dynamics(nothing, nothing))


def _vector(name: str, x: Vector) -> Outputs:
    return ((name, (len(x),)),), x


@dataclass(frozen=True, slots=True)
class Recipe:
    """Arguments of an operation, and how to trace it."""

    arguments: tuple[str, ...]
    trace: Callable[[Trace], Outputs]


RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        "rnea": Recipe(("q", "v", "a"), _rnea),
        "nle": Recipe(("q", "v"), _nle),
        "gravity": Recipe(("q",), _gravity),
    }
)


def traced(what: str, robot: Robot, mechanism: Mechanism, options: Options, frame: str | None = None) -> Program:
    """The program of an operation."""
    recipe, graph = RECIPES[what], Graph()
    sizes = {"q": mechanism.nq, "fext": 6 * len(options.forces), "parameters": len(layout(mechanism))}
    arguments = [(name, sizes.get(name, mechanism.nv)) for name in recipe.arguments]
    if options.runtime:
        arguments.append(("parameters", sizes["parameters"]))
    given, start = {}, 0
    for name, size in arguments:
        given[name] = graph.inputs(start, size)
        start += size
    own = at_run_time(graph, mechanism, given["parameters"]) if options.runtime else folded(graph, mechanism)
    outputs, results = recipe.trace(Trace(robot, mechanism, options, graph, given, own, frame))
    return program(what, graph, arguments, outputs, results, units(mechanism) if "q" in given else ())


def units(mechanism: Mechanism) -> list[tuple[int, ...]]:
    """Entries of q that form a quaternion or a (cos, sin)."""
    out: list[tuple[int, ...]] = []
    for link in mechanism.links:
        if link.kind == "continuous":
            out.append((link.q, link.q + 1))
        elif link.kind == "planar":
            out.append((link.q + 2, link.q + 3))
        elif link.kind == "floating":
            out.append(tuple(range(link.q + 3, link.q + 7)))
    return out
