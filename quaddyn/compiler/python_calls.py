"""Calls of machine code from Python: builtin functions that read arrays, numbers and named tuples in memory.

The builtin functions (see `EntryWrapper`) read arrays as compiled extensions do.  The layout of a few arrays is
verified first; if it is not as expected, calls use `ctypes`.  Arguments that do not match exactly are passed to a
Python function, which converts them or raises a descriptive error.

Arrays are read as compiled extensions read them, at the offsets of ``PyArrayObject_fields``, which NumPy's binary
interface fixes (its headers inline them into every extension).  A record may contain hundreds of arrays: each class of
records, and each kind of array in them, is read by a separate function, which returns whether the object matches.  All
entries of a unit use the same reader functions and the same table of addresses.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from .kinds import BOOL, FLOAT, INT, NOTHING, ArrayKind, Kind, RecordKind, argument_types, return_type, word_count

#: NumPy flags that arguments must have: C-contiguous and aligned.
_READABLE = 0x101
#: Entries of the table of addresses in order: functions of Python's C API, Python objects, and numbers.
FUNCTIONS = (
    "PyFloat_AsDouble", "PyFloat_FromDouble", "PyLong_AsLongLong", "PyLong_FromLongLong", "PyErr_Occurred",
    "PyErr_Clear", "PyObject_IsTrue", "PyBool_FromLong", "PyEval_SaveThread", "PyEval_RestoreThread",
    "PyObject_Vectorcall", "Py_IncRef",
)  # fmt: skip
OBJECTS = ("ndarray", "float", "int", "byte", "None", "PyFloat", "PyLong", "PyBool")
#: Name of the table.
TABLE = "python.table"
#: Offset of the items in a tuple object, which depends on the version of Python; in the table, code fits all versions.
NUMBERS = ("items",)


class EntryWrapper:
    """Writer of the LLVM IR of one entry: the call from Python, the same with bound records, and a call with registers.

    Args:
        name: name of the entry.
        symbol: symbol of the compiled function.
        parameters: (name, kind) of each parameter.
        returns: kind of the result: float, int, bool or nothing.
        release: whether to release the global interpreter lock during the call.
        records: kinds of all records that the entries of the unit take (see `collect_records`).
    """

    def __init__(
        self,
        name: str,
        symbol: str,
        parameters: Sequence[tuple[str, Kind]],
        returns: Kind,
        *,
        release: bool,
        records: Sequence[RecordKind],
    ) -> None:
        self.name, self.symbol, self.parameters, self.returns, self.release = name, symbol, parameters, returns, release
        self.lines: list[str] = []
        self.count = 0
        self.records = records
        self.classes = [kind.cls for kind in records]

    @property
    def table(self) -> str:
        """LLVM type of the table of addresses."""
        return f"[{len(self._names())} x ptr]"

    def text(self) -> str:
        """Returns the LLVM IR of this entry's functions."""
        self.lines = []
        self._write_direct_call()
        self._write_python_call(bound=False)
        if any(isinstance(kind, RecordKind) for _, kind in self.parameters):
            self._write_python_call(bound=True)
        return "\n".join(self.lines)

    def shared_text(self) -> str:
        """Returns the LLVM IR common to all entries of the unit: table of addresses, readers of records and arrays."""
        self.lines = [f"@{TABLE} = global {self.table} zeroinitializer, align 8"]
        fields = [field for record in self.records for _, field in record.fields]
        for kind in dict.fromkeys(field for field in fields if isinstance(field, ArrayKind)):
            self._write_reader(kind)
        for record in self.records:
            self._write_reader(record)
        return "\n".join(self.lines)

    # -- registers from memory ---------------------------------------------------------------------------------
    def _write_direct_call(self) -> None:
        """Writes ``void name.direct(ptr registers, ptr result)``: every register is a word, records are addresses."""
        self.count = 0
        self.lines += [f"define void @{self.symbol}.direct(ptr %in, ptr %out) nounwind {{"]
        given, at = [], 0
        for _, kind in self.parameters:
            for t in argument_types(kind):
                x = self._load("i64" if t == "i1" else t, "%in", 8 * at)
                given.append(f"{t} {self._instruction(f'trunc i64 {x} to i1') if t == 'i1' else x}")
                at += 1
        x, t = self._call(given), return_type(self.returns)
        if x:
            word = self._instruction(f"zext i1 {x} to i64") if t == "i1" else x
            self._line(f"store {'i64' if t == 'i1' else t} {word}, ptr %out")
        self.lines += ["  ret void", "}"]

    def _call(self, given: Sequence[str]) -> str:
        text = f"call {return_type(self.returns)} @{self.symbol}({', '.join(given)})"
        if self.returns == NOTHING:
            self._line(text)
            return ""
        return self._instruction(text)

    # -- from Python -------------------------------------------------------------------------------------------
    def _write_python_call(self, *, bound: bool) -> None:
        """Writes ``PyObject *name.python(self, args, nargs)``, where `self` is called for arguments that do not match.

        If `bound`, `self` is a tuple of that callable and an array with the registers of all records, and only the
        other arguments are passed.
        """
        self.count = 0
        passed_kinds = [kind for _, kind in self.parameters if not (bound and isinstance(kind, RecordKind))]
        self.lines += [
            f"define ptr @{self.symbol}.{'bound' if bound else 'python'}(ptr %self, ptr %args, i64 %nargs) nounwind {{",
            "entry:",
        ]
        holder, block = "%self", ""
        if bound:
            items = self._items("%self")
            holder, block = self._load("ptr", items, 0), self._load("ptr", self._load("ptr", items, 8), 16)
        self.lines += [
            f"  %right = icmp eq i64 %nargs, {len(passed_kinds)}",
            "  br i1 %right, label %go, label %slow",
            "go:",
        ]
        given: list[str] = []
        argument = word = 0
        for _, kind in self.parameters:
            if bound and isinstance(kind, RecordKind):
                given.append(f"ptr {self._instruction(f'getelementptr i8, ptr {block}, i64 {8 * word}')}")
                word += word_count(kind)
            else:
                given += self._argument_registers(self._load("ptr", "%args", 8 * argument), kind)
                argument += 1
        state = self._instruction(f"call ptr {self._address('PyEval_SaveThread')}()") if self.release else ""
        x = self._call(given)
        if self.release:
            self._line(f"call void {self._address('PyEval_RestoreThread')}(ptr {state})")
        match self.returns:
            case _ if self.returns == FLOAT:
                out = self._instruction(f"call ptr {self._address('PyFloat_FromDouble')}(double {x})")
            case _ if self.returns == INT:
                out = self._instruction(f"call ptr {self._address('PyLong_FromLongLong')}(i64 {x})")
            case _ if self.returns == BOOL:
                truth = self._instruction(f"zext i1 {x} to i64")
                out = self._instruction(f"call ptr {self._address('PyBool_FromLong')}(i64 {truth})")
            case _:
                out = self._address("None")
                self._line(f"call void {self._address('Py_IncRef')}(ptr {out})")
        self.lines += [
            f"  ret ptr {out}",
            *self._overflow_block(),
            "slow:",
            f"  %refuse = load ptr, ptr {self._slot('PyObject_Vectorcall')}, align 8",
            f"  %answer = call ptr %refuse(ptr {holder}, ptr %args, i64 %nargs, ptr null)",
            "  ret ptr %answer",
            "}",
        ]

    def _argument_registers(self, x: str, kind: Kind) -> list[str]:
        """Writes the conversion of a Python object and returns the registers in which it is passed to the function."""
        if not isinstance(kind, RecordKind):
            return self._read_value(x, kind)
        self.count += 1
        record = f"%r{self.count}"
        self._line(f"{record} = alloca [{word_count(kind)} x i64], align 8")
        self._store_object(x, kind, record)
        return [f"ptr {record}"]

    # -- contents of records ------------------------------------------------------------------------------------
    def _write_reader(self, kind: ArrayKind | RecordKind) -> None:
        """Writes ``i1 reads(ptr object, ptr words)``: whether an object is of this kind; stores its registers."""
        self.count = 0
        self.lines += [f"define internal i1 @{self._reader_name(kind)}(ptr %x, ptr %to) noinline nounwind {{", "entry:"]
        if isinstance(kind, RecordKind):
            self._require_identical(self._load("ptr", "%x", 8), kind.cls)
            items, at = self._items("%x"), 0
            for k, (_, field) in enumerate(kind.fields):
                self._store_object(self._load("ptr", items, 8 * k), field, self._word("%to", at))
                at += word_count(field)
        else:
            self._store(self._read_value("%x", kind), "%to")
        self.lines += ["  ret i1 true", *self._overflow_block(), "slow:", "  ret i1 false", "}"]

    def _reader_name(self, kind: ArrayKind | RecordKind) -> str:
        what = f"{kind.item}.{kind.rank}" if isinstance(kind, ArrayKind) else f"record.{self.classes.index(kind.cls)}"
        return f"python.reads.{what}"

    def _store_object(self, x: str, kind: Kind, to: str) -> None:
        """Writes code that stores the registers of an object in a record, or jumps to `slow` if it does not match."""
        if isinstance(kind, ArrayKind | RecordKind):
            self._require(self._instruction(f"call i1 @{self._reader_name(kind)}(ptr {x}, ptr {to})"))
        else:
            self._store(self._read_value(x, kind), to)

    def _store(self, registers: Sequence[str], to: str) -> None:
        for k, register in enumerate(registers):
            t, _, value = register.partition(" ")
            word = f"i64 {self._instruction(f'zext i1 {value} to i64')}" if t == "i1" else register
            self._line(f"store {word}, ptr {self._word(to, k)}, align 8")

    def _word(self, base: str, at: int) -> str:
        return self._instruction(f"getelementptr inbounds i8, ptr {base}, i64 {8 * at}") if at else base

    def _overflow_block(self) -> list[str]:
        """Returns the block that handles ints of more than 64 bits: it clears the error and jumps to `slow`."""
        return [
            "beyond:",
            f"  %clear = load ptr, ptr {self._slot('PyErr_Clear')}, align 8",
            "  call void %clear()",
            "  br label %slow",
        ]

    # -- one object --------------------------------------------------------------------------------------------

    def _read_value(self, x: str, kind: Kind) -> list[str]:
        """Writes code that reads an array or number, or jumps to `slow` if it does not match; returns its registers."""
        if isinstance(kind, ArrayKind):
            self._require_identical(self._load("ptr", x, 8), "ndarray")
            self._require_identical(self._load("ptr", x, 56), kind.item)
            rank = self._instruction(f"icmp eq i32 {self._load('i32', x, 24)}, {kind.rank}")
            flags = self._instruction(f"and i32 {self._load('i32', x, 64)}, {_READABLE}")
            plain = self._instruction(f"icmp eq i32 {flags}, {_READABLE}")
            self._require(self._instruction(f"and i1 {rank}, {plain}"))
            dims = self._load("ptr", x, 32)
            sizes = [f"i64 {self._load('i64', dims, 8 * k)}" for k in range(kind.rank)]
            return [f"ptr {self._load('ptr', x, 16)}", *sizes]
        if kind == FLOAT:
            self._require_identical(self._load("ptr", x, 8), "PyFloat")
            return [f"double {self._load('double', x, 16)}"]
        if kind == INT:
            self._require_identical(self._load("ptr", x, 8), "PyLong")
            value = self._instruction(f"call i64 {self._address('PyLong_AsLongLong')}(ptr {x})")
            self.count += 1
            n = self.count
            self._line(f"%m{n} = icmp eq i64 {value}, -1")
            self._line(f"br i1 %m{n}, label %w{n}, label %g{n}")
            self.lines.append(f"w{n}:")
            error = self._instruction(f"call ptr {self._address('PyErr_Occurred')}()")
            self._line(f"br i1 {self._instruction(f'icmp eq ptr {error}, null')}, label %g{n}, label %beyond")
            self.lines.append(f"g{n}:")
            return [f"i64 {value}"]
        self._require_identical(self._load("ptr", x, 8), "PyBool")
        truth = self._instruction(f"call i32 {self._address('PyObject_IsTrue')}(ptr {x})")
        return [f"i1 {self._instruction(f'trunc i32 {truth} to i1')}"]

    def _items(self, x: str) -> str:
        """Writes the address of the items of a tuple."""
        start = self._instruction(f"ptrtoint ptr {self._address('items')} to i64")
        return self._instruction(f"getelementptr i8, ptr {x}, i64 {start}")

    def _names(self) -> list[str | type]:
        """Returns the names of all entries of the table of addresses."""
        return [*FUNCTIONS, *OBJECTS, *NUMBERS, *self.classes]

    def _slot(self, name: str | type) -> str:
        return f"getelementptr ({self.table}, ptr @{TABLE}, i64 0, i64 {self._names().index(name)})"

    def _address(self, name: str | type) -> str:
        return self._instruction(f"load ptr, ptr {self._slot(name)}, align 8")

    def _require_identical(self, x: str, name: str | type) -> None:
        self._require(self._instruction(f"icmp eq ptr {x}, {self._address(name)}"))

    def _require(self, condition: str) -> None:
        self.count += 1
        self._line(f"br i1 {condition}, label %g{self.count}, label %slow")
        self.lines.append(f"g{self.count}:")

    def _load(self, kind: str, base: str, offset: int) -> str:
        at = self._instruction(f"getelementptr i8, ptr {base}, i64 {offset}") if offset else base
        return self._instruction(f"load {kind}, ptr {at}, align {4 if kind == 'i32' else 8}")

    def _instruction(self, text: str) -> str:
        self.count += 1
        self._line(f"%t{self.count} = {text}")
        return f"%t{self.count}"

    def _line(self, text: str) -> None:
        self.lines.append("  " + text)


def collect_records(kinds: Sequence[Kind]) -> list[RecordKind]:
    """Returns all record kinds among `kinds` and nested in them, each once."""
    out: dict[type, RecordKind] = {}
    for kind in kinds:
        if isinstance(kind, RecordKind):
            out[kind.cls] = kind
            for inner in collect_records([k for _, k in kind.fields]):
                out[inner.cls] = inner
    return list(out.values())


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


def make_builtin(engine: Any, wrapper: EntryWrapper, holder: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a compiled entry as a builtin function; calls with arguments of other types go to `holder`."""
    functions = [function_address(name) for name in FUNCTIONS]
    types = (np.ndarray, np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.int8), None, float, int, bool)
    words = [*functions, *map(id, types), _items_offset(), *map(id, wrapper.classes)]
    write_address_table(engine.get_global_value_address(TABLE), words)
    address = engine.get_function_address(f"{wrapper.symbol}.python")
    return builtin(wrapper.name, address, holder, _METH_FASTCALL, holder.__doc__ or "")


def make_bound_builtin(
    engine: Any, wrapper: EntryWrapper, holder: Callable[..., Any], records: Sequence[object]
) -> Callable[..., Any]:
    """Returns a linked entry as a builtin function with bound records, which takes the other arguments only.

    The records' arrays are read once, here; `make_builtin` must have been called before.  The function also holds the
    arrays themselves, so that NumPy does not resize them in place.
    """
    kinds = [kind for _, kind in wrapper.parameters if isinstance(kind, RecordKind)]
    found = [r for record, kind in zip(records, kinds, strict=True) for r in registers(record, kind)]
    block = np.array(found, dtype=np.int64)
    held = (holder, block, *records, *flatten_records(records))
    address = engine.get_function_address(f"{wrapper.symbol}.bound")
    return builtin(wrapper.name, address, held, _METH_FASTCALL, holder.__doc__ or "")


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
