"""Generated code: a robot's dynamics as straight-line programs, compiled without a compiler on the machine.

`graph` records arithmetic, `mechanism` chooses frames, `rnea` and its kin are recursions over it, `program` orders and
counts, `llvm_ir` and `c_source` write code, `native` runs it, `Kernels` is what a user holds.
"""

from .c_source import CSource
from .compiling import c_files, compile, generate_c
from .kernels import Kernels
from .native import Unsupported
from .program import Operations

__all__ = ["CSource", "Kernels", "Operations", "Unsupported", "c_files", "compile", "generate_c"]
