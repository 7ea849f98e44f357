"""Register allocation of straight-line code: which values are in registers, and which are spilled to memory.

The writer spills values itself instead of leaving this to LLVM: the value whose next read is furthest ahead is spilled
first, which is optimal (Belady).  LLVM's allocator, which considers whole live ranges, moves twice as many values.

Source: Belady, *A study of replacement algorithms for a virtual-storage computer*, 1966.
"""

from __future__ import annotations

from collections.abc import Collection

from .llvm_writer import BYTES, VectorWriter


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
