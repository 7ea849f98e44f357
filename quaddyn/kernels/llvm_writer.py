"""Writer of LLVM instructions over scalars or vectors: arithmetic, sine and cosine, rows of memory.

Within a block of states lane k holds state k: rows are loaded whole and transposed.  Sine and cosine are a Cody-Waite
reduction to ``|r| <= pi/4`` in fused multiply-adds and the minimax polynomials of Cephes (Moshier 1989).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: Maximum angle that kernels accept [rad]: up to here the argument reduction is exact to rounding.
MAX_ANGLE: Final = {"double": 1e9, "float": 1e4}
#: Maximum deviation of the squared norm of a quaternion or of (cos, sin) from 1.
UNIT_NORM_TOLERANCE: Final = {"double": 2e-6, "float": 1e-4}
#: The same for programs that divide these groups by their norm: norms between 0.1 and 1.41.
NORMALIZABLE_TOLERANCE: Final = 0.99
BYTES: Final = {"double": 8, "float": 4}
#: Half of pi in two parts: the rest would change an angle by less than 1e-23 (float: 1e-11) at the largest allowed.
_PIO2 = {
    "double": (1.5707963267948966, 6.123233995736766e-17),
    "float": (1.57079637050628662109375, -4.37113900018624283e-8),
}
#: Constant that, added to a number, rounds it and leaves its integer part in the lowest bits of the sum.
_ROUNDING_CONSTANT = {"double": 1.5 * 2.0**52, "float": 1.5 * 2.0**23}
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
    """Vector unit of a machine."""

    element: str  # "double" or "float"
    lanes: int  # elements per vector, hence states per block
    registers: int  # number of vector registers


class VectorWriter:
    """Writer of the instructions of one function body over vectors of `lanes` elements (1: scalars)."""

    def __init__(self, element: str, lanes: int) -> None:
        self.element, self.lanes = element, lanes
        self.type = element if lanes == 1 else f"<{lanes} x {element}>"
        self.lines: list[str] = []
        self.count = self._mark = 0
        short = "f64" if element == "double" else "f32"
        self.suffix = short if lanes == 1 else f"v{lanes}{short}"

    def new(self, text: str) -> str:
        """Writes ``%n = text`` and returns ``%n``."""
        self.count += 1
        name = f"%t{self.count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def line(self, text: str) -> None:
        """Writes an instruction without a result."""
        self.lines.append("  " + text)

    def begin_block_if_longer(self, condition: str, other: str, length: int) -> None:
        """Begins a basic block after `length` lines, with a branch to `other` if `condition` holds."""
        if len(self.lines) - self._mark > length:
            self.count += 1
            self.line(f"br i1 {condition}, label %{other}, label %b{self.count}")
            self.lines.append(f"b{self.count}:")
            self._mark = len(self.lines)

    def literal(self, x: float) -> str:
        """Returns a constant, in every lane."""
        if self.lanes == 1:
            return self._digits(x)
        return "<" + ", ".join([f"{self.element} {self._digits(x)}"] * self.lanes) + ">"

    def literals(self, xs: Sequence[float]) -> str:
        """Returns constants by lane; a single one is in every lane."""
        if len(xs) == 1:
            return self.literal(xs[0])
        padded = [*xs, *[0.0] * (self.lanes - len(xs))]
        return "<" + ", ".join(f"{self.element} {self._digits(x)}" for x in padded) + ">"

    def _digits(self, x: float) -> str:
        if self.element == "float":
            x = struct.unpack("f", struct.pack("f", x))[0]
        return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"

    def integers(self, x: int) -> str:
        """Returns an integer of the element's width, in every lane."""
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
        """Writes ``a b + c`` with one rounding."""
        t = self.type
        return self.new(f"call {t} @llvm.fma.{self.suffix}({t} {a}, {t} {b}, {t} {c})")

    def op(self, name: str, a: str, b: str) -> str:
        """Writes a binary instruction."""
        return self.new(f"{name} {self.type} {a}, {b}")

    def neg(self, a: str) -> str:
        """Writes ``-a``."""
        return self.new(f"fneg {self.type} {a}")

    def sin_cos(self, x: str, offsets: Sequence[float]) -> tuple[str, str]:
        """Writes sine and cosine of ``x + offset``, with one offset for all lanes or one each; missing ones are 0."""
        offset = self.literals(offsets) if any(offsets) else None
        t, e, it, bt = self.type, self.element, self.integer_type, self.bool_type
        whole = self.literal(_ROUNDING_CONSTANT[e])
        angle = self.op("fadd", x, offset) if offset else x
        # In this sum the units of the last place are whole numbers: it rounds, and its lowest bits are the quarter.
        k = self.fma(angle, self.literal(2.0 / math.pi), whole)
        quarter = self.new(f"bitcast {t} {k} to {it}")
        nk = self.neg(self.op("fsub", k, whole))
        r = self.fma(nk, self.literal(_PIO2[e][0]), x)
        if offset:  # after the large parts have cancelled, so that large angles keep their digits
            r = self.op("fadd", r, offset)
        r = self.fma(nk, self.literal(_PIO2[e][1]), r)
        z = self.op("fmul", r, r)
        zz = self.op("fmul", z, z)
        s = self.fma(self._polynomial(z, zz, _SIN[e]), self.op("fmul", r, z), r)
        c = self.fma(self._polynomial(z, zz, _COS[e]), zz, self.fma(z, self.literal(-0.5), self.literal(1.0)))
        odd = self.new(f"trunc {it} {quarter} to {bt}")
        sine = self.new(f"select {bt} {odd}, {t} {c}, {t} {s}")
        cosine = self.new(f"select {bt} {odd}, {t} {s}, {t} {c}")
        return self._negate_by_quadrant(sine, quarter), self._negate_by_quadrant(
            cosine, self.new(f"add {it} {quarter}, {self.integers(1)}")
        )

    def _polynomial(self, z: str, zz: str, coefficients: Sequence[float]) -> str:
        """Writes a polynomial in z: pairs of terms in parallel, then Horner in ``zz = z z``."""
        pairs = list(coefficients)
        out = self.literal(pairs.pop(0)) if len(pairs) % 2 else ""
        while pairs:
            low = self.fma(z, self.literal(pairs.pop(0)), self.literal(pairs.pop(0)))
            out = self.fma(out, zz, low) if out else low
        return out

    def _negate_by_quadrant(self, x: str, quarter: str) -> str:
        """Writes `x`, negated where bit 1 of `quarter` is set."""
        it, t = self.integer_type, self.type
        shift = 62 if self.element == "double" else 30
        bit = self.new(f"and {it} {quarter}, {self.integers(2)}")
        bit = self.new(f"shl {it} {bit}, {self.integers(shift)}")
        bits = self.new(f"bitcast {t} {x} to {it}")
        return self.new(f"bitcast {it} {self.new(f'xor {it} {bits}, {bit}')} to {t}")

    def sqrt(self, x: str) -> str:
        """Writes the square root."""
        return self.new(f"call {self.type} @llvm.sqrt.{self.suffix}({self.type} {x})")

    def sign(self, x: str) -> str:
        """Writes the sign: -1, 0 or 1."""
        t, b = self.type, self.bool_type
        zero = self.literal(0.0)
        up = self.new(f"fcmp ogt {t} {x}, {zero}")
        down = self.new(f"fcmp olt {t} {x}, {zero}")
        low = self.new(f"select {b} {down}, {t} {self.literal(-1.0)}, {t} {zero}")
        return self.new(f"select {b} {up}, {t} {self.literal(1.0)}, {t} {low}")

    # -- memory ----------------------------------------------------------------------------------------------
    def address(self, pointer: str, index: int) -> str:
        """Writes the address of element `index`."""
        return self.new(f"getelementptr {self.element}, ptr {pointer}, i64 {index}") if index else pointer

    def load(self, pointer: str, size: int, index: int) -> dict[int, str]:
        """Loads value `index` of `size`, with its neighbors: of one state, or a vector of `lanes` rows."""
        size_of, W = BYTES[self.element], self.lanes
        if W == 1:
            at = self.address(pointer, index)
            return {index: self.new(f"load {self.type}, ptr {at}, align {size_of}")}
        start = max(s for s in self.windows(size) if s <= index)
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
        return {start + k: x for k, x in enumerate(self._transpose(rows)[: min(W, size)])}

    def store(self, pointer: str, size: int, start: int, values: Sequence[str]) -> None:
        """Stores a window of values, from entry `start` of `size`: of one state, or vectors of `lanes` rows."""
        size_of, W = BYTES[self.element], self.lanes
        if W == 1:
            self.line(f"store {self.type} {values[0]}, ptr {self.address(pointer, start)}, align {size_of}")
            return
        columns = [*values, *[values[0]] * (W - len(values))]
        same = all(x == columns[0] and not x.startswith("%") for x in columns)
        for row, x in enumerate(columns if same else self._transpose(columns)):
            at = self.address(pointer, row * size + start)
            if size >= W:
                self.line(f"store {self.type} {x}, ptr {at}, align {size_of}")
            else:
                self.line(
                    f"call void @llvm.masked.store.{self.suffix}.p0({self.type} {x}, ptr {at}, i32 {size_of}, "
                    f"{self.bool_type} {self._mask(size)})"
                )

    def windows(self, size: int) -> list[int]:
        """Returns the starts of the column windows: the last one overlaps, so that no row is read beyond its end."""
        W = self.lanes
        if size <= W:
            return [0]
        return sorted({*range(0, size - W + 1, W), size - W})

    def _mask(self, size: int) -> str:
        return "<" + ", ".join(f"i1 {int(k < size)}" for k in range(self.lanes)) + ">"

    def _transpose(self, rows: list[str]) -> list[str]:
        """Writes the transpose of a square block and returns its columns.

        First entries are exchanged within lanes of 128 bits (unpack), then whole lanes (even or odd ones of a pair of
        vectors).  The instructions for these exchanges, unlike general permutations, need no indices in a register.
        """
        W, within = self.lanes, 16 // BYTES[self.element]
        starts = range(0, W, within)
        low = [s + k + side for s in starts for k in range(within // 2) for side in (0, W)]
        even = [k for k in range(2 * W) if not k // within & 1]
        h = within // 2
        while h:
            rows = self._exchange_entries(rows, h, low, [k + within // 2 for k in low])
            h //= 2
        h = within
        while h < W:
            rows = self._exchange_entries(rows, h, even, [k + within for k in even])
            h *= 2
        return rows

    def _exchange_entries(self, rows: list[str], h: int, first: Sequence[int], second: Sequence[int]) -> list[str]:
        """Writes rows i and i + h replaced by two selections of entries of both."""
        out, W, t = list(rows), self.lanes, self.type
        for i in range(W):
            if not i & h:
                out[i], out[i + h] = (
                    self.new(
                        f"shufflevector {t} {rows[i]}, {t} {rows[i + h]}, "
                        f"<{W} x i32> <{', '.join(f'i32 {k}' for k in pick)}>"
                    )
                    for pick in (first, second)
                )
        return out
