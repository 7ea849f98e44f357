"""How many one-line faults the tests notice: mutants of each room by cosmic-ray, in a copy of the checkout.

    python benchmarks/mutation.py urdf robot --sample 60
    python benchmarks/mutation.py --list

Prints, for each room, the share of mutants that its tests kill, and each survivor with its place and what was changed.
Survivors that change nothing a user could see are listed with their reason in `EQUIVALENT`.  Compiled functions run as
Python here.  Needs the extra "nightly".
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
#: Seconds of a test run with one mutant, at most.
TIMEOUT = 300.0


class Room(NamedTuple):
    """What is mutated, and the tests that should notice."""

    path: str
    tests: tuple[str, ...]
    interpreted: bool = False


ROOMS = {
    "files": Room("quaddyn/files.py", ("hostile_files",)),
    "urdf": Room("quaddyn/urdf", ("urdf", "hostile_files", "load", "load_oddities", "noticed")),
    "guard": Room("quaddyn/robot/guard.py", ("guard", "load", "noticed", "load_oddities")),
    "feet": Room("quaddyn/robot/contact.py", ("legs", "load_oddities", "noticed")),
    "meshes": Room("quaddyn/viewer/obj.py", ("viewer_meshes", "hostile_files")),
    "collada": Room("quaddyn/viewer/collada.py", ("viewer_meshes", "hostile_files")),
    "derivatives": Room("quaddyn/kernels/derivatives.py", ("noticed", "kernels")),
    "keeping": Room("quaddyn/kernels/keeping.py", ("noticed", "kernels")),
    "hierarchy": Room("quaddyn/hierarchy", ("hierarchy", "hierarchy_core", "hierarchy_solver"), interpreted=True),
    "impact": Room("quaddyn/contact/solvers/impact.py", ("contact_solvers", "noticed"), interpreted=True),
    "course": Room("quaddyn/locomotion/course.py", ("locomotion_gait", "noticed")),
    "explanation": Room("quaddyn/wbc/explanation.py", ("wbc_explain", "wbc", "noticed")),
    "data": Room("quaddyn/identification/data.py", ("identification_misuse", "hostile_files", "identification")),
    "cli": Room("quaddyn/cli", ("exit_codes", "cli", "leg_command", "doctor")),
}

#: Survivors that are no faults: (file, line's text, operator) and why nobody could tell.
EQUIVALENT: dict[tuple[str, str, str], str] = {}


def main() -> int:
    """Mutate, test, and print what survived; exit code 1 where a room is below `--least`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", default=list(ROOMS), help="rooms; default: all")
    parser.add_argument("--sample", type=int, default=100, help="mutants of each room at most; 0: all (days)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--least", type=float, default=0.0, help="smallest share to be killed, such as 0.9")
    parser.add_argument("--list", action="store_true", help="print the rooms")
    options = parser.parse_args()
    if options.list:
        for name, room in ROOMS.items():
            print(f"{name:12} {room.path}: {', '.join(room.tests)}")
        return 0
    if unknown := set(options.rooms) - set(ROOMS):
        parser.error(f"no such room: {', '.join(sorted(unknown))}")
    shares = [judge(name, ROOMS[name], options.sample, options.seed) for name in options.rooms]
    return 0 if min(shares) >= options.least else 1


def judge(name: str, room: Room, sample: int, seed: int) -> float:
    """The share of a room's mutants that are killed."""
    from cosmic_ray.work_db import WorkDB, use_db
    from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult

    with tempfile.TemporaryDirectory() as place:
        copy, session, config = Path(place) / "copy", Path(place) / "session.sqlite", Path(place) / "config.toml"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", "shared", "*.html"))
        plugin = "-p interpreting " if room.interpreted else ""
        tests = " ".join(f"tests/test_{test}.py" for test in room.tests)
        command = f"{sys.executable} -B -m pytest -x -q -p no:cacheprovider {plugin}{tests}"
        config.write_text(
            f'[cosmic-ray]\nmodule-path = "{room.path}"\ntimeout = {TIMEOUT}\nexcluded-modules = []\n'
            f'test-command = "{command}"\n[cosmic-ray.distributor]\nname = "local"\n'
        )
        aside = os.environ | {"PYTHONPATH": f"{copy}{os.pathsep}{copy / 'tests'}"}

        def run(*words: str) -> None:
            subprocess.run([sys.executable, "-m", "cosmic_ray.cli", *words], cwd=copy, env=aside, check=True)

        healthy = subprocess.run(command.split(), cwd=copy, env=aside, capture_output=True, text=True)
        if healthy.returncode:
            raise SystemExit(f"{name}: the tests fail without a mutant:\n{healthy.stdout[-2000:]}")
        run("init", str(config), str(session))
        with use_db(str(session), WorkDB.Mode.open) as db:
            jobs = sorted(item.job_id for item in db.work_items)
            kept = set(jobs if sample == 0 else random.Random(seed).sample(jobs, min(sample, len(jobs))))
            for job in jobs:
                if job not in kept:
                    db.set_result(job, WorkResult(worker_outcome=WorkerOutcome.SKIPPED))
        run("exec", str(config), str(session))
        killed = equivalent = tried = 0
        survivors = []
        with use_db(str(session), WorkDB.Mode.open) as db:
            results = {job: result for job, result in db.results if result.worker_outcome != WorkerOutcome.SKIPPED}
            for item in db.work_items:
                result = results.get(item.job_id)
                if result is None:
                    continue
                mutation = item.mutations[0]
                line = (copy / mutation.module_path).read_text().splitlines()[mutation.start_pos[0] - 1].strip()
                where = (str(mutation.module_path), line, mutation.operator_name)
                if result.test_outcome == TestOutcome.SURVIVED and where in EQUIVALENT:
                    equivalent += 1
                    continue
                tried += 1
                if result.test_outcome == TestOutcome.SURVIVED:
                    survivors.append((*where[:1], mutation.start_pos[0], where[1], mutation.operator_name))
                else:
                    killed += 1
    share = killed / tried if tried else 1.0
    print(f"{name}: {killed} of {tried} mutants killed ({share:.0%}); {equivalent} equivalent, {len(jobs)} there are")
    for file, number, line, operator in sorted(survivors):
        print(f"  survived {file}:{number}: {operator.removeprefix('core/')}: {line}")
    sys.stdout.flush()
    return share


if __name__ == "__main__":
    sys.exit(main())
