"""Calls compiled kernels on arrays next to inaccessible memory pages, where any out-of-bounds access crashes.

    python benchmarks/kernel_stress.py                    # 1,000,000 mixed calls
    python benchmarks/kernel_stress.py --calls 20000
    python benchmarks/kernel_stress.py --check            # exit 1 if an answer is wrong, or a wrong call goes unnoticed

Right and wrong calls are mixed: single states and batches of 0 to 70 rows, results into new arrays and into `out`, both
element types, threads; wrong shapes, types, NaN, read-only results.  Every right result is compared with the first one.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import quaddyn as qd

PAGE = mmap.PAGESIZE
_protect = ctypes.CDLL(None, use_errno=True).mprotect
_protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Fence:
    """Memory between two inaccessible pages.

    Args:
        size: bytes of memory to have, at least.
    """

    def __init__(self, size: int) -> None:
        self.inner = -(-max(size, 1) // PAGE) * PAGE
        self.memory = mmap.mmap(-1, self.inner + 2 * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        for page in (start, start + PAGE + self.inner):
            if _protect(page, PAGE, 0):
                raise OSError(ctypes.get_errno(), "mprotect")

    def array(self, x: NDArray[Any], *, at_end: bool) -> NDArray[Any]:
        """A copy of x whose last byte is the last before the fence, or whose first is the first after it."""
        start = PAGE + (self.inner - x.nbytes if at_end else 0)
        out = np.frombuffer(self.memory, dtype=x.dtype, count=x.size, offset=start).reshape(x.shape)
        out[...] = x
        return out


def states(robot: qd.Robot, rng: np.random.Generator, n: int) -> tuple[NDArray[Any], ...]:
    """q, v, a of n rows: joints anywhere, units of norm one."""
    neutral = robot.neutral
    q = np.array([robot.algorithms.integrate(robot.model, neutral, rng.uniform(-3, 3, robot.nv)) for _ in range(n)])
    return q, rng.normal(size=(n, robot.nv)), rng.normal(size=(n, robot.nv))


def spoiled(rng: np.random.Generator, arrays: list[Any]) -> list[Any]:
    """The arguments with one of them wrong."""
    k = int(rng.integers(len(arrays)))
    x = arrays[k]
    bad = x.copy()
    bad.flat[int(rng.integers(bad.size))] = rng.choice([np.nan, np.inf, -np.inf])
    wrong = [bad, x[..., :-1], x[None, None], x.tolist(), x.astype(np.int64), None, x.astype(complex), x.astype("U8")]
    out = list(arrays)
    out[k] = wrong[int(rng.integers(len(wrong)))]
    return out


def spoiled_target(rng: np.random.Generator, like: NDArray[Any]) -> Any:
    """Something that no result can be written to."""
    frozen = np.zeros_like(like)
    frozen.flags.writeable = False
    other = np.float32 if like.dtype == np.float64 else np.float64
    wrong = [frozen, np.zeros_like(like, dtype=other), np.zeros(like.size + 1, like.dtype), like.tolist(), like[None]]
    return wrong[int(rng.integers(len(wrong)))]


def run(robot: qd.Robot, dtype: Any, calls: int, seed: int) -> tuple[int, int]:
    """Right and wrong calls made; a wrong answer or a missing error is an AssertionError."""
    rng = np.random.default_rng(seed)
    rows = 70
    fast = qd.compile(robot, ("rnea", "crba", "aba"), dtype=dtype)
    names = ("rnea", "crba", "aba")
    data = [x.astype(dtype) for x in states(robot, rng, rows)]
    arguments = {"rnea": data, "crba": data[:1], "aba": data}
    answers = {name: getattr(fast, name)(*arguments[name]) for name in names}
    scale = {name: np.abs(x).max() for name, x in answers.items()}
    tolerance = 1e-9 if dtype == np.float64 else 1e-1
    fences = [Fence(rows * 8 * (robot.nq + 1)) for _ in range(3)]
    result = Fence(rows * 8 * robot.nv**2)
    right = wrong = 0
    for call in range(calls):
        name = ("rnea", "rnea", "crba", "aba")[call % 4]
        single = rng.random() < 0.5
        n = 1 if single else int(rng.integers(0, rows + 1))
        first = int(rng.integers(0, rows - n + 1))
        pick: Any = first if single else slice(first, first + n)
        at_end = bool(rng.random() < 0.7)
        given: list[Any] = [f.array(x[pick], at_end=at_end) for f, x in zip(fences, arguments[name], strict=False)]
        function = getattr(fast, name)
        if call % 10 == 9 and n:
            wrong += 1
            try:
                if rng.random() < 0.3:
                    function(*given, out=spoiled_target(rng, answers[name][pick]))
                else:
                    function(*spoiled(rng, given))
            except qd.ArgumentError:
                continue
            raise AssertionError(f"{name}: a wrong argument was accepted in call {call}")
        right += 1
        want = answers[name][pick]
        if rng.random() < 0.3:
            target = result.array(np.zeros(want.shape, dtype), at_end=at_end)
            # A target alone goes the quick way, threads the other one.
            options = {} if rng.random() < 0.7 else {"threads": int(rng.integers(1, 4))}
            got = function(*given, out=target, **options)
            assert got is target
        else:
            got = function(*given)
        assert got.shape == want.shape and (not n or np.abs(got - want).max() <= tolerance * scale[name]), (name, call)
    return right, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000_000, help="how many calls in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="exit with 1, and one line, for what went wrong")
    options = parser.parse_args()
    start = time.perf_counter()
    jobs = [(name, kind) for name in ("ur5", "go2") for kind in (np.float64, np.float32)]
    right = wrong = 0
    for k, (name, kind) in enumerate(jobs):
        try:
            a, b = run(qd.load(name), kind, options.calls // len(jobs), options.seed + k)
        except AssertionError as error:
            if not options.check:
                raise
            print(f"{name}, {np.dtype(kind)}: {error}")
            return 1
        right, wrong = right + a, wrong + b
    print(f"{right} right and {wrong} wrong calls in {time.perf_counter() - start:.0f} s: no overrun, no wrong answer")
    return 0


if __name__ == "__main__":
    sys.exit(main())
