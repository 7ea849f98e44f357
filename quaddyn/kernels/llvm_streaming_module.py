"""LLVM IR module of a program with many results, over one state at a time, called as ``f(q, v, out)``.

A result is stored as soon as it is computed, so that it occupies no register until the end.  The code validates its
inputs alone: finite inputs of usual size have finite results, and summing hundreds of them would cost a tenth of the
time.
"""

from __future__ import annotations

import math

from .llvm_body import ProgramBodyWriter, Window
from .llvm_module import _declarations
from .llvm_python_entry import _TABLE, READABLE, WRITEABLE, _branch, _check_array, _table_entry
from .llvm_writer import BYTES, Target
from .program import Program


class StreamingBodyWriter(ProgramBodyWriter):
    """Writer of a program over one state whose results are stored as soon as they are computed."""

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
    """Returns the module: functions ``one`` and ``call`` of a program with one output."""
    parts = [
        StreamingBodyWriter(program, "one_body", target).functions(),
        _entry_point(program),
        write_python_call(program, target),
    ]
    return "\n\n".join([*parts, _declarations(target)]) + "\n"


def _entry_point(program: Program) -> str:
    """Writes ``one``, a function of the same signature that can be called from outside the module."""
    parameters = ", ".join(f"ptr %x{k}" for k in range(len(program.inputs) + 1))
    lines = [
        f"define i64 @one({parameters}) nounwind {{",
        f"  %status = call i64 @one_body({parameters})",
        "  ret i64 %status",
        "}",
    ]
    return "\n".join(lines)


def write_python_call(program: Program, target: Target) -> str:
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
        lines += [
            f"  %x{k}.before = icmp ule i64 %x{k}.end, %x{last}.start",
            f"  %x{k}.after = icmp ule i64 %x{last}.end, %x{k}.start",
            f"  %x{k}.apart = or i1 %x{k}.before, %x{k}.after",
        ]
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
        "forward:",
        f"  %vectorcall = load ptr, ptr {_table_entry('PyObject_Vectorcall')}, align 8",
        "  %forwarded = call ptr %vectorcall(ptr %self, ptr %args, i64 %nargs, ptr %kwnames)",
        "  ret ptr %forwarded",
        "}",
    ]
    return "\n".join(lines)
