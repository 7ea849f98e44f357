"""Kernels: the dynamics of one robot as straight-line machine code or C, generated without a compiler on the machine.

`graph` records arithmetic, `mechanism` chooses frames, `rnea` and `forward_dynamics` are recursions over it,
`operations` lists the operations that can be compiled, `graph.Program` orders and counts arithmetic, `llvm_module` and
`c_source` write code, `kernel_cache` compiles it once and stores it on disk and runs it.  Users call
`Kernels`; `TickTerms` computes all terms of one control tick in one call.  `differentiable` compiles gradients of
operations, which `quaddyn.torch` and `quaddyn.jax` offer through `DifferentiableDynamics`.
"""

from ..compiler.machine import UnsupportedMachineError
from ..deprecation import renamed_names
from .c_source import CSource
from .differentiable import DifferentiableDynamics
from .graph import OperationCounts
from .kernels import Kernels, c_files, compile, generate_c
from .tick_terms import FrameLayout, TermsLayout, TickTerms, tick_terms_c

__all__ = [
    "CSource",
    "DifferentiableDynamics",
    "FrameLayout",
    "Kernels",
    "OperationCounts",
    "TermsLayout",
    "TickTerms",
    "UnsupportedMachineError",
    "c_files",
    "compile",
    "generate_c",
    "tick_terms_c",
]

__getattr__ = renamed_names(__name__, {"Operations": "OperationCounts", "Unsupported": "UnsupportedMachineError"})
