"""Operations that can be compiled: by name, their arguments, and how they are traced over a mechanism."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from types import MappingProxyType
from typing import Final

from ..robot.configuration import independent_joints
from ..robot.robot import Robot
from .forward_dynamics import solve_by_articulated_bodies, solve_by_elimination, solve_by_factorization
from .graph import ADD, DIV, MUL, Expr, Graph, Program, Vector, differentiate, live_nodes, make_program, total
from .joint_coordinates import JointCoordinateMap
from .kinematics import (
    FramePlacement,
    frame_acceleration,
    frame_jacobian,
    frame_placement,
    jacobian_and_origin,
    orientations,
    path_from_root,
)
from .kinematics import external_wrenches as external
from .llvm_writer import NORMALIZABLE_TOLERANCE
from .mechanism import COORDINATE_COUNTS, Mechanism, build_mechanism, most_common_offset, rescale_lengths
from .parameters import Parameters, base_regressor, constant_parameters, input_parameters, parameter_layout, regressor
from .rnea import JointPlacements, configuration_rates, crba, dot, joint_placements, rnea
from .tick_trace import TermTracer

#: Vectors, and matrices by rows, by name.
Results = Mapping[str, Vector | list[Vector]]


@dataclass(frozen=True, slots=True)
class KernelOptions:
    """Options of a set of kernels."""

    runtime: bool = False  # whether base parameters are inputs instead of constants
    friction: bool = False  # whether joint friction is part of the dynamics
    forces: tuple[str, ...] = ()  # frames at which external forces act
    # whether quaternions and (cos, sin) pairs of q are divided by their norm, which need not be one
    normalized: bool = False


@dataclass(eq=False)
class TraceContext:
    """Inputs and intermediate expressions of one operation while its graph is recorded.

    It has the robot, the graph, the inputs by name, and parameters.
    """

    robot: Robot
    mechanism: Mechanism
    options: KernelOptions
    graph: Graph
    inputs: dict[str, Vector]
    parameters: Parameters
    frame: FramePlacement | None = None
    frame_name: str | None = None

    @property
    def v(self) -> Vector:
        """Velocity of all joints."""
        return self.coordinates.velocity(self.inputs["v"])

    @property
    def a(self) -> Vector:
        """Acceleration of all joints."""
        return self.coordinates.acceleration(self.inputs["v"], self.inputs["a"])

    @property
    def drift(self) -> Vector:
        """Acceleration of all joints if the accelerations of the robot's coordinates are zero."""
        return self.coordinates.drift(self.inputs["v"])

    @property
    def tau(self) -> Vector:
        """Generalized force of the robot's coordinates."""
        return self.inputs["tau"]

    @property
    def target_frame(self) -> FramePlacement:
        """Frame of an operation on a frame."""
        assert self.frame is not None
        return self.frame

    def zeros(self, n: int) -> Vector:
        """Returns n zeros."""
        return [self.graph.constant(0.0)] * n

    @cached_property
    def coordinates(self) -> JointCoordinateMap:
        """The map between the robot's coordinates and those of all joints, of which some may depend on others."""
        return JointCoordinateMap(self.graph, self.robot, self.mechanism, self.inputs["q"])

    @property
    def q(self) -> Vector:
        """Configuration of all joints."""
        return self.coordinates.q

    @cached_property
    def placements(self) -> JointPlacements:
        """Placements of the joints at q."""
        return joint_placements(self.graph, self.mechanism, self.q)

    def inverse_dynamics(self, v: Sequence[Expr], a: Sequence[Expr], *, with_external_forces: bool = False) -> Vector:
        """Returns tau (nv) for v and a of all joints, with rotor inertia, and friction and external forces, if any."""
        loads = None
        if with_external_forces and self.options.forces:
            frames = [frame_placement(self.robot, self.mechanism, name) for name in self.options.forces]
            loads = external(self.graph, self.mechanism, self.placements, frames, self.inputs["fext"])
        tau = rnea(self.graph, self.mechanism, self.placements, v, a, self.parameters.inertia, loads)
        for k, x in self.rotor_torques(a) + self.friction_torques(v):
            tau[k] = tau[k] + x
        return self.coordinates.force(tau)

    def mass_matrix(self) -> list[Vector]:
        """Returns M (nv, nv)."""
        M = crba(self.graph, self.mechanism, self.placements, self.parameters.inertia, self.rotor_inertias())
        return self.coordinates.inertia(M)

    def rotor_inertias(self) -> Vector:
        """Returns the rotor inertia of each degree of freedom of all joints."""
        out = self.zeros(self.mechanism.nv)
        for k, x in self.rotor_torques([self.graph.constant(1.0)] * self.mechanism.nv):
            out[k] = x
        return out

    def rotor_torques(self, a: Sequence[Expr]) -> list[tuple[int, Expr]]:
        """Returns (index, torque) of each rotor's inertia."""
        links = enumerate(self.mechanism.links)
        return [(x.v, self.parameters.armature[i] * a[x.v]) for i, x in links if COORDINATE_COUNTS[x.kind][1] == 1]

    def friction_torques(self, v: Sequence[Expr]) -> list[tuple[int, Expr]]:
        """Returns (index, torque) of joint friction."""
        out = []
        for i, link in enumerate(self.mechanism.links):
            if self.options.friction and COORDINATE_COUNTS[link.kind][1] == 1:
                viscous = self.parameters.damping[i] * v[link.v]
                coulomb = self.parameters.friction[i] * self.graph.sign(v[link.v])
                out.append((link.v, viscous + coulomb))
        return out


def _trace_rnea(t: TraceContext) -> Results:
    return {"tau": t.inverse_dynamics(t.v, t.a, with_external_forces=True)}


def _trace_gravity(t: TraceContext) -> Results:
    nothing = t.zeros(t.mechanism.nv)
    return {"g": t.inverse_dynamics(nothing, nothing)}


#: Cost of a division relative to that of an addition.
DIVISION_COST: Final = 8
#: Algorithms that solve for accelerations; the one with the fewest operations is used.
FORWARD_DYNAMICS_SOLVERS: Final = (solve_by_factorization, solve_by_articulated_bodies)


def _trace_aba(t: TraceContext) -> Results:
    h = t.inverse_dynamics(t.v, t.drift, with_external_forces=True)
    left = [x - y for x, y in zip(t.tau, h, strict=True)]
    return {"a": solve_by_mass_matrix(t, left)}


def solve_by_mass_matrix(t: TraceContext, b: Sequence[Expr]) -> Vector:
    """Returns ``M^-1 b`` by the algorithm with the fewest operations."""
    if t.coordinates.coupled:  # recursions over a tree do not apply
        return _solve_by_factors(t, b)
    solutions = [
        solve(t.graph, t.mechanism, t.placements, t.parameters.inertia, t.rotor_inertias(), b)
        for solve in FORWARD_DYNAMICS_SOLVERS
    ]
    return min(solutions, key=lambda results: _operation_cost(t.graph, results))


def _solve_by_factors(t: TraceContext, b: Sequence[Expr]) -> Vector:
    """Returns ``M^-1 b`` by factors of M, which several calls share."""
    if t.coordinates.coupled:
        return solve_by_elimination(t.graph, t.mass_matrix(), b)
    return solve_by_factorization(t.graph, t.mechanism, t.placements, t.parameters.inertia, t.rotor_inertias(), b)


def _trace_aba_derivatives(t: TraceContext) -> Results:
    """Returns the derivatives of ``a = M^-1 (tau - h)`` by q, v and tau (Carpentier and Mansard 2018, section V).

    They are ``-M^-1 dID/dq``, ``-M^-1 dID/dv`` and ``M^-1``, with ID the inverse dynamics at constant a.
    """
    n, one, zero = t.robot.nv, t.graph.constant(1.0), t.graph.zero
    h = t.inverse_dynamics(t.v, t.drift)
    a = _solve_by_factors(t, [x - y for x, y in zip(t.tau, h, strict=True)])
    by_q, by_v = _differentiate_inverse_dynamics(t, a)
    by_tau = [[one if i == k else zero for i in range(n)] for k in range(n)]
    right = {"da_dq": [[-x for x in c] for c in by_q], "da_dv": [[-x for x in c] for c in by_v], "da_dtau": by_tau}
    return {name: _rows([_solve_by_factors(t, x) for x in columns]) for name, columns in right.items()}


def _trace_terms(t: TraceContext) -> TermTracer:
    """Returns the whole-body terms as expressions; without the input v, they are computed at ``v = 0``."""
    still = t.zeros(t.mechanism.nv)
    moves = "v" in t.inputs
    return TermTracer(t.graph, t.mechanism, t.q, t.v if moves else still, t.drift if moves else still, {})


def _operation_cost(graph: Graph, results: Vector) -> int:
    kinds = [graph.op[i] for i in live_nodes(graph, results)[0]]
    return kinds.count(ADD) + kinds.count(MUL) + DIVISION_COST * kinds.count(DIV)


def _trace_regressor(t: TraceContext) -> Results:
    joints, independent = [body.joint for body in t.robot.bodies], independent_joints(t.robot.bodies)
    losses = [joint is not None and joint.name in independent for joint in joints]
    rotors = [joint is not None and (joint.name in independent or joint.loop is not None) for joint in joints]
    return {"H": t.coordinates.rows(regressor(t.graph, t.mechanism, t.placements, t.v, t.a, losses, rotors))}


def _trace_base_regressor(t: TraceContext) -> Results:
    return {"H": t.coordinates.rows(base_regressor(t.graph, t.mechanism, t.placements, t.v, t.a))}


def _trace_frame_jacobian(t: TraceContext) -> Results:
    J = frame_jacobian(t.graph, t.mechanism, t.placements, t.target_frame)
    return {"J": t.coordinates.columns(J)}


def _trace_frame_position(t: TraceContext) -> Results:
    origin = jacobian_and_origin(t.graph, t.mechanism, t.placements, t.target_frame)[1]
    return {"position": [x * t.mechanism.length for x in origin]}


def _trace_frame_rotation(t: TraceContext) -> Results:
    chain, axes = path_from_root(t.mechanism, t.target_frame.link), t.target_frame.rotation
    body = orientations(t.graph, t.mechanism, t.placements, chain)
    columns = [[t.graph.constant(x) for x in column] for column in axes.T.tolist()]
    if not chain:
        return {"rotation": _rows(columns)}
    return {"rotation": [[dot(row, column) for column in columns] for row in body[chain[-1]]]}


def _trace_frame_drift(t: TraceContext) -> Results:
    return {"drift": frame_acceleration(t.graph, t.mechanism, t.placements, t.v, t.drift, t.target_frame)}


def _differentiate_inverse_dynamics(t: TraceContext, a: Sequence[Expr]) -> tuple[list[Vector], list[Vector]]:
    """Returns the columns of the derivatives of inverse dynamics by q (tangent) and v, at constant a (nv,)."""
    n, first = t.robot.nv, t.robot.nq
    tau = t.inverse_dynamics(t.v, t.coordinates.acceleration(t.inputs["v"], a))
    rates = t.coordinates.tangents(configuration_rates(t.graph, t.mechanism, t.q))
    by_q = [differentiate(t.graph, tau, seeds, a) for seeds in rates]
    by_v = [differentiate(t.graph, tau, {first + k: t.graph.constant(1.0)}, a) for k in range(n)]
    return by_q, by_v


def _trace_rnea_derivatives(t: TraceContext) -> Results:
    by_q, by_v = _differentiate_inverse_dynamics(t, t.inputs["a"])
    return {"dtau_dq": _rows(by_q), "dtau_dv": _rows(by_v), "dtau_da": t.mass_matrix()}


def _rows(columns: Sequence[Vector]) -> list[Vector]:
    """Returns the rows of a matrix of these columns."""
    return [list(row) for row in zip(*columns, strict=True)]


@dataclass(frozen=True, slots=True)
class OperationDefinition:
    """Definition of an operation that can be compiled."""

    arguments: tuple[str, ...]  # names of its inputs
    trace: Callable[[TraceContext], Results]  # function that records its outputs
    has_mass_properties: bool = True  # whether it depends on mass properties, which may then be run-time inputs
    has_external_forces: bool = False  # whether it depends on external forces
    needs_frame: bool = False  # whether it refers to one named frame
    uses_file_frames: bool = False  # whether it is traced in the file's body frames, to which its columns refer


#: Operations that do not depend on mass properties of links, and those that also refer to a frame.
_massless = partial(OperationDefinition, has_mass_properties=False)
_of_frame = partial(_massless, needs_frame=True)

OPERATIONS: Final[Mapping[str, OperationDefinition]] = MappingProxyType(
    {
        "rnea": OperationDefinition(("q", "v", "a"), _trace_rnea, has_external_forces=True),
        "nle": OperationDefinition(("q", "v"), lambda t: {"h": t.inverse_dynamics(t.v, t.drift)}),
        "gravity": OperationDefinition(("q",), _trace_gravity),
        "crba": OperationDefinition(("q",), lambda t: {"M": t.mass_matrix()}),
        "aba": OperationDefinition(("q", "v", "tau"), _trace_aba, has_external_forces=True),
        "regressor": _massless(("q", "v", "a"), _trace_regressor, uses_file_frames=True),
        "base_regressor": _massless(("q", "v", "a"), _trace_base_regressor),
        "rnea_derivatives": OperationDefinition(("q", "v", "a"), _trace_rnea_derivatives),
        "aba_derivatives": OperationDefinition(("q", "v", "tau"), _trace_aba_derivatives),
        "center_of_mass": _massless(("q",), lambda t: {"com": _trace_terms(t).com()}),
        "com_jacobian": _massless(("q",), lambda t: {"J": t.coordinates.columns(_trace_terms(t).com_jacobian())}),
        "centroidal_momentum": _massless(("q", "v"), lambda t: {"momentum": _trace_terms(t).momentum()[0]}),
        "frame_jacobian": _of_frame(("q",), _trace_frame_jacobian),
        "frame_drift": _of_frame(("q", "v"), _trace_frame_drift),
    }
)


#: Operations that have gradients: those of `compile` without derivatives and regressors, and poses of frames.
DIFFERENTIABLE_OPERATIONS: Final[Mapping[str, OperationDefinition]] = MappingProxyType(
    {name: x for name, x in OPERATIONS.items() if "derivatives" not in name and "regressor" not in name}
    | {
        "frame_position": _of_frame(("q",), _trace_frame_position),
        "frame_rotation": _of_frame(("q",), _trace_frame_rotation),
    }
)


@lru_cache(maxsize=8)
def kernel_mechanism(robot: Robot, *, plain: bool = False) -> Mechanism:
    """Returns the mechanism over which operations of a robot are traced; cached for the latest robots."""
    mech = build_mechanism(robot, keep_file_axes=plain)
    return mech if plain else rescale_lengths(mech, most_common_offset(mech))


def start_trace(
    definition: OperationDefinition, robot: Robot, options: KernelOptions, frame: str | None
) -> tuple[TraceContext, list[tuple[str, int]]]:
    """Returns the state at the start of tracing an operation, and name and size of each of its arguments."""
    graph, mech = Graph(), kernel_mechanism(robot, plain=definition.uses_file_frames)
    arguments = operation_arguments(definition, robot, options)
    given = argument_inputs(graph, arguments)
    parameters = (
        input_parameters(graph, mech, given["parameters"])
        if "parameters" in given
        else constant_parameters(graph, mech)
    )
    if options.normalized:
        for _, first, size in robot.unit_norm_slices:
            part = slice(first, first + size)
            inverse = 1.0 / graph.sqrt(total((x * x for x in given["q"][part]), graph.zero))
            given["q"][part] = [x * inverse for x in given["q"][part]]
    where = frame_placement(robot, mech, frame) if frame is not None else None
    return TraceContext(robot, mech, options, graph, given, parameters, where, frame), arguments


def operation_arguments(definition: OperationDefinition, robot: Robot, options: KernelOptions) -> list[tuple[str, int]]:
    """Returns name and size of each argument of an operation."""
    names = list(definition.arguments)
    names += ["fext"] if definition.has_external_forces and options.forces else []
    sizes = {"q": robot.nq, "fext": 6 * len(options.forces)}
    if definition.has_mass_properties and options.runtime:
        names.append("parameters")
        sizes["parameters"] = len(parameter_layout(kernel_mechanism(robot)))
    return [(name, sizes.get(name, robot.nv)) for name in names]


def argument_inputs(graph: Graph, arguments: Sequence[tuple[str, int]]) -> dict[str, Vector]:
    """Returns the inputs of a graph by name of the argument."""
    given, start = {}, 0
    for name, size in arguments:
        given[name] = graph.inputs(start, size)
        start += size
    return given


def trace_operation(operation: str, robot: Robot, options: KernelOptions, frame: str | None = None) -> Program:
    """Applies an operation to symbolic inputs, and returns the program of the recorded operations."""
    definition = {**OPERATIONS, **DIFFERENTIABLE_OPERATIONS}[operation]
    trace, arguments = start_trace(definition, robot, options, frame)
    return finish_trace(trace, operation, arguments, definition.trace(trace))


def finish_trace(t: TraceContext, operation: str, arguments: Sequence[tuple[str, int]], results: Results) -> Program:
    """Returns the program that computes results from the inputs of a graph."""
    shapes = [(name, (len(x), len(x[0])) if isinstance(x[0], list) else (len(x),)) for name, x in results.items()]
    return make_program(
        operation if t.frame_name is None else f"{operation}:{t.frame_name}",
        t.graph,
        arguments,
        shapes,
        [entry for x in results.values() for entry in flatten_result(x)],
        t.coordinates.unit_norm_groups(unit_norm_groups(t.mechanism)),
        t.coordinates.ranges,
        NORMALIZABLE_TOLERANCE if t.options.normalized else None,
    )


def flatten_result(x: Vector | list[Vector]) -> Vector:
    """Returns the entries of a vector or matrix, row by row."""
    return [entry for row in x for entry in (row if isinstance(row, list) else [row])]


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
