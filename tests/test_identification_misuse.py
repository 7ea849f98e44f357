"""Misuse of identification: unusual files, uninformative data, wrong units, and the resulting messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from raising import raises
from slow_parameters import others_slow
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn.cli import app, identifying
from quaddyn.identification import MotionRange, Samples, base_parameters, identify, load_samples, save_samples
from quaddyn.identification.base_parameters import random_states
from quaddyn.identification.fit import UNKNOWN_CAUSE, likely_causes

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def arm() -> qd.Robot:
    return qd.load("ur5")


@pytest.fixture(scope="module")
def data(arm: qd.Robot) -> Samples:
    return moving(arm, 200)


def moving(robot: qd.Robot, count: int, *, noise: float = 0.01, seed: int = 0) -> Samples:
    """Random states and their noisy torques."""
    rng = np.random.default_rng(seed)
    q, v, a = random_states(robot, count, rng)
    dynamics = qd.Dynamics(robot)
    tau = np.array([dynamics.rnea(*x) for x in zip(q, v, a, strict=True)])
    return Samples(q, v, a, tau + noise * rng.standard_normal(tau.shape))


def still(robot: qd.Robot, count: int, tau: float | None = None) -> Samples:
    """Samples of one constant posture."""
    q, zero = np.full((count, robot.nq), 0.3), np.zeros((count, robot.nv))
    held = np.tile(qd.Dynamics(robot).gravity(q[0]), (count, 1)) if tau is None else np.full_like(zero, tau)
    return Samples(q, zero, zero, held)


# -- samples -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ("v", "a", "tau", "forces"))
def test_samples_of_different_lengths_are_rejected(name: str) -> None:
    arrays = {"q": np.zeros((5, 6)), "v": np.zeros((5, 6)), "a": np.zeros((5, 6)), "tau": np.zeros((5, 6))}
    short = {"FL": np.zeros((4, 3))} if name == "forces" else np.zeros((4, 6))
    raises(qd.ArgumentError, rf"{name}.*expected 5 samples.*got 4", Samples, **{**arrays, name: short})
    with pytest.raises(qd.ArgumentTypeError, match=rf"{name}.*array"):
        Samples(**{**arrays, name: {"FL": None} if name == "forces" else 3.0})


@pytest.mark.parametrize("name", ("q", "v", "a", "tau"))
def test_impossibly_large_entries_are_rejected(arm: qd.Robot, data: Samples, name: str) -> None:
    arrays = {x: getattr(data, x).copy() for x in ("q", "v", "a", "tau")}
    arrays[name][7, 2] = -1e200
    with pytest.raises(qd.ArgumentError, match=rf"{name}\[7, 2\] = -1e\+200"):
        identify(arm, Samples(**arrays))


@pytest.mark.parametrize("noise", (0.0, 1e-300, 1e300, np.nan, np.inf, -1.0))
def test_noise_out_of_range_is_rejected(arm: qd.Robot, data: Samples, noise: float) -> None:
    raises(qd.ArgumentError, "torque_noise", identify, arm, data, torque_noise=noise)


# -- files -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("a.csv", lambda text: text.replace("\n", "\r\n") + "\r\n\r\n"),
        ("A.CSV", lambda text: text),
    ],
)
def test_csv_variants_are_read_identically(
    tmp_path: Path, arm: qd.Robot, data: Samples, name: str, change: Callable[[str], str]
) -> None:
    """CRLF line ends, capital letters in the file name."""
    save_samples(tmp_path / "plain.csv", arm, data)
    (tmp_path / name).write_text(
        change((tmp_path / "plain.csv").read_text(encoding="utf-8")), encoding="utf-8", newline=""
    )
    got = load_samples(tmp_path / name, arm)
    assert all(np.array_equal(getattr(got, x), getattr(data, x)) for x in ("q", "v", "a", "tau"))


@pytest.mark.parametrize("mark", (";", "\t"))
def test_other_separators_are_reported(tmp_path: Path, arm: qd.Robot, data: Samples, mark: str) -> None:
    save_samples(tmp_path / "a.csv", arm, data)
    (tmp_path / "a.csv").write_text(
        (tmp_path / "a.csv").read_text(encoding="utf-8").replace(",", mark), encoding="utf-8"
    )
    raises(qd.ArgumentError, "separated by commas", load_samples, tmp_path / "a.csv", arm)


@pytest.mark.parametrize("by_index", (False, True))
def test_output_of_excite_with_added_torques_is_loaded(tmp_path: Path, arm: qd.Robot, by_index: bool) -> None:
    file = tmp_path / "motion.csv"
    done = RUNNER.invoke(app, ["excite", "ur5", "--out", str(file), "--iterations", "2", "--rate", "20"])
    assert done.exit_code == 0
    first, *rest = file.read_text(encoding="utf-8").splitlines()
    tau = ",".join(f"tau {joint}" for joint in (range(arm.nu) if by_index else arm.actuated))
    file.write_text("\n".join([f"{first},{tau}", *(line + ",1,2,3,4,5,6" for line in rest)]), encoding="utf-8")
    found = load_samples(file, arm)
    assert len(found) == 200 and found.tau[0].tolist() == [1, 2, 3, 4, 5, 6]


# -- uninformative data ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("method", "tau"),
    others_slow(
        [(method, tau) for method in ("least_squares", "weighted", "consistent") for tau in (None, 0.0)],
        [("least_squares", None), ("weighted", 0.0), ("consistent", None)],
    ),
)
def test_single_posture_reports_unidentifiable_parameters(arm: qd.Robot, method: str, tau: float | None) -> None:
    """Without motion, with correct or impossible torques, results are finite and unknown parameters are listed."""
    base = base_parameters(arm)
    found = identify(base, still(arm, 40, tau), method=method)  # type: ignore[arg-type]
    assert found.n_identifiable <= arm.nv
    assert np.isfinite(found.delta).all() and np.isfinite(found.beta).all() and not np.isnan(found.deviation).any()
    assert len(found.unidentifiable) > base.size - arm.nv - 6
    for friction in ("fv elbow_joint", "fc wrist_3_joint", "fv shoulder_pan_joint"):
        assert any(friction in name for name in found.unidentifiable)
    assert found.to_json()["hidden"] == list(found.unidentifiable)
    if tau is None:  # gravity torques are predicted
        q = np.full((1, 6), 0.3)
        assert np.abs(found.predict(q, 0 * q, 0 * q)[0] - qd.Dynamics(arm).gravity(q[0])).max() < 1e-3


def test_friction_of_a_joint_that_hardly_moves_is_taken_from_the_file(arm: qd.Robot) -> None:
    moved = moving(arm, 200)
    v, a = moved.v.copy(), moved.a.copy()
    v[:, 0], a[:, 0] = 1e-9 * v[:, 0], 1e-9 * a[:, 0]
    dynamics = qd.Dynamics(arm)
    tau = np.array([dynamics.rnea(*x) for x in zip(moved.q, v, a, strict=True)]) + 0.4 * v
    tau += 0.01 * np.random.default_rng(1).standard_normal(tau.shape)
    found = identify(arm, Samples(moved.q, v, a, tau), torque_noise=0.01)
    first, *others = (found.joint_losses[joint] for joint in arm.actuated)
    assert first[0] == 0.0 and "fv shoulder_pan_joint" in found.unidentifiable
    assert all(abs(row[0] - 0.4) < 0.02 for row in others)
    assert found.converged and not found.inconsistent_bodies
    assert found.n_identifiable == found.base.size - len(found.unidentifiable)


def test_sufficient_motion_identifies_all_parameters(arm: qd.Robot, data: Samples) -> None:
    assert identify(arm, data).unidentifiable == ()


@pytest.mark.slow
def test_identify_command_validates_only_on_held_out_samples(tmp_path: Path, arm: qd.Robot, data: Samples) -> None:
    """A single sample cannot be split: the fit is made with a warning."""
    save_samples(tmp_path / "one.csv", arm, data[:1])
    done = RUNNER.invoke(app, ["identify", str(tmp_path / "one.csv"), "--robot", "ur5", "--json"])
    whole = json.loads(done.stdout)
    assert done.exit_code == 0 and "held_out" not in whole
    assert any("reserved for validation" in doubt for doubt in whole["doubts"]) and whole["hidden"]


@pytest.mark.parametrize("more", [-1, 0, 2])
def test_identify_command_lists_unidentifiable_parameters(
    tmp_path: Path, arm: qd.Robot, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    hidden = len(identify(arm, still(arm, 50)).unidentifiable)
    monkeypatch.setattr(identifying, "MAX_LISTED_NAMES", hidden - more)
    save_samples(tmp_path / "still.npz", arm, still(arm, 50))
    done = RUNNER.invoke(app, ["identify", str(tmp_path / "still.npz"), "--robot", "ur5"])
    said = " ".join(done.output.split())
    assert done.exit_code == 0 and "taken from the file" in said
    assert "more, see --json" not in said if more <= 0 else f"and {more} more, see --json" in said


def test_identify_command_counts_parameters_with_a_deviation_above_their_value(tmp_path: Path, arm: qd.Robot) -> None:
    save_samples(tmp_path / "still.npz", arm, still(arm, 50))
    words = ["identify", str(tmp_path / "still.npz"), "--robot", "ur5"]
    said = " ".join(RUNNER.invoke(app, words).output.split())
    found = json.loads(RUNNER.invoke(app, [*words, "--json"]).stdout)["base_parameters"]
    vague = [each for each in found if each["deviation"] is None or each["deviation"] > abs(each["value"])]
    assert 0 < len(vague) < len(found) and f"{len(vague)} of them with a standard deviation above their value" in said


# -- other units -------------------------------------------------------------------------------------------------
def test_data_in_degrees_raise_warnings(tmp_path: Path, arm: qd.Robot, data: Samples) -> None:
    degrees = 180.0 / np.pi
    save_samples(tmp_path / "deg.csv", arm, Samples(degrees * data.q, degrees * data.v, degrees * data.a, data.tau))
    done = RUNNER.invoke(app, ["identify", str(tmp_path / "deg.csv"), "--robot", "ur5", "--json"])
    assert done.exit_code == 3
    doubts = json.loads(done.stdout)["doubts"]
    assert sum("degrees" in doubt for doubt in doubts) >= 5
    assert any("not explained" in doubt for doubt in doubts)


@pytest.mark.parametrize(
    ("order", "sign", "cause"),
    [
        (
            [0, 2, 1, 3, 4, 5],
            1.0,
            "of shoulder_lift_joint is that of elbow_joint, of elbow_joint is that of",
        ),
        ([0, 1, 2, 3, 4, 5], -1.0, "the torque of shoulder_lift_joint has the opposite sign"),
    ],
)
def test_unexplained_torques_exit_with_3_and_name_the_cause(
    tmp_path: Path, arm: qd.Robot, data: Samples, order: list[int], sign: float, cause: str
) -> None:
    tau = data.tau[:, order] * [1.0, sign, 1.0, 1.0, 1.0, 1.0]
    save_samples(tmp_path / "wrong.npz", arm, Samples(data.q, data.v, data.a, tau))
    words = ["identify", str(tmp_path / "wrong.npz"), "--robot", "ur5"]
    done = RUNNER.invoke(app, words)
    assert done.exit_code == 3 and cause in " ".join(done.output.split())
    assert RUNNER.invoke(app, [*words, "--held-out", "0"]).exit_code == 0, "nothing was validated"


def test_shifted_positions_are_a_possible_cause(arm: qd.Robot, data: Samples) -> None:
    base = base_parameters(arm)
    shifted = Samples(data.q[1:], data.v[1:], data.a[1:], data.tau[:-1])
    assert likely_causes(base, shifted, arm.actuated[:2]) == (UNKNOWN_CAUSE,)
    still_data = still(arm, 5)
    assert likely_causes(base, still_data, arm.actuated[:2]) == (UNKNOWN_CAUSE,), "no correlation of constants"


def test_good_data_raise_no_warnings(tmp_path: Path, arm: qd.Robot) -> None:
    slow = moving(arm, 300, seed=1)
    q = np.clip(slow.q, arm.lower, arm.upper)
    dynamics = qd.Dynamics(arm)
    v, a = 0.5 * slow.v, 0.2 * slow.a
    tau = np.array([dynamics.rnea(*x) for x in zip(q, v, a, strict=True)])
    save_samples(tmp_path / "good.npz", arm, Samples(q, v, a, tau))
    done = RUNNER.invoke(app, ["identify", str(tmp_path / "good.npz"), "--robot", "ur5", "--json"])
    assert done.exit_code == 0 and json.loads(done.stdout)["doubts"] == []


def test_motion_range_warns_of_speeds_and_torques(arm: qd.Robot) -> None:
    one, large = np.ones((1, 6)), 1e3 * np.array([[1.0, -1.0, 1.0, -1.0, 1.0, -1.0]])  # of either sign
    extent = MotionRange(arm)
    extent.add(Samples(0.0 * one, large, one, large))
    words = extent.warnings()
    assert sum(word.startswith("v of") for word in words) == 6
    assert sum(word.startswith("tau of") for word in words) == 6
    assert not any(word.startswith("q of") for word in words)
    assert MotionRange(arm).warnings() == ()
    for beyond in (arm.upper + 0.3 * (arm.upper - arm.lower), arm.lower - 0.3 * (arm.upper - arm.lower)):
        extent = MotionRange(arm)
        extent.add(Samples(beyond[None], np.zeros((1, 6)), np.zeros((1, 6)), np.zeros((1, 6))))
        assert sum(word.startswith("q of") for word in extent.warnings()) == 6


@pytest.mark.parametrize("options", (["--period", "1e9"], ["--rate", "1e12"], ["--rate", "inf"]))
def test_motions_with_too_many_samples_are_rejected(tmp_path: Path, options: list[str]) -> None:
    done = RUNNER.invoke(app, ["excite", "ur5", "--out", str(tmp_path / "e.csv"), *options])
    assert done.exit_code == 2 and options[0] in done.output and not (tmp_path / "e.csv").exists()


def test_long_motion_at_a_high_rate_is_rejected(tmp_path: Path) -> None:
    options = ["--period", "3600", "--rate", "1e5"]
    done = RUNNER.invoke(app, ["excite", "ur5", "--out", str(tmp_path / "e.csv"), *options])
    assert isinstance(done.exception, qd.ArgumentError) and "--period, --rate" in str(done.exception)
