"""Differentiable dynamics for JAX: `JaxDynamics` computes on arrays, with gradients, in ``jit`` and ``vmap``.

The package needs the extra "jax": ``pip install 'quaddyn[jax]'``.
"""

from .jax_dynamics import JaxDynamics

__all__ = ["JaxDynamics"]
