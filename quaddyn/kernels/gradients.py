"""Gradients of operations: kernels that compute the gradient of ``w . y`` by the arguments of ``y``, for weights w.

Reverse mode costs a small multiple of the operation itself, however many arguments there are, and forms no Jacobian.
The gradient of forward dynamics follows from that of inverse dynamics: for ``a = M^-1 (tau - h)`` and ``l = M^-1 w``,
the gradient by tau is l, and that by the other arguments is the gradient of ``-l . rnea(q, v, a)`` at constant l and a.

Quaternions and (cos, sin) pairs p of q are divided by their norm, ``f(p / |p|)``, so that the gradient by p is defined
for all directions: it has no component along p.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..robot.robot import Robot
from .cuda_kernels import CudaOperation, build_cuda_operation
from .derivatives import pull_back
from .graph import Vector
from .kernel_cache import load_or_compile
from .kernels import Floats, Kernel, build_kernel, configure_kernel
from .llvm_module import batch_module
from .operations import (
    DIFFERENTIABLE_OPERATIONS,
    KernelOptions,
    TraceContext,
    argument_inputs,
    finish_trace,
    operation_arguments,
    solve_by_mass_matrix,
    start_trace,
    trace_operation,
)
from .program import Program

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
        results = definition.trace(t)[1]
        sizes = [*arguments, ("cotangent", len(results))]
    given = argument_inputs(t.graph, sizes)
    if operation in USES_RESULT:
        gradient = _pull_back_forward_dynamics(t, arguments, given)
    else:
        gradient = pull_back(t.graph, results, given["cotangent"], [given[name] for name, _ in arguments])
    outputs = [(name, (size,)) for name, size in arguments]
    return finish_trace(t, f"{operation}_gradient", sizes, outputs, [x for part in gradient for x in part])


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
