"""Runs a straight-line program in CasADi and JAX, each in a process of a separate environment.

The virtual environment `.venv-kernels` at the top of the checkout contains both; it is created once, from PyPI.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import venv
from pathlib import Path

import numpy as np

from quaddyn.kernels.graph import Program

from .environments import ROOT, UnavailableError

#: Packages of the environment.
PACKAGES = ("numpy>=2,<3", "casadi==3.8.2", "jax==0.10.2")
#: Titles of the programs by kind of worker.
KINDS = {"casadi": "CasADi map", "casadi-c": "CasADi map, its C code by the system's compiler", "jax": "JAX jit"}


def python() -> Path:
    """Returns the interpreter of the environment, which is created if it is missing.

    Raises:
        UnavailableError: A package cannot be installed or imported.
    """
    folder = ROOT / ".venv-kernels"
    interpreter = folder / "bin" / "python"
    if not _imports(interpreter):
        print(f"creating the environment of CasADi and JAX in {folder.name} ...", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        command = [interpreter, "-m", "pip", "-q", "install", *PACKAGES]
        completed = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        if completed.returncode or not _imports(interpreter):
            raise UnavailableError(f"CasADi and JAX cannot be installed: {completed.stderr[-200:]}")
    return interpreter


def _imports(interpreter: Path) -> bool:
    """Returns whether an interpreter imports CasADi and JAX."""
    if not interpreter.exists():
        return False
    return subprocess.run([interpreter, "-c", "import casadi, jax"], capture_output=True, check=False).returncode == 0


class Worker:
    """Process that runs a program on given inputs and measures the time.

    Args:
        kind: one of `KINDS`.
        program: straight-line program.
        inputs: inputs of all states (N, n).

    Raises:
        UnavailableError: The environment cannot be created, or the process fails.

    Attributes:
        result: outputs of all states (N, m).
    """

    def __init__(self, kind: str, program: Program, inputs: np.ndarray) -> None:
        interpreter = python()
        self._folder = tempfile.TemporaryDirectory()
        program_file, result_file = Path(self._folder.name) / "program.npz", Path(self._folder.name) / "answer.npy"
        graph, order = program.graph, list(program.order)
        np.savez(
            program_file,
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
            [interpreter, Path(__file__).with_name("arithmetic_worker.py"), kind, program_file, result_file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            encoding="utf-8",
            cwd=self._folder.name,
            env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "OMP_NUM_THREADS": "1", "XLA_FLAGS": flags},
        )
        self._read_line("ready")
        self.result = np.load(result_file)

    def seconds(self) -> float:
        """Measures the CPU time per state [s] over some milliseconds."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._read_line())

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()
        self._folder.cleanup()

    def _read_line(self, word: str = "") -> str:
        """Returns the next line of the process, or the next one that equals a word."""
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            if not word or line.strip() == word:
                return line
        self._process.wait()
        self._errors.seek(0)
        raise UnavailableError(f"the process ended: {self._errors.read().strip()[-300:]}")
