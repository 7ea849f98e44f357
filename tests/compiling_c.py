"""C99 of entries, compiled by the system's compiler and called through `ctypes`."""

import ctypes
import shutil
import subprocess
from functools import cache

import numpy as np

from quaddyn.compiler.c99 import c_source
from quaddyn.compiler.c99_types import identifier
from quaddyn.compiler.kinds import BOOL, FLOAT, INT, ArrayKind, RecordKind
from quaddyn.compiler.signatures import signature_of, symbol_name

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
_NUMBERS = {FLOAT: ctypes.c_double, INT: ctypes.c_int64, BOOL: ctypes.c_bool}


@cache
def structure(kind):
    """The `ctypes` type of a value."""
    if kind in _NUMBERS:
        return _NUMBERS[kind]
    if isinstance(kind, ArrayKind) and kind.rank == 0:
        return ctypes.c_void_p
    if isinstance(kind, ArrayKind):
        fields = [("at", ctypes.c_void_p), *((f"n{k}", ctypes.c_int64) for k in range(kind.rank))]
    else:
        fields = [(name, structure(field)) for name, field in kind.fields]
    return type("Structure", (ctypes.Structure,), {"_fields_": fields})


def value(x, kind):
    """An object converted for `ctypes`, without copying its memory."""
    if isinstance(kind, ArrayKind):
        return structure(kind)(x.ctypes.data, *x.shape)
    if isinstance(kind, RecordKind):
        return structure(kind)(*(value(each, field) for each, (_, field) in zip(x, kind.fields, strict=True)))
    return structure(kind)(x)


def compile_c(folder, name, source, header, *flags):
    """Compiles with warnings as errors; returns the path of the shared library."""
    (folder / f"{name}.h").write_text(header, encoding="utf-8")
    (folder / f"{name}.c").write_text(source, encoding="utf-8")
    out = folder / f"{name}.so"
    command = [COMPILER, *FLAGS, *flags, "-shared", "-fPIC", "-o", str(out), str(folder / f"{name}.c"), "-lm"]
    subprocess.run(command, check=True, capture_output=True, encoding="utf-8")
    return out


def from_c(entries, folder, name, *flags):
    """Entries as functions of a shared library, by name."""
    files = c_source(entries, name)
    library = ctypes.CDLL(str(compile_c(folder, name, files.source, files.header, *flags)))
    return {each.__name__: _function(each, getattr(library, identifier(symbol_name(each)))) for each in entries}


def _function(which, function):
    parameters, returns = signature_of(which)
    function.restype = _NUMBERS.get(returns)

    def call(*arguments):
        given = [value(x, kind) for x, (_, kind) in zip(arguments, parameters, strict=True)]
        handed = [
            ctypes.byref(x) if isinstance(k, RecordKind) else x for x, (_, k) in zip(given, parameters, strict=True)
        ]
        return function(*handed)

    return call


def copied(x):
    """Copies of arguments; arrays are followed by zeros in memory, for loads of eight lanes."""
    if isinstance(x, np.ndarray):
        room = np.zeros(x.size + 8, dtype=x.dtype)
        out = room[: x.size].reshape(x.shape)
        out[...] = x
        return out
    if isinstance(x, tuple):
        items = [copied(each) for each in x]
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    return x


def arrays_in(x):
    """All arrays in arguments."""
    if isinstance(x, np.ndarray):
        return [x]
    return [a for each in x for a in arrays_in(each)] if isinstance(x, tuple) else []
