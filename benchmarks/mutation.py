"""How many one-line faults the tests notice: mutants of each room by cosmic-ray, in a copy of the checkout.

    python benchmarks/mutation.py urdf robot --sample 30 --seed 0
    python benchmarks/mutation.py --list

Of each room, a folder of the package, so many mutants are drawn, each with a seed that is printed: a line of the room
first, so that long modules count for more, then a mutant of its module.  Each is judged by the room's own quick tests,
cheapest first, up to the first that fails.  Prints the share that is killed, and each survivor with its place and what
was changed.  Those that change nothing a user could see are left out: annotations, docstrings, and what `EQUIVALENT`
lists with its reason.  Compiled functions run as Python where that is said.  Needs the extra "nightly".
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
#: Times that a mutant's tests may take of what they take without one, and seconds at least.
SLOWER, TIMEOUT = 8.0, 60.0


class Room(NamedTuple):
    """What is mutated, and the tests that should notice, cheapest first; `only` is pytest's ``-k``."""

    path: str
    tests: tuple[str, ...]
    only: str = ""
    interpreted: bool = False


ROOMS = {
    "urdf": Room("quaddyn/urdf", ("urdf", "load_oddities", "noticed", "traps"), "not demo and not small_stacks"),
    "robot": Room(
        "quaddyn/robot", ("surface_conventions", "robot_saving", "load_oddities", "guard", "load", "legs")
    ),
    "dynamics": Room("quaddyn/dynamics", ("traps_api", "dynamics", "kernels_export")),
    "kinematics": Room(
        "quaddyn/kinematics",
        ("kinematics_inverse", "noticed", "two_link_leg", "capsules", "surface_conventions", "kinematics",
         "leg_command"),
        "not demo",
    ),
    "kernels": Room(
        "quaddyn/kernels", ("noticed", "kernels"), "kernel or quotient or textbook or traced_kin or graph or key"
    ),
    "compiling": Room("quaddyn/compiling", ("compiling_calls", "compiling_refusals", "compiling")),
    "hierarchy": Room(
        "quaddyn/hierarchy",
        tuple(f"hierarchy{part}" for part in ("_compiled", "", "_solver", "_hostile", "_core", "_recorded")),
    ),
    "wbc": Room("quaddyn/wbc", ("wbc_explain", "wbc_tick", "wbc_tasks", "wbc_traps", "joint_friction")),
    "contact": Room("quaddyn/contact", ("contact_set", "compliant", "contact_solvers", "noticed"), "not demo"),
    "control": Room("quaddyn/control", ("control", "control_trunk", "control_force", "control_impedance")),
    "locomotion": Room("quaddyn/locomotion", ("noticed", "foothold_map", "landing", "locomotion_gait",
        "locomotion"), "not demo"),
    "estimation": Room("quaddyn/estimation", ("elevation_map", "estimation", "base_estimator", "payload")),
    "simulation": Room("quaddyn/simulation", ("surface_logs", "simulation_sensors", "simulation_energy", "rollouts",
        "simulation", "simulation_compiled", "mujoco_plant", "plants")),
    "identification": Room(
        "quaddyn/identification", ("surface_identification", "noticed", "identification_misuse",
        "identification_base", "identification"),
        "not demo",
    ),
    "runtime": Room("quaddyn/runtime", ("runtime_interfaces", "runtime_safety", "runtime_udp", "runtime_ros2",
        "runtime_operators", "runtime_unitree", "runtime_process", "runtime_log", "preflight", "runtime_loop")),
    "campaigns": Room("quaddyn/campaigns", ("campaign_kinds", "campaign_statistics", "campaigns", "campaign_trials",
        "campaigns_cli", "datasheet")),
    "reference": Room("quaddyn/reference", ("reference_reader", "reference")),
    "agreement": Room(
        "quaddyn/agreement", ("agreement",), "mutant or table or opinion or state or unchanged or differences"
    ),
    "viewer": Room("quaddyn/viewer", ("viewer_meshes", "hostile_files", "viewer")),
    "demo": Room("quaddyn/demo", ("noticed", "surface_commands", "demo"), "demo or velocity or never or plot"),
    "cli": Room("quaddyn/cli", ("surface_cli", "surface_commands", "exit_codes", "leg_command", "cli", "doctor",
        "campaigns_cli", "runtime_log")),
}  # fmt: skip

#: Survivors that are no faults: (file, a part of the line, operator) and why nobody could tell.
EQUIVALENT: dict[tuple[str, str, str], str] = {
    ("quaddyn/wbc/command.py", 'OUTCOMES[self.outcome] == "solved"', "core/ReplaceComparisonOperator_Eq_GtE"): (
        "no other outcome comes after it in the alphabet"
    ),
    ("quaddyn/robot/arguments.py", "type(value) is np.ndarray", "core/ReplaceComparisonOperator_Is_Eq"): (
        "types are equal where they are the same"
    ),
    ("quaddyn/dynamics/dynamics.py", "np.full(robot.nq, robot.nq**-0.5)", "core/ReplaceBinaryOperator_Pow_Mod"): (
        "arguments are examined the long way, with the same answer"
    ),
    ("quaddyn/agreement/bodies.py", "carrier = oracle.model.bodies[body].name", "core/AddNot"): (
        "a link directly below a joint lies in the joint's frame: there is nothing to undo"
    ),
    ("quaddyn/hierarchy/workspace.py", "aligned(levels + 1, n + 1, given)", "core/ReplaceBinaryOperator_Add_Pow"): (
        "the last row is there for wide loads alone, which other memory follows; Python, which checks indices, agrees"
    ),
    ("quaddyn/kinematics/collision.py", "if a != b and parents", "core/ReplaceComparisonOperator_NotEq_Lt"): (
        "shapes come in the order of their joints, so that a <= b"
    ),
    ("quaddyn/kinematics/capsule_model.py", "zip(self.pairs.tolist(), home.tolist()", "core/ReplaceTrueWithFalse"): (
        "both have a row for each pair"
    ),
    ("quaddyn/kinematics/survey.py", "len(found) < ways.shape[1]", "core/ReplaceComparisonOperator_Lt_LtE"): (
        "beside so many orthonormal directions no length is left"
    ),
    ("quaddyn/robot/limbs.py", "for leaf in (i for i in range(1, len(bodies))", "core/NumberReplacer"): (
        "body 1 hangs from the base: a leaf there is a chain of one joint, which is no limb"
    ),
}


def main() -> int:
    """Mutate, test, and print what survived; exit code 1 where a room is below `--least`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", default=list(ROOMS), help="rooms; default: all")
    parser.add_argument("--sample", type=int, default=30, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--least", type=float, default=0.0, help="smallest share to be killed, such as 0.9")
    parser.add_argument("--list", action="store_true", help="print the rooms")
    options = parser.parse_args()
    if options.list:
        for name, room in ROOMS.items():
            print(f"{name:14} {room.path}: {', '.join(room.tests)}{f' -k {room.only!r}' if room.only else ''}")
        return 0
    if unknown := set(options.rooms) - set(ROOMS):
        parser.error(f"no such room: {', '.join(sorted(unknown))}")
    shares = [judge(name, ROOMS[name], options.sample, options.seed) for name in options.rooms]
    return 0 if min(shares) >= options.least else 1


def docstrings(path: Path) -> list[tuple[int, int]]:
    """First and last lines of docstrings."""
    spans = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            spans.append((node.lineno, node.end_lineno or node.lineno))
    return spans


def annotations(path: Path) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where annotations begin and end: lines from 1, columns from 0."""
    found: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.arg | ast.AnnAssign):
            found.append(node.annotation)
        elif isinstance(node, ast.FunctionDef):
            found.append(node.returns)
    return [((e.lineno, e.col_offset), (e.end_lineno or 0, e.end_col_offset or 0)) for e in found if e is not None]


def drawn(room: Room, sample: int, rng: random.Random) -> list[str]:
    """Modules of a room, as often as a mutant of them is wanted: long ones more often."""
    place = ROOT / room.path
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    files = [file for file in files if file.name != "__init__.py"]
    weights = [file.read_text().count("\n") for file in files]
    return [str(file.relative_to(ROOT)) for file in rng.choices(files, weights, k=sample)]


def place_of(mutation: Any) -> tuple[Any, ...]:
    """What tells mutants of a module apart, the same in every run: identities of jobs are not."""
    arguments = sorted((key, repr(value)) for key, value in mutation.operator_args.items())
    return mutation.start_pos, mutation.operator_name, arguments, mutation.occurrence


def judge(name: str, room: Room, sample: int, seed: int) -> float:
    """The share of a room's mutants that are killed."""
    from cosmic_ray.work_db import WorkDB, use_db
    from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult

    rng = random.Random(f"{seed} {name}")
    modules = drawn(room, sample, rng)
    with tempfile.TemporaryDirectory() as place:
        copy, session, config = Path(place) / "copy", Path(place) / "session.sqlite", Path(place) / "config.toml"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", "shared"))
        plugin = "-p interpreting " if room.interpreted else ""
        only = f" -k '{room.only}'" if room.only else ""
        tests = " ".join(f"tests/test_{test}.py" for test in room.tests)
        command = f"{sys.executable} -B -m pytest -x -q -n0 -p no:cacheprovider {plugin}{tests}{only}"
        # Mutants' machine code is kept beside them, and not for the user.
        folders = {"PYTHONPATH": f"{copy}{os.pathsep}{copy / 'tests'}", "QUADDYN_CACHE": f"{place}{os.sep}cache"}
        aside = os.environ | folders
        start = time.perf_counter()
        healthy = subprocess.run(command, shell=True, cwd=copy, env=aside, capture_output=True, text=True)
        if healthy.returncode:
            raise SystemExit(f"{name}: the tests fail without a mutant:\n{healthy.stdout[-2000:]}")
        timeout = max(TIMEOUT, SLOWER * (time.perf_counter() - start))
        paths = ", ".join(f'"{each}"' for each in sorted(set(modules)))
        config.write_text(
            f"[cosmic-ray]\nmodule-path = [{paths}]\ntimeout = {timeout}\nexcluded-modules = []\n"
            f'test-command = "{command}"\n[cosmic-ray.distributor]\nname = "local"\n'
        )

        def run(*words: str) -> None:
            words = (sys.executable, "-m", "cosmic_ray.cli", *words)
            subprocess.run(words, cwd=copy, env=aside, check=True, capture_output=True)

        run("init", str(config), str(session))
        with use_db(str(session), WorkDB.Mode.open) as db:
            items = {item.job_id: item.mutations[0] for item in db.work_items}
            by_module: dict[str, list[str]] = {module: [] for module in modules}
            for module in by_module:
                spans, strings = annotations(copy / module), docstrings(copy / module)
                for job, mutation in sorted(items.items(), key=lambda item: place_of(item[1])):
                    at = mutation.start_pos
                    if str(mutation.module_path) == module and not any(a <= at < b for a, b in spans):
                        if not any(first <= at[0] <= last for first, last in strings):
                            by_module[module].append(job)
            kept = {rng.choice(by_module[module]) for module in modules if by_module[module]}
            for job in items:
                if job not in kept:
                    db.set_result(job, WorkResult(worker_outcome=WorkerOutcome.SKIPPED))
        run("exec", str(config), str(session))
        killed = equivalent = tried = 0
        survivors = []
        with use_db(str(session), WorkDB.Mode.open) as db:
            for job, result in db.results:
                if job not in kept:
                    continue
                mutation = items[job]
                line = (copy / mutation.module_path).read_text().splitlines()[mutation.start_pos[0] - 1].strip()
                where = (str(mutation.module_path), line, mutation.operator_name)
                same = any(where[::2] == known[::2] and known[1] in line for known in EQUIVALENT)
                if result.test_outcome == TestOutcome.SURVIVED and same:
                    equivalent += 1
                    continue
                tried += 1
                if result.test_outcome == TestOutcome.SURVIVED:
                    changed = [x for x in (result.diff or "").splitlines() if x[:1] == "+" and x[:3] != "+++"]
                    new = changed[0][1:].strip() if changed else mutation.operator_name
                    survivors.append((where[0], mutation.start_pos[0], line, new))
                else:
                    killed += 1
    share = killed / tried if tried else 1.0
    print(f"{name}: {killed} of {tried} mutants killed ({share:.0%}); {equivalent} equivalent; seed {seed}")
    for file, number, line, new in sorted(survivors):
        print(f"  survived {file}:{number}: {line}  ->  {new}")
    sys.stdout.flush()
    return share


if __name__ == "__main__":
    sys.exit(main())
