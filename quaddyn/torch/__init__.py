"""Differentiable dynamics for PyTorch: `TorchDynamics` computes on tensors, with gradients.

The package needs the extra "torch": ``pip install 'quaddyn[torch]'``.
"""

from .torch_dynamics import TorchDynamics

__all__ = ["TorchDynamics"]
