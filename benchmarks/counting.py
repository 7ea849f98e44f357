"""Arrays that count their arithmetic operations, to measure growth of cost independently of computing time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quaddyn.reference.model import Model


class OperationCounter:
    """Counter of floating-point operations, additions and multiplications alike."""

    def __init__(self) -> None:
        self.operations = 0


class CountedArray(np.ndarray[Any, Any]):
    """Array of floats whose operations, and those of all arrays computed from it, are added to a counter.

    Operations with zeros and ones count, too.  A product of (m, k) and (k, n) takes 2 m k n operations, an elementwise
    function one per element, solving (n, n) for k right-hand sides 2/3 n^3 + 2 k n^2, and an inverse 2 n^3
    (Golub, Van Loan, *Matrix Computations*, 2013, sections 1.1 and 3.2).
    """

    counter: OperationCounter

    def __array_finalize__(self, other: Any) -> None:
        """Assigns the counter of the original array to a view."""
        self.counter = getattr(other, "counter", OperationCounter())

    def __getitem__(self, key: Any) -> Any:
        """Returns entries with the same counter; a single entry is an array of dimension 0."""
        return as_counted(np.ndarray.__getitem__(np.asarray(self), key), self.counter)

    def __iter__(self) -> Iterator[Any]:
        """Yields the entries with the same counter."""
        return (self[i] for i in range(len(self)))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        """Applies a NumPy function to plain arrays and counts its operations."""
        plain_arrays = [np.asarray(x) if isinstance(x, CountedArray) else x for x in inputs]
        if out is not None:
            options["out"] = tuple(np.asarray(x) if isinstance(x, CountedArray) else x for x in out)
        result = getattr(ufunc, method)(*plain_arrays, **options)
        n_per_entry = 2 * np.shape(plain_arrays[0])[-1] if ufunc is np.matmul else 1
        self.counter.operations += n_per_entry * int(np.size(result))
        return out[0] if out is not None else as_counted(result, self.counter)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        """Counts the operations of `solve` and `inv`, which LAPACK computes; other results keep the counter."""
        if func is np.linalg.solve:
            n, k = len(args[0]), np.size(args[1]) // len(args[0])
            self.counter.operations += round(2 * n**3 / 3) + 2 * k * n**2
        elif func is np.linalg.inv:
            self.counter.operations += 2 * len(args[0]) ** 3
        result = super().__array_function__(func, types, args, kwargs)
        return as_counted(result, self.counter) if isinstance(result, np.ndarray) else result


def as_counted(x: Any, counter: OperationCounter) -> CountedArray:
    """Returns a view of x whose operations are added to a counter."""
    out = np.asarray(x, dtype=float).view(CountedArray)
    out.counter = counter
    return out


def as_counted_model(model: Model, counter: OperationCounter) -> Model:
    """Returns a copy of a model with counted arrays, on which algorithms run unchanged."""
    bodies = tuple(
        replace(
            b,
            T=as_counted(b.T, counter),
            axis=as_counted(b.axis, counter),
            S=as_counted(b.S, counter),
            G=as_counted(b.G, counter),
        )
        for b in model.bodies
    )
    return replace(
        model, bodies=bodies, armature=as_counted(model.armature, counter), gravity=as_counted(model.gravity, counter)
    )


def count_operations(call: Callable[..., Any], *arguments: Model | NDArray[np.float64]) -> int:
    """Counts the operations of ``call(*arguments)``; the arguments are models and arrays."""
    counter = OperationCounter()
    call(*(as_counted_model(x, counter) if isinstance(x, Model) else as_counted(x, counter) for x in arguments))
    return counter.operations
