"""Contact spheres of trunk, thighs and knees, which carry a fallen robot and do not change walking."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from raising import raises
from slow_parameters import NIGHT

import quaddyn as qd
from quaddyn.simulation import Box, HeightField, Plane, body_spheres, collision_spheres

PLANTS = (qd.Simulation, qd.MujocoPlant)
QUADRUPEDS = ("a1", "anymal_b", "anymal_c", "b1", "go1", "go2", "hyq", "laikago", "solo8", "solo12")


def on_its_side(robot: qd.Robot) -> np.ndarray:
    """Configuration in the air, rolled by 100 degrees."""
    q = np.array(robot.q_home)
    q[3:7] = pin.Quaternion(pin.rpy.rpyToMatrix(np.radians(100.0), 0.1, 0.0)).coeffs()
    q[2] += 0.1
    return q


def lowest(robot: qd.Robot, q: np.ndarray, links: set[str]) -> float:
    """Height of the lowest collision sphere of the links [m]."""
    dynamics = qd.Dynamics(robot)
    heights = []
    for sphere in collision_spheres(robot, links).values():
        pose = dynamics.frame_placement(q, sphere.frame)
        heights.append(pose.apply(sphere.offset)[2] - sphere.radius)
    return min(heights)


@pytest.mark.parametrize("name", QUADRUPEDS)
def test_trunk_thighs_and_knees_have_spheres_without_contact_at_home(name: str) -> None:
    robot = qd.load(name)
    spheres = body_spheres(robot)
    bodies = {link.name: i for i, body in enumerate(robot.bodies) for link, _ in body.links}
    touched = {bodies[sphere.frame] for sphere in spheres.values()}
    dynamics = qd.Dynamics(robot)
    assert 0 in touched, "the trunk"
    for leg in robot.legs.values():
        carrier = next(i for i, b in enumerate(robot.bodies) if b.joint is not None and b.joint.name == leg.knee)
        assert {carrier, robot.bodies[carrier].parent} <= touched, "shank, at its knee, and thigh"
        knee = dynamics.frame_placement(robot.q_home, leg.knee).translation
        foot = dynamics.frame_placement(robot.q_home, leg.name).translation
        for sphere in spheres.values():
            if bodies[sphere.frame] == carrier:
                centre = dynamics.frame_placement(robot.q_home, sphere.frame).apply(sphere.offset)
                assert np.linalg.norm(centre - knee) < np.linalg.norm(centre - foot)
    sim = qd.Simulation(robot)
    assert sim.spheres == robot.feet, "names of the feet"
    sim.step(np.zeros(robot.nu))
    assert {contact.sphere for contact in sim.contacts} <= set(robot.feet)
    assert sim.body_forces == {} and set(sim.contact_forces) == set(robot.feet)


@pytest.mark.parametrize("kind", PLANTS)
@pytest.mark.parametrize("name", ["go2", "anymal_c"])
def test_fallen_robot_rests_on_its_body_spheres(kind: type, name: str) -> None:
    robot = qd.load(name)
    plant = kind(robot, dt=2e-3)
    plant.reset(on_its_side(robot))
    damping = 0.02 * robot.mass
    for _ in range(1000):
        plant.step(-damping * plant.v[6:] * np.ones(robot.nu))
    trunk = {link.name for link, _ in robot.bodies[0].links}
    assert lowest(robot, plant.q, trunk) > -0.015  # the spheres leave out up to 15 mm of the edges
    links = {contact.link for contact in plant.contacts} - {None}
    assert links == set(plant.body_forces), "the same by link"
    assert links & trunk or len(links) >= 2
    up = sum(f[2] for f in plant.body_forces.values()) + sum(f[2] for f in plant.contact_forces.values())
    assert up == pytest.approx(robot.mass * 9.81, rel=0.25)
    for contact in plant.contacts:
        assert contact.sphere in robot.feet if contact.link is None else contact.sphere.startswith(contact.link)


def test_body_spheres_can_be_disabled(go2: qd.Robot) -> None:
    bare = qd.Simulation(go2, dt=2e-3, spheres={})
    bare.reset(on_its_side(go2))
    for _ in range(500):
        bare.step(np.zeros(12))
    assert bare.body_forces == {}
    assert lowest(go2, bare.q, {"base"}) < -0.1, "without spheres the trunk sinks"
    assert qd.Simulation(qd.load("go2", root="fixed"), floor=0.0).body_forces == {}
    assert body_spheres(qd.load("ur5")) == {}
    raises(qd.ArgumentError, "spheres", bare.restore, qd.Simulation(go2, dt=2e-3).checkpoint())


GROUNDS = {
    "floor": Plane.floor(),
    "boxes": (Plane.floor(), Box(np.array([0.3, 0.0, 0.0]), np.array([0.4, 1.0, 0.06]))),
    "field": HeightField.from_function(lambda x, y: 0.02 * np.sin(8.0 * x) * np.cos(7.0 * y), (-1.0, 1.0), (-1.0, 1.0)),
}


@pytest.mark.parametrize("ground", GROUNDS)
def test_body_spheres_do_not_change_the_motion_of_a_standing_robot(ground: str, go2: qd.Robot) -> None:
    ends = []
    for spheres in ({}, None):
        sim = qd.Simulation(go2, dt=2e-3, terrain=GROUNDS[ground], spheres=spheres)
        q = np.array(go2.q_home)
        q[2] += 0.05
        sim.reset(q)
        for _ in range(150):
            sim.step(-40.0 * (sim.q[7:] - go2.q_home[7:]) - 1.5 * sim.v[6:])
        assert sim.contacts and not sim.body_forces
        ends.append(sim.q)
    np.testing.assert_array_equal(*ends)


@pytest.mark.parametrize("ground", ["boxes", *(pytest.param(g, marks=pytest.mark.slow) for g in ("floor", "field"))])
@pytest.mark.filterwarnings("ignore:q. .* below the ground:RuntimeWarning")
def test_clustered_spheres_find_every_contact(ground: str, go2: qd.Robot) -> None:
    clustered = qd.Simulation(go2, dt=2e-3, terrain=GROUNDS[ground], joint_stops=False)
    named = {f"each {name}": sphere for name, sphere in body_spheres(go2).items()}
    shuffled = dict(sorted(named.items(), key=lambda item: item[0][::-1]))  # from joint to joint
    singly = qd.Simulation(go2, dt=2e-3, terrain=GROUNDS[ground], spheres=shuffled, joint_stops=False)
    rng = np.random.default_rng(4)
    touching, draws = 0, 15 if NIGHT else 6
    for _ in range(draws):
        q = pin.integrate(go2.model, np.array(go2.q_home), rng.uniform(-1.0, 1.0, go2.nv))
        q[2] = rng.uniform(0.0, 0.3)
        sides = []
        for sim in (clustered, singly):
            sim.reset(q)
            sim.step(np.zeros(12))
            near = sim._contacts.collisions  # contacts within range; their forces are not unique
            names = sim._reported_names
            sides.append({(names[near.spheres[i]].removeprefix("each "), near.gaps[i]) for i in range(sim._n_contacts)})
        assert sides[0] == sides[1]
        touching += len(sides[0])
    assert touching > 2.6 * draws
