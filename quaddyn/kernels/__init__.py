"""Generated code: a robot's dynamics as straight-line programs, compiled without a compiler on the machine.

`graph` records arithmetic, `mechanism` chooses frames, `rnea` and its kin are recursions over it, `program` orders and
counts, `llvm_ir` and `c_source` write code, `keeping` has machine code of it made once, `native` runs it, `Kernels` is
what a user holds.  `TickTerms` is what a controller holds: all terms of one tick in one call.
"""

from ..compiler.machine import Unsupported
from .c_source import CSource
from .code_generation import c_files, compile, generate_c
from .kernels import Kernels
from .program import Operations
from .tick_terms import FrameLayout, TermsLayout, TickTerms, tick_terms_c

__all__ = [
    "CSource",
    "FrameLayout",
    "Kernels",
    "Operations",
    "TermsLayout",
    "TickTerms",
    "Unsupported",
    "c_files",
    "compile",
    "generate_c",
    "tick_terms_c",
]
