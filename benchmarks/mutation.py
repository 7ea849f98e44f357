"""Mutation tests: fraction of one-line faults by cosmic-ray that the tests of each subpackage detect.

    python benchmarks/mutation.py urdf robot --sample 30 --seed 0
    python benchmarks/mutation.py --list

Mutants of each subpackage are drawn at random: first a module with a probability proportional to its number of lines,
then a mutant of this module.  Each mutant is tested by the quick tests of its subpackage until one fails: tests that
execute the changed line come first, cheap ones before expensive ones (`mutation_runner.py`).  Prints each mutant with
its line, its change and the test that failed, and the fraction of mutants that are killed.  Not counted are mutants
without an effect that a user could observe: those of annotations and docstrings, and those that `EQUIVALENT` lists with
a reason.  With ``interpreted=True`` compiled functions run as Python.  Needs the extras "test" and "nightly".
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

from mutation_runner import ROOT, Copy, import_dependencies


class Subpackage(NamedTuple):
    """Folder that is mutated, and its tests, cheapest first; `only` is the option ``-k`` of pytest."""

    path: str
    tests: tuple[str, ...]
    only: str = ""
    interpreted: bool = False


SUBPACKAGES = {
    "urdf": Subpackage(
        "quaddyn/urdf",
        ("urdf", "load", "mutation_regressions", "importer_pitfalls"),
        "not demo and not small_stacks"
    ),
    "robot": Subpackage(
        "quaddyn/robot",
        ("load", "surface_mistakes", "mimic", "loops", "motors", "legs")
    ),
    "dynamics": Subpackage("quaddyn/dynamics", ("importer_pitfalls", "dynamics", "kernels_export")),
    "kinematics": Subpackage(
        "quaddyn/kinematics",
        ("kinematics_inverse", "mutation_regressions", "robots", "capsules", "surface_mistakes",
         "kinematics", "leg_command"),
        "not demo"
    ),
    "kernels": Subpackage(
        "quaddyn/kernels",
        ("mutation_regressions", "mimic", "kernels", "kernels_export", "tick_terms"),
        "not demo and not small_stacks"
    ),
    "compiler": Subpackage(
        "quaddyn/compiler",
        ("compiling_calls", "compiling_errors", "compiling", "compiling_objects", "doctor")
    ),
    "hierarchy": Subpackage(
        "quaddyn/hierarchy",
        tuple(f"hierarchy{part}" for part in ("_compiled", "", "_solver", "_hard", "_core"))
    ),
    "wbc": Subpackage(
        "quaddyn/wbc",
        ("wbc_explain", "wbc_tick", "wbc_tasks", "wbc_misuse", "joint_friction", "wbc_kinds", "wbc_states",
         "wbc_rows", "surface_custom_elements", "wbc_optimum", "walker_export")
    ),
    "contact": Subpackage(
        "quaddyn/contact",
        ("contact_set", "compliant", "contact_solvers", "mutation_regressions", "contact_scenes"),
        "not demo"
    ),
    "control": Subpackage(
        "quaddyn/control",
        ("control", "surface_mistakes", "control_trunk", "control_force", "control_impedance")
    ),
    "locomotion": Subpackage(
        "quaddyn/locomotion",
        ("mutation_regressions", "foothold_map", "landing", "locomotion_slopes", "locomotion_gait", "locomotion_load",
         "locomotion_contact_detection", "locomotion"),
        "not demo"
    ),
    "estimation": Subpackage("quaddyn/estimation", ("elevation_map", "estimation", "base_estimator", "payload")),
    "simulation": Subpackage(
        "quaddyn/simulation",
        ("log_tables", "simulation_sensors", "simulation_energy", "envs", "simulation", "simulation_compiled",
         "mujoco_plant", "plants")
    ),
    "identification": Subpackage(
        "quaddyn/identification",
        ("identification", "mutation_regressions"),
        "not demo"
    ),
    "runtime": Subpackage(
        "quaddyn/runtime",
        ("runtime_interfaces", "runtime_safety", "runtime_process", "ros2_export", "runtime_loop",
         "runtime_log", "preflight", "walker_export")
    ),
    "campaigns": Subpackage(
        "quaddyn/campaigns",
        ("campaign_cases", "campaigns", "datasheet")
    ),
    "reference": Subpackage("quaddyn/reference", ("reference_reader", "reference", "mimic", "loops", "verification")),
    "verification": Subpackage(
        "quaddyn/verification",
        ("verification",),
        "mutated or edited or modified or verdict or in_a_state or sample or unchanged or first_deviations or matrices "
        "or table or records"
    ),
    "viewer": Subpackage(
        "quaddyn/viewer",
        ("viewer", "malicious_files", "page_browser")
    ),
    "demo": Subpackage(
        "quaddyn/demo",
        ("mutation_regressions", "leg_command", "demo"),
        "show_draws or demo or velocity or never or plot or records"
    ),
    "cli": Subpackage(
        "quaddyn/cli",
        ("printed", "cli", "cli_options", "demo", "leg_command", "doctor", "campaigns", "runtime_log", "identification")
    ),
}  # fmt: skip

#: Tests that run for every subpackage in addition to its own.
COMMON_TESTS = ("printed",)

#: Equivalent mutants: (file or folder, a part of the line, that part in the mutant) and why the behavior is the same.
#: White space is ignored.
EQUIVALENT: dict[tuple[str, str, str], str] = {
    ("quaddyn", "slots=True", "slots=False"): "changes only the memory use",
    ("quaddyn/urdf/tree.py", "", "def of(rotation: object, translation: object) -> Pose:"): (
        "without @staticmethod the function still works, since it is called only on the class"
    ),
    ("quaddyn/compiler/typed_tree.py", "eq=False", "eq=True"): (
        "expressions are never compared or hashed: all code compiles with an __eq__ and a __hash__ that raise"
    ),
    (
        "quaddyn/identification/base_parameters.py",
        "min(64,",
        "min( 63,",
    ): "draws one random state in 64 fewer",
    (
        "quaddyn/viewer/viewer.py",
        "dots: int = 60",
        "dots: int = 59",
    ): "a trail of 59 dots cannot be distinguished from one of 60",
    (
        "quaddyn/demo/locomotion_run.py",
        "if self.ticks % SWING_TRACE_INTERVAL == 0",
        "if not self.ticks % SWING_TRACE_INTERVAL == 0",
    ): ("the page draws more points on the same curve"),
    ("quaddyn/control/load_distribution.py", "len(set(feet)) != len(feet)", "len(set(feet)) is not len(feet)"): (
        "CPython has one object for each integer up to 256"
    ),
    (
        "quaddyn/demo/report.py",
        "if k == 0 else None",
        "if k != 0 else None",
    ): "both bounds have the same appearance in the legend",
    ("quaddyn/compiler/python_calls.py", "+ 16).value == number", "+ 16).value <= number"): (
        "detects interpreters with another memory layout of numbers, and none is installed"
    ),
    ("quaddyn/kernels/llvm_body.py", "self.part_of_node.get(i, -1)", "self.part_of_node.get(i, ~1)"): (
        "no part has the number -1 or ~1"
    ),
    ("quaddyn/kernels/llvm_body.py", "if self.lanes > 1 else range(size)", "if self.lanes >= 1 else range(size)"): (
        "windows of one lane contain all entries"
    ),
    ("quaddyn/kernels/llvm_writer.py", "self.count += 1", "self.count += 2"): "changes only the names of registers",
    ("quaddyn/campaigns/campaign_runner.py", "max(64,", "max( 63,"): "number of queued batches: changes only the time",
    ("quaddyn/hierarchy/level_solver.py", "2 * n + 10", "2 | n + 10"): (
        "number of changes after which a warm start is dropped: changes only the time"
    ),
    ("quaddyn/wbc/command.py", 'OUTCOMES[self.outcome] == "solved"', 'OUTCOMES[self.outcome] >= "solved"'): (
        "no other outcome is later in alphabetical order"
    ),
    ("quaddyn/robot/arguments.py", "type(value) is np.ndarray", "type(value) == np.ndarray"): (
        "types are equal exactly if they are identical"
    ),
    ("quaddyn/dynamics/dynamics.py", "robot.nq**-0.5", "robot.nq%-0.5"): (
        "arguments are validated by the slow path, with the same result"
    ),
    ("quaddyn/kinematics/collision_model.py", "distanceResults, strict=True", "distanceResults, strict=False"): (
        "both have one entry for each pair"
    ),
    (
        "quaddyn/kinematics/capsule_model.py",
        "home_distances.tolist(), strict=True",
        "home_distances.tolist(), strict=False",
    ): ("both have one row for each pair"),
    (
        "quaddyn/kinematics/leg_survey.py",
        "len(directions) < range_basis.shape[1]",
        "len(directions) <= range_basis.shape[1]",
    ): ("the component orthogonal to a complete orthonormal basis is zero"),
    ("quaddyn/cli/tables.py", "*,", "/,"): "an internal function, which its callers call in one way",
    ("quaddyn/cli/console.py", "", "def done(self) -> int: ..."): "a protocol, which only type checkers use",
    (
        "quaddyn/cli/app.py",
        "code == EXIT_INTERRUPTED",
        "code is EXIT_INTERRUPTED",
    ): "CPython has one object for each integer up to 256",
    ("quaddyn/verification/check.py", "rng.normal(size=6) * force", "rng.normal(size=6) % force"): (
        "draws other random forces of the same magnitude"
    ),
    ("quaddyn/demo/motion.py", "DesiredState(q, v, a, 0.0)", "DesiredState(q, v, a, -1.0)"): (
        "the height of a motion without feet is not used"
    ),
    ("quaddyn/kinematics/inverse.py", "max(1.0 / 3.0", "max( 2.0 / 3.0"): (
        "rate at which damping decreases: changes only the number of iterations"
    ),
    ("quaddyn/dynamics/compiled.py", 'parameters == "runtime"', 'parameters >= "runtime"'): (
        "no other value is later in alphabetical order"
    ),
    (
        "quaddyn/compiler/lanes.py",
        "(m + 7) // 16",
        "(m % 7) // 16",
    ): "computes one sum at a time instead of two: changes only the time",
    (
        "quaddyn/locomotion/foothold_map.py",
        "SWING_SAMPLES < APEX_PHASE",
        "SWING_SAMPLES <= APEX_PHASE",
    ): "both halves of the curve have the same value at the apex",
    (
        "quaddyn/kernels/graph.py",
        "self.op[i] == CONST",
        "self.op[i] is CONST",
    ): "there is one string object for each kind of node",
    ("quaddyn/robot/limbs.py", "for i in range(1, len(bodies))", "for i in range(2, len(bodies))"): (
        "body 1 is a child of the base: if it is a leaf, its chain has one joint and is not a limb"
    ),
}


def main() -> int:
    """Tests mutants and prints the results; returns 1 if the fraction killed is below ``--least`` in a subpackage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subpackages", nargs="*", default=list(SUBPACKAGES), help="subpackages (default: all)")
    parser.add_argument("--sample", type=int, default=30, help="number of mutants of each subpackage")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--only", type=int, nargs="*", help="test only these mutants of the sample, counted from 1")
    parser.add_argument("--budget", type=float, default=120.0, help="time limit of the tests of one mutant [s]")
    parser.add_argument("--least", type=float, default=0.0, help="required fraction of killed mutants, such as 0.9")
    parser.add_argument("--keep", type=Path, help="folder for copies, reused in later runs of the same tests")
    parser.add_argument("--list", action="store_true", help="print the subpackages and their tests")
    options = parser.parse_args()
    if options.list:
        for name, subpackage in SUBPACKAGES.items():
            only = f" -k {subpackage.only!r}" if subpackage.only else ""
            print(f"{name:14} {subpackage.path}: {', '.join(subpackage.tests)}{only}")
        return 0
    if unknown := set(options.subpackages) - set(SUBPACKAGES):
        parser.error(f"unknown subpackages: {', '.join(sorted(unknown))}")
    import_dependencies()
    fractions = []
    for name in options.subpackages:
        mutants = dict(enumerate(draw_mutants(name, SUBPACKAGES[name], options.sample, options.seed), 1))
        if options.only:
            mutants = {k: mutants[k] for k in options.only}
        with tempfile.TemporaryDirectory() if options.keep is None else nullcontext(options.keep) as folder:
            fractions.append(run_mutants(name, Path(folder) / name, mutants, options.budget))
    return 0 if min(fractions) >= options.least else 1


def docstring_lines(path: Path) -> list[tuple[int, int]]:
    """Returns the first and last lines of all docstrings."""
    line_ranges = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            line_ranges.append((node.lineno, node.end_lineno or node.lineno))
    return line_ranges


def annotation_positions(path: Path) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Returns begin and end of all annotations as (line, column); lines count from 1, columns from 0."""
    expressions: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.arg | ast.AnnAssign):
            expressions.append(node.annotation)
        elif isinstance(node, ast.FunctionDef):
            expressions.append(node.returns)
    return [
        ((e.lineno, e.col_offset), (e.end_lineno or 0, e.end_col_offset or 0)) for e in expressions if e is not None
    ]


def draw_modules(subpackage: Subpackage, sample: int, rng: random.Random) -> list[str]:
    """Draws a module for each mutant of a sample, with a probability proportional to its number of lines."""
    path = ROOT / subpackage.path
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    files = [file for file in files if file.name != "__init__.py"]
    weights = [file.read_text(encoding="utf-8").count("\n") for file in files]
    return [str(file.relative_to(ROOT)) for file in rng.choices(files, weights, k=sample)]


def mutation_key(mutation: Any) -> tuple[Any, ...]:
    """Returns a key of a mutation that is the same in every run, unlike the identifiers of cosmic-ray's jobs."""
    arguments = sorted((key, repr(value)) for key, value in mutation.operator_args.items())
    return mutation.start_pos, mutation.operator_name, arguments, mutation.occurrence


class Mutant(NamedTuple):
    """Module with one fault: its file and text, the changed line, and that line before and after."""

    file: str
    line: int
    old: str
    new: str
    source: str

    def __str__(self) -> str:
        """Returns the position and the change."""
        return f"{self.file}:{self.line}: {self.old}  ->  {self.new}"

    @property
    def equivalence_reason(self) -> str:
        """Returns why the mutant is equivalent to the original; "" if it is not listed."""
        for (file, old, new), reason in EQUIVALENT.items():
            old_line, new_line, old, new = ("".join(text.split()) for text in (self.old, self.new, old, new))
            if self.file.startswith(file) and old in old_line and new in new_line and old_line != new_line:
                return reason
        return ""


def draw_mutants(name: str, subpackage: Subpackage, sample: int, seed: int) -> list[Mutant]:
    """Draws the mutants of a subpackage; returns them in the order of drawing."""
    from cosmic_ray.commands import init
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator
    from cosmic_ray.work_db import WorkDB, use_db

    rng = random.Random(f"{seed} {name}")
    modules = draw_modules(subpackage, sample, rng)
    by_module: dict[str, list[Any]] = {}
    for module in dict.fromkeys(modules):
        path = ROOT / module
        annotation_ranges, docstring_ranges = annotation_positions(path), docstring_lines(path)
        with use_db(":memory:", WorkDB.Mode.create) as db:
            init([path], db, {})
            mutations = sorted((item.mutations[0] for item in db.work_items), key=mutation_key)
        by_module[module] = [
            mutation
            for mutation in mutations
            if not any(first <= mutation.start_pos < last for first, last in annotation_ranges)
            and not any(first <= mutation.start_pos[0] <= last for first, last in docstring_ranges)
        ]
    drawn_mutations = {}
    for module in modules:
        if by_module[module]:
            mutation = rng.choice(by_module[module])
            drawn_mutations[module, *map(str, mutation_key(mutation))] = module, mutation
    mutants = []
    for module, mutation in drawn_mutations.values():
        original = (ROOT / module).read_text(encoding="utf-8")
        source = mutate_code(
            original, get_operator(mutation.operator_name)(**mutation.operator_args), mutation.occurrence
        )
        try:
            ast.parse(source)
        except SyntaxError:  # for example, an invalid signature: every test would detect it
            continue
        lines = zip(original.splitlines(), source.splitlines(), strict=False)
        line, old, new = next((k, a.strip(), b.strip()) for k, (a, b) in enumerate(lines, 1) if a != b)
        mutants.append(Mutant(module, line, old, new, source))
    return mutants


def run_mutants(name: str, folder: Path, mutants: Mapping[int, Mutant], budget: float) -> float:
    """Tests the mutants of a subpackage, prints the results and returns the fraction that is killed."""
    subpackage = SUBPACKAGES[name]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    tests = [f"tests/test_{test}.py" for test in (*subpackage.tests, *COMMON_TESTS)]
    copy = Copy(folder, subpackage.path, tests, subpackage.only, subpackage.interpreted)
    start = time.perf_counter()
    copy.prepare()
    print(f"{name}: {len(copy.seconds)} tests pass without a mutant ({time.perf_counter() - start:.0f} s)", flush=True)
    killed = equivalent = 0
    for k, mutant in mutants.items():
        result = copy.run_tests(mutant.file, mutant.line, mutant.source, budget)
        reason = "" if result.killed else mutant.equivalence_reason
        killed += result.killed
        equivalent += bool(reason)
        result_text = f"killed by {result.by}" if result.killed else reason or f"SURVIVED {result.tests} tests"
        print(f"  {k}, {result.seconds:.1f} s: {mutant}\n      {result_text}", flush=True)
    n_tested = len(mutants) - equivalent
    fraction = killed / n_tested if n_tested else 1.0
    print(f"{name}: {killed} of {n_tested} mutants killed ({fraction:.0%}); {equivalent} equivalent", flush=True)
    return fraction


if __name__ == "__main__":
    sys.exit(main())
