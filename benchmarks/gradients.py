"""Compares the CPU time of gradients with that of the plain operations, for kernels, PyTorch and JAX.

    python benchmarks/gradients.py               # table
    python benchmarks/gradients.py --check       # exit code 1 if a gradient takes longer than required

The plain operation is that of `qd.compile` on a batch of 4,096 states; the gradient is that of a weighted sum of all
results by q, v and the third argument.  The column "Jacobians" is the time of `rnea_derivatives` or `aba_derivatives`,
from which the gradient would follow by products.  Times are CPU times of all threads of the process, per state, the
minimum over rounds in which all programs alternate; the Jacobians, whose results evict those of the others from the
caches, are measured after them.  Libraries that are not installed are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import quaddyn as qd
from quaddyn.kernels import DifferentiableDynamics
from quaddyn.kernels.differentiable import DifferentiableOperation

N = 4096
ROUNDS = 30
#: Maximum ratio of the times of a call with gradient and of a plain call in a library.
MAX_LIBRARY_RATIO = 3.0
#: Maximum ratio of the times of the gradient's kernel and of the operation's; the former also writes more arrays.
MAX_KERNEL_RATIO = 3.5

Call = Callable[[], Any]


class ArrayDynamics(DifferentiableDynamics[Any]):
    """Operations on arrays, whose kernels are called directly."""

    def _apply(self, operation: DifferentiableOperation, arguments: Any) -> Any:
        return operation, operation.value([x for _, x, _ in arguments])

    def _load_library(self) -> None:
        """Does nothing, since NumPy arrays need no other library."""


def pytorch_calls(robot: qd.Robot, what: str, state: list[np.ndarray], weights: np.ndarray) -> tuple[Call, Call]:
    """A plain call, and one with the gradient."""
    import torch

    from quaddyn.torch import TorchDynamics

    torch.set_num_threads(1)
    function = getattr(TorchDynamics(robot), what)
    plain, w = [torch.tensor(x) for x in state], torch.tensor(weights)
    tracked = [torch.tensor(x, requires_grad=True) for x in state]
    return lambda: function(*plain), lambda: torch.autograd.grad(function(*tracked), tracked, w)


def jax_calls(robot: qd.Robot, what: str, state: list[np.ndarray], weights: np.ndarray) -> tuple[Call, Call]:
    """A plain call, and one with the gradient, both compiled."""
    import jax

    from quaddyn.jax import JaxDynamics

    jax.config.update("jax_enable_x64", weights.dtype == np.float64)
    function = getattr(JaxDynamics(robot), what)
    x, w = [jax.numpy.asarray(y) for y in state], jax.numpy.asarray(weights)
    plain = jax.jit(function)

    @jax.jit
    def both(w: Any, *x: Any) -> Any:
        result, pull_back = jax.vjp(function, *x)
        return result, pull_back(w)

    return lambda: jax.block_until_ready(plain(*x)), lambda: jax.block_until_ready(both(w, *x))


def measure(calls: dict[str, Call]) -> dict[str, float]:
    """Minimum CPU time per state [ns] of each call."""
    best = dict.fromkeys(calls, np.inf)
    for call in calls.values():
        call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.process_time_ns()
            call()
            best[name] = min(best[name], (time.process_time_ns() - start) / N)
    return best


def main() -> int:
    """Prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a gradient takes too long")
    parser.add_argument("--robots", nargs="+", default=["ur5", "go2", "anymal_c"])
    options = parser.parse_args()
    table = Table(title=rf"CPU time per state \[ns], N = {N:,}")
    for column in ("robot", "operation", "dtype", "plain", "gradient", "ratio", "Jacobians", "PyTorch", "JAX"):
        table.add_column(column, justify="left" if column in ("robot", "operation", "dtype") else "right")
    slow = []
    for name in options.robots:
        robot, rng = qd.load(name), np.random.default_rng(0)
        for what in ("rnea", "aba"):
            for dtype in (np.float64, np.float32):
                q = np.stack([robot.random_configuration(k % 64) for k in range(N)]).astype(dtype)
                v, x, weights = rng.normal(size=(3, N, robot.nv)).astype(dtype)
                fast = qd.compile(robot, (what, f"{what}_derivatives"), dtype=dtype)
                operation, result = getattr(ArrayDynamics(robot), what)(q, v, x)
                rest = [result] if operation.uses_result else []
                calls: dict[str, Call] = {
                    "plain": partial(getattr(fast, what), q, v, x),
                    "gradient": partial(operation.gradient, [q, v, x], *rest, weights),
                }
                for library, make in (("torch", pytorch_calls), ("jax", jax_calls)):
                    if importlib.util.find_spec(library) is not None:
                        calls[library], calls[f"{library} gradient"] = make(robot, what, [q, v, x], weights)
                ns = measure(calls) | measure({"Jacobians": partial(getattr(fast, f"{what}_derivatives"), q, v, x)})
                ratio = ns["gradient"] / ns["plain"]
                ratios = {"kernel": (ratio, MAX_KERNEL_RATIO)} | {
                    key: (ns[f"{key} gradient"] / ns[key], MAX_LIBRARY_RATIO) for key in ("torch", "jax") if key in ns
                }
                slow += [
                    f"{name} {what} {np.dtype(dtype)} {key}: {got:.2f}, at most {most:g} required"
                    for key, (got, most) in ratios.items()
                    if got > most
                ]
                pairs = [
                    f"{ns[key]:.0f}, with gradient {ns[f'{key} gradient']:.0f}" if key in ns else "-"
                    for key in ("torch", "jax")
                ]
                numbers = [f"{ns['plain']:.0f}", f"{ns['gradient']:.0f}", f"{ratio:.2f}", f"{ns['Jacobians']:.0f}"]
                table.add_row(name, what, str(np.dtype(dtype)), *numbers, *pairs)
    Console(width=140).print(table)
    if options.check and slow:
        print("ratio too large: " + "; ".join(slow), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
