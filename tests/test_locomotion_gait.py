"""Gaits, swing trajectories and the corresponding motion of the center of mass."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raising import raises
from slow_parameters import others_slow

import quaddyn as qd
from quaddyn.locomotion import LocomotionController
from quaddyn.locomotion.com_preview import (
    ComReference,
    allocate_com_reference,
    make_preview_parameters,
    sample_vertical_motion,
    update_com_reference,
)
from quaddyn.locomotion.gait import GAITS, Gait, GaitScheduler, compute_force_profile, compute_period
from quaddyn.locomotion.morphology import FEET, Morphology
from quaddyn.locomotion.path_reference import (
    PathReference,
    advance_path_reference,
    compute_displacement,
    compute_foothold,
    compute_world_velocity,
)
from quaddyn.locomotion.swing import (
    LATE_DESCENT_GAIN,
    MAX_DESCENT_RATIO,
    OVER_FIRST_TIMINGS,
    TARGET_FREEZE_PHASE,
    UNIFORM_TIMING,
    UP_FIRST_TIMINGS,
    SwingTiming,
    SwingTrajectory,
    advance_quintic,
    allocate_swings,
    move_swing,
    set_timing,
    start_swing,
)

MOVING = [name for name, gait in GAITS.items() if gait.has_swing_phase]


# -- proportions ---------------------------------------------------------------------------------------------------
def test_morphology_scales_with_robot_size(morphology: Morphology) -> None:
    assert morphology.length == pytest.approx(2 * 0.213)  # thigh and calf of a Go2
    assert morphology.time_scale * morphology.speed_scale == pytest.approx(morphology.length)
    assert morphology.natural_frequency == pytest.approx(np.sqrt(9.81 / morphology.height))
    np.testing.assert_allclose(morphology.nominal_stance.sum(axis=0), 0.0, atol=1e-12)
    np.testing.assert_array_equal(np.sign(morphology.nominal_stance), [[1, 1], [1, -1], [-1, 1], [-1, -1]])


@pytest.mark.parametrize(("name", "root"), [("go2", "fixed"), ("ur5", "fixed"), ("go2", "planar")])
def test_robots_that_cannot_walk_are_rejected(name: str, root: str) -> None:
    with pytest.raises(qd.ArgumentError, match="quadruped"):
        Morphology.from_robot(qd.load(name, root=root))


# -- gait ----------------------------------------------------------------------------------------------------------
def stance_history(clock: GaitScheduler, seconds: float, dt: float = 1e-3) -> np.ndarray:
    """Returns the stance mask of every tick (N, 4)."""
    out = []
    for _ in range(round(seconds / dt)):
        out.append(clock.stance_mask)
        clock.advance(dt)
    return np.array(out)


@pytest.mark.parametrize("name", MOVING)
def test_stance_time_fraction_equals_duty_factor(name: str) -> None:
    gait, clock = GAITS[name], GaitScheduler(name, 0.2)
    clock.start()
    stance_history(clock, 6.0 * clock.period)  # time for the transition from a trot
    stance = stance_history(clock, 10.0 * clock.period)
    np.testing.assert_allclose(stance.mean(axis=0), gait.duty_factor, atol=0.01)
    least = {"crawl": 3, "walk": 2, "trot": 2, "pace": 2, "bound": 2, "running_trot": 0, "pronk": 0, "gallop": 0}[name]
    assert stance.sum(axis=1).min() == least
    assert gait.vertical_force_profile.has_flight_phase == (least == 0) and gait.vertical_force_profile.is_constant == (
        least > 0
    )
    together = {
        "trot": ("FL", "RR"), "pace": ("FL", "RL"), "bound": ("FL", "FR"), "running_trot": ("FL", "RR"), "pronk": FEET
    }.get(name, ())  # fmt: skip
    for foot in together[1:]:
        np.testing.assert_array_equal(stance[:, FEET.index(together[0])], stance[:, FEET.index(foot)])


@pytest.mark.parametrize("name", ["running_trot", "pronk", "gallop"])
def test_vertical_motion_between_samples_is_the_integral_of_the_force(morphology: Morphology, name: str) -> None:
    g, preview, reference = (
        GaitScheduler(name, morphology.time_scale).state,
        make_preview_parameters(morphology),
        allocate_com_reference(),
    )
    compute_force_profile(g.force_profile, g.target.phase_offsets, g.target.duty_factor)
    assert not g.force_profile.is_constant
    phases, period = np.arange(-2000, 4000) / 2000.0, compute_period(g)
    motion = np.empty((len(phases), 3))
    for row, phase in zip(motion, phases, strict=True):
        g.phase = phase
        sample_vertical_motion(preview, g, reference)
        row[:] = reference.vertical_force, reference.height, reference.height_rate
    force, height, rate = motion.T
    np.testing.assert_allclose(motion[2000:4000], motion[4000:], atol=1e-9)
    time = period / 2000.0
    acceleration = morphology.gravity * (force - 1.0)
    step = abs(acceleration).max() * period / len(g.force_profile.force)  # of the rate between two samples
    np.testing.assert_allclose(np.gradient(height, time)[1:-1], rate[1:-1], atol=1.01 * step)
    error = np.gradient(rate, time)[1:-1] - acceleration[1:-1]
    assert np.sqrt(np.mean(error**2)) < 0.05 * abs(acceleration).max()
    for k in range(0, 2000, 250):  # at samples the profile itself
        sample = round((phases[2000 + k] % 1.0) * len(g.force_profile.force))
        assert force[2000 + k] == pytest.approx(g.force_profile.force[sample % len(g.force_profile.force)], abs=1e-9)


@pytest.mark.parametrize("name", MOVING)
def test_scheduler_is_transitioning_until_the_gait_is_reached(name: str) -> None:
    gait, clock = GAITS[name], GaitScheduler(name, 0.2)
    own = gait.footprint_scale == (1.0, 1.0) and gait.vertical_force_profile.is_constant
    clock.start()
    assert clock.is_transitioning != own
    stance_history(clock, 10.0 * clock.period)
    assert not clock.is_transitioning
    assert clock.period == pytest.approx(0.2 * gait.period, rel=1e-4)
    clock.set_gait("walk" if name != "walk" else "trot")
    assert clock.is_transitioning


@pytest.mark.parametrize(
    ("name", "end"), [("running_trot", "stop"), ("pronk", "stop"), ("pronk", "stand"), ("gallop", "stop")]
)
def test_flight_gaits_start_and_stop_as_a_trot(name: str, end: str) -> None:
    clock = GaitScheduler(name, 0.2)
    clock.start()
    while clock.phase < 0.0:
        assert clock.vertical_force_profile.is_constant and clock.stance_mask.all()
        clock.advance(1e-3)
    stance_history(clock, 8.0 * clock.period)
    assert clock.vertical_force_profile.has_flight_phase
    if end == "stop":
        clock.stop_stepping()
    else:
        clock.set_gait(end)
    assert clock.is_running and np.isinf(clock.last_swing).all()
    assert stance_history(clock, 8.0 * clock.period)[-1].all() and not clock.is_running
    assert clock.vertical_force_profile.is_constant and clock.duty_factor > 0.5


@pytest.mark.parametrize("name", ["crawl", "walk", "trot"])
def test_start_and_stop_do_not_truncate_swings(name: str) -> None:
    clock = GaitScheduler(name, 0.2)
    clock.start()
    lead = clock.lead_phase * clock.period
    stance = stance_history(clock, lead)
    assert stance.all()  # time to shift the weight
    stance = np.vstack(
        [stance_history(clock, 3.3 * clock.period), (clock.stop_stepping(), stance_history(clock, clock.period))[1]]
    )
    assert stance[-1].all() and not clock.is_running
    for foot in stance.T:
        edges = np.flatnonzero(np.diff(np.concatenate(([True], foot, [True])).astype(int)))
        lengths = (edges[1::2] - edges[::2]) * 1e-3
        assert len(lengths) >= 3
        np.testing.assert_allclose(lengths, clock.swing_time, atol=2.1e-3)


PAIRS = [(first, second) for first in MOVING for second in MOVING]


@pytest.mark.parametrize(
    ("first", "second"),
    others_slow(PAIRS, [(first, MOVING[i - 2]) for i, first in enumerate(MOVING)]),
)
def test_gait_change_completes_without_truncating_swings(first: str, second: str) -> None:
    clock = GaitScheduler(first, 0.2)
    clock.start()
    before = stance_history(clock, 2.37 * clock.period)
    clock.set_gait(second)
    steady = GAITS[first].vertical_force_profile.is_constant and GAITS[second].vertical_force_profile.is_constant
    during = stance_history(clock, 4.0 if steady else 6.0)  # flight gaits change the order of their feet in stance
    gait, passed = GAITS[second], {first, second} | (set() if steady else {"trot"})
    swing_times = [(1.0 - GAITS[name].duty_factor) * GAITS[name].period for name in passed]
    np.testing.assert_allclose((clock.phase_offsets - gait.phase_offsets + 0.5) % 1.0, 0.5, atol=1e-9)
    assert clock.duty_factor == pytest.approx(gait.duty_factor) and clock.period == pytest.approx(0.2 * gait.period)
    for foot in np.vstack([before, during]).T:
        edges = np.flatnonzero(np.diff(foot.astype(int)))
        edges = edges[0 if not foot[edges[0] + 1] else 1 :]
        lengths = (edges[1::2] - edges[: len(edges) // 2 * 2 : 2]) * 1e-3
        # the phase of a shifted foot advances at 3/4 to 5/4 of the rate, which itself changes
        assert lengths.min() > 0.2 * min(swing_times) * 0.75
        assert lengths.max() < 0.2 * max(swing_times) * 1.6


@pytest.mark.parametrize("name", ["pace", "bound", "walk", "crawl"])
def test_gait_change_from_trot_keeps_two_feet_in_contact(name: str) -> None:
    clock = GaitScheduler("trot", 0.2)
    clock.start()
    stance_history(clock, 3.0 * clock.period)
    clock.set_gait(name)
    before = np.array(clock.phase_offsets)
    stance = stance_history(clock, 4.0)
    np.testing.assert_allclose((clock.phase_offsets - GAITS[name].phase_offsets + 0.5) % 1.0, 0.5, atol=1e-9)
    assert stance.sum(axis=1).min() >= 2
    change = clock.phase_offsets - before
    assert change.min() >= -0.5 - 1e-9 and change.max() < 0.499  # half a cycle is taken backward
    assert np.count_nonzero(change < -0.499) == 2


def test_swing_progress_runs_from_0_to_1(morphology: Morphology) -> None:
    clock = GaitScheduler("trot", morphology.time_scale)
    clock.start()
    seen = []
    for _ in range(1500):
        np.testing.assert_array_equal(clock.swing_phase > 0.0, ~clock.stance_mask & (clock.swing_phase > 0.0))
        seen.append(clock.swing_phase[0])
        clock.advance(1e-3)
    air = np.array(seen)
    assert air.max() > 0.99 and air.min() == 0.0
    rising = np.diff(air)
    np.testing.assert_allclose(rising[(rising > 0.0) & (air[:-1] > 0.0)], 1e-3 / clock.swing_time, rtol=1e-6)


def test_invalid_gaits_are_rejected() -> None:
    raises(qd.UnknownNameError, "trot", GaitScheduler, "tort", 0.2)
    raises(qd.UnknownNameError, "trot", GaitScheduler, ["trot"], 0.2)
    wrong: tuple[dict[str, object], ...] = (
        *({"duty_factor": 0.2}, {"duty_factor": np.nan}, {"period": 0.0}, {"phase_offsets": (0.0, 0.5, 1.5, 0.0)}),
        *(
            {"phase_offsets": None},
            {"phase_offsets": (0.0, 0.5)},
            {"footprint_scale": 1.0},
            {"footprint_scale": (1.0, "1")},
            {"max_stride": 0.0},
        ),
    )
    for options in wrong:
        with pytest.raises((qd.ArgumentError, qd.ArgumentTypeError), match=next(iter(options))):
            Gait(**({"name": "x", "period": 2.0, "duty_factor": 0.6, "phase_offsets": (0.0, 0.5, 0.5, 0.0)} | options))  # type: ignore[arg-type]


def test_gaits_compare_and_hash_by_value() -> None:
    own = Gait("own", 2.2, 0.56, np.array([0.0, 0.5, 0.5, 0.0]), [1.0, 1.0])  # type: ignore[arg-type]
    assert own == Gait("own", 2.2, 0.56, (0.0, 0.5, 0.5, 0.0)) and hash(own)


# -- course and preview --------------------------------------------------------------------------------------------
def test_path_reference_prediction_is_a_circular_arc() -> None:
    course = PathReference(np.array([1.0, 2.0]), 0.3)
    course.velocity[:] = 0.4, -0.1, 0.7
    ahead = course.position + compute_displacement(course.state, 1.5)
    small = PathReference(np.array([1.0, 2.0]), 0.3)
    small.velocity[:] = course.velocity
    for _ in range(15000):  # Euler at the middle of steps of 0.1 ms
        small.position = small.position + 1e-4 * np.array(compute_world_velocity(small.state, 5e-5))
        small.yaw += 1e-4 * 0.7
    np.testing.assert_allclose(ahead, small.position, atol=1e-8)
    assert compute_displacement(course.state, 0.0) == (0.0, 0.0)
    advance_path_reference(course.state, 1.5)
    assert course.yaw == pytest.approx(small.yaw)


def preview(
    p: Morphology,
    clock: GaitScheduler,
    course: PathReference,
    feet: np.ndarray,
    stance: np.ndarray,
    offset: object = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
) -> ComReference:
    """Reference of the center of mass for the horizontal positions of the feet."""
    reference, points = allocate_com_reference(), np.column_stack((feet, np.zeros(4)))
    parameters = make_preview_parameters(p)
    update_com_reference(parameters, clock.state, course.state, stance, points, np.array(offset), reference)
    return reference


COURSES = [(v, name) for v in ((0.0, 0.0, 0.0), (0.5, 0.0, 0.0), (0.2, 0.3, 0.5)) for name in MOVING]


KINDS = [(0, "crawl"), (1, "gallop"), (2, "bound")]  # of a course and a gait


@pytest.mark.parametrize(
    ("velocity", "name"), others_slow(COURSES, [COURSES[k * len(MOVING) + MOVING.index(name)] for k, name in KINDS])
)
def test_com_reference_satisfies_pendulum_dynamics_about_its_cop(
    morphology: Morphology, name: str, velocity: tuple[float, float, float]
) -> None:
    """Following the divergent component, the pendulum stays on its path: xidot = (lambda / omega) (xi - z)."""
    clock, dt = GaitScheduler(name, morphology.time_scale), 1e-3
    course = PathReference(np.zeros(2), 0.0)
    gait = GAITS[name]
    fastest = (
        0.7 * morphology.length / (gait.duty_factor * gait.period * morphology.time_scale)
    )  # a stance foot moves back by 0.7 l
    clock.start()
    feet = morphology.nominal_stance.copy()
    own = gait.footprint_scale == (1.0, 1.0) and gait.vertical_force_profile.is_constant
    settled = 0.1 if own else 6.0  # [cycles]: gaits with a narrow footprint or flight phases start as a trot
    xi = pressure = None
    c, worst, off = np.zeros(2), 0.0, 0.0
    for _ in range(4000):
        if clock.phase >= 0.0:
            course.velocity[:] = np.minimum(velocity, fastest)
        reference = preview(morphology, clock, course, feet, morphology.nominal_stance * clock.footprint_scale)
        assert np.isfinite(reference.dcm).all()
        stands = clock.stance_mask.any()
        assert (
            reference.load_fractions.sum() == pytest.approx(float(stands)) and (reference.load_fractions >= 0.0).all()
        )
        assert not reference.load_fractions[~clock.stance_mask].any() and (stands or reference.vertical_force < 0.1)
        if stands:
            np.testing.assert_allclose(reference.load_fractions @ feet, reference.cop, atol=1e-12)
        omega = reference.frequency
        rate = 9.81 * reference.vertical_force / (morphology.height + reference.height) / omega
        if xi is not None and clock.phase > settled:
            middle = 0.5 * (pressure + reference.cop)
            worst = max(worst, np.abs((reference.dcm - xi) / dt - rate * (xi - middle)).max())
        xi, pressure = reference.dcm, reference.cop
        c = c + dt * omega * (xi - c)
        off = max(off, np.linalg.norm(c - course.position))
        before = clock.stance_mask
        clock.advance(dt)
        advance_path_reference(course.state, dt)
        for i in np.flatnonzero(clock.stance_mask & ~before):
            when = (0.5 * clock.duty_factor - (clock.phase - clock.phase_offsets[i]) % 1.0) * clock.period
            feet[i] = compute_foothold(course.state, morphology.nominal_stance * clock.footprint_scale, int(i), when)
    assert (
        worst < 0.35 * morphology.speed_scale * 0.5
    )  # except at exchanges of support, whose loads change within some ms
    assert off < 0.4 * morphology.length  # a crawl sways widely, but stays bounded


# -- swing ---------------------------------------------------------------------------------------------------------
numbers = st.floats(-2.0, 2.0)


@settings(max_examples=50, deadline=None)
@given(numbers, numbers, numbers, numbers, numbers, st.floats(0.05, 2.0), st.floats(0.0, 1.0))
def test_quintic_meets_boundary_conditions_and_can_be_split_anywhere(
    x: float, v: float, a: float, goal: float, speed: float, time: float, share: float
) -> None:
    size = 1.0 + abs(a) / time
    np.testing.assert_allclose(advance_quintic(x, v, a, goal, speed, time, 0.0), (x, v, a), atol=1e-12)
    np.testing.assert_allclose(advance_quintic(x, v, a, goal, speed, time, time), (goal, speed, 0.0), atol=1e-12)
    near = advance_quintic(x, v, a, goal, speed, time, time * (1.0 - 1e-9))
    np.testing.assert_allclose(near, (goal, speed, 0.0), atol=1e-3 * size / time)
    cut = advance_quintic(x, v, a, goal, speed, time, share * time)
    if share < 0.9:
        in_two = advance_quintic(*cut, goal, speed, (1.0 - share) * time, 0.05 * time)
        at_once = advance_quintic(x, v, a, goal, speed, time, (share + 0.05) * time)
        np.testing.assert_allclose(in_two, at_once, atol=1e-6 * size / time**2)


def swing_history(
    swing: SwingTrajectory, target: object, seconds: float, dt: float = 1e-3
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    path = []
    for k in range(round(seconds / dt)):
        path.append((swing.position.copy(), swing.velocity.copy(), swing.acceleration.copy()))
        swing.advance(dt, target(k * dt))  # type: ignore[operator]
    return tuple(np.array(x) for x in zip(*path, strict=True))  # type: ignore[return-value]


def test_swing_reaches_clearance_and_touchdown_speed() -> None:
    swing = SwingTrajectory(np.zeros(3), np.zeros(3), duration=0.2, clearance=0.06, touchdown_speed=0.05)
    target = np.array([0.15, -0.02, 0.01])
    p, _, _ = swing_history(swing, lambda t: target, 0.2)
    np.testing.assert_allclose(swing.position, target, atol=1e-9)
    np.testing.assert_allclose(swing.velocity, [0.0, 0.0, -0.05], atol=1e-9)
    assert p[:, 2].max() == pytest.approx(0.06 + 0.5 * 0.01, abs=1e-3)  # above the straight line
    late, _, _ = swing_history(swing, lambda t: target, 0.1)
    gaining = (MAX_DESCENT_RATIO - 1.0) / LATE_DESCENT_GAIN * 0.2  # [s] until its downward velocity is constant
    deep = 0.05 * (0.5 * (1.0 + MAX_DESCENT_RATIO) * gaining + MAX_DESCENT_RATIO * (0.099 - gaining))
    np.testing.assert_allclose(late[-1], target - [0.0, 0.0, deep], atol=2e-4)


@pytest.mark.parametrize("timing", [UNIFORM_TIMING, *UP_FIRST_TIMINGS, *OVER_FIRST_TIMINGS])
def test_horizontal_motion_and_change_of_height_have_their_own_timing(timing: SwingTiming) -> None:
    """Each is a minimum-jerk path between its start and its end; both horizontal axes move alike."""
    swings, target, dt = allocate_swings(1), np.array([0.3, -0.2, 0.1]), 1e-3
    start_swing(swings, 0, np.zeros(3), np.zeros(3), np.array([0.0, 0.0, 1.0]), 1.0, 0.0, 0.0)
    set_timing(swings, 0, *timing)
    for k in range(1, 1001):
        move_swing(swings, 0, *target.tolist(), 1.0, 0.0, dt)
        tau = (k * dt - np.array(timing[::2])) / np.subtract(timing[1::2], timing[::2])
        tau = np.clip(tau, 0.0, 1.0)[[0, 0, 1]]
        path = target * tau**3 * (10.0 - 15.0 * tau + 6.0 * tau**2)
        np.testing.assert_allclose(swings.position[0], path, atol=2.0 * dt)


def test_remaining_path_equals_later_swing_positions() -> None:
    swing = SwingTrajectory(np.zeros(3), np.zeros(3), duration=0.2, clearance=0.06, touchdown_speed=0.05)
    target = np.array([0.15, -0.02, 0.01])
    swing_history(swing, lambda t: target, 0.06)
    here, way = swing.position.copy(), swing.remaining_path(14)
    np.testing.assert_array_equal(swing.position, here)
    np.testing.assert_array_equal(way[0], here)
    path, _, _ = swing_history(swing, lambda t: target, 0.14)
    np.testing.assert_allclose(way[:-1], path[::10], atol=1e-9)
    np.testing.assert_allclose(way[-1], swing.position, atol=1e-9)
    swing_history(swing, lambda t: target, 0.02)
    assert swing.remaining_path().shape == (1, 3)  # late touchdown: the ground height is unknown


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_swing_is_smooth_for_jumping_targets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jumps = rng.uniform(-0.1, 0.1, (20, 3))
    swing = SwingTrajectory(np.zeros(3), np.array([0.1, 0.0, 0.0]), duration=0.25, clearance=0.08, touchdown_speed=0.05)
    p, v, a = swing_history(swing, lambda t: jumps[int(20 * t / 0.25) % 20], 0.3, dt=1e-4)
    assert np.isfinite(p).all()
    jerk = (
        60.0 * 0.3 / (0.25 * (1.0 - TARGET_FREEZE_PHASE)) ** 3 + 36.0 * 6.0 / (0.25 * (1.0 - TARGET_FREEZE_PHASE)) ** 2
    )
    assert np.abs(np.diff(a, axis=0)).max() < jerk * 1e-4  # no jump in acceleration
    assert np.abs(np.diff(v, axis=0) - 0.5e-4 * (a[1:] + a[:-1])).max() < jerk * 1e-8
    assert np.abs(np.diff(p, axis=0) - 0.5e-4 * (v[1:] + v[:-1])).max() < jerk * 1e-11
    settled = jumps[int(20 * TARGET_FREEZE_PHASE - 1e-6) % 20]
    np.testing.assert_allclose(swing.position[:2], settled[:2], atol=0.2)


def test_two_joint_legs_bound_slowly_and_pace_only_at_full_footprint_width() -> None:
    controller = LocomotionController(qd.load("solo8"), gait="bound")
    assert 0.0 < controller.clamp_velocity((10.0, 0.0, 0.0))[0] < 0.2 * controller.morphology.speed_scale
    assert controller.velocity_limit_reason((10.0, 0.0, 0.0)).startswith("reach of")
    controller.gait = "pace"
    assert not controller.clamp_velocity((0.1, 0.0, 0.0)).any()
    assert controller.velocity_limit_reason((0.1, 0.0, 0.0)) == "legs without lateral motion"
    controller.gait = dataclasses.replace(GAITS["pace"], name="wide pace", footprint_scale=(1.0, 1.0))
    assert controller.clamp_velocity((0.1, 0.0, 0.0))[0] > 0.0


def test_end_support_detection_agrees_with_exact_arithmetic() -> None:
    for front, rear in itertools.product(range(0, 100, 10), range(0, 100, 10)):
        for duty in range(55, 95, 5):
            offsets = (front, rear, 0, 50)
            fl, fr, rl, rr = ((np.arange(0.5, 100.0) - offset) % 100.0 < duty for offset in offsets)
            gait = Gait("own", 2.0, duty / 100, tuple(offset / 100 for offset in offsets))
            assert gait.has_end_support == bool(((fl | fr) != (rl | rr)).any()), gait


def test_a_transition_lasts_until_every_parameter_is_that_of_the_target() -> None:
    scheduler = GaitScheduler("trot", 0.2)
    state, target = scheduler.state, scheduler.state.target
    for field in ("duty_factor", "nominal_period", "phase_offsets", "footprint_scale"):
        goal = np.atleast_1d(getattr(target, field.removeprefix("nominal_")))
        for i, value in enumerate(goal.tolist()):
            for change, is_complete in ((0.0, True), (9e-6, True), (0.1, False), (-0.1, False)):
                if goal.size == 1:
                    setattr(state, field, value + change * value)
                else:
                    getattr(state, field)[i] = value + change
                assert scheduler.is_transitioning != is_complete, (field, i, change)
            if goal.size == 1:
                setattr(state, field, value)
            else:
                getattr(state, field)[i] = value + (2.0 if field == "phase_offsets" else 0.0)  # whole cycles
            assert not scheduler.is_transitioning
