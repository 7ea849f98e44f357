"""Writer of typed expressions as LLVM IR, and of the instructions and blocks of one function.

Variables are stack memory that the optimizer turns into registers.  Sums are evaluated in the order of the source; with
`contract`, a product and a sum may become one instruction with one rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .kinds import (
    BOOL,
    BOOL_VECTOR,
    FLOAT,
    INT,
    INT_VECTOR,
    ITEMS,
    LANE_WIDTH,
    LANES,
    RELATIONS,
    SCALARS,
    VECTOR,
    ArrayKind,
    Callee,
    Kind,
    RecordKind,
    ScalarKind,
    argument_types,
    field_offset,
    item_kinds,
    literal,
    register_types,
    return_type,
    word_count,
)
from .typed_tree import (
    AxisLength,
    Binary,
    Call,
    Compare,
    Conditional,
    Constant,
    Convert,
    Expression,
    Field,
    Function,
    Intrinsic,
    LocalArray,
    Logic,
    MakeTuple,
    Name,
    ReshapedView,
    SlicedView,
    Subscript,
    Unary,
)
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
                return found[0], found[1] + field_offset(e.record.kind, e.index)
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

    # -- entries of arrays -------------------------------------------------------------------------------------
    def load_entry(self, pointer: str, item: str) -> str:
        """Writes the load of an array entry; bytes become integers of 64 bits."""
        type_, align, alias = ITEMS[item]
        x = self.instruction(f"load {type_}, ptr {pointer}, align {align}, !tbaa {alias}")
        return self.instruction(f"sext i8 {x} to i64") if item == "byte" else x

    def store_entry(self, pointer: str, item: str, x: str) -> None:
        """Writes the store of an array entry; a byte is given as an integer of 64 bits."""
        type_, align, alias = ITEMS[item]
        if item == "byte":
            x = self.instruction(f"trunc i64 {x} to i8")
        self.line(f"store {type_} {x}, ptr {pointer}, align {align}, !tbaa {alias}")

    def load_lanes(self, pointer: str) -> str:
        """Writes the load of `LANE_WIDTH` consecutive floats."""
        return self.instruction(f"load {VECTOR}, ptr {pointer}, align 8, !tbaa !1")

    def store_lanes(self, pointer: str, x: str) -> None:
        """Writes the store of `LANE_WIDTH` consecutive floats."""
        self.line(f"store {VECTOR} {x}, ptr {pointer}, align 8, !tbaa !1")

    def call_kernel(self, address: str, pointers: Sequence[str]) -> str:
        """Writes the call of machine code at an address, with the first entries of arrays."""
        function = self.instruction(f"inttoptr i64 {address} to ptr")
        return self.instruction(f"call i64 {function}({', '.join(f'ptr {each}' for each in pointers)})")

    def offset_pointer(self, pointer: str, item: str, by: str) -> str:
        """Writes a pointer advanced by a number of entries."""
        return (
            pointer
            if by == "0"
            else self.instruction(f"getelementptr inbounds {ITEMS[item][0]}, ptr {pointer}, i64 {by}")
        )


class LlvmExpressionWriter(InstructionWriter):
    """Writer of the expressions of one function as LLVM IR; same arguments as `InstructionWriter`."""

    # -- expressions -----------------------------------------------------------------------------------------
    def value(self, e: Expression) -> Values:
        """Writes the code of an expression and returns the registers of its value."""
        match e:
            case Constant():
                if e.kind == FLOAT:
                    return (literal(float(e.value)),)
                return (str(bool(e.value)).lower() if e.kind == BOOL else str(int(e.value)),)
            case Name():
                return self.variable(e)
            case Call() if isinstance(e.kind, RecordKind):
                return self.read_record(*self.materialized_record(e), e.kind)
            case Binary():
                return (self.binary(e),)
            case Unary():
                x = self.value(e.operand)[0]
                if e.op == "not":
                    return (self.instruction(f"xor i1 {x}, true"),)
                if e.kind == INT:
                    return (self.instruction(f"sub i64 0, {x}"),)
                return (self.instruction(f"fneg {SCALARS[e.kind]} {x}"),)
            case Compare():
                return (self.compare(e),)
            case Logic():
                return (self.logic(e),)
            case Conditional():
                return self.conditional(e)
            case Convert():
                return self.convert(e.operand.kind, e.kind, self.value(e.operand))
            case Call():
                return self.call(e)
            case Intrinsic():
                return self.intrinsic(e)
            case Subscript():
                return (self.load_entry(*self.entry_address(e)),)
            case SlicedView():
                return self.view(e)
            case AxisLength():
                return (self.array_registers(e.array, 1 + e.axis, 2 + e.axis)[0],)
            case ReshapedView():
                assert isinstance(e.kind, ArrayKind)
                pointer = self.array_registers(e.array, 0, 1)[0]
                at = self.value(e.at)[0]
                return (self.offset_pointer(pointer, e.kind.item, at), *(self.value(each)[0] for each in e.sizes))
            case LocalArray():
                return self.local_array(e)
            case MakeTuple():
                return tuple(x for each in e.values for x in self.value(each))
            case Field():
                return self.field(e)
        raise AssertionError(e)

    def scalar(self, e: Expression) -> str:
        """Writes the code of a number and returns its register."""
        return self.value(e)[0]

    def variable(self, e: Name) -> Values:
        """Writes the code that reads a variable and returns its registers."""
        if e.name in self.unmodified_parameters:
            return self.parameter_registers(e.name, e.kind)
        if isinstance(e.kind, RecordKind):
            return self.read_record(*self.materialized_record(e), e.kind)
        return tuple(self.instruction(f"load {t}, ptr %v.{e.name}.{k}") for k, t in enumerate(register_types(e.kind)))

    def parameter_registers(self, name: str, kind: Kind) -> Values:
        """Returns the registers of a parameter; the fields of a record are loaded."""
        if isinstance(kind, RecordKind):
            return self.read_record(f"%a.{name}.0", 0, kind)
        return tuple(f"%a.{name}.{k}" for k in range(len(register_types(kind))))

    def field(self, e: Field) -> Values:
        """Returns the registers of one field of a tuple or record; the other fields of a record are not loaded."""
        if isinstance(e.record.kind, RecordKind):
            return self.read_record(*self.field_address(e), e.kind)
        items = item_kinds(e.record.kind)
        start = sum(len(register_types(k)) for k in items[: e.index])
        return self.value(e.record)[start : start + len(register_types(e.kind))]

    def field_address(self, e: Field) -> tuple[str, int]:
        """Returns the location of a field of a record: an address and an offset in words."""
        base, at = self.materialized_record(e.record)
        return base, at + field_offset(e.record.kind, e.index)

    def argument_registers(self, e: Expression) -> Values:
        """Returns the registers in which a value is passed to a function; a record is passed by its address."""
        return (self.word_address(*self.materialized_record(e)),) if isinstance(e.kind, RecordKind) else self.value(e)

    # -- records ---------------------------------------------------------------------------------------------
    def materialized_record(self, e: Expression) -> tuple[str, int]:
        """Returns address and offset in words of a record; a temporary record is written to memory first."""
        location = self.record_address(e)
        if location is None:
            location = self.stack_slot(f"[{word_count(e.kind)} x i64]", "r"), 0
            self.make_record(*location, e)
        return location

    def make_record(self, base: str, at: int, e: Expression) -> None:
        """Writes the code that stores a value in `base` from word `at` on; the value must not read that memory."""
        match e:
            case MakeTuple() if isinstance(e.kind, RecordKind):
                for each in e.values:
                    self.make_record(base, at, each)
                    at += word_count(each.kind)
            case Call() if isinstance(e.kind, RecordKind):
                self.call(e, self.word_address(base, at))
            case _ if isinstance(e.kind, RecordKind) and (location := self.record_address(e)) is not None:
                self.copy_record(base, at, location, e.kind)
            case _:
                self.write_record(base, at, e.kind, self.value(e))

    # -- numbers ---------------------------------------------------------------------------------------------
    def binary(self, e: Binary) -> str:
        """Writes a binary operation on numbers and returns its register."""
        x, y, t = self.value(e.left)[0], self.value(e.right)[0], SCALARS[e.kind]
        if e.kind in (FLOAT, LANES):
            name = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}[e.op]
            return self.instruction(f"{name}{self.fast_math_flag} {t} {x}, {y}")
        if e.op in ("//", "%"):
            return self.floor_divide(e.op, x, int(y))
        name = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or"}[e.op]
        return self.instruction(f"{name} {t} {x}, {y}")

    def compare(self, e: Compare) -> str:
        """Writes a comparison chain with short-circuit evaluation and returns its register."""
        of_floats = e.operands[0].kind == FLOAT
        left = self.value(e.operands[0])[0]

        def holds(k: int) -> str:
            nonlocal left
            right, relation = self.value(e.operands[k + 1])[0], RELATIONS[e.operators[k]][not of_floats]
            compare = f"fcmp {relation} double" if of_floats else f"icmp {relation} i64"
            out = self.instruction(f"{compare} {left}, {right}")
            left = right
            return out

        return self.all_or_any("and", [partial(holds, k) for k in range(len(e.operators))])

    def logic(self, e: Logic) -> str:
        """Writes ``and`` or ``or`` with short-circuit evaluation and returns its register."""
        return self.all_or_any(e.op, [partial(self.scalar, each) for each in e.values])

    def all_or_any(self, op: str, tests: Sequence[Callable[[], str]]) -> str:
        """Writes whether all ("and") or any ("or") tests hold, evaluating no more tests than necessary."""
        if len(tests) == 1:
            return tests[0]()
        location, end = self.stack_slot("i1", "l"), self.new_label()
        for k, test in enumerate(tests):
            x = test()
            self.line(f"store i1 {x}, ptr {location}")
            if k + 1 < len(tests):
                on = self.new_label()
                self.branch(x, on if op == "and" else end, end if op == "and" else on)
                self.start_block(on)
        self.jump(end)
        self.start_block(end)
        return self.instruction(f"load i1, ptr {location}")

    def conditional(self, e: Conditional) -> Values:
        """Writes a conditional expression and returns its registers."""
        types = register_types(e.kind)
        slots = [self.stack_slot(t, "c") for t in types]
        then, other, end = self.new_label(), self.new_label(), self.new_label()
        self.branch(self.value(e.test)[0], then, other)
        for label, each in ((then, e.then), (other, e.other)):
            self.start_block(label)
            for t, location, x in zip(types, slots, self.value(each), strict=True):
                self.line(f"store {t} {x}, ptr {location}")
            self.jump(end)
        self.start_block(end)
        return tuple(self.instruction(f"load {t}, ptr {location}") for t, location in zip(types, slots, strict=True))

    def call(self, e: Call, out: str = "") -> Values:
        """Writes the call of another function and returns its result; a record is returned in the memory at `out`."""
        f = self.callee(e.function)
        given = [f"ptr {out}"] if out else []
        for kind, each in zip(f.parameters, e.arguments, strict=True):
            given += [f"{t} {x}" for t, x in zip(argument_types(kind), self.argument_registers(each), strict=True)]
        text, types = f"call {return_type(f.returns)} @{f.symbol}({', '.join(given)})", register_types(f.returns)
        if out or not types:
            self.line(text)
            return ()
        out = self.instruction(text)
        if len(types) == 1:
            return (out,)
        return tuple(self.instruction(f"extractvalue {return_type(f.returns)} {out}, {k}") for k in range(len(types)))

    # -- arrays ----------------------------------------------------------------------------------------------
    def array_registers(self, e: Expression, first: int, last: int) -> Values:
        """Returns words `first` to `last` - 1 of an array descriptor (pointer, then sizes); loads no others."""
        types = register_types(e.kind)[first:last]
        if isinstance(e, Name) and e.name not in self.unmodified_parameters:
            return tuple(self.instruction(f"load {t}, ptr %v.{e.name}.{first + k}") for k, t in enumerate(types))
        if isinstance(e, Field) and isinstance(e.record.kind, RecordKind):
            base, at = self.field_address(e)
            return self.read_words(base, at + first, types)
        return self.value(e)[first:last]

    def pointer_and_sizes(self, e: Expression) -> tuple[str, list[str]]:
        """Returns the pointer and the sizes of an array; the first size, which no address depends on, is left empty."""
        count = len(register_types(e.kind))
        return self.array_registers(e, 0, 1)[0], ["", *self.array_registers(e, 2, count)]

    def flat_offset(self, index: Sequence[Expression], sizes: Sequence[str]) -> str:
        """Writes the number of entries before the one that leading indices select."""
        out = "0"
        for k, each in enumerate(index):
            i = self.value(each)[0]
            out = i if out == "0" else self.instruction(f"add nsw i64 {out}, {i}")
            if k + 1 < len(sizes) and out != "0":
                out = self.instruction(f"mul nsw i64 {out}, {sizes[k + 1]}")
        for size in sizes[len(index) + 1 :]:
            out = "0" if out == "0" else self.instruction(f"mul nsw i64 {out}, {size}")
        return out

    def entry_address(self, e: Subscript) -> tuple[str, str]:
        """Writes the address of an array entry and returns it with the item type of the array."""
        assert isinstance(e.array.kind, ArrayKind)
        pointer, sizes = self.pointer_and_sizes(e.array)
        return self.offset_pointer(pointer, e.array.kind.item, self.flat_offset(e.index, sizes)), e.array.kind.item

    def view(self, e: SlicedView) -> Values:
        """Returns the registers of a view of an array."""
        assert isinstance(e.array.kind, ArrayKind)
        pointer, *sizes = self.value(e.array)
        item, left = e.array.kind.item, sizes[len(e.index) :]
        if e.index:
            pointer = self.offset_pointer(pointer, item, self.flat_offset(e.index, sizes))
        start = "0" if e.start is None else self.value(e.start)[0]
        stop = left[0] if e.stop is None else self.value(e.stop)[0]
        if start != "0":
            by = start
            for size in left[1:]:
                by = self.instruction(f"mul nsw i64 {by}, {size}")
            pointer, stop = self.offset_pointer(pointer, item, by), self.instruction(f"sub nsw i64 {stop}, {start}")
        return (pointer, stop, *left[1:])

    def local_array(self, e: LocalArray) -> Values:
        """Allocates an array on the stack, padded for lanes that extend past its end, and returns its registers."""
        count = LANE_WIDTH
        total = 1
        for size in e.sizes:
            total *= size
        location = self.stack_slot(f"[{total + count} x double]", "x")
        if e.clear:
            self.line(f"call void @llvm.memset.p0.i64(ptr {location}, i8 0, i64 {8 * total}, i1 false)")
        return (location, *map(str, e.sizes))

    # -- functions of the language ----------------------------------------------------------------------------
    def intrinsic(self, e: Intrinsic) -> Values:
        """Writes a call of a function of `language` or `math` and returns its registers."""
        name = e.name
        if name in ("load8", "store8"):
            location = e.arguments[1:] if name == "store8" else e.arguments
            lanes = self.value(e.arguments[0])[0] if name == "store8" else ""
            pointer, sizes = self.pointer_and_sizes(location[0])
            pointer = self.offset_pointer(pointer, "float", self.flat_offset(location[1:], sizes))
            if name == "store8":
                self.store_lanes(pointer, lanes)
                return ()
            return (self.load_lanes(pointer),)
        values = [self.value(each)[0] for each in e.arguments]
        x = values[0]
        match name:
            case "sqrt" | "floor":
                return (self.instruction(f"call double @llvm.{name}.f64(double {x})"),)
            case "sin" | "cos" | "acos" | "exp" | "log" | "log1p":
                return (self.instruction(f"call double @{name}(double {x})"),)
            case "atan2" | "copysign":
                return (self.instruction(f"call double @{name}(double {x}, double {values[1]})"),)
            case "abs":
                if e.kind == INT:
                    return (self.instruction(f"call i64 @llvm.abs.i64(i64 {x}, i1 false)"),)
                return (self.instruction(f"call double @llvm.fabs.f64(double {x})"),)
            case "isfinite":
                x = self.instruction(f"call double @llvm.fabs.f64(double {x})")
                return (self.instruction(f"fcmp olt double {x}, {literal(float('inf'))}"),)
            case "min" | "max":
                t = SCALARS[e.kind]
                relation = RELATIONS["<" if name == "min" else ">"][e.kind == INT]
                for y in values[1:]:
                    better = self.instruction(f"{'i' if e.kind == INT else 'f'}cmp {relation} {t} {y}, {x}")
                    x = self.instruction(f"select i1 {better}, {t} {y}, {t} {x}")
                return (x,)
            case "alignment":
                address = self.instruction(f"sub i64 0, {self.instruction(f'ptrtoint ptr {x} to i64')}")
                return (self.instruction(f"lshr i64 {self.instruction(f'and i64 {address}, 63')}, 3"),)
            case "call_kernel":
                return (self.call_kernel(x, values[1:]),)
            case "sum8":
                return (self.sum_lanes(x),)
            case "mask_range8":
                return (self.mask_lanes(x, values[1], values[2]),)
            case "sqrt8":
                return (self.instruction(f"call {VECTOR} @llvm.sqrt.v{LANE_WIDTH}f64({VECTOR} {x})"),)
            case "min8" | "max8":
                return (self.select_lanes("olt" if name == "min8" else "ogt", values[1], x, values[1], x),)
            case "select8":
                return (self.select_lanes("ogt", x, "zeroinitializer", *values[1:]),)
        raise AssertionError(name)
