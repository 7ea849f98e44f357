"""Robots that start in the air or lose ground contact: leg preparation, touchdown detection and landing."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from recorded import note
from slow_parameters import others_slow
from symmetry import assert_symmetric
from test_compiled_falls import random_motion
from test_compiled_footwork import fill
from test_envs import walker
from test_simulation_compiled import as_python

import quaddyn as qd
from quaddyn.campaigns.trial import Trial
from quaddyn.campaigns.trial_runner import run_trial
from quaddyn.compiler import Entry
from quaddyn.locomotion import FEET, LocomotionController, LocomotionMode, Morphology, landing
from quaddyn.locomotion.command import NO_GROUND, LocomotionCommand
from quaddyn.locomotion.contact_estimation import allocate_ground_contact, ground_lost, reset_ground_contact
from quaddyn.locomotion.landing import (
    MAX_LANDING_FOOT_OFFSET,
    MIN_STOPPING_HEIGHT,
    SEARCH_DEPTH,
    SEARCH_SPEED,
    USABLE_REACH_FRACTION,
    LandingState,
    begin_landing,
    compute_ready_positions,
    is_pressed,
    write_landing_references,
)
from quaddyn.locomotion.leg_margins import measure_leg_lengths
from quaddyn.locomotion.morphology import make_body_parameters
from quaddyn.locomotion.motion import allocate_motion
from quaddyn.locomotion.walking import WalkData
from quaddyn.simulation import HeightField, MujocoPlant, Plane, Plant, Simulation, Terrain

DT = 2e-3


def lifted(robot: qd.Robot, height: float, *, tilt: float = 0.0, spread: float = 0.0, seed: int = 0) -> np.ndarray:
    """Home with the lowest foot `height` leg lengths above the ground, tilted [rad], joints off home [rad]."""
    q, rng, p = np.array(robot.q_home), np.random.default_rng(seed), Morphology.from_robot(robot)
    for joint in robot.actuated:
        q[robot.configuration_index(joint)] += rng.uniform(-spread, spread)
    axis = rng.uniform(0.0, 2.0 * np.pi)
    R = pin.exp3(tilt * np.array([np.cos(axis), np.sin(axis), 0.0])) @ pin.Quaternion(q[3:7]).toRotationMatrix()
    q[3:7] = pin.Quaternion(R).coeffs()
    feet = [qd.Dynamics(robot).frame_placement(q, foot).translation[2] for foot in FEET]
    q[2] += height * p.length - float((np.array(feet) - p.radii).min())
    return q


def drive(
    plant: Plant, controller: LocomotionController, seconds: float, *, feel: bool
) -> list[tuple[LocomotionCommand, bool]]:
    """Returns the commands, each with a flag for contact with the ground."""
    dynamics, out = qd.Dynamics(plant.robot), list[tuple[LocomotionCommand, bool]]()
    for _ in range(round(seconds / DT)):
        felt = [foot for foot in FEET if plant.contact_forces[foot][2] > 1.0]
        command = controller.compute(
            dynamics.update(np.array(plant.q), np.array(plant.v)), measured_contacts=felt if feel else None
        )
        assert np.isfinite(command.tau).all()
        out.append((command, bool(felt)))
        plant.step(command.tau)
    return out


def attitude(plant: Plant) -> float:
    """Tilt of the trunk [rad]."""
    R = pin.Quaternion(np.array(plant.q[3:7])).toRotationMatrix()
    return float(np.arccos(min(1.0, R[2, 2])))


@pytest.mark.parametrize(
    ("name", "kind", "feel", "seed"), [("go2", Simulation, False, 0), ("small_quadruped", MujocoPlant, True, 1)]
)
def test_tilted_dropped_robot_lands_on_all_feet(name: str, kind: type[Plant], feel: bool, seed: int) -> None:
    robot = qd.load(name)
    plant, controller = kind(robot, dt=DT), LocomotionController(robot, dt=DT)
    p = controller.morphology
    weights = [np.array(controller.wbc.tasks[name].weight) for name in ("com", "base")]
    plant.reset(lifted(robot, 0.28, tilt=0.15, spread=0.25, seed=seed), np.zeros(robot.nv))
    commands = drive(plant, controller, 3.2 * p.time_scale, feel=feel)
    modes = list(dict.fromkeys(command.mode for command, _ in commands))
    assert modes == [LocomotionMode.AIRBORNE, LocomotionMode.LANDING, LocomotionMode.RISING]
    first = next(i for i, (_, touched) in enumerate(commands) if touched)
    found = next(i for i, (command, _) in enumerate(commands) if command.mode is LocomotionMode.LANDING)
    assert 0 <= found - first <= 0.1 * p.time_scale / DT
    for command, _ in commands[round(0.1 * p.time_scale / DT) : first]:
        assert (
            command.mode is LocomotionMode.AIRBORNE
            and command.contacts == ()
            and not command.desired_forces
            and command.ok
        )
        assert command.limit_reason == NO_GROUND and not command.clamped_velocity.any()
    for task, weight in zip(("com", "base"), weights, strict=True):
        np.testing.assert_array_equal(controller.wbc.tasks[task].weight, weight)
    com = qd.Dynamics(robot).center_of_mass(np.array(plant.q))[2]
    assert attitude(plant) < 0.06 and com > 0.55 * p.height
    assert all(plant.contact_forces[foot][2] > 0.0 for foot in FEET)


@pytest.mark.parametrize("feel", [False, True])
def test_free_fall_is_detected_without_false_alarm_in_stance(feel: bool, go2: qd.Robot) -> None:
    plant, controller = Simulation(go2, dt=DT), LocomotionController(go2, dt=DT)
    unit = controller.morphology.time_scale
    modes = list(dict.fromkeys(command.mode for command, _ in drive(plant, controller, unit, feel=feel)))
    assert modes == [LocomotionMode.STARTING, LocomotionMode.STANDING]  # sensors measure zero before the first step
    plant.reset(lifted(go2, 0.2), np.zeros(go2.nv))  # the robot is lifted and released
    modes = [command.mode for command, _ in drive(plant, controller, 0.1 * unit, feel=feel)]
    assert modes[-1] is LocomotionMode.AIRBORNE
    drive(plant, controller, 3.0 * unit, feel=feel)
    assert controller.mode is LocomotionMode.RISING and attitude(plant) < 0.03


def test_ground_loss_is_detected_with_one_sensed_contact_but_not_with_three(go2: qd.Robot) -> None:
    p = Morphology.from_robot(go2)
    footing, feet = allocate_ground_contact(DT), np.zeros((4, 3))
    wait = round(0.25 * p.time_scale / DT) + 1
    three, one, none = np.array([1, 1, 1, 0]), np.array([1, 0, 0, 0]), np.zeros(4, dtype=np.int64)

    def is_lost(contacts: np.ndarray) -> bool:
        return bool(ground_lost(footing, make_body_parameters(p), 0.0, feet, contacts, True))

    assert not any(is_lost(three) for _ in range(3 * wait))
    assert [is_lost(one) for _ in range(wait + 1)].index(True) in range(wait - 2, wait + 1)
    reset_ground_contact(footing)  # the time begins again
    assert [is_lost(one) for _ in range(wait + 1)].index(True) in range(wait - 2, wait + 1)
    reset_ground_contact(footing)
    assert [is_lost(none) for _ in range(9)].index(True) <= 2 + round(0.02 * p.time_scale / DT)
    footing = allocate_ground_contact(0.02)
    assert [is_lost(none), is_lost(none)] == [False, True], "a single reading without contact may be an error"


@pytest.mark.parametrize("in_contact", [0, 1])
@pytest.mark.parametrize("lift", [0.0, 1.0])
@pytest.mark.parametrize("force", [9.0, 11.0])
def test_a_foot_is_pressed_if_it_is_in_contact_or_pushed_up_and_carries_load(
    in_contact: int, lift: float, force: float
) -> None:
    w = SimpleNamespace(
        motion=SimpleNamespace(feet=np.full((4, 3), lift)), body=SimpleNamespace(length=0.4),
        contacts=SimpleNamespace(forces=np.full((4, 3), force), trigger=SimpleNamespace(liftoff_threshold=10.0)),
    )  # fmt: skip
    state = SimpleNamespace(positions=np.zeros((4, 3)), in_contact=np.full(4, in_contact))
    assert is_pressed(state, w, 2) == (force > 10.0 and (in_contact == 1 or lift > 0.0))  # type: ignore[arg-type]


def test_unloaded_feet_are_detected_before_legs_accelerate() -> None:
    robot = qd.load("solo8")  # no motor limits, and legs of two joints: moving stance feet are too much
    plant, controller = Simulation(robot, dt=DT), LocomotionController(robot, dt=DT)
    p = controller.morphology
    plant.reset(lifted(robot, 0.15), np.zeros(robot.nv))
    commands = drive(plant, controller, 3.0 * p.time_scale, feel=False)
    modes = list(dict.fromkeys(command.mode for command, _ in commands))
    assert modes == [LocomotionMode.STARTING, LocomotionMode.AIRBORNE, LocomotionMode.LANDING, LocomotionMode.RISING]
    assert commands[2][0].mode is LocomotionMode.AIRBORNE and attitude(plant) < 0.3  # along the ground


def test_soft_ground_before_compression_counts_as_contact() -> None:
    robot = qd.load("solo8")
    plant, controller = MujocoPlant(robot, dt=DT), LocomotionController(robot, dt=DT)
    modes = list(dict.fromkeys(command.mode for command, _ in drive(plant, controller, 0.06, feel=False)))
    assert modes == [LocomotionMode.STARTING, LocomotionMode.STANDING]


@pytest.mark.parametrize(("height", "mode"), [(0.0, LocomotionMode.STANDING), (0.1, LocomotionMode.STARTING)])
def test_terrain_map_determines_ground_contact_at_first_tick(
    height: float, mode: LocomotionMode, go2: qd.Robot
) -> None:
    controller = LocomotionController(go2, dt=DT, terrain=Terrain.from_surfaces(Plane.floor()))
    state = qd.Dynamics(go2).update(lifted(go2, height), np.zeros(go2.nv))
    assert controller.compute(state).mode is mode


@pytest.mark.parametrize(("touching", "mode"), [(FEET, LocomotionMode.STANDING), ((), LocomotionMode.STARTING)])
def test_contact_sensors_determine_ground_contact_at_first_tick(
    touching: tuple[str, ...], mode: LocomotionMode, go2: qd.Robot
) -> None:
    controller = LocomotionController(go2, dt=DT)
    state = qd.Dynamics(go2).update(np.array(go2.q_home), np.zeros(go2.nv))
    assert controller.compute(state, measured_contacts=touching).mode is mode


def test_new_controller_of_a_walking_robot_gives_a_warning_and_lands(go2: qd.Robot) -> None:
    plant, dyn, controller = qd.Simulation(go2, dt=DT), qd.Dynamics(go2), LocomotionController(go2, dt=DT)
    command = controller.compute(dyn.update(plant.q, plant.v))
    while plant.time < 1.0 or len(command.contacts) > 2:
        plant.step(command.tau)
        command = controller.compute(dyn.update(plant.q, plant.v), (0.4, 0.0, 0.0))
    controller.reset()
    with pytest.warns(RuntimeWarning, match="^state: at the first tick .* the robot walks") as caught:
        assert controller.compute(dyn.update(plant.q, plant.v)).mode is LocomotionMode.AIRBORNE
    assert len(caught) == 1 and caught[0].filename == __file__
    controller.compute(dyn.update(plant.q, plant.v))  # warnings are errors in tests


def test_infeasible_landing_is_damped_and_reported() -> None:
    robot = qd.load("solo8")
    controller, dynamics = LocomotionController(robot, dt=DT), qd.Dynamics(robot)
    v = np.random.default_rng(0).normal(size=robot.nv) * np.r_[np.full(6, 0.3), np.full(robot.nu, 30.0)]
    state = dynamics.update(lifted(robot, 0.1, tilt=0.1, spread=0.2), v)
    for touching in (*((),) * 3, *(FEET,) * 20):
        command = controller.compute(state, measured_contacts=touching)
    assert command.mode is LocomotionMode.LANDING and not command.ok and command.limit_reason == NO_GROUND
    assert command.wbc_command is not None and np.abs(command.wbc_command.tau).max() > 2.0 * np.abs(command.tau).max()
    assert (command.tau * v[6:] < 0.0).all()


def test_contact_chatter_does_not_restart_landing(go2: qd.Robot) -> None:
    controller, dynamics = LocomotionController(go2, dt=DT), qd.Dynamics(go2)
    v = np.zeros(go2.nv)
    v[2] = -0.3
    state, found = dynamics.update(lifted(go2, 0.0), v), [(), (), (), FEET[:3]]
    for touching in (*found, *(FEET[: 3 + k % 2] for k in range(round(1.5 * controller.morphology.time_scale / DT)))):
        command = controller.compute(state, measured_contacts=touching)
    assert command.mode is LocomotionMode.RISING


def test_robot_with_three_contacts_a_quarter_of_the_time_does_not_rise(go2: qd.Robot) -> None:
    controller, dynamics = LocomotionController(go2, dt=DT), qd.Dynamics(go2)
    state, unit = dynamics.update(lifted(go2, 0.0), np.zeros(go2.nv)), controller.morphology.time_scale / DT
    searching = [FEET[:3]] * 5 + [FEET[:2]] * round(4.0 * unit)
    for touching in ((), (), (), *searching, *(FEET[: 2 + (k % 4 == 0)] for k in range(round(2.0 * unit)))):
        command = controller.compute(state, measured_contacts=touching)
    assert command.mode is LocomotionMode.LANDING
    for _ in range(round(0.3 * unit)):
        command = controller.compute(state, measured_contacts=FEET[:3])
    assert command.mode is LocomotionMode.RISING


def test_foot_that_loses_contact_continues_downward_from_its_place(go2: qd.Robot) -> None:
    controller, dynamics = LocomotionController(go2, dt=DT), qd.Dynamics(go2)
    state = dynamics.update(lifted(go2, 0.0, tilt=0.09, seed=1), np.zeros(go2.nv))
    heights = state.origins(FEET)[:, 2]
    lowest = int(np.argmin(heights))
    drop = np.delete(heights, lowest).mean() - heights[lowest]
    assert 0.06 * controller.morphology.length < drop < 0.11 * controller.morphology.length
    for touching in ((), (), (), *[FEET] * 5, tuple(foot for foot in FEET if foot != FEET[lowest])):
        command = controller.compute(state, measured_contacts=touching)
    assert command.mode is LocomotionMode.LANDING
    assert controller.wbc.tasks[FEET[lowest]]._position[2] < heights[lowest]


def test_landing_footholds_are_below_center_of_mass_and_ahead_of_it() -> None:
    controller = LocomotionController(qd.load("go2"), dt=DT)
    p, yaw = controller.morphology, 0.4
    turn = np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])
    motion, places = allocate_motion(), np.empty((4, 3))
    motion.com, motion.velocity, motion.yaw = np.array([0.3, -0.2, 1.0]), np.array([0.1, -0.05, -1.0]), yaw
    compute_ready_positions(make_body_parameters(p), motion, places)
    np.testing.assert_allclose(places[:, 2] - p.radii, 1.0 - p.height, rtol=1e-12)
    middle = np.array([0.3, -0.2]) + np.array([0.1, -0.05]) / p.natural_frequency
    np.testing.assert_allclose(places[:, :2], middle + p.nominal_stance @ turn.T, atol=1e-12)
    for direction in (0.0, 1.0, np.pi / 2.0, -2.5):  # a fast robot: the offset is bounded in any direction
        ahead = np.array([np.cos(direction), np.sin(direction)])
        motion.velocity = np.array([*(9.0 * ahead), -1.0])
        compute_ready_positions(make_body_parameters(p), motion, places)
        middle = np.array([0.3, -0.2]) + MAX_LANDING_FOOT_OFFSET * p.length * ahead
        np.testing.assert_allclose(places[:, :2], middle + p.nominal_stance @ turn.T, atol=1e-12)


def test_contact_after_a_loss_of_the_ground_begins_the_landing(go2: qd.Robot) -> None:
    controller, dynamics = LocomotionController(go2, dt=DT), qd.Dynamics(go2)
    state = dynamics.update(lifted(go2, 0.0), np.zeros(go2.nv))
    modes = [controller.compute(state, measured_contacts=feet).mode for feet in (FEET, (), (), (), FEET)]
    assert modes[-1] is LocomotionMode.LANDING and LocomotionMode.AIRBORNE in modes


def test_contacts_of_lost_foot_sensors_are_kept_in_a_landing(go2: qd.Robot) -> None:
    controller, dynamics = LocomotionController(go2, dt=DT), qd.Dynamics(go2)
    state = dynamics.update(lifted(go2, 0.0), np.zeros(go2.nv))
    sensors = (FEET, (), (), (), FEET, FEET, None)
    commands = [controller.compute(state, measured_contacts=feet) for feet in sensors]
    assert commands[-1].mode is LocomotionMode.LANDING and commands[-1].contacts == FEET


@pytest.mark.parametrize(("share", "lost"), [(0.9, False), (1.1, True)])
def test_moving_feet_in_free_fall_are_ground_loss_without_sensors(share: float, lost: bool, go2: qd.Robot) -> None:
    p, feet = Morphology.from_robot(go2), np.zeros((4, 3))
    footing, body, unknown = allocate_ground_contact(DT), make_body_parameters(p), np.zeros(4, dtype=np.int64)
    rates = [-p.gravity * DT * k for k in range(61)]
    assert not any(ground_lost(footing, body, rate, feet, unknown, False) for rate in rates[:-1])
    moved = feet - np.array([[0.0], [share * 0.1 * p.speed_scale * DT], [0.0], [0.0]])
    moved[1, 1:] = 0.0
    assert ground_lost(footing, body, rates[-1], moved, unknown, False) is lost


def relief(p: Morphology, amplitude: float, seed: int) -> HeightField:
    """Smooth random waves about the origin, nowhere level; the amplitude in leg lengths."""
    rng, spacing = np.random.default_rng(seed), 0.05
    x, y = np.meshgrid(np.arange(-4.0, 4.0, spacing), np.arange(-4.0, 4.0, spacing), indexing="ij")
    heights = np.zeros_like(x)
    for _ in range(8):
        number, way, shift = rng.uniform(2.0, 4.5), rng.uniform(-np.pi, np.pi), rng.uniform(0.0, 2.0 * np.pi)
        heights += np.sin(number * (x * np.cos(way) + y * np.sin(way)) + shift)
    heights *= amplitude * p.length / np.abs(heights).max()
    return HeightField(np.full(2, -4.0 * p.length), np.full(2, spacing * p.length), heights)


@pytest.mark.parametrize(
    ("name", "seed"), others_slow([(n, s) for n in ("solo12", "anymal_c", "go2") for s in range(4)], [("solo12", 0)])
)
def test_feet_without_contact_are_lowered_on_rough_terrain_until_all_carry_load(name: str, seed: int) -> None:
    robot = qd.load(name)
    p, surface = Morphology.from_robot(robot), relief(Morphology.from_robot(robot), 0.15, seed)
    plant, controller = Simulation(robot, dt=DT, terrain=surface), LocomotionController(robot, dt=DT)
    q, rng = np.array(robot.q_home), np.random.default_rng([1, seed])
    q[:2] += rng.uniform(-1.0, 1.0, 2) * p.length
    feet = qd.Dynamics(robot).update(q, np.zeros(robot.nv)).origins(FEET)
    gaps = feet[:, 2] - p.radii - Terrain.from_surfaces(surface).height(feet[:, 0], feet[:, 1])
    assert np.ptp(gaps) > 0.05 * p.length, "one foot is far above the ground while others touch it"
    q[2] += 0.02 * p.length - float(gaps.min())
    plant.reset(q, np.zeros(robot.nv))
    commands = drive(plant, controller, 10.0 * p.time_scale, feel=False)
    assert controller.mode in (LocomotionMode.STANDING, LocomotionMode.MOVING, LocomotionMode.RECOVERING)
    assert attitude(plant) < 0.3, "parallel to the plane of the feet"
    rose = next(i for i, (command, _) in enumerate(commands) if command.mode is LocomotionMode.RISING)
    assert rose * DT < 3.0 * p.time_scale
    assert all(plant.contact_forces[foot][2] > 0.0 for foot in FEET) or controller.mode is not LocomotionMode.STANDING


def test_foot_without_ground_extends_to_leg_limit_while_others_stand(go2: qd.Robot) -> None:
    controller, dynamics = LocomotionController(go2, dt=DT), qd.Dynamics(go2)
    p, state = controller.morphology, dynamics.update(lifted(go2, 0.0), np.zeros(go2.nv))
    controller.compute(state, measured_contacts=())
    while controller.mode is LocomotionMode.STARTING:
        controller.compute(state, measured_contacts=())
    targets = []
    for _ in range(round(4.0 * p.time_scale / DT)):
        command = controller.compute(state, measured_contacts=FEET[:3])
        if command.mode is not LocomotionMode.LANDING:
            break
        targets.append(np.array(controller.wbc.tasks["RR"]._position))
        trunk_height = float(controller._quadruped.trunk.state.height[0])
    assert command.mode is LocomotionMode.RISING, "three feet carry, though the fourth finds nothing"
    heights = np.array(targets)[:, 2]
    assert (np.diff(heights) <= 1e-12).all()
    first_step = SEARCH_SPEED * p.speed_scale * DT
    assert heights[0] - p.radii[3] == pytest.approx(-SEARCH_DEPTH * p.length - first_step, abs=1e-9)
    hip = state.placement(go2.legs["RR"].joints[0]).translation
    reached = np.linalg.norm(targets[-1] - hip) / measure_leg_lengths(go2)[3]
    assert reached == pytest.approx(USABLE_REACH_FRACTION, abs=1e-9)
    assert trunk_height == pytest.approx(MIN_STOPPING_HEIGHT * p.height)  # it was lowered for the foot


def test_light_legs_carry_load_as_soon_as_soft_ground_pushes_them_up() -> None:
    heights = []
    case = Trial(
        robot="hyq", plant="mujoco:menagerie", seconds=0.6, averaging_time=0.2, friction=1.0, slope=np.radians(20.0),
        slope_direction=np.radians(9.0), number=1,
    )  # fmt: skip
    run_trial(case, lambda plant, command: heights.append(plant.q[2]))
    assert len(heights) == 300 and min(heights) > 0.9 * heights[0]  # it sank by a third of its height


# -- one tick of a landing with random records ------------------------------------------------------------------------
#: Records that depend on the position and the heading of a robot.
PARTS = ("body", "motion", "ground", "trunk", "path")


class LandingTick:
    """A function of a landing with only the records that depend on position and heading as arguments."""

    def __init__(self, w: WalkData, entry: Entry, *options: float) -> None:
        self._w, self._function, self._options, self.__name__ = w, entry.python, options, entry.__name__

    def python(self, state: Any, body: Any, motion: Any, ground: Any, trunk: Any, path: Any) -> None:
        """Calls the function; its other records are left unchanged, except for the parameters of tasks."""
        parts = {"body": body, "motion": motion, "ground": ground, "trunk": trunk, "path": path}
        self.tasks = copy.deepcopy(self._w.tasks)
        self._function(state, self._w._replace(tasks=self.tasks, **parts), *self._options)


def random_landing(rng: np.random.Generator) -> tuple[LandingState, WalkData]:
    """Records of a robot between the first touchdown and a stance."""
    records, p = copy.deepcopy(walker()), Morphology.from_robot(qd.load("go2"))
    state, w, motion = records.landing, records.walk, random_motion(rng, p)
    reach = state.reach.copy()
    fill(state, rng)
    state.reach[:] = reach
    state.in_contact[int(rng.integers(4))] = 1
    state.depth[:], state.time_without_contact[:] = rng.uniform(0.0, 0.06, 4) * p.length, rng.uniform(0.0, 0.02, 4)
    state.stopping_distance, state.com_weight[:] = 0.08, rng.uniform(1.0, 2.0, 3)
    w.motion.copy_from(motion)
    w.motion.feet[:, :2] += motion.com[:2]
    fill(w.ground, rng)
    w.ground.has_next_foothold[:] = 0
    w.path.yaw, w.path.position[:] = motion.yaw, motion.com[:2]
    w.trunk.height = rng.uniform(0.5, 1.0) * p.height, -0.1, 0.0
    w.trunk.remaining_time = float(rng.choice([0.0, 0.1]))
    return state, w


@pytest.mark.parametrize(
    "call",
    [(landing.stop_fall,), (landing.extend_legs,), (begin_landing, 0.01), (begin_landing, 0.2)],
    ids=["stop", "air", "begin", "begin after a high jump"],
)
def test_tick_of_a_landing_is_symmetric_and_as_recorded(call: tuple[Any, ...]) -> None:
    rng = np.random.default_rng(40)
    for _ in range(40 if call[0] is landing.stop_fall else 5):
        state, w = random_landing(rng)
        tick, arguments = LandingTick(w, *call), (state, *(getattr(w, part) for part in PARTS))
        assert_symmetric(tick, *arguments)  # type: ignore[arg-type]
        with as_python():
            tick.python(*arguments)
            write_landing_references.python(state, w._replace(tasks=tick.tasks))
        note("tick", (*arguments, tick.tasks))
