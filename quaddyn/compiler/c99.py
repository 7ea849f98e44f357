"""C99 source of entries and of all functions that they call.

The source allocates no memory, needs the C library's mathematics only, and compiles without warnings.  Arrays are
structures of a pointer and sizes; tuples and records are structures.  Sums are evaluated in the order of the source.
For the same bits as machine code without contraction, compile with ``-ffp-contract=off``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import CompileError
from .c99_functions import C99FunctionWriter, c_comment, prototype
from .c99_types import ARRAYS, HELPERS, Types, identifier
from .call_graph import collect_functions, symbol_name

if TYPE_CHECKING:
    from .compilation_units import Entry


@dataclass(frozen=True, slots=True)
class CFiles:
    """Result of `c_source`.

    Attributes:
        header: declarations of arrays, records and entries for C and C++.
        source: definitions of the entries; includes the header under its file name.
    """

    header: str
    source: str


def c_source(entries: Sequence[Entry | Callable[..., Any]], name: str) -> CFiles:
    """Returns entries, and all functions that they call, as C99.

    Args:
        entries: functions with the decorator `entry` or `compiled`.
        name: name of the files, without ``.h`` and ``.c``.

    Raises:
        CompileError: one of the functions cannot be compiled.
    """
    functions = collect_functions(entries)
    symbols: dict[str, str] = {}
    for f in functions:
        c = identifier(f.symbol)
        if c in symbols.values() or c in HELPERS:
            raise CompileError(f"{f.symbol}: C already has a function of this name; rename the function")
        symbols[f.symbol] = c
    public = {symbol_name(each) for each in entries}
    types, helpers = Types(), dict[str, str]()
    prototypes = [
        f"{c_comment(f.doc)}{prototype(f, symbols[f.symbol], types)};" for f in functions if f.symbol in public
    ]
    shown = len(types.declarations)
    definitions = []
    for f in functions:
        writer = C99FunctionWriter(f, types, lambda target: symbols[symbol_name(target)], helpers)
        definitions.append(writer.definition(symbols[f.symbol], public=f.symbol in public))
    order = [*(each for each in HELPERS if each in helpers), *sorted(each for each in helpers if each not in HELPERS)]
    guard = f"{identifier(name).upper()}_H"
    header = [
        f"#ifndef {guard}\n#define {guard}\n\n#include <stdbool.h>\n#include <stdint.h>",
        f"#ifndef QUADDYN_ARRAYS\n#define QUADDYN_ARRAYS\n/* C-contiguous arrays. */\n{ARRAYS}\n#endif",
        *types.declarations[:shown],
        '#ifdef __cplusplus\nextern "C" {\n#endif',
        *prototypes,
        "#ifdef __cplusplus\n}\n#endif\n\n#endif",
    ]
    first = [each for each in order if each == "Lanes"]
    source = [
        f'#include "{name}.h"\n\n#include <math.h>',
        *(helpers[each] for each in first),
        *types.declarations[shown:],
        *(helpers[each] for each in order if each not in first),
        *definitions,
    ]
    return CFiles("\n\n".join(header) + "\n", "\n\n".join(source) + "\n")
