"""A program's straight-line code in LLVM IR, over one state or a block of states.

Sums and products are fused where a product has one reader, and nothing is reassociated.  The code also validates its
data on the way and returns whether anything was wrong: an entry that is not finite, an angle too large to reduce, a
pair or quaternion without unit norm, the root of a negative number, an input out of its range.

Register allocation of straight-line code: which values are in registers, and which are spilled to memory.

The writer spills values itself instead of leaving this to LLVM: the value whose next read is furthest ahead is spilled
first, which is optimal (Belady).  LLVM's allocator, which considers whole live ranges, moves twice as many values.

Source: Belady, *A study of replacement algorithms for a virtual-storage computer*, 1966.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence

from .graph import CONST, COS, DIV, INPUT, MUL, SIGN, SIN, SQRT, Program, operands
from .llvm_writer import BYTES, MAX_ANGLE, UNIT_NORM_TOLERANCE, Target, VectorWriter


class RegisterAllocator:
    """Location of the values of one function: in a register, in memory, or not computed.

    Args:
        w: writer of the function.
        n_registers: number of registers available to the values.

    Attributes:
        in_register: names of values in registers, by value.
        in_memory: addresses of values in memory with their type, such as "ptr %far0", by value.
        next_reads: times at which each value is read, the next one last.
    """

    #: Type of the addresses of spilled values.
    spill_pointer = "ptr"

    def __init__(self, w: VectorWriter, n_registers: int) -> None:
        self.w, self.n_registers = w, n_registers
        self.in_register: dict[int, str] = {}
        self.in_memory: dict[int, str] = {}
        self.next_reads: dict[int, list[int]] = {}
        self._free: list[str] = []  # addresses of spill slots that can be reused
        self._n_spill_slots = 0

    def __contains__(self, i: int) -> bool:
        return i in self.in_register or i in self.in_memory

    def is_read_again(self, i: int) -> bool:
        """Returns whether value i will be read again."""
        return bool(self.next_reads.get(i))

    def read(self, i: int, time: int) -> None:
        """Records that value i was read at this time."""
        while self.next_reads[i] and self.next_reads[i][-1] <= time:
            self.next_reads[i].pop()

    def fetch(self, i: int, keep: Collection[int]) -> None:
        """Loads a value from memory into a register without spilling the values in `keep`."""
        if i not in self.in_register:
            x = self.w.new(f"load {self.w.type}, {self.in_memory[i]}, align {self._align}")
            self.define(i, x, keep)

    def define(self, i: int, x: str, keep: Collection[int]) -> None:
        """Sets value i to x; without a free register, spills the value whose next read is furthest ahead."""
        self.in_register[i] = x
        others = (
            [j for j in self.in_register if j != i and j not in keep]
            if len(self.in_register) > self.n_registers
            else []
        )
        if others:
            j = max(others, key=lambda j: self.next_reads[j][-1])
            if j not in self.in_memory:
                self.store(j, self.in_register[j], self._spill_slot())
            del self.in_register[j]

    def store(self, i: int, x: str, at: str) -> None:
        """Stores value i, which is x, at an address with its type."""
        self.w.line(f"store {self.w.type} {x}, {at}, align {self._align}")
        self.in_memory[i] = at

    def release(self, i: int) -> None:
        """Removes value i if nothing reads it any more."""
        if not self.is_read_again(i):
            self.in_register.pop(i, None)
            at = self.in_memory.pop(i, "")
            if at.startswith(f"{self.spill_pointer} %far"):
                self._free.append(at)

    def allocation(self) -> list[str]:
        """Returns the instructions that allocate the spill memory, for the beginning of the function."""
        if not self._n_spill_slots:
            return []
        slots = range(self._n_spill_slots)
        return [
            *self._allocate(f"[{self._n_spill_slots} x {self.w.type}]"),
            *(f"  %far{k} = getelementptr {self.w.type}, {self.spill_pointer} %far, i64 {k}" for k in slots),
        ]

    def _allocate(self, array: str) -> list[str]:
        """Returns the instructions that allocate an array on the stack, ``%far``."""
        return [f"  %far = alloca {array}, align 64"]

    def _spill_slot(self) -> str:
        if not self._free:
            self._free.append(f"{self.spill_pointer} %far{self._n_spill_slots}")
            self._n_spill_slots += 1
        return self._free.pop()

    @property
    def _align(self) -> int:
        return BYTES[self.w.element] * self.w.lanes


#: Maximum number of operations in one function.  A compiler's work grows faster than its input, so longer programs
#: are split into parts of half this size.
MAX_OPERATIONS_PER_FUNCTION = 3000
#: Maximum number of stored values in one function, for the same reason.
MAX_STORES_PER_FUNCTION = 400

#: A longer function is cut into basic blocks of about so many instructions.  LLVM's scheduler works within blocks, and
#: in one that holds a whole program it stretches lives of values until a sixth of the time goes to spilling them.
BASIC_BLOCK_SIZE = 120
MAX_SINGLE_BLOCK_SIZE = 600

#: Registers reserved for temporaries of an instruction, a sine or the transposition of a block.
RESERVED_REGISTERS = 8

ATTRIBUTES = "nounwind noinline alignstack(64)"

Window = tuple[str, int, int, list[int], int]


class ProgramBodyWriter:
    """Writer of a program as one or more LLVM functions over rows of its inputs and outputs.

    Long programs are split into parts, which exchange values through a workspace in memory.  Each part loads,
    transposes and stores rows as close to their use as possible.

    Args:
        program: the program.
        name: name of the function.
        target: vector unit.
        lanes: number of states processed at once.
        max_operations: maximum number of operations in one function; by default `MAX_OPERATIONS_PER_FUNCTION`.
    """

    def __init__(
        self, program: Program, name: str, target: Target, lanes: int, *, max_operations: int | None = None
    ) -> None:
        self.program, self.name, self.element, self.lanes = program, name, target.element, lanes
        self.n_registers = target.registers - RESERVED_REGISTERS if lanes > 1 else len(program.order)
        max_operations = max_operations or MAX_OPERATIONS_PER_FUNCTION
        self.input_pointers = [f"%in{k}" for k in range(len(program.inputs))]
        self.output_pointers = [f"%out{k}" for k in range(len(program.outputs))]
        self.input_rows: list[tuple[int, int, str]] = []  # first index, size, pointer
        self.angles = program.angle_factors
        self.ranges = {k: (low, high) for k, low, high in program.ranges}
        start = 0
        for pointer, (_, size) in zip(self.input_pointers, program.inputs, strict=True):
            self.input_rows.append((start, size, pointer))
            start += size
        graph = program.graph
        work = [i for i in program.order if graph.op[i] not in (CONST, INPUT) and i not in program.fused]
        self.input_nodes = {graph.left[i]: i for i in program.order if graph.op[i] == INPUT}
        self.sin_cos_pairs: dict[tuple[int, float], dict[str, int]] = {}
        for i in work:
            if graph.op[i] in (SIN, COS):
                self.sin_cos_pairs.setdefault((graph.left[i] >> 1, graph.value[i]), {})[graph.op[i]] = i
        #: Whether a value that is not finite may fail to reach the results, so that inputs must be checked.
        self.checks_all_inputs = any(graph.op[i] in (DIV, SIGN) for i in work)
        count = 1 if len(work) <= max_operations else math.ceil(2 * len(work) / max_operations)
        bounds = [len(work) * k // count for k in range(count + 1)]
        self.parts = [work[a:b] for a, b in itertools.pairwise(bounds)]
        self.part_of_node = {i: k for k, part in enumerate(self.parts) for i in part}
        self.slots: dict[int, int] = {}
        self.stores_at_end = lanes == 1  # whether results are stored after all computations
        self.packs_angles = lanes == 1  # whether the sines of several angles are computed in one vector
        self._begin_part(0)
        self.windows = self._windows()

    def _make_writer(self) -> VectorWriter:
        """Returns the writer of a function body."""
        return VectorWriter(self.element, self.lanes)

    def _make_allocator(self) -> RegisterAllocator:
        """Returns the register allocator of a function body."""
        return RegisterAllocator(self.w, self.n_registers)

    def _begin_part(self, part: int) -> None:
        self.part, self.w = part, self._make_writer()
        self.values = self._make_allocator()
        self.sums: list[str] = []
        self.squares = ""
        self.norms: dict[tuple[int, ...], str] = {}
        self.outside: list[str] = []
        self.checked_inputs: set[int] = set()
        self.checked_results: set[int] = set()

    def functions(self) -> str:
        """Returns the functions, the one called `name` last.

        ``i64 (in..., out...)``, nonzero where the data were invalid.
        """
        self._assign_workspace_slots()
        parameters = ", ".join(f"ptr noalias {x}" for x in (*self.input_pointers, *self.output_pointers))
        if len(self.parts) == 1:
            return self._function(0, self.name, parameters)
        inner = parameters + ", ptr noalias %work"
        texts = [self._function(k, f"{self.name}_{k}", inner) for k in range(len(self.parts))]
        arguments = ", ".join(f"ptr {x}" for x in (*self.input_pointers, *self.output_pointers, "%work"))
        lines = [
            f"define internal i64 @{self.name}({parameters}) {ATTRIBUTES} {{",
            f"  %work = alloca [{max(1, len(self.slots))} x {self.w.type}], align 64",
        ]
        for k in range(len(self.parts)):
            lines.append(f"  %bad{k} = call i64 @{self.name}_{k}({arguments})")
            lines.append(f"  %all{k} = or i64 " + (f"%all{k - 1}, %bad{k}" if k else "0, %bad0"))
        lines += [f"  ret i64 %all{len(self.parts) - 1}", "}"]
        return "\n\n".join([*texts, "\n".join(lines)])

    def _operand_nodes(self, i: int) -> list[int]:
        """Returns the nodes whose values the code of node i reads, through products fused into it."""
        graph, out = self.program.graph, []
        for ref in operands(graph, i):
            j = ref >> 1
            if j in self.program.fused:
                out += self._operand_nodes(j)
            elif graph.op[j] != CONST:
                out.append(j)
        return out

    def _assign_workspace_slots(self) -> None:
        """Assigns workspace slots to the values that are read by a part that does not compute them."""
        for i, part in self.part_of_node.items():
            for j in self._operand_nodes(i):
                self._assign_slot_if_shared(j, part)
        for _, _, _, refs, part in self.windows:
            for ref in refs:
                self._assign_slot_if_shared(ref >> 1, part)

    def _assign_slot_if_shared(self, i: int, part: int) -> None:
        """Assigns a workspace slot to value i if `part` does not compute it itself."""
        if self.part_of_node.get(i, part) != part and i not in self.slots:
            self.slots[i] = len(self.slots)

    def _windows(self) -> list[Window]:
        """Returns the stores: pointer, row size, first entry, references, and a part in which all values are known."""
        out: list[Window] = []
        first, plain, busy = 0, len(self.parts), [0] * len(self.parts)
        for pointer, (_, shape) in zip(self.output_pointers, self.program.outputs, strict=True):
            size = math.prod(shape)
            refs = [r.ref for r in self.program.results[first : first + size]]
            step = self.lanes if self.lanes > 1 else 1
            for start in self.w.windows(size) if self.lanes > 1 else range(size):
                values = refs[start : start + step]
                part = max(self.part_of_node.get(r >> 1, 0) for r in values)
                if busy[part] + step > MAX_STORES_PER_FUNCTION:
                    part = len(busy) - 1
                    if part < plain or busy[part] + step > MAX_STORES_PER_FUNCTION:
                        busy.append(0)
                        part += 1
                busy[part] += step
                out.append((pointer, size, start, values, part))
            first += size
        self.parts += [[] for _ in busy[len(self.parts) :]]
        return out

    def _write_order(self, part: int) -> list[int | Window]:
        """Returns the nodes of a part in order; a window (results stored together) follows its last node."""
        out: list[int | Window] = []
        waiting: dict[int, list[Window]] = {}
        write_position = {i: k for k, i in enumerate(self.parts[part])}
        for window in self.windows:
            if window[4] == part:
                last = max((write_position.get(ref >> 1, -1) for ref in window[3]), default=-1)
                waiting.setdefault(last, []).append(window)
        if self.stores_at_end:  # earlier stores would delay the loads that follow
            return [*self.parts[part], *itertools.chain.from_iterable(waiting.values())]
        out += waiting.get(-1, [])
        for k, i in enumerate(self.parts[part]):
            out += [i, *waiting.get(k, [])]
        return out

    def _function(self, part: int, name: str, parameters: str) -> str:
        self._begin_part(part)
        w, values = self.w, self.values
        cut = len(self.parts[part]) > MAX_SINGLE_BLOCK_SIZE
        if cut:
            w.line("%never = icmp eq ptr %in0, null")
        for i, slot in self.slots.items():
            if self.part_of_node[i] < part:
                values.in_memory[i] = f"ptr %work{slot}"
                w.line(f"%work{slot} = getelementptr {w.type}, ptr %work, i64 {slot}")
        bad = self._write_events(part, cut)
        w.line(f"%bad = zext i1 {bad} to i64")
        w.line("ret i64 %bad")
        cold = ["cold:", "  ret i64 1"] if cut else []
        head = f"define internal i64 @{name}({parameters}) {ATTRIBUTES} {{"
        return "\n".join([head, *values.allocation(), *w.lines, *cold, "}"])

    def _write_events(self, part: int, cut: bool) -> str:
        """Writes the operations and stores of a part and returns whether the data are invalid.

        Args:
            part: index of the part.
            cut: whether to divide it into basic blocks; then ``%never`` and the block ``cold`` must exist.
        """
        w, values, events = self.w, self.values, self._write_order(part)
        reads = [self._operand_nodes(e) if isinstance(e, int) else self._stored_nodes(e) for e in events]
        for time in range(len(events) - 1, -1, -1):
            for j in reads[time]:
                values.next_reads.setdefault(j, []).append(time)
        if self.packs_angles:
            self.write_sin_cos_vectors()
        for time, event in enumerate(events):
            for j in reads[time]:
                self._fetch(j, keep=reads[time])
                values.read(j, time)
            if isinstance(event, int):
                self._write_node(event, keep=reads[time])
            else:
                pointer, size, start, refs, _ = event
                w.store(pointer, size, start, [self.get(ref) for ref in refs])
                self._check_results(event)
            for j in {*reads[time], event if isinstance(event, int) else -1}:
                values.release(j)
            if cut:
                w.begin_block_if_longer("%never", "cold", BASIC_BLOCK_SIZE)
        for first, size, _ in self.input_rows if part == 0 else ():  # inputs that no node reads are checked, too
            for k in range(first, first + size):
                if k not in self.checked_inputs:
                    self._load_inputs(k, keep=())
        return self.write_invalid_flag()

    # -- values --------------------------------------------------------------------------------------------------
    def _stored_nodes(self, window: Window) -> list[int]:
        return [ref >> 1 for ref in window[3] if self.program.graph.op[ref >> 1] != CONST]

    def _fetch(self, i: int, keep: Sequence[int]) -> None:
        """Loads value i into a register."""
        if i in self.values:
            self.values.fetch(i, keep)
        else:
            self._load_inputs(self.program.graph.left[i], keep)

    def _load_inputs(self, index: int, keep: Sequence[int]) -> None:
        """Loads an input, with its neighbors in memory."""
        first, size, pointer = next(s for s in self.input_rows if s[0] <= index < s[0] + s[1])
        for k, x in self.w.load(pointer, size, index - first).items():
            self._validate_input(first + k, x)
            i = self.input_nodes.get(first + k, -1)
            if self.values.is_read_again(i) and i not in self.values:
                self.values.define(i, x, keep)

    def get(self, ref: int) -> str:
        """Returns the value of a signed reference."""
        graph, i = self.program.graph, ref >> 1
        if graph.op[i] == CONST:
            return self.w.literal(-graph.value[i] if ref & 1 else graph.value[i])
        return self.w.neg(self.values.in_register[i]) if ref & 1 else self.values.in_register[i]

    # -- arithmetic ----------------------------------------------------------------------------------------------
    def _write_node(self, i: int, keep: Sequence[int]) -> None:
        """Writes node i; a sine is written together with its cosine."""
        graph = self.program.graph
        if i in self.values:
            return
        if graph.op[i] not in (SIN, COS):
            self._define_value(i, self.write_operation(i), keep)
            return
        key = graph.left[i] >> 1, graph.value[i]
        for op, x in zip((SIN, COS), self.w.sin_cos(self.values.in_register[key[0]], [key[1]]), strict=True):
            j = self.sin_cos_pairs[key].get(op, -1)
            if self.part_of_node.get(j, -1) == self.part:
                self._define_value(j, x, keep)

    def _define_value(self, i: int, x: str, keep: Sequence[int]) -> None:
        """Defines value i as x, and stores it in the workspace if other parts read it."""
        if i in self.slots:
            at = self.w.new(f"getelementptr {self.w.type}, ptr %work, i64 {self.slots[i]}")
            self.values.store(i, x, f"ptr {at}")
        if self.values.is_read_again(i):
            self.values.define(i, x, keep)

    def write_operation(self, i: int) -> str:
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
            self._add_to_finite_check(root)
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

    def write_sin_cos_vectors(self) -> None:
        """Writes the sines and cosines of a single state, several angles in one vector."""
        w = self.w
        angle_keys = [
            key
            for key, pair in self.sin_cos_pairs.items()
            if any(self.part_of_node[i] == self.part for i in pair.values())
        ]
        packs = 8 if w.element == "double" else 16
        for start in range(0, len(angle_keys), packs):
            group = angle_keys[start : start + packs]
            wide = VectorWriter(w.element, max(2, 1 << (len(group) - 1).bit_length()))
            given = []
            for node, _ in group:
                if node not in self.values and self.program.graph.op[node] != INPUT:  # a multiple of an input
                    self._fetch(self.program.graph.right[node] >> 1, keep=())
                    self._write_node(node, keep=())
                self._fetch(node, keep=())
                given.append(self.values.in_register[node])
            wide.lines, wide.count = w.lines, w.count
            x = "zeroinitializer"
            for k, value in enumerate(given):
                x = wide.new(f"insertelement {wide.type} {x}, {w.type} {value}, i32 {k}")
            pair = wide.sin_cos(x, [offset for _, offset in group])
            turned = [[wide.new(f"extractelement {wide.type} {y}, i32 {k}") for y in pair] for k in range(len(group))]
            w.count = wide.count
            for key, both in zip(group, turned, strict=True):
                for op, y in zip((SIN, COS), both, strict=True):
                    i = self.sin_cos_pairs[key].get(op, -1)
                    if self.part_of_node.get(i, -1) == self.part:
                        self._define_value(i, y, keep=())

    # -- a look at the data --------------------------------------------------------------------------------------
    def _add_to_finite_check(self, x: str) -> None:
        """Adds x to a sum that is finite only if all added values are.

        Such a sum can also overflow; the caller then validates the data itself.
        """
        if len(self.sums) < 4:
            self.sums.append(x)
        else:
            self.sums.append(self.w.op("fadd", self.sums.pop(0), x))

    def _check_results(self, window: Window) -> None:
        """Adds the results of a window to the sum of validated values."""
        for i in self._stored_nodes(window):
            if i not in self.checked_results:
                self.checked_results.add(i)
                self._add_to_finite_check(self.values.in_register[i])

    def _validate_input(self, index: int, x: str) -> None:
        """Writes the checks of an input: finite; where required, of unit norm, within its range, or a moderate angle.

        An input that is not finite does not make all results non-finite: quotients and signs can be finite.
        """
        if index in self.checked_inputs or self.part > 0:
            return
        self.checked_inputs.add(index)
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
        elif group is None and (self.checks_all_inputs or index not in self.input_nodes):
            self._add_to_finite_check(x)

    def write_invalid_flag(self) -> str:
        """Writes whether any value is not finite, not of unit norm, out of range, or possibly too large an angle."""
        w, t, e = self.w, self.w.type, self.w.element
        total = w.literal(0.0)
        for x in self.sums:
            total = w.op("fadd", total, x)
        rest = w.op("fsub", total, total)  # 0, or NaN
        bad = w.new(f"fcmp uno {t} {rest}, {rest}")
        tolerance = self.program.unit_tolerance or UNIT_NORM_TOLERANCE[e]
        for norm in self.norms.values():
            size = w.new(f"call {t} @llvm.fabs.{w.suffix}({t} {norm})")
            off = w.new(f"fcmp ugt {t} {size}, {w.literal(tolerance)}")
            bad = w.new(f"or {w.bool_type} {bad}, {off}")
        for out in self.outside:
            bad = w.new(f"or {w.bool_type} {bad}, {out}")
        if self.squares:  # of all angles together
            off = w.new(f"fcmp ugt {t} {self.squares}, {w.literal(MAX_ANGLE[e] ** 2)}")
            bad = w.new(f"or {w.bool_type} {bad}, {off}")
        if w.lanes == 1:
            return bad
        bits = w.new(f"bitcast {w.bool_type} {bad} to i{w.lanes}")
        return w.new(f"icmp ne i{w.lanes} {bits}, 0")
