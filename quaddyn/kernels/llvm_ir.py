"""LLVM IR of a program: one state, a batch in blocks of states, and the entry for calls from Python."""

from __future__ import annotations

import math
from typing import Final

from .llvm_body import Body
from .llvm_writer import BYTES, Target, Writer
from .program import Program

#: Most bytes of stack that the last rows of a batch may be padded in: a regressor of a hundred bodies would need 8 MB.
SCRATCH = 1 << 18


def module(program: Program, target: Target) -> str:
    """The whole module: functions ``one``, ``batch`` and, where there is one output, ``call``."""
    parts = [
        Body(program, "one_body", target, 1).functions(),
        Body(program, "block_body", target, target.lanes).functions(),
    ]
    parts.append(_batch(program, target))
    if len(program.outputs) == 1:
        parts.append(_call(program, target))
    parts.append(_declarations(target))
    return "\n\n".join(parts) + "\n"


def _declarations(target: Target) -> str:
    out = ["declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"]
    for lanes in (1, 2, 4, 8, 16):
        w = Writer(target.element, lanes)
        t = w.type
        out.append(f"declare {t} @llvm.fma.{w.suffix}({t}, {t}, {t})")
        out.append(f"declare {t} @llvm.fabs.{w.suffix}({t})")
        if lanes > 1:
            out.append(f"declare {t} @llvm.masked.load.{w.suffix}.p0(ptr, i32, {w.bool_type}, {t})")
            out.append(f"declare void @llvm.masked.store.{w.suffix}.p0({t}, ptr, i32, {w.bool_type})")
    return "\n".join(out)


def _batch(program: Program, target: Target) -> str:
    """``i64 batch(i64 n, in..., out...)``: whole blocks in place, the rest padded on the stack, or row by row."""
    W, e = target.lanes, target.element
    size = BYTES[e]
    sizes = [s for _, s in program.inputs] + [math.prod(shape) for _, shape in program.outputs]
    n_in = len(program.inputs)
    names = [f"%in{k}" for k in range(n_in)] + [f"%out{k}" for k in range(len(program.outputs))]
    parameters = ", ".join(["i64 %n", *(f"ptr {x}" for x in names)])
    padded = sum(sizes) * W * size <= SCRATCH
    lines = [f"define i64 @batch({parameters}) nounwind {{", "entry:"]
    for k, s in enumerate(sizes if padded else ()):
        lines.append(f"  %pad{k} = alloca [{max(1, s * W)} x {e}], align 64")
    lines += [
        f"  %blocks = udiv i64 %n, {W}",
        f"  %rest = urem i64 %n, {W}",
        "  %any = icmp ne i64 %blocks, 0",
        "  br i1 %any, label %loop, label %after",
        "loop:",
        "  %b = phi i64 [0, %entry], [%b1, %loop]",
        "  %bad = phi i64 [0, %entry], [%bad1, %loop]",
        f"  %row = mul i64 %b, {W}",
    ]
    for k, (name, s) in enumerate(zip(names, sizes, strict=True)):
        lines.append(f"  %at{k} = mul i64 %row, {s}")
        lines.append(f"  %p{k} = getelementptr {e}, ptr {name}, i64 %at{k}")
    arguments = ", ".join(f"ptr %p{k}" for k in range(len(names)))
    lines += [
        f"  %wrong = call i64 @block_body({arguments})",
        "  %bad1 = or i64 %bad, %wrong",
        "  %b1 = add i64 %b, 1",
        "  %more = icmp ult i64 %b1, %blocks",
        "  br i1 %more, label %loop, label %after",
        "after:",
        "  %bad2 = phi i64 [0, %entry], [%bad1, %loop]",
        "  %left = icmp ne i64 %rest, 0",
        "  br i1 %left, label %some, label %done",
    ]
    lines += _padded_rest(names, sizes, n_in, target) if padded else _rest_by_row(names, sizes, e)
    lines += ["done:", "  ret i64 %bad2", "}"]
    one = ", ".join(f"ptr {x}" for x in names)
    lines += [
        "",
        f"define i64 @one({one}) nounwind {{",
        f"  %bad = call i64 @one_body({one})",
        "  ret i64 %bad",
        "}",
    ]
    return "\n".join(lines)


def _rest_by_row(names: list[str], sizes: list[int], e: str) -> list[str]:
    """The rows after the last whole block, one after the other."""
    lines = [
        "some:",
        "  %start = sub i64 %n, %rest",
        "  br label %single",
        "single:",
        "  %i = phi i64 [%start, %some], [%i1, %single]",
        "  %bad3 = phi i64 [%bad2, %some], [%bad4, %single]",
    ]
    for k, (name, s) in enumerate(zip(names, sizes, strict=True)):
        lines += [f"  %skip{k} = mul i64 %i, {s}", f"  %only{k} = getelementptr {e}, ptr {name}, i64 %skip{k}"]
    return [
        *lines,
        f"  %wrong1 = call i64 @one_body({', '.join(f'ptr %only{k}' for k in range(len(names)))})",
        "  %bad4 = or i64 %bad3, %wrong1",
        "  %i1 = add i64 %i, 1",
        "  %again = icmp ult i64 %i1, %n",
        "  br i1 %again, label %single, label %last",
        "last:",
        "  ret i64 %bad4",
    ]


def _padded_rest(names: list[str], sizes: list[int], n_in: int, target: Target) -> list[str]:
    """The rows after the last whole block as a block of their own in scratch memory; one alone in place."""
    W, e = target.lanes, target.element
    size = BYTES[e]
    lines = [
        "some:",
        "  %lone = icmp eq i64 %rest, 1",
        "  br i1 %lone, label %last_one, label %tail",
        "last_one:",
        "  %final = sub i64 %n, 1",
    ]
    for k, (name, s) in enumerate(zip(names, sizes, strict=True)):
        lines.append(f"  %place{k} = mul i64 %final, {s}")
        lines.append(f"  %only{k} = getelementptr {e}, ptr {name}, i64 %place{k}")
    arguments = ", ".join(f"ptr %only{k}" for k in range(len(names)))
    lines += [
        f"  %wrong1 = call i64 @one_body({arguments})",
        "  %bad4 = or i64 %bad2, %wrong1",
        "  ret i64 %bad4",
        "tail:",
        "  %start = sub i64 %n, %rest",
    ]
    for k in range(n_in):
        s = sizes[k]
        lines += [
            f"  %first{k} = mul i64 %start, {s}",
            f"  %from{k} = getelementptr {e}, ptr %in{k}, i64 %first{k}",
            f"  %bytes{k} = mul i64 %rest, {s * size}",
            f"  call void @llvm.memcpy.p0.p0.i64(ptr %pad{k}, ptr %from{k}, i64 %bytes{k}, i1 false)",
        ]
    lines += ["  br label %fill", "fill:", "  %r = phi i64 [%rest, %tail], [%r1, %fill]"]
    for k in range(n_in):  # the rows after the last repeat the first of the tail
        s = sizes[k]
        lines += [
            f"  %skip{k} = mul i64 %r, {s}",
            f"  %to{k} = getelementptr {e}, ptr %pad{k}, i64 %skip{k}",
            f"  call void @llvm.memcpy.p0.p0.i64(ptr %to{k}, ptr %pad{k}, i64 {s * size}, i1 false)",
        ]
    arguments = ", ".join(f"ptr %pad{k}" for k in range(len(names)))
    lines += [
        "  %r1 = add i64 %r, 1",
        f"  %full = icmp uge i64 %r1, {W}",
        "  br i1 %full, label %last, label %fill",
        "last:",
        f"  %wrong2 = call i64 @block_body({arguments})",
        "  %bad3 = or i64 %bad2, %wrong2",
    ]
    for k in range(n_in, len(names)):
        s = sizes[k]
        lines += [
            f"  %first{k} = mul i64 %start, {s}",
            f"  %from{k} = getelementptr {e}, ptr {names[k]}, i64 %first{k}",
            f"  %bytes{k} = mul i64 %rest, {s * size}",
            f"  call void @llvm.memcpy.p0.p0.i64(ptr %from{k}, ptr %pad{k}, i64 %bytes{k}, i1 false)",
        ]
    return [*lines, "  ret i64 %bad3"]


#: What `call` finds in its table of addresses.
CONTEXT: Final = (
    "ndarray",
    "descr",
    "PyArray_New",
    "PyObject_Vectorcall",
    "Py_DecRef",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
)
#: Batches from this size on let other Python threads run meanwhile.
GIL_ROWS: Final = 64


def _call(program: Program, target: Target) -> str:
    """``call(self, args, nargs, kwnames)``: the quick path of a Python call, all else is left to `self`.

    Quick are exactly as many positional arguments as there are inputs, all of them C-contiguous, aligned arrays of the
    element type and of shape (size,), or all (n, size).  The result is a new array.  Offsets are those of
    ``PyArrayObject_fields``; they are tested before this code is used.
    """
    n_in = len(program.inputs)
    shape = program.outputs[0][1]
    context = f"[{len(CONTEXT)} x ptr]"

    def entry(name: str) -> str:
        return f"getelementptr ({context}, ptr @context, i64 0, i64 {CONTEXT.index(name)})"

    lines = [
        f"@context = global {context} zeroinitializer, align 8",
        "",
        "define ptr @call(ptr %self, ptr %args, i64 %nargs, ptr %kwnames) nounwind {",
        "entry:",
        f"  %dims = alloca [{len(shape) + 1} x i64], align 8",
        f"  %right = icmp eq i64 %nargs, {n_in}",
        "  %plain = icmp eq ptr %kwnames, null",
        "  %go = and i1 %right, %plain",
        "  br i1 %go, label %a0, label %slow",
    ]
    for k, (_, size) in enumerate(program.inputs):
        lines += [
            f"a{k}:",
            f"  %slot{k} = getelementptr ptr, ptr %args, i64 {k}",
            f"  %arg{k} = load ptr, ptr %slot{k}, align 8",
            f"  %typeat{k} = getelementptr i8, ptr %arg{k}, i64 8",
            f"  %type{k} = load ptr, ptr %typeat{k}, align 8",
            f"  %ndarray{k} = load ptr, ptr {entry('ndarray')}, align 8",
            f"  %isarray{k} = icmp eq ptr %type{k}, %ndarray{k}",
            f"  br i1 %isarray{k}, label %b{k}, label %slow",
            f"b{k}:",
            f"  %ndat{k} = getelementptr i8, ptr %arg{k}, i64 24",
            f"  %nd{k} = load i32, ptr %ndat{k}, align 4",
            f"  %descrat{k} = getelementptr i8, ptr %arg{k}, i64 56",
            f"  %descr{k} = load ptr, ptr %descrat{k}, align 8",
            f"  %wanted{k} = load ptr, ptr {entry('descr')}, align 8",
            f"  %isdescr{k} = icmp eq ptr %descr{k}, %wanted{k}",
            f"  %flagsat{k} = getelementptr i8, ptr %arg{k}, i64 64",
            f"  %flags{k} = load i32, ptr %flagsat{k}, align 4",
            f"  %masked{k} = and i32 %flags{k}, 257",  # C_CONTIGUOUS | ALIGNED
            f"  %isflat{k} = icmp eq i32 %masked{k}, 257",
            f"  %shaped{k} = icmp eq i32 %nd{k}, " + ("%ndim" if k else "1"),
        ]
        if k == 0:
            lines += [
                "  %two = icmp eq i32 %nd0, 2",
                "  %either = or i1 %shaped0, %two",
                "  %ndim = select i1 %two, i32 2, i32 1",
            ]
        lines += [
            f"  %ok{k} = and i1 %isdescr{k}, %isflat{k}",
            f"  %fine{k} = and i1 %ok{k}, " + (f"%shaped{k}" if k else "%either"),
            f"  br i1 %fine{k}, label %c{k}, label %slow",
            f"c{k}:",
            f"  %dimsat{k} = getelementptr i8, ptr %arg{k}, i64 32",
            f"  %dim{k} = load ptr, ptr %dimsat{k}, align 8",
            f"  %lastat{k} = getelementptr i64, ptr %dim{k}, i64 " + ("%back" if k else "%back0"),
            f"  %last{k} = load i64, ptr %lastat{k}, align 8",
            f"  %fits{k} = icmp eq i64 %last{k}, {size}",
            f"  %rowsraw{k} = load i64, ptr %dim{k}, align 8",
        ]
        if k == 0:
            at = lines.index(f"  %lastat{k} = getelementptr i64, ptr %dim{k}, i64 %back0")
            lines.insert(at, "  %back0 = zext i1 %two to i64")
            lines += ["  %rows = select i1 %two, i64 %rowsraw0, i64 1", "  %back = zext i1 %two to i64"]
            lines += ["  %some = icmp sgt i64 %rows, 0", "  %good0 = and i1 %fits0, %some"]
        else:
            lines += [
                f"  %mine{k} = select i1 %two, i64 %rowsraw{k}, i64 1",
                f"  %same{k} = icmp eq i64 %mine{k}, %rows",
                f"  %good{k} = and i1 %fits{k}, %same{k}",
            ]
        following = f"a{k + 1}" if k + 1 < n_in else "ready"
        lines.append(f"  br i1 %good{k}, label %{following}, label %slow")
    lines += ["ready:"]
    for k in range(n_in):
        lines += [
            f"  %dataat{k} = getelementptr i8, ptr %arg{k}, i64 16",
            f"  %data{k} = load ptr, ptr %dataat{k}, align 8",
        ]
    lines += ["  store i64 %rows, ptr %dims, align 8"]
    for j, extent in enumerate(shape, start=1):
        lines += [
            f"  %extent{j} = getelementptr i64, ptr %dims, i64 {j}",
            f"  store i64 {extent}, ptr %extent{j}, align 8",
        ]
    number = 12 if target.element == "double" else 11
    rank = len(shape)
    single_call = ", ".join([*(f"ptr %data{k}" for k in range(n_in)), "ptr %out"])
    lines += [
        "  %onestate = getelementptr i64, ptr %dims, i64 1",
        "  %shape = select i1 %two, ptr %dims, ptr %onestate",
        f"  %rank = select i1 %two, i32 {rank + 1}, i32 {rank}",
        f"  %create = load ptr, ptr {entry('PyArray_New')}, align 8",
        f"  %arraytype = load ptr, ptr {entry('ndarray')}, align 8",
        f"  %result = call ptr %create(ptr %arraytype, i32 %rank, ptr %shape, i32 {number}, ptr null, ptr null, "
        "i32 0, i32 0, ptr null)",
        "  %failed = icmp eq ptr %result, null",
        "  br i1 %failed, label %give, label %compute",
        "give:",
        "  ret ptr null",
        "compute:",
        "  %outat = getelementptr i8, ptr %result, i64 16",
        "  %out = load ptr, ptr %outat, align 8",
        "  br i1 %two, label %many, label %single",
        "single:",
        f"  %bad1 = call i64 @one_body({single_call})",
        "  br label %judge",
        "many:",
        f"  %big = icmp uge i64 %rows, {GIL_ROWS}",
        "  br i1 %big, label %release, label %hold",
        "hold:",
        f"  %bad2 = call i64 @batch(i64 %rows, {single_call})",
        "  br label %judge",
        "release:",
        f"  %save = load ptr, ptr {entry('PyEval_SaveThread')}, align 8",
        "  %state = call ptr %save()",
        f"  %bad3 = call i64 @batch(i64 %rows, {single_call})",
        f"  %restore = load ptr, ptr {entry('PyEval_RestoreThread')}, align 8",
        "  call void %restore(ptr %state)",
        "  br label %judge",
        "judge:",
        "  %bad = phi i64 [%bad1, %single], [%bad2, %hold], [%bad3, %release]",
        "  %wrong = icmp ne i64 %bad, 0",
        "  br i1 %wrong, label %drop, label %return",
        "return:",
        "  ret ptr %result",
        "drop:",
        f"  %decref = load ptr, ptr {entry('Py_DecRef')}, align 8",
        "  call void %decref(ptr %result)",
        "  br label %slow",
        "slow:",
        f"  %vectorcall = load ptr, ptr {entry('PyObject_Vectorcall')}, align 8",
        "  %answer = call ptr %vectorcall(ptr %self, ptr %args, i64 %nargs, ptr %kwnames)",
        "  ret ptr %answer",
        "}",
    ]
    return "\n".join(lines)
