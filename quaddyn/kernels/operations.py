"""What can be compiled: by name, the arguments of an operation, and how it is traced over a mechanism."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Final

from ..robot.configuration import independent_joints
from ..robot.robot import Robot
from .crba import crba
from .derivatives import directional, tangents
from .factoring import live
from .forward_dynamics import articulated, by_elimination, factors
from .graph import ADD, DIV, MUL, Expr, Graph, Vector
from .joint_coordinates import Coordinates
from .kinematics import Place, acceleration, jacobian, place
from .kinematics import loads as external
from .mechanism import SIZES, Mechanism, in_unit, mechanism, usual_length
from .parameters import Parameters, at_run_time, folded, layout
from .program import Program, program
from .regressor import base_regressor, regressor
from .rnea import Joints, joints, rnea

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
    frame: Place | None = None

    @property
    def v(self) -> Vector:
        """Velocity of all joints."""
        return self.coordinates.velocity(self.given["v"])

    @property
    def a(self) -> Vector:
        """Acceleration of all joints."""
        return self.coordinates.acceleration(self.given["v"], self.given["a"])

    @property
    def rest(self) -> Vector:
        """Acceleration of all joints where those of the robot's coordinates are zero."""
        return self.coordinates.drift(self.given["v"])

    @property
    def tau(self) -> Vector:
        """Generalized force of the robot's coordinates."""
        return self.given["tau"]

    @property
    def where(self) -> Place:
        """The frame that the operation is about."""
        assert self.frame is not None
        return self.frame

    def zeros(self, n: int) -> Vector:
        """N zeros."""
        return [self.graph.constant(0.0)] * n

    @cached_property
    def coordinates(self) -> Coordinates:
        """The robot's coordinates, fewer than those of all joints where some follow others."""
        return Coordinates(self.graph, self.robot, self.mechanism, self.given["q"])

    @property
    def q(self) -> Vector:
        """Configuration of all joints."""
        return self.coordinates.q

    @cached_property
    def at(self) -> Joints:
        """The joints at q."""
        return joints(self.graph, self.mechanism, self.q)

    def inverse_dynamics(self, v: Sequence[Expr], a: Sequence[Expr], *, loaded: bool = False) -> Vector:
        """Tau (nv) of all joints' v and a: with rotor inertia, and friction and external forces where there are any."""
        loads = None
        if loaded and self.options.forces:
            frames = [place(self.robot, self.mechanism, name) for name in self.options.forces]
            loads = external(self.graph, self.mechanism, self.at, frames, self.given["fext"])
        tau = rnea(self.graph, self.mechanism, self.at, v, a, self.parameters.inertia, loads)
        for k, x in self.rotors(a) + self.losses(v):
            tau[k] = tau[k] + x
        return self.coordinates.force(tau)

    def mass_matrix(self) -> list[Vector]:
        """M (nv, nv)."""
        M = crba(self.graph, self.mechanism, self.at, self.parameters.inertia, self.diagonal())
        return self.coordinates.inertia(M)

    def diagonal(self) -> Vector:
        """Rotor inertia by degree of freedom of all joints."""
        out = self.zeros(self.mechanism.nv)
        for k, x in self.rotors([self.graph.constant(1.0)] * self.mechanism.nv):
            out[k] = x
        return out

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
    return _vector("tau", t.inverse_dynamics(t.v, t.a, loaded=True))


def _nle(t: Trace) -> Outputs:
    return _vector("h", t.inverse_dynamics(t.v, t.rest))


def _gravity(t: Trace) -> Outputs:
    nothing = t.zeros(t.mechanism.nv)
    return _vector("g", t.inverse_dynamics(nothing, nothing))


def _crba(t: Trace) -> Outputs:
    return _matrix("M", t.mass_matrix())


#: Additions that a division costs about as much time as.
DIVISION: Final = 8
#: Ways of solving for accelerations; the one of fewest operations is taken.
WAYS: Final = (factors, articulated)


def _aba(t: Trace) -> Outputs:
    h = t.inverse_dynamics(t.v, t.rest, loaded=True)
    left = [x - y for x, y in zip(t.tau, h, strict=True)]
    if t.coordinates.coupled:  # no recursion sees forces across the tree
        return _vector("a", by_elimination(t.graph, t.mass_matrix(), left))
    ways = [way(t.graph, t.mechanism, t.at, t.parameters.inertia, t.diagonal(), left) for way in WAYS]
    return _vector("a", min(ways, key=lambda results: _cost(t.graph, results)))


def _cost(graph: Graph, results: Vector) -> int:
    kinds = [graph.op[i] for i in live(graph, results)[0]]
    return kinds.count(ADD) + kinds.count(MUL) + DIVISION * kinds.count(DIV)


def _regressor(t: Trace) -> Outputs:
    joints, own = [body.joint for body in t.robot.bodies], independent_joints(t.robot.bodies)
    losses = [joint is not None and joint.name in own for joint in joints]
    rotors = [joint is not None and (joint.name in own or joint.loop is not None) for joint in joints]
    return _matrix("H", t.coordinates.rows(regressor(t.graph, t.mechanism, t.at, t.v, t.a, losses, rotors)))


def _base_regressor(t: Trace) -> Outputs:
    return _matrix("H", t.coordinates.rows(base_regressor(t.graph, t.mechanism, t.at, t.v, t.a)))


def _frame_jacobian(t: Trace) -> Outputs:
    return _matrix("J", t.coordinates.columns(jacobian(t.graph, t.mechanism, t.at, t.where)))


def _frame_drift(t: Trace) -> Outputs:
    return _vector("drift", acceleration(t.graph, t.mechanism, t.at, t.v, t.rest, t.where))


def _rnea_derivatives(t: Trace) -> Outputs:
    n, first = t.robot.nv, t.robot.nq
    tau = t.inverse_dynamics(t.v, t.a)
    rates = t.coordinates.tangents(tangents(t.graph, t.mechanism, t.q))
    by_q = [directional(t.graph, tau, seeds) for seeds in rates]
    by_v = [directional(t.graph, tau, {first + k: t.graph.constant(1.0)}) for k in range(n)]
    rows = [[column[i] for column in columns] for columns in (by_q, by_v) for i in range(n)] + t.mass_matrix()
    shapes = tuple((name, (n, n)) for name in ("dtau_dq", "dtau_dv", "dtau_da"))
    return shapes, [x for row in rows for x in row]


def _vector(name: str, x: Vector) -> Outputs:
    return ((name, (len(x),)),), x


def _matrix(name: str, rows: Sequence[Vector]) -> Outputs:
    return ((name, (len(rows), len(rows[0]))),), [x for row in rows for x in row]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to trace an operation.

    Attributes:
        arguments: names of its inputs.
        trace: makes outputs.
        inertial: whether mass properties matter, so that they may be inputs.
        loaded: whether external forces matter.
        framed: whether it is about one named frame.
        plain: whether it is traced in the file's origins, whose mass properties its columns belong to.
    """

    arguments: tuple[str, ...]
    trace: Callable[[Trace], Outputs]
    inertial: bool = True
    loaded: bool = False
    framed: bool = False
    plain: bool = False


RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        "rnea": Recipe(("q", "v", "a"), _rnea, loaded=True),
        "nle": Recipe(("q", "v"), _nle),
        "gravity": Recipe(("q",), _gravity),
        "crba": Recipe(("q",), _crba),
        "aba": Recipe(("q", "v", "tau"), _aba, loaded=True),
        "regressor": Recipe(("q", "v", "a"), _regressor, inertial=False, plain=True),
        "base_regressor": Recipe(("q", "v", "a"), _base_regressor, inertial=False),
        "rnea_derivatives": Recipe(("q", "v", "a"), _rnea_derivatives),
        "frame_jacobian": Recipe(("q",), _frame_jacobian, inertial=False, framed=True),
        "frame_drift": Recipe(("q", "v"), _frame_drift, inertial=False, framed=True),
    }
)


@lru_cache(maxsize=8)
def chosen_mechanism(robot: Robot, *, plain: bool = False) -> Mechanism:
    """The mechanism that operations of this robot are traced over; kept for the robots last asked for."""
    mech = mechanism(robot, plain=plain)
    return mech if plain else in_unit(mech, usual_length(mech))


def traced(what: str, robot: Robot, options: Options, frame: str | None = None) -> Program:
    """The program of an operation."""
    recipe, graph = RECIPES[what], Graph()
    mech = chosen_mechanism(robot, plain=recipe.plain)
    sizes = {"q": robot.nq, "fext": 6 * len(options.forces), "parameters": len(layout(mech))}
    names = list(recipe.arguments)
    names += ["fext"] if recipe.loaded and options.forces else []
    names += ["parameters"] if recipe.inertial and options.runtime else []
    arguments = [(name, sizes.get(name, robot.nv)) for name in names]
    given, start = {}, 0
    for name, size in arguments:
        given[name] = graph.inputs(start, size)
        start += size
    own = at_run_time(graph, mech, given["parameters"]) if "parameters" in given else folded(graph, mech)
    where = place(robot, mech, frame) if frame is not None else None
    trace = Trace(robot, mech, options, graph, given, own, where)
    outputs, results = recipe.trace(trace)
    name = what if frame is None else f"{what}:{frame}"
    to = trace.coordinates
    return program(name, graph, arguments, outputs, results, to.unit(units(mech)), to.ranges)


def units(mechanism: Mechanism) -> list[tuple[int, ...]]:
    """Entries of a mechanism's q that form a quaternion or a (cos, sin)."""
    out: list[tuple[int, ...]] = []
    for link in mechanism.links:
        if link.kind == "continuous":
            out.append((link.q, link.q + 1))
        elif link.kind == "planar":
            out.append((link.q + 2, link.q + 3))
        elif link.kind == "floating":
            out.append(tuple(range(link.q + 3, link.q + 7)))
    return out
