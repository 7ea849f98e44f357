"""Falls: early detection, folding of the legs with damping, righting and standing up."""

from __future__ import annotations

import dataclasses
import importlib
import math
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from raising import raises
from slow_parameters import others_slow
from urdf_editing import HIP, SHANK, THIGH, dog

import quaddyn as qd
from quaddyn.compiler import interpret
from quaddyn.kinematics import CollisionModel
from quaddyn.locomotion import LocomotionController, LocomotionMode, Morphology, RightingMotion, RightingPlan
from quaddyn.locomotion.fall_detection import (
    BEYOND_REACH,
    FALLEN_HEIGHT,
    TRUNK_LOW,
    TRUNK_SINKING,
    TRUNK_TILTED,
    TRUNK_TIPPING,
    FallSign,
    make_fall_detector,
    update_fall_detection,
)
from quaddyn.locomotion.ground_plane import GroundPlane
from quaddyn.locomotion.leg_folding import FOLDING_DURATION, LegFolding, folded_pose, folding_ranges
from quaddyn.locomotion.modes import ModeCode
from quaddyn.locomotion.morphology import make_body_parameters
from quaddyn.locomotion.motion import allocate_motion
from quaddyn.locomotion.path_reference import PathReference
from quaddyn.locomotion.righting import RightingController, classify_lying_side
from quaddyn.locomotion.torque_limiter import TorqueLimiter
from quaddyn.locomotion.walker import update_mode
from quaddyn.planning import plan_righting
from quaddyn.planning.righting_search import VARIATIONS, LegPoseParameters, RightingSearch, SearchResult
from quaddyn.robot.home import JointPositions
from quaddyn.runtime import SafetyLimits
from quaddyn.simulation import Actuators, Plant, Simulation

DT = 2e-3
QUADRUPEDS = ("a1", "anymal_b", "anymal_c", "b1", "go1", "go2", "hyq", "laikago", "solo8", "solo12")


@pytest.fixture(scope="module")
def plan(go2: qd.Robot) -> RightingPlan:
    """Result of `plan_righting` for Go2, from a file."""
    with np.load(Path(__file__).parent / "data" / "righting_go2.npz") as file:
        rolls = {
            side: RightingMotion(*(file[f"{side} {n}"] for n in ("poses", "times", "rests"))) for side in file["sides"]
        }
    return RightingPlan(go2.name, "of a test", rolls)


def lying_configuration(robot: qd.Robot, roll: float) -> np.ndarray:
    """Configuration rolled to the right by `roll` [rad], a little above the ground."""
    p = Morphology.from_robot(robot)
    q = np.array(robot.q_home)
    q[3:7] = pin.Quaternion(pin.exp3(np.array([roll, 0.0, 0.0])) @ p.heading.T).coeffs()
    q[2] += 0.1 * p.length
    return q


@pytest.mark.parametrize("name", others_slow(QUADRUPEDS, ["anymal_c", "go2", "hyq", "solo8", "solo12"]))
def test_folded_legs_are_within_limits_and_without_collisions(name: str) -> None:
    robot = qd.load(name)
    pose = folded_pose(robot)
    assert pose is not None
    low, high = folding_ranges(robot)
    assert (low <= pose).all() and (pose <= high).all()
    q = np.array(robot.q_home)
    JointPositions.actuated(robot).put(q, pose)
    assert CollisionModel(robot).colliding_pairs(q, margin=-2e-3) == ()
    dynamics = qd.Dynamics(robot)
    hips = {foot: robot.legs[foot].joints[0] for foot in robot.feet}
    for foot, hip in hips.items():
        there, home = (
            dynamics.frame_placement(x, hip).translation[2] - dynamics.frame_placement(x, foot).translation[2]
            for x in (q, robot.q_home)
        )
        assert there < 0.85 * home, "the foot is closer to the trunk"


@pytest.mark.parametrize("dt", [1e-3, 2e-3])
@pytest.mark.parametrize("name", ["small_quadruped", "solo12"])
def test_damping_after_faults_and_falls_is_stable_with_a_delay_of_one_period(name: str, dt: float) -> None:
    """Legs in the air are light: damping for torques without delay made them oscillate at the torque limits."""
    robot = qd.load(name)
    after_faults = SafetyLimits().to_arrays(robot, dt).fault_damping
    after_falls = TorqueLimiter(robot, Morphology.from_robot(robot), dt, None).motors.parameters.damping
    np.testing.assert_array_equal(after_faults, after_falls)
    plant = Simulation(robot, dt=dt, actuators=Actuators(robot, delay=dt), floor=-np.inf, joint_stops=False)
    v = np.zeros(robot.nv)
    v[6:] = np.random.default_rng(0).uniform(-15.0, 15.0, robot.nv - 6)
    plant.reset(robot.q_home, v)
    for _ in range(round(0.05 / dt)):
        plant.step(-after_faults * plant.v[robot.actuated_index])
    assert np.abs(plant.v[robot.actuated_index]).max() < 1.0


def test_falls_are_predicted_from_capture_point_and_tilt_rate(go2: qd.Robot) -> None:
    controller, dynamics = LocomotionController(go2, dt=DT), qd.Dynamics(go2)
    p, v = controller.morphology, np.zeros(go2.nv)
    reasons = {}
    for text, speed, roll, rate in (
        ("slow", 0.5, 0.0, 0.0),
        ("fast", 1.6, 0.0, 0.0),
        ("leans", 0.0, 0.4, 0.0),
        ("leans and turns back", 0.0, 0.4, -5.0),
        ("tips", 0.0, 0.4, 1.5 * (1.05 - 0.4) / (0.5 * p.time_scale)),
    ):
        controller.reset()
        controller.compute(dynamics.update(np.array(go2.q_home), np.zeros(go2.nv)))
        q = lying_configuration(go2, roll)
        q[2] = go2.q_home[2]
        v[:] = 0.0
        v[1], v[3] = speed * p.speed_scale, rate
        said = ""
        for _ in range(20):
            said = said or controller.compute(dynamics.update(q, v)).limit_reason
        reasons[text] = said, controller.mode is LocomotionMode.FALLEN
    assert reasons == {
        "slow": ("", False),
        "fast": (BEYOND_REACH, True),
        "leans": ("", False),
        "leans and turns back": ("", False),
        "tips": (TRUNK_TIPPING, True),
    }


class FallScene:
    """Detector of falls of a robot on a plane, and its inputs; positions in leg lengths, times in sqrt(l/g)."""

    def __init__(self, robot: qd.Robot, slope: tuple[float, float] = (0.0, 0.0)) -> None:
        p = self.morphology = Morphology.from_robot(robot)
        self.body, self.detector = make_body_parameters(p), make_fall_detector(p, DT)
        points = np.column_stack((p.nominal_stance, p.nominal_stance @ np.array(slope)))
        self.ground, self.path, self.motion = GroundPlane(points), PathReference(np.zeros(2), 0.0), allocate_motion()
        self.motion.feet[:] = points + np.array([0.0, 0.0, 1.0]) * self.body.radii[:, None]
        self.move()

    def move(
        self,
        height: float | None = None,
        velocity: tuple[float, float, float] = (0.0, 0.0, 0.0),
        tilt: tuple[float, float] = (0.0, 0.0),
        tilt_rate: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """Sets height of the center of mass at home, velocity, and roll and pitch with their rates."""
        p, motion = self.morphology, self.motion
        motion.com = (0.0, 0.0, p.height if height is None else height * p.length)  # type: ignore[assignment]
        motion.velocity = tuple(p.speed_scale * np.array(velocity))  # type: ignore[assignment]
        motion.R_base = motion.axes = pin.exp3(np.array([*tilt, 0.0]))  # type: ignore[assignment]
        motion.angular_velocity = (*(np.array(tilt_rate) / p.time_scale), 0.0)  # type: ignore[assignment]

    def detect(self, time: float, *, upright: bool = True, desired: float | None = None, rate: float = 0.0) -> FallSign:
        """Updates the detector for a time and returns the first sign; desired height in leg lengths."""
        p = self.morphology
        height = p.height if desired is None else desired * p.length
        for _ in range(math.ceil(time * p.time_scale / DT)):
            sign = update_fall_detection(
                self.detector, self.body, self.motion, self.ground.state, self.path.state, upright, height,
                rate * p.speed_scale,
            )  # fmt: skip
            if sign != FallSign.NONE:
                return FallSign(sign)
        return FallSign.NONE


def test_fall_detection_compares_trunk_height_with_the_commanded_height(go2: qd.Robot) -> None:
    for desired in (0.8, 0.6, 0.5):
        for height, sign in ((0.01, FallSign.NONE), (-0.01, FallSign.TRUNK_LOW)):
            scene = FallScene(go2)
            scene.move(FALLEN_HEIGHT * desired + height)
            assert scene.detect(0.5, upright=False, desired=desired) == sign
            assert scene.detect(0.5, upright=False, desired=0.0) == FallSign.NONE
    for rate, sign in ((-0.2, FallSign.NONE), (-1.2, FallSign.TRUNK_SINKING)):
        scene = FallScene(go2)
        scene.move(0.55, (0.0, 0.0, rate))
        assert scene.detect(0.1) == sign
    scene.move(tilt=(1.1, 0.0))
    assert scene.detect(0.01, upright=False, desired=0.0) == FallSign.TRUNK_TILTED
    assert all(
        sign.startswith("fallen: ") for sign in (BEYOND_REACH, TRUNK_TIPPING, TRUNK_TILTED, TRUNK_SINKING, TRUNK_LOW)
    )


def test_short_low_position_of_a_bouncing_robot_is_not_a_fall(go2: qd.Robot) -> None:
    scene = FallScene(go2)
    for _ in range(4):
        for height, time in ((0.25, 0.25), (0.6, 0.1)):
            scene.move(height)
            assert scene.detect(time) == FallSign.NONE
    scene.move(0.25)
    assert scene.detect(0.4) == FallSign.TRUNK_LOW


def test_pitch_rate_of_a_gait_is_not_a_fall(go2: qd.Robot) -> None:
    """The pitch rate of a bound after a push is 1.5 sqrt(g/l) at 0.3 rad; it returns, unlike that of a fall."""
    scene, frequency = FallScene(go2), 5.0
    for t in np.arange(0.0, 5.0, 0.05):
        pitch = 0.3 + 0.3 * math.sin(frequency * t)
        scene.move(tilt=(0.0, pitch), tilt_rate=(0.0, 0.3 * frequency * math.cos(frequency * t)))
        assert scene.detect(0.05) == FallSign.NONE
    for t in np.arange(0.0, 1.0, 0.05):
        scene.move(tilt=(0.0, 0.2 + 0.9 * t), tilt_rate=(0.0, 0.9))
        sign = scene.detect(0.05)
        if sign != FallSign.NONE:
            break
    assert sign == FallSign.TRUNK_TIPPING and 0.2 + 0.9 * t < 0.8


def test_footholds_above_the_feet_are_not_the_ground(go2: qd.Robot) -> None:
    """A foot hits an obstacle high above the others: the plane of the footholds rises, not the ground."""
    scene, p = FallScene(go2), Morphology.from_robot(go2)
    scene.ground.state.points[2:, 2] += 0.9 * p.length
    assert scene.detect(0.5) == FallSign.NONE
    scene.ground.state.points[:2, 2] += 0.9 * p.length
    scene.motion.feet[:, 2] += 0.6 * p.length
    assert scene.detect(0.5) == FallSign.TRUNK_LOW


@pytest.mark.parametrize(("height", "falls"), [(0.5, False), (0.15, True)])
def test_landing_robot_that_lies_on_its_trunk_has_fallen(go2: qd.Robot, height: float, falls: bool) -> None:
    controller = LocomotionController(go2, dt=DT)
    controller.compute(qd.Dynamics(go2).update(np.array(go2.q_home), np.zeros(go2.nv)))
    records, p = controller._walking.records.walker, controller.morphology
    records.walk.motion.com = (0.0, 0.0, height * p.height)
    records.walk.motion.feet[:, 2] = p.radii
    with interpret():
        for _ in range(math.ceil(0.4 * p.time_scale / DT)):
            records.walk.mode.mode = ModeCode.LANDING
            update_mode(records)
    assert (records.walk.mode.mode == ModeCode.FALLEN) == falls
    assert (records.walk.fall.sign == FallSign.TRUNK_LOW) == falls


def simulate_fall(robot: qd.Robot, push: float, direction: float, *, fold_legs: bool) -> tuple[float, float, float]:
    """Simulates a trot with a push of `push` times the weight for 0.1 s; returns the times of fall detection and of
    ground contact of the trunk [s], and the largest joint power after detection [W]."""
    plant, dynamics, controller = Simulation(robot, dt=DT), qd.Dynamics(robot), LocomotionController(robot, dt=DT)
    p, trunk = controller.morphology, {link.name for link, _ in robot.bodies[0].links}
    if not fold_legs:
        controller._walking.leg_folding.state.has_pose = False  # damping without folding
    force = push * p.mass * p.gravity * np.array([math.cos(direction), math.sin(direction), 0.0])
    seen = down = math.inf
    power = 0.0
    for k in range(1500):
        if k == 500:
            plant.push(robot.bodies[0].name, force, duration=0.1)
        command = controller.compute(dynamics.update(plant.q, plant.v), (0.25 * p.speed_scale, 0.0, 0.0))
        if command.mode is LocomotionMode.FALLEN:
            seen = min(seen, k * DT)
            power = max(power, float(np.abs(command.tau * plant.v[robot.actuated_index]).max()))
        plant.step(command.tau)
        if trunk & set(plant.body_forces):
            down = min(down, k * DT)
        if k * DT > down + 0.3:
            break
    return seen, down, power


@pytest.mark.parametrize(
    ("name", "push"), others_slow([("go2", 4.0), ("anymal_c", 4.0), ("go2", 8.0), ("solo12", 4.0)], [("go2", 4.0)])
)
def test_fall_is_detected_early_and_folding_needs_no_more_power_than_damping(name: str, push: float) -> None:
    robot = qd.load(name)
    seen, down, power = simulate_fall(robot, push, 2.0, fold_legs=True)
    assert 1.0 < seen < down - 0.7 * Morphology.from_robot(robot).time_scale
    assert power <= 1.1 * simulate_fall(robot, push, 2.0, fold_legs=False)[2]


def test_righting_motion_passes_its_poses_and_ends_folded() -> None:
    poses = np.array([[1.0, -1.0], [2.0, 0.5], [0.0, 0.0]])
    roll = RightingMotion(poses, np.array([0.2, 0.4, 0.3]), np.array([0.1, 0.1, 0.1]))
    assert roll.duration == pytest.approx(1.2)
    for time, pose in ((0.0, poses[2]), (0.25, poses[0]), (0.75, poses[1]), (1.1, poses[2]), (9.0, poses[2])):
        np.testing.assert_allclose(roll.sample(time), pose, atol=1e-12)
    np.testing.assert_allclose(roll.sample(0.1), 0.5 * poses[0], atol=1e-12)
    steps = np.diff([roll.sample(t) for t in np.linspace(0.0, 1.2, 1201)], axis=0)
    assert np.abs(steps).max() < 1.6 * 3.0 / 0.2 * 1e-3, "without jumps"


def test_legs_fold_for_a_limited_time(go2: qd.Robot) -> None:
    p, state = Morphology.from_robot(go2), qd.Dynamics(go2).update(np.array(go2.q_home), np.zeros(go2.nv))
    folding = LegFolding(go2, p, TorqueLimiter(go2, p, DT, None), DT)
    for time, is_moving in ((0.0, True), (0.99, True), (1.01, False)):
        folding.state.time = time * FOLDING_DURATION * p.time_scale
        assert folding.torques(state).any() == is_moving
    folding.begin()
    assert folding.torques(state).any()


def test_lying_side_is_classified_from_the_attitude() -> None:
    for roll, side in ((0.0, "belly"), (0.4, "belly"), (1.2, "right"), (-1.2, "left"), (3.0, "back"), (-2.5, "back")):
        assert classify_lying_side(pin.exp3(np.array([roll, 0.0, 0.0]))) == side


def simulate_righting(
    plant: Plant, righting: RightingPlan | None, roll: float
) -> tuple[LocomotionController, list[LocomotionMode], str, float]:
    """Drops the robot onto back or side and commands it to stand up; returns controller, modes, reason, peak power."""
    robot = plant.robot
    controller, dynamics = LocomotionController(robot, dt=DT, righting_plan=righting), qd.Dynamics(robot)
    plant.reset(lying_configuration(robot, roll))
    modes, limit, power = [], "", 0.0
    for k in range(6000):
        if k == 400:
            assert controller.mode is LocomotionMode.FALLEN
            controller.stand_up()
        command = controller.compute(dynamics.update(plant.q, plant.v))
        assert (np.abs(command.tau) <= robot.effort_limits).all()
        if k >= 400:
            power = max(power, float(np.abs(command.tau * plant.v[robot.actuated_index]).max()))
            if not modes or command.mode is not modes[-1]:
                modes.append(command.mode)
            limit = command.limit_reason
            if command.mode is LocomotionMode.STANDING or (command.mode is LocomotionMode.FALLEN and k > 500):
                break
        plant.step(command.tau)
    return controller, modes, limit, power


@pytest.mark.parametrize(
    ("kind", "roll"),
    others_slow([(k, r) for k in (qd.Simulation, qd.MujocoPlant) for r in (3.0, 1.6, -1.6)], [(qd.MujocoPlant, 3.0)]),
)
def test_go2_gets_up_from_back_and_sides(kind: type[Plant], roll: float, go2: qd.Robot, plan: RightingPlan) -> None:
    plant = kind(go2, dt=DT)
    controller, modes, _, power = simulate_righting(plant, plan, roll)
    p = controller.morphology
    assert (
        modes[0] is LocomotionMode.RIGHTING
        and modes[-1] is LocomotionMode.STANDING
        and LocomotionMode.FALLEN not in modes
    )
    assert power < 4.0 * p.mass * p.gravity * p.speed_scale
    dynamics = qd.Dynamics(go2)
    for _ in range(500):
        plant.step(controller.compute(dynamics.update(plant.q, plant.v), (0.2 * p.speed_scale, 0.0, 0.0)).tau)
    assert controller.mode is LocomotionMode.MOVING


def test_robot_without_a_righting_motion_stays_fallen_with_a_reason(go2: qd.Robot, plan: RightingPlan) -> None:
    plant = Simulation(go2, dt=DT)
    without = RightingPlan(go2.name, "", {"left": plan.motions["back"]}, {"back": "its legs are short"})
    controller, modes, limit, _ = simulate_righting(plant, without, 3.0)
    assert modes == [LocomotionMode.RIGHTING, LocomotionMode.FALLEN] and not without.ok
    assert "from the back" in limit and "short" in limit and "short" in str(without)
    controller.stand_up()
    assert controller.mode is LocomotionMode.RIGHTING, "another attempt is allowed"
    other = RightingPlan("other", "", {"back": RightingMotion(np.zeros((1, 3)), np.ones(1), np.ones(1))})
    raises(qd.ArgumentError, "joints", LocomotionController, go2, righting_plan=other)


def test_unsuccessful_righting_motions_are_repeated_six_times(go2: qd.Robot) -> None:
    pose = folded_pose(go2)
    assert pose is not None
    idle = RightingPlan(go2.name, "", {"back": RightingMotion(pose[None], np.full(1, 0.1), np.full(1, 0.1))})
    p = Morphology.from_robot(go2)
    recovery = RightingController(go2, p, idle, TorqueLimiter(go2, p, DT, None), DT)
    back = pin.exp3(np.array([math.pi, 0.0, 0.0]))
    for _ in range(10000):
        recovery.torques(pose, np.zeros(go2.nu), back)
        if recovery.failure:
            break
    assert recovery.n_attempts == 6 and "6 righting motions" in recovery.failure and not recovery.is_done


def test_righting_motions_avoid_collisions_and_joint_limits(go2: qd.Robot, plan: RightingPlan) -> None:
    low, high = folding_ranges(go2)
    rolling = RightingSearch(go2, Morphology.from_robot(go2))
    for roll in plan.motions.values():
        assert (roll.poses >= low - 1e-4).all() and (roll.poses <= high + 1e-4).all()  # rounding in the file
        assert rolling.max_penetration(roll) == 0.0
    assert rolling.simulate_motion(plan.motions["back"], "back", *VARIATIONS[0])[0] > 0.95
    crossed = np.zeros(rolling.n_parameters)
    crossed[[0, 3, 6, 9]] = -1.0  # legs into each other
    assert rolling.max_penetration(rolling.make_motion(crossed)) > 0.0


def test_righting_plan_is_cached_and_a_damaged_one_is_recomputed(
    go2: qd.Robot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("quaddyn.planning.righting")
    monkeypatch.setenv("QUADDYN_CACHE", str(tmp_path))
    calls, said = [], []

    def search(rolling: RightingSearch, side: str, *_: object, **options: object) -> SearchResult:
        calls.append(side)
        numbers = np.zeros(rolling.n_parameters)
        if side == "right":
            np.testing.assert_array_equal(options["first_parameters"], rolling.mirror(numbers))
        return SearchResult(
            rolling.make_motion(numbers) if side != "back" else None, numbers, "too heavy" if side == "back" else ""
        )

    monkeypatch.setattr(module, "find_motion", search)
    monkeypatch.setattr(RightingSearch, "rests_on", lambda self, side: True)
    first = plan_righting(go2, progress=said.append)
    assert calls == ["left", "right", "back"] and first.infeasible == {"back": "too heavy"} and not first.ok
    again = plan_righting(go2, progress=said.append)
    assert len(calls) == 3 and again.infeasible == first.infeasible and again.key == first.key
    np.testing.assert_array_equal(again.motions["left"].poses, first.motions["left"].poses)
    (kept,) = tmp_path.glob("righting-*.bin")
    kept.write_bytes(kept.read_bytes()[:-20])
    plan_righting(go2, progress=said.append)
    assert len(calls) == 6
    plan_righting(go2, seed=1, progress=said.append)
    plan_righting(qd.load("go2", limits={"FL_calf_joint": {"effort": 20.0}}), progress=said.append)
    assert len(calls) == 12, "other seed, other robot"
    for bad in ({"max_trials": 0}, {"seed": -1}):
        with pytest.raises(qd.ArgumentError):
            plan_righting(go2, **bad)  # type: ignore[arg-type]
    with pytest.raises(qd.ArgumentError):
        plan_righting(qd.load("bolt"))


@pytest.mark.slow
def test_righting_plan_is_found_for_go2(go2: qd.Robot) -> None:
    lines: list[str] = []
    found = plan_righting(go2, seed=3, use_cache=False, progress=lines.append)
    assert found.ok, lines


# -- robustness to rounding ----------------------------------------------------------------------------------------
def test_hip_yaw_joint_has_zero_gain_in_leg_pose_parameters() -> None:
    for tilt in (1e-17, -1e-17, 3.7e-6):
        yaw = dataclasses.replace(HIP, axis=(0.0, tilt, 1.0), name="yaw")
        robot = qd.load(str(dog((yaw, THIGH, SHANK))), root="free")
        gains = LegPoseParameters(robot, Morphology.from_robot(robot))._gains
        assert all(not gains[robot.actuated.index(leg.joints[0])].any() for leg in robot.legs.values())


def test_key_of_a_righting_plan_is_robust_to_rounding(go2: qd.Robot) -> None:
    key = importlib.import_module("quaddyn.planning.righting")._cache_key
    home = np.array(go2.q_home)
    assert key(qd.load("go2", q_home=home * (1.0 + 2e-16)), 0, 9) == key(go2, 0, 9)
    home[7] += 1e-6
    assert key(qd.load("go2", q_home=home), 0, 9) != key(go2, 0, 9)


def test_lying_side_is_robust_to_rounding() -> None:
    axes, found = np.zeros((3, 3)), set()
    for left in (-1e-17, 0.0, 1e-17):
        for up in (-2e-17, 0.0, 2e-17):
            axes[2] = -1.0, left, up
            found.add(classify_lying_side(axes))
    for left in (np.sqrt(0.5), np.nextafter(np.sqrt(0.5), 1.0), np.nextafter(np.sqrt(0.5), 0.0)):
        axes[2] = 0.0, left, -np.sqrt(0.5)
        assert classify_lying_side(axes) == "right"
    assert found == {"left"}
