"""Calls of a C function with every array in memory of exactly its size; run as a program under a sanitizer.

``python compiling_sanitized.py LIBRARY SYMBOL CALLS`` reads pickled calls, each a list of arguments: arrays, numbers,
and lists of these for records.  The file then holds what the arrays hold.
"""

import ctypes
import pickle
import sys
from pathlib import Path

import numpy as np

LIBC = ctypes.CDLL(None)
LIBC.malloc.restype, LIBC.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
LIBC.free.argtypes = (ctypes.c_void_p,)


class Call:
    """One call, with its structures and copies of its arrays."""

    def __init__(self, arguments):
        self.places = []
        given = [self.handed(each) for each in arguments]
        self.given = [ctypes.byref(x) if isinstance(a, list) else x for a, x in zip(arguments, given, strict=True)]

    def handed(self, x):
        if isinstance(x, np.ndarray):
            place = LIBC.malloc(x.nbytes)
            ctypes.memmove(place, x.ctypes.data, x.nbytes)
            self.places.append((place, x))
            fields = [("at", ctypes.c_void_p), *((f"n{k}", ctypes.c_int64) for k in range(x.ndim))]
            return type("Array", (ctypes.Structure,), {"_fields_": fields})(place, *x.shape)
        if isinstance(x, list):
            items = [self.handed(each) for each in x]
            fields = [(f"f{k}", type(each)) for k, each in enumerate(items)]
            return type("Record", (ctypes.Structure,), {"_fields_": fields})(*items)
        return {float: ctypes.c_double, int: ctypes.c_int64, bool: ctypes.c_bool}[type(x)](x)

    def finish(self):
        """Returns the contents of the arrays and frees their memory."""
        out = []
        for place, x in self.places:
            out.append(np.empty_like(x))
            ctypes.memmove(out[-1].ctypes.data, place, x.nbytes)
            LIBC.free(place)
        return out


def main(library, symbol, calls):
    function = getattr(ctypes.CDLL(library), symbol)
    function.restype = None
    out = []
    for arguments in pickle.loads(Path(calls).read_bytes()):
        call = Call(arguments)
        function(*call.given)
        out.append(call.finish())
    Path(calls).write_bytes(pickle.dumps(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
