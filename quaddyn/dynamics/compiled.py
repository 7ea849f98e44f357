"""`compile`: generated kernels where this machine can run them, and Pinocchio behind the same calls where it cannot."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import kernels
from ..errors import ArgumentError, UnknownNameError
from ..kernels import Kernels, Operations, Unsupported
from ..robot.robot import Robot
from .dynamics import Dynamics

_told: set[str] = set()


def compile(
    robot: Robot,
    what: str | Sequence[str] = ("rnea",),
    *,
    dtype: DTypeLike = np.float64,
    parameters: str = "folded",
    friction: bool = False,
    frames: Sequence[str] = (),
    forces: Sequence[str] = (),
) -> Kernels | Interpreted:
    """Compile operations of a robot: `quaddyn.kernels.compile`, which describes the arguments.

    Where machine code cannot be made or run (no llvmlite, an unknown processor, no executable memory) a
    `RuntimeWarning` says so once, and the same calls go to Pinocchio, state by state.

    Raises:
        UnknownNameError: an operation that cannot be compiled, or a frame that does not exist.
        ArgumentError: a bad option.
        Unsupported: machine code cannot be made, and Pinocchio offers no substitute ("base_regressor", run-time
            parameters).
    """
    options: dict[str, Any] = {"parameters": parameters, "friction": friction, "frames": frames, "forces": forces}
    try:
        return kernels.compile(robot, what, dtype=dtype, **options)
    except Unsupported as error:
        names = (what,) if isinstance(what, str) else tuple(what)
        if parameters == "runtime" or friction or "base_regressor" in names:
            raise
        if str(error) not in _told:
            _told.add(str(error))
            warnings.warn(f"kernels run through Pinocchio: {error}", RuntimeWarning, stacklevel=2)
        return Interpreted(robot, names, np.dtype(dtype))


class Interpreted:
    """The calls of `Kernels` answered by `Dynamics`: as exact, not as fast.

    Attributes:
        robot: the robot.
        names: the operations.
        operations: empty, since no code was made.
        dtype: type of results.
    """

    def __init__(self, robot: Robot, names: Sequence[str], dtype: np.dtype[Any]) -> None:
        self.robot, self.names, self.dtype = robot, tuple(names), dtype
        self.operations: Mapping[str, Operations] = MappingProxyType({})
        self._dynamics = Dynamics(robot)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        names: tuple[str, ...] = self.__dict__.get("names", ())
        if name.startswith("_") or name not in names:
            raise UnknownNameError("operation", name, names) if not name.startswith("_") else AttributeError(name)

        def call(*arguments: Any, out: Any = None, threads: int = 1, **named: Any) -> Any:
            del threads  # one workspace, one thread
            return self._run(name, arguments, out, named)

        return call

    def _run(self, name: str, arguments: Sequence[Any], out: Any, named: dict[str, Any]) -> Any:
        method = getattr(self._dynamics, name)
        rows = {len(x) for x in (*arguments, *named.values()) if isinstance(x, np.ndarray) and x.ndim == 2}
        if not rows:
            result = self._typed(method(*map(_double, arguments), **named))
        else:
            if len(rows) > 1:
                raise ArgumentError(f"{name}: arguments have different numbers of rows, {sorted(rows)}")
            answers = [
                method(*(_double(_row(x, k)) for x in arguments), **{n: _row(x, k) for n, x in named.items()})
                for k in range(rows.pop())
            ]
            parts = answers[0]
            if isinstance(parts, tuple):
                result = type(parts)(*(self._typed(np.stack(p)) for p in zip(*answers, strict=True)))
            else:
                result = self._typed(np.stack(answers))
        if out is None:
            return result
        for target, value in zip(*((x if isinstance(x, tuple) else (x,)) for x in (out, result)), strict=True):
            target[...] = value
        return out

    def _typed(self, result: Any) -> Any:
        if isinstance(result, tuple):
            return type(result)(*(x.astype(self.dtype) for x in result))
        return result.astype(self.dtype)

    def __reduce__(self) -> tuple[object, ...]:
        return Interpreted, (self.robot, self.names, self.dtype)


def _double(x: Any) -> Any:
    """Arrays as `Dynamics` wants them: it takes float64 only."""
    return np.ascontiguousarray(x, dtype=np.float64) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x


def _row(x: Any, k: int) -> Any:
    """Row k of a batch, of every force in a mapping; the same for what is one for all."""
    if isinstance(x, Mapping):
        return {name: _double(_row(f, k)) for name, f in x.items()}
    array: NDArray[Any] | Any = x
    return array[k] if isinstance(array, np.ndarray) and array.ndim == 2 else array
