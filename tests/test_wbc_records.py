"""Ticks in files, replayed bit for bit; joint bounds that stay viable; velocities through the same hierarchy."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
import tick_mutants
from hypothesis import given, settings
from hypothesis import strategies as st
from raising import raises
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn.cli import app
from quaddyn.contact import contact_jacobian
from quaddyn.wbc import (
    ComTask,
    FootTask,
    FramePositionTask,
    JointBounds,
    MomentumTask,
    PostureTask,
    TorqueRate,
    VelocityController,
    WholeBodyController,
    default_constraints,
    replay,
    tick_data,
    tick_file,
)


# -- files ---------------------------------------------------------------------------------------------------------
def test_a_saved_tick_replays_bit_for_bit(tmp_path: Path, go2: qd.Robot) -> None:
    dyn = qd.Dynamics(go2)
    wbc = WholeBodyController(go2, friction=0.3)
    raises(qd.ArgumentError, "no tick", wbc.save_tick, tmp_path / "none.npz")
    rng, path, warm = np.random.default_rng(0), tmp_path / "tick.npz", 0
    for i in range(12):  # active limits and ramped contacts: a tick with a history
        q = pin.integrate(go2.model, go2.q_home, 0.02 * rng.normal(size=go2.nv))
        s = dyn.update(q, 0.1 * rng.normal(size=go2.nv))
        wbc.tasks["com"].reference(s.com, acceleration=np.array([4.0, 1.0, -1.0]))
        command = wbc.compute(s, go2.feet if i < 6 else go2.feet[:3])
        tau = command.tau.copy()
        wbc.save_tick(path)
        again = replay(path)
        assert again.identical and again.equal_to_rounding and again.difference == 0.0
        assert again.record.is_same_version and again.record.tick == i
        np.testing.assert_array_equal(command.tau, tau)
        warm += int(again.record.inputs.memory.limit_starts[0, -1] >= 0)
    assert warm > 6
    np.testing.assert_array_equal(again.command.tau, command.tau)
    np.testing.assert_array_equal(again.command.acceleration, command.acceleration)
    assert again.command.explain() == command.explain()
    assert again.record.command.status == again.command.status == command.status
    assert again.record.contact_activations == {name: wbc.contact_activations[name] for name in command.forces}
    assert again.record.joints == go2.actuated and again.record.robot == go2.name
    np.testing.assert_array_equal(again.record.q, s.q)
    assert again.command.margins == command.margins
    assert again.command.levels[1].tasks.keys() == command.levels[1].tasks.keys()


def test_saved_tick_is_unaffected_by_later_changes(tmp_path: Path, go2: qd.Robot) -> None:
    """Not by a new state, settings, numbers, a warm-up or a rejected tick."""
    dyn = qd.Dynamics(go2)
    wbc = WholeBodyController(go2, constraints=[*default_constraints(go2, 1e-3), TorqueRate(go2, 100.0)])
    s = dyn.update(go2.q_home, np.zeros(go2.nv))
    wbc.compute(s)
    wbc.compute(s, go2.feet[:3])
    command = wbc.compute(s, go2.feet[:3])
    wbc.save_tick(tmp_path / "at once.npz")
    dyn.update(go2.q_home + 0.0, np.full(go2.nv, 0.1))
    wbc.contacts["FL"].set_normal_force_bounds(5.0, 20.0)
    wbc.friction = 0.1
    wbc.tasks["torque"].limits[:] = 1.0
    wbc.tasks["forces"].reference({"FL": np.ones(3)})
    wbc.warmup(quiet=True)
    wbc.tasks["com"].block[1] = np.nan
    with pytest.raises(qd.ArgumentError, match="NaN"):
        wbc.compute(dyn.update(go2.q_home, np.zeros(go2.nv)))
    wbc.save_tick(tmp_path / "later.npz")
    again = replay(tmp_path / "later.npz")
    assert again.identical
    np.testing.assert_array_equal(again.command.tau, command.tau)
    with np.load(tmp_path / "at once.npz") as one, np.load(tmp_path / "later.npz") as other:
        assert one.files == other.files
        for name in one.files:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)
    wbc.reset()
    raises(qd.ArgumentError, "no tick", wbc.save_tick, tmp_path / "none.npz")


def test_ticks_of_every_kind_of_element_and_contact_replay_bit_for_bit(tmp_path: Path) -> None:
    outcomes = set()
    for path in tick_mutants.ticks(tmp_path):
        again = replay(path)
        assert again.identical, path.name
        assert again.command.status == again.record.command.status
        outcomes.add(again.command.status.outcome)
    assert outcomes == {"solved", "infeasible"}


def test_files_that_are_not_ticks_are_rejected_by_name(tmp_path: Path) -> None:
    for i, content in enumerate((b"", b"not an archive", b"PK\x03\x04 broken")):
        path = tmp_path / f"{i}.npz"
        path.write_bytes(content)
        raises(qd.ArgumentError, f"{i}.npz", replay, path)
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    raises(qd.ArgumentError, r"other\.npz", replay, tmp_path / "other.npz")
    np.savez(tmp_path / "pickle.npz", meta=np.array([{}], dtype=object))
    raises(qd.ArgumentError, r"pickle\.npz", replay, tmp_path / "pickle.npz")
    np.savez_compressed(tmp_path / "bomb.npz", a=np.zeros(10_000_000))
    raises(qd.ArgumentError, r"bomb\.npz: the archive is larger than", replay, tmp_path / "bomb.npz")
    with pytest.raises(FileNotFoundError):
        replay(tmp_path / "absent.npz")


@pytest.fixture(scope="module")
def saved_arrays(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """A tick's arrays."""
    robot, path = qd.load("go2"), tmp_path_factory.mktemp("tick") / "tick.npz"
    wbc = WholeBodyController(robot, friction=0.3)
    wbc.tasks["com"].reference(acceleration=np.array([4.0, 1.0, 0.0]))
    for _ in range(2):
        wbc.compute(qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv)))
    wbc.save_tick(path)
    with np.load(path) as archive:
        return dict(archive)


def save_with_digest(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    rest = {name: array for name, array in arrays.items() if name != "digest"}
    np.savez(path, digest=tick_file.digest(rest), **rest)
    return path


def test_files_of_format_11_are_read(saved_arrays: dict[str, np.ndarray], tmp_path: Path) -> None:
    meta = json.loads(saved_arrays["meta"].tobytes()) | {"format": 11}
    arrays = with_names_of_format_11(saved_arrays)
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    again = replay(save_with_digest(tmp_path / "tick.npz", arrays))
    assert again.identical and again.record.command.status.kkt == saved_arrays["answer.certificate"][1]
    assert again.record.inputs.inputs.previous.exists == bool(saved_arrays["previous.exists"])


def with_names_of_format_11(saved_arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a tick as in files of format 11."""
    arrays = dict(saved_arrays)
    arrays["inputs.has_previous_tick"] = arrays.pop("previous.exists").reshape(1)
    arrays["inputs.previous_torque"] = arrays.pop("previous.torque")
    arrays["answer.violation"], arrays["answer.kkt"] = arrays.pop("answer.certificate").reshape(2, 1)
    del arrays["memory.steadiness"]
    return arrays


@pytest.mark.parametrize("version", [9, 10])
def test_files_of_formats_9_and_10_are_read(version: int, saved_arrays: dict[str, np.ndarray], tmp_path: Path) -> None:
    saved_arrays = with_names_of_format_11(saved_arrays)
    meta = json.loads(saved_arrays["meta"].tobytes())
    groups = [{**group, "owner": group["element"]} for group in meta["groups"]]
    meta |= {"format": version, "outside": meta["nonviable"], "groups": groups}
    old_names = {
        new: old for old, new in tick_file.OLD_NAMES.items() if version == 9 or old.startswith("memory.current")
    }
    if version == 9:  # the names of format 10 come later in the table
        old_names |= {"memory.eliminated": "memory.now", "memory.as_rows": "memory.now_full"}
    arrays = {old_names.get(name, name): array for name, array in saved_arrays.items()}
    columns = [arrays.pop(f"elements.{name}") for name in tick_data.ElementTable._fields]
    arrays["model.items"] = np.column_stack(columns)
    skips = arrays.pop("memory.skips_elimination")
    is_valid = saved_arrays["memory.limit_starts"][:, -1] >= 0
    arrays[old_names.get("memory.is_valid", "memory.is_valid")] = np.where([False, skips], 2, is_valid)
    needs_min_norm = old_names.get("memory.needs_min_norm", "memory.needs_min_norm")
    arrays[needs_min_norm] = np.array([int(saved_arrays["memory.needs_min_norm"])])
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    again = replay(save_with_digest(tmp_path / "tick.npz", arrays))
    assert again.identical and again.record.problem.levels[0][0].element == "contact"


def test_modified_tick_file_is_rejected(saved_arrays: dict[str, np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "tick.npz"
    for name, array in saved_arrays.items():
        np.savez(path, **saved_arrays | {name: array[None]})
        raises(qd.ArgumentError, r"tick\.npz: (digest|the file was not saved)", replay, path)
        np.savez(path, **{other: array for other, array in saved_arrays.items() if other != name})
        raises(qd.ArgumentError, r"tick\.npz: (digest|the file was not saved)", replay, path)
    np.savez(path, **saved_arrays)
    assert replay(path).identical
    whole, rng, refused = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(60):
        damaged = bytearray(whole)
        for where in rng.integers(len(whole), size=3):
            damaged[where] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            assert replay(path).identical  # unused bytes
        except qd.ArgumentError:
            refused += 1
    assert refused > 40


@pytest.mark.parametrize(
    ("field", "where", "value"),
    [
        ("q", 3, np.nan),
        ("model.mass", (), 0.0),
        ("model.levels", (), 4),
        ("model.levels", (), 2**40),
        ("model.chains", (0, 0), 18),
        ("model.chains", (0, 1), -1),
        ("model.limbs", (0, 1), 9),
        ("model.limbs", (0, 0), 2),
        ("model.couplings", (0, 1), 18),
        ("model.slot", 0, 3),
        ("model.actuated", 0, 7),
        ("model.contact_motion_start", (), 3),
        ("model.has_strict_contacts", (), False),
        ("elements.level", 6, 3),
        ("elements.code", 6, 10),
        ("elements.first_parameter", 8, 390),
        ("elements.size", 8, 6),
        ("elements.first", 8, 5),
        ("elements.second", 8, 4),
        ("elements.first", 13, 1),
        ("model.index", 0, 19),
        ("model.index", 1, -1),
        ("terms.frames", 1, 700),
        ("contacts.role", 0, 4),
        ("contacts.size", 0, 4),
        ("contacts.is_surface", 0, 1),
        ("contacts.frame", 1, 5),
        ("contacts.cone_row_count", 0, 18),
        ("contacts.activation", 0, np.nan),
        ("contacts.cap", 0, np.nan),
        ("contacts.normal", (0, 0), np.inf),
        ("inputs.parameters", 30, np.nan),
        ("previous.exists", (), 2),
        ("memory.eliminated", 0, 2),
        ("memory.limit_starts", (0, 4), 45),
        ("memory.limit_starts", (0, 4), 2**40),
        ("answer.ranks", 0, np.nan),
    ],
)
def test_invalid_numbers_of_a_tick_file_are_rejected_by_field(
    field: str, where: int, value: float, saved_arrays: dict[str, np.ndarray], tmp_path: Path
) -> None:
    array = saved_arrays[field].copy()
    array[where] = value
    told = {
        "elements.code-10": "elements.second",
        "memory.limit_starts-45": "memory.eliminated",
        "model.levels-4": "memory.limit_starts",
    }
    with pytest.raises(qd.ArgumentError, match=rf"tick\.npz: {told.get(f'{field}-{value}', field)}"):
        replay(save_with_digest(tmp_path / "tick.npz", saved_arrays | {field: array}))


@pytest.mark.parametrize(("runs", "judged"), [(24, 0.3), pytest.param(150, 0.1, marks=pytest.mark.slow)])
def test_mutated_ticks_with_a_valid_digest_are_rejected_or_solved(runs: int, judged: float) -> None:
    """In a separate process, so that a crash is detected; `tick_mutants` can run more of them."""
    command = [sys.executable, str(Path(__file__).with_name("tick_mutants.py")), "--runs", str(runs), "--seed", "3"]
    done = subprocess.run([*command, "--judged", str(judged)], capture_output=True, encoding="utf-8", timeout=600)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    tally = json.loads(done.stdout.splitlines()[-1])
    assert tally["refused"] > runs // 3 and tally["solved"] > runs // 20 and tally["judged"] > 0


def test_ticks_of_other_sources_are_marked_and_other_formats_rejected(
    saved_arrays: dict[str, np.ndarray], tmp_path: Path
) -> None:
    meta = json.loads(saved_arrays["meta"].tobytes())
    assert meta["format"] == tick_file.FORMAT_VERSION

    def written(**changes: object) -> Path:
        words = np.frombuffer(json.dumps(meta | changes).encode(), dtype=np.uint8)
        return save_with_digest(tmp_path / "tick.npz", saved_arrays | {"meta": words})

    again = replay(written(code="of last year"))
    assert again.identical and not again.record.is_same_version
    shown = CliRunner().invoke(app, ["replay", str(tmp_path / "tick.npz")])
    assert shown.exit_code == 0 and "another version of the package" in " ".join(shown.stdout.split())
    with pytest.raises(qd.ArgumentError, match=r"tick\.npz: format: expected format 9 to 13, got 4"):
        replay(written(format=4))


def test_replay_command_replays_and_explains_a_tick(tmp_path: Path, go2: qd.Robot) -> None:
    wbc = WholeBodyController(go2, friction=0.1)
    s = qd.Dynamics(go2).update(go2.q_home, np.zeros(go2.nv))
    wbc.tasks["com"].reference(s.com, acceleration=np.array([3.0, 0.0, 0.0]))
    command = wbc.compute(s)
    wbc.save_tick(tmp_path / "tick.npz")
    shown = CliRunner().invoke(app, ["replay", str(tmp_path / "tick.npz")])
    assert shown.exit_code == 0
    assert "identical to the saved one" in shown.stdout and "com x" in shown.stdout and "FL_calf_joint" in shown.stdout
    data = json.loads(CliRunner().invoke(app, ["replay", str(tmp_path / "tick.npz"), "--json"]).stdout)
    assert data["identical"] and data["same_code"] and list(data["tau"].values()) == command.tau.tolist()
    assert CliRunner().invoke(app, ["replay", str(tmp_path / "absent.npz")]).exit_code != 0


@pytest.mark.parametrize(("change", "code"), [(1e-10, 0), (1e-3, 1)])
def test_replay_command_fails_if_the_result_differs(
    change: float, code: int, saved_arrays: dict[str, np.ndarray], tmp_path: Path
) -> None:
    """Rounding differences, as of another processor, are accepted."""
    torque = saved_arrays["answer.torque"] + change
    path = save_with_digest(tmp_path / "tick.npz", saved_arrays | {"answer.torque": torque})
    shown = CliRunner().invoke(app, ["replay", str(path)])
    assert shown.exit_code == code and "differs by" in shown.stdout
    again = replay(path)
    assert not again.identical and again.difference == pytest.approx(change, rel=1e-3)
    data = json.loads(CliRunner().invoke(app, ["replay", str(path), "--json"]).stdout)
    assert not data["identical"] and data["rounding"] == (code == 0)


# -- joint bounds --------------------------------------------------------------------------------------------------
@given(
    width=st.floats(-3.0, 0.5),
    start=st.floats(0.0, 1.0),
    speed=st.floats(-1.0, 1.0),
    periods=st.sampled_from([1.0, 2.0, 10.0]),
    push=st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=5, max_size=60),
)
@settings(max_examples=60, deadline=None)
def test_joints_starting_in_a_viable_state_stay_within_their_limits(
    width: float, start: float, speed: float, periods: float, push: list[float]
) -> None:
    robot, dt, d = qd.load("two_link_leg"), 1e-2, 40.0
    bounds = JointBounds(robot, dt, acceleration=100.0, deceleration=d, horizon=periods * dt)
    length = 10.0**width
    bounds.lower, bounds.upper, bounds.velocity = -0.5 * length, 0.5 * length, 5.0
    q = (start - 0.5) * length
    braking = min(d, length / bounds.horizon**2, 5.0 / bounds.horizon)
    room = 0.5 * length - (q if speed > 0.0 else -q)
    v = speed * min(5.0, float(np.sqrt(2.0 * braking * room)))
    for wish in push * 2:
        now = np.array([q, 0.0]), np.array([v, 0.0])
        assert bounds.viable_mask(*now).all()
        low, high = bounds.bounds(*now)
        assert (low <= high).all() and low[0] <= d + 1e-9 and high[0] >= -d - 1e-9
        assert (np.abs(np.concatenate((low, high))) <= 100.0 + 1e-9).all()
        a = (low[0], 0.5 * (low[0] + high[0]), high[0])[1 + int(wish)]
        turn = [q - 0.5 * v * v / a] if v * (v + dt * a) < 0.0 else []
        q, v = q + dt * v + 0.5 * dt * dt * a, v + dt * a
        assert all(abs(x) <= (0.5 + 1e-9) * length for x in (q, *turn)) and abs(v) <= 5.0 * (1.0 + 1e-9)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("recovery", [0.1, 0.0])
def test_joints_outside_their_limits_return_within_their_velocity_limit(recovery: float, sign: float) -> None:
    robot = qd.load("two_link_leg", limits={"hip": {"lower": -1.0, "upper": 1.0, "velocity": 2.0}})
    bounds = JointBounds(robot, 1e-3, acceleration=100.0, deceleration=50.0, horizon=1e-3, recovery=recovery)
    q, v, ticks = 1.2, 2.0, 0  # times the sign
    while q > 1.0 + 1e-3 and ticks < 2000:
        now = np.array([sign * q, 0.0]), np.array([sign * v, 0.0])
        assert not bounds.viable_mask(*now)[0]
        low, high = bounds.bounds(*now)
        assert high[0] >= -50.0 and low[0] <= 50.0 and low[0] <= high[0]
        a = high[0] if sign > 0.0 else -low[0]
        q, v, ticks = q + 1e-3 * v + 0.5e-6 * a, v + 1e-3 * a, ticks + 1
        assert v >= -2.0 - 1e-9
    # with d from 2 rad/s outwards it takes 40 ms to stop, 0.24 rad outside, and 140 ms back
    assert ticks < (190 if recovery == 0.0 else 1000)


def test_a_command_names_the_joints_that_cannot_stop_in_time(tmp_path: Path) -> None:
    robot = qd.load("three_link_leg")
    wbc, v = WholeBodyController(robot, dt=1e-3), np.zeros(robot.nv)
    assert wbc.compute(qd.Dynamics(robot).update(robot.q_home, v)).nonviable == ()
    q = robot.q_home.copy()
    q[1] = robot.upper[1] + 0.1
    command = wbc.compute(qd.Dynamics(robot).update(q, v))
    assert command.nonviable == (robot.actuated[1],)
    wbc.save_tick(tmp_path / "tick.npz")
    assert (
        tick_file.read(tmp_path / "tick.npz").command.nonviable
        == pickle.loads(pickle.dumps(command)).nonviable
        == command.nonviable
    )
    restore, parts = command.__reduce__()
    assert callable(restore) and restore(*parts[:-1]).timing == ""  # pickled by versions without `timing`


# -- velocities ----------------------------------------------------------------------------------------------------
def test_velocity_levels_reproduce_the_worked_example_of_source_e() -> None:
    arm = qd.load("planar_3r")
    s = qd.Dynamics(arm).update(np.radians([30.0, 60.0, 60.0]), np.zeros(3))
    hand = FramePositionTask(arm, "tool", "hand", axes=("x", "z"))
    rest = PostureTask(arm, "rest", joints=("joint1", "joint2"))
    rest.reference(s.q)
    wish = np.array([1.0, 0.0, 1.0])
    hand.reference(s.placement("tool").translation, wish)
    c = VelocityController(arm, tasks=[hand, rest], joint_limits=False, compiled=False).compute(s)
    again = VelocityController(arm, tasks=[hand, rest], joint_limits=False).compute(s)
    np.testing.assert_allclose(again.v, c.v, atol=1e-12)
    np.testing.assert_allclose(c.v, (-0.1691, -0.0845, -1.0702), atol=5e-5)
    assert float(c.residuals["hand"] @ c.residuals["hand"]) < 1e-28
    assert float(c.residuals["rest"] @ c.residuals["rest"]) == pytest.approx(0.0357, abs=5e-5)
    assert c.ranks[1:] == (2, 1)


def test_velocity_controller_reaches_its_goal_with_stationary_feet() -> None:
    for name in ("go2", "solo8"):
        robot = qd.load(name)
        dyn = qd.Dynamics(robot)
        ik = VelocityController(robot, dt=1e-2)
        s = dyn.update(robot.q_home, np.zeros(robot.nv))
        goal = s.com + np.array([0.02, 0.0, -0.03]) * s.com[2] / 0.3
        feet = {foot: s.placement(foot).translation.copy() for foot in robot.feet}
        ik.tasks["com"].reference(goal)
        for _ in range(120):
            c = ik.compute(s)
            assert c.ok and c.status.outcome == "solved"
            for foot in robot.feet:
                assert np.abs(contact_jacobian(s, foot) @ c.v).max() < 1e-9
            s = dyn.update(c.q, np.zeros(robot.nv))
        np.testing.assert_allclose(s.com, goal, atol=1e-5)
        for foot, place in feet.items():  # rolling feet move slightly
            np.testing.assert_allclose(s.placement(foot).translation, place, atol=0.02)


def test_velocity_levels_are_strict_and_limits_hold(go2: qd.Robot) -> None:
    dyn = qd.Dynamics(go2)
    s = dyn.update(go2.q_home, np.zeros(go2.nv))
    ik = VelocityController(go2)
    ik.tasks["FL"].reference(s.placement("FL").translation + np.array([0.0, 0.0, 0.05]))
    c = ik.compute(s, go2.feet[1:])
    assert np.abs(c.residuals["FL"]).max() < 1e-9 and np.abs(c.residuals["com"]).max() < 1e-9
    ik.tasks["FL"].reference(s.placement("FL").translation, np.array([0.0, 0.0, 50.0]))
    c = ik.compute(s, go2.feet[1:])
    assert c.active
    assert (np.abs(c.v[go2.actuated_index]) <= go2.velocity_limits + 1e-9).all()
    assert (c.q[7:] <= go2.upper[7:] + 1e-9).all() and (c.q[7:] >= go2.lower[7:] - 1e-9).all()


def test_velocity_controllers_reject_unsupported_options(go2: qd.Robot) -> None:
    with pytest.raises(qd.ArgumentTypeError, match="tasks"):
        VelocityController(go2, tasks=[MomentumTask(go2)])
    raises(qd.ArgumentError, "gain", VelocityController, go2, dt=0.1, gain=20.0)
    with pytest.raises(qd.ArgumentError, match="is used twice"):
        VelocityController(go2, tasks=[ComTask(go2), ComTask(go2)])
    ik = VelocityController(go2, tasks=[ComTask(go2), FootTask(go2, "FL")])
    with pytest.raises(qd.UnknownNameError, match="LF"):
        ik.compute(qd.Dynamics(go2).update(go2.q_home, np.zeros(go2.nv)), ("LF",))


# -- compilation ---------------------------------------------------------------------------------------------------
def test_warmup_prints_nothing_if_quiet_or_already_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    WholeBodyController(qd.load("go2")).warmup(quiet=True)
    assert capsys.readouterr().err == ""
    assert WholeBodyController(qd.load("go2")).warmup() > 0.0  # already compiled
    assert capsys.readouterr().err == ""
