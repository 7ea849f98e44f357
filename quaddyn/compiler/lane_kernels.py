"""PTX of compiled functions that compute lanes: each thread calls the function with the numbers of its lanes in turn.

Block k of B blocks of 32 threads computes the blocks k, k + B, k + 2B, ... of 32 lanes.  The lanes of a thread use the
same memory one after the other.

The arguments of a kernel are integers of 64 bits or floats:

- the number of lanes n, the number of blocks of threads, and the memory of a block of threads [bytes];
- the number of input words of a lane, which another kernel has computed, their address, with 32 lanes next to each
  other as in `lane_memory`, and the address in the memory of the first thread to which each thread copies those of its
  lane;
- the address of the records, and the registers of all other arguments.

The kernels have not run on a GPU; `tests/lane_host.py` runs the same LLVM IR on the CPU.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..errors import CompileError
from . import machine, object_cache
from .device_math import FUNCTIONS
from .function_translator import collect_functions
from .kinds import EPILOGUE, INT, NOTHING, Callee, Kind, RecordKind, argument_types, word_count
from .lane_functions import LANE_OFFSETS, LaneFunctionWriter
from .lane_memory import BLOCK_LANES, LANE_FLAG
from .object_cache import fingerprint
from .signatures import raise_compile_error, signature_of, symbol_name
from .typed_tree import Function

#: Name of the kernel in the module.
KERNEL_NAME: Final = "quaddyn_lanes"
#: Prefix of the file names of cached modules.
CACHE_KIND: Final = "lanes"
#: Bytes between two words of a lane.
ENTRY_BYTES: Final = 8 * BLOCK_LANES
_GLOBAL: Final = "ptr addrspace(1)"


@dataclass(frozen=True, slots=True)
class LaneKernel:
    """Kernel that calls a compiled function for each lane.

    Attributes:
        parameters: (name, kind) of the parameters of the function after the first one, the number of the lane.
        ptx: the module.
    """

    parameters: tuple[tuple[str, Kind], ...]
    ptx: bytes

    @property
    def record_words(self) -> int:
        """Words of the records among the parameters, which are in memory one after the other."""
        return sum(word_count(kind) for _, kind in self.parameters if isinstance(kind, RecordKind))


def lane_kernel(function: Callable[..., Any]) -> LaneKernel:
    """Returns the kernel of a function; its PTX is generated or loaded from the cache.

    Args:
        function: compiled function ``f(lane: int, ...) -> None``.

    Raises:
        UnsupportedMachineError: llvmlite cannot generate code for GPUs.
        CompileError: the function has another signature, or cannot be compiled.
    """
    signature = signature_of(function)
    if signature is None or signature[0][0][1] != INT or signature[1] != NOTHING:
        raise_compile_error(function, 0, "expected a function whose first parameter is an int and that returns nothing")
    parameters = tuple(signature[0][1:])
    contract = machine.target_options().contract
    key = f"{CACHE_KIND}-" + object_cache.hash_parts(
        symbol_name(function), fingerprint(_file(function)), machine.GPU, machine.llvm_version(), contract
    )  # fmt: skip
    ptx = object_cache.load_object(key)
    if ptx is None:
        ptx = machine.generate_ptx(module_text(function, contract=contract), optimize=False)
        object_cache.store_object(key, ptx)
    return LaneKernel(parameters, ptx)


def _file(function: Callable[..., Any]) -> Path:
    """Returns the file that defines a function."""
    return Path(inspect.getfile(inspect.unwrap(function)))


def module_text(function: Callable[..., Any], *, contract: bool) -> str:
    """Returns the LLVM IR of the kernel of a function, see `lane_kernel`.

    Args:
        function: as for `lane_kernel`.
        contract: whether a product and a sum may become one instruction.

    Raises:
        CompileError: the functions call one of the C library that GPUs do not have.
    """

    def callee(target: Any) -> Callee:
        signature = signature_of(target)
        assert signature is not None
        return Callee(symbol_name(target), tuple(kind for _, kind in signature[0]), signature[1])

    def write(functions: Sequence[Function]) -> dict[str, str]:
        return {f.symbol: LaneFunctionWriter(f, callee, contract=contract).text() for f in functions}

    parts = write(collect_functions([function]))
    used = {name for text in parts.values() for name in _LIBRARY_CALL.findall(text)} - {"copysign"}
    if missing := sorted(used - FUNCTIONS.keys()):
        raise CompileError(f"{symbol_name(function)}: GPUs have no function {', '.join(missing)}")
    parts |= write(collect_functions([FUNCTIONS[name] for name in sorted(used)]))
    text = "\n\n".join([*parts.values(), _kernel(function)])
    symbols = {name: symbol_name(FUNCTIONS[name]) for name in used} | {"copysign": "llvm.copysign.f64"}
    text = _LIBRARY_CALL.sub(lambda found: f"call double @{symbols[found[1]]}(", text)
    # Names in PTX consist of letters, digits, "_" and "$".
    text = re.sub(r"@(?!llvm\.)[\w.]+", lambda found: found[0].replace(".", "$"), text)
    return "\n".join([text, EPILOGUE, *_DECLARATIONS]) + "\n"


def _kernel(function: Callable[..., Any]) -> str:
    """Returns the kernel: each thread stores the offset of its memory and calls the function for its lanes.

    The threads of a warp begin each lane together.
    """
    signature = signature_of(function)
    assert signature is not None
    parameters, given, conversions, words = list[str](), list[str](), list[str](), 0
    for name, kind in signature[0][1:]:
        if isinstance(kind, RecordKind):
            conversions.append(f"  %r.{name} = getelementptr i8, ptr %records.generic, i64 {8 * words}")
            given.append(f"ptr %r.{name}")
            words += word_count(kind)
            continue
        for k, t in enumerate(argument_types(kind)):
            register = f"%a.{name}.{k}"
            parameters.append(f"{'i64' if t == 'i1' else t} {register}")
            if t == "i1":
                conversions.append(f"  {register}.bit = trunc i64 {register} to i1")
            given.append(f"i1 {register}.bit" if t == "i1" else f"{t} {register}")
    lines = [
        "entry:",
        "  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
        "  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()",
        "  %thread.wide = zext i32 %thread to i64",
        "  %block.wide = zext i32 %block to i64",
        "  %start = mul i64 %block.wide, %block_bytes",
        "  %within = mul i64 %thread.wide, 8",
        "  %offset = add i64 %start, %within",
        f"  %biased = sub i64 %offset, {-LANE_FLAG}",
        f"  %slot = getelementptr i64, ptr addrspace(3) {LANE_OFFSETS}, i32 %thread",
        "  store i64 %biased, ptr addrspace(3) %slot, align 8, !tbaa !9",
        f"  %records.generic = addrspacecast {_GLOBAL} %records to ptr",
        *conversions,
        f"  %input_bytes = mul i64 %input_words, {ENTRY_BYTES}",
        "  br label %head",
        "head:",
        "  %number = phi i64 [ %block.wide, %entry ], [ %next, %end_of_block ]",
        f"  %first = mul i64 %number, {BLOCK_LANES}",
        "  %is_block = icmp ult i64 %first, %n",
        "  br i1 %is_block, label %block_of_lanes, label %end",
        "block_of_lanes:",
        "  %lane = add i64 %first, %thread.wide",
        "  %is_lane = icmp ult i64 %lane, %n",
        "  %before = mul i64 %number, %input_bytes",
        "  %from.start = add i64 %before, %within",
        "  br i1 %is_lane, label %inputs, label %end_of_block",
        "inputs:",
        "  %k = phi i64 [ 0, %block_of_lanes ], [ %k.next, %copy ]",
        "  %is_input = icmp ult i64 %k, %input_words",
        "  br i1 %is_input, label %copy, label %compute",
        "copy:",
        f"  %distance = mul i64 %k, {ENTRY_BYTES}",
        "  %from.offset = add i64 %from.start, %distance",
        "  %to.offset = add i64 %offset, %distance",
        f"  %from = getelementptr i8, {_GLOBAL} %inputs_from, i64 %from.offset",
        f"  %to = getelementptr i8, {_GLOBAL} %inputs_to, i64 %to.offset",
        f"  %word = load i64, {_GLOBAL} %from, align 8",
        f"  store i64 %word, {_GLOBAL} %to, align 8",
        "  %k.next = add i64 %k, 1",
        "  br label %inputs",
        "compute:",
        f"  call void @{symbol_name(function)}({', '.join(['i64 %lane', *given])})",
        "  br label %end_of_block",
        "end_of_block:",
        "  call void @llvm.nvvm.bar.warp.sync(i32 -1)",
        "  %next = add i64 %number, %blocks",
        "  br label %head",
        "end:",
        "  ret void",
    ]
    numbers = ["i64 %n", "i64 %blocks", "i64 %block_bytes", "i64 %input_words"]
    head = ", ".join([*numbers, *(f"{_GLOBAL} %{x}" for x in ("inputs_from", "inputs_to", "records")), *parameters])
    return "\n".join([
        f"{LANE_OFFSETS} = internal addrspace(3) global [{BLOCK_LANES} x i64] poison, align 16",
        f'define ptx_kernel void @{KERNEL_NAME}({head}) nounwind "nvvm.maxntid"="{BLOCK_LANES}" {{',
        *lines,
        "}",
    ])  # fmt: skip


_LIBRARY_CALL = re.compile(r"call double @(\w+)\(")
_DECLARATIONS = (
    "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
    "declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()",
    "declare void @llvm.nvvm.bar.warp.sync(i32)",
    "declare double @llvm.copysign.f64(double, double)",
    "!9 = !{!10, !10, i64 0}",
    '!10 = !{!"lane offsets", !0}',
)
