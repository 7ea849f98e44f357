"""Runs a straight-line program with CasADi or JAX: ``python arithmetic_worker.py KIND PROGRAM.npz RESULT.npy``.

The worker prints ``ready`` after the results are written; then, for each input line, the CPU time per state [s].  It
requires only NumPy and CasADi or JAX.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def evaluate_program(program: Any, columns: list[Any], functions: dict[str, Callable[[Any], Any]]) -> list[Any]:
    """Evaluates the program with the arithmetic of the given columns and functions; returns its results."""
    values: dict[int, Any] = {}

    def value_of(ref: int) -> Any:
        return -values[ref >> 1] if ref & 1 else values[ref >> 1]

    rows = (program[name].tolist() for name in ("order", "op", "left", "right", "value"))
    for i, op, left, right, value in zip(*rows, strict=True):
        if op == "const":
            values[i] = value
        elif op == "input":
            values[i] = columns[left]
        elif op in functions:
            values[i] = functions[op](value_of(left) + value if op in ("sin", "cos") else value_of(left))
        elif op == "add":
            values[i] = value_of(left) + value_of(right)
        elif op == "mul":
            values[i] = value_of(left) * value_of(right)
        else:
            values[i] = value_of(left) / value_of(right)
    return [value_of(ref) for ref in program["results"].tolist()]


def make_casadi_call(program: Any, x: np.ndarray, compiled: bool) -> Callable[[], np.ndarray]:
    """Returns a call of CasADi's function for all states, in its virtual machine or compiled as C code."""
    import casadi

    symbol = casadi.SX.sym("x", x.shape[1])
    functions = {"sin": casadi.sin, "cos": casadi.cos, "sign": casadi.sign}
    outputs = evaluate_program(program, casadi.vertsplit(symbol), functions)
    options = {"jit": True, "compiler": "shell", "jit_options": {"flags": ["-O3", "-march=native"]}} if compiled else {}
    mapped = casadi.Function("f", [symbol], [casadi.vertcat(*outputs)]).map(len(x))
    if compiled:
        argument = casadi.MX.sym("X", x.shape[1], len(x))
        mapped = casadi.Function("g", [argument], [mapped(argument)], options)
    inputs = casadi.DM(x.T)
    return lambda: mapped(inputs)  # type: ignore[no-any-return]


def make_jax_call(program: Any, x: np.ndarray) -> Callable[[], np.ndarray]:
    """Returns a call of JAX's compiled function for all states."""
    import jax

    jax.config.update("jax_enable_x64", True)
    functions = {"sin": jax.numpy.sin, "cos": jax.numpy.cos, "sign": jax.numpy.sign}
    compiled = jax.jit(lambda x: jax.numpy.stack(evaluate_program(program, list(x.T), functions), axis=1))
    inputs = jax.numpy.asarray(x)
    return lambda: compiled(inputs).block_until_ready()  # type: ignore[no-any-return]


def main() -> None:
    kind, program_file, result_file = sys.argv[1:]
    with np.load(program_file) as file:
        program = {name: file[name] for name in file.files}
    x = program["inputs"]
    call = make_jax_call(program, x) if kind == "jax" else make_casadi_call(program, x, kind == "casadi-c")
    result = np.array(call())
    np.save(result_file, result if kind == "jax" else result.T)
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
