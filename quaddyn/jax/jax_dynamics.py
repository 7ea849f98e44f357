"""`JaxDynamics`: compiled operations on arrays of JAX, as functions with custom gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentTypeError
from ..extras import import_extra
from ..kernels.differentiable import DifferentiableDynamics, DifferentiableOperation
from ..urdf.tree import Array


class JaxDynamics(DifferentiableDynamics[Any]):
    """Dynamics of one robot on arrays of JAX: ``JaxDynamics(robot).rnea(q, v, a)``.

    Arguments are arrays of JAX or NumPy; they become float64 if ``jax_enable_x64`` is set, else float32.  The
    operations work with `jax.grad`, `jax.vjp`, `jax.jacrev`, `jax.jit` and `jax.vmap`.  The kernels run on the CPU,
    called by `jax.pure_callback`; an invalid value then raises an error of JAX with the kernel's message.  See
    `DifferentiableDynamics` for the arguments, the operations and the gradient by q.

    Raises:
        QuaddynError: JAX is not installed.
    """

    def _load_library(self) -> None:
        self._jax = import_extra("jax", "jax", name="JAX")
        self._functions: dict[DifferentiableOperation, Callable[..., Any]] = {}

    def _apply(self, operation: DifferentiableOperation, arguments: Sequence[tuple[str, Any, Array | None]]) -> Any:
        jnp = self._jax.numpy
        given = list[Any]()
        for name, x, default in arguments:
            if x is not None and not isinstance(x, self._jax.Array | np.ndarray):
                raise ArgumentTypeError(f"{name}: expected an array of JAX or NumPy, got {type(x).__name__}")
            if x is not None and not jnp.issubdtype(x.dtype, jnp.floating):
                raise ArgumentTypeError(f"{name}: expected an array of float64 or float32, got one of {x.dtype}")
            given.append(jnp.asarray(default if x is None else x, dtype=None if x is not None else given[0].dtype))
            if given[-1].dtype not in (np.float64, np.float32) or given[-1].dtype != given[0].dtype:
                expected = "float64 or float32" if len(given) == 1 else f"{given[0].dtype} as for {arguments[0][0]}"
                raise ArgumentTypeError(f"{name}: expected the dtype {expected}, got {given[-1].dtype}")
        lead = operation.batch_shape([x.shape for x in given])
        if operation not in self._functions:
            self._functions[operation] = _differentiable_function(operation)
        return self._functions[operation](*[jnp.broadcast_to(x, (*lead, x.shape[-1])) for x in given])


def _differentiable_function(operation: DifferentiableOperation) -> Callable[..., Any]:
    """Returns an operation on arrays (..., n) with equal leading axes, with its gradient."""
    jax = import_extra("jax", "jax", name="JAX")

    def compute_value(*arguments: Any) -> Array:
        return operation.value(list(map(np.asarray, arguments)))

    def compute_gradient(*arrays: Any) -> tuple[Array, ...]:
        given, n = list(map(np.asarray, arrays)), len(operation.arguments)
        return operation.gradient(given[:n], *given[n:])

    def value(*arguments: Any) -> Any:
        dtype, lead = arguments[0].dtype, arguments[0].shape[:-1]
        result = jax.ShapeDtypeStruct((*lead, *operation.result_shape(dtype)), dtype)
        return jax.pure_callback(compute_value, result, *arguments, vmap_method="broadcast_all")

    def forward(*arguments: Any) -> tuple[Any, Any]:
        result = value(*arguments)
        return result, (arguments, (result,) if operation.uses_result else ())

    def backward(saved: Any, cotangent: Any) -> Any:
        arguments, rest = saved
        shapes = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arguments)
        return jax.pure_callback(compute_gradient, shapes, *arguments, *rest, cotangent, vmap_method="broadcast_all")

    function = jax.custom_vjp(value)
    function.defvjp(forward, backward)
    return function  # type: ignore[no-any-return]
