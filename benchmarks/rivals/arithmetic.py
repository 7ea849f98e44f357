"""The same straight-line program run by CasADi and JAX, each in a process of their own environment.

`.venv-kernels` at the top of the checkout holds both; it is built once, from PyPI.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import venv
from pathlib import Path

import numpy as np

from quaddyn.kernels.program import Program

from .environments import ROOT, UnavailableError

PACKAGES = ("numpy>=2,<3", "casadi==3.8.2", "jax==0.10.2")
#: What a worker can be: name, what to call it.
KINDS = {"casadi": "CasADi map", "casadi-c": "CasADi map, its C code by the system's compiler", "jax": "JAX jit"}


def python() -> Path:
    """Interpreter of the environment, built when it is missing.

    Raises:
        UnavailableError: a package could not be had, or does not import.
    """
    home = ROOT / ".venv-kernels"
    interpreter = home / "bin" / "python"
    if not _imports(interpreter):
        print(f"building the environment of CasADi and JAX in {home.name} ...", flush=True)
        venv.create(home, with_pip=True, clear=True)
        command = [interpreter, "-m", "pip", "-q", "install", *PACKAGES]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        if done.returncode or not _imports(interpreter):
            raise UnavailableError(f"CasADi and JAX cannot be installed: {done.stderr[-200:]}")
    return interpreter


def _imports(interpreter: Path) -> bool:
    if not interpreter.exists():
        return False
    return subprocess.run([interpreter, "-c", "import casadi, jax"], capture_output=True, check=False).returncode == 0


class Worker:
    """A process that runs a program on given inputs, timed by itself.

    Args:
        kind: one of `KINDS`.
        program: what to run.
        inputs: (N, n) all inputs side by side.

    Raises:
        UnavailableError: the environment cannot be built, or the rival fails.

    Attributes:
        result: (N, m).
    """

    def __init__(self, kind: str, program: Program, inputs: np.ndarray) -> None:
        interpreter = python()
        self._folder = tempfile.TemporaryDirectory()
        source, answer = Path(self._folder.name) / "program.npz", Path(self._folder.name) / "answer.npy"
        graph, order = program.graph, list(program.order)
        np.savez(
            source,
            order=order,
            op=np.array([graph.op[i] for i in order]),
            left=[graph.left[i] for i in order],
            right=[graph.right[i] for i in order],
            value=[graph.value[i] for i in order],
            results=[r.ref for r in program.results],
            inputs=inputs,
        )
        flags = "--xla_cpu_multi_thread_eigen=false"
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [interpreter, Path(__file__).with_name("arithmetic_worker.py"), kind, source, answer],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            encoding="utf-8",
            cwd=self._folder.name,
            env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "OMP_NUM_THREADS": "1", "XLA_FLAGS": flags},
        )
        self._line("ready")
        self.result = np.load(answer)

    def seconds(self) -> float:
        """Seconds per state of some milliseconds' work."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._folder.cleanup()

    def _line(self, word: str = "") -> str:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            if not word or line.strip() == word:
                return line
        self._process.wait()
        self._errors.seek(0)
        raise UnavailableError(f"it ended: {self._errors.read().strip()[-300:]}")
