"""Restricted Python as machine code and as C99, without a compiler on the machine.

`kinds` names what functions work on, `reading` makes typed trees of them, `llvm` and `c99` write these out, `machine`
makes code, `objects` keeps it, `calling` lets Python call it; `units` has the decorators.
"""

from ..deprecation import renamed_names
from .compilation_units import Entry, compiled, entry, interpret, silence_messages
from .kinds import (
    LANE_WIDTH,
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
    broadcast8,
    load8,
    local,
    mask_range8,
    matrix,
    max8,
    min8,
    select8,
    sqrt8,
    store8,
    sum8,
    tensor,
    zeros,
)

__all__ = [
    "LANE_WIDTH",
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
    "broadcast8",
    "compiled",
    "entry",
    "interpret",
    "load8",
    "local",
    "mask_range8",
    "matrix",
    "max8",
    "min8",
    "select8",
    "silence_messages",
    "sqrt8",
    "store8",
    "sum8",
    "tensor",
    "zeros",
]

__getattr__ = renamed_names(
    __name__,
    {
        "WIDTH": "LANE_WIDTH",
        "choose8": "select8",
        "interpreted": "interpret",
        "quietly": "silence_messages",
        "splat8": "broadcast8",
        "within8": "mask_range8",
    },
)
