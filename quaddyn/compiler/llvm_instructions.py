"""Writer of LLVM instructions and blocks of one function: records in memory, lanes, and conversions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .kinds import (
    BOOL_VECTOR,
    INT_VECTOR,
    ITEMS,
    LANE_WIDTH,
    VECTOR,
    Callee,
    Kind,
    RecordKind,
    ScalarKind,
    item_kinds,
    register_types,
    word_count,
)
from .typed_tree import Expression, Field, Function, Name
from .variable_analysis import aliases, assigned_values

#: Registers of a value.
Values = tuple[str, ...]


class InstructionWriter:
    """Collector of the LLVM instructions of one function.

    Args:
        function: typed tree of the function.
        callee: returns the signature of a function that it calls.
        contract: whether a product and a sum may become one instruction.
    """

    def __init__(self, function: Function, callee: Callable[[Any], Callee], *, contract: bool) -> None:
        self.function, self.callee = function, callee
        self.fast_math_flag = " contract" if contract else ""
        self.lines: list[str] = []
        self.allocations: list[str] = []
        self.count = 0
        self.closed = False
        self.loops: list[tuple[str, str]] = []
        self.unmodified_parameters = frozenset(name for name, _ in function.parameters) - function.assigned
        self.aliases = aliases(function)
        self.assigned_once = {name for name, values in assigned_values(function).items() if len(values) == 1}
        self.assigned_once -= {name for name, _ in function.parameters}

    def line(self, text: str) -> None:
        """Writes an instruction without a result."""
        self.lines.append("  " + text)

    def instruction(self, text: str) -> str:
        """Writes an instruction and returns the register of its result."""
        self.count += 1
        self.lines.append(f"  %t{self.count} = {text}")
        return f"%t{self.count}"

    def new_label(self) -> str:
        """Returns an unused label."""
        self.count += 1
        return f"b{self.count}"

    def start_block(self, label: str) -> None:
        """Begins a basic block."""
        self.lines.append(f"{label}:")
        self.closed = False

    def jump(self, label: str) -> None:
        """Ends the block with a jump, unless it has ended already."""
        if not self.closed:
            self.line(f"br label %{label}")
        self.closed = True

    def branch(self, condition: str, then: str, other: str) -> None:
        """Ends the block with a conditional branch."""
        self.line(f"br i1 {condition}, label %{then}, label %{other}")
        self.closed = True

    def stack_slot(self, kind: str, what: str = "m") -> str:
        """Allocates stack memory and returns its address."""
        self.count += 1
        name = f"%{what}{self.count}"
        self.allocations.append(f"  {name} = alloca {kind}, align 8")
        return name

    # -- records in memory -----------------------------------------------------------------------------------
    def record_address(self, e: Expression) -> tuple[str, int] | None:
        """Returns the location of a record variable or a field of one, an address and an offset in words, or None."""
        if isinstance(e, Name) and e.name in self.aliases:
            return self.record_address(self.aliases[e.name])
        if isinstance(e, Name) and isinstance(e.kind, RecordKind):
            return (f"%a.{e.name}.0" if e.name in self.unmodified_parameters else f"%v.{e.name}"), 0
        if isinstance(e, Field):
            found = self.record_address(e.record)
            if found is not None:
                return found[0], found[1] + sum(word_count(k) for k in item_kinds(e.record.kind)[: e.index])
        return None

    def word_address(self, base: str, at: int) -> str:
        """Writes the address of a word of a record."""
        return self.instruction(f"getelementptr inbounds i8, ptr {base}, i64 {8 * at}") if at else base

    def read_record(self, base: str, at: int, kind: Kind) -> Values:
        """Loads a value of a kind from a record, from a word on, and returns its registers."""
        return self.read_words(base, at, register_types(kind))

    def read_words(self, base: str, at: int, types: Sequence[str]) -> Values:
        """Loads registers of the given types from a record, from a word on."""
        out = []
        for t in types:
            x = self.instruction(
                f"load {'i64' if t == 'i1' else t}, ptr {self.word_address(base, at)}, align 8, !tbaa !8"
            )
            out.append(self.instruction(f"trunc i64 {x} to i1") if t == "i1" else x)
            at += LANE_WIDTH if t == VECTOR else 1
        return tuple(out)

    def copy_record(self, base: str, at: int, source: tuple[str, int], kind: Kind) -> None:
        """Writes the copy of a record to memory from a word on."""
        to, from_, size = self.word_address(base, at), self.word_address(*source), 8 * word_count(kind)
        self.line(
            f"call void @llvm.memcpy.p0.p0.i64(ptr align 8 {to}, ptr align 8 {from_}, i64 {size}, i1 false), !tbaa !8"
        )

    def write_record(self, base: str, at: int, kind: Kind, values: Values) -> None:
        """Writes the store instructions that put a value into a record, beginning with a given word."""
        for t, x in zip(register_types(kind), values, strict=True):
            word = f"i64 {self.instruction(f'zext i1 {x} to i64')}" if t == "i1" else f"{t} {x}"
            self.line(f"store {word}, ptr {self.word_address(base, at)}, align 8, !tbaa !8")
            at += LANE_WIDTH if t == VECTOR else 1

    # -- lanes ----------------------------------------------------------------------------------------------
    def sum_lanes(self, x: str) -> str:
        """Writes the sum of lanes, added pairwise: the upper half to the lower half until one number remains."""
        n, t = LANE_WIDTH, VECTOR
        while n > 1:
            half = n // 2
            low = ", ".join(f"i32 {k}" for k in range(half))
            high = ", ".join(f"i32 {k + half}" for k in range(half))
            a = self.instruction(f"shufflevector {t} {x}, {t} poison, <{half} x i32> <{low}>")
            b = self.instruction(f"shufflevector {t} {x}, {t} poison, <{half} x i32> <{high}>")
            t, n = f"<{half} x double>", half
            x = self.instruction(f"fadd {t} {a}, {b}")
        return self.instruction(f"extractelement {t} {x}, i32 0")

    def mask_lanes(self, x: str, first: str, last: str) -> str:
        """Writes lanes with indices in [first, last); the others become zero."""
        t, bounds = INT_VECTOR, []
        for bound in (first, last):
            one = self.instruction(f"insertelement {t} poison, i64 {bound}, i32 0")
            bounds.append(
                self.instruction(f"shufflevector {t} {one}, {t} poison, <{LANE_WIDTH} x i32> zeroinitializer")
            )
        at = "<" + ", ".join(f"i64 {k}" for k in range(LANE_WIDTH)) + ">"
        after, before = (
            self.instruction(f"icmp sge {t} {at}, {bounds[0]}"),
            self.instruction(f"icmp slt {t} {at}, {bounds[1]}"),
        )
        inside = self.instruction(f"and {BOOL_VECTOR} {after}, {before}")
        return self.instruction(f"select {BOOL_VECTOR} {inside}, {VECTOR} {x}, {VECTOR} zeroinitializer")

    def select_lanes(self, relation: str, a: str, b: str, then: str, other: str) -> str:
        """Writes the lanes of `then` where a relation between a and b holds, and those of `other` elsewhere."""
        test = self.instruction(f"fcmp {relation} {VECTOR} {a}, {b}")
        return self.instruction(f"select {BOOL_VECTOR} {test}, {VECTOR} {then}, {VECTOR} {other}")

    # -- numbers and pointers ----------------------------------------------------------------------------------
    def convert(self, have: Kind, want: Kind, values: Values) -> Values:
        """Writes the conversion of a number from kind `have` to kind `want`."""
        if have == want:
            return values
        x = values[0]
        match (have, want):
            case (ScalarKind("int"), ScalarKind("float")):
                return (self.instruction(f"sitofp i64 {x} to double"),)
            case (ScalarKind("bool"), ScalarKind("int")):
                return (self.instruction(f"zext i1 {x} to i64"),)
            case (ScalarKind("bool"), ScalarKind("float")):
                return (self.instruction(f"uitofp i1 {x} to double"),)
            case (ScalarKind("int"), ScalarKind("bool")):
                return (self.instruction(f"icmp ne i64 {x}, 0"),)
            case (ScalarKind("float"), ScalarKind("int")):
                return (self.instruction(f"call i64 @llvm.fptosi.sat.i64.f64(double {x})"),)
            case (ScalarKind("float"), ScalarKind("lanes")):
                one = self.instruction(f"insertelement {VECTOR} poison, double {x}, i32 0")
                return (
                    self.instruction(
                        f"shufflevector {VECTOR} {one}, {VECTOR} poison, <{LANE_WIDTH} x i32> zeroinitializer"
                    ),
                )
        raise AssertionError((have, want))

    def floor_divide(self, op: str, x: str, by: int) -> str:
        """Writes the floor division by a positive constant, or its remainder."""
        rest = self.instruction(f"srem i64 {x}, {by}")
        negative = self.instruction(f"icmp slt i64 {rest}, 0")
        if op == "%":
            return self.instruction(
                f"select i1 {negative}, i64 {self.instruction(f'add i64 {rest}, {by}')}, i64 {rest}"
            )
        down = self.instruction(f"sext i1 {negative} to i64")
        return self.instruction(f"add i64 {self.instruction(f'sdiv i64 {x}, {by}')}, {down}")

    def offset_pointer(self, pointer: str, item: str, by: str) -> str:
        """Writes a pointer advanced by a number of entries."""
        return (
            pointer
            if by == "0"
            else self.instruction(f"getelementptr inbounds {ITEMS[item][0]}, ptr {pointer}, i64 {by}")
        )
