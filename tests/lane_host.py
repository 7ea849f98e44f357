"""Runs kernels of `quaddyn.compiler.lane_kernels` on the CPU: the same LLVM IR, with a loop instead of threads."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from quaddyn.compiler import machine
from quaddyn.compiler.kinds import Kind, RecordKind, argument_types
from quaddyn.compiler.lane_kernels import KERNEL_NAME, module_text
from quaddyn.compiler.lane_memory import BLOCK_LANES, LaneMemory
from quaddyn.compiler.python_calls import registers
from quaddyn.compiler.signatures import signature_of


def host_text(text: str) -> str:
    """The module for a CPU: without address spaces, and with indices of thread and block in global variables."""
    text = re.sub(r"addrspacecast ptr addrspace\(1\) (%\S+) to ptr", r"getelementptr i8, ptr \1, i64 0", text)
    for old, new in ((" addrspace(1)", ""), (" addrspace(3)", ""), ("ptx_kernel ", "")):
        text = text.replace(old, new)
    for name in ("tid", "ctaid"):
        intrinsic = f"@llvm.nvvm.read.ptx.sreg.{name}.x()"
        function = f"define internal i32 @read_{name}() {{\n  %x = load volatile i32, ptr @{name}\n  ret i32 %x\n}}"
        text = text.replace(f"declare i32 {intrinsic}", f"@{name} = global i32 0\n\n{function}")
        text = text.replace(intrinsic, f"@read_{name}()")
    barrier = "@llvm.nvvm.bar.warp.sync"
    text = text.replace(f"declare void {barrier}(i32)", "define internal void @barrier(i32 %mask) {\n  ret void\n}")
    return text.replace(barrier, "@barrier")


class HostKernel:
    """Kernel of a compiled function ``f(lane, ...)`` on the CPU, launched as `quaddyn.cuda.driver.LoadedKernel`."""

    registers = local_bytes = 0
    #: Number of arguments before those of the function.
    FIRST = 7

    def __init__(self, function: Callable[..., Any]) -> None:
        signature = signature_of(function)
        assert signature is not None
        self.parameters: tuple[tuple[str, Kind], ...] = tuple(signature[0][1:])
        types = [t for _, kind in self.parameters if not isinstance(kind, RecordKind) for t in argument_types(kind)]
        self.types = [ctypes.c_double if t == "double" else ctypes.c_int64 for t in types]
        target = machine.kernel_machine()
        contract = machine.target_options().contract
        code = machine.compile_ir(host_text(module_text(function, contract=contract)), target, optimize=True)
        self.engine = machine.link_object(code, target)
        index = self.engine.get_global_value_address
        self.thread, self.block = (ctypes.c_int32.from_address(index(name)) for name in ("tid", "ctaid"))
        self.call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * self.FIRST, *self.types)(
            self.engine.get_function_address(KERNEL_NAME)
        )

    def resident_blocks(self, threads: int) -> int:
        """Returns the number of blocks of threads that run at the same time."""
        return 2

    def launch(self, blocks: int, threads: int, stream: int, arguments: Sequence[int]) -> None:
        """Calls the kernel for each thread; arguments are 64 bits each, floats among them too."""
        assert threads == BLOCK_LANES
        given = [ctypes.c_int64(word).value for word in arguments]
        for k, kind in enumerate(self.types):
            if kind is ctypes.c_double:
                given[self.FIRST + k] = np.int64(given[self.FIRST + k]).view(np.float64)
        for self.block.value in range(blocks):
            for self.thread.value in range(threads):
                self.call(*given)


class LaneHost:
    """A compiled function ``f(lane, ...)`` on the CPU, with some arguments in the memory of lanes.

    Args:
        function: the function.
        owned: arguments that each lane has for itself, by name.
        n: number of lanes.
        shared: arrays among them that all lanes share.
    """

    def __init__(self, function: Callable[..., Any], owned: Mapping[str, Any], n: int, shared: Any = ()) -> None:
        self.n, self.owned, self.kernel = n, tuple(owned), HostKernel(function)
        kinds = dict(self.kernel.parameters)
        self.memory = LaneMemory(list(owned.values()), [kinds[name] for name in owned], n, shared)
        for lane in range(n):
            self.memory.store(lane)

    def run(self, **plain: Any) -> None:
        """Calls the function for each lane; `plain` are the arguments in usual memory."""
        own = self.memory.registers(self.memory.words.__array_interface__["data"][0])
        found, records, given = dict(zip(self.owned, own, strict=True)), list[int](), list[int]()
        for name, kind in self.kernel.parameters:
            words = found[name] if name in found else registers(plain[name], kind)
            (records if isinstance(kind, RecordKind) else given).extend(words)
        block = np.array([ctypes.c_int64(word).value for word in records], dtype=np.int64)
        blocks = len(self.memory.words)
        arguments = [self.n, blocks, self.memory.block_bytes, 0, 0, 0, block.ctypes.data, *given]
        self.kernel.launch(blocks, BLOCK_LANES, 0, arguments)
