"""`RobustLimits`: torques and forces for any payload of the set are within limits, by Pinocchio's dynamics."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.contact import friction_pyramid
from quaddyn.urdf.tree import Array
from quaddyn.wbc import Command, ParameterEllipsoid, PayloadSet, RobustLimits, WholeBodyController
from quaddyn.wbc.element import scales
from quaddyn.wbc.tick import Tick

FRICTION = 0.8


def make_payload_set(robot: qd.Robot) -> PayloadSet:
    return PayloadSet(
        (0.1 * robot.mass, 0.4 * robot.mass), (-0.05, -0.04, 0.0), (0.05, 0.04, 0.06), radius_of_gyration=0.02
    )


def controller(robot: qd.Robot, limits: RobustLimits | None) -> WholeBodyController:
    wbc = WholeBodyController(robot, ramp_time=0.0)
    if limits is not None:
        wbc.add(limits, level=0)
    return wbc


def payload_excess(
    wbc: WholeBodyController, q: Array, v: Array, command: Command, stance: tuple[str, ...], load: pin.Inertia
) -> float:
    """Largest violation with the payload, as a fraction of the limits, for the smallest change of the forces."""
    robot = wbc.robot
    loaded, extra = robot.model.copy(), []
    loaded.inertias[1] = robot.model.inertias[1] + load
    for model in (robot.model, loaded):
        extra.append(pin.rnea(model, model.createData(), q, v, command.acceleration))
    s, driven = qd.Dynamics(robot).update(q, v), robot.actuated_index
    passive = np.setdiff1d(np.arange(robot.nv), driven)
    J, needed = [], extra[1] - extra[0]
    for foot in stance:
        contact = wbc.contacts[foot].contact
        whole = s.jacobian(contact.frame)
        J.append(whole[:3] + contact.radius * pin.skew(contact.normal) @ whole[3:])
    stacked = np.vstack(J)
    change = np.linalg.lstsq(stacked[:, passive].T, needed[passive], rcond=None)[0].reshape(-1, 3)
    torque = command.tau + needed[driven] - stacked[:, driven].T @ change.ravel()
    worst = float((np.abs(torque) / robot.effort_limits).max()) - 1.0
    for foot, more in zip(stance, change, strict=True):
        contact = wbc.contacts[foot].contact
        cone = friction_pyramid(contact)  # of the ground; the controller assumes a fraction of it
        cone[:-1] += (1.0 - FRICTION) * (cone[:-1] @ contact.normal)[:, None] * -contact.normal
        worst = max(worst, float((cone @ (command.forces[foot] + more)).max()) / (9.81 * robot.mass))
    return worst


def test_torques_and_forces_for_any_payload_of_the_set_are_within_limits(go2: qd.Robot) -> None:
    rng, band = np.random.default_rng(3), make_payload_set(go2)
    both = [controller(go2, RobustLimits(go2, band, friction_fraction=FRICTION)), controller(go2, None)]
    dyn, worst = qd.Dynamics(go2), [list[float](), list[float]()]
    for tick in range(30):
        stance = go2.feet if tick % 2 else go2.feet[1:]
        turn = np.r_[0.0, 0.0, 0.0, rng.normal(0.0, 0.1, go2.nv - 3)]
        q, v = go2.integrate(go2.q_home, turn), rng.normal(0.0, 0.3, go2.nv)
        push = rng.normal(0.0, 5.0, 3) + np.array((0.0, 0.0, 15.0))
        load = pin.Inertia(rng.uniform(*band.mass), rng.uniform(band.com_lower, band.com_upper), np.zeros((3, 3)))
        load.inertia = load.mass * band.radius_of_gyration**2 * np.eye(3)
        for wbc, found in zip(both, worst, strict=True):
            wbc.reset()
            wbc.tasks["com"].reference(dyn.update(q, v).com, np.zeros(3), push)
            command = wbc.compute(dyn.update(q, v), contacts=stance)
            assert command.status.outcome == "solved"
            found.append(payload_excess(wbc, q, v, command, stance, load))
    assert max(worst[0]) < 1e-7
    assert sum(x > 1e-3 for x in worst[1]) > 10  # the limits were active


def test_payloads_of_a_fast_link_change_torques_by_those_of_inverse_dynamics() -> None:
    """Each payload moves the middle of a torque's range, and the link's rotation narrows the range."""
    arm, rng, turning = qd.load("ur5"), np.random.default_rng(2), 5.0
    q, v, a = arm.q_home + rng.normal(0.0, 1.0, 6), rng.normal(0.0, 3.0, 6), rng.normal(0.0, 10.0, 6)
    link = arm.frame_names[-1]
    band = PayloadSet((1.0, 3.0), (-0.1, 0.0, 0.05), (0.2, 0.1, 0.3), link=link, radius_of_gyration=0.05)
    s, frame = qd.Dynamics(arm).update(q, v), arm.model.frames[arm.frame_id(link)]
    limits = RobustLimits(arm, band, angular_acceleration=turning)
    (rows,) = limits.rows(Tick.at(s, (), (), 1e-3, scales(arm), None))
    torques = rows.acceleration @ a - 0.5 * (rows.lower + rows.upper)
    for added, mass, com in zip(torques.reshape(-1, 6), *band.vertices(), strict=True):
        loaded = arm.model.copy()
        loaded.appendBodyToJoint(frame.parentJoint, pin.Inertia(mass, com, np.zeros((3, 3))), frame.placement)
        needed = [pin.rnea(model, model.createData(), q, v, a) for model in (arm.model, loaded)]
        np.testing.assert_allclose(added, needed[1] - needed[0], rtol=1e-9)
    omega = s.velocity(link)[3:]
    reserve = band.max_second_moment * (omega @ omega + turning) * np.linalg.norm(s.jacobian(link)[3:], axis=0)
    assert (reserve[:5] > 0.1).all()
    np.testing.assert_allclose(0.5 * (rows.upper - rows.lower), np.tile(arm.effort_limits - reserve, 16))


def test_empty_uncertainty_set_changes_nothing(go2: qd.Robot) -> None:
    s = qd.Dynamics(go2).update(go2.q_home, np.full(go2.nv, 0.1))
    plain, nothing = (controller(go2, x).compute(s, go2.feet) for x in (None, RobustLimits(go2)))
    np.testing.assert_allclose(nothing.tau, plain.tau, atol=1e-9)


def test_torque_margin_and_friction_fraction_narrow_the_limits(go2: qd.Robot) -> None:
    limits = RobustLimits(go2, friction_fraction=0.5, torque_margin=0.25 * go2.effort_limits)
    wbc, dyn = controller(go2, limits), qd.Dynamics(go2)
    s = dyn.update(go2.q_home, np.zeros(go2.nv))
    wbc.tasks["com"].reference(s.com, np.zeros(3), [50.0, 0.0, 50.0])
    command = wbc.compute(s, go2.feet)
    assert np.isclose(np.abs(command.tau / go2.effort_limits).max(), 0.75)
    steepest = max(np.hypot(f[0], f[1]) / f[2] for f in command.forces.values())
    assert steepest <= 0.5 * wbc.contacts[go2.feet[0]].friction + 1e-9


def test_payload_that_cannot_be_carried_is_explained(go2: qd.Robot) -> None:
    band = PayloadSet((0.0, 300.0), (0.0, 0.0, 0.1), (0.0, 0.0, 0.1))
    wbc = controller(go2, RobustLimits(go2, band))
    command = wbc.compute(qd.Dynamics(go2).update(go2.q_home, np.zeros(go2.nv)), go2.feet)
    assert command.ok and "com z" in command.explain() and "robust" in command.explain()
    assert any("torque limit with 300 kg at (0, 0, 0.1)" in row for row in command.levels[0].active)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            lambda r: PayloadSet((2.0, 1.0), np.zeros(3), np.zeros(3)),
            "mass: expected the smallest and the largest mass",
        ),
        (
            lambda r: PayloadSet((0.0, 1.0), (0.0, 0.1, 0.0), np.zeros(3)),
            "com_lower, com_upper: expected no entry of com_lower above",
        ),
        (lambda r: PayloadSet((0.0, np.nan), np.zeros(3), np.zeros(3)), "mass"),
        (lambda r: PayloadSet((0.0, 1.0), np.zeros(2), np.zeros(3)), "com_lower"),
        (lambda r: PayloadSet((0.0, 1.0), np.zeros(3), np.zeros(3), radius_of_gyration=-1.0), "gyration"),
        (lambda r: RobustLimits(r, friction_fraction=1.5), "friction_fraction: expected"),
        (lambda r: RobustLimits(r, torque_margin=-1.0), "torque_margin: expected a number >= 0 or 12"),
        (lambda r: RobustLimits(r, angular_acceleration=np.inf), "angular_acceleration"),
        (lambda r: RobustLimits(r, PayloadSet((0.0, 1.0), np.zeros(3), np.zeros(3), link="tail")), "tail"),
    ],
)
def test_invalid_uncertainty_sets_are_rejected(go2: qd.Robot, wrong: object, words: str) -> None:
    raises(qd.QuaddynError, words, wrong, go2)


def test_payload_set_is_the_hull_of_its_vertices() -> None:
    masses, centres = PayloadSet((0.0, 2.0), (0.0, 0.0, 0.1), (0.1, 0.0, 0.2)).vertices()
    assert masses.tolist() == [0.0, 2.0, 2.0, 2.0, 2.0]
    assert {tuple(c) for c in centres[1:]} == {(0.0, 0.0, 0.1), (0.0, 0.0, 0.2), (0.1, 0.0, 0.1), (0.1, 0.0, 0.2)}


def parameter_excess(
    wbc: WholeBodyController, q: Array, v: Array, command: Command, stance: tuple[str, ...], changes: Array
) -> Array:
    """Violations (n,) with other parameters (n, p), as fractions of the limits."""
    robot, dyn = wbc.robot, qd.Dynamics(wbc.robot)
    needed = dyn.regressor(q, v, command.acceleration) @ changes.T
    s, driven = dyn.update(q, v), robot.actuated_index
    passive = np.setdiff1d(np.arange(robot.nv), driven)
    J = np.vstack(
        [
            s.jacobian(c.frame)[:3] + c.radius * pin.skew(c.normal) @ s.jacobian(c.frame)[3:]
            for c in (wbc.contacts[foot].contact for foot in stance)
        ]
    )
    forces = np.linalg.lstsq(J[:, passive].T, needed[passive], rcond=None)[0]
    torque = command.tau[:, None] + needed[driven] - J[:, driven].T @ forces
    worst = (np.abs(torque) / robot.effort_limits[:, None]).max(axis=0) - 1.0
    for foot, more in zip(stance, forces.reshape(len(stance), 3, -1), strict=True):
        cone = friction_pyramid(wbc.contacts[foot].contact)
        worst = np.maximum(worst, (cone @ (command.forces[foot][:, None] + more)).max(axis=0) / (9.81 * robot.mass))
    return np.asarray(worst)


def test_torques_and_forces_for_any_parameters_of_the_set_are_within_limits(go2: qd.Robot) -> None:
    rng, dyn = np.random.default_rng(5), qd.Dynamics(go2)
    own = dyn.parameters()
    directions = np.diag(0.1 * np.abs(own))[own != 0.0] / np.sqrt(np.count_nonzero(own) / 20.0)
    limits = RobustLimits(go2, parameters=ParameterEllipsoid(directions))
    both, worst = [controller(go2, limits), controller(go2, None)], [np.zeros(0), np.zeros(0)]
    for stance in (go2.feet[1:], go2.feet, go2.feet):
        q = go2.integrate(go2.q_home, np.r_[np.zeros(3), rng.normal(0.0, 0.1, go2.nv - 3)])
        v, push = rng.normal(0.0, 0.3, go2.nv), rng.normal(0.0, 5.0, 3) + np.array((0.0, 0.0, 15.0))
        for k, wbc in enumerate(both):
            wbc.reset()
            wbc.tasks["com"].reference(dyn.update(q, v).com, np.zeros(3), push)
            for _ in range(5):  # accelerations settle
                command = wbc.compute(dyn.update(q, v), contacts=stance)
            assert command.status.outcome == "solved", command.explain()
            E = dyn.regressor(q, v, command.acceleration) @ directions.T
            z = np.vstack((rng.normal(size=(500, len(directions))), E, -E))
            z = z[z.any(axis=1)] / np.linalg.norm(z[z.any(axis=1)], axis=1)[:, None]
            worst[k] = np.append(worst[k], parameter_excess(wbc, q, v, command, stance, z @ directions))
    assert worst[0].max() < 1e-6
    assert np.count_nonzero(worst[1] > 1e-3) > 100  # the limits were active


def test_parameter_sets_of_wrong_size_are_rejected(go2: qd.Robot) -> None:
    with pytest.raises(qd.ArgumentError, match="169 parameters of the robot, got directions with 5"):
        RobustLimits(go2, parameters=ParameterEllipsoid(np.eye(5)))
    raises(qd.ArgumentError, "finite matrix", ParameterEllipsoid, np.full((2, 169), np.nan))
    raises(TypeError, "parameters", RobustLimits, go2, parameters=np.eye(169))
