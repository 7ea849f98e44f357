"""Restricted Python as machine code and as C99, without a compiler on the machine.

`kinds` names what functions work on, `reading` makes typed trees of them, `llvm` and `c99` write these out, `machine`
makes code, `objects` keeps it, `calling` lets Python call it; `units` has the decorators.
"""

from .kinds import (
    WIDTH,
    ByteMatrix,
    ByteVector,
    IntMatrix,
    IntTensor,
    IntVector,
    Lanes,
    Matrix,
    Tensor,
    Vector,
)
from .language import (
    alignment,
    choose8,
    load8,
    local,
    matrix,
    max8,
    min8,
    splat8,
    sqrt8,
    store8,
    sum8,
    tensor,
    within8,
    zeros,
)
from .units import Entry, compiled, entry, interpreted, quietly

__all__ = [
    "WIDTH",
    "ByteMatrix",
    "ByteVector",
    "Entry",
    "IntMatrix",
    "IntTensor",
    "IntVector",
    "Lanes",
    "Matrix",
    "Tensor",
    "Vector",
    "alignment",
    "choose8",
    "compiled",
    "entry",
    "interpreted",
    "load8",
    "local",
    "matrix",
    "max8",
    "min8",
    "quietly",
    "splat8",
    "sqrt8",
    "store8",
    "sum8",
    "tensor",
    "within8",
    "zeros",
]
