"""Writer of typed functions and statements as LLVM IR."""

from __future__ import annotations

from collections.abc import Sequence

from .kinds import (
    EPILOGUE,
    FLOAT,
    INT,
    NOTHING,
    Callee,
    Kind,
    RecordKind,
    argument_types,
    item_kinds,
    register_types,
    return_type,
    word_count,
)
from .llvm_expressions import LlvmExpressionWriter, Values
from .typed_tree import (
    Assign,
    Break,
    Continue,
    Evaluate,
    Expression,
    For,
    If,
    MakeTuple,
    Name,
    Return,
    Statement,
    Subscript,
    Targets,
    While,
)

__all__ = ["EPILOGUE", "Callee", "LlvmFunctionWriter"]


class LlvmFunctionWriter(LlvmExpressionWriter):
    """Writer of one function as LLVM IR; same arguments as `InstructionWriter`."""

    def text(self) -> str:
        """Returns the definition of the function, which is inlined only if its source requests it."""
        return self.definition(self.function.inline, self.body())

    def definition(self, inline: bool | None, body: str) -> str:
        """Returns the definition with the text of the body.

        Args:
            inline: whether to inline it into callers; None, like False, does not.
            body: result of `body`.
        """
        f = self.function
        parameters = ["ptr noalias %out"] if isinstance(f.returns, RecordKind) else []
        for name, kind in f.parameters:
            attribute = " noalias" if isinstance(kind, RecordKind) else ""
            parameters += [f"{t}{attribute} %a.{name}.{k}" for k, t in enumerate(argument_types(kind))]
        hint = {None: "", True: " alwaysinline", False: " noinline"}[inline]
        head = f"define internal {return_type(f.returns)} @{f.symbol}({', '.join(parameters)}){hint} nounwind {{"
        return "\n".join([head, body, "}"])

    def body(self) -> str:
        """Writes the instructions of the function and returns them as text."""
        f = self.function
        for name, kind in f.variables.items():
            if name not in self.unmodified_parameters and name not in self.aliases:
                self.allocate_variable(f"%v.{name}", kind)
        for name, kind in f.parameters:
            if name in f.assigned:
                self.assign_variable(name, kind, self.parameter_registers(name, kind))
        self.write_block(f.body)
        if not self.closed:
            self.line("ret void" if f.returns == NOTHING else "unreachable")
        return "\n".join(["entry:", *self.allocations, *self.lines])

    # -- variables -------------------------------------------------------------------------------------------
    def allocate_variable(self, base: str, kind: Kind) -> None:
        """Allocates the stack memory of a variable."""
        if isinstance(kind, RecordKind):
            self.allocations.append(f"  {base} = alloca [{word_count(kind)} x i64], align 8")
            return
        for k, t in enumerate(register_types(kind)):
            self.allocations.append(f"  {base}.{k} = alloca {t}, align 8")

    def assign_variable(self, name: str, kind: Kind, values: Values) -> None:
        """Writes the store instructions that assign a value to a variable; names in `aliases` have no memory."""
        if name in self.aliases:
            return
        if isinstance(kind, RecordKind):
            self.write_record(f"%v.{name}", 0, kind, values)
            return
        for k, (t, x) in enumerate(zip(register_types(kind), values, strict=True)):
            self.line(f"store {t} {x}, ptr %v.{name}.{k}")

    # -- statements ------------------------------------------------------------------------------------------
    def write_block(self, body: Sequence[Statement]) -> None:
        """Writes statements in order."""
        for each in body:
            self.write_statement(each)

    def write_statement(self, s: Statement) -> None:
        """Writes one statement."""
        match s:
            case Assign():
                self.write_assignment(s.target, s.value)
            case Evaluate():
                self.value(s.value)
            case If():
                then, other, end = self.new_label(), self.new_label(), self.new_label()
                self.branch(self.value(s.test)[0], then, other if s.other else end)
                self.start_block(then)
                self.write_block(s.then)
                self.jump(end)
                if s.other:
                    self.start_block(other)
                    self.write_block(s.other)
                    self.jump(end)
                self.start_block(end)
            case While():
                head, body, end = self.new_label(), self.new_label(), self.new_label()
                self.jump(head)
                self.start_block(head)
                self.branch(self.value(s.test)[0], body, end)
                self.start_block(body)
                self.write_loop_body(s.body, head, end)
                self.jump(head)
                self.start_block(end)
            case For():
                self.write_for(s)
            case Return():
                self.write_return(s.value)
            case Break() | Continue():
                self.jump(self.loops[-1][isinstance(s, Break)])

    def write_loop_body(self, body: Sequence[Statement], next_: str, end: str) -> None:
        """Writes the body of a loop; ``continue`` jumps to `next_` and ``break`` to `end`."""
        self.loops.append((next_, end))
        self.write_block(body)
        self.loops.pop()

    def write_for(self, s: For) -> None:
        """Writes a ``for`` loop; its counter is separate from the variable, which the body may change."""
        start, stop = self.value(s.start)[0], self.value(s.stop)[0]
        counter = self.stack_slot("i64", "i")
        head, body, step, end = (self.new_label() for _ in range(4))
        self.line(f"store i64 {start}, ptr {counter}")
        self.jump(head)
        self.start_block(head)
        now = self.instruction(f"load i64, ptr {counter}")
        self.branch(self.instruction(f"icmp {'slt' if s.step > 0 else 'sgt'} i64 {now}, {stop}"), body, end)
        self.start_block(body)
        self.line(f"store i64 {now}, ptr %v.{s.name}.0")
        self.write_loop_body(s.body, step, end)
        self.jump(step)
        self.start_block(step)
        before = self.instruction(f"load i64, ptr {counter}")
        self.line(f"store i64 {self.instruction(f'add nsw i64 {before}, {s.step}')}, ptr {counter}")
        self.jump(head)
        self.start_block(end)

    def write_return(self, value: Expression | None) -> None:
        """Writes ``return``."""
        if value is None:
            self.line("ret void")
        elif isinstance(value.kind, RecordKind):
            self.make_record("%out", 0, value)
            self.line("ret void")
        else:
            kind, values = self.function.returns, self.value(value)
            whole, t = values[0], return_type(kind)
            if len(values) > 1:
                whole = "poison"
                for k, (x, type_) in enumerate(zip(values, register_types(kind), strict=True)):
                    whole = self.instruction(f"insertvalue {t} {whole}, {type_} {x}, {k}")
            self.line(f"ret {t} {whole}")
        self.closed = True

    def write_assignment(self, target: Name | Subscript | Targets | None, value: Expression) -> None:
        """Writes ``target = value``; nothing if the target is an alias of a record."""
        if isinstance(target, Name) and isinstance(target.kind, RecordKind) and target.name in self.assigned_once:
            if target.name not in self.aliases:
                self.make_record(f"%v.{target.name}", 0, value)
        elif isinstance(target, Targets) and isinstance(value, MakeTuple):
            pairs = zip(target.items, value.values, strict=True)
            stored = [(t, e) for t, e in pairs if not (isinstance(t, Name) and t.name in self.aliases)]
            computed = [self.value(e) for _, e in stored]
            for (t, e), values in zip(stored, computed, strict=True):
                self.assign_registers(t, e.kind, values)
        else:
            self.assign_registers(target, value.kind, self.value(value))

    def assign_registers(self, target: Name | Subscript | Targets | None, kind: Kind, values: Values) -> None:
        """Writes the stores of computed registers to a target."""
        match target:
            case Name():
                self.assign_variable(target.name, target.kind, self.convert(kind, target.kind, values))
            case Subscript():
                pointer, item = self.entry_address(target)
                self.store_entry(pointer, item, self.convert(kind, FLOAT if item == "float" else INT, values)[0])
            case Targets():
                k = 0
                for each, item_ in zip(target.items, item_kinds(kind), strict=True):
                    n = len(register_types(item_))
                    self.assign_registers(each, item_, values[k : k + n])
                    k += n
