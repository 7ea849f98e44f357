"""Functions and statements of typed trees as C99."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from .c99_expressions import C99ExpressionWriter
from .c99_types import ADD, ATOM, PREFIX, Types, identifier
from .kinds import FLOAT, INT, Kind, RecordKind
from .local_arrays import walk_statements
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
from .value_layout import parts
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
    within_one_block,
    written_variables,
)


def comment(doc: str) -> str:
    """A docstring as a comment."""
    text = " ".join(doc.split()).replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?").replace("``", "'")
    return textwrap.fill(f"/* {text}", 112, subsequent_indent="   ") + " */\n" if text else ""


def prototype(f: Function, name: str, types: Types) -> str:
    """Head of a function."""
    given = []
    for parameter, kind in f.parameters:
        copied = isinstance(kind, RecordKind) and parameter in f.assigned
        given.append(types.parameter(identifier(parameter) + ("_given" if copied else ""), kind))
    return f"{types.of(f.returns)} {name}({', '.join(given) or 'void'})"


class C99FunctionWriter(C99ExpressionWriter):
    """Writes one function; arguments as `ExpressionWriter`."""

    def definition(self, name: str, *, public: bool) -> str:
        """The whole function."""
        f = self.function
        self.undeclared: set[str] = set()
        self.counters = {n for n in f.variables if n not in dict(f.parameters) and is_only_loop_counter(f.body, n)}
        self.declared = {n for n, _ in f.parameters} | self.counters
        self.read = set(names_read(f.body))
        for parameter, kind in f.parameters:
            if isinstance(kind, RecordKind) and parameter in f.assigned:
                c = self.names[parameter]
                self.line(f"{self.types.of(kind)} {c} = *{identifier(parameter)}_given;")
        for parameter, _ in f.parameters:
            if parameter not in self.read:
                self.line(f"(void){self.names[parameter]};")
        self.block(f.body)
        head = prototype(f, name, self.types)
        if not public:
            head = f"static {'inline ' if f.inline else ''}{head}"
        lines = textwrap.fill(head, 112, subsequent_indent="    ", break_long_words=False)
        return comment(f.doc) + "\n".join([lines, "{", *self.top, *self.lines, "}"])

    # -- statements --------------------------------------------------------------------------------------------
    def block(self, body: Sequence[Statement]) -> None:
        """One after the other; variables are declared where all that names them can see them."""
        mentioned = [mentioned_variables(s) for s in body]
        for k, s in enumerate(body):
            wanted = [
                n
                for n in self.function.variables
                if n not in self.declared
                and n in mentioned[k]
                and (any(n in each for each in mentioned[k + 1 :]) or not within_one_block(s, n))
            ]
            self.declared |= set(wanted)
            own = assigned_names(s.target) if isinstance(s, Assign) else set()
            for n in wanted:
                kind = self.function.variables[n]
                if n not in own:
                    begin = "{0}" if parts(kind) or not self.plain(kind) else "false" if str(kind) == "bool" else "0"
                    self.line(f"{self.types.of(kind)} {self.names[n]} = {begin};")
            self.undeclared = own & set(wanted)
            self.statement(s)
            for n in wanted:
                if n not in self.read:
                    self.line(f"(void){self.names[n]};")

    @staticmethod
    def plain(kind: Kind) -> bool:
        """Whether a value is a number to C."""
        return str(kind) in ("float", "int", "bool")

    def statement(self, s: Statement) -> None:
        """One."""
        match s:
            case Assign():
                self.assign(s.target, s.value)
            case Evaluate():
                text = self.value(s.value, ATOM)
                self.line(
                    f"{'' if not parts(s.value.kind) and self.types.of(s.value.kind) == 'void' else '(void)'}{text};"
                )
            case If():
                self.branch(s)
            case While():
                test, lines = self.apart(lambda: self.value(s.test), 1)
                self.line(f"while ({'true' if lines else test}) {{")
                self.lines += lines
                if lines:
                    self.inner(f"if (!({test})) {{\n{'    ' * (self.depth + 2)}break;\n{'    ' * (self.depth + 1)}}}")
                self.deeper(s.body)
            case For():
                self.loop(s)
            case Return():
                self.line("return;" if s.value is None else f"return {self.value(s.value)};")
            case Break():
                self.line("break;")
            case Continue():
                self.line("continue;")

    def inner(self, text: str) -> None:
        """A line of the next deeper block."""
        self.lines.append("    " * (self.depth + 1) + text)

    def deeper(self, body: Sequence[Statement]) -> None:
        """A block, and its end."""
        self.depth += 1
        outside = set(self.declared)
        self.block(body)
        self.declared = outside
        self.depth -= 1
        self.line("}")

    def branch(self, s: If) -> None:
        """``if``."""
        self.line(f"if ({self.value(s.test)}) {{")
        while True:
            self.deeper(s.then)
            if not s.other:
                return
            self.lines.pop()
            only = s.other[0] if len(s.other) == 1 else None
            if isinstance(only, If):
                test, lines = self.apart(lambda s=only: self.value(s.test))  # type: ignore[misc]
                if not lines:
                    self.line(f"}} else if ({test}) {{")
                    s = only
                    continue
            self.line("} else {")
            self.deeper(s.other)
            return

    def loop(self, s: For) -> None:
        """``for``; a counter of its own where the body changes the variable or the variable lives on."""
        start, stop = self.operands((s.start, s.stop), index=True)
        changed = {n for each, _ in walk_statements(s.body) for n in written_variables(each)}
        name = self.names[s.name]
        counter = name if s.name in self.counters else self.temporary()
        if not is_invariant(s.stop, changed):
            stop = self.held(Constant(INT, 0), stop)
        step = {1: "++", -1: "--"}.get(s.step) or f" {'+' if s.step > 0 else '-'}= {abs(s.step)}"
        relation = "<" if s.step > 0 else ">"
        stop = f"({stop})" if "?" in stop else stop
        self.line(f"for (int64_t {counter} = {start}; {counter} {relation} {stop}; {counter}{step}) {{")
        if counter != name:
            self.inner(f"{name} = {counter};")
        self.deeper(s.body)

    # -- assignments -------------------------------------------------------------------------------------------
    def assign(self, target: Target, value: Expression) -> None:
        """``target = value``."""
        if isinstance(target, Targets):
            self.assign_parts(target, value)
            return
        if target is None:
            self.line(f"(void){self.value(value, ATOM)};")
            return
        text = self.value(value)
        if isinstance(target, Name):
            self.name(target, self.increment(self.names[target.name], value) or text)
            return
        if (target.contains_call and accesses_memory(value)) or (
            value.contains_call and any(map(accesses_memory, target.index))
        ):
            text = self.held(value, text)
        self.put(target, text, value)

    def put(self, target: Subscript, text: str, value: Expression | None = None) -> None:
        """An entry takes a value."""
        place = self.element(target.array, target.index)
        more = "" if value is None else self.increment(place, value)
        self.line(f"{more or f'{place} = ' + (f'(int8_t)({text})' if has_byte_entries(target.array) else text)};")

    def name(self, target: Name, text: str) -> None:
        """A variable takes a value, its first where it is declared."""
        place = self.names[target.name]
        if target.name in self.undeclared:
            self.undeclared.remove(target.name)
            self.line(f"{self.types.of(target.kind)} {place} = {text};")
        elif text.startswith(f"{place} ") and text.split(" ")[1] in ("+=", "-=", "*=", "/="):
            self.line(f"{text};")
        elif place != text:
            self.line(f"{place} = {text};")

    def increment(self, place: str, value: Expression) -> str:
        """``place += ...`` if that is what a value says, else ""."""
        if isinstance(value, Binary) and value.kind == FLOAT and not value.contains_call:
            if isinstance(value.left, Name | Subscript) and self.value(value.left) == place:
                right = self.value(value.right, ADD if value.op in "+-" else PREFIX)
                return f"{place} {value.op}= {right}"
        return ""

    def assign_parts(self, targets: Targets, value: Expression) -> None:
        """Values of a tuple: all are computed before the first is assigned."""
        if not isinstance(value, MakeTuple):
            whole = self.held(value, self.value(value))
            self.spread(targets, self.values_of(whole, value.kind), value.kind)
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
                held = [self.held(e, self.value(e)) for e in value.values]
                self.spread(targets, held, value.kind)
                return
        for target, each in pairs:
            self.assign(target, each)

    def spread(self, targets: Targets, values: Sequence[str], kind: Kind) -> None:
        """Values of a tuple, each where it is wanted."""
        for target, text, item in zip(targets.items, values, parts(kind), strict=True):
            if isinstance(target, Targets):
                self.spread(target, self.values_of(text, item), item)
            elif isinstance(target, Name):
                self.name(target, text)
            elif target is not None:
                self.put(target, text)
            else:
                self.line(f"(void){text};")

    def values_of(self, whole: str, kind: Kind) -> list[str]:
        """Texts of the values of a structure."""
        return [f"{whole}.{self.types.field(kind, k)}" for k in range(len(parts(kind)))]
