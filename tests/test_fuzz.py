"""Validation of mutated real URDFs: no crash, hang or wrong robot, and valid files load."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import fuzz_bodies
import fuzz_campaign
import fuzz_mutants
import fuzz_oracle
import fuzzing
import loop_robots
import pytest
import test_capsules
import test_mimic
from slow_parameters import others_slow
from urdf_text import chain as fixed_chain

from quaddyn.campaigns import run

#: The nightly run has more cases, and `benchmarks/fuzz.py` 40,000.
CASES, SEED = 300 if "QUADDYN_SLOW" in os.environ else 40, 20260
CHAIN = """<robot name="chain">
  <link name="base"><inertial><mass value="2"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="arm"><inertial><origin xyz="0 0 -0.1"/><mass value="{mass}"/>
    <inertia ixx="{ixx}" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="hinge" type="revolute"><parent link="{parent}"/><child link="arm"/><axis xyz="{axis}"/>
    <limit lower="{lower}" upper="1" effort="10" velocity="10"/></joint>
</robot>"""
SOUND = {"mass": "1", "ixx": "0.1", "parent": "base", "axis": "0 1 0", "lower": "-1"}


def chain(**change: str) -> bytes:
    return CHAIN.format(**SOUND | change).encode()


def case(data: bytes, root: str | None = "free") -> fuzzing.Case:
    return fuzzing.Case(0, "by hand", fuzzing.Base("chain", data, root, frozenset()), root, "text", data)


@pytest.fixture(scope="module")
def tally() -> fuzzing.OutcomeCounts:
    out = fuzzing.OutcomeCounts()
    for outcome in fuzz_campaign.outcomes(run(fuzz_campaign.Fuzz(number=CASES, seed=SEED, mujoco=1.0)).results):
        out.add(outcome)
    print(f"\n{out.table()}\n{out.figures()}")
    return out


@pytest.fixture(scope="module")
def pinocchio() -> Iterator[fuzzing.Child]:
    """A child process with Pinocchio's importer, whose errors the harness has to detect."""
    with fuzzing.Child("pinocchio") as child:
        yield child


def describe_outcomes(outcomes: list[fuzzing.Outcome]) -> str:
    return "\n".join(
        f"case {o.case.index} ({o.case.kind}; {o.case.base.name}; root={o.case.root}; {o.case.via}): "
        f"{o.oracle}, {o.verdict} {o.message[:200]} {o.misfits[:3]}"
        for o in outcomes[:20]
    )


# -- validation -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("verdict", ["crash", "hang", "error"])
def test_load_of_a_mutant_returns_a_robot_or_raises_a_model_error(tally: fuzzing.OutcomeCounts, verdict: str) -> None:
    found = [o for o in tally.outcomes if o.verdict == verdict]
    assert len(tally.outcomes) == CASES
    assert not found, describe_outcomes(found)


def test_physically_impossible_robots_are_rejected(tally: fuzzing.OutcomeCounts) -> None:
    found = [o for o in tally.outcomes if o.misfits]
    assert not found, describe_outcomes(found)


def test_valid_mutants_load_also_those_that_mujoco_accepts(tally: fuzzing.OutcomeCounts) -> None:
    pytest.importorskip("mujoco")
    good = [o for o in tally.outcomes if o.oracle == "good"]
    assert len(good) >= CASES // 4 and sum(o.mujoco is True for o in good) >= CASES // 6
    assert tally.share() >= 0.95, describe_outcomes([o for o in good if o.verdict != "loaded"])
    assert tally.share(mujoco=True) >= 0.95


def test_every_rejection_states_a_reason(tally: fuzzing.OutcomeCounts) -> None:
    mute = [o for o in tally.outcomes if o.verdict == "refused" and len(o.message) < 20]
    nameless = [
        o for o in tally.outcomes if o.verdict == "refused" and o.case.via == "path" and ".urdf" not in o.message
    ]
    assert not mute and not nameless, describe_outcomes(mute + nameless)


# -- the harness detects errors ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"mass": "nan"}, "not a number"),
        ({"mass": "-1"}, "mass -1"),
        ({"mass": "1,5"}, "not a number"),
        ({"ixx": "9"}, "pseudo-inertia"),
        ({"axis": "0 0 0"}, "axis of length 0"),
        ({"lower": "2"}, "lower 2.0 > upper 1.0"),
        ({"parent": "arm"}, "cycle"),
    ],
)
def test_harness_detects_invalid_robots_that_pinocchio_accepts(
    tmp_path: Path, pinocchio: fuzzing.Child, change: dict[str, str], complaint: str
) -> None:
    outcome = fuzzing.evaluate(case(chain(**change)), pinocchio, tmp_path)
    assert (outcome.oracle, outcome.verdict) == ("bad", "loaded")
    assert complaint in " ".join(outcome.misfits)


def test_harness_accepts_a_valid_chain(tmp_path: Path, pinocchio: fuzzing.Child) -> None:
    pytest.importorskip("mujoco")
    for root in ("free", "fixed"):
        outcome = fuzzing.evaluate(case(chain(), root), pinocchio, tmp_path, ask_mujoco=True)
        assert (outcome.oracle, outcome.verdict, outcome.misfits, outcome.mujoco) == ("good", "loaded", (), True)


def test_harness_detects_differences_between_robot_and_file(pinocchio: fuzzing.Child) -> None:
    """Every physical difference between a robot and a changed file is reported."""
    facts = pinocchio.ask("load", chain().decode(), "free")["facts"]
    for change, complaint in (
        ({"mass": "1.001"}, "mass"),
        ({"ixx": "0.101"}, "mass properties of 'arm'"),
        ({"axis": "1 0 0"}, "placement of 'arm'"),
        ({"lower": "-0.9"}, "limits of 'hinge'"),
    ):
        misfits = fuzz_oracle.misfits(chain(**change), facts)
        assert any(complaint in m for m in misfits), (change, misfits)
    assert fuzz_oracle.misfits(chain(), facts) == []


def test_harness_detects_a_crash_and_continues(tmp_path: Path, pinocchio: fuzzing.Child) -> None:
    # The recursion of Pinocchio's importer overflows the stack.
    assert fuzzing.evaluate(case(fixed_chain(10001).encode()), pinocchio, tmp_path).verdict == "crash"
    assert fuzzing.evaluate(case(chain()), pinocchio, tmp_path).verdict == "loaded"


def test_harness_detects_a_blocked_child_process(
    tmp_path: Path, pinocchio: fuzzing.Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "robot.urdf")
    assert pinocchio.ask("load", chain().decode(), None)["verdict"] == "loaded"  # it has started
    monkeypatch.setattr(pinocchio, "wall_limit", 0.5)
    assert pinocchio.ask("load", tmp_path / "robot.urdf", None)["verdict"] == "hang"


def test_harness_detects_an_endless_loop() -> None:
    with fuzzing.Child("spin", cpu_limit=1.0) as child:
        answer = child.ask("load", "", None)
    assert answer["verdict"] == "hang" and answer["message"] == "CPU time"


def test_cases_are_the_same_for_the_same_seed() -> None:
    pool = [fuzzing.Base("chain", chain(), None, frozenset())]
    first, again, other = (list(fuzzing.draw(60, seed, pool)) for seed in (1, 1, 2))
    assert first == again
    assert [c.data for c in first] != [c.data for c in other]


def test_every_kind_of_mutation_changes_a_real_file() -> None:
    data = next(data for name, data in fuzzing.files() if name.endswith("solo12.urdf"))
    for name, (_, mutation) in fuzz_mutants.KINDS.items():
        mutants = [mutation(data, random.Random(seed)) for seed in range(4)]
        assert any(m is not None and m != data for m in mutants) or name == "harmless: untouched", name


# -- validation of mutated robots with closed loops, mimic joints and collision shapes, and tests of the harness ------
#: The nightly run has more cases, and `benchmarks/fuzz.py` 10,000.
BODY_CASES, BODY_SEED = 1000 if "QUADDYN_SLOW" in os.environ else 24, 20261


@pytest.fixture(scope="module")
def outcomes() -> list[fuzzing.Outcome]:
    campaign = fuzz_campaign.Fuzz(number=BODY_CASES, seed=BODY_SEED, loader="bodies", mujoco=0.0)
    return list(fuzz_campaign.outcomes(run(campaign).results))


@pytest.fixture(scope="module")
def child() -> Iterator[fuzzing.Child]:
    with fuzzing.Child("bodies") as out:
        yield out


def evaluate_text(text: str, child: fuzzing.Child, folder: Path, root: str = "fixed") -> fuzzing.Outcome:
    base = fuzzing.Base("by hand", text.encode(), root, frozenset())
    return fuzzing.evaluate(fuzzing.Case(0, "by hand", base, root, "text", base.data), child, folder)


def test_load_of_a_mutant_returns_a_valid_robot_or_raises_a_model_error(
    outcomes: list[fuzzing.Outcome],
) -> None:
    assert len(outcomes) == BODY_CASES
    assert not [(o.case.index, o.case.kind, o.verdict, o.message, o.misfits) for o in outcomes if o.failed]


def test_mutants_with_unchanged_physics_load(outcomes: list[fuzzing.Outcome]) -> None:
    same = [o for o in outcomes if o.case.kind.split(": ")[-1] in fuzz_bodies.SAME]
    assert len(same) >= BODY_CASES // 20
    assert not [(o.case.index, o.case.kind, o.message) for o in same if o.verdict != "loaded"]


def test_enough_mutants_of_joint_couplings_load(outcomes: list[fuzzing.Outcome]) -> None:
    own = [o for o in outcomes if o.case.kind.startswith("body")]
    assert len(own) >= BODY_CASES // 4
    assert BODY_CASES // 12 <= sum(o.verdict == "loaded" for o in own) < len(own)


BASES = fuzz_bodies.body_bases()


@pytest.mark.parametrize(
    "base", others_slow(BASES, [b for b in BASES if "/" not in b.name]), ids=lambda base: Path(base.name).name
)  # real files are mutated above
def test_unmutated_files_are_valid(base: fuzzing.Base, child: fuzzing.Child, tmp_path: Path) -> None:
    outcome = evaluate_text(base.data.decode(), child, tmp_path, base.root or "fixed")
    assert (outcome.verdict, outcome.misfits) == ("loaded", ()), outcome.message


# -- the harness detects errors --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "was", "instead", "complaint"),
    [
        (loop_robots.knee_leg(), 'xyz="-0.035 0.02 0.01"', 'xyz="-0.035 0.02 0.0101"', "is open by"),
        (test_mimic.machine(), 'multiplier="0.7"', 'multiplier="0.7001"', "does not mimic"),
        (test_mimic.machine(), 'offset="0.05"', 'offset="0.0501"', "does not mimic"),
        (test_mimic.machine(), '<axis xyz="0.6 0.8 0"/>', '<axis xyz="0.6001 0.8 0"/>', "from where it leads to"),
        (test_capsules.URDF, 'radius="0.02"', 'radius="0.03"', "out of its capsules"),
        (test_mimic.machine(), '<mass value="', '<mass value="1', "energy"),
    ],
)
def test_harness_detects_differences_of_couplings_and_capsules(
    text: str, was: str, instead: str, complaint: str, child: fuzzing.Child
) -> None:
    facts = child.ask("load", text, "fixed")["facts"]
    assert was in text and fuzz_bodies.misfits(text.encode(), facts) == []
    found = fuzz_bodies.misfits(text.replace(was, instead).encode(), facts)
    assert any(complaint in each for each in found), found


def test_harness_detects_a_missing_coupling(child: fuzzing.Child) -> None:
    text = loop_robots.knee_leg()
    open_tree = text[: text.index("<loop_joint")] + "</robot>"
    facts = child.ask("load", open_tree, "fixed")["facts"]
    assert fuzz_bodies.misfits(open_tree.encode(), facts) == []
    assert any("is open by" in each for each in fuzz_bodies.misfits(text.encode(), facts))
