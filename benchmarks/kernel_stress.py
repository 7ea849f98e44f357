"""Tests compiled kernels on arrays next to inaccessible memory pages, where any out-of-bounds access crashes.

    python benchmarks/kernel_stress.py                    # 1,000,000 mixed calls
    python benchmarks/kernel_stress.py --calls 20000
    python benchmarks/kernel_stress.py --check            # exit code 1 if a requirement is not met

Valid and invalid calls are mixed: single states and batches of 0 to 70 rows, results in new arrays and in `out`, both
element types, threads; wrong shapes, types, NaN, read-only results.  Requirements: every result of a valid call agrees
with that of the first call, every invalid call raises `ArgumentError`, and the process does not crash.
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


class FencedMemory:
    """Memory between two inaccessible pages.

    Args:
        size: minimum size of the memory [bytes].
    """

    def __init__(self, size: int) -> None:
        self.inner = -(-max(size, 1) // PAGE) * PAGE
        self.memory = mmap.mmap(-1, self.inner + 2 * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        for page in (start, start + PAGE + self.inner):
            if _protect(page, PAGE, 0):
                raise OSError(ctypes.get_errno(), "mprotect")

    def array(self, x: NDArray[Any], *, at_end: bool) -> NDArray[Any]:
        """Returns a copy of x that ends directly before the second page, or begins directly after the first one."""
        start = PAGE + (self.inner - x.nbytes if at_end else 0)
        out = np.frombuffer(self.memory, dtype=x.dtype, count=x.size, offset=start).reshape(x.shape)
        out[...] = x
        return out


def random_states(robot: qd.Robot, rng: np.random.Generator, n: int) -> tuple[NDArray[Any], ...]:
    """Draws random states: q, v and a with n rows, where quaternions and (cos, sin) have norm 1."""
    neutral = robot.neutral
    q = np.array([robot.algorithms.integrate(robot.model, neutral, rng.uniform(-3, 3, robot.nv)) for _ in range(n)])
    return q, rng.normal(size=(n, robot.nv)), rng.normal(size=(n, robot.nv))


def make_invalid_arguments(rng: np.random.Generator, arrays: list[Any]) -> list[Any]:
    """Returns a copy of the arguments in which one argument is invalid."""
    k = int(rng.integers(len(arrays)))
    x = arrays[k]
    not_finite = x.copy()
    not_finite.flat[int(rng.integers(not_finite.size))] = rng.choice([np.nan, np.inf, -np.inf])
    invalid = [
        not_finite,
        x[..., :-1],
        x[None, None],
        x.tolist(),
        x.astype(np.int64),
        None,
        x.astype(complex),
        x.astype("U8"),
    ]
    out = list(arrays)
    out[k] = invalid[int(rng.integers(len(invalid)))]
    return out


def make_invalid_out(rng: np.random.Generator, like: NDArray[Any]) -> Any:
    """Returns an invalid argument `out`."""
    read_only = np.zeros_like(like)
    read_only.flags.writeable = False
    other_type = np.float32 if like.dtype == np.float64 else np.float64
    invalid = [
        read_only,
        np.zeros_like(like, dtype=other_type),
        np.zeros(like.size + 1, like.dtype),
        like.tolist(),
        like[None],
    ]
    return invalid[int(rng.integers(len(invalid)))]


def call_kernels(robot: qd.Robot, dtype: Any, calls: int, seed: int) -> tuple[int, int]:
    """Calls the kernels of a robot with valid and invalid arguments.

    Returns:
        Numbers of valid and of invalid calls.

    Raises:
        AssertionError: A result is wrong, or an invalid call raised no error.
    """
    rng = np.random.default_rng(seed)
    n_rows = 70
    kernels = qd.compile(robot, ("rnea", "crba", "aba"), dtype=dtype)
    names = ("rnea", "crba", "aba")
    data = [x.astype(dtype) for x in random_states(robot, rng, n_rows)]
    arguments = {"rnea": data, "crba": data[:1], "aba": data}
    expected = {name: getattr(kernels, name)(*arguments[name]) for name in names}
    scale = {name: np.abs(x).max() for name, x in expected.items()}
    tolerance = 1e-9 if dtype == np.float64 else 1e-1
    input_memory = [FencedMemory(n_rows * 8 * (robot.nq + 1)) for _ in range(3)]
    out_memory = FencedMemory(n_rows * 8 * robot.nv**2)
    n_valid = n_invalid = 0
    for call in range(calls):
        name = ("rnea", "rnea", "crba", "aba")[call % 4]
        single = rng.random() < 0.5
        n = 1 if single else int(rng.integers(0, n_rows + 1))
        first = int(rng.integers(0, n_rows - n + 1))
        selection: Any = first if single else slice(first, first + n)
        at_end = bool(rng.random() < 0.7)
        inputs: list[Any] = [
            f.array(x[selection], at_end=at_end) for f, x in zip(input_memory, arguments[name], strict=False)
        ]
        function = getattr(kernels, name)
        if call % 10 == 9 and n:
            n_invalid += 1
            try:
                if rng.random() < 0.3:
                    function(*inputs, out=make_invalid_out(rng, expected[name][selection]))
                else:
                    function(*make_invalid_arguments(rng, inputs))
            except qd.ArgumentError:
                continue
            raise AssertionError(f"{name}: an invalid argument was accepted in call {call}")
        n_valid += 1
        expected_result = expected[name][selection]
        if rng.random() < 0.3:
            out = out_memory.array(np.zeros(expected_result.shape, dtype), at_end=at_end)
            # With `out` alone the fast entry is called, with threads the general one.
            options = {} if rng.random() < 0.7 else {"threads": int(rng.integers(1, 4))}
            result = function(*inputs, out=out, **options)
            assert result is out
        else:
            result = function(*inputs)
        assert result.shape == expected_result.shape and (
            not n or np.abs(result - expected_result).max() <= tolerance * scale[name]
        ), (name, call)
    return n_valid, n_invalid


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000_000, help="total number of calls")
    parser.add_argument("--seed", type=int, default=0, help="seed of the calls")
    parser.add_argument("--check", action="store_true", help="exit code 1 and one line if a requirement is not met")
    options = parser.parse_args()
    start = time.perf_counter()
    jobs = [(name, dtype) for name in ("ur5", "go2") for dtype in (np.float64, np.float32)]
    n_valid = n_invalid = 0
    for k, (name, dtype) in enumerate(jobs):
        try:
            a, b = call_kernels(qd.load(name), dtype, options.calls // len(jobs), options.seed + k)
        except AssertionError as error:
            if not options.check:
                raise
            print(f"{name}, {np.dtype(dtype)}: {error}")
            return 1
        n_valid, n_invalid = n_valid + a, n_invalid + b
    print(
        f"{n_valid} valid and {n_invalid} invalid calls in {time.perf_counter() - start:.0f} s: "
        "no out-of-bounds access, no wrong result"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
