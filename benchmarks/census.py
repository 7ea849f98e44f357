"""Loads all robot files below a folder and compares their mass matrices with those of Pinocchio and MuJoCo.

Every URDF, xacro and MJCF file is loaded.  A row lists root joint, legs and number of warnings of a file, the CPU time
of loading, and the largest difference of its mass matrix from that of Pinocchio's importer (URDF) or of MuJoCo (MJCF)
at 3 random configurations, divided by the largest entry ("-" if that importer rejects the file or builds another tree
from it).  Rejected files are counted by the class of the reason; copies of a file are counted once.  With ``--trot``
every quadruped rises and trots for 2.5 s in both plants.  The number of legs is compared with `census_labels.json`,
which lists the legs of public robot files by the beginning of their SHA-256; they were counted by reading the files,
without this package.  A difference is wrong unless a warning says that the base frame is rotated, or a note that no
limb has the number of joints of a leg, or that legs are behind a long spine.  Every rejected file is given to MuJoCo's
compiler, without shapes if it cannot open their files; a rejection is wrong if MuJoCo accepts the file with moving
joints, except for limits of the package in `LIMITS`.  An assumption is silent if the report does not mention it
(`find_silent_guesses`).  ``--check`` exits with 1 if loading a file takes more than 1 s or raises an exception that is
not a `QuaddynError`, if a mass matrix differs by more than 1e-10, if a number of legs or a rejection is wrong, if an
assumption is silent, or if the median number of warnings is above 3.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import re
import statistics
import sys
import time
import warnings
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pinocchio as pin
from rich.console import Console
from rich.table import Table

import quaddyn as qd
from quaddyn.locomotion import LocomotionController, LocomotionMode
from quaddyn.operating_system import cpu_name
from quaddyn.robot.leg_recognition import GUESS_RATIO, GUESS_SCORE
from quaddyn.simulation.mujoco_model import make_coordinate_map
from quaddyn.urdf.meshes import MeshFinder
from quaddyn.urdf.mjcf import compile_mjcf

#: Reasons for which the package rejects files that MuJoCo accepts; see docs/statuses.md.
LIMITS = ("tendon with inertia", "several robots in one scene")
#: Findings that explain a number of legs other than that of the label.
EXPLAINED_LEGS = "the base frame is rotated|no limb on the trunk is a chain|behind a spine of"
#: Distance between the heights of feet at home above which they do not stand on one ground [m].
LEVEL_TOLERANCE = 1e-3
#: Suffixes of robot files.
ENDINGS = (".urdf", ".xacro", ".xml")
#: Maximum CPU time of loading [s], relative difference of mass matrices, and median number of warnings.
MAX_SECONDS, MAX_DIFFERENCE, MAX_WARNINGS = 1.0, 1e-10, 3
#: Number of legs and name of known robots, by the first 16 hexadecimal digits of the SHA-256 of their files.
LABELS = Path(__file__).with_name("census_labels.json")
STATES = 3  # configurations in which mass matrices are compared
#: Ticks of 2 ms: until a robot has risen at the latest, until it has its speed, and during which its path is measured.
MAX_RISING_TICKS, SPEED_TICKS, TROT_TICKS = 2500, 250, 1000
#: Classes of reasons for rejections, by patterns in the messages; the first that fits counts.
REASONS = {
    "no robot in the file: macros only, or a part of a scene": r"has no <link>|has no <body>|no moving joint|<robot>",
    "moving body without mass": r"has no mass|moves no mass|diagonal entry",
    "impossible inertia": r"principal moments|inertia too large|not positive definite",
    "file that is included or weighed is missing or outside the folder": r"package roots|is not found|No such file",
    "rejected by MuJoCo": r"MuJoCo rejects",
    "rejected by xacro": r"xacro rejects|not expanded",
    "tendon with inertia": r"tendon",
    "several robots in one scene": r"may be the robot",
    "contradictory names, limits or mimics": r"does not exist|the same name|must not be negative|is greater than",
    "loop that does not close": r"does not close|loops to close",
    "joint type that URDF does not have": r"is not a URDF joint type",
    "missing, malformed or excessive number or element": (
        r"well-formed|is missing|has a second|expected \S+ number|finite decimal|joint type|supported shape|exceeds"
    ),
}


@dataclass
class Row:
    """Results of one file.

    Attributes:
        file: path relative to the folder.
        outcome: "loaded", or the reason for the rejection.
        root: type of the root joint.
        legs: names of the feet.
        warned: number of warnings.
        seconds: CPU time of loading [s].
        difference: relative difference of the mass matrix from Pinocchio or MuJoCo; None if not compared.
        trot: results of `simulate_trot` in both plants.
        expected: number of legs in `LABELS`; None if the file is not listed or its report says why it has no legs.
        mujoco: "accepts" or the error of MuJoCo's compiler for a rejected file; "-" for a loaded one.
        silent: assumptions that the report does not mention.
    """

    file: str
    outcome: str = "loaded"
    root: str = "-"
    legs: str = "-"
    warned: int = 0
    seconds: float = 0.0
    difference: float | None = None
    trot: str = "-"
    expected: int | None = None
    mujoco: str = "-"
    silent: str = ""

    @property
    def leg_count(self) -> int:
        """Number of feet."""
        return 0 if self.legs in ("-", "none") else len(self.legs.split())

    @property
    def has_wrong_legs(self) -> bool:
        """Whether the number of legs differs from the label."""
        return self.outcome == "loaded" and self.expected not in (None, self.leg_count)

    @property
    def is_wrongly_rejected(self) -> bool:
        """Whether the file is rejected for a reason that is no limit of the package, and MuJoCo accepts it."""
        return self.mujoco == "accepts" and self.outcome not in LIMITS


def error_class(error: qd.QuaddynError) -> str:
    """Returns the class of an error in `REASONS`, or its message without names and numbers."""
    message = str(error)
    for name, pattern in REASONS.items():
        if re.search(pattern, message):
            return name
    return re.sub(r"'[^']*'|\"[^\"]*\"|<[^>]*>|[-+]?\d[\d.e+-]*|^\S+: ", "_", message.splitlines()[0])[:90]


def compare_mass_matrices(robot: qd.Robot, other_model: pin.Model) -> float | None:
    """Returns the relative difference of mass matrices from those of another importer; None if the trees differ."""
    model = robot.model
    if robot.coupling is not None or (other_model.nq, other_model.nv) != (model.nq, model.nv):
        return None
    if list(other_model.names)[-model.njoints + 2 :] != list(model.names)[2:]:
        return None
    # urdfdom drops an <inertia> in which a number ends with a line break.
    if any(a.inertia.any() and not b.inertia.any() for a, b in zip(model.inertias, other_model.inertias, strict=True)):
        return None
    rng, max_difference = np.random.default_rng(0), 0.0
    for _ in range(STATES):
        q = pin.integrate(model, pin.neutral(model), rng.uniform(-1.0, 1.0, model.nv))
        mass, other_mass = (np.triu(pin.crba(each, each.createData(), q)) for each in (model, other_model))
        # Rotor inertias are an extension of the file format that other importers do not read.
        other_mass += np.diag(model.armature - other_model.armature)
        max_difference = max(max_difference, float(np.abs(mass - other_mass).max() / max(np.abs(mass).max(), 1e-12)))
    return max_difference


def compare_with_pinocchio(robot: qd.Robot, path: Path) -> float | None:
    """Returns the relative difference of mass matrices from Pinocchio's importer; None if it rejects the file."""
    if path.suffix != ".urdf" or robot.root == "planar":
        return None
    try:
        roots = [pin.JointModelFreeFlyer()] if robot.root == "free" else []
        return compare_mass_matrices(robot, pin.buildModelFromUrdf(str(path), *roots))
    except (RuntimeError, ValueError):
        return None


def compare_with_mujoco(robot: qd.Robot, path: Path, packages: list[Path]) -> float | None:
    """Returns the relative difference of mass matrices from MuJoCo; None if the file has other joints."""
    import mujoco

    finder = MeshFinder(path.parent, tuple(packages), confined=False)
    model, _ = compile_mjcf(path.read_bytes(), path.name, finder)
    kinds = mujoco.mjtJoint
    if robot.coupling is not None or model.nv != robot.nv or (model.jnt_type == int(kinds.mjJNT_BALL)).any():
        return None
    free = robot.root == "free"
    if robot.root == "planar" or set(robot.joint_names) != {model.joint(j).name for j in range(int(free), model.njnt)}:
        return None
    if free:  # rotor inertia of a free joint is left out, with a warning
        model.dof_armature[:6] = 0.0
    data, rng, max_difference = mujoco.MjData(model), np.random.default_rng(0), 0.0
    way = make_coordinate_map(model, robot, root_joint=0 if free else "root_joint")
    for _ in range(STATES):
        q = pin.integrate(robot.model, pin.neutral(robot.model), rng.uniform(-1.0, 1.0, robot.nv))
        T, full = np.zeros((model.nv, robot.nv)), np.zeros((model.nv, model.nv))  # qvel = T v
        for k, e in enumerate(np.eye(robot.nv)):
            way.to_mujoco(q, e, data.qpos, T[:, k])
        mujoco.mj_forward(model, data)
        for row, e in zip(full, np.eye(model.nv), strict=True):
            mujoco.mj_mulM(model, data, row, e)
        mass = qd.Dynamics(robot).crba(q)
        max_difference = max(max_difference, float(np.abs(T.T @ full @ T - mass).max() / np.abs(mass).max()))
    return max_difference


def compile_in_mujoco(path: Path) -> str:
    """Returns "accepts" if MuJoCo compiles a file with moving joints, otherwise the reason why it does not."""
    import mujoco

    try:
        try:
            model = mujoco.MjModel.from_xml_path(str(path))
        except ValueError as error:
            if not re.search("opening file|mesh file|mesh volume", str(error)):
                raise
            root = ElementTree.parse(path).getroot()
            for link in root.iter("link"):
                for shape in (*link.findall("visual"), *link.findall("collision")):
                    link.remove(shape)
            model = mujoco.MjModel.from_xml_string(ElementTree.tostring(root, encoding="unicode"))
    except (ValueError, ElementTree.ParseError, UnicodeDecodeError) as error:
        return str(error).splitlines()[0]
    return "accepts" if model.nv else "no moving joint"


def find_silent_guesses(robot: qd.Robot) -> list[str]:
    """Returns assumptions on legs, contacts, root joint and home stance that no finding of the report mentions."""
    silent, findings = [], robot.report.findings
    verdicts = [finding for finding in findings if finding.where.element == "legs"]
    scores = [[float(x) for x in re.findall(r"score (-?\d+\.\d+)", finding.reason)] for finding in verdicts]
    if not verdicts and robot.joint_names:
        silent.append("legs")
    for finding, (best, *others) in ((f, s) for f, s in zip(verdicts, scores, strict=True) if s and robot.legs):
        if finding.level != "warning" and (best < GUESS_SCORE or (others and others[0] > GUESS_RATIO * best + 0.01)):
            silent.append(f"legs of score {best}")
    said = " ".join(finding.reason for finding in findings if "contact" in finding.reason)
    for name, leg in robot.legs.items():
        guessed = re.search("center of mass|disc of|a point", robot.report.provenance[f"{name}.radius"])
        if (guessed or leg.foot.radius == 0.0) and not re.search(rf"\b{name}\b", said):
            silent.append(f"contact of {name}")
    if not any(re.search("root|base", finding.reason) for finding in findings):
        silent.append("root")
    if len(robot.legs) > 1 and robot.root == "free" and not any(f.where.element == "home stance" for f in findings):
        state = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
        heights = [state.placement(name).translation[2] - leg.foot.radius for name, leg in robot.legs.items()]
        if max(np.abs(heights)) > LEVEL_TOLERANCE and not any("q_home" in str(finding) for finding in findings):
            silent.append("home")
    return silent


def simulate_trot(robot: qd.Robot, plant_class: type[qd.Simulation | qd.MujocoPlant]) -> str:
    """Simulates a trot and returns "trots", "slow", "falls", "does not rise", or "rejected" with the reason."""
    try:
        controller = LocomotionController(robot, dt=2e-3)
    except qd.QuaddynError as error:
        return "rejected: wheels" if "wheels" in str(error) else "rejected: legs"
    plant, dynamics = plant_class(robot, dt=2e-3), qd.Dynamics(robot)
    speed, start, ticks = 0.25 * controller.morphology.speed_scale, np.zeros(2), 0
    for _ in range(MAX_RISING_TICKS + SPEED_TICKS + TROT_TICKS):
        state = dynamics.update(plant.q, plant.v)
        command = controller.compute(state, (speed if ticks > 0 else 0.0, 0.0, 0.0))
        if command.mode is LocomotionMode.FALLEN:
            return "falls"
        ticks += command.mode is LocomotionMode.STANDING or ticks > 0
        if ticks == SPEED_TICKS:
            start = np.array(plant.q[:2])
        elif ticks == SPEED_TICKS + TROT_TICKS:
            moved = float(np.linalg.norm(np.array(plant.q[:2]) - start))
            return "trots" if moved > 0.5 * speed * TROT_TICKS * 2e-3 else "slow"
        plant.step(command.tau)
    return "does not rise"


def load_file(path: Path, folder: Path, packages: list[Path], trot: bool, labels: dict[str, tuple[int, str]]) -> Row:
    """Loads a file and returns its results."""
    row, start = Row(str(path.relative_to(folder))), time.process_time()
    try:
        robot = qd.load(path, packages=packages)
    except qd.QuaddynError as error:
        row.outcome = error_class(error)
    except Exception as error:  # the census reports exceptions that are not a QuaddynError
        row.outcome = f"UNEXPECTED {type(error).__name__}: {error}"
    row.seconds = time.process_time() - start
    if row.outcome != "loaded" and path.suffix != ".xacro":
        row.mujoco = compile_in_mujoco(path)
    if row.outcome == "loaded":
        row.root, row.legs = robot.root, " ".join(robot.feet) or "none"
        found = [finding for finding in robot.report.findings if finding.level == "warning"]
        row.warned = len(found)
        label = labels.get(hashlib.sha256(path.read_bytes()).hexdigest()[:16])
        reasons = " ".join(finding.reason for finding in robot.report.findings)
        if label is not None and not re.search(
            "the base frame is rotated|no limb on the trunk is a chain|behind a spine of", reasons
        ):
            row.expected = label[0]
        row.silent = ", ".join(find_silent_guesses(robot))
        is_mjcf = path.suffix == ".xml"
        row.difference = compare_with_mujoco(robot, path, packages) if is_mjcf else compare_with_pinocchio(robot, path)
        if trot and len(robot.feet) == 4 and robot.root == "free":
            row.trot = " / ".join(simulate_trot(robot, plant) for plant in (qd.Simulation, qd.MujocoPlant))
    return row


def _kind(row: Row) -> str:
    """Returns the kind of a loaded robot by its legs and root."""
    legs = row.leg_count
    name = {0: "no legs", 1: "one leg", 2: "two legs", 4: "four legs"}.get(legs, f"{legs} legs")
    return f"{name}, {row.root} root"


def find_robot_files(folder: Path) -> list[Path]:
    """Returns the robot files below a folder, sorted by name; of files with equal content only the first."""
    files_by_hash: dict[bytes, Path] = {}
    for path in sorted(p for p in folder.rglob("*") if p.suffix in ENDINGS and p.is_file()):
        data = path.read_bytes()
        if b"<robot" in data or b"<mujoco" in data:
            files_by_hash.setdefault(hashlib.sha256(data).digest(), path)
    return sorted(files_by_hash.values())


def main() -> int:
    """Prints the table; returns 1 if a requirement of `--check` is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder that is searched")
    parser.add_argument("--packages", type=Path, action="append", default=[], help="folder of ROS packages; repeatable")
    parser.add_argument("--trot", action="store_true", help="simulate a trot of each quadruped")
    parser.add_argument("--csv", type=Path, default=None, help="file to which all rows are written")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    files, rows = find_robot_files(options.folder), []
    labels = json.loads(LABELS.read_text(encoding="utf-8"))
    for i, path in enumerate(files):
        print(f"\r{i} of {len(files)}", end="", file=sys.stderr, flush=True)
        rows.append(load_file(path, options.folder, options.packages, options.trot, labels))
    print(file=sys.stderr)
    if not rows:
        print(f"{options.folder}: contains no robot file")
        return 1
    console, table = Console(width=150), Table("file", "root", "legs", "warnings", "s", "M", "trot")
    loaded = [row for row in rows if row.outcome == "loaded"]
    for row in loaded:
        difference = "-" if row.difference is None else f"{row.difference:.0e}"
        table.add_row(row.file, row.root, row.legs, str(row.warned), f"{row.seconds:.2f}", difference, row.trot)
    console.print(table)
    for reason, count in Counter(row.outcome for row in rows if row.outcome != "loaded").most_common():
        console.print(f"{count:4d} rejected: {reason}", soft_wrap=True, highlight=False)
    for name, count in Counter(_kind(row) for row in loaded).most_common():
        console.print(f"{count:4d} loaded: {name}", soft_wrap=True, highlight=False)
    for name, count in Counter(row.trot for row in loaded if row.trot != "-").most_common():
        console.print(f"{count:4d} quadrupeds, embedded / MuJoCo: {name}", soft_wrap=True, highlight=False)
    wrong = [row for row in loaded if row.has_wrong_legs]
    known = sum(row.expected is not None for row in loaded)
    console.print(f"{len(wrong):4d} of {known} labeled files: wrong number of legs", highlight=False)
    for row in wrong:
        console.print(f"     {row.file}: legs {row.legs}, expected {row.expected}", soft_wrap=True, highlight=False)
    refused = Counter("accepts" if row.mujoco == "accepts" else "rejects" for row in rows if row.mujoco != "-")
    console.print(f"{refused['rejects']:4d} rejected files: MuJoCo rejects them, or finds no moving joint")
    for reason, count in Counter(row.outcome for row in rows if row.mujoco == "accepts").most_common():
        console.print(f"{count:4d} rejected files that MuJoCo accepts: {reason}", soft_wrap=True, highlight=False)
    silent = [row for row in loaded if row.silent]
    console.print(f"{len(silent):4d} files with silent assumptions", highlight=False)
    for row in (*silent, *(row for row in rows if row.is_wrongly_rejected)):
        console.print(f"     {row.file}: {row.silent or row.outcome}", soft_wrap=True, highlight=False)
    median_warnings = statistics.median(row.warned for row in loaded) if loaded else 0
    compared = [row.difference for row in loaded if row.difference is not None]
    slow = [row.file for row in rows if row.seconds > MAX_SECONDS]
    print(
        f"{len(rows)} files, {len(loaded)} loaded, {sum(row.warned > 0 for row in loaded)} with warnings, median of "
        f"warnings {median_warnings:g}, largest difference of M "
        f"{max(compared, default=0.0):.1e} in {len(compared)} files, longest load "
        f"{max(row.seconds for row in rows):.2f} s of CPU time, {sum(row.seconds for row in rows):.0f} s in all, "
        f"{cpu_name()}"
    )
    if options.csv is not None:
        with options.csv.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(asdict(rows[0])))
            writer.writeheader()
            writer.writerows(map(asdict, rows))
    missed = [f"slow: {', '.join(slow)}"] if slow else []
    missed += [row.outcome for row in rows if row.outcome.startswith("UNEXPECTED")]
    missed += [f"M of {row.file}" for row in loaded if (row.difference or 0.0) > MAX_DIFFERENCE]
    missed += [f"{len(wrong)} files with a wrong number of legs"] if wrong else []
    missed += [f"{len(silent)} files with silent assumptions"] if silent else []
    missed += [f"rejected: {row.file}" for row in rows if row.is_wrongly_rejected]
    missed += ["median of warnings"] if median_warnings > MAX_WARNINGS else []
    if missed:
        print("missed:", "; ".join(missed))
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
