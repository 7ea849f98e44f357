"""Compiled operations of one robot, called like the methods of `Dynamics`, on one state or on a batch.

`compile` and `generate_c` make machine code and C of operations given by name.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..cuda.driver import parse_device
from ..deprecation import renamed_parameters
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import check_sequence, spatial_vector
from ..robot.configuration import independent_joints
from ..robot.robot import Robot
from ..urdf.tree import Array
from . import kernel_cache
from .c_source import CSource, c_source
from .cuda_kernels import BROADCAST_ARGUMENTS, LAYOUTS, arguments_by_name
from .graph import OperationCounts
from .kernel_cache import KernelSignature, NativeKernel, load_or_compile
from .llvm_module import batch_module
from .llvm_writer import MAX_ANGLE, NORMALIZABLE_TOLERANCE, UNIT_NORM_TOLERANCE
from .operations import OPERATIONS, KernelOptions, kernel_mechanism, trace_operation
from .parameters import parameter_names, standard_to_base_map

Floats = NDArray[Any]
#: Minimum number of states of a batch per thread; smaller parts cost more in overhead than they save.
MIN_ROWS_PER_THREAD = 64


class BatchRneaDerivatives(NamedTuple):
    """Partial derivatives of ``tau = rnea(q, v, a)``, each (nv, nv) or (N, nv, nv); see `Dynamics.rnea_derivatives`."""

    dtau_dq: Floats
    dtau_dv: Floats
    dtau_da: Floats


class BatchAbaDerivatives(NamedTuple):
    """Partial derivatives of ``a = aba(q, v, tau)``, each (nv, nv) or (N, nv, nv); see `Dynamics.aba_derivatives`."""

    da_dq: Floats
    da_dv: Floats
    da_dtau: Floats


#: Result of the operations with several outputs, by name.
DERIVATIVES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"rnea_derivatives": BatchRneaDerivatives, "aba_derivatives": BatchAbaDerivatives}
)


class Operation:
    """Operation on arrays: validates the arguments and runs a method of the subclass."""

    def __init__(self, name: str, robot: str, signature: KernelSignature, dtype: np.dtype[Any]) -> None:
        self.name, self.robot, self.signature, self.dtype = name, robot, signature, dtype
        self.defaults: dict[str, Floats] = {}
        self.forces: tuple[str, ...] = ()
        #: Tolerance of the sum of squares of quaternions and (cos, sin) pairs.
        self.unit_tolerance = UNIT_NORM_TOLERANCE["double" if dtype == np.float64 else "float"]
        #: Function of q (nq,) that raises if a kinematic loop is not closed at q; None without loops.
        self.check_loop_closure: Callable[[Array], None] | None = None

    def __call__(self, *arguments: object, out: object = None, threads: int = 1, **named: object) -> Any:
        """Runs the operation on one state or a batch; arguments as in `describe_kernel`."""
        arrays, rows = self._collect_arguments(arguments, named)
        if type(threads) is not int or threads < 1:
            raise ArgumentError(f"threads: expected a positive int, got {threads!r}")
        results, targets = self._result_arrays(out, arrays, rows)
        n = 1 if rows is None else rows
        if n:
            self._run(arrays, results, n, rows is None, threads)
        for result, target in zip(results, targets, strict=True):
            if target is not result:
                target[...] = result
        return self._pack_results(targets)

    def _pack_results(self, results: Sequence[Floats]) -> Any:
        """Returns one array, or several as a named tuple."""
        return results[0] if len(results) == 1 else DERIVATIVES[self.name](*results)

    # -- arguments -------------------------------------------------------------------------------------------
    def _collect_arguments(
        self, arguments: Sequence[object], named: Mapping[str, object]
    ) -> tuple[list[Floats], int | None]:
        """Returns the validated input arrays in order, and the number of rows; None for one state."""
        given = arguments_by_name(self.name, self.signature, arguments, named, self.defaults)
        arrays: list[Floats] = []
        rows, first = -1, ""
        for name, size in self.signature.inputs:
            x = given[name]
            if name == "fext" and isinstance(x, Mapping):
                x = self._stack_forces(x)
            if type(x) is not np.ndarray or x.dtype.kind != "f" or x.dtype.itemsize not in (4, 8):
                got = f"an array of {x.dtype}" if isinstance(x, np.ndarray) else type(x).__name__
                raise ArgumentTypeError(
                    f"{name}: expected a numpy array of float64 or float32, shape ({size},) or (N, {size}), got {got}"
                )
            if x.ndim not in (1, 2) or x.shape[-1] != size:
                raise ArgumentError(f"{name}: expected shape ({size},) or (N, {size}) for {self.robot}, got {x.shape}")
            mine = len(x) if x.ndim == 2 else -1
            if not first:
                rows, first = mine, name
            elif mine != rows and not (name in BROADCAST_ARGUMENTS and mine == -1):
                raise ArgumentError(
                    f"{name}: has shape {x.shape}, but {first} has shape {arrays[0].shape}; pass single states only, "
                    "or batches with the same number of rows"
                )
            if mine == -1 and rows != -1:
                x = np.broadcast_to(x, (rows, size))
            arrays.append(self._as_kernel_array(x))
        return arrays, None if rows == -1 else rows

    def _stack_forces(self, forces: Mapping[object, object]) -> Floats:
        """Returns forces given by frame name as one array (6 k,) or (N, 6 k).

        Each is (3,) or (6,), or N rows of these.
        """
        parts: dict[str, Floats] = {}
        for name, given in forces.items():
            f = spatial_vector(given)
            if name not in self.forces:
                raise UnknownNameError(
                    "frame in fext= (compile was called with other frames in forces=)", name, self.forces
                )
            if (
                not isinstance(f, np.ndarray)
                or f.ndim not in (1, 2)
                or f.shape[-1] not in (3, 6)
                or f.dtype.kind != "f"
            ):
                raise ArgumentError(f"fext[{name!r}]: expected a float array of shape (3,), (6,), (N, 3) or (N, 6)")
            parts[str(name)] = f
        batches = {f.shape[0] for f in parts.values() if f.ndim == 2}
        if len(batches) > 1:
            raise ArgumentError(f"fext: expected the same number of rows for all forces, got {sorted(batches)}")
        out = np.zeros((*batches, 6 * len(self.forces)))
        for name, f in parts.items():
            start = 6 * self.forces.index(name)
            out[..., start : start + f.shape[-1]] = f
        return out

    def _as_kernel_array(self, x: Floats) -> Floats:
        """Returns a C-contiguous, aligned array of the kernel's dtype.

        Values beyond the range of the dtype become infinite and are rejected later.
        """
        with np.errstate(over="ignore"):
            return np.require(x, dtype=self.dtype, requirements=("C", "A"))

    def _result_arrays(
        self, out: object, arrays: Sequence[Floats], rows: int | None
    ) -> tuple[list[Floats], list[Floats]]:
        """Returns the arrays to compute into and those to return; the same ones if `out` can be written directly."""
        shapes = [shape if rows is None else (rows, *shape) for _, shape in self.signature.outputs]
        if out is None:
            results = _empty_arrays(shapes, self.dtype)
            return results, results
        given = out if isinstance(out, tuple) else (out,)
        if len(given) != len(shapes):
            raise ArgumentError(f"out: expected {len(shapes)} arrays, got {len(given)}")
        results = []
        for x, shape in zip(given, shapes, strict=True):
            if type(x) is not np.ndarray or x.dtype != self.dtype:
                got = f"an array of {x.dtype}" if isinstance(x, np.ndarray) else type(x).__name__
                raise ArgumentTypeError(f"out: expected a numpy array of {self.dtype}, got {got}")
            if x.shape != shape:
                raise ArgumentError(f"out: expected shape {shape}, got {x.shape}")
            if not x.flags.writeable:
                raise ArgumentError("out: the array is read-only")
            apart = not any(np.may_share_memory(x, y) for y in arrays)
            direct = apart and x.flags.c_contiguous and x.flags.aligned
            results.append(x if direct else np.empty(shape, dtype=self.dtype))
        direct_pairs = itertools.combinations([x for x, y in zip(results, given, strict=True) if x is y], 2)
        if any(np.may_share_memory(x, y) for x, y in direct_pairs):
            raise ArgumentError("out: two of the arrays share memory; pass separate arrays")
        return results, list(given)

    # -- running ---------------------------------------------------------------------------------------------
    def _run(self, arrays: list[Floats], results: list[Floats], n: int, single: bool, threads: int) -> None:
        """Computes `results` from `arrays`: n rows, or single states."""
        raise NotImplementedError

    def _raise_if_invalid(self, arrays: Sequence[Floats], results: Sequence[Floats]) -> None:
        """Raises for invalid data that the kernel detected; returns if only the sum of all values overflowed."""
        element = "double" if self.dtype == np.float64 else "float"
        for (name, _), x in zip(self.signature.inputs, arrays, strict=True):
            wrong = np.argwhere(~np.isfinite(x))
            if len(wrong):
                at = tuple(int(k) for k in wrong[0])
                raise ArgumentError(
                    f"{name}: every entry must be finite, got {name}[{', '.join(map(str, at))}] = {x[at]}"
                    + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else "")
                )
            if name == "q":
                self._raise_if_invalid_configuration(
                    np.atleast_2d(x), self.unit_tolerance, MAX_ANGLE[element], x.ndim == 1
                )
                if self.check_loop_closure is not None:
                    for row in np.atleast_2d(x).astype(np.float64):
                        self.check_loop_closure(row)
        for y in results:
            if not np.isfinite(y).all():
                sizes = ", ".join(
                    f"max|{name}| = {np.abs(x).max(initial=0.0):.3g}"
                    for (name, _), x in zip(self.signature.inputs, arrays, strict=True)
                )
                raise ArgumentError(
                    f"{self.name}: the result overflows although the arguments are finite ({sizes}); pass smaller "
                    + ("values or parameters for which M(q) is not singular" if self.name == "aba" else "values")
                )

    def _raise_if_invalid_configuration(self, q: Floats, unit: float, largest: float, single: bool) -> None:
        """Raises for quaternions or (cos, sin) pairs without unit norm, and for angles too large to reduce."""

        def row(k: int) -> str:
            return "q" if single else f"q[{k}]"

        for group in self.signature.units:
            with np.errstate(over="ignore"):
                square = np.sum(q[:, list(group)].astype(np.float64) ** 2, axis=1)
            wrong = np.flatnonzero(~(np.abs(square - 1.0) <= unit))
            if wrong.size:
                what = "quaternion (x, y, z, w)" if len(group) == 4 else "(cos, sin)"
                values = q[wrong[0], list(group)]
                low, high = math.sqrt(1.0 - unit), math.sqrt(1.0 + unit)
                expected = f"1 to within {unit / 2:g}" if unit < 0.1 else f"between {low:.3g} and {high:.3g}"
                raise ArgumentError(
                    f"{row(int(wrong[0]))}: the {what} in entries {group[0]}:{group[-1] + 1}, {values}, has norm "
                    f"{math.sqrt(square[wrong[0]]):.9g}, not {expected}; divide it by its norm"
                )
        for k in self.signature.angles:
            wrong = np.flatnonzero(~(np.abs(q[:, k]) <= largest))
            if wrong.size:
                raise ArgumentError(
                    f"{row(int(wrong[0]))}: the angle {q[wrong[0], k]:.6g} rad in entry {k} exceeds {largest:g} rad "
                    "in magnitude; reduce it modulo 2 pi"
                )


class Kernel(Operation):
    """Compiled operation."""

    def __init__(
        self, name: str, robot: Robot, signature: KernelSignature, code: NativeKernel, dtype: np.dtype[Any]
    ) -> None:
        super().__init__(name, robot.name, signature, dtype)
        self.code = code
        self.check_loop_closure = robot.coupling.check if robot.loops and robot.coupling is not None else None
        self.__doc__ = describe_kernel(name, signature)

    def _run(self, arrays: list[Floats], results: list[Floats], n: int, single: bool, threads: int) -> None:
        every = [*arrays, *results]
        if single:
            bad = self.code.one(*kernel_cache.data_addresses(every))
        elif (threads := min(threads, n // MIN_ROWS_PER_THREAD)) < 2:
            bad = self.code.batch(n, *kernel_cache.data_addresses(every))
        else:
            bounds = [n * k // threads for k in range(threads + 1)]
            parts = [[x[a:b] for x in every] for a, b in itertools.pairwise(bounds)]
            with ThreadPoolExecutor(threads) as pool:
                bad = any(
                    pool.map(lambda part: self.code.batch(len(part[0]), *kernel_cache.data_addresses(part)), parts)
                )
        if bad:
            self._raise_if_invalid(arrays, results)


def _empty_arrays(shapes: Sequence[tuple[int, ...]], dtype: np.dtype[Any]) -> list[Floats]:
    """Returns uninitialized arrays in one block of memory, each from a multiple of 64 bytes on.

    The C library returns the memory of several freed arrays to the system, and the next call gets it page by page; that
    of one block it reuses.
    """
    sizes = [math.prod(shape) for shape in shapes]
    steps = [-(-size * dtype.itemsize // 64) * 64 // dtype.itemsize for size in sizes]
    starts = [0, *itertools.accumulate(steps)]
    block = np.empty(starts[-1], dtype)
    return [block[a : a + n].reshape(shape) for a, n, shape in zip(starts, sizes, shapes, strict=False)]


def describe_kernel(name: str, signature: KernelSignature) -> str:
    """Returns the docstring of a compiled operation."""
    arguments = "\n".join(f"    {n}: ({size},) or (N, {size})." for n, size in signature.inputs)
    results = ", ".join(f"{n} {shape}" for n, shape in signature.outputs)
    return (
        f"{name}({', '.join((n for n, _ in signature.inputs))}, *, out=None, threads=1)\n\nCompiled: "
        f"{signature.operations}.\n\nArgs:\n{arguments}\n    out: where to write the result.\n    threads: over how "
        f"many threads at most to spread a batch.\n\nReturns:\n    {results}; with N rows before it for a batch.\n\n"
        "Raises:\n    ArgumentError: an argument of wrong shape or type, before anything is written; or of a "
        "wrong\n        value; the contents of `out` are then undefined."
    )


class NotCompiledError(UnknownNameError, AttributeError):  # type: ignore[misc]
    """The operation exists but was not compiled for this object."""

    def __str__(self) -> str:
        compiled = ", ".join(map(repr, self.known))
        return f"{self.kind} {self.name!r} is not one of ({compiled}); pass its name to qd.compile as well"


class Kernels:
    """Compiled operations of one robot, each an attribute: ``fast.rnea(q, v, a)``; made by `quaddyn.compile`.

    Names, argument order and conventions are those of `Dynamics`.  Every argument is one state, (n,), or a batch, (N,
    n), in C order; float64 or float32, contiguous or not.  ``out=`` is the array to write to, ``threads=`` distributes
    a batch over threads.  Exactly matching arrays (contiguous, of the kernels' dtype) take a fast path with a call
    overhead of about 0.1 microseconds.  Compiled operations can be used by several threads at once.  Whether joint
    positions seem to be in degrees is not examined, unlike by `Dynamics.update` and `Plant.reset`, which warn.

    Args:
        robot: a loaded robot.
        operations: names of the operations to compile.
        options: whether mass properties are run-time parameters, whether friction counts, frames of external forces.
        dtype: float64 or float32.
        frames: names of the frames of "frame_jacobian" and "frame_drift".
        device: "cpu", "cuda" or "cuda:N"; operations for a GPU are `CudaOperation`.
        layout: "rows" for batches (N, n), or "columns" for batches (n, N) on a GPU.

    Attributes:
        robot: the robot.
        device: "cpu", "cuda" or "cuda:N".
        layout: "rows" or "columns".
        names: names of the compiled operations.
        frames: frames for which operations on a frame were compiled.
        operations: operation counts of the code, by name.
        dtype: dtype of results.
        parameter_names: names of the run-time parameters; empty without run-time parameters.
        parameters: (k,) the robot's own run-time parameters; empty without run-time parameters.
        parameter_map: (k, 13 nb) matrix that converts ``Dynamics.parameters()`` to run-time parameters.
    """

    def __init__(
        self,
        robot: Robot,
        operations: Sequence[str],
        options: KernelOptions,
        dtype: np.dtype[Any],
        frames: Sequence[str] = (),
        device: str = "cpu",
        layout: str = "rows",
    ) -> None:
        self.robot, self.names, self.options, self.dtype = robot, tuple(operations), options, dtype
        self.frames, self.device, self.layout = tuple(frames), device, layout
        self.parameter_names: tuple[str, ...] = ()
        self.parameter_map: Array = np.zeros((0, 13 * len(robot.bodies)))
        if options.runtime:
            mech = kernel_mechanism(robot)
            self.parameter_names = parameter_names(robot, mech)
            self.parameter_map = standard_to_base_map(robot, mech)
        self.parameters: Array = self.parameter_map @ standard_parameters(robot)
        self.parameters.flags.writeable = self.parameter_map.flags.writeable = False
        counts: dict[str, OperationCounts] = {}
        for name in self.names:
            if OPERATIONS[name].needs_frame:
                calls = {}
                for frame in self.frames:
                    calls[frame], counts[f"{name}:{frame}"] = self._compile_operation(name, frame)
                setattr(self, name, FrameOperation(name, calls))
            else:
                call, counts[name] = self._compile_operation(name, None)
                setattr(self, name, call)
        self.operations: Mapping[str, OperationCounts] = MappingProxyType(counts)

    def _compile_operation(self, name: str, frame: str | None) -> tuple[Callable[..., Any], OperationCounts]:
        """Returns an operation and its counts."""
        index = parse_device(self.device)
        if index is not None:
            from .cuda_kernels import build_cuda_operation

            operation = build_cuda_operation(
                self.robot,
                (name, self.options, frame),
                lambda: trace_operation(name, self.robot, self.options, frame),
                self.dtype,
                self.layout,
                index,
                defaults={"fext": np.zeros(6 * len(self.options.forces)), "parameters": self.parameters},
                pack=DERIVATIVES.get(name),
            )
            return operation, operation.signature.operations
        kernel = build_kernel(self.robot, name, self.options, self.dtype, frame)
        if self.options.runtime:
            kernel.defaults["parameters"] = self.parameters
        return kernel_cache.make_fast_entry(kernel.code, kernel, name, self.dtype), kernel.signature.operations

    def __getattr__(self, name: str) -> Any:
        """Raises for an operation that was not compiled."""
        if name in OPERATIONS:
            raise NotCompiledError("compiled operation", name, self.__dict__.get("names", ()))
        raise AttributeError(f"Kernels has no attribute {name!r}")

    def __reduce__(self) -> tuple[object, ...]:
        return Kernels, (
            self.robot,
            self.names,
            self.options,
            self.dtype,
            self.frames,
            self.device,
            self.layout,
        )

    def __repr__(self) -> str:
        where = "" if self.device == "cpu" else f", {self.device}, {self.layout}"
        return f"Kernels({self.robot.name!r}, {', '.join(self.names)}, {self.dtype}{where})"


class FrameOperation:
    """Operation on a named frame: ``fast.frame_jacobian(q, "FL")``."""

    def __init__(self, name: str, calls: Mapping[str, Callable[..., Any]]) -> None:
        self.name, self.calls = name, dict(calls)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Runs the operation for one frame, named by the last positional argument or by the keyword `name`.

        Raises:
            UnknownNameError: the operation was not compiled for this frame.
        """
        if "name" in options:
            frame = options.pop("name")
        elif arguments:
            *arguments, frame = arguments  # type: ignore[assignment]
        else:
            raise ArgumentTypeError(f"{self.name}: expected the name of a frame as the last argument, got none")
        if not isinstance(frame, str):
            raise ArgumentTypeError(
                f"{self.name}: the last argument is the name of a frame, got {type(frame).__name__}"
            )
        call = self.calls.get(frame)
        if call is None:
            raise UnknownNameError(f"frame among those compiled for {self.name}", frame, self.calls)
        return call(*arguments, **options)


def standard_parameters(robot: Robot) -> Array:
    """Returns the standard parameters (13 nb,) of a robot, as ``Dynamics.parameters``.

    ``[Lxx Lxy Lxz Lyy Lyz Lzz lx ly lz m fv fc Ia]`` per body.
    """
    rows, joints = [], independent_joints(robot.bodies)
    for body in robot.bodies:
        inertial = body.inertial
        L = inertial.inertia + inertial.mass * (inertial.com @ inertial.com * np.eye(3) - np.outer(*[inertial.com] * 2))
        joint_parameters = (0.0, 0.0, 0.0)
        if body.joint is not None and body.joint.loop is not None:
            joint_parameters = (0.0, 0.0, body.joint.armature)
        elif body.joint is not None and body.joint.name in joints:
            at = robot.velocity_index(body.joint.name)
            joint_parameters = (float(robot.damping[at]), float(robot.friction[at]), float(robot.armature[at]))
        rows.append([*L[np.triu_indices(3)], *(inertial.mass * inertial.com), inertial.mass, *joint_parameters])
    return np.array(rows).ravel()


def build_kernel(
    robot: Robot, name: str, options: KernelOptions, dtype: np.dtype[Any], frame: str | None = None
) -> Kernel:
    """Records the operations of one kernel, compiles and links them, or loads the result from the cache."""
    element = "double" if dtype == np.float64 else "float"
    interface, code = load_or_compile(
        robot, element, (name, options, frame), lambda: trace_operation(name, robot, options, frame), batch_module
    )
    return configure_kernel(Kernel(name, robot, interface, code, dtype), options)


K = TypeVar("K", bound=Kernel)


def configure_kernel(kernel: K, options: KernelOptions) -> K:
    """Sets the attributes of a kernel that depend on the options, and returns it."""
    kernel.forces = options.forces
    kernel.defaults["fext"] = np.zeros(6 * len(options.forces))
    if options.normalized:
        kernel.unit_tolerance = NORMALIZABLE_TOLERANCE
    return kernel


@renamed_parameters(what="operations")
def compile(
    robot: Robot,
    operations: str | Sequence[str] = ("rnea",),
    *,
    dtype: DTypeLike = np.float64,
    parameters: str = "folded",
    friction: bool = False,
    frames: Sequence[str] = (),
    forces: Sequence[str] = (),
    device: str = "cpu",
    layout: str = "rows",
) -> Kernels:
    """Compiles operations of a robot.

    Args:
        robot: a loaded robot with at least one degree of freedom.
        operations: name or names of operations, as in `Dynamics`: "rnea", "nle", "gravity", "crba", "aba", "regressor"
            (13 columns a body), "rnea_derivatives", "aba_derivatives", "center_of_mass", "com_jacobian",
            "centroidal_momentum", "frame_jacobian", "frame_drift"; and "base_regressor", whose columns belong to the
            first of the parameters of ``parameters="runtime"``, those that are mass properties.  The operations on the
            center of mass use the robot's own masses.
        dtype: float64 or float32.
        parameters: "folded" (the robot's mass properties are constants of the code) or "runtime" (base parameters are
            a last argument, by default the robot's own; see `Kernels.parameter_map`).
        friction: whether joint friction (viscous and Coulomb) is part of the dynamics; `Dynamics` leaves it out.
        frames: names for "frame_jacobian" and "frame_drift" ("local_world_aligned"); by default the robot's feet.
        forces: frames at which external forces act: "rnea" and "aba" then take ``fext``, by name as in `Dynamics` or
            stacked, (6 k,) force [N] and torque [N m] in world axes in this order.
        device: "cpu", or a GPU with NVIDIA's driver: "cuda" (the first) or "cuda:N".  Operations then take arrays in
            the memory of the GPU; see `quaddyn.kernels.cuda_kernels.CudaOperation`.
        layout: memory layout of batches on a GPU: "rows", (N, n), or "columns", (n, N).

    Returns:
        The compiled operations.

    Raises:
        UnknownNameError: an operation that cannot be compiled, or a frame that does not exist.
        ArgumentError: an option out of range.
        UnsupportedMachineError: machine code cannot be made or run here.
        CudaError: there is no driver or GPU that can be used.
    """
    on_gpu = parse_device(device) is not None
    if layout not in LAYOUTS or (layout == "columns" and not on_gpu):
        allowed = " or ".join(map(repr, LAYOUTS)) if on_gpu else "'rows' for device='cpu'"
        raise ArgumentError(f"layout={layout!r}: expected {allowed}")
    return Kernels(*check_options(robot, operations, dtype, parameters, friction, frames, forces), device, layout)


@renamed_parameters(what="operation")
def generate_c(
    robot: Robot,
    operation: str = "rnea",
    *,
    dtype: DTypeLike = np.float64,
    parameters: str = "folded",
    friction: bool = False,
    frame: str | None = None,
    forces: Sequence[str] = (),
) -> str:
    """Returns C99 source of one operation: ``void go2_rnea(const double q[19], ..., double tau[18])``.

    The text is self-contained (it includes math.h only), allocates nothing and has no branches.  Its first comment
    gives the quantity, the order of joints and arguments, and the number of operations.  Unlike compiled kernels it
    does not validate its arguments.

    Args:
        robot: a loaded robot.
        operation: name of the operation, see `compile`.
        dtype: float64 or float32.
        parameters: "folded" or "runtime", see `compile`.
        friction: whether joint friction is part of the dynamics.
        frame: name of the frame of "frame_jacobian" and "frame_drift"; None for other operations.
        forces: names of frames at which external forces act.

    Raises:
        UnknownNameError: an operation or a frame that does not exist.
        ArgumentError: an option out of range.
    """
    return c_files(
        robot, operation, dtype=dtype, parameters=parameters, friction=friction, frame=frame, forces=forces
    ).source


@renamed_parameters(what="operation")
def c_files(
    robot: Robot,
    operation: str = "rnea",
    *,
    dtype: DTypeLike = np.float64,
    parameters: str = "folded",
    friction: bool = False,
    frame: str | None = None,
    forces: Sequence[str] = (),
) -> CSource:
    """Returns the C99 source and header of one operation.

    Args:
        robot: see `generate_c`.
        operation: see `generate_c`.
        dtype: see `generate_c`.
        parameters: see `generate_c`.
        friction: see `generate_c`.
        frame: see `generate_c`.
        forces: see `generate_c`.

    Raises:
        UnknownNameError: an operation or a frame that does not exist.
        ArgumentError: an option out of range.
    """
    frames = () if frame is None else (frame,)
    _, (name,), options, kind, _ = check_options(
        robot, (operation,), dtype, parameters, friction, frames, forces, explicit_frames=True
    )
    needs_frame = OPERATIONS[name].needs_frame
    if needs_frame != (frame is not None):
        raise ArgumentError(
            f"frame={frame!r}: {name} "
            + ("requires a frame; pass its name" if needs_frame else "does not use a frame; remove it")
        )
    return c_source(robot, trace_operation(name, robot, options, frame), "double" if kind == np.float64 else "float")


def check_options(
    robot: Robot,
    operations: str | Sequence[str],
    dtype: DTypeLike,
    parameters: str,
    friction: bool,
    frames: Sequence[str],
    forces: Sequence[str],
    *,
    explicit_frames: bool = False,
) -> tuple[Robot, tuple[str, ...], KernelOptions, np.dtype[Any], tuple[str, ...]]:
    """Validates the options of `compile` and returns the arguments of `Kernels`: names are unique, defaults filled in.

    With `explicit_frames`, `frames` has no default, so that a missing frame is not an error here.
    """
    if not isinstance(robot, Robot):
        raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
    try:
        kind = np.dtype(dtype)
    except TypeError as error:
        raise ArgumentTypeError(f"dtype: expected float64 or float32; {error}") from None
    if kind not in (np.float64, np.float32):
        raise ArgumentTypeError(f"dtype: expected float64 or float32, got {kind}")
    names = check_sequence("operations", (operations,) if isinstance(operations, str) else operations, "operations")
    for name in names:
        if name not in OPERATIONS:
            raise UnknownNameError("operation", name, OPERATIONS)
    if not names:
        raise ArgumentError(f"operations: expected at least one operation, got none; known: {', '.join(OPERATIONS)}")
    if robot.nv == 0:
        raise ArgumentError(f"robot: {robot.name!r} has no degree of freedom, so there is nothing to compile")
    if parameters not in ("folded", "runtime"):
        raise ArgumentError(f"parameters={parameters!r}: expected 'folded' or 'runtime'")
    if type(friction) is not bool:
        raise ArgumentTypeError(f"friction: expected a bool, got {type(friction).__name__}")
    forces, frames = check_sequence("forces", forces, "names"), check_sequence("frames", frames, "names")
    for name in (*forces, *frames):
        robot.frame_id(name)  # raises for an unknown name
    if len(set(forces)) < len(forces):
        raise ArgumentError(f"forces={forces!r}: expected each frame once; add up several forces at one frame")
    if not explicit_frames and any(OPERATIONS[name].needs_frame for name in names) and not (frames or robot.feet):
        raise ArgumentError(
            f"frames: required for operations about a frame, because {robot.name!r} has no feet, which are the "
            "default; pass the names of frames"
        )
    options = KernelOptions(parameters == "runtime", friction, forces)
    return robot, tuple(dict.fromkeys(names)), options, kind, tuple(dict.fromkeys(frames or robot.feet))
