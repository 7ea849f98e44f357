"""C99 source of entries and of all functions that they call.

The source allocates no memory, needs the C library's mathematics only, and compiles without warnings.  Arrays are
structures of a pointer and sizes; tuples and records are structures.  Sums are evaluated in the order of the source.
For the same bits as machine code without contraction, compile with ``-ffp-contract=off``.

`c99_expressions` writes the expressions of the functions and statements that this module writes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import CompileError
from .c99_expressions import C99ExpressionWriter
from .c99_types import ADD, ARRAYS, ATOM, HELPERS, PREFIX, Types, c_comment, identifier
from .function_translator import collect_functions
from .kinds import FLOAT, INT, Kind, RecordKind, item_kinds
from .signatures import symbol_name
from .typed_tree import (
    Assign,
    Binary,
    Break,
    Constant,
    Continue,
    Evaluate,
    Expression,
    For,
    Function,
    If,
    MakeTuple,
    Name,
    Return,
    Statement,
    Subscript,
    Targets,
    While,
)
from .variable_analysis import (
    Target,
    accesses_memory,
    assigned_names,
    has_byte_entries,
    is_invariant,
    is_only_loop_counter,
    mentioned_variables,
    names_in,
    names_read,
    walk_statements,
    within_one_block,
    written_variables,
)

if TYPE_CHECKING:
    from .compilation_units import Entry


def prototype(f: Function, name: str, types: Types) -> str:
    """Returns the C declaration of a function without the semicolon."""
    parameters = []
    for parameter, kind in f.parameters:
        copied = isinstance(kind, RecordKind) and parameter in f.assigned
        parameters.append(types.parameter_declaration(identifier(parameter) + ("_given" if copied else ""), kind))
    return f"{types.type_of(f.returns)} {name}({', '.join(parameters) or 'void'})"


class C99FunctionWriter(C99ExpressionWriter):
    """Writer of one function as C99; same arguments as `LineWriter`."""

    def definition(self, name: str, *, public: bool) -> str:
        """Returns the C definition of the function.

        Args:
            name: name of the function in C.
            public: whether the function has external linkage; others are static.
        """
        f = self.function
        self.undeclared: set[str] = set()
        self.counters = {n for n in f.variables if n not in dict(f.parameters) and is_only_loop_counter(f.body, n)}
        self.declared = {n for n, _ in f.parameters} | self.counters
        self.read = set(names_read(f.body))
        for parameter, kind in f.parameters:
            if isinstance(kind, RecordKind) and parameter in f.assigned:
                copy = self.names[parameter]
                self.line(f"{self.types.type_of(kind)} {copy} = *{identifier(parameter)}_given;")
        for parameter, _ in f.parameters:
            if parameter not in self.read:
                self.line(f"(void){self.names[parameter]};")
        self.write_block(f.body)
        signature = prototype(f, name, self.types)
        if not public:
            signature = f"static {'inline ' if f.inline else ''}{signature}"
        lines = textwrap.fill(signature, 112, subsequent_indent="    ", break_long_words=False)
        return c_comment(f.doc) + "\n".join([lines, "{", *self.declarations, *self.lines, "}"])

    # -- statements --------------------------------------------------------------------------------------------
    def write_block(self, body: Sequence[Statement]) -> None:
        """Writes statements in order; each variable is declared in the innermost block that contains all its uses."""
        mentioned = [mentioned_variables(s) for s in body]
        for k, s in enumerate(body):
            newly_declared = [
                n
                for n in self.function.variables
                if n not in self.declared
                and n in mentioned[k]
                and (any(n in each for each in mentioned[k + 1 :]) or not within_one_block(s, n))
            ]
            self.declared |= set(newly_declared)
            assigned_here = assigned_names(s.target) if isinstance(s, Assign) else set()
            for n in newly_declared:
                kind = self.function.variables[n]
                if n not in assigned_here:
                    begin = (
                        "{0}"
                        if item_kinds(kind) or not self.is_c_number(kind)
                        else "false"
                        if str(kind) == "bool"
                        else "0"
                    )
                    self.line(f"{self.types.type_of(kind)} {self.names[n]} = {begin};")
            self.undeclared = assigned_here & set(newly_declared)
            self.write_statement(s)
            for n in newly_declared:
                if n not in self.read:
                    self.line(f"(void){self.names[n]};")

    @staticmethod
    def is_c_number(kind: Kind) -> bool:
        """Returns whether values of a kind are plain numbers in C."""
        return str(kind) in ("float", "int", "bool")

    def write_statement(self, s: Statement) -> None:
        """Writes one statement."""
        match s:
            case Assign():
                self.write_assignment(s.target, s.value)
            case Evaluate():
                text = self.value(s.value, ATOM)
                is_void = not item_kinds(s.value.kind) and self.types.type_of(s.value.kind) == "void"
                self.line(f"{'' if is_void else '(void)'}{text};")
            case If():
                self.write_if(s)
            case While():
                test, lines = self.capture_lines(lambda: self.value(s.test), 1)
                self.line(f"while ({'true' if lines else test}) {{")
                self.lines += lines
                if lines:
                    self.write_nested_line(
                        f"if (!({test})) {{\n{'    ' * (self.depth + 2)}break;\n{'    ' * (self.depth + 1)}}}"
                    )
                self.write_nested_block(s.body)
            case For():
                self.write_for(s)
            case Return():
                self.line("return;" if s.value is None else f"return {self.value(s.value)};")
            case Break():
                self.line("break;")
            case Continue():
                self.line("continue;")

    def write_nested_line(self, text: str) -> None:
        """Writes a line indented one level deeper."""
        self.lines.append("    " * (self.depth + 1) + text)

    def write_nested_block(self, body: Sequence[Statement]) -> None:
        """Writes the statements of a nested block and its closing brace."""
        self.depth += 1
        outside = set(self.declared)
        self.write_block(body)
        self.declared = outside
        self.depth -= 1
        self.line("}")

    def write_if(self, s: If) -> None:
        """Writes an ``if`` statement with its ``else if`` and ``else`` branches."""
        self.line(f"if ({self.value(s.test)}) {{")
        while True:
            self.write_nested_block(s.then)
            if not s.other:
                return
            self.lines.pop()
            only = s.other[0] if len(s.other) == 1 else None
            if isinstance(only, If):
                test, lines = self.capture_lines(lambda s=only: self.value(s.test))  # type: ignore[misc]
                if not lines:
                    self.line(f"}} else if ({test}) {{")
                    s = only
                    continue
            self.line("} else {")
            self.write_nested_block(s.other)
            return

    def write_for(self, s: For) -> None:
        """Writes a ``for`` loop; with a separate counter if its variable is assigned in the body or used afterwards."""
        start, stop = self.operands((s.start, s.stop), index=True)
        changed = {n for each, _ in walk_statements(s.body) for n in written_variables(each)}
        name = self.names[s.name]
        counter = name if s.name in self.counters else self.temporary()
        if not is_invariant(s.stop, changed):
            stop = self.store_in_variable(Constant(INT, 0), stop)
        step = {1: "++", -1: "--"}.get(s.step) or f" {'+' if s.step > 0 else '-'}= {abs(s.step)}"
        relation = "<" if s.step > 0 else ">"
        stop = f"({stop})" if "?" in stop else stop
        self.line(f"for (int64_t {counter} = {start}; {counter} {relation} {stop}; {counter}{step}) {{")
        if counter != name:
            self.write_nested_line(f"{name} = {counter};")
        self.write_nested_block(s.body)

    # -- assignments -------------------------------------------------------------------------------------------
    def write_assignment(self, target: Target, value: Expression) -> None:
        """Writes ``target = value``."""
        if isinstance(target, Targets):
            self.write_tuple_assignment(target, value)
            return
        if target is None:
            self.line(f"(void){self.value(value, ATOM)};")
            return
        text = self.value(value)
        if isinstance(target, Name):
            self.write_variable(target, self.compound_assignment(self.names[target.name], value) or text)
            return
        if (target.contains_call and accesses_memory(value)) or (
            value.contains_call and any(map(accesses_memory, target.index))
        ):
            text = self.store_in_variable(value, text)
        self.write_array_entry(target, text, value)

    def write_array_entry(self, target: Subscript, text: str, value: Expression | None = None) -> None:
        """Writes the assignment of a C text to an array entry, as a compound assignment where possible."""
        variable = self.element(target.array, target.index)
        more = "" if value is None else self.compound_assignment(variable, value)
        self.line(f"{more or f'{variable} = ' + (f'(int8_t)({text})' if has_byte_entries(target.array) else text)};")

    def write_variable(self, target: Name, text: str) -> None:
        """Writes the assignment of a C text to a variable, with its declaration if this is the first one."""
        variable = self.names[target.name]
        if target.name in self.undeclared:
            self.undeclared.remove(target.name)
            self.line(f"{self.types.type_of(target.kind)} {variable} = {text};")
        elif text.startswith(f"{variable} ") and text.split(" ")[1] in ("+=", "-=", "*=", "/="):
            self.line(f"{text};")
        elif variable != text:
            self.line(f"{variable} = {text};")

    def compound_assignment(self, variable: str, value: Expression) -> str:
        """Returns ``variable += ...`` (or -=, *=, /=) if a value has this form, else ""."""
        if isinstance(value, Binary) and value.kind == FLOAT and not value.contains_call:
            if isinstance(value.left, Name | Subscript) and self.value(value.left) == variable:
                right = self.value(value.right, ADD if value.op in "+-" else PREFIX)
                return f"{variable} {value.op}= {right}"
        return ""

    def write_tuple_assignment(self, targets: Targets, value: Expression) -> None:
        """Writes the assignment of a tuple to several targets; all values are computed before the first is assigned."""
        if not isinstance(value, MakeTuple):
            whole = self.store_in_variable(value, self.value(value))
            self.assign_items(targets, self.item_expressions(whole, value.kind), value.kind)
            return
        pairs = list(zip(targets.items, value.values, strict=True))
        for k, (target, each) in enumerate(pairs):
            before = targets.items[:k]
            early = {n for t in before for n in assigned_names(t)} & set(names_in(each))
            memory = any(isinstance(t, Subscript | Targets) for t in before) and accesses_memory(each)
            if (
                early
                or memory
                or isinstance(target, Targets)
                or each.contains_call
                or (target is not None and target.contains_call)
            ):
                computed = [self.store_in_variable(e, self.value(e)) for e in value.values]
                self.assign_items(targets, computed, value.kind)
                return
        for target, each in pairs:
            self.write_assignment(target, each)

    def assign_items(self, targets: Targets, values: Sequence[str], kind: Kind) -> None:
        """Writes the assignments of a tuple's items, given as C texts, to their targets."""
        for target, text, item in zip(targets.items, values, item_kinds(kind), strict=True):
            if isinstance(target, Targets):
                self.assign_items(target, self.item_expressions(text, item), item)
            elif isinstance(target, Name):
                self.write_variable(target, text)
            elif target is not None:
                self.write_array_entry(target, text)
            else:
                self.line(f"(void){text};")

    def item_expressions(self, whole: str, kind: Kind) -> list[str]:
        """Returns the C texts of the fields of a structure."""
        return [f"{whole}.{self.types.field_name(kind, k)}" for k in range(len(item_kinds(kind)))]


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
