"""`DifferentiableDynamics`: operations of a robot with gradients, for libraries of automatic differentiation.

Gradients of operations: kernels that compute the gradient of ``w . y`` by the arguments of ``y``, for weights w.

Reverse mode costs a small multiple of the operation itself, however many arguments there are, and forms no Jacobian.
The gradient of forward dynamics follows from that of inverse dynamics: for ``a = M^-1 (tau - h)`` and ``l = M^-1 w``,
the gradient by tau is l, and that by the other arguments is the gradient of ``-l . rnea(q, v, a)`` at constant l and a.

Quaternions and (cos, sin) pairs p of q are divided by their norm, ``f(p / |p|)``, so that the gradient by p is defined
for all directions: it has no component along p.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
import threading
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError
from ..robot.robot import Robot
from ..urdf.tree import Array
from .cuda_kernels import CudaOperation, build_cuda_operation
from .graph import Program, Vector, pull_back
from .kernel_cache import load_or_compile
from .kernels import Floats, Kernel, Kernels, build_kernel, check_options, configure_kernel
from .llvm_module import batch_module
from .operations import (
    DIFFERENTIABLE_OPERATIONS,
    KernelOptions,
    TraceContext,
    argument_inputs,
    finish_trace,
    flatten_result,
    operation_arguments,
    solve_by_mass_matrix,
    start_trace,
    trace_operation,
)

#: Operations whose gradient takes their result as an argument, which would otherwise be computed again.
USES_RESULT = ("aba",)


def trace_gradient(operation: str, robot: Robot, options: KernelOptions, frame: str | None = None) -> Program:
    """Returns the program of an operation's gradient.

    Its inputs are the arguments of the operation, for operations in `USES_RESULT` also their result, and the weights
    ``cotangent`` of the results.
    """
    definition = DIFFERENTIABLE_OPERATIONS[operation]
    t, arguments = start_trace(definition, robot, options, frame)
    if operation in USES_RESULT:
        results: Vector = []
        sizes = [*arguments, ("result", robot.nv), ("cotangent", robot.nv)]
    else:
        results = [x for part in definition.trace(t).values() for x in flatten_result(part)]
        sizes = [*arguments, ("cotangent", len(results))]
    given = argument_inputs(t.graph, sizes)
    if operation in USES_RESULT:
        gradient = _pull_back_forward_dynamics(t, arguments, given)
    else:
        gradient = pull_back(t.graph, results, given["cotangent"], [given[name] for name, _ in arguments])
    parts = dict(zip((name for name, _ in arguments), gradient, strict=True))
    return finish_trace(t, f"{operation}_gradient", sizes, parts)


def _pull_back_forward_dynamics(
    t: TraceContext, arguments: Sequence[tuple[str, int]], given: dict[str, Vector]
) -> list[Vector]:
    """Returns the gradient of ``cotangent . aba(q, v, tau)`` by each argument."""
    by_tau = solve_by_mass_matrix(t, given["cotangent"])
    a = t.coordinates.acceleration(t.inputs["v"], given["result"])
    tau = t.inverse_dynamics(t.v, a, with_external_forces=True)
    names = [name for name, _ in arguments if name != "tau"]
    rest = pull_back(t.graph, tau, [-x for x in by_tau], [given[name] for name in names])
    parts = {**dict(zip(names, rest, strict=True)), "tau": by_tau}
    return [parts[name] for name, _ in arguments]


class GradientKernel(Kernel):
    """Compiled gradient of an operation; returns a tuple with one array per argument."""

    def _pack_results(self, results: Sequence[Floats]) -> tuple[Floats, ...]:
        return tuple(results)


def build_gradient_kernel(
    robot: Robot, operation: str, options: KernelOptions, dtype: np.dtype[Any], frame: str | None = None
) -> GradientKernel:
    """Records the operations of a gradient, compiles and links them, or loads the result from the cache."""
    element = "double" if dtype == np.float64 else "float"
    interface, code = load_or_compile(
        robot,
        element,
        ("gradient", operation, options, frame),
        lambda: trace_gradient(operation, robot, options, frame),
        batch_module,
    )
    return configure_kernel(GradientKernel(f"{operation}_gradient", robot, interface, code, dtype), options)


class DifferentiableOperation:
    """Operation with its gradient on arrays with any leading axes; compiled at the first call with a dtype.

    It can be used by several threads at once.

    Args:
        robot: the robot.
        name: name of the operation, one of `DIFFERENTIABLE_OPERATIONS`.
        options: see `Kernels`.
        frame: name of the frame of an operation on a frame, else None.
        threads: number of threads over which a batch is distributed.

    Attributes:
        robot: the robot.
        name: name of the operation.
        arguments: name and size n of each argument.
        uses_result: whether the gradient is computed from the result, which must then be saved.
        threads: number of threads over which a batch is distributed.
    """

    def __init__(self, robot: Robot, name: str, options: KernelOptions, frame: str | None, threads: int) -> None:
        self.robot, self.name, self.options, self.frame, self.threads = robot, name, options, frame, threads
        self.arguments = tuple(operation_arguments(DIFFERENTIABLE_OPERATIONS[name], robot, options))
        self.uses_result = name in USES_RESULT
        self._lock = threading.Lock()
        self._kernels: dict[tuple[str, np.dtype[Any]], Kernel] = {}
        self._gpu_kernels: dict[tuple[str, np.dtype[Any], int], CudaOperation] = {}

    def batch_shape(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """Returns the leading axes of the result for these shapes of the arguments.

        Raises:
            ArgumentError: the last axis of an argument has another size, or leading axes cannot be broadcast.
        """
        for (name, size), shape in zip(self.arguments, shapes, strict=True):
            if shape[-1:] != (size,):
                raise ArgumentError(f"{name}: expected shape (..., {size}) for {self.robot.name}, got {tuple(shape)}")
        try:
            return np.broadcast_shapes(*(shape[:-1] for shape in shapes))
        except ValueError:
            named = ", ".join(f"{n} {tuple(shape)}" for (n, _), shape in zip(self.arguments, shapes, strict=True))
            raise ArgumentError(f"{named}: the leading axes cannot be broadcast against each other") from None

    def result_shape(self, dtype: np.dtype[Any]) -> tuple[int, ...]:
        """Returns the shape of the result of one state."""
        return self._build("value", dtype).signature.outputs[0][1]

    def _build(self, part: str, dtype: np.dtype[Any]) -> Kernel:
        build = {"value": build_kernel, "gradient": build_gradient_kernel}[part]
        with self._lock:
            if (part, dtype) not in self._kernels:
                self._kernels[part, dtype] = build(self.robot, self.name, self.options, dtype, self.frame)
            return self._kernels[part, dtype]

    def on_gpu(self, part: str, dtype: np.dtype[Any], index: int) -> CudaOperation:
        """Returns the kernel on a GPU, for batches (N, n).

        Args:
            part: "value", or "gradient" with the arguments of `gradient` and a tuple of results.
            dtype: float64 or float32.
            index: number of the GPU.

        Raises:
            CudaError: there is no driver or GPU that can be used.
        """
        trace = {"value": trace_operation, "gradient": trace_gradient}[part]
        with self._lock:
            if (part, dtype, index) not in self._gpu_kernels:
                self._gpu_kernels[part, dtype, index] = build_cuda_operation(
                    self.robot,
                    (self.name, part, self.options, self.frame),
                    lambda: trace(self.name, self.robot, self.options, self.frame),
                    dtype,
                    "rows",
                    index,
                    pack=(lambda *results: results) if part == "gradient" else None,
                )
            return self._gpu_kernels[part, dtype, index]

    def value(self, arguments: Sequence[Floats]) -> Floats:
        """Computes the results.

        Args:
            arguments: an array (..., n) for each argument of the kernel, with equal leading axes.

        Returns:
            (..., *shape) results.

        Raises:
            ArgumentError: an invalid value.
        """
        kernel, lead = self._build("value", arguments[0].dtype), arguments[0].shape[:-1]
        n = math.prod(lead)
        result = kernel(*[x.reshape(n, x.shape[-1]) for x in arguments], threads=self.threads)
        return np.asarray(result).reshape(*lead, *kernel.signature.outputs[0][1])

    def gradient(self, arguments: Sequence[Floats], *rest: Floats) -> tuple[Floats, ...]:
        """Computes the gradient of ``sum(cotangent * result)`` by each argument.

        Args:
            arguments: as in `value`.
            rest: (..., *shape) the result where `uses_result`, and (..., *shape) the cotangent.

        Returns:
            One array (..., n) per argument.

        Raises:
            ArgumentError: an invalid value.
        """
        kernel, lead = self._build("gradient", arguments[0].dtype), arguments[0].shape[:-1]
        n = math.prod(lead)
        rows = [x.reshape(n, math.prod(x.shape[len(lead) :])) for x in (*arguments, *rest)]
        parts = kernel(*rows, threads=self.threads)
        return tuple(part.reshape(x.shape) for part, x in zip(parts, arguments, strict=True))


#: Array type of the library.
T = TypeVar("T")


class DifferentiableDynamics(abc.ABC, Generic[T]):
    """Compiled operations of one robot with gradients by all their arguments, on one state or a batch.

    Names, argument order and conventions are those of `Dynamics`.  Every argument has any number of leading axes, (...,
    n), which are broadcast against each other; all arguments have the same dtype, float64 or float32.  An operation is
    compiled, or loaded from the cache, at its first call and its first gradient with a dtype.

    Quaternions and (cos, sin) pairs of q are divided by their norm, which must be between 0.1 and 1.41.  The gradient
    by q is that of this function of all nq coordinates: at unit norm it has no component along a quaternion or pair.

    Gradients are computed in reverse mode, without Jacobians.  There are no second derivatives and no forward mode.

    Args:
        robot: a loaded robot with at least one degree of freedom.
        parameters: "folded" (the robot's mass properties are constants of the code) or "runtime" (base parameters are
            an argument, with gradient, by default the robot's own; see `Kernels.parameter_map`).
        friction: whether joint friction (viscous and Coulomb) is part of the dynamics.
        forces: frames at which external forces act: `rnea` and `aba` then accept ``fext``, (..., 6 k), force [N] and
            torque [N m] in world axes in this order.
        threads: number of threads over which a batch is distributed.

    Attributes:
        robot: the robot.
        forces: names of the frames at which external forces act.
        threads: number of threads over which a batch is distributed.
        parameter_names: names of the run-time parameters; empty without run-time parameters.
        parameters: (k,) the robot's own run-time parameters; empty without run-time parameters.
        parameter_map: (k, 13 nb) matrix that converts ``Dynamics.parameters()`` to run-time parameters.

    Raises:
        UnknownNameError: a frame that does not exist.
        ArgumentError: an option out of range.
        UnsupportedMachineError: machine code cannot be made or run here; at the first call of an operation.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        parameters: str = "folded",
        friction: bool = False,
        forces: Sequence[str] = (),
        threads: int = 1,
    ) -> None:
        self._load_library()
        _, _, options, dtype, _ = check_options(robot, ("rnea",), np.float64, parameters, friction, (), forces)
        if type(threads) is not int or threads < 1:
            raise ArgumentError(f"threads: expected a positive int, got {threads!r}")
        base = Kernels(robot, (), options, dtype)
        self.robot, self.forces, self.threads = robot, options.forces, threads
        self.parameter_names: tuple[str, ...] = base.parameter_names
        self.parameters: Array = base.parameters
        self.parameter_map: Array = base.parameter_map
        self._options = dataclasses.replace(options, normalized=True)
        self._operations: dict[tuple[str, str | None], DifferentiableOperation] = {}

    # -- operations ----------------------------------------------------------------------------------------------
    def rnea(self, q: T, v: T, a: T, *, fext: T | None = None, parameters: T | None = None) -> T:
        """Returns tau (..., nv) = M(q) a + h(q, v) - J^T fext [N, N m].

        Args:
            q: (..., nq) configurations.
            v: (..., nv) velocities.
            a: (..., nv) accelerations.
            fext: (..., 6 k) external forces at the frames of `forces`; by default zero.
            parameters: (..., k) base parameters for ``parameters="runtime"``; by default the robot's own.
        """
        return self._call("rnea", {"q": q, "v": v, "a": a}, fext=fext, parameters=parameters)

    def aba(self, q: T, v: T, tau: T, *, fext: T | None = None, parameters: T | None = None) -> T:
        """Returns the accelerations (..., nv) that tau and fext cause; arguments as in `rnea`."""
        return self._call("aba", {"q": q, "v": v, "tau": tau}, fext=fext, parameters=parameters)

    def nle(self, q: T, v: T, *, parameters: T | None = None) -> T:
        """Returns the bias forces h (..., nv) [N, N m]."""
        return self._call("nle", {"q": q, "v": v}, parameters=parameters)

    def gravity(self, q: T, *, parameters: T | None = None) -> T:
        """Returns the generalized gravity forces (..., nv) [N, N m]."""
        return self._call("gravity", {"q": q}, parameters=parameters)

    def crba(self, q: T, *, parameters: T | None = None) -> T:
        """Returns the joint-space inertia matrices (..., nv, nv)."""
        return self._call("crba", {"q": q}, parameters=parameters)

    def center_of_mass(self, q: T) -> T:
        """Returns the centers of mass (..., 3) in world axes [m], for the robot's own masses."""
        return self._call("center_of_mass", {"q": q})

    def com_jacobian(self, q: T) -> T:
        """Returns the Jacobians (..., 3, nv) of the center of mass, world axes."""
        return self._call("com_jacobian", {"q": q})

    def centroidal_momentum(self, q: T, v: T) -> T:
        """Returns the momenta (..., 6) about the center of mass, linear before angular, world axes."""
        return self._call("centroidal_momentum", {"q": q, "v": v})

    def frame_position(self, q: T, name: str) -> T:
        """Returns the origins (..., 3) of a frame in the world [m]."""
        return self._call("frame_position", {"q": q}, frame=name)

    def frame_rotation(self, q: T, name: str) -> T:
        """Returns the rotation matrices (..., 3, 3) of a frame in the world."""
        return self._call("frame_rotation", {"q": q}, frame=name)

    def frame_jacobian(self, q: T, name: str) -> T:
        """Returns the Jacobians (..., 6, nv) of a frame, linear before angular, "local_world_aligned"."""
        return self._call("frame_jacobian", {"q": q}, frame=name)

    def frame_drift(self, q: T, v: T, name: str) -> T:
        """Returns the accelerations (..., 6) of a frame at ``a = 0``, "local_world_aligned"."""
        return self._call("frame_drift", {"q": q, "v": v}, frame=name)

    # -- calls ---------------------------------------------------------------------------------------------------
    def _call(self, name: str, given: dict[str, T], *, frame: str | None = None, **optional: T | None) -> T:
        """Runs an operation on arguments by name; those that are None have a default."""
        if frame is not None:
            if not isinstance(frame, str):
                raise ArgumentTypeError(f"name: expected the name of a frame, got {type(frame).__name__}")
            self.robot.frame_id(frame)  # raises for an unknown name
        operation = self._operation(name, frame)
        arguments: dict[str, Any] = {**given, **{key: x for key, x in optional.items() if x is not None}}
        accepted = dict(operation.arguments)
        for key in arguments.keys() - accepted.keys():
            option = "forces=" if key == "fext" else 'parameters="runtime"'
            raise ArgumentError(f"{key}: not accepted, because {type(self).__name__} was created without {option}")
        defaults = {"fext": np.zeros(6 * len(self.forces)), "parameters": self.parameters}
        return self._apply(operation, [(key, arguments.get(key), defaults.get(key)) for key in accepted])

    def _operation(self, name: str, frame: str | None) -> DifferentiableOperation:
        """Returns an operation, made at its first use."""
        key = (name, frame)
        if key not in self._operations:
            made = DifferentiableOperation(self.robot, name, self._options, frame, self.threads)
            self._operations.setdefault(key, made)
        return self._operations[key]

    @abc.abstractmethod
    def _load_library(self) -> None:
        """Loads the library of the arrays.

        Raises:
            QuaddynError: it is not installed.
        """

    @abc.abstractmethod
    def _apply(self, operation: DifferentiableOperation, arguments: Sequence[tuple[str, Any, Array | None]]) -> T:
        """Runs an operation on (name, value or None, default) of its arguments."""

    def __reduce__(self) -> tuple[object, ...]:
        options: dict[str, Any] = {
            "parameters": "runtime" if self._options.runtime else "folded",
            "friction": self._options.friction,
            "forces": self.forces,
            "threads": self.threads,
        }
        return functools.partial(type(self), **options), (self.robot,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.robot.name!r})"
