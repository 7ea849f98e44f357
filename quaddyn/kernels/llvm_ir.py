"""LLVM IR of a program: one state in scalars, a block of states in vectors, a batch in blocks, a call from Python.

Within a block lane k holds state k: rows are loaded whole and transposed.  Sine and cosine are a Cody-Waite reduction
to ``|r| <= pi/4`` in fused multiply-adds and the minimax polynomials of Cephes (Moshier 1989); sums and products are
fused where a product has one reader, and nothing is reassociated.  Every kernel also looks at its data on the way and
returns whether anything was wrong: an entry that is not finite, an angle too large to reduce, a pair or quaternion off
unit norm.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .graph import CONST, COS, DIV, INPUT, MUL, SIGN, SIN
from .program import Program

#: Angles beyond this are refused by the quick look [rad]: the reduction is exact to rounding up to here.
LARGEST_ANGLE: Final = {"double": 1e9, "float": 1e4}
#: How far the squared norm of a quaternion or of (cos, sin) may be from 1.
UNIT: Final = {"double": 2e-6, "float": 1e-4}
BYTES: Final = {"double": 8, "float": 4}
_PIO2 = {
    "double": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33),
    "float": (1.57079637050628662109375, -4.37113900018624283e-8, 1.71512489e-15),
}
_SIN = {
    "double": (
        1.58962301576546568060e-10,
        -2.50507477628578072866e-8,
        2.75573136213857245213e-6,
        -1.98412698295895385996e-4,
        8.33333333332211858878e-3,
        -1.66666666666666307295e-1,
    ),
    "float": (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1),
}
_COS = {
    "double": (
        -1.13585365213876817300e-11,
        2.08757008419747316778e-9,
        -2.75573141792967388112e-7,
        2.48015872888517045348e-5,
        -1.38888888888730564116e-3,
        4.16666666666665929218e-2,
    ),
    "float": (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2),
}


@dataclass(frozen=True, slots=True)
class Target:
    """A machine's vectors: `element` is "double" or "float", `lanes` how many of them a block has."""

    element: str
    lanes: int


class Writer:
    """Collects instructions of one function body over vectors of `lanes` (1: scalars)."""

    def __init__(self, element: str, lanes: int) -> None:
        self.element, self.lanes = element, lanes
        self.type = element if lanes == 1 else f"<{lanes} x {element}>"
        self.lines: list[str] = []
        self.count = 0
        short = "f64" if element == "double" else "f32"
        self.suffix = short if lanes == 1 else f"v{lanes}{short}"

    def new(self, text: str) -> str:
        """Write ``%n = text``."""
        self.count += 1
        name = f"%t{self.count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def line(self, text: str) -> None:
        """Write an instruction without a result."""
        self.lines.append("  " + text)

    def literal(self, x: float) -> str:
        """A constant, in every lane."""
        if self.lanes == 1:
            return self._digits(x)
        return "<" + ", ".join([f"{self.element} {self._digits(x)}"] * self.lanes) + ">"

    def literals(self, xs: Sequence[float]) -> str:
        """Constants by lane, the only one in all."""
        if len(xs) == 1:
            return self.literal(xs[0])
        padded = [*xs, *[0.0] * (self.lanes - len(xs))]
        return "<" + ", ".join(f"{self.element} {self._digits(x)}" for x in padded) + ">"

    def _digits(self, x: float) -> str:
        if self.element == "float":
            x = struct.unpack("f", struct.pack("f", x))[0]
        return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"

    def integers(self, x: int) -> str:
        """An integer of the element's width, in every lane."""
        return str(x) if self.lanes == 1 else "<" + ", ".join([f"{self.integer} {x}"] * self.lanes) + ">"

    @property
    def integer(self) -> str:
        """The integer type as wide as an element."""
        return "i64" if self.element == "double" else "i32"

    @property
    def integer_type(self) -> str:
        """The type of a vector of such integers."""
        return self.integer if self.lanes == 1 else f"<{self.lanes} x {self.integer}>"

    @property
    def bool_type(self) -> str:
        """The type of a comparison."""
        return "i1" if self.lanes == 1 else f"<{self.lanes} x i1>"

    def fma(self, a: str, b: str, c: str) -> str:
        """``a b + c`` with one rounding."""
        t = self.type
        return self.new(f"call {t} @llvm.fma.{self.suffix}({t} {a}, {t} {b}, {t} {c})")

    def op(self, name: str, a: str, b: str) -> str:
        """A binary instruction."""
        return self.new(f"{name} {self.type} {a}, {b}")

    def neg(self, a: str) -> str:
        """``-a``."""
        return self.new(f"fneg {self.type} {a}")

    def sin_cos(self, x: str, offsets: Sequence[float]) -> tuple[str, str]:
        """Sine and cosine of ``x + offset``, with one offset for all lanes or one each (0 where there are fewer)."""
        offset = self.literals(offsets) if any(offsets) else None
        t, e = self.type, self.element
        p1, p2, p3 = (self.literal(p) for p in _PIO2[e])
        angle = self.op("fadd", x, offset) if offset else x
        k = self.op("fmul", angle, self.literal(2.0 / math.pi))
        k = self.new(f"call {t} @llvm.rint.{self.suffix}({t} {k})")
        nk = self.neg(k)
        r = self.fma(nk, p1, x)
        if offset:  # after the large parts have cancelled, so that large angles keep their digits
            r = self.op("fadd", r, offset)
        r = self.fma(nk, p2, r)
        r = self.fma(nk, p3, r)
        z = self.op("fmul", r, r)
        s = self._polynomial(z, _SIN[e])
        c = self._polynomial(z, _COS[e])
        s = self.fma(self.op("fmul", s, z), r, r)
        zz = self.op("fmul", z, z)
        c = self.fma(zz, c, self.fma(z, self.literal(-0.5), self.literal(1.0)))
        it, bt = self.integer_type, self.bool_type
        quarter = self.new(f"fptosi {t} {k} to {it}")
        odd = self.new(f"trunc {it} {quarter} to {bt}")
        sine = self.new(f"select {bt} {odd}, {t} {c}, {t} {s}")
        cosine = self.new(f"select {bt} {odd}, {t} {s}, {t} {c}")
        return self._signed(sine, quarter), self._signed(cosine, self.new(f"add {it} {quarter}, {self.integers(1)}"))

    def _polynomial(self, z: str, coefficients: Sequence[float]) -> str:
        out = self.literal(coefficients[0])
        for c in coefficients[1:]:
            out = self.fma(out, z, self.literal(c))
        return out

    def _signed(self, x: str, quarter: str) -> str:
        """`x`, negated where bit 1 of `quarter` is set."""
        it, t = self.integer_type, self.type
        shift = 62 if self.element == "double" else 30
        bit = self.new(f"and {it} {quarter}, {self.integers(2)}")
        bit = self.new(f"shl {it} {bit}, {self.integers(shift)}")
        bits = self.new(f"bitcast {t} {x} to {it}")
        return self.new(f"bitcast {it} {self.new(f'xor {it} {bits}, {bit}')} to {t}")

    def sign(self, x: str) -> str:
        """-1, 0 or 1."""
        t, b = self.type, self.bool_type
        zero = self.literal(0.0)
        up = self.new(f"fcmp ogt {t} {x}, {zero}")
        down = self.new(f"fcmp olt {t} {x}, {zero}")
        low = self.new(f"select {b} {down}, {t} {self.literal(-1.0)}, {t} {zero}")
        return self.new(f"select {b} {up}, {t} {self.literal(1.0)}, {t} {low}")

    # -- memory ----------------------------------------------------------------------------------------------
    def address(self, pointer: str, index: int) -> str:
        """Address of element `index`."""
        return self.new(f"getelementptr {self.element}, ptr {pointer}, i64 {index}") if index else pointer

    def load(self, pointer: str, size: int, index: int) -> dict[int, str]:
        """Value `index` of `size`, and its neighbours if they come along: one state's, or a vector of `lanes` rows'."""
        size_of, W = BYTES[self.element], self.lanes
        if W == 1:
            at = self.address(pointer, index)
            return {index: self.new(f"load {self.type}, ptr {at}, align {size_of}")}
        start = max(s for s in self._windows(size) if s <= index)
        rows = []
        for row in range(W):
            at = self.address(pointer, row * size + start)
            if size >= W:
                rows.append(self.new(f"load {self.type}, ptr {at}, align {size_of}"))
            else:
                rows.append(
                    self.new(
                        f"call {self.type} @llvm.masked.load.{self.suffix}.p0(ptr {at}, i32 {size_of}, "
                        f"{self.bool_type} {self._mask(size)}, {self.type} zeroinitializer)"
                    )
                )
        return {start + k: x for k, x in enumerate(self._transposed(rows)[: min(W, size)])}

    def store(self, pointer: str, values: Sequence[str]) -> None:
        """The counterpart of `load`."""
        size, size_of, W = len(values), BYTES[self.element], self.lanes
        if W == 1:
            for k, x in enumerate(values):
                self.line(f"store {self.type} {x}, ptr {self.address(pointer, k)}, align {size_of}")
            return
        for start in self._windows(size):
            columns = list(values[start : start + W])
            columns += [columns[0]] * (W - len(columns))
            for row, x in enumerate(self._transposed(columns)):
                at = self.address(pointer, row * size + start)
                if size >= W:
                    self.line(f"store {self.type} {x}, ptr {at}, align {size_of}")
                else:
                    self.line(
                        f"call void @llvm.masked.store.{self.suffix}.p0({self.type} {x}, ptr {at}, i32 {size_of}, "
                        f"{self.bool_type} {self._mask(size)})"
                    )

    def _windows(self, size: int) -> list[int]:
        """Starts of the column windows: the last one overlaps, so that no row is read beyond its end."""
        W = self.lanes
        if size <= W:
            return [0]
        return sorted({*range(0, size - W + 1, W), size - W})

    def _mask(self, size: int) -> str:
        return "<" + ", ".join(f"i1 {int(k < size)}" for k in range(self.lanes)) + ">"

    def _transposed(self, rows: list[str]) -> list[str]:
        W, t = self.lanes, self.type
        rows = list(rows)
        h = W // 2
        while h:
            upper = [k if not k & h else W + k - h for k in range(W)]
            lower = [k + h if not k & h else W + k for k in range(W)]
            for i in range(W):
                if not i & h:
                    a, b = rows[i], rows[i + h]
                    rows[i], rows[i + h] = (
                        self.new(f"shufflevector {t} {a}, {t} {b}, <{W} x i32> <{', '.join(f'i32 {k}' for k in pick)}>")
                        for pick in (upper, lower)
                    )
            h //= 2
        return rows


class _Body:
    """Writes the computation of a program: loads, sines and stores as near to their use as can be."""

    def __init__(self, program: Program, writer: Writer, pointers: Sequence[str], results: Sequence[str]) -> None:
        self.program, self.w, self.pointers, self.targets = program, writer, pointers, results
        self.values: dict[int, str] = {}
        self.inputs: dict[int, str] = {}
        self.turned: dict[tuple[int, float], tuple[str, str]] = {}
        self.sums: list[str] = []
        self.starts: list[tuple[int, int, str]] = []  # first index, size, pointer
        start = 0
        for pointer, (_, size) in zip(pointers, program.inputs, strict=True):
            self.starts.append((start, size, pointer))
            start += size

    def write(self) -> str:
        """Write all; the name of the i1 that tells whether something was wrong."""
        program, w, graph = self.program, self.w, self.program.graph
        if w.lanes == 1:
            self.turn_together()
        for i in program.order:
            if graph.op[i] != CONST and i not in program.fused:
                self.values[i] = self.node(i)
        out = [self.get(r.ref) for r in program.results]
        for x in dict.fromkeys(out):
            if x.startswith("%"):
                self.look(x)
        start = 0
        for pointer, (_, shape) in zip(self.targets, program.outputs, strict=True):
            size = math.prod(shape)
            w.store(pointer, out[start : start + size])
            start += size
        for first, size, _ in self.starts:  # what nothing reads is looked at all the same
            for k in range(size):
                self.input(first + k)
        return self.verdict()

    def look(self, x: str) -> None:
        """Add x to a sum that is finite only if all is (or on the brink of overflow, which the caller examines)."""
        if len(self.sums) < 4:
            self.sums.append(x)
        else:
            self.sums.append(self.w.op("fadd", self.sums.pop(0), x))

    def input(self, index: int) -> str:
        """The value of an input, loaded with its neighbours."""
        if index not in self.inputs:
            first, size, pointer = next(s for s in self.starts if s[0] <= index < s[0] + s[1])
            for k, x in self.w.load(pointer, size, index - first).items():
                if first + k not in self.inputs:
                    self.inputs[first + k] = x
                    self.look(x)
        return self.inputs[index]

    def get(self, ref: int) -> str:
        """The value of a signed reference."""
        graph, i = self.program.graph, ref >> 1
        if graph.op[i] == CONST:
            return self.w.literal(-graph.value[i] if ref & 1 else graph.value[i])
        return self.w.neg(self.values[i]) if ref & 1 else self.values[i]

    def node(self, i: int) -> str:
        graph, fused, w, get = self.program.graph, self.program.fused, self.w, self.get
        op, left, right = graph.op[i], graph.left[i], graph.right[i]
        if op == INPUT:
            return self.input(left)
        if op == MUL:
            return w.op("fmul", get(left), get(right))
        if op == DIV:
            return w.op("fdiv", get(left), get(right))
        if op in (SIN, COS):
            key = left >> 1, graph.value[i]
            if key not in self.turned:
                self.turned[key] = w.sin_cos(get(left), [key[1]])
            return self.turned[key][0 if op == SIN else 1]
        if op == SIGN:
            return w.sign(get(left))
        if right >> 1 in fused:
            a, b = graph.left[right >> 1], graph.right[right >> 1]
            return w.fma(get(a ^ (right & 1)), get(b), get(left))
        if left >> 1 in fused:
            a, b = graph.left[left >> 1], graph.right[left >> 1]
            return w.fma(get(a), get(b), get(right))
        if right & 1:
            return w.op("fsub", get(left), get(right & ~1))
        return w.op("fadd", get(left), get(right))

    def turn_together(self) -> None:
        """Sines and cosines of a single state, several angles in one vector."""
        graph, w = self.program.graph, self.w
        wanted = list(
            dict.fromkeys((graph.left[i] >> 1, graph.value[i]) for i in self.program.order if graph.op[i] in (SIN, COS))
        )
        packs = 8 if w.element == "double" else 16
        for start in range(0, len(wanted), packs):
            group = wanted[start : start + packs]
            wide = Writer(w.element, max(2, 1 << (len(group) - 1).bit_length()))
            values = [self.input(graph.left[key[0]]) for key in group]
            wide.lines, wide.count = w.lines, w.count
            x = "zeroinitializer"
            for k, value in enumerate(values):
                x = wide.new(f"insertelement {wide.type} {x}, {w.type} {value}, i32 {k}")
            pair = wide.sin_cos(x, [key[1] for key in group])
            for k, key in enumerate(group):
                s, c = (wide.new(f"extractelement {wide.type} {y}, i32 {k}") for y in pair)
                self.turned[key] = s, c
            w.count = wide.count

    def verdict(self) -> str:
        """Whether anything is not finite, of no unit norm, or too large an angle."""
        w, t, e = self.w, self.w.type, self.w.element
        total = w.literal(0.0)
        for x in self.sums:
            total = w.op("fadd", total, x)
        rest = w.op("fsub", total, total)  # 0, or NaN
        bad = w.new(f"fcmp uno {t} {rest}, {rest}")
        for group in self.program.units:
            norm = w.literal(-1.0)
            for k in group:
                norm = w.fma(self.inputs[k], self.inputs[k], norm)
            size = w.new(f"call {t} @llvm.fabs.{w.suffix}({t} {norm})")
            off = w.new(f"fcmp ugt {t} {size}, {w.literal(UNIT[e])}")
            bad = w.new(f"or {w.bool_type} {bad}, {off}")
        largest = ""
        for k in self.program.angles:
            size = w.new(f"call {t} @llvm.fabs.{w.suffix}({t} {self.inputs[k]})")
            largest = w.new(f"call {t} @llvm.maxnum.{w.suffix}({t} {largest}, {t} {size})") if largest else size
        if largest:
            off = w.new(f"fcmp ugt {t} {largest}, {w.literal(LARGEST_ANGLE[e])}")
            bad = w.new(f"or {w.bool_type} {bad}, {off}")
        if w.lanes == 1:
            return bad
        bits = w.new(f"bitcast {w.bool_type} {bad} to i{w.lanes}")
        return w.new(f"icmp ne i{w.lanes} {bits}, 0")


def module(program: Program, target: Target) -> str:
    """The whole module: functions ``one``, ``block``, ``batch`` and ``call``."""
    n_in, n_out = len(program.inputs), len(program.outputs)
    ins = [f"%in{k}" for k in range(n_in)]
    outs = [f"%out{k}" for k in range(n_out)]
    parameters = ", ".join([*(f"ptr noalias readonly {p}" for p in ins), *(f"ptr noalias {p}" for p in outs)])
    parts = []
    for name, lanes in (("one", 1), ("block", target.lanes)):
        writer = Writer(target.element, lanes)
        bad = _Body(program, writer, ins, outs).write()
        head = f"define internal i64 @{name}_body({parameters}) nounwind noinline {{"
        writer.line(f"%bad = zext i1 {bad} to i64")
        writer.line("ret i64 %bad")
        parts.append("\n".join([head, *writer.lines, "}"]))
    parts.append(_batch(program, target))
    parts.append(_call(program, target))
    parts.append(_declarations(target))
    return "\n\n".join(parts) + "\n"


def _declarations(target: Target) -> str:
    out = ["declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"]
    for lanes in (1, 2, 4, 8, 16):
        w = Writer(target.element, lanes)
        t = w.type
        out.append(f"declare {t} @llvm.fma.{w.suffix}({t}, {t}, {t})")
        out.append(f"declare {t} @llvm.rint.{w.suffix}({t})")
        out.append(f"declare {t} @llvm.fabs.{w.suffix}({t})")
        out.append(f"declare {t} @llvm.maxnum.{w.suffix}({t}, {t})")
        if lanes > 1:
            out.append(f"declare {t} @llvm.masked.load.{w.suffix}.p0(ptr, i32, {w.bool_type}, {t})")
            out.append(f"declare void @llvm.masked.store.{w.suffix}.p0({t}, ptr, i32, {w.bool_type})")
    return "\n".join(out)


def _batch(program: Program, target: Target) -> str:
    """``i64 batch(i64 n, in..., out...)``: whole blocks in place, the rest through padded scratch memory."""
    W, e = target.lanes, target.element
    size = BYTES[e]
    sizes = [s for _, s in program.inputs] + [math.prod(shape) for _, shape in program.outputs]
    n_in = len(program.inputs)
    names = [f"%in{k}" for k in range(n_in)] + [f"%out{k}" for k in range(len(program.outputs))]
    parameters = ", ".join(["i64 %n", *(f"ptr {x}" for x in names)])
    lines = [f"define i64 @batch({parameters}) nounwind {{", "entry:"]
    for k, s in enumerate(sizes):
        lines.append(f"  %pad{k} = alloca [{max(1, s * W)} x {e}], align 64")
    lines += [
        f"  %blocks = udiv i64 %n, {W}",
        f"  %rest = urem i64 %n, {W}",
        "  %any = icmp ne i64 %blocks, 0",
        "  br i1 %any, label %loop, label %after",
        "loop:",
        "  %b = phi i64 [0, %entry], [%b1, %loop]",
        "  %bad = phi i64 [0, %entry], [%bad1, %loop]",
        f"  %row = mul i64 %b, {W}",
    ]
    for k, (name, s) in enumerate(zip(names, sizes, strict=True)):
        lines.append(f"  %at{k} = mul i64 %row, {s}")
        lines.append(f"  %p{k} = getelementptr {e}, ptr {name}, i64 %at{k}")
    arguments = ", ".join(f"ptr %p{k}" for k in range(len(names)))
    lines += [
        f"  %wrong = call i64 @block_body({arguments})",
        "  %bad1 = or i64 %bad, %wrong",
        "  %b1 = add i64 %b, 1",
        "  %more = icmp ult i64 %b1, %blocks",
        "  br i1 %more, label %loop, label %after",
        "after:",
        "  %bad2 = phi i64 [0, %entry], [%bad1, %loop]",
        "  %left = icmp ne i64 %rest, 0",
        "  br i1 %left, label %tail, label %done",
        "tail:",
        "  %start = sub i64 %n, %rest",
    ]
    for k in range(n_in):
        s = sizes[k]
        lines += [
            f"  %first{k} = mul i64 %start, {s}",
            f"  %from{k} = getelementptr {e}, ptr %in{k}, i64 %first{k}",
            f"  %bytes{k} = mul i64 %rest, {s * size}",
            f"  call void @llvm.memcpy.p0.p0.i64(ptr %pad{k}, ptr %from{k}, i64 %bytes{k}, i1 false)",
        ]
    lines += ["  br label %fill", "fill:", "  %r = phi i64 [%rest, %tail], [%r1, %fill]"]
    for k in range(n_in):  # the rows after the last repeat the first of the tail
        s = sizes[k]
        lines += [
            f"  %skip{k} = mul i64 %r, {s}",
            f"  %to{k} = getelementptr {e}, ptr %pad{k}, i64 %skip{k}",
            f"  call void @llvm.memcpy.p0.p0.i64(ptr %to{k}, ptr %pad{k}, i64 {s * size}, i1 false)",
        ]
    arguments = ", ".join(f"ptr %pad{k}" for k in range(len(names)))
    lines += [
        "  %r1 = add i64 %r, 1",
        f"  %full = icmp uge i64 %r1, {W}",
        "  br i1 %full, label %last, label %fill",
        "last:",
        f"  %wrong2 = call i64 @block_body({arguments})",
        "  %bad3 = or i64 %bad2, %wrong2",
    ]
    for k in range(n_in, len(names)):
        s = sizes[k]
        lines += [
            f"  %first{k} = mul i64 %start, {s}",
            f"  %from{k} = getelementptr {e}, ptr {names[k]}, i64 %first{k}",
            f"  %bytes{k} = mul i64 %rest, {s * size}",
            f"  call void @llvm.memcpy.p0.p0.i64(ptr %from{k}, ptr %pad{k}, i64 %bytes{k}, i1 false)",
        ]
    lines += ["  ret i64 %bad3", "done:", "  ret i64 %bad2", "}"]
    one = ", ".join(f"ptr {x}" for x in names)
    lines += [
        "",
        f"define i64 @one({one}) nounwind {{",
        f"  %bad = call i64 @one_body({one})",
        "  ret i64 %bad",
        "}",
    ]
    return "\n".join(lines)


#: What `call` finds in its table of addresses.
CONTEXT: Final = (
    "ndarray",
    "descr",
    "PyArray_New",
    "PyObject_Vectorcall",
    "Py_DecRef",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
)
#: Batches from this size on let other Python threads run meanwhile.
GIL_ROWS: Final = 64


def _call(program: Program, target: Target) -> str:
    """``call(self, args, nargs, kwnames)``: the quick path of a Python call, all else is left to `self`.

    Quick are exactly as many positional arguments as there are inputs, all of them C-contiguous, aligned arrays of the
    element type and of shape (size,), or all (n, size).  The result is a new array.  Offsets are those of
    ``PyArrayObject_fields``; they are tested before this code is used.
    """
    n_in = len(program.inputs)
    shape = program.outputs[0][1]
    context = f"[{len(CONTEXT)} x ptr]"

    def entry(name: str) -> str:
        return f"getelementptr ({context}, ptr @context, i64 0, i64 {CONTEXT.index(name)})"

    lines = [
        f"@context = global {context} zeroinitializer, align 8",
        "",
        "define ptr @call(ptr %self, ptr %args, i64 %nargs, ptr %kwnames) nounwind {",
        "entry:",
        f"  %dims = alloca [{len(shape) + 1} x i64], align 8",
        f"  %right = icmp eq i64 %nargs, {n_in}",
        "  %plain = icmp eq ptr %kwnames, null",
        "  %go = and i1 %right, %plain",
        "  br i1 %go, label %a0, label %slow",
    ]
    for k, (_, size) in enumerate(program.inputs):
        lines += [
            f"a{k}:",
            f"  %slot{k} = getelementptr ptr, ptr %args, i64 {k}",
            f"  %arg{k} = load ptr, ptr %slot{k}, align 8",
            f"  %typeat{k} = getelementptr i8, ptr %arg{k}, i64 8",
            f"  %type{k} = load ptr, ptr %typeat{k}, align 8",
            f"  %ndarray{k} = load ptr, ptr {entry('ndarray')}, align 8",
            f"  %isarray{k} = icmp eq ptr %type{k}, %ndarray{k}",
            f"  br i1 %isarray{k}, label %b{k}, label %slow",
            f"b{k}:",
            f"  %ndat{k} = getelementptr i8, ptr %arg{k}, i64 24",
            f"  %nd{k} = load i32, ptr %ndat{k}, align 4",
            f"  %descrat{k} = getelementptr i8, ptr %arg{k}, i64 56",
            f"  %descr{k} = load ptr, ptr %descrat{k}, align 8",
            f"  %wanted{k} = load ptr, ptr {entry('descr')}, align 8",
            f"  %isdescr{k} = icmp eq ptr %descr{k}, %wanted{k}",
            f"  %flagsat{k} = getelementptr i8, ptr %arg{k}, i64 64",
            f"  %flags{k} = load i32, ptr %flagsat{k}, align 4",
            f"  %masked{k} = and i32 %flags{k}, 257",  # C_CONTIGUOUS | ALIGNED
            f"  %isflat{k} = icmp eq i32 %masked{k}, 257",
            f"  %shaped{k} = icmp eq i32 %nd{k}, " + ("%ndim" if k else "1"),
        ]
        if k == 0:
            lines += [
                "  %two = icmp eq i32 %nd0, 2",
                "  %either = or i1 %shaped0, %two",
                "  %ndim = select i1 %two, i32 2, i32 1",
            ]
        lines += [
            f"  %ok{k} = and i1 %isdescr{k}, %isflat{k}",
            f"  %fine{k} = and i1 %ok{k}, " + (f"%shaped{k}" if k else "%either"),
            f"  br i1 %fine{k}, label %c{k}, label %slow",
            f"c{k}:",
            f"  %dimsat{k} = getelementptr i8, ptr %arg{k}, i64 32",
            f"  %dim{k} = load ptr, ptr %dimsat{k}, align 8",
            f"  %lastat{k} = getelementptr i64, ptr %dim{k}, i64 " + ("%back" if k else "%back0"),
            f"  %last{k} = load i64, ptr %lastat{k}, align 8",
            f"  %fits{k} = icmp eq i64 %last{k}, {size}",
            f"  %rowsraw{k} = load i64, ptr %dim{k}, align 8",
        ]
        if k == 0:
            at = lines.index(f"  %lastat{k} = getelementptr i64, ptr %dim{k}, i64 %back0")
            lines.insert(at, "  %back0 = zext i1 %two to i64")
            lines += ["  %rows = select i1 %two, i64 %rowsraw0, i64 1", "  %back = zext i1 %two to i64"]
            lines += ["  %some = icmp sgt i64 %rows, 0", "  %good0 = and i1 %fits0, %some"]
        else:
            lines += [
                f"  %mine{k} = select i1 %two, i64 %rowsraw{k}, i64 1",
                f"  %same{k} = icmp eq i64 %mine{k}, %rows",
                f"  %good{k} = and i1 %fits{k}, %same{k}",
            ]
        following = f"a{k + 1}" if k + 1 < n_in else "ready"
        lines.append(f"  br i1 %good{k}, label %{following}, label %slow")
    lines += ["ready:"]
    for k in range(n_in):
        lines += [
            f"  %dataat{k} = getelementptr i8, ptr %arg{k}, i64 16",
            f"  %data{k} = load ptr, ptr %dataat{k}, align 8",
        ]
    lines += ["  store i64 %rows, ptr %dims, align 8"]
    for j, extent in enumerate(shape, start=1):
        lines += [
            f"  %extent{j} = getelementptr i64, ptr %dims, i64 {j}",
            f"  store i64 {extent}, ptr %extent{j}, align 8",
        ]
    number = 12 if target.element == "double" else 11
    rank = len(shape)
    single_call = ", ".join([*(f"ptr %data{k}" for k in range(n_in)), "ptr %out"])
    lines += [
        "  %onestate = getelementptr i64, ptr %dims, i64 1",
        "  %shape = select i1 %two, ptr %dims, ptr %onestate",
        f"  %rank = select i1 %two, i32 {rank + 1}, i32 {rank}",
        f"  %create = load ptr, ptr {entry('PyArray_New')}, align 8",
        f"  %arraytype = load ptr, ptr {entry('ndarray')}, align 8",
        f"  %result = call ptr %create(ptr %arraytype, i32 %rank, ptr %shape, i32 {number}, ptr null, ptr null, "
        "i32 0, i32 0, ptr null)",
        "  %failed = icmp eq ptr %result, null",
        "  br i1 %failed, label %give, label %compute",
        "give:",
        "  ret ptr null",
        "compute:",
        "  %outat = getelementptr i8, ptr %result, i64 16",
        "  %out = load ptr, ptr %outat, align 8",
        "  br i1 %two, label %many, label %single",
        "single:",
        f"  %bad1 = call i64 @one_body({single_call})",
        "  br label %judge",
        "many:",
        f"  %big = icmp uge i64 %rows, {GIL_ROWS}",
        "  br i1 %big, label %release, label %hold",
        "hold:",
        f"  %bad2 = call i64 @batch(i64 %rows, {single_call})",
        "  br label %judge",
        "release:",
        f"  %save = load ptr, ptr {entry('PyEval_SaveThread')}, align 8",
        "  %state = call ptr %save()",
        f"  %bad3 = call i64 @batch(i64 %rows, {single_call})",
        f"  %restore = load ptr, ptr {entry('PyEval_RestoreThread')}, align 8",
        "  call void %restore(ptr %state)",
        "  br label %judge",
        "judge:",
        "  %bad = phi i64 [%bad1, %single], [%bad2, %hold], [%bad3, %release]",
        "  %wrong = icmp ne i64 %bad, 0",
        "  br i1 %wrong, label %drop, label %return",
        "return:",
        "  ret ptr %result",
        "drop:",
        f"  %decref = load ptr, ptr {entry('Py_DecRef')}, align 8",
        "  call void %decref(ptr %result)",
        "  br label %slow",
        "slow:",
        f"  %vectorcall = load ptr, ptr {entry('PyObject_Vectorcall')}, align 8",
        "  %answer = call ptr %vectorcall(ptr %self, ptr %args, i64 %nargs, ptr %kwnames)",
        "  ret ptr %answer",
        "}",
    ]
    return "\n".join(lines)
