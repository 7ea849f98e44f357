"""A program's straight-line code in LLVM IR, over one state or a block of states.

Sums and products are fused where a product has one reader, and nothing is reassociated.  The code also validates its
data on the way and returns whether anything was wrong: an entry that is not finite, an angle too large to reduce, a
pair or quaternion without unit norm, the root of a negative number, an input out of its range.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from .factoring import operands
from .graph import CONST, COS, DIV, INPUT, MUL, SIGN, SIN, SQRT
from .llvm_registers import RegisterAllocator
from .llvm_writer import LARGEST_ANGLE, UNIT, Target, VectorWriter
from .program import Program

#: Most operations in one function: a compiler's work grows faster than its input, so longer programs are cut into
#: parts of half this size.
PART = 3000
#: Most stored values in one function, for the same reason.
STORES = 400

#: A longer function is cut into basic blocks of about so many instructions.  LLVM's scheduler works within blocks, and
#: in one that holds a whole program it stretches lives of values until a sixth of the time goes to spilling them.
BLOCK = 120
SHORT = 600

#: Registers left to what an instruction, a sine or a block being turned need beside their operands.
SPARE = 8

ATTRIBUTES = "nounwind noinline alignstack(64)"

Window = tuple[str, int, int, list[int], int]


class ProgramBodyWriter:
    """Writer of a program as one or more functions over rows of its inputs and outputs.

    Parts pass values on through a workspace in memory; each loads, transposes and stores rows as close to their use as
    possible.

    Args:
        program: the program.
        name: name of the function.
        target: vector unit.
        lanes: number of states at once.
    """

    def __init__(self, program: Program, name: str, target: Target, lanes: int) -> None:
        self.program, self.name, self.element, self.lanes = program, name, target.element, lanes
        self.room = target.registers - SPARE if lanes > 1 else len(program.order)
        self.pointers = [f"%in{k}" for k in range(len(program.inputs))]
        self.targets = [f"%out{k}" for k in range(len(program.outputs))]
        self.starts: list[tuple[int, int, str]] = []  # first index, size, pointer
        self.angles = program.turned
        self.ranges = {k: (low, high) for k, low, high in program.ranges}
        start = 0
        for pointer, (_, size) in zip(self.pointers, program.inputs, strict=True):
            self.starts.append((start, size, pointer))
            start += size
        graph = program.graph
        work = [i for i in program.order if graph.op[i] not in (CONST, INPUT) and i not in program.fused]
        self.sources = {graph.left[i]: i for i in program.order if graph.op[i] == INPUT}
        self.pairs: dict[tuple[int, float], dict[str, int]] = {}
        for i in work:
            if graph.op[i] in (SIN, COS):
                self.pairs.setdefault((graph.left[i] >> 1, graph.value[i]), {})[graph.op[i]] = i
        #: Whether something not finite could get lost on its way to the results.
        self.forgetful = any(graph.op[i] in (DIV, SIGN) for i in work)
        count = 1 if len(work) <= PART else math.ceil(2 * len(work) / PART)
        bounds = [len(work) * k // count for k in range(count + 1)]
        self.parts = [work[a:b] for a, b in itertools.pairwise(bounds)]
        self.home = {i: k for k, part in enumerate(self.parts) for i in part}
        self.slots: dict[int, int] = {}
        self.late = lanes == 1  # whether results are stored when all is done
        self._begin(0)
        self.windows = self._windows()

    def _begin(self, part: int) -> None:
        self.part, self.w = part, VectorWriter(self.element, self.lanes)
        self.values = RegisterAllocator(self.w, self.room)
        self.sums: list[str] = []
        self.squares = ""
        self.norms: dict[tuple[int, ...], str] = {}
        self.outside: list[str] = []
        self.seen: set[int] = set()  # inputs that were looked at
        self.looked: set[int] = set()  # results that were looked at

    def functions(self) -> str:
        """Returns the functions, the one called `name` last.

        ``i64 (in..., out...)``, nonzero where the data were invalid.
        """
        self._find_slots()
        parameters = ", ".join(f"ptr noalias {x}" for x in (*self.pointers, *self.targets))
        if len(self.parts) == 1:
            return self._function(0, self.name, parameters)
        inner = parameters + ", ptr noalias %work"
        texts = [self._function(k, f"{self.name}_{k}", inner) for k in range(len(self.parts))]
        arguments = ", ".join(f"ptr {x}" for x in (*self.pointers, *self.targets, "%work"))
        lines = [
            f"define internal i64 @{self.name}({parameters}) {ATTRIBUTES} {{",
            f"  %work = alloca [{max(1, len(self.slots))} x {self.w.type}], align 64",
        ]
        for k in range(len(self.parts)):
            lines.append(f"  %bad{k} = call i64 @{self.name}_{k}({arguments})")
            lines.append(f"  %all{k} = or i64 " + (f"%all{k - 1}, %bad{k}" if k else "0, %bad0"))
        lines += [f"  ret i64 %all{len(self.parts) - 1}", "}"]
        return "\n\n".join([*texts, "\n".join(lines)])

    def _reads(self, i: int) -> list[int]:
        """Returns the nodes whose values the code of node i reads, through products fused into it."""
        graph, out = self.program.graph, []
        for ref in operands(graph, i):
            j = ref >> 1
            if j in self.program.fused:
                out += self._reads(j)
            elif graph.op[j] != CONST:
                out.append(j)
        return out

    def _find_slots(self) -> None:
        """Assigns places in the workspace to values that another part than their own reads."""
        for i, part in self.home.items():
            for j in self._reads(i):
                self._share(j, part)
        for _, _, _, refs, part in self.windows:
            for ref in refs:
                self._share(ref >> 1, part)

    def _share(self, i: int, part: int) -> None:
        """Assigns a place in the workspace to value i if a part reads it that does not compute it."""
        if self.home.get(i, part) != part and i not in self.slots:
            self.slots[i] = len(self.slots)

    def _windows(self) -> list[Window]:
        """Returns the stores: pointer, size of the row, first entry, references, and a part in which all are known."""
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

    def _events(self, part: int) -> list[int | Window]:
        """Returns nodes in the order of writing, and every window of results once it is complete."""
        out: list[int | Window] = []
        waiting: dict[int, list[Window]] = {}
        place = {i: k for k, i in enumerate(self.parts[part])}
        for window in self.windows:
            if window[4] == part:
                last = max((place.get(ref >> 1, -1) for ref in window[3]), default=-1)
                waiting.setdefault(last, []).append(window)
        if self.late:  # stores in between would only hold up what is loaded after them
            return [*self.parts[part], *itertools.chain.from_iterable(waiting.values())]
        out += waiting.get(-1, [])
        for k, i in enumerate(self.parts[part]):
            out += [i, *waiting.get(k, [])]
        return out

    def _function(self, part: int, name: str, parameters: str) -> str:
        self._begin(part)
        w, values, events = self.w, self.values, self._events(part)
        cut = len(self.parts[part]) > SHORT
        if cut:
            w.line("%never = icmp eq ptr %in0, null")
        for i, slot in self.slots.items():
            if self.home[i] < part:
                values.far[i] = f"%work{slot}"
                w.line(f"%work{slot} = getelementptr {w.type}, ptr %work, i64 {slot}")
        reads = [self._reads(e) if isinstance(e, int) else self._stored(e) for e in events]
        for time in range(len(events) - 1, -1, -1):
            for j in reads[time]:
                values.ahead.setdefault(j, []).append(time)
        if w.lanes == 1:
            self.turn_together()
        for time, event in enumerate(events):
            for j in reads[time]:
                self._fetch(j, keep=reads[time])
                values.read(j, time)
            if isinstance(event, int):
                self._make(event, keep=reads[time])
            else:
                pointer, size, start, refs, _ = event
                w.store(pointer, size, start, [self.get(ref) for ref in refs])
                self._look_at_results(event)
            for j in {*reads[time], event if isinstance(event, int) else -1}:
                values.drop(j)
            if cut:
                w.cut("%never", "cold", BLOCK)
        for first, size, _ in self.starts if part == 0 else ():  # what nothing reads is looked at all the same
            for k in range(first, first + size):
                if k not in self.seen:
                    self._load_inputs(k, keep=())
        bad = self.verdict()
        w.line(f"%bad = zext i1 {bad} to i64")
        w.line("ret i64 %bad")
        cold = ["cold:", "  ret i64 1"] if cut else []
        head = f"define internal i64 @{name}({parameters}) {ATTRIBUTES} {{"
        return "\n".join([head, *values.head(), *w.lines, *cold, "}"])

    # -- values --------------------------------------------------------------------------------------------------
    def _stored(self, window: Window) -> list[int]:
        return [ref >> 1 for ref in window[3] if self.program.graph.op[ref >> 1] != CONST]

    def _fetch(self, i: int, keep: Sequence[int]) -> None:
        """Loads value i into a register."""
        if i in self.values:
            self.values.fetch(i, keep)
        else:
            self._load_inputs(self.program.graph.left[i], keep)

    def _load_inputs(self, index: int, keep: Sequence[int]) -> None:
        """Loads an input, with its neighbors in memory."""
        first, size, pointer = next(s for s in self.starts if s[0] <= index < s[0] + s[1])
        for k, x in self.w.load(pointer, size, index - first).items():
            self._meet(first + k, x)
            i = self.sources.get(first + k, -1)
            if self.values.wanted(i) and i not in self.values:
                self.values.define(i, x, keep)

    def get(self, ref: int) -> str:
        """Returns the value of a signed reference."""
        graph, i = self.program.graph, ref >> 1
        if graph.op[i] == CONST:
            return self.w.literal(-graph.value[i] if ref & 1 else graph.value[i])
        return self.w.neg(self.values.near[i]) if ref & 1 else self.values.near[i]

    # -- arithmetic ----------------------------------------------------------------------------------------------
    def _make(self, i: int, keep: Sequence[int]) -> None:
        """Writes node i; a sine is written with its cosine."""
        graph = self.program.graph
        if i in self.values:
            return
        if graph.op[i] not in (SIN, COS):
            self._made(i, self.node(i), keep)
            return
        key = graph.left[i] >> 1, graph.value[i]
        for op, x in zip((SIN, COS), self.w.sin_cos(self.values.near[key[0]], [key[1]]), strict=True):
            j = self.pairs[key].get(op, -1)
            if self.home.get(j, -1) == self.part:
                self._made(j, x, keep)

    def _made(self, i: int, x: str, keep: Sequence[int]) -> None:
        """Defines value i as x, also for later parts."""
        if i in self.slots:
            at = self.w.new(f"getelementptr {self.w.type}, ptr %work, i64 {self.slots[i]}")
            self.values.put(i, x, at)
        if self.values.wanted(i):
            self.values.define(i, x, keep)

    def node(self, i: int) -> str:
        """Writes the operation of node i and returns its result."""
        graph, fused, w, get = self.program.graph, self.program.fused, self.w, self.get
        op, left, right = graph.op[i], graph.left[i], graph.right[i]
        if op == MUL:
            return w.op("fmul", get(left), get(right))
        if op == DIV:
            return w.op("fdiv", get(left), get(right))
        if op == SIGN:
            return w.sign(get(left))
        if op == SQRT:
            root = w.sqrt(get(left))
            self._look(root)
            return root
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
        """Writes sines and cosines of a single state, several angles in one vector."""
        w = self.w
        wanted = [key for key, pair in self.pairs.items() if any(self.home[i] == self.part for i in pair.values())]
        packs = 8 if w.element == "double" else 16
        for start in range(0, len(wanted), packs):
            group = wanted[start : start + packs]
            wide = VectorWriter(w.element, max(2, 1 << (len(group) - 1).bit_length()))
            given = []
            for node, _ in group:
                if node not in self.values and self.program.graph.op[node] != INPUT:  # a multiple of an input
                    self._fetch(self.program.graph.right[node] >> 1, keep=())
                    self._make(node, keep=())
                self._fetch(node, keep=())
                given.append(self.values.near[node])
            wide.lines, wide.count = w.lines, w.count
            x = "zeroinitializer"
            for k, value in enumerate(given):
                x = wide.new(f"insertelement {wide.type} {x}, {w.type} {value}, i32 {k}")
            pair = wide.sin_cos(x, [offset for _, offset in group])
            turned = [[wide.new(f"extractelement {wide.type} {y}, i32 {k}") for y in pair] for k in range(len(group))]
            w.count = wide.count
            for key, both in zip(group, turned, strict=True):
                for op, y in zip((SIN, COS), both, strict=True):
                    i = self.pairs[key].get(op, -1)
                    if self.home.get(i, -1) == self.part:
                        self._made(i, y, keep=())

    # -- a look at the data --------------------------------------------------------------------------------------
    def _look(self, x: str) -> None:
        """Adds x to a sum that is finite only if all values are.

        A sum close to overflow can be infinite, too; the caller examines the data then.
        """
        if len(self.sums) < 4:
            self.sums.append(x)
        else:
            self.sums.append(self.w.op("fadd", self.sums.pop(0), x))

    def _look_at_results(self, window: Window) -> None:
        """Adds the results of a window to the sum of validated values."""
        for i in self._stored(window):
            if i not in self.looked:
                self.looked.add(i)
                self._look(self.values.near[i])

    def _meet(self, index: int, x: str) -> None:
        """Validates an input: finite, and where it matters of unit norm, in its range, or not too large an angle.

        An input that is not finite makes a result so that depends on it, unless a quotient or a sign comes between.
        """
        if index in self.seen or self.part > 0:
            return
        self.seen.add(index)
        group = next((g for g in self.program.units if index in g), None)
        if group is not None:
            self.norms[group] = self.w.fma(x, x, self.norms.get(group) or self.w.literal(-1.0))
        if index in self.ranges:
            t = self.w.type
            for side, end in zip(("ult", "ugt"), self.ranges[index], strict=True):
                self.outside.append(self.w.new(f"fcmp {side} {t} {x}, {self.w.literal(end)}"))
        if index in self.angles:
            x = x if self.angles[index] <= 1.0 else self.w.op("fmul", x, self.w.literal(self.angles[index]))
            self.squares = self.w.fma(x, x, self.squares) if self.squares else self.w.op("fmul", x, x)
        elif group is None and (self.forgetful or index not in self.sources):
            self._look(x)

    def verdict(self) -> str:
        """Writes whether anything is not finite, not of unit norm, out of range, or may be too large an angle."""
        w, t, e = self.w, self.w.type, self.w.element
        total = w.literal(0.0)
        for x in self.sums:
            total = w.op("fadd", total, x)
        rest = w.op("fsub", total, total)  # 0, or NaN
        bad = w.new(f"fcmp uno {t} {rest}, {rest}")
        for norm in self.norms.values():
            size = w.new(f"call {t} @llvm.fabs.{w.suffix}({t} {norm})")
            off = w.new(f"fcmp ugt {t} {size}, {w.literal(UNIT[e])}")
            bad = w.new(f"or {w.bool_type} {bad}, {off}")
        for out in self.outside:
            bad = w.new(f"or {w.bool_type} {bad}, {out}")
        if self.squares:  # of all angles together
            off = w.new(f"fcmp ugt {t} {self.squares}, {w.literal(LARGEST_ANGLE[e] ** 2)}")
            bad = w.new(f"or {w.bool_type} {bad}, {off}")
        if w.lanes == 1:
            return bad
        bits = w.new(f"bitcast {w.bool_type} {bad} to i{w.lanes}")
        return w.new(f"icmp ne i{w.lanes} {bits}, 0")
