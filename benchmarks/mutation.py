"""Mutation tests: fraction of one-line faults by cosmic-ray that the tests of each subpackage detect.

    python benchmarks/mutation.py urdf robot --sample 30 --seed 0
    python benchmarks/mutation.py --list

Of each room (a subpackage) a number of mutants is drawn: a line of the subpackage first, so that long modules have more
mutants, then a mutant of its module.  Each is tested by the subpackage's own quick tests:
those that reach the changed line first, cheapest first, up to the first that fails (`mutation_judge.py`).  Prints each
mutant with its place, what was changed and what noticed it, and the share that is killed.  Those that change nothing a
user could see are left out: annotations, docstrings, and what `EQUIVALENT` lists with its reason.  Compiled functions
run as Python where that is said.  Needs the extras "test" and "nightly".
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from mutation_judge import ROOT, Copy, import_others


class Room(NamedTuple):
    """What is mutated, and the tests that should notice, cheapest first; `only` is pytest's ``-k``."""

    path: str
    tests: tuple[str, ...]
    only: str = ""
    interpreted: bool = False


ROOMS = {
    "urdf": Room(
        "quaddyn/urdf", ("urdf_words", "urdf", "load_oddities", "noticed", "traps"), "not demo and not small_stacks"
    ),
    "robot": Room(
        "quaddyn/robot", ("surface_sources", "surface_conventions", "robot_saving", "load_oddities", "guard", "mimic",
        "loops", "motors", "load", "legs")
    ),
    "dynamics": Room("quaddyn/dynamics", ("traps_api", "dynamics", "kernels_export")),
    "kinematics": Room(
        "quaddyn/kinematics",
        ("kinematics_inverse", "noticed", "two_link_leg", "capsules", "surface_conventions", "kinematics",
         "leg_command"),
        "not demo",
    ),
    "kernels": Room(
        "quaddyn/kernels", ("noticed", "mimic", "kernels", "kernels_export", "tick_terms"),
        "not demo and not small_stacks",
    ),
    "compiling": Room("quaddyn/compiler", ("compiling_calls", "compiling_refusals", "compiling", "compiling_objects",
        "doctor")),
    "hierarchy": Room(
        "quaddyn/hierarchy",
        tuple(f"hierarchy{part}" for part in ("_compiled", "", "_solver", "_hostile", "_core", "_recorded")),
    ),
    "wbc": Room("quaddyn/wbc", ("wbc_explain", "wbc_tick", "wbc_tasks", "wbc_traps", "joint_friction", "wbc_kinds",
        "wbc_states", "wbc_rows", "surface_own_elements", "wbc_optimum", "wbc_export")),
    "contact": Room(
        "quaddyn/contact", ("contact_set", "compliant", "contact_solvers", "noticed", "contact_scenes"), "not demo"
    ),
    "control": Room("quaddyn/control", ("control", "surface_conventions", "control_trunk", "control_force",
        "control_impedance")),
    "locomotion": Room("quaddyn/locomotion", ("noticed", "foothold_map", "landing", "locomotion_slopes",
        "locomotion_gait", "locomotion_load", "locomotion_touch", "locomotion"), "not demo"),
    "estimation": Room("quaddyn/estimation", ("elevation_map", "estimation", "base_estimator", "payload")),
    "simulation": Room("quaddyn/simulation", ("surface_logs", "simulation_sensors", "simulation_energy", "rollouts",
        "simulation", "simulation_compiled", "mujoco_plant", "plants")),
    "identification": Room(
        "quaddyn/identification", ("surface_identification", "noticed", "identification_misuse",
        "identification_base", "identification"),
        "not demo",
    ),
    "runtime": Room("quaddyn/runtime", ("runtime_interfaces", "runtime_safety", "runtime_udp", "runtime_ros2",
        "runtime_operators", "runtime_unitree", "runtime_process", "runtime_log", "preflight", "runtime_program",
        "runtime_loop")),
    "campaigns": Room("quaddyn/campaigns", ("campaign_kinds", "campaign_drawn", "campaign_statistics", "campaigns",
        "campaign_trials", "campaigns_cli", "datasheet")),
    "reference": Room("quaddyn/reference", ("reference_reader", "reference", "mimic", "loops", "agreement")),
    "agreement": Room(
        "quaddyn/verification", ("agreement",), "mutant or table or opinion or state or unchanged or differ or records"
    ),
    "viewer": Room("quaddyn/viewer", ("viewer_meshes", "hostile_files", "viewer", "page_browser", "viewer_browser")),
    "demo": Room("quaddyn/demo", ("noticed", "leg_command", "surface_commands", "demo"),
        "show_draws or demo or velocity or never or plot or records"),
    "cli": Room("quaddyn/cli", ("printed", "surface_cli", "cli_hands_on", "surface_commands", "exit_codes",
        "leg_command", "cli", "doctor", "campaigns_cli", "runtime_log", "identification")),
}  # fmt: skip

#: Tests of every room beside its own.
COMMON = ("records", "said")

#: Survivors that are no faults: (file or folder, a part of the line, that part as mutated) and why nobody could tell.
#: Spaces do not count.
EQUIVALENT: dict[tuple[str, str, str], str] = {
    ("quaddyn", "slots=True", "slots=False"): "memory alone",
    ("quaddyn/urdf/tree.py", "", "def of(rotation: object, translation: object) -> Pose:"): (
        "without @staticmethod it is called on the class as before, and on nothing else"
    ),
    ("quaddyn/compiler/typed_tree.py", "eq=False", "eq=True"): (
        "nothing compares expressions or keeps them in a set: with __eq__ and __hash__ that raise, all compile"
    ),
    (
        "quaddyn/identification/base_parameters.py",
        "min(64,",
        "min( 63,",
    ): "one random state in 64 fewer: as good as any",
    ("quaddyn/viewer/viewer.py", "dots: int = 60", "dots: int = 59"): "a trail of 59 dots looks like one of 60",
    (
        "quaddyn/demo/locomotion_run.py",
        "if self.ticks % SWING_TRACE_INTERVAL == 0",
        "if not self.ticks % SWING_TRACE_INTERVAL == 0",
    ): ("more points on the same curve, which the page draws"),
    ("quaddyn/control/task_torque.py", "*,", "/,"): "a function of the room's own, which it calls one way",
    ("quaddyn/control/load_distribution.py", "len(set(feet)) != len(feet)", "len(set(feet)) is not len(feet)"): (
        "integers up to 256 are one object each"
    ),
    ("quaddyn/demo/plot.py", "if k == 0 else None", "if k != 0 else None"): "both bounds look alike in the legend",
    ("quaddyn/compiler/python_calls.py", "+ 16).value == number", "+ 16).value <= number"): (
        "it tells interpreters that keep numbers elsewhere, of which there is none at hand"
    ),
    ("quaddyn/kernels/llvm_body.py", "self.part_of_node.get(i, -1)", "self.part_of_node.get(i, ~1)"): (
        "no part has either number"
    ),
    ("quaddyn/kernels/llvm_body.py", "if self.lanes > 1 else range(size)", "if self.lanes >= 1 else range(size)"): (
        "windows of one lane are all entries"
    ),
    ("quaddyn/kernels/llvm_writer.py", "self.count += 1", "self.count += 2"): "names of registers alone",
    ("quaddyn/campaigns/campaign_runner.py", "max(64,", "max( 63,"): "how many batches wait: time alone",
    ("quaddyn/hierarchy/level_solver.py", "2 * n + 10", "2 | n + 10"): (
        "rounds after which a guess is given up: the same answer, sooner or later"
    ),
    ("quaddyn/wbc/command.py", 'OUTCOMES[self.outcome] == "solved"', 'OUTCOMES[self.outcome] >= "solved"'): (
        "no other outcome comes after it in the alphabet"
    ),
    ("quaddyn/robot/arguments.py", "type(value) is np.ndarray", "type(value) == np.ndarray"): (
        "types are equal where they are the same"
    ),
    ("quaddyn/dynamics/dynamics.py", "robot.nq**-0.5", "robot.nq%-0.5"): (
        "arguments are examined the long way, with the same answer"
    ),
    ("quaddyn/verification/bodies.py", "!= carrier else", "!= carrier else"): (
        "a link directly below a joint lies in the joint's frame: there is nothing to undo"
    ),
    ("quaddyn/kinematics/collision_model.py", "distanceResults, strict=True", "distanceResults, strict=False"): (
        "one for each pair"
    ),
    ("quaddyn/kinematics/capsule_model.py", "home.tolist(), strict=True", "home.tolist(), strict=False"): (
        "both have a row for each pair"
    ),
    ("quaddyn/kinematics/leg_survey.py", "len(found) < ways.shape[1]", "len(found) <= ways.shape[1]"): (
        "beside so many orthonormal directions no length is left"
    ),
    ("quaddyn/cli/verdict.py", "*,", "/,"): "a function of the room's own, which it calls one way",
    ("quaddyn/cli/console.py", "", "def done(self) -> int: ..."): "a protocol, which type checkers alone read",
    (
        "quaddyn/cli/app.py",
        "code == EXIT_INTERRUPTED",
        "code is EXIT_INTERRUPTED",
    ): "integers up to 256 are one object each",
    ("quaddyn/verification/check.py", "rng.normal(size=6) * force", "rng.normal(size=6) % force"): (
        "other random forces of the same size"
    ),
    ("quaddyn/demo/motion.py", "DesiredState(q, v, a, 0.0)", "DesiredState(q, v, a, -1.0)"): (
        "nobody reads the height of a motion without feet"
    ),
    ("quaddyn/kinematics/inverse.py", "max(1.0 / 3.0", "max( 2.0 / 3.0"): (
        "how fast damping goes: the same answers, some iterations sooner or later"
    ),
    ("quaddyn/dynamics/compiled.py", 'parameters == "runtime"', 'parameters >= "runtime"'): (
        "no other word comes after it in the alphabet"
    ),
    ("quaddyn/compiler/lanes.py", "(m + 7) // 16", "(m % 7) // 16"): "one sum at a time instead of two: time alone",
    ("quaddyn/locomotion/foothold_map.py", "TIMES < APEX", "TIMES <= APEX"): "both halves of the curve meet there",
    ("quaddyn/kernels/graph.py", "self.op[i] == CONST", "self.op[i] is CONST"): "one object for each kind of node",
    ("quaddyn/robot/limbs.py", "for i in range(1, len(bodies))", "for i in range(2, len(bodies))"): (
        "body 1 hangs from the base: a leaf there is a chain of one joint, which is no limb"
    ),
}


def main() -> int:
    """Mutate, test, and print what survived; exit code 1 where a room is below `--least`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", default=list(ROOMS), help="rooms; default: all")
    parser.add_argument("--sample", type=int, default=30, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--only", type=int, nargs="*", help="judge these of the sample alone, counted from 1")
    parser.add_argument("--budget", type=float, default=120.0, help="seconds that the tests of one mutant may cost")
    parser.add_argument("--least", type=float, default=0.0, help="smallest share to be killed, such as 0.9")
    parser.add_argument("--keep", type=Path, help="folder for copies, used again in a later run of the same tests")
    parser.add_argument("--list", action="store_true", help="print the rooms")
    options = parser.parse_args()
    if options.list:
        for name, room in ROOMS.items():
            print(f"{name:14} {room.path}: {', '.join(room.tests)}{f' -k {room.only!r}' if room.only else ''}")
        return 0
    if unknown := set(options.rooms) - set(ROOMS):
        parser.error(f"no such room: {', '.join(sorted(unknown))}")
    import_others()
    shares = []
    for name in options.rooms:
        mutants = dict(enumerate(mutants_of(name, ROOMS[name], options.sample, options.seed), 1))
        if options.only:
            mutants = {k: mutants[k] for k in options.only}
        with tempfile.TemporaryDirectory() if options.keep is None else nullcontext(options.keep) as place:
            shares.append(judge(name, Path(place) / name, mutants, options.budget))
    return 0 if min(shares) >= options.least else 1


def docstrings(path: Path) -> list[tuple[int, int]]:
    """First and last lines of docstrings."""
    spans = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            spans.append((node.lineno, node.end_lineno or node.lineno))
    return spans


def annotations(path: Path) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where annotations begin and end: lines from 1, columns from 0."""
    found: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
    weights = [file.read_text(encoding="utf-8").count("\n") for file in files]
    return [str(file.relative_to(ROOT)) for file in rng.choices(files, weights, k=sample)]


def place_of(mutation: Any) -> tuple[Any, ...]:
    """What tells mutants of a module apart, the same in every run: identities of jobs are not."""
    arguments = sorted((key, repr(value)) for key, value in mutation.operator_args.items())
    return mutation.start_pos, mutation.operator_name, arguments, mutation.occurrence


class Mutant(NamedTuple):
    """A module with one fault: its text, the line that differs, and that line before and now."""

    file: str
    line: int
    old: str
    new: str
    source: str

    def __str__(self) -> str:
        """Where it is and what was changed."""
        return f"{self.file}:{self.line}: {self.old}  ->  {self.new}"

    @property
    def equivalent(self) -> str:
        """Returns why the mutant is equivalent to the original; "" if that is not known."""
        for (file, old, new), reason in EQUIVALENT.items():
            was, now, old, new = ("".join(text.split()) for text in (self.old, self.new, old, new))
            if self.file.startswith(file) and old in was and new in now and was != now:
                return reason
        return ""


def mutants_of(name: str, room: Room, sample: int, seed: int) -> list[Mutant]:
    """A room's sample, in the order in which it was drawn."""
    from cosmic_ray.commands import init
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator
    from cosmic_ray.work_db import WorkDB, use_db

    rng = random.Random(f"{seed} {name}")
    modules = drawn(room, sample, rng)
    by_module: dict[str, list[Any]] = {}
    for module in dict.fromkeys(modules):
        path = ROOT / module
        spans, strings = annotations(path), docstrings(path)
        with use_db(":memory:", WorkDB.Mode.create) as db:
            init([path], db, {})
            listed = sorted((item.mutations[0] for item in db.work_items), key=place_of)
        by_module[module] = [
            mutation
            for mutation in listed
            if not any(first <= mutation.start_pos < last for first, last in spans)
            and not any(first <= mutation.start_pos[0] <= last for first, last in strings)
        ]
    kept = {}
    for module in modules:
        if by_module[module]:
            mutation = rng.choice(by_module[module])
            kept[module, *map(str, place_of(mutation))] = module, mutation
    found = []
    for module, mutation in kept.values():
        was = (ROOT / module).read_text(encoding="utf-8")
        source = mutate_code(was, get_operator(mutation.operator_name)(**mutation.operator_args), mutation.occurrence)
        try:
            ast.parse(source)
        except SyntaxError:  # such as another word for the star of a signature: that it fails says nothing of tests
            continue
        lines = zip(was.splitlines(), source.splitlines(), strict=False)
        line, old, new = next((k, a.strip(), b.strip()) for k, (a, b) in enumerate(lines, 1) if a != b)
        found.append(Mutant(module, line, old, new, source))
    return found


def judge(name: str, place: Path, mutants: Mapping[int, Mutant], budget: float) -> float:
    """The share of a room's mutants that are killed."""
    room = ROOMS[name]
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    tests = [f"tests/test_{test}.py" for test in (*room.tests, *COMMON)]
    copy = Copy(place, room.path, tests, room.only, room.interpreted)
    start = time.perf_counter()
    copy.prepare()
    print(f"{name}: {len(copy.seconds)} tests hold without a mutant ({time.perf_counter() - start:.0f} s)", flush=True)
    killed = equivalent = 0
    for k, mutant in mutants.items():
        verdict = copy.judge(mutant.file, mutant.line, mutant.source, budget)
        reason = "" if verdict.killed else mutant.equivalent
        killed += verdict.killed
        equivalent += bool(reason)
        said = f"killed by {verdict.by}" if verdict.killed else reason or f"SURVIVED {verdict.tests} tests"
        print(f"  {k}, {verdict.seconds:.1f} s: {mutant}\n      {said}", flush=True)
    tried = len(mutants) - equivalent
    share = killed / tried if tried else 1.0
    print(f"{name}: {killed} of {tried} mutants killed ({share:.0%}); {equivalent} equivalent", flush=True)
    return share


if __name__ == "__main__":
    sys.exit(main())
