"""Legs in closed form: every branch of every leg, names, limits, singular and unreachable targets, wrong arguments."""

import functools
import itertools
import os
import pickle

import numpy as np
import pinocchio as pin
import pytest
from finite_differences import by_vector
from hypothesis import given, settings
from hypothesis import strategies as st
from raising import raises
from slow_parameters import NIGHT, others_slow
from urdf_text import inertial, joint, link, urdf

import quaddyn as qd
from quaddyn.errors import UnreachableError
from quaddyn.kinematics import LegKinematics
from quaddyn.robot.catalogue import find_entry
from quaddyn.robot.configuration import set_joint_value
from quaddyn.robot.legs import make_limbs
from quaddyn.robot.limbs import forward_and_left
from quaddyn.robot.stance import knee_offset

QUADRUPEDS = [name for name, entry in qd.CATALOGUE.items() if entry.kind == "quadruped"]
#: Single chains that no name calls legs.
CHAINS = ["finger_edu", "double_pendulum_continuous", "asr_twodof", "planar_3r", "chain_4"]
LEGGED = [*QUADRUPEDS, "bolt", *CHAINS[:3]]
OWN = ["two_link_leg", "three_link_leg", "four_link_leg", *CHAINS[3:]]
COUNT = 10_000 if "QUADDYN_SLOW" in os.environ else 300
#: One leg of each kind.
KINDS = {"anymal_c", "bolt", "solo8", "two_link_leg"}


@functools.cache
def robot_of(name):
    return qd.load(name, legs="leg" if name in CHAINS else None)


@functools.cache
def leg_of(name, leg=None):
    return LegKinematics(robot_of(name), leg or next(iter(robot_of(name).legs)))


def legs_of(name):
    return [leg_of(name, leg) for leg in robot_of(name).legs]


def middle_of(leg):
    bounded = np.isfinite(leg.lower) & np.isfinite(leg.upper)
    return 0.5 * (np.where(bounded, leg.lower, 0.0) + np.where(bounded, leg.upper, 0.0))


def sample(leg, rng, count):
    """Samples joint values within the limits and within one turn."""
    middle = middle_of(leg)
    low, high = np.maximum(leg.lower, middle - np.pi), np.minimum(leg.upper, middle + np.pi)
    return rng.uniform(low, high, (count, leg.n))


def configuration(leg, q):
    """A configuration of the whole robot, the base at the world's origin."""
    robot = leg.robot
    out = pin.neutral(robot.model)
    joints = {body.joint.name: body.joint for body in robot.bodies[1:]}
    for name, value in zip(leg.joints, q, strict=True):
        set_joint_value(out, robot.configuration_index(name), joints[name], float(value))
    return out


def branches(leg):
    hips = ("below", "above") if leg.n > len(leg._geometry.links) else ("below",)
    return [{"knee": knee, "hip": hip} for hip in hips for knee in ("forward", "backward")]


def angle_distance(a, b):
    return np.abs((a - b + np.pi) % (2.0 * np.pi) - np.pi)


# -- the whole catalogue ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name", [n for n in [*LEGGED, *OWN] if n not in ("centauro", "three_link_leg", "four_link_leg")]
)
def test_targets_are_reached_on_every_branch_and_one_branch_has_the_original_joint_values(name):
    for leg in legs_of(name):
        if len(leg._geometry.links) > 2:
            continue  # tested below, with a given angle
        q = sample(leg, np.random.default_rng(1), COUNT)
        p = leg.forward(q)
        back, reached = np.full(COUNT, np.inf), np.zeros(COUNT, dtype=int)
        for branch in branches(leg):
            s = leg.inverse(p, **branch)
            error = np.linalg.norm(leg.forward(s.q) - p, axis=1)
            assert error[s.reached].max() <= 1e-12
            np.testing.assert_allclose(s.distance, error, atol=1e-15)
            reached += s.reached
            back = np.minimum(back, angle_distance(s.q, q).max(axis=1))
        assert back.max() < 1e-6  # 1e-16, except near a straight knee, where joint errors are its square root
        assert np.median(back) < 1e-12
        # Both knee branches reach the same points; so do both hip branches, unless the hip is off the abduction axis.
        assert (reached >= 2).all()


@pytest.mark.parametrize("name", ["centauro", "three_link_leg", "four_link_leg", "planar_3r", "chain_4"])
@pytest.mark.parametrize("choice", ["angle", "hold", "parallel"])
def test_targets_of_legs_with_more_than_two_links_are_reached_with_every_redundancy_choice(name, choice):
    """Targets are computed from configurations that satisfy the choice; one branch returns the configuration."""
    for leg in legs_of(name):
        g = leg._geometry
        m, first = len(g.links), leg._geometry.n_active - len(g.links)
        q = sample(leg, np.random.default_rng(2), COUNT)
        q[:, g.n_active :] = leg.q_home[g.n_active :]
        lines = np.angle(g.links)

        def turns(q, g=g, first=first):
            return np.cumsum(g.signs * q[:, first : g.n_active], axis=1)

        options = {"redundancy": "hold" if choice == "angle" else choice}
        for k in range(2, m):
            if choice != "parallel":
                q[:, first + k] = leg.q_home[first + k]
            else:
                wanted = turns(q)[:, k - 2] + lines[k - 2] - lines[k]
                q[:, first + k] = g.signs[k] * (wanted - turns(q)[:, k - 1])
        if choice == "angle":
            q[:, g.n_active - 1] = sample(leg, np.random.default_rng(3), COUNT)[:, g.n_active - 1]
            options["angle"] = turns(q)[:, -1] + lines[-1]
        p, back = leg.forward(q), np.full(COUNT, np.inf)
        for branch in branches(leg):
            s = leg.inverse(p, **branch, **options)
            assert np.linalg.norm(leg.forward(s.q) - p, axis=1)[s.reached].max() <= 1e-12
            back = np.minimum(back, angle_distance(s.q, q).max(axis=1))
            if choice == "angle":
                assert angle_distance(turns(s.q)[:, -1] + lines[-1], options["angle"]).max() < 1e-12
        assert back.max() < 1e-5 and np.median(back) < 1e-11


def brute_force(leg, p, rng, extra=None, starts=400):
    """All solutions within limits that Newton's method finds from random starts; no branch, no geometry."""
    q = sample(leg, rng, starts)
    for _ in range(40):
        r, J = leg.forward(q) - p, leg.jacobian(q)
        if extra is not None:
            r = np.concatenate((r, extra[0](q)[:, None]), axis=1)
            J = np.concatenate((J, np.broadcast_to(extra[1], (starts, 1, leg.n))), axis=1)
        H = np.swapaxes(J, 1, 2) @ J + 1e-8 * (r**2).sum(axis=1)[:, None, None] * np.eye(leg.n) + 1e-16 * np.eye(leg.n)
        q = q - np.clip(np.linalg.solve(H, np.swapaxes(J, 1, 2) @ r[:, :, None])[:, :, 0], -0.5, 0.5)
    miss = np.linalg.norm(leg.forward(q) - p, axis=1)
    if extra is not None:
        miss += np.abs(extra[0](q))
    middle = middle_of(leg)
    q = middle + (q - middle + np.pi) % (2.0 * np.pi) - np.pi
    q = q[(miss < 1e-10) & ((q >= leg.lower) & (q <= leg.upper)).all(axis=1)]
    found = []
    for x in q:
        if all(angle_distance(x, y).max() > 1e-5 for y in found):
            found.append(x)
    return found


@pytest.mark.parametrize("name", others_slow((n for n in [*LEGGED, "two_link_leg"] if n != "centauro"), KINDS))
def test_brute_force_finds_the_same_branches_within_limits(name):
    leg, rng = legs_of(name)[-1], np.random.default_rng(4)
    for p in leg.forward(sample(leg, rng, 4)):
        ours, theirs = leg.inverse_all(p), brute_force(leg, p, rng)
        assert len(ours) == len(theirs) >= 1
        for q in theirs:
            assert min(angle_distance(q, x).max() for x in ours) < 1e-6


@pytest.mark.parametrize("name", ["three_link_leg", "planar_3r"])
def test_brute_force_finds_the_same_branches_of_a_three_link_leg_with_its_last_angle_given(name):
    leg, rng = leg_of(name), np.random.default_rng(5)
    signs, line = leg._geometry.signs, np.angle(leg._geometry.links[-1])
    for q in sample(leg, rng, 4):
        angle = float(signs @ q + line)
        p = leg.forward(q)

        def off(x, angle=angle):
            return (x @ signs + line - angle + np.pi) % (2 * np.pi) - np.pi

        ours = leg.inverse_all(p, angle=angle)
        theirs = brute_force(leg, p, rng, (off, signs))
        assert len(ours) == len(theirs) >= 1
        for x in theirs:
            assert min(angle_distance(x, y).max() for y in ours) < 1e-6


# -- forward and Jacobian --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [*LEGGED, *OWN])
def test_foot_and_jacobian_agree_with_pinocchio_and_finite_differences(name):
    dyn, rng = qd.Dynamics(robot_of(name)), np.random.default_rng(6)
    for leg in legs_of(name):
        columns = [leg.robot.velocity_index(joint) for joint in leg.joints]
        for q in sample(leg, rng, 3):
            full = configuration(leg, q)
            np.testing.assert_allclose(leg.forward(q), dyn.frame_placement(full, leg.name).translation, atol=1e-13)
            J = leg.jacobian(q)
            np.testing.assert_allclose(J, dyn.frame_jacobian(full, leg.name)[:3, columns], atol=1e-13)
            np.testing.assert_allclose(J, by_vector(leg.forward, q), atol=1e-10)


def test_single_and_batch_calls_agree():
    leg, rng = leg_of("go2", "RR"), np.random.default_rng(7)
    q = sample(leg, rng, 20)
    p = leg.forward(q)
    p[::4] *= 3.0
    many = leg.inverse(p, knee="forward", hip="above")
    for i, x in enumerate(p):
        one = leg.inverse(x, knee="forward", hip="above")
        assert isinstance(one.reached, bool) and isinstance(one.distance, float) and one.q.shape == (3,)
        np.testing.assert_allclose(one.q, many.q[i], atol=1e-12)
        assert one.reached == many.reached[i] == (i % 4 != 0)
        np.testing.assert_allclose(leg.forward(q[i]), p[i] / (1.0 if i % 4 else 3.0), atol=1e-15)
        np.testing.assert_allclose(leg.jacobian(q[i]), leg.jacobian(q)[i], atol=1e-15)
    assert leg.inverse(np.zeros((0, 3))).q.shape == (0, 3)


# -- names -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [*QUADRUPEDS, "bolt"])
def test_home_stance_is_on_the_named_knee_branch(name):
    for leg in legs_of(name):
        record = leg.robot.legs[leg.name]
        p = leg.forward(leg.q_home)
        for knee in (record.knee_direction, None):
            s = leg.inverse(p, knee=knee, hip="below")
            assert s.reached and s.within_limits
            np.testing.assert_allclose(s.q, leg.q_home, atol=1e-7)
        other = "forward" if record.knee_direction == "backward" else "backward"
        assert angle_distance(leg.inverse(p, knee=other).q, leg.q_home).max() > 0.1


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_knee_that_is_straight_at_home_bends_to_the_wider_side_of_its_range(sign):
    lower, upper = sorted((-0.5 * sign, 2.0 * sign))
    limits = {robot_of("two_link_leg").actuated[1]: {"lower": lower, "upper": upper}}
    robot = qd.load("two_link_leg", limits=limits, q_home=np.zeros(2))
    assert LegKinematics(robot, "leg").inverse([0.0, 0.0, -1.5]).q[1] * sign > 0.0


@pytest.mark.parametrize(
    "name", others_slow([*[n for n in QUADRUPEDS if n != "centauro"], "bolt", "two_link_leg"], KINDS)
)
def test_forward_knee_is_ahead_of_hip_foot_line_and_backward_knee_behind(name):
    robot = robot_of(name)
    limbs = make_limbs(robot)
    forward, left = forward_and_left(limbs)
    up = np.cross(forward, left)
    for leg in legs_of(name):
        limb, rng = limbs[leg.name], np.random.default_rng(8)
        q = sample(leg, rng, 600)
        origins, _, tip = limb.chain.forward(q)
        hanging = (tip - origins[:, limb.hip]) @ up < -0.2 * limb.reach
        for knee, sign in (("forward", 1.0), ("backward", -1.0)):
            s = leg.inverse(leg.forward(q[hanging]), knee=knee)
            checked = 0
            for x in s.q:
                o, a, t = limb.chain.forward(x)
                normal = a[limb.hip] * np.sign(limb.bending_axis @ left)
                # In a side view of an abducted leg, lateral offsets are visible too; only clear cases are checked.
                offset = knee_offset(limb, x, forward, up)
                clear = abs(offset) > 0.05 * limb.reach and normal @ left > 0.9
                if clear and (t - o[limb.hip]) @ up < -0.2 * limb.reach:
                    checked += 1
                    assert sign * offset > 0.0
            assert checked > 20


@pytest.mark.parametrize("name", ["go2", "hyq", "anymal_c", "laikago", "bolt", "finger_edu"])
def test_hip_branch_puts_foot_below_or_above_hip_in_abducted_frame(name):
    for leg in legs_of(name):
        q = sample(leg, np.random.default_rng(9), 200)
        p = leg.forward(q)
        for hip, sign in (("below", -1.0), ("above", 1.0)):
            s = leg.inverse(p, hip=hip)
            turned_back = s.q.copy()
            turned_back[:, 0] = 0.0  # at zero all of these hang upright
            origin = leg._chain.forward(np.zeros(leg.n))[0][0]
            height = (leg.forward(turned_back) - origin)[:, 2]
            assert (sign * height[s.reached] >= -1e-12).all()
            assert s.reached.any()


def test_a_knee_branch_does_not_jump_when_the_foot_swings_over_the_top():
    leg = leg_of("two_link_leg")
    angle = np.linspace(0.0, 2.0 * np.pi, 2001)
    p = 1.4 * np.stack((np.cos(angle), 0.0 * angle, np.sin(angle)), axis=1)
    for knee in ("forward", "backward"):
        assert angle_distance(*(leg.inverse(p, knee=knee).q[i] for i in (slice(1, None), slice(None, -1)))).max() < 0.01


# -- the edge of the workspace ---------------------------------------------------------------------------------------
def test_the_stretched_two_link_leg_is_exact_and_has_one_solution():
    leg, angle = leg_of("two_link_leg"), np.linspace(0.0, 6.0, 500)
    p = 2.0 * np.stack((np.cos(angle), 0.0 * angle, np.sin(angle)), axis=1)
    s = leg.inverse(p)
    assert s.reached.all() and s.distance.max() < 2e-15
    assert len(leg.inverse_all([2.0, 0.0, 0.0])) == 1
    np.testing.assert_array_equal(leg.inverse_all([2.0, 0.0, 0.0]), [[0.0, 0.0]])
    folded = leg.inverse([0.0, 0.0, 0.0])  # the foot in the hip: any first angle serves
    assert folded.reached and abs(folded.q[1]) == pytest.approx(np.pi, abs=1e-15)


@pytest.mark.parametrize("name", [*QUADRUPEDS, "bolt", "finger_edu"])
def test_stretched_and_folded_legs_are_reached(name):
    for leg in legs_of(name):
        g, rng = leg._geometry, np.random.default_rng(10)
        q = rng.uniform(-np.pi, np.pi, (200, leg.n))
        q[:, g.n_active :] = leg.q_home[g.n_active :]
        two = leg._reduced["hold"]
        knee = g.n_active - len(g.links) + 1
        for stretched in (0.0, np.pi):
            q[:, knee] = g.signs[1] * (np.angle(two.A) - np.angle(two.B) + stretched)
            for k in range(knee + 1, g.n_active):
                q[:, k] = leg.q_home[k]
            p, near = leg.forward(q), np.full(200, np.inf)
            for branch in branches(leg):
                s = leg.inverse(p, **branch)
                assert np.isfinite(s.q).all()
                near = np.minimum(near, s.distance)
            assert near.max() <= 1e-12


def test_a_foot_on_the_abduction_axis_is_reached_where_the_leg_has_no_lateral_offset():
    for leg in legs_of("hyq"):
        origin = leg._geometry.origin
        for x in (-0.2, 0.0, 0.3):
            p = origin + np.array([x, 0.0, 0.0])
            for branch in branches(leg):
                s = leg.inverse(p, **branch)
                assert s.reached and s.distance < 1e-15
            assert 1 <= len(leg.inverse_all(p, within_limits=False)) <= 4


def nearest_by_search(leg, p, rng):
    """Smallest distance from p to the foot without joint limits, by sampling and descent."""
    q = rng.uniform(-np.pi, np.pi, (2000, leg.n))
    q[:, leg._geometry.n_active :] = leg.q_home[leg._geometry.n_active :]
    q = q[np.argsort(np.linalg.norm(leg.forward(q) - p, axis=1))[:12]]
    damping = np.full(len(q), 1e-3)
    cost = ((leg.forward(q) - p) ** 2).sum(axis=1)
    for _ in range(150):
        r, J = leg.forward(q) - p, leg.jacobian(q)
        JT = np.swapaxes(J, 1, 2)
        trial = q - np.linalg.solve(JT @ J + damping[:, None, None] * np.eye(leg.n), JT @ r[:, :, None])[:, :, 0]
        new = ((leg.forward(trial) - p) ** 2).sum(axis=1)
        better = new < cost
        q[better], cost[better] = trial[better], new[better]
        damping = np.where(better, 0.3 * damping, 4.0 * damping) + 1e-14
        if damping.min() > 1e8:  # zero step sizes
            break
    return float(np.sqrt(cost.min()))


@pytest.mark.parametrize(
    "name", others_slow(["go2", "hyq", "anymal_c", "bolt", "solo8", "two_link_leg", "finger_edu"], KINDS - {"bolt"})
)
def test_unreachable_target_gives_nearest_point(name):
    leg, rng = legs_of(name)[0], np.random.default_rng(11)
    g = leg._geometry
    scale = g.reach + abs(g.lateral)
    count = 4 if NIGHT else 2
    inside = g.origin + rng.normal(size=(count + count // 2, 3)) * [0.5 * scale, 0.05 * scale, 0.05 * scale]
    outside = g.origin + rng.normal(size=(2 * count, 3)) * scale
    unreachable = 0
    for p in np.vstack((inside, outside)):
        ours = [leg.inverse(p, **branch) for branch in branches(leg)]
        for s in ours:
            assert np.isfinite(s.q).all()
            assert s.distance == pytest.approx(np.linalg.norm(leg.forward(s.q) - p), abs=1e-14)
        least = min(s.distance for s in ours)
        unreachable += least > 1e-9
        assert least == pytest.approx(nearest_by_search(leg, p, rng), abs=1e-6)
        assert leg.reachable(p, within_limits=False) == (least <= 1e-12)
        if least > 1e-12:
            assert leg.inverse_all(p, within_limits=False).shape == (0, leg.n)
    assert unreachable > count


def test_strict_inverse_raises_error_with_nearest_point():
    leg = leg_of("two_link_leg")
    with pytest.raises(UnreachableError, match="nearest") as error:
        leg.inverse([[1.0, 0.0, 0.0], [0.0, 0.0, -2.5]], strict=True)
    np.testing.assert_allclose(error.value.nearest, [0.0, 0.0, -2.0], atol=1e-15)
    np.testing.assert_array_equal(error.value.target, [0.0, 0.0, -2.5])
    again = pickle.loads(pickle.dumps(error.value))
    assert isinstance(again, ValueError) and str(again) == str(error.value)
    assert leg.inverse([0.0, 0.0, -2.5]).distance == pytest.approx(0.5, abs=1e-15)
    beside = leg.inverse([1.0, 0.3, 0.0])  # outside the plane of a planar leg
    assert not beside.reached and beside.distance == pytest.approx(0.3, abs=1e-15)
    assert leg.inverse([1.0, 0.0, 0.0], strict=True).reached


def test_distant_and_tiny_targets_stay_finite():
    for name, scale in itertools.product(("go2", "hyq", "two_link_leg", "centauro"), (1e-300, 1e-9, 1e3, 1e7)):
        leg = leg_of(name)
        for direction in np.vstack((np.eye(3), -np.eye(3), np.ones((1, 3)))):
            for branch in branches(leg):
                s = leg.inverse(leg._geometry.origin + scale * direction, **branch)
                assert np.isfinite(s.q).all() and np.isfinite(s.distance)


# -- limits ----------------------------------------------------------------------------------------------------------
def test_inverse_reports_limits_and_other_functions_respect_them():
    leg, rng = leg_of("go2", "FL"), np.random.default_rng(12)
    p = leg.forward(rng.uniform(-np.pi, np.pi, (300 if NIGHT else 100, 3)))
    possible = leg.reachable(p)
    assert possible.any() and not possible.all()
    assert leg.reachable(p, within_limits=False).all()
    for x, yes in zip(p, possible, strict=True):
        within, without = leg.inverse_all(x), leg.inverse_all(x, within_limits=False)
        assert bool(len(within)) == yes and len(without) == 4
        assert (within >= leg.lower - 1e-7).all() and (within <= leg.upper + 1e-7).all()
    for knee in ("forward", "backward"):
        s = leg.inverse(p, knee=knee)
        inside = ((s.q >= leg.lower) & (s.q <= leg.upper)).all(axis=1)
        np.testing.assert_array_equal(s.within_limits, inside)
    assert not leg.inverse(p, knee="forward").within_limits.any()  # its calf bends backward only


def test_joint_angle_is_wrapped_into_asymmetric_range():
    leg = leg_of("go2", "RL")  # its thigh goes from -0.52 to 4.54
    q = np.array([0.1, 4.2, -1.5])
    s = leg.inverse(leg.forward(q), hip="above" if leg.forward(q)[2] > 0 else "below")
    assert s.within_limits
    assert min(np.abs(x - q).max() for x in leg.inverse_all(leg.forward(q))) < 1e-12


# -- any axes, signs, offsets, zero poses ----------------------------------------------------------------------------
def rpy(R):
    """Roll, pitch, yaw of a rotation matrix."""
    return pin.rpy.matrixToRpy(R)


def random_leg(rng, *, has_abduction=True, links=2, tilt=0.0):
    """URDF text of one leg with random placements, axes and signs; `tilt` tilts the knee's axis [rad]."""
    count = links + has_abduction
    parts, R = [link("l0")], np.eye(3)
    bending = rng.normal(size=3)
    bending /= np.linalg.norm(bending)
    for i in range(count):
        turn = pin.exp3(rng.normal(size=3))
        R = R @ turn
        axis = rng.normal(size=3) if has_abduction and i == 0 else R.T @ bending * rng.choice([-1.0, 1.0])
        if i == count - 1:
            axis = pin.exp3(tilt * rng.normal(size=3)) @ axis
        axis = axis / np.linalg.norm(axis)

        def text(x):
            return " ".join(repr(float(y)) for y in x)

        place = text(0.3 * rng.normal(size=3)), text(rpy(turn))
        parts.append(link(f"l{i + 1}", inertial(moments=0.01)))
        parts.append(joint(f"j{i + 1}", f"l{i}", f"l{i + 1}", text(axis), *place, ends="-3.1 3.1"))
    tip = joint("tip", f"l{count}", "foot", xyz=text(0.3 * rng.normal(size=3)), kind="fixed")
    return urdf(*parts, link("foot"), tip, name="random")


@settings(deadline=None, max_examples=40 if NIGHT else 20)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.integers(2, 4))
def test_legs_with_random_axes_signs_offsets_and_zero_poses_are_solved_in_closed_form(seed, abducts, links):
    rng = np.random.default_rng(seed)
    robot = qd.load(random_leg(rng, has_abduction=abducts, links=links), root="fixed", legs=LEGS[links + abducts])
    leg = LegKinematics(robot, "leg")
    assert leg.closed_form
    q = sample(leg, rng, 200)
    for k in range(2, links):
        q[:, abducts + k] = leg.q_home[abducts + k]
    p, back = leg.forward(q), np.full(200, np.inf)
    for branch in branches(leg):
        s = leg.inverse(p, **branch)
        assert np.isfinite(s.q).all()
        assert np.linalg.norm(leg.forward(s.q) - p, axis=1)[s.reached].max(initial=0.0) <= 1e-12
        back = np.minimum(back, angle_distance(s.q, q).max(axis=1))
    assert back.max() < 1e-5


LEGS = {n: {"leg": [f"j{i + 1}" for i in range(n)]} for n in range(2, 6)}


@pytest.mark.parametrize("seed", range(5))
def test_rounded_axes_of_file_cause_no_error(seed):
    rng = np.random.default_rng(seed)
    robot = qd.load(random_leg(rng, tilt=3e-6), root="fixed", legs=LEGS[3])
    leg = LegKinematics(robot, "leg")
    assert leg.closed_form
    q = sample(leg, rng, 300)
    p, reached = leg.forward(q), np.zeros(300, dtype=bool)
    for branch in branches(leg):
        s = leg.inverse(p, **branch)
        assert np.isfinite(s.q).all()
        assert s.distance[s.reached].max() <= 1e-12
        reached |= s.reached
    assert reached.mean() > 0.98  # except near the edge of the workspace


@pytest.mark.parametrize("seed", others_slow(range(6), range(3)))
def test_unreachable_target_of_skewed_axes_is_nearer_than_random_samples(seed):
    rng = np.random.default_rng(seed)
    leg = LegKinematics(qd.load(random_leg(rng), root="fixed", legs=LEGS[3]), "leg")
    g = leg._geometry
    q = rng.uniform(-np.pi, np.pi, (20_000, 3))
    feet, upright = leg.forward(q), q * [0.0, 1.0, 1.0]
    height = (leg.forward(upright) - g.origin) @ g.e2
    for p in g.origin + rng.normal(size=(8, 3)) * g.reach * np.array([[0.2], [1.0]] * 4):
        for branch in branches(leg):
            own = height <= 0.0 if branch["hip"] == "below" else height >= 0.0
            samples = np.linalg.norm(feet[own] - p, axis=1).min(initial=np.inf)
            s = leg.inverse(p, **branch)
            if np.isfinite(samples):
                assert samples - 0.1 * g.reach < s.distance <= samples + 1e-9


def test_targets_use_root_link_frame_and_branch_names_use_trunk_frame():
    """A leg fixed to the world and rotated about its own axis has the same joint angles for the same trunk position."""
    text = (find_entry("two_link_leg").path).read_text(encoding="utf-8")
    turn, shift = pin.rpy.rpyToMatrix(0.0, 0.4, 0.0), np.array([0.3, -0.2, 1.0])
    bolt = (
        '<link name="world"/><joint name="bolt" type="fixed"><parent link="world"/><child link="base"/>'
        '<origin xyz="0.3 -0.2 1" rpy="0 0.4 0"/></joint>'
    )
    robot = qd.load(text.replace('<link name="base">', bolt + '<link name="base">'), root="fixed")
    leg, plain = LegKinematics(robot, "leg"), leg_of("two_link_leg")
    p = np.array([0.4, 0.0, -1.2])
    world = turn @ p + shift
    for knee in ("forward", "backward"):
        s = leg.inverse(world, knee=knee)
        assert s.reached
        np.testing.assert_allclose(s.q, plain.inverse(p, knee=knee).q, atol=1e-12)
        placement = qd.Dynamics(robot).frame_placement(s.q, "leg")
        np.testing.assert_allclose(placement.translation, world, atol=1e-14)


# -- legs without a closed form --------------------------------------------------------------------------------------
@functools.cache
def odd_leg(roll="0.02 0.03 0"):
    """A leg with the joints pitch, roll, pitch: hip flexion precedes abduction."""
    text = urdf(
        link("l0"),
        *(link(name, inertial(moments=0.01)) for name in ("l1", "l2", "l3")),
        link("foot"),
        joint("j1", "l0", "l1", "0 1 0", "0.1 0 0"),
        joint("j2", "l1", "l2", "1 0 0", roll),
        joint("j3", "l2", "l3", "0 1 0", "0 0.01 -0.2"),
        joint("tip", "l3", "foot", xyz="0 0 -0.2", kind="fixed"),
    )
    return LegKinematics(qd.load(text, root="fixed", legs=LEGS[3]), "leg")


def test_a_leg_without_closed_form_is_solved_numerically_with_the_same_branch_names():
    leg, rng = odd_leg(), np.random.default_rng(13)
    assert leg.closed_form is False and "numeric" in repr(leg)
    q = rng.uniform(-0.8, 0.8, (20, 3))
    q[:, 2] = np.where(np.arange(20) % 2, 1.0, -1.0) * rng.uniform(0.3, 1.4, 20)
    for x in q:
        p = leg.forward(x)
        found = leg.inverse(p, knee="forward" if x[2] > 0.0 else "backward")
        assert found.reached and found.within_limits and found.q[2] * x[2] > 0.0
        assert len(leg.inverse_all(p)) >= 1
    far = leg.inverse([0.1, 0.04, -0.6])
    assert not far.reached and far.distance == pytest.approx(0.2, abs=2e-3)
    with pytest.raises(UnreachableError):
        leg.inverse([0.1, 0.04, -0.6], strict=True)
    raises(qd.ArgumentError, "angle", leg.inverse, [0.1, 0.04, -0.3], angle=0.0)


def test_a_leg_that_is_straight_at_home_bends_to_either_side():
    leg = odd_leg("0 0.03 0")
    assert leg.closed_form is False
    for bent in (1.0, -1.0):
        found = leg.inverse(leg.forward([0.3, 0.2, bent]), knee="forward" if bent > 0.0 else "backward")
        assert found.reached and found.q[2] * bent > 0.0


# -- wrong arguments -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "value", [[1.0, 2.0], np.zeros((2, 2, 3)), 1.0, np.zeros((3, 1)), [np.nan, 0, 0], [np.inf, 0, 0]]
)
def test_invalid_target_is_named(value):
    for call in (leg_of("go2", "FL").inverse, leg_of("go2", "FL").reachable, leg_of("go2", "FL").forward):
        raises(qd.ArgumentError, r"^[pq]: ", call, value)
    raises(qd.ArgumentError, r"^p: ", leg_of("go2", "FL").inverse_all, value)


def test_wrong_types_names_and_options_are_named():
    leg, p = leg_of("go2", "FL"), [0.2, 0.15, -0.3]
    raises(qd.ArgumentTypeError, r"^p: ", leg.inverse, "somewhere")
    raises(qd.ArgumentError, r"^p: ", leg.inverse_all, np.zeros((2, 3)))
    raises(qd.UnknownNameError, "knee branch 'foreward'; did you mean 'forward'", leg.inverse, p, knee="foreward")
    raises(qd.UnknownNameError, "hip branch 'under'", leg.inverse, p, hip="under")
    raises(qd.UnknownNameError, "redundancy 'free'", leg.inverse, p, redundancy="free")
    raises(qd.UnknownNameError, "leg 'LF'", LegKinematics, leg.robot, "LF")
    for tolerance in (0.0, "tight", None):
        raises(qd.ArgumentError, "tolerance", leg.inverse, p, tolerance=tolerance)
    raises(qd.ArgumentTypeError, r"^p: ", leg.inverse, np.array(p) + 0.1j)
    raises(qd.ArgumentTypeError, "robot", LegKinematics, "go2", "FL")
    raises(qd.UnknownNameError, "leg", LegKinematics, leg.robot, ["FL"])
    raises(qd.ArgumentError, "two links", leg.inverse, p, angle=0.0)
    three = leg_of("three_link_leg")
    for angle in (np.nan, np.zeros(2), "down"):
        raises(qd.ArgumentError, "angle", three.inverse, [0.2, 0.0, -0.3], angle=angle)


def test_rounding_does_not_affect_how_a_numeric_leg_that_is_straight_at_home_bends():
    signs = set()
    for offset in ("0", "1e-17", "-1e-17"):
        leg = odd_leg(f"{offset} 0.03 0")
        p = leg.forward(np.array([0.2, 0.1, 0.9]))
        signs.add(float(np.sign(leg.inverse(p).q[2])))
    assert signs == {1.0}  # the joint's range is symmetric


@pytest.mark.parametrize("name", ["go2", "solo12", "two_link_leg"])
def test_nearest_pose_for_target_at_hip_does_not_depend_on_rounding(name):
    for leg in legs_of(name)[:2]:
        rng, hip = np.random.default_rng(0), np.asarray(leg.hip)
        found = [leg.inverse(hip + 1e-17 * rng.standard_normal(3)).q for _ in range(8)]
        assert np.ptp(found, axis=0).max() < 1e-6
