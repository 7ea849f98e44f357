"""Runs a straight-line program by CasADi or JAX: ``python arithmetic_worker.py KIND PROGRAM.npz ANSWER.npy``.

Says ``ready`` when the results are written; then, for every line it reads, the processor's seconds per state.  Only
NumPy and the rival are needed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def interpreted(program: Any, columns: list[Any], functions: dict[str, Callable[[Any], Any]]) -> list[Any]:
    """Results of the program on any arithmetic."""
    values: dict[int, Any] = {}

    def get(ref: int) -> Any:
        return -values[ref >> 1] if ref & 1 else values[ref >> 1]

    rows = (program[name].tolist() for name in ("order", "op", "left", "right", "value"))
    for i, op, left, right, value in zip(*rows, strict=True):
        if op == "const":
            values[i] = value
        elif op == "input":
            values[i] = columns[left]
        elif op in functions:
            values[i] = functions[op](get(left) + value if op in ("sin", "cos") else get(left))
        elif op == "add":
            values[i] = get(left) + get(right)
        elif op == "mul":
            values[i] = get(left) * get(right)
        else:
            values[i] = get(left) / get(right)
    return [get(ref) for ref in program["results"].tolist()]


def casadi_map(program: Any, x: np.ndarray, compiled: bool) -> Callable[[], np.ndarray]:
    """CasADi's function mapped over the states: by its virtual machine, or as C by the system's compiler."""
    import casadi

    symbol = casadi.SX.sym("x", x.shape[1])
    functions = {"sin": casadi.sin, "cos": casadi.cos, "sign": casadi.sign}
    entries = interpreted(program, casadi.vertsplit(symbol), functions)
    options = {"jit": True, "compiler": "shell", "jit_options": {"flags": ["-O3", "-march=native"]}} if compiled else {}
    mapped = casadi.Function("f", [symbol], [casadi.vertcat(*entries)]).map(len(x))
    if compiled:
        argument = casadi.MX.sym("X", x.shape[1], len(x))
        mapped = casadi.Function("g", [argument], [mapped(argument)], options)
    given = casadi.DM(x.T)
    return lambda: mapped(given)  # type: ignore[no-any-return]


def jax_jit(program: Any, x: np.ndarray) -> Callable[[], np.ndarray]:
    """JAX's compiled function of whole columns."""
    import jax

    jax.config.update("jax_enable_x64", True)
    functions = {"sin": jax.numpy.sin, "cos": jax.numpy.cos, "sign": jax.numpy.sign}
    compiled = jax.jit(lambda x: jax.numpy.stack(interpreted(program, list(x.T), functions), axis=1))
    given = jax.numpy.asarray(x)
    return lambda: compiled(given).block_until_ready()  # type: ignore[no-any-return]


def main() -> None:
    kind, source, answer = sys.argv[1:]
    with np.load(source) as file:
        program = {name: file[name] for name in file.files}
    x = program["inputs"]
    call = jax_jit(program, x) if kind == "jax" else casadi_map(program, x, kind == "casadi-c")
    result = np.array(call())
    np.save(answer, result if kind == "jax" else result.T)
    start = time.process_time()
    call()
    repeats = max(1, int(0.004 / max(time.process_time() - start, 1e-9)))
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.process_time()
        for _ in range(repeats):
            call()
        print((time.process_time() - start) / repeats / len(x), flush=True)


if __name__ == "__main__":
    main()
