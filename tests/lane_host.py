"""Runs kernels of `quaddyn.compiler.lane_kernels` on the CPU: the same LLVM IR, with a loop instead of threads."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from quaddyn.compiler import machine
from quaddyn.compiler.kinds import Kind, RecordKind, argument_types
from quaddyn.compiler.lane_functions import BLOCK_LANES
from quaddyn.compiler.lane_kernels import KERNEL_NAME, module_text
from quaddyn.compiler.lane_memory import LaneMemory
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
    return text


class LaneHost:
    """A compiled function ``f(lane, ...)`` on the CPU, with some arguments in the memory of lanes.

    Args:
        function: the function.
        owned: arguments that each lane has for itself, by name.
        n: number of lanes.
        shared: arrays among them that all lanes share.
    """

    def __init__(self, function: Callable[..., Any], owned: Mapping[str, Any], n: int, shared: Any = ()) -> None:
        self.n, self.owned, signature = n, tuple(owned), signature_of(function)
        assert signature is not None
        self.parameters: tuple[tuple[str, Kind], ...] = tuple(signature[0][1:])
        kinds = dict(self.parameters)
        self.memory = LaneMemory(list(owned.values()), [kinds[name] for name in owned], n, shared)
        for lane in range(n):
            self.memory.store(lane)
        target = machine.kernel_machine()
        contract = machine.target_options().contract
        code = machine.compile_ir(host_text(module_text(function, contract=contract)), target, optimize=True)
        self.engine = machine.link_object(code, target)
        index = self.engine.get_global_value_address
        self.thread, self.block = (ctypes.c_int32.from_address(index(name)) for name in ("tid", "ctaid"))
        self.lengths = [len(registers(value, kinds[name])) for name, value in owned.items()]

    def run(self, **plain: Any) -> None:
        """Calls the function for each lane; `plain` are the arguments in usual memory."""
        own = iter(self.memory.registers(self.memory.words.__array_interface__["data"][0]))
        found = {
            name: [next(own) for _ in range(length)] for name, length in zip(self.owned, self.lengths, strict=True)
        }
        records, given, types = list[int](), list[Any](), list[Any]()
        for name, kind in self.parameters:
            words = found[name] if name in found else registers(plain[name], kind)
            if isinstance(kind, RecordKind):
                records += [ctypes.c_int64(word).value for word in words]
                continue
            for word, type_ in zip(words, argument_types(kind), strict=True):
                is_float = type_ == "double"
                given.append(np.int64(word).view(np.float64) if is_float else ctypes.c_int64(word).value)
                types.append(ctypes.c_double if is_float else ctypes.c_int64)
        block = np.array(records, dtype=np.int64)
        kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3, ctypes.c_void_p, *types)(
            self.engine.get_function_address(KERNEL_NAME)
        )
        for lane in range(len(self.memory.words) * BLOCK_LANES):  # the last threads have no lane
            self.block.value, self.thread.value = divmod(lane, BLOCK_LANES)
            kernel(self.n, 0, self.memory.block_bytes, block.ctypes.data, *given)
