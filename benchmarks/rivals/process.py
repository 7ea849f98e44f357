"""Parent process of the workers: writes recordings, runs workers on chunks of ticks, and reads their results."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

import quaddyn as qd

from . import environments

HERE = Path(__file__).resolve().parent

#: Processors that this process may use.
CPUS = frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset({0})


def plain_urdf(robot: qd.Robot) -> str:
    """Returns the URDF of a robot without geometry, with an empty link `contact_<foot>` at the center of each foot.

    Args:
        robot: robot with a free root and feet; its source has passed validation.
    """
    document = ElementTree.fromstring(robot.source)
    for link in document.iter("link"):
        for kind in ("visual", "collision"):
            for element in link.findall(kind):
                link.remove(element)
    for leg in robot.legs.values():
        name = f"contact_{leg.foot.name}"
        ElementTree.SubElement(document, "link", name=name)
        joint = ElementTree.SubElement(document, "joint", name=f"{name}_joint", type="fixed")
        ElementTree.SubElement(joint, "parent", link=leg.foot.frame)
        ElementTree.SubElement(joint, "child", link=name)
        ElementTree.SubElement(joint, "origin", xyz=" ".join(repr(float(x)) for x in leg.foot.offset), rpy="0 0 0")
    return ElementTree.tostring(document, encoding="unicode")


def pin_to_cpu(turn: int, workers: Iterable[Worker]) -> None:
    """Pins this process and the workers to one processor, a different one each turn.

    The compared programs alternate, so one processor suffices.  The times on two processors may differ by half while
    another process uses one of them.  The minimum over several turns is then the minimum over all processors for every
    program.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    cpus = sorted(CPUS)
    for pid in (0, *(worker.pid for worker in workers)):
        os.sched_setaffinity(pid, {cpus[turn % len(cpus)]})


class Worker:
    """Process that runs ticks on request.

    Args:
        command: command of the process, which prints "ready" after its start.
        env: environment variables of the process.

    Raises:
        environments.UnavailableError: The process ended before it was ready.

    Attributes:
        pid: identifier of the process.
    """

    def __init__(self, command: Sequence[str | Path], env: Mapping[str, str]) -> None:
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, encoding="utf-8", env=env
        )
        self.pid = self._process.pid
        self._expect("ready")

    def _send_line(self, line: str) -> None:
        """Sends a line to the process."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _expect(self, word: str) -> None:
        """Reads lines of the process up to one that equals a word."""
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            if line.strip() == word:
                return
        self._errors.seek(0)
        raise environments.UnavailableError(f"the worker ended: {self._errors.read()[-400:]}")

    def _end(self) -> None:
        """Ends the process."""
        self._send_line("")
        self._process.wait()


class Rival(Worker):
    """Worker of another controller on one recording.

    Args:
        name: one of `environments.NAMES`.
        recording: path of the recording, see the package `rivals`.

    Raises:
        environments.UnavailableError: The environment cannot be created, or the worker does not start.
    """

    def __init__(self, name: str, recording: Path) -> None:
        interpreter = environments.python(name)
        self._result_file = Path(tempfile.mkdtemp()) / f"{name}.npz"
        super().__init__(
            [interpreter, "-W", "ignore", HERE / f"{name}_worker.py", recording, self._result_file],
            {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "HOME": str(Path.home())},
        )

    def run(self, first: int, last: int) -> None:
        """Runs ticks first ... last - 1 once; returns after they are completed."""
        self._send_line(f"{first} {last}")
        self._expect("done")

    def answer(self) -> dict[str, np.ndarray]:
        """Ends the worker and returns its results, with the minimum times over all runs."""
        self._end()
        with np.load(self._result_file) as file:
            return {name: file[name] for name in file.files}


class Checkout(Worker):
    """Worker with the controller of another checkout of quaddyn on several recordings.

    Args:
        folder: top of the checkout, whose `quaddyn` is imported.
        recordings: folder of `0.npz`, `1.npz` and so on, in which the results are written.
        label: part of the names of the files of results.

    Raises:
        environments.UnavailableError: The worker does not start, or imports another `quaddyn`.
    """

    def __init__(self, folder: Path, recordings: Path, label: str) -> None:
        self._folder, self._label = recordings, label
        env = os.environ | {"PYTHONPATH": str(folder.resolve()), "OMP_NUM_THREADS": "1"}
        script = HERE / "checkout_worker.py"
        super().__init__([sys.executable, script, folder.resolve(), recordings, label], env)

    def run(self, recording: int, first: int, last: int) -> None:
        """Runs ticks first ... last - 1 of a recording once; returns after they are completed."""
        self._send_line(f"{recording} {first} {last}")
        self._expect("done")

    def answers(self) -> list[dict[str, np.ndarray]]:
        """Ends the worker and returns its results by recording, with the minimum times over all runs."""
        self._end()
        out = []
        for path in sorted(self._folder.glob(f"*.{self._label}.npz"), key=lambda path: int(path.name.split(".")[0])):
            with np.load(path) as file:
                out.append({name: file[name] for name in file.files})
        return out
