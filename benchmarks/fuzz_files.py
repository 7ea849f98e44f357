"""Mutants of all files and messages other than URDF: the package reads them or raises its own errors.

    python benchmarks/fuzz_files.py --kinds meshes data --cases 1000 --seed 0

Each kind runs in a separate process, so that crashes are counted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from damaged_bytes import mutated, repacked

import quaddyn as qd
from quaddyn import identification
from quaddyn.compiler import object_cache
from quaddyn.errors import QuaddynError

#: Largest CPU time of a case [s].
LATE = 5.0
#: Largest growth of a process' memory while it reads its mutants [MB].
MOST_MEMORY = 500.0
#: Function that reads the bytes of a case; its exceptions are classified, its result is ignored.
Read = Callable[[bytes], object]


def as_file(path: Path, read: Callable[[Path], object]) -> Read:
    def answer(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return answer


# -- kinds: original data and their readers --------------------------------------------------------------------------
def meshes(folder: Path) -> Iterator[tuple[bytes, Read]]:
    from test_viewer import FILES

    from quaddyn.viewer.mesh import read_mesh

    for name, data in FILES.items():
        yield data, as_file(folder / name, lambda path: read_mesh(path, folder))


def data(folder: Path) -> Iterator[tuple[bytes, Read]]:
    robot, rng = qd.load("planar_3r"), np.random.default_rng(0)
    n = 6
    q, v, a = rng.normal(size=(n, robot.nq)), rng.normal(size=(n, robot.nv)), rng.normal(size=(n, robot.nv))
    samples = identification.Samples(q, v, a, rng.normal(size=(n, robot.nu)), {})
    for ending in ("csv", "npz"):
        path = folder / f"samples.{ending}"
        identification.save_samples(path, robot, samples)
        yield path.read_bytes(), as_file(path, lambda path: identification.load_samples(path, robot))


def dumps(folder: Path) -> Iterator[tuple[bytes, Read]]:
    robot, rng = qd.load("planar_3r"), np.random.default_rng(0)
    make = lambda: identification.Accumulator(robot)  # noqa: E731
    full, n = make(), 20
    q, v, a = rng.normal(size=(n, robot.nq)), rng.normal(size=(n, robot.nv)), rng.normal(size=(n, robot.nv))
    full.add(identification.Samples(q, v, a, rng.normal(size=(n, robot.nu)), {}))
    empty = make()
    yield full.dump(), empty.load


def logs(folder: Path) -> Iterator[tuple[bytes, Read]]:
    robot = qd.load("solo8")
    sim = qd.Simulation(robot)
    log = sim.run(lambda plant: np.zeros(robot.nu), 0.02)
    yield log.save(folder / "log.npz").read_bytes(), as_file(folder / "log.npz", type(log).load)


def srdfs(folder: Path) -> Iterator[tuple[bytes, Read]]:
    from test_capsules import URDF

    from quaddyn.kinematics import CapsuleModel

    robot = qd.load(URDF, root="fixed")
    full = CapsuleModel(robot)
    names = {tuple(sorted(full.capsules[i].link for i in pair)) for pair in full.pairs.tolist()}
    text = '<?xml version="1.0"?>\n<!-- pairs -->\n<robot name="arms">' + "".join(
        f'<disable_collisions link1="{one}" link2="{two}" reason="Never"/>' for one, two in sorted(names)
    )
    path = folder / "arms.srdf"

    def read(path: Path) -> None:
        model = CapsuleModel(robot, srdf=path)
        left = {tuple(sorted(model.capsules[i].link for i in pair)) for pair in model.pairs.tolist()}
        named = set(re.findall(r'link1="(\w+)" link2="(\w+)"', path.read_text(errors="replace", encoding="utf-8")))
        if left & {tuple(sorted(pair)) for pair in named} or not left <= names:
            raise AssertionError(f"pairs {left} are left where {named} are disabled")

    yield f"{text}</robot>".encode(), as_file(path, read)


def ticks(folder: Path) -> Iterator[tuple[bytes, Read]]:
    from quaddyn.wbc import replay

    robot = qd.load("solo8")
    wbc, dynamics = qd.WholeBodyController(robot), qd.Dynamics(robot)
    wbc.compute(dynamics.update(robot.q_home, np.zeros(robot.nv)))
    wbc.save_tick(folder / "tick.npz")
    yield (folder / "tick.npz").read_bytes(), as_file(folder / "tick.npz", replay)


def caches(folder: Path) -> Iterator[tuple[bytes, Read]]:
    key, code = object_cache.hash_parts("some", "thing"), bytes(range(256)) * 8
    object_cache.write_object(folder / "entry.bin", key, code)

    def read(path: Path) -> None:
        if object_cache.read_object(path, key) not in (None, code):
            raise AssertionError("other bytes than those that were kept")

    yield (folder / "entry.bin").read_bytes(), as_file(folder / "entry.bin", read)


def frames(folder: Path) -> Iterator[tuple[bytes, Read]]:
    from quaddyn.viewer import Viewer
    from quaddyn.viewer.server import _Client

    viewer = Viewer(qd.load("planar_3r"))
    client = _Client.__new__(_Client)  # tornado calls this object with the content of a frame
    client._may_control, client._server = True, viewer._server

    def send(message: bytes) -> None:
        client.on_message(message if len(message) % 2 else message.decode("utf-8", "replace"))
        if not all(-1.0 <= axis <= 1.0 for axis in client.axes) or not all(isinstance(key, str) for key in client.keys):
            raise AssertionError("what was heard is no command")

    for text in (
        '{"keys": ["w", "ArrowUp"], "axes": [0.5, -0.1, 0.0], "paused": true, "step": 1, "slide": ["speed", 0.3]}',
        '["w", "a"]',
        '{"axes": [1' + "0" * 400 + ', 0, 0], "slide": ["a", 1e400]}',
        "[" * 3000,
    ):
        yield text.encode(), send


KINDS = {each.__name__: each for each in (meshes, data, dumps, logs, srdfs, ticks, caches, frames)}


def campaign(kind: str, cases: int, seed: int) -> dict[str, object]:
    """Runs the cases in this process and counts their outcomes."""

    def late(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGVTALRM, late)
    tally: Counter[str] = Counter()
    foreign: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        bases = list(KINDS[kind](Path(name)))
        for content, read in bases:  # the first reads import and compile
            with contextlib.suppress(QuaddynError, OSError):
                read(content)
        start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for case in range(cases):
            rng = np.random.default_rng([seed, case])
            content, read = bases[case % len(bases)]
            packed = content[:2] == b"PK" and case % 4
            mutant = repacked(content, rng) if packed else mutated(content, rng)
            signal.setitimer(signal.ITIMER_VIRTUAL, LATE)
            try:
                read(mutant)
                verdict = "read"
            except (QuaddynError, OSError):
                verdict = "refused"
            except TimeoutError:
                verdict = "late"
            except Exception as error:
                verdict = "foreign"
                foreign.append(f"case {case}: {type(error).__name__}: {error}"[:300])
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
            tally[verdict] += 1
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) / 1024.0
    return {"kind": kind, "cases": cases, **tally, "grown [MB]": round(grown, 1), "errors": foreign[:10]}


def run_in_process(kind: str, cases: int, seed: int) -> dict[str, object]:
    """Runs the cases in a separate process; death by a signal is an error."""
    words = [sys.executable, __file__, "--kinds", kind, "--cases", str(cases), "--seed", str(seed), "--here"]
    done = subprocess.run(words, capture_output=True, encoding="utf-8")
    if done.returncode < 0 or not done.stdout.strip():
        return {"kind": kind, "signal": -done.returncode, "errors": [done.stderr[-500:]]}
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def sound(found: dict[str, object]) -> bool:
    """Whether there was no signal, no late case, no foreign error, and bounded memory."""
    return not ({"signal", "late", "foreign"} & set(found)) and float(str(found["grown [MB]"])) <= MOST_MEMORY


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="*", choices=tuple(KINDS), default=tuple(KINDS))
    parser.add_argument("--cases", type=int, default=1000, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--here", action="store_true", help="in this process, one kind")
    options = parser.parse_args()
    every = True
    for kind in options.kinds:
        found = (campaign if options.here else run_in_process)(kind, options.cases, options.seed)
        print(json.dumps(found), flush=True)
        every = every and sound(found)
    return 0 if every else 1


if __name__ == "__main__":
    sys.exit(main())
