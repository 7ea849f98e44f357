"""`RegisterAllocator`: which values of straight-line code are in registers, and which are spilled to memory.

The writer itself spills values that are not read for long, not LLVM: the one whose next read is furthest ahead goes
first, which is optimal.  LLVM's allocator, which considers whole live ranges, moves twice as many values.

Source: Belady, *A study of replacement algorithms for a virtual-storage computer*, 1966.
"""

from __future__ import annotations

from collections.abc import Collection

from .llvm_writer import BYTES, VectorWriter


class RegisterAllocator:
    """Values of one function by number, each in a register, in memory, or not computed.

    Args:
        w: writes the function.
        room: number of registers that they may occupy.

    Attributes:
        near: names of values in registers.
        far: addresses of values in memory.
        ahead: times at which each value is read, the next time last.
    """

    def __init__(self, w: VectorWriter, room: int) -> None:
        self.w, self.room = w, room
        self.near: dict[int, str] = {}
        self.far: dict[int, str] = {}
        self.ahead: dict[int, list[int]] = {}
        self._free: list[str] = []  # places that nobody needs any more
        self._places = 0

    def __contains__(self, i: int) -> bool:
        return i in self.near or i in self.far

    def wanted(self, i: int) -> bool:
        """Returns whether value i will be read again."""
        return bool(self.ahead.get(i))

    def read(self, i: int, time: int) -> None:
        """Records that value i was read at this time."""
        while self.ahead[i] and self.ahead[i][-1] <= time:
            self.ahead[i].pop()

    def fetch(self, i: int, keep: Collection[int]) -> None:
        """Loads a value from memory into a register; those of `keep` are not spilled."""
        if i not in self.near:
            x = self.w.new(f"load {self.w.type}, ptr {self.far[i]}, align {self._align}")
            self.define(i, x, keep)

    def define(self, i: int, x: str, keep: Collection[int]) -> None:
        """Sets value i to x; spills the value whose next read is furthest ahead if there is no free register."""
        self.near[i] = x
        others = [j for j in self.near if j != i and j not in keep] if len(self.near) > self.room else []
        if others:
            j = max(others, key=lambda j: self.ahead[j][-1])
            if j not in self.far:
                self.put(j, self.near[j], self._place())
            del self.near[j]

    def put(self, i: int, x: str, at: str) -> None:
        """Stores value i, which is x, at an address."""
        self.w.line(f"store {self.w.type} {x}, ptr {at}, align {self._align}")
        self.far[i] = at

    def drop(self, i: int) -> None:
        """Removes value i if nothing reads it any more."""
        if not self.wanted(i):
            self.near.pop(i, None)
            at = self.far.pop(i, "")
            if at.startswith("%far"):
                self._free.append(at)

    def head(self) -> list[str]:
        """Returns the allocation of spill memory, with which the function must begin."""
        if not self._places:
            return []
        places = range(self._places)
        return [
            f"  %far = alloca [{self._places} x {self.w.type}], align 64",
            *(f"  %far{k} = getelementptr {self.w.type}, ptr %far, i64 {k}" for k in places),
        ]

    def _place(self) -> str:
        if not self._free:
            self._free.append(f"%far{self._places}")
            self._places += 1
        return self._free.pop()

    @property
    def _align(self) -> int:
        return BYTES[self.w.element] * self.w.lanes
