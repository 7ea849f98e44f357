"""A program's straight-line code in LLVM IR, over one state or a block of states.

Sums and products are fused where a product has one reader, and nothing is reassociated.  The code also looks at its
data on the way and returns whether anything was wrong: an entry that is not finite, an angle too large to reduce, a
pair or quaternion off unit norm.
"""

from __future__ import annotations

import itertools
import math

from .factoring import operands
from .graph import CONST, COS, DIV, INPUT, MUL, SIGN, SIN
from .llvm_writer import BYTES, LARGEST_ANGLE, UNIT, Writer
from .program import Program

#: Most operations in one function: a compiler's work grows faster than its input, so longer programs are cut into
#: parts of half this size.
PART = 3000
#: Likewise stored values in one function.
STORES = 400

#: A longer function is cut into basic blocks of about so many instructions.  LLVM's scheduler works within blocks, and
#: in one that holds a whole program it stretches lives of values until a sixth of the time goes to spilling them.
BLOCK = 60
SHORT = 300

Window = tuple[str, int, int, list[int], int]


class Body:
    """A program as one or more functions over rows of its inputs and outputs.

    Parts hand values on through a workspace in memory; each loads, turns and stores as near to the use as can be.

    Args:
        program: the program.
        name: of the function.
        element: "double" or "float".
        lanes: states at once.
    """

    def __init__(self, program: Program, name: str, element: str, lanes: int) -> None:
        self.program, self.name, self.element, self.lanes = program, name, element, lanes
        self.pointers = [f"%in{k}" for k in range(len(program.inputs))]
        self.targets = [f"%out{k}" for k in range(len(program.outputs))]
        self.starts: list[tuple[int, int, str]] = []  # first index, size, pointer
        start = 0
        for pointer, (_, size) in zip(self.pointers, program.inputs, strict=True):
            self.starts.append((start, size, pointer))
            start += size
        work = [i for i in program.order if program.graph.op[i] != CONST and i not in program.fused]
        count = 1 if len(work) <= PART else math.ceil(2 * len(work) / PART)
        bounds = [len(work) * k // count for k in range(count + 1)]
        self.parts = [work[a:b] for a, b in itertools.pairwise(bounds)]
        self.home = {i: k for k, part in enumerate(self.parts) for i in part}
        self.slots: dict[int, int] = {}
        self._begin(0)
        self.windows = self._windows()

    def _begin(self, part: int) -> None:
        self.part, self.w = part, Writer(self.element, self.lanes)
        self.values: dict[int, str] = {}
        self.inputs: dict[int, str] = {}
        self.turned: dict[tuple[int, float], tuple[str, str]] = {}
        self.sums: list[str] = []

    def functions(self) -> str:
        """The functions, the one called `name` last: ``i64 (in..., out...)``, not 0 where something was wrong."""
        self._find_slots()
        parameters = ", ".join(f"ptr noalias {x}" for x in (*self.pointers, *self.targets))
        if len(self.parts) == 1:
            return self._function(0, self.name, parameters)
        texts = []
        for k in range(len(self.parts)):
            texts.append(self._function(k, f"{self.name}_{k}", parameters + ", ptr noalias %work"))
        arguments = ", ".join(f"ptr {x}" for x in (*self.pointers, *self.targets, "%work"))
        lines = [
            f"define internal i64 @{self.name}({parameters}) nounwind noinline {{",
            f"  %work = alloca [{max(1, len(self.slots))} x {self.w.type}], align 64",
        ]
        for k in range(len(self.parts)):
            lines.append(f"  %bad{k} = call i64 @{self.name}_{k}({arguments})")
            lines.append(f"  %all{k} = or i64 " + (f"%all{k - 1}, %bad{k}" if k else "0, %bad0"))
        lines += [f"  ret i64 %all{len(self.parts) - 1}", "}"]
        return "\n\n".join([*texts, "\n".join(lines)])

    def _find_slots(self) -> None:
        """Values that another part than their own reads get a place in the workspace."""
        program = self.program
        for i, part in self.home.items():
            refs = list(operands(program.graph, i))
            for ref in tuple(refs):
                if ref >> 1 in program.fused:
                    refs += operands(program.graph, ref >> 1)
            for ref in refs:
                self._share(ref >> 1, part)
        for _, _, _, refs, part in self.windows:
            for ref in refs:
                self._share(ref >> 1, part)

    def _share(self, i: int, part: int) -> None:
        if self.home.get(i, part) != part and i not in self.slots:
            self.slots[i] = len(self.slots)

    def _windows(self) -> list[Window]:
        """Stores: pointer, size of the row, first entry, references, and a part in which all are known."""
        out: list[Window] = []
        first, plain, busy = 0, len(self.parts), [0] * len(self.parts)
        for pointer, (_, shape) in zip(self.targets, self.program.outputs, strict=True):
            size = math.prod(shape)
            refs = [r.ref for r in self.program.results[first : first + size]]
            step = self.lanes if self.lanes > 1 else 1
            for start in self.w.windows(size) if self.lanes > 1 else range(size):
                values = refs[start : start + step]
                part = max(self.home.get(r >> 1, 0) for r in values)
                if busy[part] + step > STORES:
                    part = len(busy) - 1
                    if part < plain or busy[part] + step > STORES:
                        busy.append(0)
                        part += 1
                busy[part] += step
                out.append((pointer, size, start, values, part))
            first += size
        self.parts += [[] for _ in busy[len(self.parts) :]]
        return out

    def _function(self, part: int, name: str, parameters: str) -> str:
        self._begin(part)
        w = self.w
        if w.lanes == 1:
            self.turn_together()
        cut = len(self.parts[part]) > SHORT
        if cut:
            w.line("%never = icmp eq ptr %in0, null")
        for i in self.parts[part]:
            self.values[i] = self.node(i)
            if cut:
                w.cut("%never", "cold", BLOCK)
            if i in self.slots:
                w.line(f"store {w.type} {self.values[i]}, ptr {self._slot(i)}, align {self._align}")
        looked: set[str] = set()
        for pointer, size, start, refs, at in self.windows:
            if at == part:
                values = [self.get(ref) for ref in refs]
                w.store(pointer, size, start, values)
                if cut:
                    w.cut("%never", "cold", BLOCK)
                for x in values:
                    if x.startswith("%") and x not in looked:
                        looked.add(x)
                        self.look(x)
        if part == 0:
            for first, size, _ in self.starts:  # what nothing reads is looked at all the same
                for k in range(size):
                    self.input(first + k)
        bad = self.verdict()
        w.line(f"%bad = zext i1 {bad} to i64")
        w.line("ret i64 %bad")
        cold = ["cold:", "  ret i64 1"] if cut else []
        return "\n".join([f"define internal i64 @{name}({parameters}) nounwind noinline {{", *w.lines, *cold, "}"])

    @property
    def _align(self) -> int:
        return BYTES[self.element] * self.lanes

    def _slot(self, i: int) -> str:
        return self.w.new(f"getelementptr {self.w.type}, ptr %work, i64 {self.slots[i]}")

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
        if i not in self.values:  # of an earlier part
            self.values[i] = self.w.new(f"load {self.w.type}, ptr {self._slot(i)}, align {self._align}")
        return self.w.neg(self.values[i]) if ref & 1 else self.values[i]

    def node(self, i: int) -> str:
        """Write node i; its name."""
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
                self.turned[key] = w.sin_cos(self.input(graph.left[key[0]]), [key[1]])
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
            dict.fromkeys(
                (graph.left[i] >> 1, graph.value[i]) for i in self.parts[self.part] if graph.op[i] in (SIN, COS)
            )
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
        for group in self.program.units if self.part == 0 else ():
            norm = w.literal(-1.0)
            for k in group:
                norm = w.fma(self.inputs[k], self.inputs[k], norm)
            size = w.new(f"call {t} @llvm.fabs.{w.suffix}({t} {norm})")
            off = w.new(f"fcmp ugt {t} {size}, {w.literal(UNIT[e])}")
            bad = w.new(f"or {w.bool_type} {bad}, {off}")
        largest = ""
        for k in self.program.angles if self.part == 0 else ():
            size = w.new(f"call {t} @llvm.fabs.{w.suffix}({t} {self.inputs[k]})")
            largest = w.new(f"call {t} @llvm.maxnum.{w.suffix}({t} {largest}, {t} {size})") if largest else size
        if largest:
            off = w.new(f"fcmp ugt {t} {largest}, {w.literal(LARGEST_ANGLE[e])}")
            bad = w.new(f"or {w.bool_type} {bad}, {off}")
        if w.lanes == 1:
            return bad
        bits = w.new(f"bitcast {w.bool_type} {bad} to i{w.lanes}")
        return w.new(f"icmp ne i{w.lanes} {bits}, 0")
