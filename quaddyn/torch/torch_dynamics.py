"""`TorchDynamics`: compiled operations on tensors of PyTorch, as autograd functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError
from ..extras import import_extra
from ..kernels.differentiable import DifferentiableDynamics, DifferentiableOperation
from ..urdf.tree import Array


class TorchDynamics(DifferentiableDynamics[Any]):
    """Dynamics of one robot on tensors of PyTorch: ``TorchDynamics(robot).rnea(q, v, a)``.

    Tensors have the dtype float64 or float32.  All are on the CPU, or on one NVIDIA GPU, where states with invalid
    arguments have NaN in results and gradients.  Kernels read contiguous tensors in place.  The operations work with
    `torch.autograd`, `torch.func.grad`, `torch.func.vmap` and `torch.func.jacrev`; a second derivative raises an error.
    See `DifferentiableDynamics` for the arguments, the operations and the gradient by q.

    Raises:
        QuaddynError: PyTorch is not installed.
    """

    def _load_library(self) -> None:
        self._torch = import_extra("torch", "torch", name="PyTorch")

    def _apply(self, operation: DifferentiableOperation, arguments: Sequence[tuple[str, Any, Array | None]]) -> Any:
        torch, first = self._torch, arguments[0][1]
        for name, x, _ in arguments:
            if x is None:
                continue
            if not isinstance(x, torch.Tensor):
                raise ArgumentTypeError(f"{name}: expected a torch.Tensor, got {type(x).__name__}")
            if x.device.type not in ("cpu", "cuda") or x.device != first.device:
                expected = "the CPU or a CUDA device" if x is first else f"{first.device} as {arguments[0][0]}"
                raise ArgumentError(f"{name}: expected a tensor on {expected}, got one on {x.device}; move it")
            if x.dtype not in (torch.float64, torch.float32) or x.dtype != first.dtype:
                expected = "float64 or float32" if x is first else f"{first.dtype} as for {arguments[0][0]}"
                raise ArgumentTypeError(f"{name}: expected the dtype {expected}, got {x.dtype}")
        kind = {"dtype": first.dtype, "device": first.device}
        tensors = [torch.tensor(default, **kind) if x is None else x for _, x, default in arguments]
        lead = operation.batch_shape([tuple(x.shape) for x in tensors])
        expanded = [x.expand(*lead, x.shape[-1]) for x in tensors]
        return _functions()[0].apply(operation, *expanded)


@cache
def _functions() -> tuple[Any, Any]:
    """Returns the autograd functions of an operation and of its gradient; torch is imported at the first call."""
    torch = import_extra("torch", "torch", name="PyTorch")
    function: Any = torch.autograd.Function

    class Value(function):  # type: ignore[misc]
        """Result (..., *shape) of an operation from its arguments (..., n) with equal leading axes."""

        @staticmethod
        def forward(operation: DifferentiableOperation, *arguments: Any) -> Any:
            if arguments[0].is_cuda:
                return _run_on_gpu(operation, "value", arguments)[0]
            return torch.from_numpy(operation.value([x.detach().numpy() for x in arguments]))

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.operation = inputs[0]
            ctx.save_for_backward(*inputs[1:], *([output] if ctx.operation.uses_result else []))

        @staticmethod
        def backward(ctx: Any, cotangent: Any) -> tuple[Any, ...]:
            return None, *Gradient.apply(ctx.operation, *ctx.saved_tensors, cotangent)

        @staticmethod
        def vmap(info: Any, in_dims: tuple[int | None, ...], operation: Any, *tensors: Any) -> tuple[Any, Any]:
            return Value.apply(operation, *_batch_first(info.batch_size, in_dims[1:], tensors)), 0

    class Gradient(function):  # type: ignore[misc]
        """Gradient by each argument, from the arguments, the result where it is used, and the cotangent."""

        @staticmethod
        def forward(operation: DifferentiableOperation, *tensors: Any) -> tuple[Any, ...]:
            if tensors[0].is_cuda:
                return _run_on_gpu(operation, "gradient", tensors)
            arrays, n = [x.detach().numpy() for x in tensors], len(operation.arguments)
            return tuple(map(torch.from_numpy, operation.gradient(arrays[:n], *arrays[n:])))

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
            ctx.operation = inputs[0]

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
            raise ArgumentError(
                f"{ctx.operation.name}: second derivatives are not available; detach the gradient, or compute "
                "differences of gradients"
            )

        @staticmethod
        def vmap(info: Any, in_dims: tuple[int | None, ...], operation: Any, *tensors: Any) -> tuple[Any, Any]:
            parts = Gradient.apply(operation, *_batch_first(info.batch_size, in_dims[1:], tensors))
            return parts, (0,) * len(parts)

    return Value, Gradient


def _run_on_gpu(operation: DifferentiableOperation, part: str, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the results of a kernel on the GPU of tensors with equal leading axes, computed on the current stream."""
    lead, dtype = tensors[0].shape[:-1], np.dtype(str(tensors[0].dtype).removeprefix("torch."))
    kernel, n = operation.on_gpu(part, dtype, tensors[0].device.index), math.prod(lead)
    rows = [x.detach().reshape(n, math.prod(x.shape[len(lead) :])) for x in tensors]
    results = kernel(*[x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous() for x in rows])
    shapes = [shape for _, shape in kernel.signature.outputs]
    parts = results if part == "gradient" else (results,)
    return tuple(x.reshape(*lead, *shape) for x, shape in zip(parts, shapes, strict=True))


def _batch_first(size: int, axes: Sequence[int | None], tensors: Sequence[Any]) -> list[Any]:
    """Returns the tensors with the axis of a batch first; those without it are repeated."""
    pairs = zip(axes, tensors, strict=True)
    return [x.expand(size, *x.shape) if axis is None else x.movedim(axis, 0) for axis, x in pairs]
