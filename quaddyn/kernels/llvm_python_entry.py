"""The entry for calls from Python, in LLVM IR: exactly fitting arrays are passed directly to the kernel.

It reads arrays as compiled extensions do, at the offsets of ``PyArrayObject_fields``, which NumPy's binary interface
fixes (its headers inline them into every extension); `NativeKernel` checks that interface's number, and a few arrays,
first.  The buffer protocol would need no offsets, but takes more time than an inverse dynamics.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from .llvm_writer import BYTES, Target
from .program import Program

#: Entries of the table of addresses that `write_python_call` reads.
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
#: Minimum number of states in a batch for which the global interpreter lock is released.
GIL_ROWS: Final = 64
#: Flags of an array: C order and aligned, and writeable besides.
READABLE: Final = 0x101
WRITEABLE: Final = 0x501


def write_python_call(program: Program, target: Target) -> str:
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
        f"  %has_all_inputs = icmp eq i64 %nargs, {len(program.inputs)}",
        "  br i1 %has_all_inputs, label %read_keywords, label %forward",
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
    """Writes the load of field `name` of the structure `of` at an offset [bytes]."""
    return [
        f"  {name}.at = getelementptr i8, ptr {of}, i64 {offset}",
        f"  {name} = load {kind}, ptr {name}.at, align 4",
    ]


def _branch(name: str, conditions: Iterable[str], then: str, *, otherwise: str = "forward") -> list[str]:
    """Writes a branch to `then` if all conditions hold."""
    lines, last = [], ""
    for k, condition in enumerate(conditions):
        lines.append(f"  {name}.all{k} = and i1 {condition}, {last or 'true'}")
        last = f"{name}.all{k}"
    return [*lines, f"  br i1 {last}, label %{then}, label %{otherwise}"]


def _read_out_argument(n_in: int) -> list[str]:
    """Writes ``%given``: the array passed as ``out=``, or null."""
    return [
        "read_keywords:",
        "  %has_no_keywords = icmp eq ptr %kwnames, null",
        "  br i1 %has_no_keywords, label %a0, label %has_keywords",
        "has_keywords:",
        f"  %tuple_size = load ptr, ptr {_table_entry('PyTuple_Size')}, align 8",
        "  %n_keywords = call i64 %tuple_size(ptr %kwnames)",
        f"  %tuple_item = load ptr, ptr {_table_entry('PyTuple_GetItem')}, align 8",
        "  %keyword_name = call ptr %tuple_item(ptr %kwnames, i64 0)",
        f"  %out_name = load ptr, ptr {_table_entry('out')}, align 8",
        "  %is_out = icmp eq ptr %keyword_name, %out_name",
        "  %is_single = icmp eq i64 %n_keywords, 1",
        *_branch("%keyword", ("%is_out", "%is_single"), "read_out"),
        "read_out:",
        f"  %out_at = getelementptr ptr, ptr %args, i64 {n_in}",
        "  %passed = load ptr, ptr %out_at, align 8",
        "  br label %a0",
    ]


def _check_array(x: str, rank: str, flags: int) -> list[str]:
    """Writes the check that x is an array of the element type and of a rank; ``{x}.dims`` is then its shape."""
    return [
        *_load_field(f"{x}.type", "ptr", x, 8),
        f"  {x}.isarray = icmp eq ptr {x}.type, %ndarray",
        f"  br i1 {x}.isarray, label %b{x[1:]}, label %forward",
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
    """Writes the check that input k is an array of (size,), or of (rows, size) if the first one is."""
    x = f"%x{k}"
    lines = [f"a{k}:"]
    if k == 0:
        lines.append("  %given = phi ptr [null, %read_keywords], [%passed, %read_out]")
    lines += [f"  {x}.at = getelementptr ptr, ptr %args, i64 {k}", f"  {x} = load ptr, ptr {x}.at, align 8"]
    rank = f"icmp eq i32 {x}.nd, %rank"
    if k == 0:  # 1 or 2
        lines += _check_array(x, f"icmp ult i32 {x}.less, 2", READABLE)
        at = lines.index(f"  {x}.isrank = icmp ult i32 {x}.less, 2")
        lines.insert(at, f"  {x}.less = sub i32 {x}.nd, 1")
        lines += [
            f"  %is_batch = icmp eq i32 {x}.nd, 2",
            "  %rank = select i1 %is_batch, i32 2, i32 1",
            "  %last_axis = zext i1 %is_batch to i64",
        ]
    else:
        lines += _check_array(x, rank, READABLE)
    lines += [
        f"  {x}.lastat = getelementptr i64, ptr {x}.dims, i64 %last_axis",
        f"  {x}.last = load i64, ptr {x}.lastat, align 8",
        f"  {x}.fits = icmp eq i64 {x}.last, {size}",
        f"  {x}.first = load i64, ptr {x}.dims, align 8",
        f"  {x}.rows = select i1 %is_batch, i64 {x}.first, i64 1",
        f"  {x}.same = icmp {'sgt' if k == 0 else 'eq'} i64 {x}.rows, {'0' if k == 0 else '%x0.rows'}",
    ]
    return lines + _branch(f"{x}.good", (f"{x}.fits", f"{x}.same"), f"a{k + 1}")


def _prepare_result(program: Program, target: Target) -> list[str]:
    """Writes the code that creates the result array, or checks that the one passed as ``out=`` can take the result."""
    n_in, shape, size = len(program.inputs), program.outputs[0][1], BYTES[target.element]
    rank, type_number = len(shape), 12 if target.element == "double" else 11  # NPY_DOUBLE, NPY_FLOAT
    lines = [
        f"a{n_in}:",
        "  %is_new = icmp eq ptr %given, null",
        f"  %result_rank = select i1 %is_batch, i32 {rank + 1}, i32 {rank}",
        "  br i1 %is_new, label %create_result, label %use_given",
        "create_result:",
        "  store i64 %x0.rows, ptr %dims, align 8",
    ]
    for j, extent in enumerate(shape, start=1):
        lines += [
            f"  %extent{j} = getelementptr i64, ptr %dims, i64 {j}",
            f"  store i64 {extent}, ptr %extent{j}, align 8",
        ]
    lines += [
        "  %shape_of_one = getelementptr i64, ptr %dims, i64 1",
        "  %shape = select i1 %is_batch, ptr %dims, ptr %shape_of_one",
        f"  %new_array = load ptr, ptr {_table_entry('PyArray_New')}, align 8",
        f"  %created = call ptr %new_array(ptr %ndarray, i32 %result_rank, ptr %shape, i32 {type_number}, ptr null, "
        "ptr null, i32 0, i32 0, ptr null)",
        "  %has_failed = icmp eq ptr %created, null",
        "  br i1 %has_failed, label %no_memory, label %created.array",
        "no_memory:",
        "  ret ptr null",
        "created.array:",
        *_load_field("%created.data", "ptr", "%created", 16),
        "  br label %compute",
        "use_given:",
        *_check_array("%given", "icmp eq i32 %given.nd, %result_rank", WRITEABLE),
        "  %given.first = load i64, ptr %given.dims, align 8",
        "  %given.rows = select i1 %is_batch, i64 %given.first, i64 1",
        "  %given.same = icmp eq i64 %given.rows, %x0.rows",
        f"  %given.bytes = mul i64 %x0.rows, {math.prod(shape) * size}",
        "  %given.end = add i64 %given.start, %given.bytes",
    ]
    conditions = ["%given.same"]
    for j, extent in enumerate(shape):
        lines += [
            f"  %given.skip{j} = add i64 %last_axis, {j}",
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
        "  %result = phi ptr [%created, %created.array], [%given, %cgiven]",
        "  %result.data = phi ptr [%created.data, %created.array], [%given.data, %cgiven]",
        "  br i1 %is_batch, label %batch_call, label %single_call",
        "single_call:",
        f"  %status1 = call i64 @one_body({arguments})",
        "  br label %check_status",
        "batch_call:",
        f"  %is_large = icmp uge i64 %x0.rows, {GIL_ROWS}",
        "  br i1 %is_large, label %without_gil, label %with_gil",
        "with_gil:",
        f"  %status2 = call i64 @batch(i64 %x0.rows, {arguments})",
        "  br label %check_status",
        "without_gil:",
        f"  %save_thread = load ptr, ptr {_table_entry('PyEval_SaveThread')}, align 8",
        "  %thread_state = call ptr %save_thread()",
        f"  %status3 = call i64 @batch(i64 %x0.rows, {arguments})",
        f"  %restore_thread = load ptr, ptr {_table_entry('PyEval_RestoreThread')}, align 8",
        "  call void %restore_thread(ptr %thread_state)",
        "  br label %check_status",
        "check_status:",
        "  %status = phi i64 [%status1, %single_call], [%status2, %with_gil], [%status3, %without_gil]",
        "  %is_error = icmp ne i64 %status, 0",
        "  br i1 %is_error, label %discard, label %return",
        "return:",
        "  br i1 %is_new, label %done, label %add_reference",
        "add_reference:",
        f"  %incref = load ptr, ptr {_table_entry('Py_IncRef')}, align 8",
        "  call void %incref(ptr %result)",
        "  br label %done",
        "done:",
        "  ret ptr %result",
        "discard:",
        "  br i1 %is_new, label %release_result, label %forward",
        "release_result:",
        f"  %decref = load ptr, ptr {_table_entry('Py_DecRef')}, align 8",
        "  call void %decref(ptr %result)",
        "  br label %forward",
        "forward:",
        f"  %vectorcall = load ptr, ptr {_table_entry('PyObject_Vectorcall')}, align 8",
        "  %forwarded = call ptr %vectorcall(ptr %self, ptr %args, i64 %nargs, ptr %kwnames)",
        "  ret ptr %forwarded",
    ]
