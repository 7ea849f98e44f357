"""Verification and identification as campaigns give the same results as one pass in one process."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.campaigns import Failure, run
from quaddyn.campaigns.campaign import hash_texts
from quaddyn.campaigns.identification import IdentificationCampaign, merge_accumulators, merge_results
from quaddyn.campaigns.verification import VerificationCampaign
from quaddyn.campaigns.walking_campaigns import DEFAULT_COMMAND_SPEED, DIRECTIONS, YAW_RATE, GaitCampaign
from quaddyn.identification import Accumulator, Samples, fit_accumulated, save_samples
from quaddyn.identification.base_parameters import random_states
from quaddyn.locomotion import Morphology
from quaddyn.reference import Reference


def test_verification_blocks_report_their_largest_errors() -> None:
    campaign = VerificationCampaign(names=("two_link_leg", "three_link_leg"), samples=5, block=3, derivatives=4)
    cases = list(campaign.cases())
    assert len(cases) == campaign.count() == 4
    assert [(c.samples, c.derivatives, c.seed) for c in cases[:2]] == [(3, 3, 0), (2, 1, 1)]
    for case, record in run(campaign).results:
        assert not isinstance(record, Failure) and record["success"] and record["refused"] is None
        alone = qd.cross_check(
            qd.load(Path(case.file).stem),
            samples=case.samples,
            seed=case.seed,
            n_derivative_samples=case.derivatives,
            mujoco=False,
        )
        assert record["errors rnea"] == alone.errors["rnea"] and record["ratios crba"] == alone.ratios["crba"]


def logs(robot: qd.Robot, folder: Path, count: int) -> tuple[list[str], list[Samples]]:
    """Noisy logs of different length."""
    rng, oracle = np.random.default_rng(0), Reference(robot.source, root=robot.root)
    names, all_samples = [], []
    for i in range(count):
        q, v, a = random_states(robot, 40 + 7 * i, rng)
        tau = np.array([oracle.rnea(*x) + oracle.joint_friction(x[1]) for x in zip(q, v, a, strict=True)])
        tau += 1e-2 * rng.standard_normal(v.shape)
        samples = Samples(q, v, a, tau[:, robot.actuated_index], {}, "frame")
        path = folder / f"log {i}.npz"
        save_samples(path, robot, samples)
        names.append(str(path))
        all_samples.append(samples)
    return names, all_samples


def test_merged_accumulators_equal_one_pass(tmp_path: Path) -> None:
    robot = qd.load("ur5")
    names, parts = logs(robot, tmp_path, 7)
    campaign = IdentificationCampaign(robot="ur5", files=tuple(names), torque_noise=0.01)
    found = merge_results(run(campaign, store=tmp_path / "logs.db").results)
    once = Accumulator(robot, torque_noise=0.01)
    for part in parts:
        once.add(part)
    assert found.samples == once.samples == sum(map(len, parts))
    assert [row.rows for row in found.rows] == [row.rows for row in once.rows]
    one, other = fit_accumulated(found, method="weighted"), fit_accumulated(once, method="weighted")
    assert np.abs(one.beta - other.beta).max() <= 1e-12 * np.abs(other.beta).max()
    # The result is independent of the order of merging.
    for order in ([3, 1, 6, 0, 5, 2, 4], list(range(6, -1, -1))):
        leaves = []
        for i in order:
            leaves.append(Accumulator(found.base, torque_noise=0.01))
            leaves[-1].add(parts[i])
        again = fit_accumulated(merge_accumulators(leaves), method="weighted")
        assert np.abs(again.beta - other.beta).max() <= 1e-12 * np.abs(other.beta).max()


def test_changed_or_invalid_log_is_rejected(tmp_path: Path) -> None:
    names, _ = logs(qd.load("planar_3r"), tmp_path, 2)
    campaign = IdentificationCampaign(robot="planar_3r", files=tuple(names))
    first, second = campaign.cases()
    Path(names[0]).write_bytes(Path(names[1]).read_bytes())
    raises(qd.ArgumentError, "changed", campaign.run, first)
    Path(names[1]).write_text("nothing", encoding="utf-8")
    results = run(campaign, cases=[dataclasses.replace(second, content=next(iter(campaign.cases())).content)]).results
    raises(qd.ArgumentError, "log 1", merge_results, results)
    raises(qd.ArgumentError, "at least one", merge_results, [])
    raises(qd.ArgumentError, "dump", Accumulator(qd.load("planar_3r")).load, b"nothing")
    with pytest.raises(qd.ArgumentError, match="of the same robot"):
        Accumulator(qd.load("planar_3r")).load(Accumulator(qd.load("ur5")).dump())


def test_gait_campaign_covers_every_direction_at_each_speed() -> None:
    campaign = GaitCampaign(gaits=("trot",), speeds=(0.2, 0.3), directions=tuple(DIRECTIONS))
    speed, turn = Morphology.from_robot(qd.load("go2")).speed_scale, YAW_RATE / DEFAULT_COMMAND_SPEED
    asked = {case.velocity for case in campaign.cases()}
    expected = {(x * s * speed, y * s * speed, z * s * turn) for s in (0.2, 0.3) for x, y, z in DIRECTIONS.values()}
    assert asked == expected and len(asked) == campaign.count() == 2 * len(DIRECTIONS)


def test_hashes_separate_parts_and_are_unchanged() -> None:
    assert hash_texts("ab", "c") != hash_texts("a", "bc") and hash_texts("a") == hash_texts(b"a")
    assert hash_texts() == "cae66941d9efbd404e4d88758ea67670" and len(hash_texts("a")) == 32
