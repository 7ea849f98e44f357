"""`TickTerms`: all rigid-body terms of one tick of whole-body control, for any robot, in one compiled call."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ..compiler import machine
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_sequence
from ..robot.robot import Robot
from ..urdf.tree import Array
from . import kernel_cache
from .c_source import CSource, c_source
from .cuda_kernels import LANES, ptx_module
from .graph import Graph, Program, Vector, make_program
from .joint_coordinates import JointCoordinateMap, moving_entries
from .kernel_cache import load_or_compile, load_or_generate
from .kernels import Kernel
from .kinematics import frame_placement
from .llvm_module import streaming_module
from .mechanism import Mechanism
from .operations import kernel_mechanism, unit_norm_groups
from .tick_trace import TermTracer, moving_velocity_indices

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FrameLayout:
    """Start of each term of a frame in the vector of all terms.

    Attributes:
        rotation: index of the (3, 3) frame axes in the world, row by row.
        origin: index of the (3,) origin in the world [m].
        velocity: index of the (6,) linear [m/s] and angular [rad/s] velocity of the origin, world axes.
        drift: index of the (6,) part of the velocity's derivative that does not depend on joint accelerations: the
            classical acceleration of the origin [m/s^2] and the angular acceleration [rad/s^2] at ``a = 0``, world
            axes.
        jacobian: index of the (6, len(chain)) Jacobian, row by row: ``velocity = jacobian @ v[chain]``.
        chain: indices of the entries of v that move the frame, ascending.
    """

    rotation: int
    origin: int
    velocity: int
    drift: int
    jacobian: int
    chain: tuple[int, ...]

    def shapes(self) -> dict[str, Shape]:
        """Returns the shapes of the blocks by name, in order."""
        return {"rotation": (3, 3), "origin": (3,), "velocity": (6,), "drift": (6,), "jacobian": (6, len(self.chain))}


@dataclass(frozen=True, slots=True)
class TermsLayout:
    """Start of each term in the vector of all terms; matrices are stored row by row.

    Names and conventions are those of `quaddyn.dynamics.State`.  Terms that are None are not computed.

    Attributes:
        nv: size of v.
        M: index of the (nv, nv) joint-space inertia, both triangles, armature included.
        h: index of the (nv,) Coriolis, centrifugal and gravity terms [N m, N].
        com: index of the (3,) center of mass, world axes [m].
        com_velocity: index of its (3,) velocity, world axes [m/s].
        com_jacobian: index of the (3, nv) Jacobian of the center of mass, world axes; None if the root is free and the
            only joint on the world, as then the first six rows of ``M a + h`` contain the same.
        com_drift: index of the (3,) acceleration of the center of mass at ``a = 0`` [m/s^2]; None if `com_jacobian` is.
        momentum: index of the (6,) linear [kg m/s] and, about the center of mass, angular momentum [kg m^2/s], world
            axes.
        momentum_matrix: index of the (6, nv) matrix A with ``momentum = A v``.
        momentum_drift: index of the (6,) vector ``dA/dt v``.
        frames: layout of each frame by name, in the order in which they were requested.
        size: size of the vector.
    """

    nv: int
    M: int
    h: int
    com: int
    com_velocity: int
    com_jacobian: int | None
    com_drift: int | None
    momentum: int | None
    momentum_matrix: int | None
    momentum_drift: int | None
    frames: Mapping[str, FrameLayout]
    size: int

    def blocks(self) -> Iterator[tuple[str, int, Shape]]:
        """Yields (name, start, shape) of every block in order; those of a frame are named like ``FL.origin``."""
        for name, shape in _shapes(self.nv).items():
            start = getattr(self, name)
            if start is not None:
                yield name, start, shape
        for frame, at in self.frames.items():
            for name, shape in at.shapes().items():
                yield f"{frame}.{name}", getattr(at, name), shape

    def views(self, terms: Array) -> dict[str, Array]:
        """Returns every block of a vector of terms as a view of its shape, by the names of `blocks`."""
        return {name: terms[start : start + math.prod(shape)].reshape(shape) for name, start, shape in self.blocks()}


def _shapes(nv: int) -> dict[str, Shape]:
    return {
        "M": (nv, nv),
        "h": (nv,),
        "com": (3,),
        "com_velocity": (3,),
        "com_jacobian": (3, nv),
        "com_drift": (3,),
        "momentum": (6,),
        "momentum_matrix": (6, nv),
        "momentum_drift": (6,),
    }


def terms_layout(mechanism: Mechanism, nv: int, chains: Mapping[str, Sequence[int]], *, momentum: bool) -> TermsLayout:
    """Returns the layout for frames moved by these entries of v, for a robot with nv degrees of freedom."""
    roots = [link for link in mechanism.links if link.parent < 0]
    alone = len(roots) == 1 and roots[0].kind == "floating"
    omitted = {"com_jacobian", "com_drift"} if alone else set()
    omitted |= set() if momentum else {"momentum", "momentum_matrix", "momentum_drift"}
    end = 0
    starts: dict[str, int | None] = {}
    for name, shape in _shapes(nv).items():
        starts[name] = None if name in omitted else end
        end += 0 if name in omitted else math.prod(shape)
    frames: dict[str, FrameLayout] = {}
    for name, moving in chains.items():
        at = end
        frames[name] = FrameLayout(at, at + 9, at + 12, at + 18, at + 24, tuple(moving))
        end = at + 24 + 6 * len(moving)
    return TermsLayout(nv, **starts, frames=MappingProxyType(frames), size=end)  # type: ignore[arg-type]


class TickTerms:
    """All rigid-body terms of one control tick, compiled into one straight-line function of (q, v).

    ``terms(q, v, out)`` writes the terms to `out`, at the indices in `layout`.  `compute` is the same function as a
    built-in, whose call is about 50 ns faster.  The kernel is cached on disk and can be shared between threads.

    Args:
        robot: a loaded robot with at least one degree of freedom.
        frames: names of frames in ``robot.frame_names``, each once.
        momentum: whether to compute centroidal momentum, its matrix and its drift.

    Attributes:
        robot: the robot.
        frames: names of the frames.
        layout: index of the first entry of each term in `out`.
        size: size of `out`.
        operations: operation counts of the code.
        compute: built-in function ``compute(q, v, out)``.
        address: address of the C function ``int64_t f(const double *q, const double *v, double *out)``, for compiled
            callers; it returns 0, or 1 for a q or v that `compute` rejects.  Valid during the life of this object.

    Raises:
        UnknownNameError: no such frame.
        ArgumentError: a frame named twice, or a robot without degrees of freedom or without mass.
        UnsupportedMachineError: machine code cannot be made or run here.
    """

    def __init__(self, robot: Robot, frames: Sequence[str], momentum: bool = False) -> None:
        self.robot, self.momentum = robot, momentum
        self.layout = _validated_layout(robot, frames, momentum)
        self.frames, self.size = tuple(self.layout.frames), self.layout.size
        interface, code = load_or_compile(
            robot,
            "double",
            ("tick_terms", self.frames, momentum),
            lambda: _trace_terms(robot, self.layout),
            streaming_module,
        )
        self.operations = interface.operations
        slow = _ValidatingFallback(Kernel("tick_terms", robot, interface, code, np.dtype(np.float64)))
        self.compute = kernel_cache.make_fast_entry(code, slow, "tick_terms", np.dtype(np.float64))
        self.address: int = ctypes.cast(code.one, ctypes.c_void_p).value or 0

    def __call__(self, q: Array, v: Array, out: Array) -> Array:
        """Fills `out` with the terms at (q, v).

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity [rad/s, m/s].
            out: (size,) float64, not overlapping the others in memory.

        Returns:
            `out`.

        Raises:
            ArgumentTypeError: an argument is not an array of floats.
            ArgumentError: an argument has a wrong shape, is not finite, or is not a configuration.
        """
        return self.compute(q, v, out)  # type: ignore[no-any-return]

    def ptx(self) -> bytes:
        """Returns the module of `ptx_module` in the layout `LANES`, generated or loaded from the cache."""
        _, ptx = load_or_generate(
            self.robot,
            "double",
            ("cuda", LANES, "tick_terms", self.frames, self.momentum),
            machine.GPU,
            lambda: _trace_terms(self.robot, self.layout),
            lambda program: machine.generate_ptx(ptx_module(program, "double", LANES)),
        )
        return ptx

    def __reduce__(self) -> tuple[object, ...]:
        return TickTerms, (self.robot, self.frames, self.momentum)

    def __repr__(self) -> str:
        return f"TickTerms({self.robot.name!r}, {', '.join(self.frames)}; {self.size} numbers)"


class _ValidatingFallback:
    """Fallback for calls that the fast entry rejects: validates the arguments and raises, or computes the terms."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.__doc__ = TickTerms.__call__.__doc__

    def __call__(self, q: Array, v: Array, out: Array) -> Any:
        for name, x, size in zip(("q", "v", "out"), (q, v, out), self._sizes(), strict=True):
            if isinstance(x, np.ndarray) and x.shape != (size,):
                raise ArgumentError(f"{name}: expected shape ({size},) for {self.kernel.robot}, got {x.shape}")
        return self.kernel(q, v, out=(out,))

    def _sizes(self) -> tuple[int, ...]:
        interface = self.kernel.signature
        return (*(size for _, size in interface.inputs), *(math.prod(shape) for _, shape in interface.outputs))


def tick_terms_c(robot: Robot, frames: Sequence[str], momentum: bool = False, *, name: str = "") -> CSource:
    """Returns the terms of `TickTerms` as C99: ``void go2_tick_terms(const double q[19], const double v[18], ...)``.

    The text is self-contained (it includes math.h only), allocates nothing and has no branches; its banner describes
    the layout.  Unlike `TickTerms` it does not validate its arguments.

    Args:
        robot: a loaded robot with at least one degree of freedom.
        frames: names of frames, each once.
        momentum: whether to compute centroidal momentum, its matrix and its drift.
        name: name of the function; by default that of the robot and ``tick_terms``.

    Raises:
        UnknownNameError: no such frame.
        ArgumentError: a frame named twice, or a robot without degrees of freedom or without mass.
    """
    layout = _validated_layout(robot, frames, momentum)
    notes = ["", "Entries of terms, matrices row by row, a frame's Jacobian over the entries of v that move it:"]
    notes += [f"  {start} {name} {shape}" for name, start, shape in layout.blocks()]
    notes += [f"  {name} is moved by v[{', '.join(map(str, at.chain))}]" for name, at in layout.frames.items()]
    return c_source(robot, _trace_terms(robot, layout), notes=notes, name=name)


def _validated_layout(robot: Robot, frames: Sequence[str], momentum: bool) -> TermsLayout:
    """Validates the arguments and returns the layout."""
    if not isinstance(robot, Robot):
        raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
    if type(momentum) is not bool:
        raise ArgumentTypeError(f"momentum: expected a bool, got {type(momentum).__name__}")
    if robot.nv == 0:
        raise ArgumentError(f"robot: {robot.name!r} has no degree of freedom, so there is nothing to compile")
    names = check_sequence("frames", frames, "names")
    mechanism = kernel_mechanism(robot)
    if not any(link.inertia[0] for link in mechanism.links):
        raise ArgumentError(f"robot: no moving body of {robot.name!r} has mass, so there is no center of mass")
    robot.reject_spatial_loops("compiled kernels")
    chains = dict[str, list[int]]()
    for name in names:
        if name in chains:
            raise ArgumentError(f"frames: expected each frame once, but {name!r} is named twice")
        chains[name] = moving_entries(
            robot, moving_velocity_indices(mechanism, frame_placement(robot, mechanism, name).link)
        )
    return terms_layout(mechanism, robot.nv, chains, momentum=momentum)


def _trace_terms(robot: Robot, layout: TermsLayout) -> Program:
    """Returns the program that computes the terms of this layout."""
    graph, mechanism = Graph(), kernel_mechanism(robot)
    coordinates = JointCoordinateMap(graph, robot, mechanism, graph.inputs(0, robot.nq))
    velocity = graph.inputs(robot.nq, robot.nv)
    placements = {name: frame_placement(robot, mechanism, name) for name in layout.frames}
    tracer = TermTracer(
        graph, mechanism, coordinates.q, coordinates.velocity(velocity), coordinates.drift(velocity), placements
    )
    results: list[Vector] = [
        *coordinates.inertia(tracer.M),
        coordinates.force(tracer.h),
        tracer.com(),
        tracer.com_velocity(),
    ]
    if layout.com_jacobian is not None:
        results += [*coordinates.columns(tracer.com_jacobian()), tracer.com_drift()]
    if layout.momentum is not None:
        momentum, matrix, change = tracer.momentum()
        results += [momentum, *coordinates.columns(matrix), change]
    for name in layout.frames:
        frame = tracer.frames[name]
        jacobian = coordinates.chain_jacobian(
            frame.jacobian, moving_velocity_indices(mechanism, frame_placement(robot, mechanism, name).link)
        )
        results += [*frame.rotation, frame.origin, frame.velocity, frame.drift, *jacobian]
    flat = [x for part in results for x in part]
    inputs, outputs = (("q", robot.nq), ("v", robot.nv)), (("terms", (layout.size,)),)
    return make_program(
        "tick_terms",
        graph,
        inputs,
        outputs,
        flat,
        coordinates.unit_norm_groups(unit_norm_groups(mechanism)),
        coordinates.ranges,
    )
