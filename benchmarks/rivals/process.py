"""Parent process of the workers: writes recordings, runs workers on chunks of ticks, and reads their answers."""

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
    """The robot's URDF without geometry, and with one empty link `contact_<foot>` at each foot's center.

    Args:
        robot: one with a free root and feet; its source was validated by the package.
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


def share_cpu(turn: int, workers: Iterable[Worker]) -> None:
    """Pins this process and the workers to one processor, a different one each turn.

    What is compared runs in turn, so one is enough; two may differ by half, for as long as something else keeps one
    busy.  The least time over several turns is then the least over all processors, for everyone.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    cpus = sorted(CPUS)
    for pid in (0, *(worker.pid for worker in workers)):
        os.sched_setaffinity(pid, {cpus[turn % len(cpus)]})


class Worker:
    """A process that runs ticks on request.

    Args:
        command: command of the process, which prints "ready" after its start.
        env: its environment.

    Raises:
        environments.UnavailableError: it ended before it was ready.

    Attributes:
        pid: of the process.
    """

    def __init__(self, command: Sequence[str | Path], env: Mapping[str, str]) -> None:
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, encoding="utf-8", env=env
        )
        self.pid = self._process.pid
        self._expect("ready")

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _expect(self, word: str) -> None:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            if line.strip() == word:
                return
        self._errors.seek(0)
        raise environments.UnavailableError(f"worker ended: {self._errors.read()[-400:]}")

    def _end(self) -> None:
        self._say("")
        self._process.wait()


class Rival(Worker):
    """A worker of another package on one recording.

    Args:
        name: one of `environments.NAMES`.
        recording: path of the recording (see the package's head).

    Raises:
        environments.UnavailableError: its environment cannot be built, or the worker did not start.
    """

    def __init__(self, name: str, recording: Path) -> None:
        interpreter = environments.python(name)
        self._answer = Path(tempfile.mkdtemp()) / f"{name}.npz"
        super().__init__(
            [interpreter, "-W", "ignore", HERE / f"{name}_worker.py", recording, self._answer],
            {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "HOME": str(Path.home())},
        )

    def run(self, first: int, last: int) -> None:
        """Run ticks first ... last - 1 once; returns when done."""
        self._say(f"{first} {last}")
        self._expect("done")

    def answer(self) -> dict[str, np.ndarray]:
        """End the worker and read what it found, times being the least over all runs."""
        self._end()
        with np.load(self._answer) as file:
            return {name: file[name] for name in file.files}


class Checkout(Worker):
    """Worker with the controller of another checkout of this package, on several recordings.

    Args:
        folder: top of the checkout, whose `quaddyn` is imported.
        recordings: folder of `0.npz`, `1.npz` and so on; answers are put beside them.
        label: of the answers' files.

    Raises:
        environments.UnavailableError: the worker did not start, or found another `quaddyn`.
    """

    def __init__(self, folder: Path, recordings: Path, label: str) -> None:
        self._answers, self._label = recordings, label
        env = os.environ | {"PYTHONPATH": str(folder.resolve()), "OMP_NUM_THREADS": "1"}
        script = HERE / "checkout_worker.py"
        super().__init__([sys.executable, script, folder.resolve(), recordings, label], env)

    def run(self, recording: int, first: int, last: int) -> None:
        """Run ticks first ... last - 1 of one recording once; returns when done."""
        self._say(f"{recording} {first} {last}")
        self._expect("done")

    def answers(self) -> list[dict[str, np.ndarray]]:
        """End the worker and read what it found, recording by recording; times are the least over all runs."""
        self._end()
        out = []
        for path in sorted(self._answers.glob(f"*.{self._label}.npz"), key=lambda path: int(path.name.split(".")[0])):
            with np.load(path) as file:
                out.append({name: file[name] for name in file.files})
        return out
