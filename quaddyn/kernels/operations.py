"""Operations that can be compiled: by name, their arguments, and how they are traced over a mechanism."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Final

from ..robot.configuration import independent_joints
from ..robot.robot import Robot
from .crba import crba
from .derivatives import configuration_rates, differentiate
from .factoring import live_nodes
from .forward_dynamics import solve_by_articulated_bodies, solve_by_elimination, solve_by_factorization
from .graph import ADD, DIV, MUL, Expr, Graph, Vector
from .joint_coordinates import JointCoordinateMap
from .kinematics import FramePlacement, frame_acceleration, frame_jacobian, frame_placement
from .kinematics import external_wrenches as external
from .mechanism import COORDINATE_COUNTS, Mechanism, build_mechanism, most_common_offset, rescale_lengths
from .parameters import Parameters, constant_parameters, input_parameters, parameter_layout
from .program import Program, make_program
from .regressor import base_regressor, regressor
from .rnea import JointPlacements, joint_placements, rnea

Outputs = tuple[tuple[tuple[str, tuple[int, ...]], ...], Vector]


@dataclass(frozen=True, slots=True)
class KernelOptions:
    """Options of a set of kernels.

    Attributes:
        runtime: whether base parameters are inputs instead of constants.
        friction: whether joint friction is part of the dynamics.
        forces: frames at which external forces act.
    """

    runtime: bool = False
    friction: bool = False
    forces: tuple[str, ...] = ()


@dataclass(eq=False)
class TraceContext:
    """State of tracing one operation: the graph, the inputs by name, and the robot."""

    robot: Robot
    mechanism: Mechanism
    options: KernelOptions
    graph: Graph
    given: dict[str, Vector]
    parameters: Parameters
    frame: FramePlacement | None = None

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
    def where(self) -> FramePlacement:
        """The frame of an operation about a frame."""
        assert self.frame is not None
        return self.frame

    def zeros(self, n: int) -> Vector:
        """Returns n zeros."""
        return [self.graph.constant(0.0)] * n

    @cached_property
    def coordinates(self) -> JointCoordinateMap:
        """The map between the robot's coordinates and those of all joints, of which some may depend on others."""
        return JointCoordinateMap(self.graph, self.robot, self.mechanism, self.given["q"])

    @property
    def q(self) -> Vector:
        """Configuration of all joints."""
        return self.coordinates.q

    @cached_property
    def at(self) -> JointPlacements:
        """Placements of the joints at q."""
        return joint_placements(self.graph, self.mechanism, self.q)

    def inverse_dynamics(self, v: Sequence[Expr], a: Sequence[Expr], *, loaded: bool = False) -> Vector:
        """Returns tau (nv) for v and a of all joints, with rotor inertia, and friction and external forces, if any."""
        loads = None
        if loaded and self.options.forces:
            frames = [frame_placement(self.robot, self.mechanism, name) for name in self.options.forces]
            loads = external(self.graph, self.mechanism, self.at, frames, self.given["fext"])
        tau = rnea(self.graph, self.mechanism, self.at, v, a, self.parameters.inertia, loads)
        for k, x in self.rotors(a) + self.losses(v):
            tau[k] = tau[k] + x
        return self.coordinates.force(tau)

    def mass_matrix(self) -> list[Vector]:
        """Returns M (nv, nv)."""
        M = crba(self.graph, self.mechanism, self.at, self.parameters.inertia, self.diagonal())
        return self.coordinates.inertia(M)

    def diagonal(self) -> Vector:
        """Returns the rotor inertia by degree of freedom of all joints."""
        out = self.zeros(self.mechanism.nv)
        for k, x in self.rotors([self.graph.constant(1.0)] * self.mechanism.nv):
            out[k] = x
        return out

    def rotors(self, a: Sequence[Expr]) -> list[tuple[int, Expr]]:
        """Returns (index, torque) of the rotor inertias."""
        links = enumerate(self.mechanism.links)
        return [(x.v, self.parameters.armature[i] * a[x.v]) for i, x in links if COORDINATE_COUNTS[x.kind][1] == 1]

    def losses(self, v: Sequence[Expr]) -> list[tuple[int, Expr]]:
        """Returns (index, torque) of joint friction."""
        out = []
        for i, link in enumerate(self.mechanism.links):
            if self.options.friction and COORDINATE_COUNTS[link.kind][1] == 1:
                viscous = self.parameters.damping[i] * v[link.v]
                coulomb = self.parameters.friction[i] * self.graph.sign(v[link.v])
                out.append((link.v, viscous + coulomb))
        return out


def _rnea(t: TraceContext) -> Outputs:
    return _vector("tau", t.inverse_dynamics(t.v, t.a, loaded=True))


def _nle(t: TraceContext) -> Outputs:
    return _vector("h", t.inverse_dynamics(t.v, t.rest))


def _gravity(t: TraceContext) -> Outputs:
    nothing = t.zeros(t.mechanism.nv)
    return _vector("g", t.inverse_dynamics(nothing, nothing))


def _crba(t: TraceContext) -> Outputs:
    return _matrix("M", t.mass_matrix())


#: Additions that a division costs about as much time as.
DIVISION: Final = 8
#: Ways of solving for accelerations; the one of fewest operations is taken.
WAYS: Final = (solve_by_factorization, solve_by_articulated_bodies)


def _aba(t: TraceContext) -> Outputs:
    h = t.inverse_dynamics(t.v, t.rest, loaded=True)
    left = [x - y for x, y in zip(t.tau, h, strict=True)]
    if t.coordinates.coupled:  # no recursion sees forces across the tree
        return _vector("a", solve_by_elimination(t.graph, t.mass_matrix(), left))
    ways = [way(t.graph, t.mechanism, t.at, t.parameters.inertia, t.diagonal(), left) for way in WAYS]
    return _vector("a", min(ways, key=lambda results: _cost(t.graph, results)))


def _cost(graph: Graph, results: Vector) -> int:
    kinds = [graph.op[i] for i in live_nodes(graph, results)[0]]
    return kinds.count(ADD) + kinds.count(MUL) + DIVISION * kinds.count(DIV)


def _regressor(t: TraceContext) -> Outputs:
    joints, own = [body.joint for body in t.robot.bodies], independent_joints(t.robot.bodies)
    losses = [joint is not None and joint.name in own for joint in joints]
    rotors = [joint is not None and (joint.name in own or joint.loop is not None) for joint in joints]
    return _matrix("H", t.coordinates.rows(regressor(t.graph, t.mechanism, t.at, t.v, t.a, losses, rotors)))


def _base_regressor(t: TraceContext) -> Outputs:
    return _matrix("H", t.coordinates.rows(base_regressor(t.graph, t.mechanism, t.at, t.v, t.a)))


def _frame_jacobian(t: TraceContext) -> Outputs:
    return _matrix("J", t.coordinates.columns(frame_jacobian(t.graph, t.mechanism, t.at, t.where)))


def _frame_drift(t: TraceContext) -> Outputs:
    return _vector("drift", frame_acceleration(t.graph, t.mechanism, t.at, t.v, t.rest, t.where))


def _rnea_derivatives(t: TraceContext) -> Outputs:
    n, first = t.robot.nv, t.robot.nq
    tau = t.inverse_dynamics(t.v, t.a)
    rates = t.coordinates.tangents(configuration_rates(t.graph, t.mechanism, t.q))
    by_q = [differentiate(t.graph, tau, seeds) for seeds in rates]
    by_v = [differentiate(t.graph, tau, {first + k: t.graph.constant(1.0)}) for k in range(n)]
    rows = [[column[i] for column in columns] for columns in (by_q, by_v) for i in range(n)] + t.mass_matrix()
    shapes = tuple((name, (n, n)) for name in ("dtau_dq", "dtau_dv", "dtau_da"))
    return shapes, [x for row in rows for x in row]


def _vector(name: str, x: Vector) -> Outputs:
    return ((name, (len(x),)),), x


def _matrix(name: str, rows: Sequence[Vector]) -> Outputs:
    return ((name, (len(rows), len(rows[0]))),), [x for row in rows for x in row]


@dataclass(frozen=True, slots=True)
class OperationDefinition:
    """How an operation is traced.

    Attributes:
        arguments: names of its inputs.
        trace: makes its outputs.
        inertial: whether it depends on mass properties, so that they may be inputs.
        loaded: whether it depends on external forces.
        framed: whether it is about one named frame.
        plain: whether it is traced in the file's origins, to whose mass properties its columns belong.
    """

    arguments: tuple[str, ...]
    trace: Callable[[TraceContext], Outputs]
    inertial: bool = True
    loaded: bool = False
    framed: bool = False
    plain: bool = False


OPERATIONS: Final[Mapping[str, OperationDefinition]] = MappingProxyType(
    {
        "rnea": OperationDefinition(("q", "v", "a"), _rnea, loaded=True),
        "nle": OperationDefinition(("q", "v"), _nle),
        "gravity": OperationDefinition(("q",), _gravity),
        "crba": OperationDefinition(("q",), _crba),
        "aba": OperationDefinition(("q", "v", "tau"), _aba, loaded=True),
        "regressor": OperationDefinition(("q", "v", "a"), _regressor, inertial=False, plain=True),
        "base_regressor": OperationDefinition(("q", "v", "a"), _base_regressor, inertial=False),
        "rnea_derivatives": OperationDefinition(("q", "v", "a"), _rnea_derivatives),
        "frame_jacobian": OperationDefinition(("q",), _frame_jacobian, inertial=False, framed=True),
        "frame_drift": OperationDefinition(("q", "v"), _frame_drift, inertial=False, framed=True),
    }
)


@lru_cache(maxsize=8)
def kernel_mechanism(robot: Robot, *, plain: bool = False) -> Mechanism:
    """Returns the mechanism over which operations of a robot are traced; cached for the latest robots."""
    mech = build_mechanism(robot, plain=plain)
    return mech if plain else rescale_lengths(mech, most_common_offset(mech))


def trace_operation(what: str, robot: Robot, options: KernelOptions, frame: str | None = None) -> Program:
    """Traces an operation and returns its program."""
    recipe, graph = OPERATIONS[what], Graph()
    mech = kernel_mechanism(robot, plain=recipe.plain)
    sizes = {"q": robot.nq, "fext": 6 * len(options.forces), "parameters": len(parameter_layout(mech))}
    names = list(recipe.arguments)
    names += ["fext"] if recipe.loaded and options.forces else []
    names += ["parameters"] if recipe.inertial and options.runtime else []
    arguments = [(name, sizes.get(name, robot.nv)) for name in names]
    given, start = {}, 0
    for name, size in arguments:
        given[name] = graph.inputs(start, size)
        start += size
    own = (
        input_parameters(graph, mech, given["parameters"])
        if "parameters" in given
        else constant_parameters(graph, mech)
    )
    where = frame_placement(robot, mech, frame) if frame is not None else None
    trace = TraceContext(robot, mech, options, graph, given, own, where)
    outputs, results = recipe.trace(trace)
    name = what if frame is None else f"{what}:{frame}"
    to = trace.coordinates
    return make_program(name, graph, arguments, outputs, results, to.unit(unit_norm_groups(mech)), to.ranges)


def unit_norm_groups(mechanism: Mechanism) -> list[tuple[int, ...]]:
    """Returns groups of entries of a mechanism's q that form a quaternion or a (cos, sin)."""
    out: list[tuple[int, ...]] = []
    for link in mechanism.links:
        if link.kind == "continuous":
            out.append((link.q, link.q + 1))
        elif link.kind == "planar":
            out.append((link.q + 2, link.q + 3))
        elif link.kind == "floating":
            out.append(tuple(range(link.q + 3, link.q + 7)))
    return out
