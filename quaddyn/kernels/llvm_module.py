"""LLVM IR modules of programs: one state, a batch in blocks of states, and the entry for calls from Python.

The entry passes exactly fitting arrays directly to the kernel.  It reads them as compiled extensions do, at the offsets
of ``PyArrayObject_fields``, which NumPy's binary interface fixes (its headers inline them into every extension);
`kernel_cache` checks that interface's number, and a few arrays, first.  The buffer protocol would need no offsets, but
takes more time than an inverse dynamics.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from .graph import Program
from .llvm_body import ProgramBodyWriter, Window
from .llvm_writer import BYTES, Target, VectorWriter

#: Maximum number of rows after the last whole block that are computed one by one.
MAX_SINGLE_ROWS = 3


def batch_module(program: Program, target: Target) -> str:
    """Returns the module: functions ``one``, ``batch`` and, where there is one output, ``call``."""
    parts = [
        ProgramBodyWriter(program, "one_body", target, 1).functions(),
        ProgramBodyWriter(program, "block_body", target, target.lanes).functions(),
        _batch_function(program, target),
        _entry_point(program),
    ]
    if len(program.outputs) == 1:
        parts.append(write_python_call(program, target))
    parts.append(_declarations(target))
    return "\n\n".join(parts) + "\n"


def _declarations(target: Target) -> str:
    out = []
    for lanes in (1, 2, 4, 8, 16):
        w = VectorWriter(target.element, lanes)
        t = w.type
        out.append(f"declare {t} @llvm.fma.{w.suffix}({t}, {t}, {t})")
        out += [f"declare {t} @llvm.{name}.{w.suffix}({t})" for name in ("fabs", "sqrt")]
        if lanes > 1:
            out.append(f"declare {t} @llvm.masked.load.{w.suffix}.p0(ptr, i32, {w.bool_type}, {t})")
            out.append(f"declare void @llvm.masked.store.{w.suffix}.p0({t}, ptr, i32, {w.bool_type})")
    return "\n".join(out)


def _entry_point(program: Program) -> str:
    """Writes ``one``, a function of the same signature as ``one_body`` that can be called from outside the module."""
    parameters = ", ".join(f"ptr %x{k}" for k in range(len(program.inputs) + len(program.outputs)))
    lines = [
        f"define i64 @one({parameters}) nounwind {{",
        f"  %status = call i64 @one_body({parameters})",
        "  ret i64 %status",
        "}",
    ]
    return "\n".join(lines)


def _batch_function(program: Program, target: Target) -> str:
    """Returns the IR of ``i64 batch(i64 n, in..., out...)``, which computes n rows.

    Blocks of `target.lanes` rows read and write the arrays themselves.  A few remaining rows are computed one after the
    other, more by a last block that ends with them and computes some rows of the block before it again.
    """
    lanes = target.lanes
    sizes = [s for _, s in program.inputs] + [math.prod(shape) for _, shape in program.outputs]

    def call(body: str, result: str, row: str) -> list[str]:
        """Writes the call of a function on the rows from a number on."""
        out = []
        for k, size in enumerate(sizes):
            out += [
                f"  %{result}.skip{k} = mul i64 {row}, {size}",
                f"  %{result}.row{k} = getelementptr {target.element}, ptr %x{k}, i64 %{result}.skip{k}",
            ]
        arguments = ", ".join(f"ptr %{result}.row{k}" for k in range(len(sizes)))
        return [*out, f"  %{result} = call i64 @{body}({arguments})"]

    lines = [
        f"define i64 @batch(i64 %n, {', '.join(f'ptr %x{k}' for k in range(len(sizes)))}) nounwind {{",
        "entry:",
        f"  %blocks = udiv i64 %n, {lanes}",
        f"  %rest = urem i64 %n, {lanes}",
        "  %has_blocks = icmp ne i64 %blocks, 0",
        "  br i1 %has_blocks, label %loop, label %after",
        "loop:",
        "  %b = phi i64 [0, %entry], [%b1, %loop]",
        "  %errors = phi i64 [0, %entry], [%errors.next, %loop]",
        f"  %row = mul i64 %b, {lanes}",
        *call("block_body", "error", "%row"),
        "  %errors.next = or i64 %errors, %error",
        "  %b1 = add i64 %b, 1",
        "  %more = icmp ult i64 %b1, %blocks",
        "  br i1 %more, label %loop, label %after",
        "after:",
        "  %errors.blocks = phi i64 [0, %entry], [%errors.next, %loop]",
        "  %has_rest = icmp ne i64 %rest, 0",
        "  br i1 %has_rest, label %remainder, label %done",
        "done:",
        "  ret i64 %errors.blocks",
        "remainder:",
        f"  %are_many = icmp ugt i64 %rest, {MAX_SINGLE_ROWS}",
        "  %is_last_block = and i1 %are_many, %has_blocks",
        "  br i1 %is_last_block, label %last, label %rows",
        "last:",
        f"  %start = sub i64 %n, {lanes}",
        *call("block_body", "error.last", "%start"),
        "  %errors.all = or i64 %errors.blocks, %error.last",
        "  ret i64 %errors.all",
        "rows:",
        "  %begin = sub i64 %n, %rest",
        "  br label %single",
        "single:",
        "  %i = phi i64 [%begin, %rows], [%i1, %single]",
        "  %errors.rows = phi i64 [%errors.blocks, %rows], [%errors.row, %single]",
        *call("one_body", "error.row", "%i"),
        "  %errors.row = or i64 %errors.rows, %error.row",
        "  %i1 = add i64 %i, 1",
        "  %again = icmp ult i64 %i1, %n",
        "  br i1 %again, label %single, label %through",
        "through:",
        "  ret i64 %errors.row",
        "}",
    ]
    return "\n".join(lines)


class StreamingBodyWriter(ProgramBodyWriter):
    """Writer of the LLVM code of a program for one state, which stores each result right after its computation.

    A result therefore occupies no register until the end.  The code validates its inputs alone: finite inputs of usual
    size have finite results, and summing hundreds of them would cost a tenth of the time.
    """

    def __init__(self, program: Program, name: str, target: Target) -> None:
        super().__init__(program, name, target, 1)
        self.stores_at_end = False
        self.checks_all_inputs = True  # since results are not checked

    def _windows(self) -> list[Window]:
        """Returns one store per entry of the outputs, in the part that computes it."""
        out: list[Window] = []
        results = iter(self.program.results)
        for pointer, (_, shape) in zip(self.output_pointers, self.program.outputs, strict=True):
            size = math.prod(shape)
            for k in range(size):
                ref = next(results).ref
                out.append((pointer, size, k, [ref], self.part_of_node.get(ref >> 1, 0)))
        return out

    def _check_results(self, window: Window) -> None:
        pass


def streaming_module(program: Program, target: Target) -> str:
    """Returns the module: functions ``one`` and ``call`` of a program over one state with one output."""
    parts = [
        StreamingBodyWriter(program, "one_body", target).functions(),
        _entry_point(program),
        write_output_call(program, target),
    ]
    return "\n\n".join([*parts, _declarations(target)]) + "\n"


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


#: Type of the table.
_TABLE = f"[{len(CONTEXT)} x ptr]"


def _table_entry(name: str) -> str:
    return f"getelementptr ({_TABLE}, ptr @context, i64 0, i64 {CONTEXT.index(name)})"


_FORWARD = [
    "forward:",
    f"  %vectorcall = load ptr, ptr {_table_entry('PyObject_Vectorcall')}, align 8",
    "  %forwarded = call ptr %vectorcall(ptr %self, ptr %args, i64 %nargs, ptr %kwnames)",
    "  ret ptr %forwarded",
    "}",
]


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
    return "\n".join([*lines, *_FORWARD])


def _load_field(name: str, kind: str, of: str, offset: int) -> list[str]:
    """Writes the load of field `name` of the structure `of` at an offset [bytes]."""
    return [
        f"  {name}.at = getelementptr i8, ptr {of}, i64 {offset}",
        f"  {name} = load {kind}, ptr {name}.at, align 4",
    ]


def _is_apart(x: str, y: str) -> list[str]:
    """Writes ``{x}.apart``: whether two arrays do not overlap in memory."""
    return [
        f"  {x}.before = icmp ule i64 {x}.end, {y}.start",
        f"  {x}.after = icmp ule i64 {y}.end, {x}.start",
        f"  {x}.apart = or i1 {x}.before, {x}.after",
    ]


def _branch(name: str, conditions: Iterable[str], then: str) -> list[str]:
    """Writes a branch to `then` if all conditions hold, and else to ``forward``."""
    lines, last = [], ""
    for k, condition in enumerate(conditions):
        lines.append(f"  {name}.all{k} = and i1 {condition}, {last or 'true'}")
        last = f"{name}.all{k}"
    return [*lines, f"  br i1 {last}, label %{then}, label %forward"]


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
        lines += [f"  %x{k}.bytes = mul i64 %x0.rows, {entries * size}"]
        lines += [f"  %x{k}.end = add i64 %x{k}.start, %x{k}.bytes", *_is_apart(f"%x{k}", "%given")]
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
    ]


def write_output_call(program: Program, target: Target) -> str:
    """Returns the IR of ``call(self, args, nargs, kwnames)``, which Python calls for ``f(inputs..., out)``.

    `call` has the signature of Python's fast calls; `self` is the Python function that takes all other calls.
    `call` itself takes exactly these positional arguments, each a C-contiguous, aligned array of the element type and
    of shape (size,), the last one writeable and not overlapping the others.  It returns the last one.
    """
    sizes = [size for _, size in program.inputs] + [math.prod(shape) for _, shape in program.outputs]
    last, width = len(sizes) - 1, BYTES[target.element]
    lines = [
        f"@context = global {_TABLE} zeroinitializer, align 8",
        "",
        "define ptr @call(ptr %self, ptr %args, i64 %nargs, ptr %kwnames) nounwind {",
        "entry:",
        f"  %ndarray = load ptr, ptr {_table_entry('ndarray')}, align 8",
        f"  %descr = load ptr, ptr {_table_entry('descr')}, align 8",
        f"  %has_all_inputs = icmp eq i64 %nargs, {len(sizes)}",
        "  %has_no_keywords = icmp eq ptr %kwnames, null",
        *_branch("%positional", ("%has_all_inputs", "%has_no_keywords"), "a0"),
    ]
    for k, size in enumerate(sizes):
        x = f"%x{k}"
        lines += [
            f"a{k}:",
            f"  {x}.at = getelementptr ptr, ptr %args, i64 {k}",
            f"  {x} = load ptr, ptr {x}.at, align 8",
            *_check_array(x, f"icmp eq i32 {x}.nd, 1", WRITEABLE if k == last else READABLE),
            f"  {x}.size = load i64, ptr {x}.dims, align 8",
            f"  {x}.fits = icmp eq i64 {x}.size, {size}",
            f"  {x}.end = add i64 {x}.start, {size * width}",
            f"  br i1 {x}.fits, label %a{k + 1}, label %forward",
        ]
    lines.append(f"a{last + 1}:")
    for k in range(last):
        lines += _is_apart(f"%x{k}", f"%x{last}")
    lines += [
        *_branch("%x.apart", [f"%x{k}.apart" for k in range(last)], "compute"),
        "compute:",
        f"  %status = call i64 @one_body({', '.join(f'ptr %x{k}.data' for k in range(last + 1))})",
        "  %is_ok = icmp eq i64 %status, 0",
        "  br i1 %is_ok, label %done, label %forward",
        "done:",
        f"  %incref = load ptr, ptr {_table_entry('Py_IncRef')}, align 8",
        f"  call void %incref(ptr %x{last})",
        f"  ret ptr %x{last}",
    ]
    return "\n".join([*lines, *_FORWARD])
