"""Writer of functions as LLVM IR for GPUs, in which a thread computes a lane.

The entries of an array take s = 8 bytes each, or 1.  The address of an array that every lane has for itself has the bit
`LANE_FLAG` set: entry k of 32 neighboring lanes lies at ``address + s (32 k + lane)``, so that the threads of a warp
access neighboring addresses.  The address is that of the first lane; the offset of the thread's own lane is in shared
memory and added where an entry is read or written.  Other arrays are as in host memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .kinds import ITEMS, LANE_WIDTH, VECTOR
from .llvm_functions import LlvmFunctionWriter

#: Lanes of a block, which are the threads of a warp.
BLOCK_LANES: Final = 32
#: Bit of the addresses of arrays that every lane has for itself.
LANE_FLAG: Final = 1 << 63
#: Array in shared memory: for each thread the distance of its lane from the first one [bytes], minus `LANE_FLAG`.
LANE_OFFSETS: Final = "@lane_offsets"
_SHARED: Final = "ptr addrspace(3)"
#: Exponent of two: lanes of a block.
_BLOCK_SHIFT: Final = 5


class LaneFunctionWriter(LlvmFunctionWriter):
    """Writer of one function for GPUs; same arguments as `InstructionWriter`."""

    def text(self) -> str:
        """Returns the definition of the function."""
        self.allocations += [
            "  %lane.thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
            f"  %lane.slot = getelementptr i64, {_SHARED} {LANE_OFFSETS}, i32 %lane.thread",
            f"  %lane.offset = load i64, {_SHARED} %lane.slot, align 8, !tbaa !9",
            "  %lane.wide = zext i32 %lane.thread to i64",
            "  %lane.seven = mul i64 %lane.wide, 7",
            "  %lane.byte = sub i64 %lane.offset, %lane.seven",
        ]
        return super().text()

    def offset_pointer(self, pointer: str, item: str, by: str) -> str:
        """Writes a pointer advanced by a number of entries."""
        if by == "0":
            return pointer
        shift = {8: 3, 1: 0}[ITEMS[item][1]]
        own = self.instruction(f"shl i64 {by}, {_BLOCK_SHIFT + shift}")
        plain = self.instruction(f"shl i64 {by}, {shift}") if shift else by
        distance = self.instruction(f"select i1 {self._is_lane(pointer)}, i64 {own}, i64 {plain}")
        return self.instruction(f"getelementptr i8, ptr {pointer}, i64 {distance}")

    def load_entry(self, pointer: str, item: str) -> str:
        """Writes the load of an array entry; bytes become integers of 64 bits."""
        return super().load_entry(self._address(pointer, item), item)

    def store_entry(self, pointer: str, item: str, x: str) -> None:
        """Writes the store of an array entry; a byte is given as an integer of 64 bits."""
        super().store_entry(self._address(pointer, item), item, x)

    def load_lanes(self, pointer: str) -> str:
        """Writes the load of `LANE_WIDTH` consecutive floats."""
        out = "poison"
        for k, address in enumerate(self._consecutive_addresses(pointer)):
            x = self.instruction(f"load double, ptr {address}, align 8, !tbaa !1")
            out = self.instruction(f"insertelement {VECTOR} {out}, double {x}, i32 {k}")
        return out

    def store_lanes(self, pointer: str, x: str) -> None:
        """Writes the store of `LANE_WIDTH` consecutive floats."""
        for k, address in enumerate(self._consecutive_addresses(pointer)):
            value = self.instruction(f"extractelement {VECTOR} {x}, i32 {k}")
            self.line(f"store double {value}, ptr {address}, align 8, !tbaa !1")

    def call_kernel(self, address: str, pointers: Sequence[str]) -> str:
        """Writes the result of a kernel that has computed its last array before: 1 if the first entry is NaN, else 0.

        A GPU computes the kernel of all lanes before; it writes NaN for a lane with invalid arguments.
        """
        x = super().load_entry(self._address(pointers[-1]), "float")
        return self.instruction(f"zext i1 {self.instruction(f'fcmp uno double {x}, {x}')} to i64")

    def _is_lane(self, pointer: str) -> str:
        """Writes whether every lane has the array of this pointer for itself."""
        return self.instruction(f"icmp slt i64 {self.instruction(f'ptrtoint ptr {pointer} to i64')}, 0")

    def _address(self, pointer: str, item: str = "float") -> str:
        """Writes the address of an entry of this thread's lane."""
        offset = "%lane.byte" if item == "byte" else "%lane.offset"
        own = self.instruction(f"select i1 {self._is_lane(pointer)}, i64 {offset}, i64 0")
        return self.instruction(f"getelementptr i8, ptr {pointer}, i64 {own}")

    def _consecutive_addresses(self, pointer: str) -> list[str]:
        """Writes the addresses of `LANE_WIDTH` consecutive floats of this thread's lane."""
        address = self._address(pointer)
        step = self.instruction(f"select i1 {self._is_lane(pointer)}, i64 {8 << _BLOCK_SHIFT}, i64 8")
        out = [address]
        for _ in range(LANE_WIDTH - 1):
            address = self.instruction(f"getelementptr i8, ptr {address}, i64 {step}")
            out.append(address)
        return out
