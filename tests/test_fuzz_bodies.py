"""Validation of mutated robots with closed loops, mimic joints and collision shapes, and tests of the harness."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import fuzz_bodies
import fuzz_campaign
import fuzzing
import loop_robots
import pytest
import test_capsules
import test_mimic
from slow_parameters import others_slow

from quaddyn.campaigns import run

#: The nightly run has more cases, and `benchmarks/fuzz.py` 10,000.
CASES, SEED = 1000 if "QUADDYN_SLOW" in os.environ else 24, 20261


@pytest.fixture(scope="module")
def outcomes() -> list[fuzzing.Outcome]:
    campaign = fuzz_campaign.Fuzz(number=CASES, seed=SEED, loader="bodies", mujoco=0.0)
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
    assert len(outcomes) == CASES
    assert not [(o.case.index, o.case.kind, o.verdict, o.message, o.misfits) for o in outcomes if o.failed]


def test_mutants_with_unchanged_physics_load(outcomes: list[fuzzing.Outcome]) -> None:
    same = [o for o in outcomes if o.case.kind.split(": ")[-1] in fuzz_bodies.SAME]
    assert len(same) >= CASES // 20
    assert not [(o.case.index, o.case.kind, o.message) for o in same if o.verdict != "loaded"]


def test_enough_mutants_of_joint_couplings_load(outcomes: list[fuzzing.Outcome]) -> None:
    own = [o for o in outcomes if o.case.kind.startswith("body")]
    assert len(own) >= CASES // 4
    assert CASES // 12 <= sum(o.verdict == "loaded" for o in own) < len(own)


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
def test_harness_detects_differences_between_robot_and_file(
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
