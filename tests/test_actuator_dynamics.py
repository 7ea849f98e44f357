"""Motors between commands and joints: delays and backlash in both plants."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import urdf_text
from raising import raises
from urdf_text import inertial, link, urdf

import quaddyn as qd
from quaddyn.simulation import Actuators, MujocoPlant, Plant, Sensors, Simulation

PLANTS = [Simulation, MujocoPlant]
DT, GAP = 1e-3, 0.05
#: Inertias of the motor, and of the wheel that it drives [kg m^2].
ROTOR, WHEEL = 0.5, 2.0


AXLE = urdf_text.joint("axle", "base", "wheel", "0 0 1", ends="-9 9", effort=99, velocity=99)
TEXT = urdf(link("base"), link("wheel", inertial(moments=f"1 1 {WHEEL}")), AXLE)


@pytest.fixture(scope="module")
def wheel() -> qd.Robot:
    return qd.load(TEXT, root="fixed")


@pytest.fixture(scope="module")
def leg() -> qd.Robot:
    return qd.load("two_link_leg", root="fixed")


def with_backlash(robot: qd.Robot, **more: Any) -> Actuators:
    return Actuators(robot, rotor_inertia=ROTOR, backlash=GAP, **more)


def oscillate(plant: Plant, steps: int) -> bytes:
    """States and torques under an oscillating torque, as bytes."""
    seen = []
    for _ in range(steps):
        plant.step(2.0 * np.sin([40.0 * plant.time, 55.0 * plant.time])[: plant.robot.nu])
        seen += [
            plant.q.tobytes(),
            plant.v.tobytes(),
            plant.tau.tobytes(),
            np.array(plant.backlash_state or ()).tobytes(),
        ]
    return b"".join(seen)


@pytest.mark.parametrize("kind", PLANTS)
def test_commanded_torques_are_delayed_and_then_clamped(kind: type[Any], wheel: qd.Robot) -> None:
    plant = kind(wheel, dt=DT, actuators=Actuators(wheel, delay=2.25 * DT, effort=3.0))
    asked, given = np.random.default_rng(0).uniform(-4.0, 4.0, 20), []
    for torque in asked:
        plant.step(np.array([torque]))
        given.append(plant.tau[0])
    late = np.r_[np.zeros(3), asked]
    np.testing.assert_allclose(given, np.clip(0.75 * late[1:21] + 0.25 * late[:20], -3.0, 3.0), atol=1e-12)
    plant.reset()
    plant.step(np.array([4.0]))
    assert plant.tau[0] == 0.0


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("kind", PLANTS)
def test_motor_crosses_the_backlash_before_the_joint_moves(kind: type[Any], wheel: qd.Robot, sign: float) -> None:
    """In both directions, against its own dry friction; a reset returns it to the middle of the gap."""
    torque, applied = sign * 4.0, np.array([sign * 5.0])
    plant = kind(wheel, dt=DT, actuators=with_backlash(wheel, coulomb=1.0))
    crossing = np.sqrt(GAP * ROTOR / 4.0)  # half the gap, from its center
    for _ in range(int(crossing / DT) - 1):
        plant.step(applied)
    assert plant.q[0] == 0.0 and plant.v[0] == 0.0
    offset, faster = plant.backlash_state
    np.testing.assert_allclose(faster[0], torque / ROTOR * plant.time)
    np.testing.assert_allclose(offset[0], 0.5 * torque / ROTOR * plant.time**2, rtol=0.02)
    assert plant.energy == pytest.approx(0.5 * ROTOR * faster[0] ** 2)
    while plant.time < 2.0 * crossing:
        plant.step(applied)
    # The total momentum equals the impulse of the torque, and the teeth stay in contact.
    assert (ROTOR + WHEEL) * plant.v[0] == pytest.approx(torque * plant.time, rel=2e-3)
    np.testing.assert_allclose(plant.backlash_state, [[0.5 * sign * GAP], [0.0]], atol=1e-9)
    read = Sensors(wheel, np.random.default_rng(0)).read(plant)
    assert read.position[0] == plant.q[0] + plant.backlash_state[0][0]  # the encoder is on the motor
    plant.reset(v=np.array([0.7]))  # the motor turns with the joint
    assert plant.v[0] == 0.7 and not np.any(plant.backlash_state)
    plant.step(np.zeros(1))
    assert plant.v[0] == pytest.approx(0.7, rel=1e-9)


@pytest.mark.parametrize("kind", PLANTS)
def test_backlash_reduces_the_motion_of_the_joint(kind: type[Any]) -> None:
    """A position servo oscillates slowly; dry friction holds the wheel while the motor crosses the gap."""
    rough = qd.load(TEXT, root="fixed", friction=8.0)
    plant = kind(rough, dt=DT, actuators=with_backlash(rough, viscous=1.0))
    motor, joint = [], []
    for k in range(4000):
        position, velocity = plant.q + plant.backlash_state[0], plant.v + plant.backlash_state[1]
        goal = 0.2 * np.sin(np.pi * k * DT)
        plant.step(400.0 * (goal - position) - 20.0 * velocity)
        if k > 2000:
            motor.append(position[0])
            joint.append(plant.q[0])
    assert np.ptp(motor) - np.ptp(joint) == pytest.approx(GAP, rel=0.05)
    assert np.abs(np.array(motor) - joint).max() < 0.5 * GAP * 1.01


@pytest.mark.parametrize("kind", PLANTS)
def test_checkpoints_contain_the_motor_states(kind: type[Any], leg: qd.Robot) -> None:
    motors = Actuators(leg, rotor_inertia=0.01, backlash=[0.02, 0.0], delay=[0.0, 0.0033], coulomb=0.1)
    plant = kind(leg, dt=DT, actuators=motors)
    oscillate(plant, 100)
    saved = plant.checkpoint()
    first = oscillate(plant, 100)
    plant.restore(saved)
    assert oscillate(plant, 100) == first
    other = kind(leg, dt=DT, actuators=motors)
    other.restore(pickle.loads(pickle.dumps(saved)))
    assert oscillate(other, 100) == first
    raises(qd.ArgumentError, "checkpoint", kind(leg, dt=DT).restore, saved)


@pytest.mark.parametrize("kind", PLANTS)
def test_tiny_backlash_equals_no_backlash_in_both_plants(kind: type[Any], leg: qd.Robot) -> None:
    """With a gap of 1e-6 rad a motor behaves as without backlash: rotor, friction and torque-speed line."""
    motors = {"rotor_inertia": 0.02, "viscous": 0.05, "coulomb": 0.1, "corner_speed": 2.0, "no_load_speed": 9.0}
    states = []
    for gap in (0.0, 1e-6):
        plant = kind(leg, dt=DT, actuators=Actuators(leg, backlash=gap, **motors))
        oscillate(plant, 500)
        states.append(plant.q)
    np.testing.assert_allclose(states[1], states[0], atol=2e-3)


def test_motors_with_backlash_move_alike_in_both_plants(leg: qd.Robot) -> None:
    """For a short time, in which the integrators of the plants differ by less than rounding of the gap."""
    motors, states = Actuators(leg, rotor_inertia=0.02, backlash=0.02, viscous=0.05, coulomb=0.1), []
    for kind in PLANTS:
        plant = kind(leg, dt=0.5 * DT, actuators=motors)
        for _ in range(100):
            plant.step(2.0 * np.sin(20.0 * plant.time + np.arange(2.0)))
            states.append(plant.backlash_state[0])
    np.testing.assert_allclose(states[100:], states[:100], atol=2e-7)


def test_invalid_motors_are_rejected(leg: qd.Robot) -> None:
    with pytest.raises(qd.ArgumentError, match=f"backlash.*{leg.actuated[1]} is 0; pass rotor_inertia="):
        Actuators(leg, backlash=[0.0, 0.01])
    raises(qd.ArgumentError, r"delay.*seconds", Actuators, leg, delay=5.0)
    for kind in PLANTS:
        raises(qd.ArgumentError, "backlash", kind, leg, actuators=with_backlash(leg), integrator="rk4")
