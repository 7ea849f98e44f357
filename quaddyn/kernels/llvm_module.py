"""LLVM IR module of a program: one state, a batch in blocks of states, and the entry for Python."""

from __future__ import annotations

import math

from .llvm_body import ProgramBodyWriter
from .llvm_python_entry import write_python_call
from .llvm_writer import BYTES, Target, VectorWriter
from .program import Program

#: Maximum stack memory for padding the last rows of a batch [bytes]; a regressor of 100 bodies would need 8 MB.
MAX_PADDING_BYTES = 1 << 18
#: Maximum number of remaining rows that are computed one by one; more are padded to a whole block.
MAX_SINGLE_ROWS = 3


def batch_module(program: Program, target: Target) -> str:
    """Returns the module: functions ``one``, ``batch`` and, where there is one output, ``call``."""
    parts = [
        ProgramBodyWriter(program, "one_body", target, 1).functions(),
        ProgramBodyWriter(program, "block_body", target, target.lanes).functions(),
    ]
    parts.append(_batch_function(program, target))
    if len(program.outputs) == 1:
        parts.append(write_python_call(program, target))
    parts.append(_declarations(target))
    return "\n\n".join(parts) + "\n"


def _declarations(target: Target) -> str:
    out = ["declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"]
    for lanes in (1, 2, 4, 8, 16):
        w = VectorWriter(target.element, lanes)
        t = w.type
        out.append(f"declare {t} @llvm.fma.{w.suffix}({t}, {t}, {t})")
        out += [f"declare {t} @llvm.{name}.{w.suffix}({t})" for name in ("fabs", "sqrt")]
        if lanes > 1:
            out.append(f"declare {t} @llvm.masked.load.{w.suffix}.p0(ptr, i32, {w.bool_type}, {t})")
            out.append(f"declare void @llvm.masked.store.{w.suffix}.p0({t}, ptr, i32, {w.bool_type})")
    return "\n".join(out)


def _batch_function(program: Program, target: Target) -> str:
    """Returns the IR of ``i64 batch(i64 n, in..., out...)``, which computes n rows, and of ``one``, for one row.

    Blocks of `target.lanes` rows read and write the arrays themselves.  The remaining rows are copied to a padded block
    on the stack, or computed one after the other if they are few or the stack memory would be too large.
    """
    lanes, element = target.lanes, target.element
    size = BYTES[element]
    sizes = [s for _, s in program.inputs] + [math.prod(shape) for _, shape in program.outputs]
    n_in = len(program.inputs)
    names = [f"%in{k}" for k in range(n_in)] + [f"%out{k}" for k in range(len(program.outputs))]
    parameters = ", ".join(["i64 %n", *(f"ptr {x}" for x in names)])
    padded = sum(sizes) * lanes * size <= MAX_PADDING_BYTES
    lines = [f"define i64 @batch({parameters}) nounwind {{", "entry:"]
    for k, s in enumerate(sizes if padded else ()):
        lines.append(f"  %pad{k} = alloca [{max(1, s * lanes)} x {element}], align 64")
    lines += [
        f"  %blocks = udiv i64 %n, {lanes}",
        f"  %rest = urem i64 %n, {lanes}",
        "  %any = icmp ne i64 %blocks, 0",
        "  br i1 %any, label %loop, label %after",
        "loop:",
        "  %b = phi i64 [0, %entry], [%b1, %loop]",
        "  %errors = phi i64 [0, %entry], [%errors.next, %loop]",
        f"  %row = mul i64 %b, {lanes}",
    ]
    for k, (name, s) in enumerate(zip(names, sizes, strict=True)):
        lines.append(f"  %at{k} = mul i64 %row, {s}")
        lines.append(f"  %p{k} = getelementptr {element}, ptr {name}, i64 %at{k}")
    arguments = ", ".join(f"ptr %p{k}" for k in range(len(names)))
    lines += [
        f"  %error = call i64 @block_body({arguments})",
        "  %errors.next = or i64 %errors, %error",
        "  %b1 = add i64 %b, 1",
        "  %more = icmp ult i64 %b1, %blocks",
        "  br i1 %more, label %loop, label %after",
        "after:",
        "  %errors.blocks = phi i64 [0, %entry], [%errors.next, %loop]",
        "  %has_rest = icmp ne i64 %rest, 0",
        "  br i1 %has_rest, label %remainder, label %done",
    ]
    lines += _padded_rest(names, sizes, n_in, target) if padded else _rest_by_row("remainder", names, sizes, element)
    lines += ["done:", "  ret i64 %errors.blocks", "}"]
    one = ", ".join(f"ptr {x}" for x in names)
    lines += [
        "",
        f"define i64 @one({one}) nounwind {{",
        f"  %errors = call i64 @one_body({one})",
        "  ret i64 %errors",
        "}",
    ]
    return "\n".join(lines)


def _rest_by_row(label: str, names: list[str], sizes: list[int], element: str) -> list[str]:
    """Writes the code for the rows after the last whole block, one by one."""
    lines = [
        f"{label}:",
        "  %begin = sub i64 %n, %rest",
        "  br label %single",
        "single:",
        f"  %i = phi i64 [%begin, %{label}], [%i1, %single]",
        f"  %errors.rows = phi i64 [%errors.blocks, %{label}], [%errors.row, %single]",
    ]
    for k, (name, s) in enumerate(zip(names, sizes, strict=True)):
        lines += [f"  %over{k} = mul i64 %i, {s}", f"  %only{k} = getelementptr {element}, ptr {name}, i64 %over{k}"]
    return [
        *lines,
        f"  %error.row = call i64 @one_body({', '.join(f'ptr %only{k}' for k in range(len(names)))})",
        "  %errors.row = or i64 %errors.rows, %error.row",
        "  %i1 = add i64 %i, 1",
        "  %again = icmp ult i64 %i1, %n",
        "  br i1 %again, label %single, label %through",
        "through:",
        "  ret i64 %errors.row",
    ]


def _padded_rest(names: list[str], sizes: list[int], n_in: int, target: Target) -> list[str]:
    """Writes the code for the rows after the last whole block: one by one if they are few, else padded to a block."""
    lanes, element = target.lanes, target.element
    size = BYTES[element]
    lines = [
        "remainder:",
        f"  %is_few = icmp ule i64 %rest, {MAX_SINGLE_ROWS}",
        "  br i1 %is_few, label %rows, label %tail",
        *_rest_by_row("rows", names, sizes, element),
        "tail:",
        "  %start = sub i64 %n, %rest",
    ]
    for k in range(n_in):
        s = sizes[k]
        lines += [
            f"  %first{k} = mul i64 %start, {s}",
            f"  %from{k} = getelementptr {element}, ptr %in{k}, i64 %first{k}",
            f"  %bytes{k} = mul i64 %rest, {s * size}",
            f"  call void @llvm.memcpy.p0.p0.i64(ptr %pad{k}, ptr %from{k}, i64 %bytes{k}, i1 false)",
        ]
    lines += ["  br label %fill", "fill:", "  %r = phi i64 [%rest, %tail], [%r1, %fill]"]
    for k in range(n_in):  # the rows after the last repeat the first of the tail
        s = sizes[k]
        lines += [
            f"  %skip{k} = mul i64 %r, {s}",
            f"  %to{k} = getelementptr {element}, ptr %pad{k}, i64 %skip{k}",
            f"  call void @llvm.memcpy.p0.p0.i64(ptr %to{k}, ptr %pad{k}, i64 {s * size}, i1 false)",
        ]
    arguments = ", ".join(f"ptr %pad{k}" for k in range(len(names)))
    lines += [
        "  %r1 = add i64 %r, 1",
        f"  %full = icmp uge i64 %r1, {lanes}",
        "  br i1 %full, label %last, label %fill",
        "last:",
        f"  %error.last = call i64 @block_body({arguments})",
        "  %errors.all = or i64 %errors.blocks, %error.last",
    ]
    for k in range(n_in, len(names)):
        s = sizes[k]
        lines += [
            f"  %first{k} = mul i64 %start, {s}",
            f"  %from{k} = getelementptr {element}, ptr {names[k]}, i64 %first{k}",
            f"  %bytes{k} = mul i64 %rest, {s * size}",
            f"  call void @llvm.memcpy.p0.p0.i64(ptr %from{k}, ptr %pad{k}, i64 %bytes{k}, i1 false)",
        ]
    return [*lines, "  ret i64 %errors.all"]
