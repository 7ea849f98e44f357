"""Writer of functions as LLVM IR for GPUs, in which a thread computes a lane.

The entries of an array take s = 8 bytes each, or 1.  The address of an array that every lane has for itself has the bit
`LANE_FLAG` set: entry k of 32 neighboring lanes lies at ``address + s (32 k + lane)``, so that the threads of a warp
access neighboring addresses.  The address is that of the first lane; the offset of the thread's own lane is in shared
memory and added where an entry is read or written.  Other arrays are as in host memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from .kinds import ITEMS, LANE_WIDTH, VECTOR, Callee
from .llvm_functions import LlvmFunctionWriter
from .typed_tree import Function

#: Array in shared memory: for each thread the distance of its lane from the first one [bytes], minus `LANE_FLAG`.
LANE_OFFSETS: Final = "@lane_offsets"
_SHARED: Final = "ptr addrspace(3)"
#: Beginning of the registers of parameters.
_PARAMETER: Final = "%a."
#: Exponent of two: lanes of a block.
_BLOCK_SHIFT: Final = 5


class LaneFunctionWriter(LlvmFunctionWriter):
    """Writer of one function for GPUs; same arguments as `InstructionWriter`.

    Values that depend on the flag of an address are computed once for each array, so that an access to an entry takes
    few instructions.  `_views` maps each pointer that `offset_pointer` returns to its array and the distance [bytes].
    `_computed` maps an array and the name of a value to the register of the value; registers of parameters are valid in
    the whole function, others in the present block.
    """

    def __init__(self, function: Function, callee: Callable[[Any], Callee], *, contract: bool) -> None:
        super().__init__(function, callee, contract=contract)
        self._views = dict[str, tuple[str, str]]()
        self._computed = dict[tuple[str, str], str]()

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

    def start_block(self, label: str) -> None:
        """Begins a basic block, in which only registers of the first block are certain to be computed."""
        super().start_block(label)
        self._computed = {key: x for key, x in self._computed.items() if key[0].startswith(_PARAMETER)}

    def offset_pointer(self, pointer: str, item: str, by: str) -> str:
        """Writes a pointer advanced by a number of entries."""
        if by == "0":
            return pointer
        shift = {8: 3, 1: 0}[ITEMS[item][1]]
        distance = self.instruction(f"shl i64 {by}, {self._select(pointer, _BLOCK_SHIFT + shift, shift)}")
        out = self.instruction(f"getelementptr i8, ptr {pointer}, i64 {distance}")
        self._views[out] = pointer, distance
        return out

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

    def _compute_once(self, key: tuple[str, str], text: str) -> str:
        """Returns the register of an instruction that depends on an array alone; writes the instruction only once."""
        if key not in self._computed and key[0].startswith(_PARAMETER):
            self.count += 1
            self._computed[key] = f"%t{self.count}"
            self.allocations.append(f"  %t{self.count} = {text}")
        elif key not in self._computed:
            self._computed[key] = self.instruction(text)
        return self._computed[key]

    def _select(self, pointer: str, own: int | str, shared: int) -> str:
        """Writes a selection: `own` if every lane has the array of the pointer for itself, else `shared`."""
        while pointer in self._views:
            pointer = self._views[pointer][0]
        address = self._compute_once((pointer, "address"), f"ptrtoint ptr {pointer} to i64")
        is_lane = self._compute_once((pointer, "is_lane"), f"icmp slt i64 {address}, 0")
        return self._compute_once((pointer, f"{own}"), f"select i1 {is_lane}, i64 {own}, i64 {shared}")

    def _address(self, pointer: str, item: str = "float") -> str:
        """Writes the address of an entry of this thread's lane."""
        if pointer in self._views:
            array, distance = self._views[pointer]
            return self.instruction(f"getelementptr i8, ptr {self._address(array, item)}, i64 {distance}")
        own = self._select(pointer, "%lane.byte" if item == "byte" else "%lane.offset", 0)
        return self._compute_once((pointer, item), f"getelementptr i8, ptr {pointer}, i64 {own}")

    def _consecutive_addresses(self, pointer: str) -> list[str]:
        """Writes the addresses of `LANE_WIDTH` consecutive floats of this thread's lane."""
        address, step = self._address(pointer), self._select(pointer, 8 << _BLOCK_SHIFT, 8)
        out = [address]
        for _ in range(LANE_WIDTH - 1):
            address = self.instruction(f"getelementptr i8, ptr {address}, i64 {step}")
            out.append(address)
        return out
