"""The entry for calls from Python, in LLVM IR: exactly fitting arrays are passed directly to the kernel.

It reads arrays as compiled extensions do, at the offsets of ``PyArrayObject_fields``, which NumPy's binary interface
fixes (its headers inline them into every extension); `native_kernel` checks that interface's number, and a few arrays,
first.  The buffer protocol would need no offsets, but takes more time than an inverse dynamics.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from .llvm_writer import BYTES, Target
from .program import Program

#: Entries of the table of addresses that `call` reads.
CONTEXT: Final = (
    "ndarray",
    "descr",
    "out",
    "PyArray_New",
    "PyObject_Vectorcall",
    "PyTuple_Size",
    "PyTuple_GetItem",
    "Py_IncRef",
    "Py_DecRef",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
)
#: Minimum number of rows of a batch for which the global interpreter lock is released.
GIL_ROWS: Final = 64
#: Flags of an array: C order and aligned, and writeable besides.
READABLE: Final = 0x101
WRITEABLE: Final = 0x501


def call(program: Program, target: Target) -> str:
    """Writes ``call(self, args, nargs, kwnames)``: the fast path of a Python call; other calls are forwarded to `self`.

    The fast path takes exactly as many positional arguments as there are inputs, all of them C-contiguous, aligned
    arrays of the element type and of shape (size,), or all (n, size).  The result is a new array, or ``out=`` if that
    is such an array too, writeable and not overlapping the inputs in memory.
    """
    lines = [
        f"@context = global {_TABLE} zeroinitializer, align 8",
        "",
        "define ptr @call(ptr %self, ptr %args, i64 %nargs, ptr %kwnames) nounwind {",
        "entry:",
        f"  %dims = alloca [{len(program.outputs[0][1]) + 1} x i64], align 8",
        f"  %ndarray = load ptr, ptr {_table_entry('ndarray')}, align 8",
        f"  %descr = load ptr, ptr {_table_entry('descr')}, align 8",
        f"  %right = icmp eq i64 %nargs, {len(program.inputs)}",
        "  br i1 %right, label %named, label %slow",
    ]
    lines += _read_out_argument(len(program.inputs))
    for k, (_, size) in enumerate(program.inputs):
        lines += _check_input(k, size)
    lines += _prepare_result(program, target)
    lines += _call_kernel(len(program.inputs))
    return "\n".join([*lines, "}"])


_TABLE = f"[{len(CONTEXT)} x ptr]"


def _table_entry(name: str) -> str:
    return f"getelementptr ({_TABLE}, ptr @context, i64 0, i64 {CONTEXT.index(name)})"


def _load_field(name: str, kind: str, of: str, offset: int) -> list[str]:
    """Writes the load of a field of a structure."""
    return [
        f"  {name}.at = getelementptr i8, ptr {of}, i64 {offset}",
        f"  {name} = load {kind}, ptr {name}.at, align 4",
    ]


def _branch(name: str, conditions: Iterable[str], then: str, *, otherwise: str = "slow") -> list[str]:
    """Writes a branch to `then` if all conditions hold."""
    lines, last = [], ""
    for k, condition in enumerate(conditions):
        lines.append(f"  {name}.all{k} = and i1 {condition}, {last or 'true'}")
        last = f"{name}.all{k}"
    return [*lines, f"  br i1 {last}, label %{then}, label %{otherwise}"]


def _read_out_argument(n_in: int) -> list[str]:
    """Writes ``%given``: the array passed as ``out=``, or null."""
    return [
        "named:",
        "  %plain = icmp eq ptr %kwnames, null",
        "  br i1 %plain, label %a0, label %keywords",
        "keywords:",
        f"  %sizeof = load ptr, ptr {_table_entry('PyTuple_Size')}, align 8",
        "  %names = call i64 %sizeof(ptr %kwnames)",
        f"  %itemof = load ptr, ptr {_table_entry('PyTuple_GetItem')}, align 8",
        "  %word = call ptr %itemof(ptr %kwnames, i64 0)",
        f"  %outword = load ptr, ptr {_table_entry('out')}, align 8",
        "  %isout = icmp eq ptr %word, %outword",
        "  %isone = icmp eq i64 %names, 1",
        *_branch("%keyword", ("%isout", "%isone"), "into"),
        "into:",
        f"  %place = getelementptr ptr, ptr %args, i64 {n_in}",
        "  %passed = load ptr, ptr %place, align 8",
        "  br label %a0",
    ]


def _check_array(x: str, rank: str, flags: int) -> list[str]:
    """Writes the test whether x is an array of our type and of a rank; its shape is ``{x}.dims`` if ``{x}.fits``."""
    return [
        *_load_field(f"{x}.type", "ptr", x, 8),
        f"  {x}.isarray = icmp eq ptr {x}.type, %ndarray",
        f"  br i1 {x}.isarray, label %b{x[1:]}, label %slow",
        f"b{x[1:]}:",
        *_load_field(f"{x}.nd", "i32", x, 24),
        *_load_field(f"{x}.descr", "ptr", x, 56),
        *_load_field(f"{x}.flags", "i32", x, 64),
        f"  {x}.isdescr = icmp eq ptr {x}.descr, %descr",
        f"  {x}.masked = and i32 {x}.flags, {flags}",
        f"  {x}.isflat = icmp eq i32 {x}.masked, {flags}",
        f"  {x}.isrank = {rank}",
        *_branch(f"{x}.of", (f"{x}.isdescr", f"{x}.isflat", f"{x}.isrank"), f"c{x[1:]}"),
        f"c{x[1:]}:",
        *_load_field(f"{x}.dims", "ptr", x, 32),
        *_load_field(f"{x}.data", "ptr", x, 16),
        f"  {x}.start = ptrtoint ptr {x}.data to i64",
    ]


def _check_input(k: int, size: int) -> list[str]:
    """Writes the test whether input k is an array of (size,), or of (rows, size) if the first one is."""
    x = f"%x{k}"
    lines = [f"a{k}:"]
    if k == 0:
        lines.append("  %given = phi ptr [null, %named], [%passed, %into]")
    lines += [f"  {x}.at = getelementptr ptr, ptr %args, i64 {k}", f"  {x} = load ptr, ptr {x}.at, align 8"]
    rank = f"icmp eq i32 {x}.nd, %rank"
    if k == 0:  # 1 or 2
        lines += _check_array(x, f"icmp ult i32 {x}.less, 2", READABLE)
        at = lines.index(f"  {x}.isrank = icmp ult i32 {x}.less, 2")
        lines.insert(at, f"  {x}.less = sub i32 {x}.nd, 1")
        lines += [
            f"  %two = icmp eq i32 {x}.nd, 2",
            "  %rank = select i1 %two, i32 2, i32 1",
            "  %back = zext i1 %two to i64",
        ]
    else:
        lines += _check_array(x, rank, READABLE)
    lines += [
        f"  {x}.lastat = getelementptr i64, ptr {x}.dims, i64 %back",
        f"  {x}.last = load i64, ptr {x}.lastat, align 8",
        f"  {x}.fits = icmp eq i64 {x}.last, {size}",
        f"  {x}.first = load i64, ptr {x}.dims, align 8",
        f"  {x}.rows = select i1 %two, i64 {x}.first, i64 1",
        f"  {x}.same = icmp {'sgt' if k == 0 else 'eq'} i64 {x}.rows, {'0' if k == 0 else '%x0.rows'}",
    ]
    return lines + _branch(f"{x}.good", (f"{x}.fits", f"{x}.same"), f"a{k + 1}")


def _prepare_result(program: Program, target: Target) -> list[str]:
    """Writes ``%result``, the given or a new array, and ``%result.data``, its memory."""
    n_in, shape, size = len(program.inputs), program.outputs[0][1], BYTES[target.element]
    rank, number = len(shape), 12 if target.element == "double" else 11
    lines = [
        f"a{n_in}:",
        "  %new = icmp eq ptr %given, null",
        f"  %full = select i1 %two, i32 {rank + 1}, i32 {rank}",
        "  br i1 %new, label %create, label %use",
        "create:",
        "  store i64 %x0.rows, ptr %dims, align 8",
    ]
    for j, extent in enumerate(shape, start=1):
        lines += [
            f"  %extent{j} = getelementptr i64, ptr %dims, i64 {j}",
            f"  store i64 {extent}, ptr %extent{j}, align 8",
        ]
    lines += [
        "  %onestate = getelementptr i64, ptr %dims, i64 1",
        "  %shape = select i1 %two, ptr %dims, ptr %onestate",
        f"  %creator = load ptr, ptr {_table_entry('PyArray_New')}, align 8",
        f"  %made = call ptr %creator(ptr %ndarray, i32 %full, ptr %shape, i32 {number}, ptr null, ptr null, "
        "i32 0, i32 0, ptr null)",
        "  %failed = icmp eq ptr %made, null",
        "  br i1 %failed, label %give, label %made.array",
        "give:",
        "  ret ptr null",
        "made.array:",
        *_load_field("%made.data", "ptr", "%made", 16),
        "  br label %compute",
        "use:",
        *_check_array("%given", "icmp eq i32 %given.nd, %full", WRITEABLE),
        "  %given.first = load i64, ptr %given.dims, align 8",
        "  %given.rows = select i1 %two, i64 %given.first, i64 1",
        "  %given.same = icmp eq i64 %given.rows, %x0.rows",
        f"  %given.bytes = mul i64 %x0.rows, {math.prod(shape) * size}",
        "  %given.end = add i64 %given.start, %given.bytes",
    ]
    conditions = ["%given.same"]
    for j, extent in enumerate(shape):
        lines += [
            f"  %given.skip{j} = add i64 %back, {j}",
            f"  %given.at{j} = getelementptr i64, ptr %given.dims, i64 %given.skip{j}",
            f"  %given.size{j} = load i64, ptr %given.at{j}, align 8",
            f"  %given.is{j} = icmp eq i64 %given.size{j}, {extent}",
        ]
        conditions.append(f"%given.is{j}")
    for k, (_, entries) in enumerate(program.inputs):
        lines += [
            f"  %x{k}.bytes = mul i64 %x0.rows, {entries * size}",
            f"  %x{k}.end = add i64 %x{k}.start, %x{k}.bytes",
            f"  %x{k}.before = icmp ule i64 %x{k}.end, %given.start",
            f"  %x{k}.after = icmp ule i64 %given.end, %x{k}.start",
            f"  %x{k}.apart = or i1 %x{k}.before, %x{k}.after",
        ]
        conditions.append(f"%x{k}.apart")
    return lines + _branch("%given.good", conditions, "compute")


def _call_kernel(n_in: int) -> list[str]:
    """Writes the calls of the kernel for one state, small and large batches, and the return."""
    arguments = ", ".join([*(f"ptr %x{k}.data" for k in range(n_in)), "ptr %result.data"])
    return [
        "compute:",
        "  %result = phi ptr [%made, %made.array], [%given, %cgiven]",
        "  %result.data = phi ptr [%made.data, %made.array], [%given.data, %cgiven]",
        "  br i1 %two, label %many, label %single",
        "single:",
        f"  %bad1 = call i64 @one_body({arguments})",
        "  br label %judge",
        "many:",
        f"  %big = icmp uge i64 %x0.rows, {GIL_ROWS}",
        "  br i1 %big, label %release, label %hold",
        "hold:",
        f"  %bad2 = call i64 @batch(i64 %x0.rows, {arguments})",
        "  br label %judge",
        "release:",
        f"  %save = load ptr, ptr {_table_entry('PyEval_SaveThread')}, align 8",
        "  %state = call ptr %save()",
        f"  %bad3 = call i64 @batch(i64 %x0.rows, {arguments})",
        f"  %restore = load ptr, ptr {_table_entry('PyEval_RestoreThread')}, align 8",
        "  call void %restore(ptr %state)",
        "  br label %judge",
        "judge:",
        "  %bad = phi i64 [%bad1, %single], [%bad2, %hold], [%bad3, %release]",
        "  %wrong = icmp ne i64 %bad, 0",
        "  br i1 %wrong, label %drop, label %return",
        "return:",
        "  br i1 %new, label %done, label %share",
        "share:",
        f"  %incref = load ptr, ptr {_table_entry('Py_IncRef')}, align 8",
        "  call void %incref(ptr %result)",
        "  br label %done",
        "done:",
        "  ret ptr %result",
        "drop:",
        "  br i1 %new, label %forget, label %slow",
        "forget:",
        f"  %decref = load ptr, ptr {_table_entry('Py_DecRef')}, align 8",
        "  call void %decref(ptr %result)",
        "  br label %slow",
        "slow:",
        f"  %vectorcall = load ptr, ptr {_table_entry('PyObject_Vectorcall')}, align 8",
        "  %answer = call ptr %vectorcall(ptr %self, ptr %args, i64 %nargs, ptr %kwnames)",
        "  ret ptr %answer",
    ]
