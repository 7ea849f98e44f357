"""The parent's side: write a recording, run rivals on it chunk by chunk, read their answers."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

import quaddyn as qd

from . import environments

HERE = Path(__file__).resolve().parent


def plain_urdf(robot: qd.Robot) -> str:
    """The robot's URDF without geometry, and with one empty link `contact_<foot>` at each foot's centre.

    Args:
        robot: one with a free root and feet; its source was read and trusted by the package already.
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


class Rival:
    """A worker on one recording.

    Args:
        name: one of `environments.NAMES`.
        recording: path of the recording (see the package's head).

    Raises:
        environments.UnavailableError: its environment cannot be built, or the worker did not start.
    """

    def __init__(self, name: str, recording: Path) -> None:
        interpreter = environments.python(name)
        self._answer = Path(tempfile.mkdtemp()) / f"{name}.npz"
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [interpreter, "-W", "ignore", HERE / f"{name}_worker.py", recording, self._answer],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "HOME": str(Path.home())},
        )
        self._expect("ready")

    def run(self, first: int, last: int) -> None:
        """Run ticks first ... last - 1 once; returns when done."""
        self._say(f"{first} {last}")
        self._expect("done")

    def answer(self) -> dict[str, np.ndarray]:
        """End the worker and read what it found, times being the least over all runs."""
        self._say("")
        self._process.wait()
        with np.load(self._answer) as file:
            return {name: file[name] for name in file.files}

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
