"""Arrays that count the arithmetic done with them, so that growth can be measured without a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quaddyn.reference.model import Model


class Tally:
    """A count of floating-point `operations`: additions and multiplications alike."""

    def __init__(self) -> None:
        self.operations = 0


class Counted(np.ndarray[Any, Any]):
    """An array of floats whose arithmetic, and that of everything computed from it, adds to a tally.

    Dense counting: zeros and ones are operands like any other.  A product of (m, k) and (k, n) costs 2 m k n, a
    function of arrays one operation an element, solving (n, n) for k right-hand sides 2/3 n^3 + 2 k n^2, and an inverse
    2 n^3 (Golub, Van Loan, *Matrix Computations*, 2013, sections 1.1 and 3.2).
    """

    tally: Tally

    def __array_finalize__(self, other: Any) -> None:
        """Views count for the same tally."""
        self.tally = getattr(other, "tally", Tally())

    def __getitem__(self, key: Any) -> Any:
        """Entries stay counted, as arrays without dimension."""
        return counted(np.ndarray.__getitem__(np.asarray(self), key), self.tally)

    def __iter__(self) -> Iterator[Any]:
        """Entries stay counted."""
        return (self[i] for i in range(len(self)))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        """Compute on plain arrays and count."""
        plain = [np.asarray(x) if isinstance(x, Counted) else x for x in inputs]
        if out is not None:
            options["out"] = tuple(np.asarray(x) if isinstance(x, Counted) else x for x in out)
        result = getattr(ufunc, method)(*plain, **options)
        inner = 2 * np.shape(plain[0])[-1] if ufunc is np.matmul else 1
        self.tally.operations += inner * int(np.size(result))
        return out[0] if out is not None else counted(result, self.tally)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        """Count what NumPy hands to LAPACK, where no arithmetic is seen; what only moves entries stays counted."""
        if func is np.linalg.solve:
            n, k = len(args[0]), np.size(args[1]) // len(args[0])
            self.tally.operations += round(2 * n**3 / 3) + 2 * k * n**2
        elif func is np.linalg.inv:
            self.tally.operations += 2 * len(args[0]) ** 3
        result = super().__array_function__(func, types, args, kwargs)
        return counted(result, self.tally) if isinstance(result, np.ndarray) else result


def counted(x: Any, tally: Tally) -> Counted:
    """`x` as an array that counts for `tally`; the memory is shared."""
    out = np.asarray(x, dtype=float).view(Counted)
    out.tally = tally
    return out


def counted_model(model: Model, tally: Tally) -> Model:
    """`model` with every number counted, so that algorithms may run on it unchanged."""
    bodies = tuple(
        replace(b, T=counted(b.T, tally), axis=counted(b.axis, tally), S=counted(b.S, tally), G=counted(b.G, tally))
        for b in model.bodies
    )
    return replace(model, bodies=bodies, armature=counted(model.armature, tally), gravity=counted(model.gravity, tally))


def operations(call: Callable[..., Any], *arguments: Model | NDArray[np.float64]) -> int:
    """Operations of ``call(*arguments)``, models and arrays."""
    tally = Tally()
    call(*(counted_model(x, tally) if isinstance(x, Model) else counted(x, tally) for x in arguments))
    return tally.operations
