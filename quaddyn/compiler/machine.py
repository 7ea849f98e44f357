"""Processors as LLVM describes them, and the generation of machine code from LLVM IR."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ..errors import ArgumentError, QuaddynError
from ..forks import hold_lock

#: LLVM is not made for several threads at once, and each unit is linked once.  Reentrant: a signal handler may fork.
lock = threading.RLock()


class UnsupportedMachineError(QuaddynError, RuntimeError):
    """Error raised if machine code cannot be generated or run on this machine; the message states the reason."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Processor type.

    Attributes:
        triple: LLVM's name of architecture and operating system.
        cpu: LLVM's name of the processor.
        features: LLVM's list of instruction set extensions beyond those of `cpu`.
        bits: width of its vector registers [bit].
    """

    triple: str
    cpu: str
    features: str
    bits: int


#: Calling convention in LLVM's names of platforms: Linux and macOS have the same.  Objects are ELF on every system,
#: since LLVM links them itself.
_SYSTEM = "pc-windows-msvc-elf" if sys.platform == "win32" else "unknown-linux-gnu"

#: Targets of compiled functions; one object file of each runs on every processor of the last ten years, on Linux and on
#: macOS; code for AArch64 does not use the register x18, which macOS reserves.
PORTABLE = {
    "x86-64-v3": Machine(f"x86_64-{_SYSTEM}", "x86-64-v3", "", 256),
    "x86-64": Machine(f"x86_64-{_SYSTEM}", "x86-64", "", 128),
    "aarch64": Machine(f"aarch64-{_SYSTEM}", "generic", "+reserve-x18", 128),
}


#: Target of kernels for GPUs: PTX for compute capability 7.5 or later, which the driver compiles.
GPU = Machine("nvptx64-nvidia-cuda", "sm_75", "+ptx70", 0)


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """Options of the environment variable ``QUADDYN_TARGET``: for which processor to compile, and how.

    Attributes:
        processor: a name in `PORTABLE`, or "native": kernels for this processor, compiled functions for the best
            portable target that it can run.
        lanes: numbers (float64) in a vector of the kernels: 2, 4 or 8; 0 for as many as the processor has.
        contract: whether compiled functions may round a product and a sum once (fused multiply-add).
    """

    processor: str = "native"
    lanes: int = 0
    contract: bool = True


def target_options() -> TargetOptions:
    """Reads ``QUADDYN_TARGET``: a processor, ``lanes=N`` and ``contract=on|off``, each optional, between commas.

    Raises:
        ArgumentError: a word is not one of these.
    """
    return _target_options(os.environ.get("QUADDYN_TARGET", ""))


@cache
def _target_options(text: str) -> TargetOptions:
    options = TargetOptions()
    for word in filter(None, (part.strip() for part in text.split(","))):
        if word == "native" or word in PORTABLE:
            options = replace(options, processor=word)
        elif word in ("lanes=2", "lanes=4", "lanes=8"):
            options = replace(options, lanes=int(word[-1]))
        elif word in ("contract=on", "contract=off"):
            options = replace(options, contract=word == "contract=on")
        else:
            known = ", ".join(("native", *PORTABLE))
            raise ArgumentError(
                f"QUADDYN_TARGET: {word!r} in {text!r} is neither a processor ({known}) nor one of the options "
                "lanes=2, lanes=4, lanes=8, contract=on, contract=off"
            )
    return options


def wait_for_compilation() -> None:
    """Waits, before a fork, for other threads that compile, and blocks LLVM calls until the fork is done."""
    binding = sys.modules.get("llvmlite.binding.ffi")
    hold_lock(lock)  # held over several calls
    hold_lock(getattr(getattr(binding, "lib", None), "_lock", None))  # llvmlite's own, which each call takes


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=wait_for_compilation)


@cache
def llvm() -> Any:
    """Returns llvmlite's binding after initializing it.

    Raises:
        UnsupportedMachineError: llvmlite cannot be imported.
    """
    try:
        import llvmlite.binding as binding
    except ImportError as error:
        raise UnsupportedMachineError(
            f"llvmlite cannot be imported: {error}; install it with: pip install llvmlite"
        ) from None
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


def llvm_version() -> str:
    """Returns the version of llvmlite, which is part of the key of cached machine code.

    Raises:
        UnsupportedMachineError: llvmlite cannot be imported.
    """
    llvm()
    import llvmlite

    return str(llvmlite.__version__)


def kernel_machine() -> Machine:
    """Returns the processor for which kernels are compiled: this one, or the one in ``QUADDYN_TARGET``.

    Raises:
        UnsupportedMachineError: llvmlite is missing, or the processor is of another family than `PORTABLE`.
        ArgumentError: see `target_options`.
    """
    options = target_options()
    machine = this_machine() if options.processor == "native" else PORTABLE[portable_target()]
    return replace(machine, bits=64 * options.lanes) if options.lanes else machine


@cache
def this_machine() -> Machine:
    """Returns the description of this processor.

    Raises:
        UnsupportedMachineError: llvmlite is missing, or the processor is of another family than `PORTABLE`.
    """
    binding = llvm()
    features = binding.get_host_cpu_features()
    have = {k for k, v in features.items() if v}
    triple, cpu = binding.get_process_triple(), binding.get_host_cpu_name()
    if not triple.startswith(("aarch64", "arm64", "x86_64")):
        raise UnsupportedMachineError(f"machine code for the platform {triple} is not supported")
    if {"avx512f", "avx512dq", "avx512vl"} <= have:
        bits = 512
    elif {"avx2", "fma"} <= have:
        bits = 256
    else:  # NEON or SSE2; where there is no fused multiply-add, the C library computes it
        bits = 128
    return Machine(triple, cpu, features.flatten(), bits)


def portable_target() -> str:
    """Returns the target in `PORTABLE` for compiled functions: the requested one, or the best this processor can run.

    Raises:
        UnsupportedMachineError: llvmlite is missing, or the processor cannot run the target.
        ArgumentError: see `target_options`.
    """
    best, chosen = _best_portable(), target_options().processor
    if chosen == "native":
        return best
    if chosen != best and (chosen, best) != ("x86-64", "x86-64-v3"):
        raise UnsupportedMachineError(
            f"QUADDYN_TARGET: this processor supports machine code for {best}, not for {chosen}"
        )
    return chosen


@cache
def _best_portable() -> str:
    binding = llvm()
    triple = binding.get_process_triple()
    if triple.startswith(("aarch64", "arm64")):
        return "aarch64"
    if triple.startswith("x86_64"):
        have = {k for k, v in binding.get_host_cpu_features().items() if v}
        return "x86-64-v3" if {"avx2", "fma", "bmi", "bmi2", "lzcnt", "movbe", "f16c"} <= have else "x86-64"
    raise UnsupportedMachineError(f"machine code for the platform {triple} is not supported")


def target_machine(machine: Machine, *, jit: bool, opt: int = 2) -> Any:
    """Returns LLVM's target machine of a processor; `jit` for code that may be loaded at any address.

    `opt` is the level of the optimizations of its code generator.
    """
    binding = llvm()
    if not binding.get_process_triple().startswith(machine.triple.partition("-")[0]):
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
    wide = machine.bits == 512 and "avx512f" in machine.features.replace("-avx512f", "")
    features = machine.features + (",-prefer-256-bit" if wide else "")
    return binding.Target.from_triple(machine.triple).create_target_machine(
        cpu=machine.cpu, features=features, opt=opt, reloc="pic", codemodel="jitdefault" if jit else "small", jit=jit
    )


def compile_ir(ir: str, machine: Machine, *, optimize: bool) -> bytes:
    """Compiles an IR module to relocatable machine code.

    Loops are neither unrolled nor vectorized, and only functions with the attribute ``alwaysinline`` are inlined.  Each
    function is simplified once, with LLVM's passes of level 1; the default pipeline of that level takes 1.3 to 1.6
    times as long for code that is no faster.

    Args:
        ir: the module as text.
        machine: the processor.
        optimize: whether to run LLVM's optimization passes.
    """
    binding = llvm()
    with lock:
        module = binding.parse_assembly(ir)
        target = target_machine(machine, jit=True)
        module.triple, module.data_layout = machine.triple, str(target.target_data)
        module.verify()
        if optimize:
            options = binding.create_pipeline_tuning_options(speed_level=1)
            options.loop_vectorization = options.slp_vectorization = False
            options.loop_unrolling = options.loop_interleaving = False
            builder = binding.create_pass_builder(target, options)
            inlining = binding.create_new_module_pass_manager()
            inlining.add_always_inliner_pass()
            inlining.add_global_dead_code_eliminate_pass()
            inlining.add_post_order_function_attributes_pass()
            inlining.run(module, builder)
            simplification = builder.getFunctionPassManager()
            for function in module.functions:
                if not function.is_declaration:
                    simplification.run(function, builder)
        return bytes(target.emit_object(module))


def generate_ptx(ir: str, *, optimize: bool = True) -> bytes:
    """Compiles an IR module to PTX, text that the driver of a GPU compiles.

    Args:
        ir: the module as text.
        optimize: whether to run LLVM's optimization passes.  Without them, the generation takes less than half the
            time; variables are still kept in registers, and a product and a sum still become one instruction.  The
            compiler of the driver does the other optimizations.

    Raises:
        UnsupportedMachineError: this version of LLVM was built without code generation for GPUs.
    """
    binding = llvm()
    with lock:
        try:
            target = target_machine(GPU, jit=False, opt=2 if optimize else 0)
        except RuntimeError as error:
            raise UnsupportedMachineError(f"llvmlite cannot generate code for GPUs: {error}") from None
        module = binding.parse_assembly(ir)
        module.triple, module.data_layout = GPU.triple, str(target.target_data)
        module.verify()
        if not optimize:
            passes = binding.create_new_module_pass_manager()
            passes.add_sroa_pass()
            passes.run(module, binding.create_pass_builder(target, binding.create_pipeline_tuning_options()))
        return str(target.emit_assembly(module)).encode()


def check_machine_code(target: str) -> None:
    """Compiles, links and runs a small function for a target of `PORTABLE` that this processor can run.

    Raises:
        UnsupportedMachineError: one of these steps fails.
    """
    try:
        ir = "define i64 @answer(i64 %x) {\n  %y = add i64 %x, 2\n  ret i64 %y\n}"
        code = compile_ir(ir, PORTABLE[target], optimize=True)
    except RuntimeError as error:
        raise UnsupportedMachineError(f"machine code cannot be generated: {error}") from None
    engine = link_object(code, PORTABLE[target])
    if ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(engine.get_function_address("answer"))(40) != 42:
        raise UnsupportedMachineError("the generated machine code computes a wrong result in a self-test")


def link_object(code: bytes, machine: Machine) -> Any:
    """Links machine code into this process and returns the engine that owns it and finds its functions' addresses.

    Raises:
        UnsupportedMachineError: memory cannot be made executable, or the code is for another machine.
    """
    binding = llvm()
    with lock:
        try:
            engine = binding.create_mcjit_compiler(binding.parse_assembly(""), target_machine(machine, jit=True))
            engine.add_object_file(binding.ObjectFileRef.from_data(code))
            engine.finalize_object()
        except (RuntimeError, OSError) as error:
            raise UnsupportedMachineError(f"machine code cannot be loaded: {error}") from None
    return engine
