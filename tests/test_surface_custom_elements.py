"""Custom tasks and constraints, defined by two methods each, on a running controller."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pinocchio as pin
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.urdf.tree import Array
from quaddyn.wbc import ComTask, CustomConstraint, CustomTask, FramePositionTask


class EqualFootHeights(CustomTask):
    """Two feet at the same height."""

    def error(self, s: qd.State) -> Array:
        return s.placement("FR").translation[2:] - s.placement("FL").translation[2:]

    def jacobian(self, s: qd.State) -> Array:
        return s.jacobian("FL")[2:3] - s.jacobian("FR")[2:3]


class CustomComTask(CustomTask):
    """Equivalent of `ComTask` with a fixed target, without methods for velocity and drift."""

    goal = np.zeros(3)

    def error(self, s: qd.State) -> Array:
        return self.goal - s.com

    def jacobian(self, s: qd.State) -> Array:
        return s.com_jacobian


class MinComHeight(CustomConstraint):
    """Minimum height of the center of mass."""

    def value(self, s: qd.State) -> Array:
        return s.com[2:] - 0.2

    def jacobian(self, s: qd.State) -> Array:
        return s.com_jacobian[2:]


@pytest.fixture(scope="module")
def robot() -> qd.Robot:
    return qd.load("go2")


def random_moving_state(robot: qd.Robot, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    q = robot.integrate(robot.q_home, 0.1 * rng.standard_normal(robot.nv))
    return q, 0.5 * rng.standard_normal(robot.nv)


@pytest.mark.parametrize("seed", range(3))
def test_default_drift_is_correct(robot: qd.Robot, seed: int) -> None:
    s = qd.Dynamics(robot).update(*random_moving_state(robot, seed))
    together, centre = (
        EqualFootHeights(robot, "together", 1, stiffness=1.0),
        CustomComTask(robot, "centre", 3, stiffness=1.0),
    )
    np.testing.assert_allclose(together.drift(s), s.drift("FL")[2:3] - s.drift("FR")[2:3], atol=1e-8)
    np.testing.assert_allclose(centre.drift(s), s.com_drift, atol=1e-8)
    np.testing.assert_allclose(centre.velocity(s), s.com_velocity, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_custom_task_gives_the_torques_of_the_built_in_task(robot: qd.Robot, seed: int) -> None:
    dyn, q_v = qd.Dynamics(robot), random_moving_state(robot, seed)
    feet = [FramePositionTask(robot, foot) for foot in robot.feet]
    gains = {"stiffness": [20.0, 30.0, 40.0], "damping": 5.0, "weight": [1.0, 2.0, 3.0]}
    built_in, own = ComTask(robot, "own", **gains), CustomComTask(robot, "own", ("x", "y", "z"), **gains)  # type: ignore[arg-type]
    goal = own.goal = dyn.center_of_mass(robot.q_home) + 0.02
    built_in.reference(goal, velocity=[0.1, 0.0, 0.0], acceleration=[0.0, 0.2, 0.0])
    own.reference(velocity=[0.1, 0.0, 0.0], acceleration=[0.0, 0.2, 0.0])
    tau = []
    for task in (built_in, own):
        wbc = qd.WholeBodyController(robot, tasks=[[task, *feet]])
        tau.append(wbc.compute(dyn.update(*q_v), ()).tau.copy())
        task.axes = ("x", "z")
        tau.append(wbc.compute(dyn.update(*q_v), ()).tau.copy())
        wbc.remove("own")
    np.testing.assert_allclose(tau[2], tau[0], atol=1e-7)
    np.testing.assert_allclose(tau[3], tau[1], atol=1e-7)


def test_custom_elements_can_be_added_to_and_removed_from_a_running_controller(robot: qd.Robot) -> None:
    dyn, wbc = qd.Dynamics(robot), qd.WholeBodyController(robot)
    sim = qd.Simulation(robot)
    together = EqualFootHeights(robot, "together", rows=1, stiffness=100.0)
    wbc.add(together, level=1)
    wbc.add(MinComHeight(robot, "stay up", ("z",), stiffness=100.0), level=0)
    for _ in range(5):
        command = wbc.compute(dyn.update(sim.q, sim.v))
        sim.step(command.tau)
    assert command.ok and "together" in command.levels[1].tasks
    assert "stay up z" in command.margins
    wbc.remove("together")
    wbc.remove("stay up")
    assert wbc.compute(dyn.update(sim.q, sim.v)).ok and "together" not in wbc.tasks


def test_custom_limit_is_approached_and_not_crossed(robot: qd.Robot) -> None:
    dyn, wbc, sim = qd.Dynamics(robot), qd.WholeBodyController(robot), qd.Simulation(robot)
    limit = MinComHeight(robot, "stay up", 1, stiffness=100.0)
    wbc.add(limit, level=0)
    wbc.tasks.com.reference(dyn.center_of_mass(sim.q) - [0.0, 0.0, 0.2])
    heights = []
    for _ in range(1000):
        s = dyn.update(sim.q, sim.v)
        heights.append(s.com[2])
        sim.step(wbc.compute(s).tau)
    assert min(heights) > 0.2 - 1e-4 and heights[-1] < 0.21
    limit.stiffness, limit.damping, limit.weight = 50, 20.0, [2.0]
    assert limit.stiffness.tolist() == [50.0] and limit.damping.tolist() == [20.0]
    with pytest.raises(qd.ArgumentError, match="damping"):
        limit.damping = -1.0


def test_single_row_may_be_a_number_and_a_flat_jacobian(robot: qd.Robot) -> None:
    dyn = qd.Dynamics(robot)
    s = dyn.update(*random_moving_state(robot, 1))

    class Flat(EqualFootHeights):
        def error(self, s: qd.State) -> float:  # type: ignore[override]
            return float(super().error(s)[0])

        def jacobian(self, s: qd.State) -> Array:
            return super().jacobian(s)[0]

    taus = []
    for kind in (EqualFootHeights, Flat):
        wbc = qd.WholeBodyController(robot)
        wbc.add(kind(robot, "own", 1, stiffness=1.0), level=1)
        taus.append(wbc.compute(s).tau)
    np.testing.assert_array_equal(*taus)


def test_errors_of_custom_elements_name_the_element(robot: qd.Robot) -> None:
    dyn = qd.Dynamics(robot)
    s = dyn.update(*random_moving_state(robot, 0))

    class Wide(EqualFootHeights):
        def jacobian(self, s: qd.State) -> Array:
            return np.zeros((1, 3))

        def drift(self, s: qd.State) -> Array:
            return np.zeros(1)

    class Broken(EqualFootHeights):
        def error(self, s: qd.State) -> Array:
            return np.array([np.nan])

    class Many(EqualFootHeights):
        def error(self, s: qd.State) -> Array:
            return np.zeros(3)

    cases = (
        (Wide, r"own.jacobian: expected a returned array of shape \(1, 18\), got \(1, 3\)"),
        (Broken, "own"),
        (Many, r"own.error: expected a returned array of shape \(1,\), got \(3,\)"),
    )
    for kind, word in cases:
        wbc = qd.WholeBodyController(robot)
        wbc.add(kind(robot, "own", 1, stiffness=1.0), level=1)
        raises(ValueError, word, wbc.compute, s)
    for rows in (0, ("a", "a"), 1.5, True):
        raises(qd.ArgumentError, "rows", EqualFootHeights, robot, "t", rows, stiffness=1.0)
    with pytest.raises(qd.ArgumentTypeError, match="the class EqualFootHeights; create an object of it"):
        wbc.add(EqualFootHeights, level=1)  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match=r"tasks\['own'\]"):
        wbc.tasks.own  # type: ignore[attr-defined]  # noqa: B018
    raises(TypeError, "abstract", CustomTask, robot, "t", 1, stiffness=1.0)
    twin = pickle.loads(pickle.dumps(EqualFootHeights(robot, "t", 1, stiffness=7.0)))
    assert twin.stiffness.tolist() == [7.0] and np.isfinite(twin.drift(s)).all()


class WrongSign(MinComHeight):
    """A limit whose Jacobian has the wrong sign."""

    def jacobian(self, s: qd.State) -> Array:
        return -super().jacobian(s)


class ClippedWrongSign(WrongSign):
    """A limit of a wrong Jacobian whose value does not change before it is close."""

    def value(self, s: qd.State) -> Array:
        return np.minimum(super().value(s), self.ceiling)

    ceiling = 0.0


def wrong_elements(robot: qd.Robot) -> list[tuple[CustomTask | CustomConstraint, str]]:
    """Elements with Jacobians of a wrong sign, order, scale, frame, and with angular instead of linear rows."""

    class WrongRows(CustomComTask):
        def jacobian(self, s: qd.State) -> Array:
            return s.com_jacobian[[1, 0, 2]]

    class WrongScale(CustomComTask):
        scale = 1e3

        def jacobian(self, s: qd.State) -> Array:
            return self.scale * s.com_jacobian

    class BaseHeight(CustomTask):
        """The height of the base, by an angular row."""

        def error(self, s: qd.State) -> Array:
            return 0.2 - s.placement("base").translation[2]

        def jacobian(self, s: qd.State) -> Array:
            return s.jacobian("base")[5]

    class LateralPosition(BaseHeight):
        """The position of the base along y, in axes that differ from its own at other headings."""

        def error(self, s: qd.State) -> Array:
            return -s.placement("base").translation[1]

        def jacobian(self, s: qd.State) -> Array:
            return s.jacobian("base", reference="local")[1]

    large, small = (WrongScale(robot, "own", 3, stiffness=1.0) for _ in range(2))
    small.scale = 1e-3
    return [
        (WrongSign(robot, "own", 1, stiffness=1.0), r"own.value: .* row 0 .* J v is .*sign"),
        (WrongRows(robot, "own", 3, stiffness=1.0), r"own.error: .* row [01] .* -J v is"),
        (large, "a scale of 0.001 between them"),
        (small, "a scale of 1000 between them"),
        (BaseHeight(robot, "own", 1, stiffness=1.0), "own.error: .* row 0 along a motion that the contacts permit"),
        (LateralPosition(robot, "own", 1, stiffness=1.0), "permit at another heading"),
    ]


@pytest.mark.parametrize("case", range(6))
def test_wrong_jacobian_is_reported_at_the_first_tick_at_rest(robot: qd.Robot, case: int) -> None:
    element, message = wrong_elements(robot)[case]
    wbc, s = qd.WholeBodyController(robot), qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    wbc.add(element, level=0 if isinstance(element, CustomConstraint) else 1)
    with pytest.warns(RuntimeWarning, match="own.jacobian: does not match " if case in (2, 3) else message) as caught:
        wbc.compute(s)
    assert re.search(message, str(caught[0].message))
    wbc.compute(s)  # once


def test_jacobian_of_a_value_that_does_not_change_at_first_is_reported_when_it_moves(robot: qd.Robot) -> None:
    dyn, q, (still, turning, rising) = qd.Dynamics(robot), robot.q_home, np.zeros((3, robot.nv))
    still[2], turning[5], turning[2], rising[2] = 1e-12, 0.5, 1e-6, 0.1
    wbc = qd.WholeBodyController(robot)
    wbc.add(MinComHeight(robot, "low", 1, stiffness=1.0), level=0)
    wbc.compute(dyn.update(q, rising))
    wbc.remove("low")  # an element of the same name that was compared says nothing about the next one
    wrong = ClippedWrongSign(robot, "low", 1, stiffness=1.0)
    wbc.add(wrong, level=0)
    wbc.compute(dyn.update(q, 0.0 * rising))
    wrong.ceiling = np.inf
    for v in (still, turning):  # without motion of the row
        wbc.compute(dyn.update(q, v))
    with pytest.warns(RuntimeWarning, match="low.jacobian: does not match low.value"):
        wbc.compute(dyn.update(q, rising))
    wbc.compute(dyn.update(q, rising))


def test_jacobians_without_standing_feet_and_values_with_kinks_cause_no_warning(robot: qd.Robot) -> None:
    class AboveFeet(CustomTask):
        def error(self, s: qd.State) -> Array:
            feet = np.mean([s.placement(foot).translation for foot in robot.feet], axis=0)
            return np.asarray(feet - s.com)[:2]

        def jacobian(self, s: qd.State) -> Array:
            return s.com_jacobian[:2]

    class LowestFoot(CustomTask):
        def error(self, s: qd.State) -> Array:
            return -np.min([s.placement(foot).translation[2] for foot in robot.feet])

        def jacobian(self, s: qd.State) -> Array:
            return s.jacobian(min(robot.feet, key=lambda foot: s.placement(foot).translation[2]))[2]

    class ShortenedVector(CustomComTask):
        goal = np.array([0.4, 0.0, 0.2])

        def error(self, s: qd.State) -> Array:
            error = super().error(s)
            return error / (1.0 + 30.0 * np.linalg.norm(error))

    class MovingReference(CustomComTask):
        def error(self, s: qd.State) -> Array:
            self.goal = self.goal + 1e-3
            return super().error(s)

    s = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    for kind, rows in ((AboveFeet, 2), (LowestFoot, 1), (ShortenedVector, 3), (MovingReference, 3)):
        wbc = qd.WholeBodyController(robot)
        wbc.add(kind(robot, "own", rows, stiffness=1.0), level=1)
        wbc.compute(s)


def test_clipped_errors_and_errors_of_rotations_cause_no_warning(robot: qd.Robot) -> None:
    class Clipped(CustomComTask):
        def error(self, s: qd.State) -> Array:
            return np.clip(super().error(s), -1e-3, 1e-3)

    class Upright(CustomTask):
        def error(self, s: qd.State) -> Array:
            return -pin.log3(s.placement("base").rotation)

        def jacobian(self, s: qd.State) -> Array:
            return s.jacobian("base")[3:]

    dyn, rng = qd.Dynamics(robot), np.random.default_rng(0)
    for _ in range(20):
        wbc = qd.WholeBodyController(robot)
        wbc.add(Clipped(robot, "clipped", 3, stiffness=1.0), level=2)
        wbc.add(Upright(robot, "upright", 3, stiffness=1.0, unit="rad/s^2"), level=2)
        tilt = np.concatenate([np.zeros(3), rng.uniform(-0.6, 0.6, 3), np.zeros(robot.nu)])
        wbc.compute(dyn.update(robot.integrate(robot.q_home, tilt), rng.standard_normal(robot.nv)))
