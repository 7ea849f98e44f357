"""Calls of machine code from Python: builtin functions that read arrays, numbers and named tuples in memory.

The builtin functions read arrays as compiled extensions do, at the offsets of ``PyArrayObject_fields``, which NumPy's
binary interface fixes (its headers inline them into every extension).  The layout of a few arrays is verified first; if
it is not as expected, calls use `ctypes`.  Arguments that do not match exactly are passed to a Python function, which
converts them or raises a descriptive error.

All entries of a unit have the same code for calls from Python (`shared_text`), which reads arguments as described by
an array of 64-bit words for each kind (`describe_kind`) and each entry (`_call_plan`).  An entry therefore adds only
the machine code of one function that loads registers from memory, and records add none.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kinds import (
    BOOL,
    FLOAT,
    INT,
    NOTHING,
    ArrayKind,
    Kind,
    RecordKind,
    argument_types,
    field_offset,
    return_type,
    word_count,
)

#: NumPy flags that arguments must have: C-contiguous and aligned.
_READABLE = 0x101
#: Entries of the table of addresses in order: functions of Python's C API, ``None``, and the offset of the items in a
#: tuple object, which depends on the version of Python and is therefore not part of the machine code.
ADDRESSES = (
    "PyFloat_FromDouble", "PyLong_AsLongLong", "PyLong_FromLongLong", "PyErr_Occurred", "PyErr_Clear",
    "PyObject_IsTrue", "PyBool_FromLong", "PyEval_SaveThread", "PyEval_RestoreThread", "PyObject_Vectorcall",
    "Py_IncRef", "None", "items",
)  # fmt: skip
#: Name of the table.
TABLE = "python.table"
#: First words of descriptions of kinds: how an object of the kind is read.
_ARRAY, _FLOAT, _INT, _BOOL, _RECORD, _ADDRESS = range(6)
#: Last words of the first part of a call plan, by the kind of the result.
_RESULTS: dict[Kind, int] = {NOTHING: 0, FLOAT: 1, INT: 2, BOOL: 3}


def shared_text() -> str:
    """Returns the LLVM IR of the calls from Python, common to all entries of a unit.

    ``i1 read(ptr object, ptr description, ptr to)`` stores the registers of an object, and returns whether the object
    is of the described kind.  ``PyObject *call(self, args, nargs)`` calls an entry; `self` is a tuple of the function
    that is called for arguments that do not match, and of the call plan.
    """
    text = _SHARED
    for name in ADDRESSES:
        slot = f"getelementptr ([{len(ADDRESSES)} x ptr], ptr @{TABLE}, i64 0, i64 {ADDRESSES.index(name)})"
        text = text.replace(f"<{name}>", f"load ptr, ptr {slot}, align 8")
    return f"@{TABLE} = global [{len(ADDRESSES)} x ptr] zeroinitializer, align 8\n{text}"


_SHARED = f"""
define internal i1 @python.read(ptr %x, ptr %kind, ptr %to) noinline nounwind {{
entry:
  %type.at = getelementptr i8, ptr %x, i64 8
  %type = load ptr, ptr %type.at, align 8
  %class.at = getelementptr i64, ptr %kind, i64 1
  %class = load ptr, ptr %class.at, align 8
  %is_instance = icmp eq ptr %type, %class
  br i1 %is_instance, label %select, label %wrong
select:
  %how = load i64, ptr %kind, align 8
  %first.at = getelementptr i64, ptr %kind, i64 2
  %second.at = getelementptr i64, ptr %kind, i64 3
  switch i64 %how, label %array [
    i64 {_FLOAT}, label %float
    i64 {_INT}, label %int
    i64 {_BOOL}, label %bool
    i64 {_RECORD}, label %record
    i64 {_ADDRESS}, label %address
  ]
array:
  %dtype.at = getelementptr i8, ptr %x, i64 56
  %dtype = load ptr, ptr %dtype.at, align 8
  %wanted_dtype = load ptr, ptr %first.at, align 8
  %has_dtype = icmp eq ptr %dtype, %wanted_dtype
  %ndim.at = getelementptr i8, ptr %x, i64 24
  %ndim32 = load i32, ptr %ndim.at, align 4
  %ndim = zext i32 %ndim32 to i64
  %rank = load i64, ptr %second.at, align 8
  %has_rank = icmp eq i64 %ndim, %rank
  %flags.at = getelementptr i8, ptr %x, i64 64
  %flags = load i32, ptr %flags.at, align 4
  %readable = and i32 %flags, {_READABLE}
  %is_plain = icmp eq i32 %readable, {_READABLE}
  %has_type = and i1 %has_dtype, %has_rank
  %fits = and i1 %has_type, %is_plain
  br i1 %fits, label %data, label %wrong
data:
  %data.at = getelementptr i8, ptr %x, i64 16
  %data.address = load ptr, ptr %data.at, align 8
  store ptr %data.address, ptr %to, align 8
  %shape.at = getelementptr i8, ptr %x, i64 32
  %shape = load ptr, ptr %shape.at, align 8
  br label %sizes
sizes:
  %k = phi i64 [0, %data], [%next, %size]
  %has_more = icmp ult i64 %k, %rank
  br i1 %has_more, label %size, label %right
size:
  %extent.at = getelementptr i64, ptr %shape, i64 %k
  %extent = load i64, ptr %extent.at, align 8
  %next = add i64 %k, 1
  %size.at = getelementptr i64, ptr %to, i64 %next
  store i64 %extent, ptr %size.at, align 8
  br label %sizes
float:
  %float.at = getelementptr i8, ptr %x, i64 16
  %float.value = load double, ptr %float.at, align 8
  store double %float.value, ptr %to, align 8
  br label %right
int:
  %as_int = <PyLong_AsLongLong>
  %int.value = call i64 %as_int(ptr %x)
  store i64 %int.value, ptr %to, align 8
  %may_overflow = icmp eq i64 %int.value, -1
  br i1 %may_overflow, label %overflow, label %right
overflow:
  %get_error = <PyErr_Occurred>
  %error = call ptr %get_error()
  %is_exact = icmp eq ptr %error, null
  br i1 %is_exact, label %right, label %clear
clear:
  %clear_error = <PyErr_Clear>
  call void %clear_error()
  br label %wrong
bool:
  %is_true = <PyObject_IsTrue>
  %truth32 = call i32 %is_true(ptr %x)
  %truth = zext i32 %truth32 to i64
  store i64 %truth, ptr %to, align 8
  br label %right
record:
  %start = <items>
  %start.offset = ptrtoint ptr %start to i64
  %items = getelementptr i8, ptr %x, i64 %start.offset
  %count = load i64, ptr %first.at, align 8
  %are_fields = call i1 @python.read_all(ptr %items, i64 %count, ptr %second.at, ptr %to)
  ret i1 %are_fields
address:
  %distance = load i64, ptr %second.at, align 8
  %words = getelementptr i64, ptr %to, i64 %distance
  store ptr %words, ptr %to, align 8
  %described = load ptr, ptr %first.at, align 8
  %is_record = call i1 @python.read(ptr %x, ptr %described, ptr %words)
  ret i1 %is_record
right:
  ret i1 true
wrong:
  ret i1 false
}}

define internal i1 @python.read_all(ptr %items, i64 %count, ptr %fields, ptr %to) noinline nounwind {{
entry:
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%next, %good]
  %has_more = icmp ult i64 %k, %count
  br i1 %has_more, label %field, label %right
field:
  %item.at = getelementptr ptr, ptr %items, i64 %k
  %item = load ptr, ptr %item.at, align 8
  %field.at = getelementptr [2 x i64], ptr %fields, i64 %k
  %kind = load ptr, ptr %field.at, align 8
  %offset.at = getelementptr i64, ptr %field.at, i64 1
  %offset = load i64, ptr %offset.at, align 8
  %target = getelementptr i64, ptr %to, i64 %offset
  %is_kind = call i1 @python.read(ptr %item, ptr %kind, ptr %target)
  %next = add i64 %k, 1
  br i1 %is_kind, label %good, label %wrong
good:
  br label %loop
right:
  ret i1 true
wrong:
  ret i1 false
}}

define ptr @python.call(ptr %self, ptr %args, i64 %nargs) nounwind {{
entry:
  %start = <items>
  %start.offset = ptrtoint ptr %start to i64
  %items = getelementptr i8, ptr %self, i64 %start.offset
  %holder = load ptr, ptr %items, align 8
  %array.at = getelementptr ptr, ptr %items, i64 1
  %array = load ptr, ptr %array.at, align 8
  %plan.at = getelementptr i8, ptr %array, i64 16
  %plan = load ptr, ptr %plan.at, align 8
  %count = load i64, ptr %plan, align 8
  %has_all = icmp eq i64 %nargs, %count
  br i1 %has_all, label %prepare, label %slow
prepare:
  %size.at = getelementptr i64, ptr %plan, i64 1
  %size = load i64, ptr %size.at, align 8
  %preset_count.at = getelementptr i64, ptr %plan, i64 2
  %preset_count = load i64, ptr %preset_count.at, align 8
  %code.at = getelementptr i64, ptr %plan, i64 3
  %code = load ptr, ptr %code.at, align 8
  %release.at = getelementptr i64, ptr %plan, i64 4
  %release = load i64, ptr %release.at, align 8
  %result_kind.at = getelementptr i64, ptr %plan, i64 5
  %result_kind = load i64, ptr %result_kind.at, align 8
  %preset = getelementptr i64, ptr %plan, i64 6
  %fields = getelementptr i64, ptr %preset, i64 %preset_count
  %result = alloca i64, align 8
  %frame = alloca i64, i64 %size, align 8
  br label %copy
copy:
  %k = phi i64 [0, %prepare], [%next, %word]
  %has_more = icmp ult i64 %k, %preset_count
  br i1 %has_more, label %word, label %read
word:
  %from.at = getelementptr i64, ptr %preset, i64 %k
  %from = load i64, ptr %from.at, align 8
  %to.at = getelementptr i64, ptr %frame, i64 %k
  store i64 %from, ptr %to.at, align 8
  %next = add i64 %k, 1
  br label %copy
read:
  %match = call i1 @python.read_all(ptr %args, i64 %count, ptr %fields, ptr %frame)
  br i1 %match, label %start_call, label %slow
start_call:
  %is_released = icmp ne i64 %release, 0
  br i1 %is_released, label %call_without_lock, label %call_with_lock
call_with_lock:
  call void %code(ptr %frame, ptr %result)
  br label %convert
call_without_lock:
  %save_thread = <PyEval_SaveThread>
  %thread_state = call ptr %save_thread()
  call void %code(ptr %frame, ptr %result)
  %restore_thread = <PyEval_RestoreThread>
  call void %restore_thread(ptr %thread_state)
  br label %convert
convert:
  switch i64 %result_kind, label %nothing [
    i64 {_RESULTS[FLOAT]}, label %float
    i64 {_RESULTS[INT]}, label %int
    i64 {_RESULTS[BOOL]}, label %bool
  ]
nothing:
  %none = <None>
  %add_reference = <Py_IncRef>
  call void %add_reference(ptr %none)
  ret ptr %none
float:
  %make_float = <PyFloat_FromDouble>
  %float.value = load double, ptr %result, align 8
  %float.object = call ptr %make_float(double %float.value)
  ret ptr %float.object
int:
  %make_int = <PyLong_FromLongLong>
  %int.value = load i64, ptr %result, align 8
  %int.object = call ptr %make_int(i64 %int.value)
  ret ptr %int.object
bool:
  %make_bool = <PyBool_FromLong>
  %bool.value = load i64, ptr %result, align 8
  %bool.object = call ptr %make_bool(i64 %bool.value)
  ret ptr %bool.object
slow:
  %vectorcall = <PyObject_Vectorcall>
  %answer = call ptr %vectorcall(ptr %holder, ptr %args, i64 %nargs, ptr null)
  ret ptr %answer
}}
"""


@dataclass(frozen=True, slots=True)
class EntryWrapper:
    """Properties of an entry that calls from Python need.

    Attributes:
        name: name of the entry.
        symbol: symbol of the compiled function.
        parameters: (name, kind) of each parameter.
        returns: kind of the result: float, int, bool or nothing.
        release: whether to release the global interpreter lock during the call.
    """

    name: str
    symbol: str
    parameters: Sequence[tuple[str, Kind]]
    returns: Kind
    release: bool

    def text(self) -> str:
        """Returns the LLVM IR of ``void direct(ptr registers, ptr result)``, which calls the compiled function.

        Every register is a word of 64 bits; records are passed by address.
        """
        types = [t for _, kind in self.parameters for t in argument_types(kind)]
        lines = [f"define void @{self.symbol}.direct(ptr %in, ptr %out) nounwind {{"]
        for k, t in enumerate(types):
            lines += [
                f"  %at{k} = getelementptr i64, ptr %in, i64 {k}",
                f"  %x{k} = load {'i64' if t == 'i1' else t}, ptr %at{k}, align 8",
            ]
            if t == "i1":
                lines.append(f"  %b{k} = trunc i64 %x{k} to i1")
        t = return_type(self.returns)
        given = ", ".join(f"{t} %{'b' if t == 'i1' else 'x'}{k}" for k, t in enumerate(types))
        lines.append(f"  {'' if t == 'void' else '%y = '}call {t} @{self.symbol}({given})")
        if t == "i1":
            lines.append("  %word = zext i1 %y to i64")
        if t != "void":
            lines.append(f"  store {'i64 %word' if t == 'i1' else f'{t} %y'}, ptr %out, align 8")
        return "\n".join([*lines, "  ret void", "}"])


@cache
def describe_kind(kind: Kind) -> NDArray[np.int64]:
    """Returns the words by which machine code reads a kind: the way to read it, the class of its objects, and details.

    The details of an array are its element type and number of axes, those of a record the number of its fields, and
    description and offset [words] of each.
    """
    if isinstance(kind, ArrayKind):
        return np.array([_ARRAY, id(np.ndarray), id(kind.dtype), kind.rank], dtype=np.int64)
    if isinstance(kind, RecordKind):
        fields = [
            word
            for k, (_, field) in enumerate(kind.fields)
            for word in (_address(describe_kind(field)), field_offset(kind, k))
        ]
        return np.array([_RECORD, id(kind.cls), len(kind.fields), *fields], dtype=np.int64)
    readers: dict[Kind, tuple[int, type]] = {FLOAT: (_FLOAT, float), INT: (_INT, int), BOOL: (_BOOL, bool)}
    how, cls = readers[kind]
    return np.array([how, id(cls)], dtype=np.int64)


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _call_plan(engine: Any, wrapper: EntryWrapper, bound: dict[int, int]) -> tuple[NDArray[np.int64], list[Any]]:
    """Returns the words with which machine code calls an entry, and the arrays to which they refer.

    The words are the number of arguments, the number of words of the frame, the number of preset registers, the address
    of the code, whether the interpreter lock is released, and the kind of the result; then the preset registers, and
    description and offset of each argument in the frame.  The frame holds all registers, and then the words of records
    that are passed.

    Args:
        engine: owner of the code.
        wrapper: the entry.
        bound: address of the words of each bound record by the position of its parameter.
    """
    register, size = 0, sum(len(argument_types(kind)) for _, kind in wrapper.parameters)
    preset = [0] * size if bound else []
    fields: list[int] = []
    held: list[Any] = []
    for k, (_, kind) in enumerate(wrapper.parameters):
        if k in bound:
            preset[register] = bound[k]
        else:
            how = describe_kind(kind)
            if isinstance(kind, RecordKind):
                how = np.array([_ADDRESS, id(kind.cls), _address(how), size - register], dtype=np.int64)
                held.append(how)
                size += word_count(kind)
            fields += (_address(how), register)
        register += len(argument_types(kind))
    code = engine.get_function_address(f"{wrapper.symbol}.direct")
    head = [len(fields) // 2, size, len(preset), code, int(wrapper.release), _RESULTS[wrapper.returns]]
    return np.array([*head, *preset, *fields], dtype=np.int64), held


_METH_FASTCALL = 0x80


@cache
def _items_offset() -> int:
    """Returns the offset of the items in a tuple object [bytes]."""
    marks = (object(), object())
    for offset in (24, 32):
        if ctypes.c_int64.from_address(id(marks) + offset).value == id(marks[0]):
            return offset
    return 24


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("method", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@cache
def _method(name: str, address: int, flags: int, doc: str) -> _MethodDef:
    """Returns the method definition of builtin functions with the same code.

    It is never freed: builtin functions refer to its memory until the end of the process, when modules and this cache
    have been cleared already, and the garbage collector still reads its flags.
    """
    method = _MethodDef(name.encode(), address, flags, doc.encode())
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    return method


def builtin(name: str, address: int, holder: Any, flags: int, doc: str) -> Callable[..., Any]:
    """Returns a builtin function that runs machine code.

    Args:
        name: name of the function.
        address: address of the code.
        holder: object passed to the code as `self`; kept alive by the function.
        flags: calling convention (``METH_...``).
        doc: docstring.
    """
    method = _method(name, address, flags, doc)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    out: Callable[..., Any] = make(ctypes.addressof(method), holder, None)
    return out


def has_expected_headers() -> bool:
    """Returns whether this is a 64-bit CPython with the object header that the machine code expects."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    return not hasattr(sys, "gettotalrefcount") and bool(getattr(sys, "_is_gil_enabled", lambda: True)())


@cache
def has_expected_layout() -> bool:
    """Returns whether floats, tuples and arrays have the memory layout that the machine code expects."""
    if not has_expected_headers():
        return False
    word = ctypes.c_int64.from_address
    number, marks = 1.5, (object(), object())
    return (
        all(has_expected_array_layout(np.dtype(t)) for t in (np.float64, np.int64, np.int8))
        and word(id(number) + 8).value == id(float)
        and ctypes.c_double.from_address(id(number) + 16).value == number
        and word(id(marks) + _items_offset() + 8).value == id(marks[1])
    )


def has_expected_array_layout(dtype: np.dtype[Any]) -> bool:
    """Returns whether the fields of an array object are at the offsets that the machine code reads."""
    for shape in ((3,), (4, 5)):
        x = np.zeros(shape, dtype=dtype)
        at = id(x)
        word = ctypes.c_int64.from_address
        interface = x.__array_interface__
        dims = word(at + 32).value
        if (
            word(at + 8).value != id(np.ndarray)
            or word(at + 16).value != interface["data"][0]
            or ctypes.c_int32.from_address(at + 24).value != x.ndim
            or tuple(word(dims + 8 * k).value for k in range(x.ndim)) != shape
            or word(at + 56).value != id(np.dtype(dtype))
            or ctypes.c_int32.from_address(at + 64).value & 0x501 != 0x501
        ):
            return False
        frozen = x[::2] if x.ndim == 1 else x.T
        frozen.flags.writeable = False
        if ctypes.c_int32.from_address(id(frozen) + 64).value & 0x501 != 0x100:
            return False
    return True


def make_builtin(
    engine: Any, wrapper: EntryWrapper, holder: Callable[..., Any], records: Sequence[object] = ()
) -> Callable[..., Any]:
    """Returns a compiled entry as a builtin function; calls with arguments of other types go to `holder`.

    Args:
        engine: owner of the code.
        wrapper: the entry.
        holder: the function that is called for arguments of other types.
        records: all records that the entry takes, if these are bound.  Their arrays are read once, here, and the
            function takes the other arguments only.  It keeps references to the arrays, so that NumPy does not
            resize them in place.
    """
    words: list[int] = [function_address(name) for name in ADDRESSES[:-2]]
    write_address_table(engine.get_global_value_address(TABLE), [*words, id(None), _items_offset()])
    parameters = [(k, kind) for k, (_, kind) in enumerate(wrapper.parameters) if isinstance(kind, RecordKind)]
    blocks = {
        k: np.array(registers(record, kind), dtype=np.int64)
        for record, (k, kind) in zip(records, parameters, strict=False)
    }
    plan, held = _call_plan(engine, wrapper, {k: _address(block) for k, block in blocks.items()})
    holders = (holder, plan, *held, *blocks.values(), *records, *flatten_records(records))
    address = engine.get_function_address("python.call")
    return builtin(wrapper.name, address, holders, _METH_FASTCALL, holder.__doc__ or "")


def flatten_records(records: Sequence[object]) -> list[object]:
    """Returns all values of records, those of nested records included."""
    return [x for each in records for x in (flatten_records(each) if isinstance(each, tuple) else [each])]


def function_address(name: str) -> int:
    """Returns the address of a function of Python's C API."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def write_address_table(table: int, words: Sequence[int]) -> None:
    """Writes addresses to the table that machine code reads."""
    slots = (ctypes.c_void_p * len(words)).from_address(table)
    for k, word in enumerate(words):
        slots[k] = word


def registers(value: object, kind: Kind) -> list[int]:
    """Returns the registers of a value as 64-bit ints."""
    if isinstance(kind, ArrayKind):
        assert isinstance(value, np.ndarray)
        return [value.__array_interface__["data"][0], *value.shape]
    if isinstance(kind, RecordKind):
        assert isinstance(value, tuple)
        return [r for x, (_, k) in zip(value, kind.fields, strict=True) for r in registers(x, k)]
    if kind == FLOAT:
        return [int(np.float64(value).view(np.int64))]  # type: ignore[arg-type]
    return [int(value)]  # type: ignore[call-overload]


def make_ctypes_call(engine: Any, wrapper: EntryWrapper) -> Callable[..., Any]:
    """Returns a function that calls a linked entry through `ctypes`."""
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        engine.get_function_address(f"{wrapper.symbol}.direct")
    )

    def call(*arguments: object) -> Any:
        given: list[int] = []
        blocks = []
        for x, (_, kind) in zip(arguments, wrapper.parameters, strict=True):
            found = registers(x, kind)
            if isinstance(kind, RecordKind):  # handed over by its address
                blocks.append((ctypes.c_int64 * len(found))(*found))
                found = [ctypes.addressof(blocks[-1])]
            given += found
        block, out = (ctypes.c_int64 * max(1, len(given)))(*given), ctypes.c_int64(0)
        run(ctypes.addressof(block), ctypes.addressof(out))
        if wrapper.returns == FLOAT:
            return ctypes.c_double.from_buffer(out).value
        return out.value if wrapper.returns == INT else bool(out.value) if wrapper.returns == BOOL else None

    return call
