"""Harness of the fuzzer: cases by seed, a monitored child process that loads them, and the outcomes.

A case is a mutant of a real URDF (`fuzz_mutants`).  The child loads it and returns properties of the robot;
the parent compares them with an independent reading of the file (`fuzz_oracle`).  The kernel limits the CPU time of
the child, so that an endless loop ends with SIGXCPU; death by any other signal is a crash.

As a script, this file is the child process.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import pickle
import random
import re
import resource
import select
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import IO, Any
from xml.etree import ElementTree

import fuzz_mutants
import fuzz_oracle
import numpy as np

CPU_LIMIT = 5.0  # [s]; more CPU time of the child for one case is a hang
WALL_LIMIT = 60.0  # [s]; a child without an answer for this time hangs, too (a pipe without writer)
MEMORY_LIMIT = 8 << 30  # [byte] of address space

#: Function that returns the kind and the bytes of a mutant.
Mutate = Callable[[bytes, random.Random], tuple[str, bytes]]


# -- cases ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Base:
    """A real URDF: bytes, requested root joint, and doubts before any mutation."""

    name: str
    data: bytes
    root: str | None
    doubts: frozenset[str]


@dataclass(frozen=True)
class Case:
    """One mutant: `kind` of mutation, original file, and whether it is loaded from a "path" or as "text"."""

    index: int
    kind: str
    base: Base
    root: str | None
    via: str
    data: bytes


@functools.cache
def bases() -> tuple[Base, ...]:
    """All URDFs of example-robot-data and of this project that have links."""
    return tuple(filter(None, itertools.starmap(base_of, files())))


def files() -> list[tuple[str, bytes]]:
    """Every URDF of example-robot-data and of this project: name and content."""
    folder = _example_robot_data()
    paths = sorted(folder.rglob("*.urdf")) + sorted((Path(__file__).parents[1] / "robots").glob("*.urdf"))
    return [
        (str(path.relative_to(folder)) if path.is_relative_to(folder) else f"robots/{path.name}", path.read_bytes())
        for path in paths
    ]


#: Cached readings of real files.
reading_of = functools.cache(fuzz_oracle.read)


@functools.cache
def base_of(name: str, data: bytes) -> Base | None:
    """A file to mutate; None if it has no links."""
    reading = reading_of(data, None)
    if not reading.links:
        return None
    # A massless base ("world") cannot float, and a single body cannot be fixed; other files use the default.
    root = "fixed" if reading.bodies and reading.bodies[0].mass <= 0 else None if reading.moving else "free"
    doubts = reading_of(data, root).doubts
    # Doubts about the physics are those of the mutant.
    known = frozenset(d for d in doubts if not d.startswith(("body", "mass matrix", "massless", "nothing")))
    return Base(name, data, root, known)


def _example_robot_data() -> Path:
    files = metadata.files("example-robot-data") or []
    for file in files:
        parts = file.parts
        if "example-robot-data" in parts and "robots" in parts:
            return Path(str(file.locate())).parents[len(parts) - parts.index("robots") - 2]
    raise FileNotFoundError("example-robot-data has no robots")


def draw(count: int, seed: int, pool: Iterable[Base]) -> Iterator[Case]:
    """The first `count` cases of `seed`; each has its own generator and can be generated separately.

    Small files are drawn more often, in proportion to (4 KiB + size)^(-5/4): they load faster and mutations hit harder.
    """
    pool = tuple(pool)
    for index in range(count):
        yield drawn(index, seed, pool)


def drawn(index: int, seed: int, pool: tuple[Base, ...], mutate: Mutate = fuzz_mutants.mutate) -> Case:
    """One case of `seed`; see `draw`."""
    weights = [(4096 + len(b.data)) ** -1.25 for b in pool]
    rng = random.Random(f"{seed}:{index}")
    base = rng.choices(pool, weights)[0]
    kind, data = mutate(base.data, rng)
    root = base.root if base.root == "fixed" or rng.random() < 0.7 else rng.choice(("free", "fixed", "planar"))
    via = "text" if rng.random() < 0.3 and _is_text(data) else "path"
    return Case(index, kind, base, root, via, data)


def _is_text(data: bytes) -> bool:
    try:
        head = data.decode()[:200]
    except UnicodeDecodeError:
        return False
    told = re.search(r"encoding\s*=\s*[\"']([^\"']*)", head)
    return told is None or told.group(1).lower() in ("utf-8", "us-ascii")  # other encodings contradict a str


# -- child process ----------------------------------------------------------------------------------------------
def probe(robot: Any) -> dict[str, Any]:
    """Properties of a loaded robot: names, placements, mass properties, and internal errors (`wrong`)."""
    import pinocchio as pin

    model = robot.model
    data = model.createData()
    q = pin.neutral(model)
    for name in robot.joint_names:
        joint = model.joints[model.getJointId(name)]
        x = fuzz_oracle.coordinate(name, 0)
        if (joint.nq, joint.nv) == (1, 1):
            q[joint.idx_q] = x
        elif joint.nv == 1:
            q[joint.idx_q : joint.idx_q + 2] = np.cos(x), np.sin(x)
    pin.framesForwardKinematics(model, data, q)
    wrong, links, inertias = _physics(model, q), {}, {}
    for i, frame in enumerate(model.frames):
        if frame.type != pin.FrameType.BODY:
            continue
        if frame.name in links:
            wrong.append(f"link {frame.name!r} twice")
        links[frame.name] = data.oMf[i].homogeneous[:3].copy()
        body = frame.placement.actInv(model.inertias[frame.parentJoint])
        inertias[frame.name] = (body.mass, body.lever.copy(), body.inertia.copy())
    for name in ("lower", "upper", "effort_limits", "velocity_limits", "q_home", "damping", "friction", "armature"):
        values = getattr(robot, name)
        if np.isnan(values).any() or (name in ("q_home", "damping", "friction") and not np.isfinite(values).all()):
            wrong.append(f"{name} not finite: {values}")
    limits = {}
    for name in robot.joint_names:
        joint = model.joints[model.getJointId(name)]
        if joint.nq == 1:
            limits[name] = (float(robot.lower[joint.idx_q]), float(robot.upper[joint.idx_q]))
    return {
        "root": robot.root,
        "nv": int(model.nv),
        "mass": robot.mass,
        "joints": list(robot.joint_names),
        "links": links,
        "inertias": inertias,
        "limits": limits,
        "wrong": wrong,
        "geometry": _geometry(robot.tree, wrong) if robot.tree is not None else None,
        "notes": [str(f) for f in robot.report.findings] if robot.tree is not None else [],
        "findings": [str(w) for w in robot.report.warnings] if robot.tree is not None else [],
    }


def _physics(model: Any, q: Any) -> list[str]:
    import pinocchio as pin

    wrong: list[str] = []
    data = model.createData()
    rng = np.random.default_rng(0)
    for _ in range(2 if model.nv else 0):
        q = pin.integrate(model, q, rng.uniform(-1, 1, model.nv))
        v, tau = rng.uniform(-1, 1, model.nv), rng.uniform(-1, 1, model.nv)
        m = pin.crba(model, data, q).copy()
        m = np.triu(m) + np.triu(m, 1).T
        a = pin.aba(model, data, q, v, tau).copy()
        back, bias = pin.rnea(model, data, q, v, a).copy(), pin.nle(model, data, q, v).copy()
        if not all(np.isfinite(x).all() for x in (m, a, back, bias)):
            wrong.append("dynamics not finite")
            break
        scaled = fuzz_oracle.unit_diagonal(m)
        low = float(np.linalg.eigvalsh(scaled)[0])
        if not low > 1e-14:
            wrong.append(f"mass matrix singular: {low:.1e}")
            break
        scale = np.abs(tau).max() + np.abs(bias).max() + np.abs(m * a).max()
        if np.abs(back - tau).max() > 1e4 * np.finfo(float).eps / low * scale:
            wrong.append(f"RNEA(ABA(tau)) misses tau by {np.abs(back - tau).max():.1e}")
    return wrong


def _geometry(tree: Any, wrong: list[str]) -> dict[str, tuple[int, int]]:
    for link in tree.links:
        for geometry in (*link.visuals, *link.collisions):
            shape = geometry.shape
            sizes = np.hstack([getattr(shape, k) for k in ("radius", "length", "size", "scale") if hasattr(shape, k)])
            if type(shape).__name__ == "SphereShape" and geometry in link.collisions:
                sizes = sizes + (sizes == 0.0)  # a sphere of radius 0 is a point, with a warning
            if not (np.isfinite(sizes).all() and (sizes != 0).all() and (sizes > 0).all() | hasattr(shape, "scale")):
                wrong.append(f"geometry of {link.name!r} with sizes {sizes}")
    return {link.name: (len(link.visuals), len(link.collisions)) for link in tree.links}


def load_quaddyn(source: Path | str, root: str | None) -> Any:
    """The loader under test."""
    import quaddyn

    return quaddyn.load(source, root=root, mimic=False)  # the oracle treats every joint as independent


def load_pinocchio(source: Path | str, root: str | None) -> Any:
    """Pinocchio's importer with the same interface, whose errors the harness has to detect."""
    import pinocchio as pin

    text = source if isinstance(source, str) else source.read_text(errors="surrogateescape", encoding="utf-8")
    joint = {"planar": pin.JointModelPlanar, "fixed": None}.get(root or "free", pin.JointModelFreeFlyer)
    try:
        model = pin.buildModelFromXML(text, joint()) if joint else pin.buildModelFromXML(text)
    except ValueError as error:
        raise Refusal(str(error)) from error
    return SimpleNamespace(
        model=model,
        root=root or "free",
        tree=None,
        joint_names=[n for n in model.names if n not in ("universe", "root_joint")],
        mass=pin.computeTotalMass(model) + (float(model.inertias[0].mass) if not joint else 0.0),
        lower=model.lowerPositionLimit,
        upper=model.upperPositionLimit,
        effort_limits=np.abs(model.effortLimit),
        velocity_limits=model.velocityLimit,
        q_home=pin.neutral(model),
        damping=np.zeros(model.nv),
        friction=np.zeros(model.nv),
        armature=model.armature,
    )


def spin(source: Path | str, root: str | None) -> Any:
    """A loader that never returns, which the harness has to detect."""
    while True:
        pass


class Refusal(ValueError):
    """Replacement of ModelError for Pinocchio's importer."""


def load_bodies(source: Path | str, root: str | None) -> Any:
    """The loader under test, for robots with loops and mimic joints."""
    import quaddyn

    return quaddyn.load(source, root=root)


LOADERS = {"quaddyn": load_quaddyn, "bodies": load_bodies, "pinocchio": load_pinocchio, "spin": spin}


def mujoco_accepts(data: bytes) -> bool:
    """Whether MuJoCo's importer compiles the file without its shapes."""
    mujoco = importlib.import_module("mujoco")
    robot = ElementTree.fromstring(data)
    for link in robot.iter("link"):
        for child in [c for c in link if c.tag in ("visual", "collision")]:
            link.remove(child)
    options = ElementTree.SubElement(robot, "mujoco")
    ElementTree.SubElement(options, "compiler", fusestatic="true", balanceinertia="false", strippath="true")
    try:
        mujoco.MjModel.from_xml_string(ElementTree.tostring(robot, encoding="unicode"))
    except ValueError:
        return False
    return True


def _serve(loader: str, cpu_limit: float) -> None:
    """Main loop of the child: answers requests until the pipe closes."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):  # importers print to the standard streams
        os.dup2(silence, fd)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    while (request := _receive(requests)) is not None:
        verb, source, root = request
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + cpu_limit) + 1, hard))
        _send(answers, mujoco_accepts(source) if verb == "mujoco" else _attempt(loader, source, root))


def _attempt(loader: str, source: Path | str, root: str | None) -> dict[str, Any]:
    refusals: tuple[type[Exception], ...] = (Refusal,)
    if loader in ("quaddyn", "bodies"):
        import quaddyn

        refusals = (quaddyn.ModelError,)
    warnings.simplefilter("error")  # warnings count as foreign errors
    start = time.process_time()
    try:
        robot = LOADERS[loader](source, root)
    except refusals as error:
        answer: dict[str, Any] = {"verdict": "refused", "message": str(error)}
    except Exception as error:
        answer = {"verdict": "error", "message": f"{type(error).__name__}: {error}"[:2000]}
    else:
        answer = {"verdict": "loaded", "message": ""}
    answer["cpu"] = time.process_time() - start
    if answer["verdict"] == "loaded":
        answer["facts"] = importlib.import_module("fuzz_bodies" if loader == "bodies" else "fuzzing").probe(robot)
    return answer


def _send(stream: IO[bytes], item: object) -> None:
    data = pickle.dumps(item)
    stream.write(len(data).to_bytes(8, "big") + data)
    stream.flush()


def _receive(stream: IO[bytes]) -> Any:
    head = stream.read(8)
    return pickle.loads(stream.read(int.from_bytes(head, "big"))) if len(head) == 8 else None


class Child:
    """A child process that answers requests one at a time and is restarted when it dies."""

    def __init__(
        self, loader: str = "quaddyn", *, cpu_limit: float = CPU_LIMIT, wall_limit: float = WALL_LIMIT
    ) -> None:
        self.loader, self.cpu_limit, self.wall_limit = loader, cpu_limit, wall_limit
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, verb: str, source: object, root: str | None = None) -> Any:
        """The child's answer; a dict with verdict "crash" or "hang" if it gave none."""
        if self._process is None:
            command = [sys.executable, str(Path(__file__).resolve()), self.loader, str(self.cpu_limit)]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        _send(process.stdin, (verb, source, root))
        ready, _, _ = select.select([process.stdout], [], [], self.wall_limit)
        answer = _receive(process.stdout) if ready else None
        if answer is not None:
            return answer
        self.close(kill=not ready)
        code = process.returncode
        if not ready or code in (-signal.SIGXCPU, -signal.SIGKILL):
            return {"verdict": "hang", "message": f"no answer in {self.wall_limit} s" if not ready else "CPU time"}
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return {"verdict": "crash", "message": name}

    def close(self, *, kill: bool = False) -> None:
        """Ends the child process."""
        if (process := self._process) is None:
            return
        self._process = None
        if kill:
            process.kill()
        process.communicate()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(kill=kind is not None)


# -- outcomes ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Outcome:
    """Outcome of a case.

    `verdict` is "loaded", "refused", "error" (not a ModelError), "crash" or "hang"; `oracle` is "good", "doubtful"
    or "bad"; `misfits` lists errors of a loaded robot; `mujoco` is whether MuJoCo loads a file without faults,
    None if that was not tried.
    """

    case: Case
    verdict: str
    message: str
    oracle: str
    misfits: tuple[str, ...]
    cpu: float
    mujoco: bool | None = None
    reasons: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether the loader crashed, hung, raised a foreign error or returned a wrong robot."""
        return self.verdict in ("crash", "hang", "error") or bool(self.misfits)


def evaluate(case: Case, child: Child, folder: Path, *, ask_mujoco: bool = False) -> Outcome:
    """Loads a case in the `child` and compares the answer with the independent reading of the file."""
    reading = fuzz_oracle.read(case.data, case.root)
    oracle = "bad" if reading.faults else "good" if reading.good(case.base.doubts) else "doubtful"
    source: Path | str
    if case.via == "text":
        source = case.data.decode()
    else:
        source = folder / "mutant.urdf"
        source.write_bytes(case.data)
    answer = child.ask("load", source, case.root)
    verdict, cpu = answer["verdict"], answer.get("cpu", 0.0)
    if cpu > CPU_LIMIT:
        verdict = "hang"
    oracle_of = importlib.import_module("fuzz_bodies") if child.loader == "bodies" else fuzz_oracle
    wrong = tuple(oracle_of.misfits(case.data, answer["facts"])) if "facts" in answer else ()
    opinion = None
    if ask_mujoco and oracle != "bad":
        opinion = child.ask("mujoco", case.data) is True
    reasons = (*reading.faults, *sorted(set(reading.doubts) - case.base.doubts))
    return Outcome(case, verdict, answer["message"], oracle, wrong, cpu, opinion, reasons)


@dataclass
class OutcomeCounts:
    """Counts of outcomes of a campaign."""

    outcomes: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> bool:
        """Adds an outcome and returns whether it failed; only then the bytes of the mutant are kept."""
        failed = outcome.failed
        self.outcomes.append(outcome if failed else replace(outcome, case=replace(outcome.case, data=b"")))
        return failed

    def failures(self) -> list[Outcome]:
        """Crashes, hangs, errors other than ModelError, and impossible robots."""
        return [o for o in self.outcomes if o.failed]

    def figures(self) -> dict[str, float]:
        """Numbers of crashes, hangs, foreign errors, impossible robots; fraction of good mutants that load."""
        verdicts = Counter(o.verdict for o in self.outcomes)
        return {
            "cases": len(self.outcomes),
            "crashes": verdicts["crash"],
            "hangs": verdicts["hang"],
            "errors other than ModelError": verdicts["error"],
            "impossible robots accepted": sum(bool(o.misfits) for o in self.outcomes),
            "share of good mutants loaded": self.share(),
        }

    def share(self, mujoco: bool | None = None) -> float:
        """Fraction of good mutants that load; with `mujoco`, of those that MuJoCo loads, too."""
        good = [o for o in self.outcomes if o.oracle == "good" and (mujoco is None or o.mujoco is mujoco)]
        return sum(o.verdict == "loaded" for o in good) / len(good) if good else 1.0

    def table(self) -> str:
        """Acceptance by kind of mutation, one row each."""
        known = dict.fromkeys((*fuzz_mutants.KINDS, "stacked", *sorted({o.case.kind for o in self.outcomes})))
        kinds = [k for k in known if any(o.case.kind == k for o in self.outcomes)]
        lines = [
            f"{'mutation':26}{'cases':>7}{'good':>7}{'loaded':>8}{'doubtful':>10}{'loaded':>8}{'bad':>7}{'loaded':>8}"
        ]
        for kind in (*kinds, "all"):
            rows = [o for o in self.outcomes if kind in (o.case.kind, "all")]
            cells = [f"{kind:26}{len(rows):7}"]
            for oracle, width in (("good", 7), ("doubtful", 10), ("bad", 7)):
                part = [o for o in rows if o.oracle == oracle]
                cells.append(f"{len(part):{width}}{sum(o.verdict == 'loaded' for o in part):8}")
            lines.append("".join(cells))
        asked = [o for o in self.outcomes if o.mujoco]
        if asked:
            both = [o for o in asked if o.oracle == "good"]
            loaded = sum(o.verdict == "loaded" for o in asked)
            lines.append(f"MuJoCo accepts {len(asked)} files without a fault: {loaded} load")
            lines.append(f"The reader calls {len(both)} of these good too: {self.share(True):.1%} load")
        return "\n".join(lines)


if __name__ == "__main__":
    _serve(sys.argv[1], float(sys.argv[2]))
