"""Objects held by hands: equations of motion, internal forces and invalid arguments, compared with RNEA and MuJoCo."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from raising import raises
from robots_with_soles import two_arms

import quaddyn as qd
from quaddyn.contact import Contact
from quaddyn.robot import with_payload
from quaddyn.simulation.held_bodies import HeldBodySystem
from quaddyn.wbc import ForceTask, FrameTask, HeldObject, PostureTask, default_constraints

MASS, INERTIA = 3.0, np.diag([0.02, 0.03, 0.04])
PALMS = {  # z of each palm points from the object into the hand
    "left": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]]),
    "right": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]]),
}


@pytest.fixture(scope="module")
def robot() -> qd.Robot:
    return qd.load(two_arms(), root="fixed")


def holding_configuration(robot: qd.Robot) -> np.ndarray:
    """Configuration with bent elbows and opposite palms at a distance of 0.3 m."""
    names, joints = ("yaw", "pitch", "elbow", "turn", "wrist", "palm"), {}
    for side, sign in (("left", 1.0), ("right", -1.0)):
        angles = (-0.16 * sign, 0.6, -1.2, 0.0, 0.6, 0.16 * sign)
        joints |= {f"{side}_{name}_joint": angle for name, angle in zip(names, angles, strict=True)}
    return robot.configuration(joints=joints)


def palms(unilateral: bool, **options: Any) -> list[Contact]:
    return [
        Contact(
            name=side, frame=f"{side}_palm", kind="surface", half_size=(0.04, 0.03), offset=(0.1, 0.0, 0.0),
            rotation=PALMS[side], force_only=True, unilateral=unilateral, **options,
        )
        for side in PALMS
    ]  # fmt: skip


def controller(robot: qd.Robot, com: np.ndarray, *, unilateral: bool, **options: Any) -> qd.WholeBodyController:
    held = HeldObject(robot, ("left", "right"), "left_palm", MASS, com=com, inertia=INERTIA)
    first = [FrameTask(robot, "left_palm", "hand")]
    return qd.WholeBodyController(
        robot, constraints=[*default_constraints(robot, 1e-3), held], contacts=palms(unilateral, **options),
        tasks=[first, [ForceTask(robot, "squeeze", contacts=("left", "right"))], [PostureTask(robot)]], ramp_time=0.05,
    )  # fmt: skip


def grasp_center(robot: qd.Robot, s: qd.State) -> np.ndarray:
    """Center of the contact points of both palms, in axes of the left palm."""
    ends = [s.placement(f"{side}_palm").apply(np.array([0.1, 0.0, 0.0])) for side in PALMS]
    return s.placement("left_palm").inverse().apply(0.5 * (ends[0] + ends[1]))


def test_torques_match_rnea_with_the_object_in_one_hand_and_the_force_of_the_other(robot: qd.Robot) -> None:
    rng, dyn = np.random.default_rng(0), qd.Dynamics(robot)
    q = robot.integrate(holding_configuration(robot), 0.2 * rng.normal(size=robot.nv))
    v = 0.5 * rng.normal(size=robot.nv)
    s = dyn.update(q, v)
    com = grasp_center(robot, s)
    wbc = controller(robot, com, unilateral=False)
    wbc.tasks["hand"].reference(acceleration=rng.normal(size=6))
    held, squeeze = wbc.tasks["object"], wbc.tasks["squeeze"]
    squeeze.reference(held.internal_forces(s, 40.0))
    command = wbc.compute(s, ("left", "right"))
    assert command.ok, command.explain()
    # object mass added to the left palm, its inertia by Euler's equation; the right hand's force acts on both palms
    loaded, f = qd.Dynamics(with_payload(robot, MASS, com, link="left_palm")), command.forces
    a, T = command.acceleration, s.placement("left_palm")
    point = s.placement("right_palm").apply(np.array([0.1, 0.0, 0.0]))
    spin, inertia = s.velocity("left_palm")[3:], T.rotation @ INERTIA @ T.rotation.T
    turn = s.jacobian("left_palm")[3:] @ a + s.drift("left_palm")[3:]
    there, here = f["right"].copy(), -f["right"].copy()
    there[3:] += np.cross(point - s.placement("right_palm").translation, there[:3])
    here[3:] += np.cross(point - T.translation, here[:3])
    here[3:] -= inertia @ turn + np.cross(spin, inertia @ spin)
    tau = loaded.rnea(q, v, a, fext={"right_palm": there, "left_palm": here})
    np.testing.assert_allclose(command.tau, tau, atol=1e-8)
    # the right hand moves with the object, apart from the damping of the relative velocity
    lever = point - T.translation
    J, J0 = s.jacobian("right_palm"), s.jacobian("left_palm")
    w, w0 = s.velocity("right_palm")[3:], s.velocity("left_palm")[3:]
    np.testing.assert_allclose(
        (J @ a + s.drift("right_palm"))[3:] - (J0 @ a + s.drift("left_palm"))[3:], -held.damping * (w - w0), atol=1e-7
    )
    own = point - s.placement("right_palm").translation

    def speed(frame: str, arm: np.ndarray) -> np.ndarray:
        return s.velocity(frame)[:3] + np.cross(s.velocity(frame)[3:], arm)

    def rate(frame: str, arm: np.ndarray) -> np.ndarray:
        x, o = s.jacobian(frame) @ a + s.drift(frame), s.velocity(frame)[3:]
        return x[:3] + np.cross(x[3:], arm) + np.cross(o, np.cross(o, arm))

    gap = rate("right_palm", own) - rate("left_palm", lever)
    np.testing.assert_allclose(gap, -held.damping * (speed("right_palm", own) - speed("left_palm", lever)), atol=1e-6)


def test_force_task_changes_only_the_internal_force(robot: qd.Robot) -> None:
    s = qd.Dynamics(robot).update(holding_configuration(robot), np.zeros(robot.nv))
    com = grasp_center(robot, s)
    found = {}
    for force in (0.0, 30.0, 60.0):
        wbc = controller(robot, com, unilateral=False)
        wbc.tasks["squeeze"].reference(wbc.tasks["object"].internal_forces(s, force))
        command = wbc.compute(s, ("left", "right"))
        assert command.ok
        found[force] = command
        total = command.forces["left"][:3] + command.forces["right"][:3]
        np.testing.assert_allclose(total, (0.0, 0.0, -MASS * 9.81), atol=1e-6)
        np.testing.assert_allclose(command.acceleration, found[0.0].acceleration, atol=1e-6)
        apart = command.forces["left"] - found[0.0].forces["left"]
        np.testing.assert_allclose(apart, (0.0, force, 0.0, 0.0, 0.0, 0.0), atol=1e-6)


def test_unilateral_palms_apply_the_minimal_internal_force_for_friction(robot: qd.Robot) -> None:
    s = qd.Dynamics(robot).update(holding_configuration(robot), np.zeros(robot.nv))
    wbc = controller(robot, grasp_center(robot, s), unilateral=True, friction=0.5)
    command = wbc.compute(s, ("left", "right"))
    assert command.ok
    for side, sign in (("left", 1.0), ("right", -1.0)):
        f = command.forces[side]
        assert f[2] == pytest.approx(-0.5 * MASS * 9.81, abs=1e-6)
        assert sign * f[1] == pytest.approx(
            abs(f[2]) / (0.5 / np.sqrt(2.0)), rel=1e-6
        )  # at the limit of the friction pyramid
        assert side in command.centers_of_pressure
    slippery = controller(robot, grasp_center(robot, s), unilateral=True, friction=0.0).compute(s, ("left", "right"))
    assert slippery.ok and "hand z" in slippery.explain()  # the hands fall with the object
    J, lever = s.jacobian("left_palm"), s.placement("left_palm").rotation @ grasp_center(robot, s)
    falling = (J[:3] @ slippery.acceleration) + np.cross(J[3:] @ slippery.acceleration, lever)
    np.testing.assert_allclose(falling, (0.0, 0.0, -9.81), atol=1e-6)


def test_equations_of_a_grasped_object_are_scaled_by_the_smallest_activation(robot: qd.Robot) -> None:
    s = qd.Dynamics(robot).update(holding_configuration(robot), np.zeros(robot.nv))
    center = grasp_center(robot, s)
    wbc = controller(robot, center, unilateral=False)
    J, lever = s.jacobian("left_palm"), s.placement("left_palm").rotation @ center
    for tick in range(90):
        command = wbc.compute(s, ("left", "right") if tick >= 60 else ("left",))
        activations = [a for a in wbc.contact_activations.values() if a > 0.0]
        acceleration = J[:3] @ command.acceleration + np.cross(J[3:] @ command.acceleration, lever)
        total = sum(force[:3] for force in command.forces.values())
        weight = MASS * (acceleration - robot.model.gravity.linear)
        np.testing.assert_allclose(total, -min(activations) * weight, atol=1e-6, err_msg=str(tick))
    assert len(activations) == 2 and min(activations) < max(activations) == 1.0


def test_invalid_held_objects_are_rejected(robot: qd.Robot) -> None:
    level_0 = default_constraints(robot, 1e-3)

    def made(*contacts: Contact) -> None:
        held = HeldObject(robot, ("left", "right"), "left_palm", MASS)
        qd.WholeBodyController(robot, constraints=[*level_0, held], contacts=contacts)

    left, right = palms(False)
    raises(qd.UnknownNameError, "right", made, left)
    fixed = Contact(name="right", frame="right_palm", kind="surface", half_size=(0.04, 0.03))
    raises(qd.ArgumentError, r"'right' of 'object'.*force_only", made, left, fixed)
    wbc = qd.WholeBodyController(robot, contacts=[left, right])
    wbc.add(HeldObject(robot, ("left", "right"), "left_palm", MASS), level=0)
    raises(qd.ArgumentError, "'right' is used by", wbc.remove_contact, "right")
    raises(qd.ArgumentError, "force_only", wbc.add_contact, fixed)
    for options, word in (
        ({"mass": -1.0}, "mass"), ({"contacts": ()}, "contacts"), ({"contacts": ("left", "left")}, "contacts"),
        ({"inertia": np.diag([1.0, 1.0, 3.0])}, "inertia"), ({"inertia": np.eye(2)}, "inertia"),
        ({"com": (0.0, np.nan, 0.0)}, "com"), ({"damping": -1.0}, "damping"),
    ):  # fmt: skip
        given: dict[str, Any] = {"contacts": ("left", "right"), "frame": "left_palm", "mass": MASS} | options
        raises(qd.ArgumentError, word, HeldObject, robot, **given)
    with pytest.raises(qd.UnknownNameError):
        HeldObject(robot, ("left",), "no palm", MASS)
    s = qd.Dynamics(robot).update(holding_configuration(robot), np.zeros(robot.nv))
    alone = HeldObject(robot, ("left",), "left_palm", MASS)
    raises(qd.ArgumentError, "does not belong to a controller", alone.internal_forces, s, 1.0)
    qd.WholeBodyController(robot, constraints=[*level_0, alone], contacts=[left])
    raises(qd.ArgumentError, "different points", alone.internal_forces, s, 1.0)


@pytest.mark.parametrize("kind", [qd.Simulation, qd.simulation.MujocoPlant])
def test_body_held_in_one_hand_moves_like_a_payload(robot: qd.Robot, kind: Any) -> None:
    at, size = np.array([0.1, 0.05, -0.02]), 0.4
    own = qd.simulation.HeldBody(
        name="ball",
        frame="left_palm",
        contacts=palms(False)[:1],
        mass=MASS,
        com=at,
        inertia=0.1 * MASS * size**2 * np.eye(3),
    )
    free = kind(robot, held_bodies=[own], dt=2.5e-4)
    fixed = kind(with_payload(robot, MASS, at, link="left_palm", diameter=size), dt=2.5e-4)
    q = holding_configuration(robot)
    for plant in (free, fixed):
        plant.reset(q)
        for tick in range(200):
            plant.step(40.0 * np.sin(0.01 * tick + np.arange(robot.nu)))
            if tick == 50:
                plant.push("left_palm", (0.0, 20.0, 0.0), duration=0.02)
    moved = np.abs(fixed.q - q)[:6]
    assert moved.max() > 0.3
    np.testing.assert_allclose(free.q, fixed.q, atol=1e-2 * moved.max())
    place = qd.Dynamics(robot).update(free.q, free.v).placement("left_palm").apply(at)
    np.testing.assert_allclose(free.held_bodies["ball"].position, place, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_body_grasped_by_a_turning_hand_has_its_velocity_and_keeps_the_momentum_balance(
    robot: qd.Robot, seed: int
) -> None:
    rng, com, dt, h = np.random.default_rng(seed), np.array([0.2, -0.1, 0.05]), 1e-6, 1e-6
    q, v = robot.random_configuration(seed), rng.normal(0.0, 3.0, robot.nv)
    body = qd.simulation.HeldBody(
        name="rod", frame="left_palm", contacts=palms(False)[:1], mass=MASS, com=com, inertia=INERTIA
    )
    sim = qd.Simulation(robot, held_bodies=[body], dt=dt, joint_stops=False)
    sim.reset(q, v)

    def palm(configuration: np.ndarray, point: object) -> np.ndarray:
        return np.array(qd.Dynamics(robot).frame_placement(configuration, "left_palm").apply(np.array(point)))

    before, grip = sim.held_bodies["rod"], palm(q, (0.1, 0.0, 0.0))
    np.testing.assert_allclose(before.position, palm(q, com), atol=1e-12)
    ahead, back = (palm(robot.integrate(q, sign * h * v), com) for sign in (1.0, -1.0))
    np.testing.assert_allclose(before.velocity[:3], (ahead - back) / (2.0 * h), atol=1e-6)
    sim.step(10.0 * rng.normal(size=robot.nu))
    after = sim.held_bodies["rod"]
    force, moment = np.split(after.forces["left"], 2)  # on the robot
    rate = (after.velocity[:3] - before.velocity[:3]) / dt
    np.testing.assert_allclose(MASS * rate, -force - [0.0, 0.0, 9.81 * MASS], rtol=1e-4, atol=1e-4)
    spins = [each.rotation @ INERTIA @ each.rotation.T @ each.velocity[3:] for each in (before, after)]
    needed = -moment - np.cross(grip - before.position, force)
    assert np.linalg.norm(np.cross(before.velocity[3:], spins[0])) > 0.05
    np.testing.assert_allclose((spins[1] - spins[0]) / dt, needed, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [qd.Simulation, qd.simulation.MujocoPlant])
def test_plants_simulate_a_body_between_two_hands(robot: qd.Robot, kind: Any) -> None:
    s = qd.Dynamics(robot).update(holding_configuration(robot), np.zeros(robot.nv))
    com, dyn = grasp_center(robot, s), qd.Dynamics(robot)
    crate = qd.simulation.HeldBody(
        name="crate", frame="left_palm", contacts=palms(True), mass=MASS, com=com, inertia=INERTIA
    )
    plant = kind(robot, held_bodies=[crate])
    plant.reset(s.q)
    wbc = controller(robot, com, unilateral=True, friction=0.6)

    def steps(count: int) -> None:
        for _ in range(count):
            s = dyn.update(plant.q, plant.v)
            wbc.tasks["squeeze"].reference(wbc.tasks["object"].internal_forces(s, 50.0))
            plant.step(wbc.compute(s, ("left", "right")).tau)

    start = s.placement("left_palm")
    wbc.tasks["hand"].gains(900.0)
    wbc.tasks["hand"].pose_reference(start.translation + np.array([0.0, 0.01, 0.01]), start.rotation)
    steps(200)
    there = plant.checkpoint()
    steps(20)
    q, body = plant.q, plant.held_bodies["crate"]
    hand = dyn.update(plant.q, plant.v).placement("left_palm")
    np.testing.assert_allclose(body.position, hand.apply(com), atol=1e-5)
    total = sum(body.forces.values())
    np.testing.assert_allclose(total[:3], (0.0, 0.0, -9.81 * MASS), atol=0.3)
    assert body.forces["left"][1] == pytest.approx(50.0, rel=0.05)
    plant.restore(there)
    assert not np.array_equal(plant.q, q)
    raises(qd.ArgumentError, "from a different plant", kind(robot).restore, there)
    plant.reset(s.q)
    assert not np.any(plant.held_bodies["crate"].forces["left"])


def test_grip_forces_are_those_of_the_torques_that_the_motors_deliver(robot: qd.Robot) -> None:
    rng, effort = np.random.default_rng(0), robot.effort_limits
    body = qd.simulation.HeldBody(name="rod", frame="left_palm", contacts=palms(False), mass=MASS, inertia=INERTIA)
    grips = HeldBodySystem(robot, [body], 1e-3, effort)
    q, v, tau = holding_configuration(robot), rng.normal(size=robot.nv), 3.0 * effort * rng.normal(size=robot.nu)
    grips.grasp(q, v)
    forces = [
        np.array([wrench for _, wrench in grips.step(q, v, torques, {})[0]])
        for torques in (tau, np.clip(tau, -effort, effort), np.zeros(robot.nu))
    ]
    np.testing.assert_array_equal(forces[0], forces[1])
    assert np.abs(forces[0] - forces[2]).max() > 1.0


def test_invalid_held_bodies_are_rejected(robot: qd.Robot) -> None:
    left, right = palms(False)
    good: dict[str, Any] = {
        "name": "x",
        "frame": "left_palm",
        "contacts": (left, right),
        "mass": 1.0,
        "inertia": np.eye(3),
    }
    for wrong, words in (
        ({"contacts": ()}, "contacts"), ({"contacts": (left, left)}, "contacts"), ({"mass": 0.0}, "mass"),
        ({"inertia": np.zeros((3, 3))}, "inertia"), ({"inertia": np.diag([1.0, 1.0, 3.0])}, "inertia"),
        ({"com": (0.0, np.nan, 0.0)}, "com"),
    ):  # fmt: skip
        raises(qd.ArgumentError, words, qd.simulation.HeldBody, **good | wrong)
    body = qd.simulation.HeldBody(**good)
    raises(qd.ArgumentError, "every name once", qd.Simulation, robot, held_bodies=[body, body])
    with pytest.raises(qd.UnknownNameError):
        qd.Simulation(robot, held_bodies=[qd.simulation.HeldBody(**(good | {"frame": "no palm"}))])
    with pytest.raises(qd.ArgumentError, match="held"):
        qd.simulation.rollout(qd.Simulation(robot, held_bodies=[body]), np.zeros((2, robot.nu)))
    with pytest.raises(qd.ArgumentError, match="batch: not supported by a simulation with held_bodies"):
        qd.Simulation(robot, held_bodies=[body]).batch(2)
