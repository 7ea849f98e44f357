"""The embedded plant obeys gravity, contact, friction and the balance of momentum and energy."""

from __future__ import annotations

import numpy as np
import pytest
from raising import raises
from urdf_text import collision, inertial, joint, link, urdf

import quaddyn as qd
from quaddyn.control import JointPD, gravity_compensation

G = 9.81


def sled(friction: float = 0.0, damping: float = 0.0) -> qd.Robot:
    """A box on four vertical prismatic legs, which slides like a block."""
    foot = inertial(0.5, moments=1e-3) + collision('sphere radius="0.05"')
    losses = f'<dynamics damping="{damping}" friction="{friction}"/>'
    slide = {"kind": "prismatic", "ends": "-0.1 0.1", "more": losses}
    parts = [link("base", inertial(8, moments="0.1 0.2 0.2"))]
    for n, x, y in (("fl", 0.3, 0.2), ("fr", 0.3, -0.2), ("rl", -0.3, 0.2), ("rr", -0.3, -0.2)):
        parts.append(link(f"{n}_foot", foot))
        parts.append(joint(f"{n}_slide", "base", f"{n}_foot", "0 0 1", f"{x} {y} -0.2", effort=1000, **slide))
    home = np.array([0.0, 0.0, 0.25, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    chains = {name: (f"{name.lower()}_slide",) for name in ("FL", "FR", "RL", "RR")}
    return qd.load(urdf(*parts), root="free", q_home=home, legs=chains)


class Stand:
    """PD around a target (home) and gravity compensation, for any robot."""

    def __init__(self, robot: qd.Robot, target: np.ndarray | None = None) -> None:
        self.target = robot.q_home if target is None else target
        self.dyn, self.pd = qd.Dynamics(robot), JointPD(robot)

    def __call__(self, sim: qd.Simulation) -> np.ndarray:
        hold = gravity_compensation(self.dyn.update(sim.q, sim.v))
        return self.pd.compute(sim.q, sim.v, self.target, feedforward=hold.tau).tau


# -- standing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("root", ["free", "planar"])
def test_dropped_robot_comes_to_rest_on_its_feet(root: str) -> None:
    robot = qd.load("solo12", root=root)
    sim, stand = qd.Simulation(robot), Stand(robot)
    q = robot.q_home.copy()
    q[2 if root == "free" else 1] += 0.1
    sim.reset(q)
    sets = set()
    for _ in range(2000):
        sim.step(stand(sim))
        sets.add(tuple(foot for foot, f in sim.contact_forces.items() if f[2] > 0.0))
        assert sim.status in ("free", "solved", "passive", "retried")
    assert {(), robot.feet} <= sets
    dyn = qd.Dynamics(robot)
    assert dyn.energy(sim.q, sim.v).kinetic < 1e-6 * robot.mass * G * 0.1  # a millionth of the energy of the fall
    assert sum(f[2] for f in sim.contact_forces.values()) == pytest.approx(robot.mass * G, rel=1e-3)
    for foot, leg in robot.legs.items():
        assert abs(dyn.frame_placement(sim.q, foot).translation[2] - leg.foot.radius) < 1e-5


def test_robot_with_fixed_root_has_no_floor_by_default() -> None:
    robot = qd.load("go2", root="fixed")
    feet = qd.Dynamics(robot).frame_placement(robot.q_home, "FL").translation[2] - robot.legs["FL"].foot.radius
    hanging, resting = qd.Simulation(robot), qd.Simulation(robot, floor=feet - 0.01)
    for sim in (hanging, resting):
        stretch = Stand(robot, robot.q_home * 0.5)  # half the bend: longer legs
        for _ in range(600):
            sim.step(stretch(sim))
    assert not any(f.any() for f in hanging.contact_forces.values())
    dyn = qd.Dynamics(robot)
    assert dyn.frame_placement(hanging.q, "FL").translation[2] - robot.legs["FL"].foot.radius < feet - 0.02
    for foot, leg in robot.legs.items():
        assert dyn.frame_placement(resting.q, foot).translation[2] - leg.foot.radius > feet - 0.01 - 1e-4
        assert resting.contact_forces[foot][2] > 0.0


# -- friction and momentum -----------------------------------------------------------------------------------------
def test_joint_friction_holds_up_to_the_coulomb_limit() -> None:
    # 30 N of Coulomb friction at each leg carry the box's 19.6 N without a motor, creeping at most 1 mm/s
    holding, sinking = qd.Simulation(sled(friction=30.0)), qd.Simulation(sled(friction=15.0))
    speeds = []
    for sim in (holding, sinking):
        for _ in range(100):
            sim.step(np.zeros(4))
            speeds.append(sim.v[2])
    assert np.abs(holding.v).max() < 1e-3
    # once it yields, the box sinks with (8 g - 4 * 15 N) / 8 kg
    assert (speeds[-1] - speeds[-51]) / 0.05 == pytest.approx(-(8.0 * G - 60.0) / 8.0, rel=1e-3)


def test_viscous_friction_reaches_its_terminal_speed_at_any_stiffness() -> None:
    for damping in (200.0, 1e6):
        sim = qd.Simulation(sled(damping=damping))
        for _ in range(300):
            sim.step(np.zeros(4))
        assert sim.v[2] == pytest.approx(-8.0 * G / (4.0 * damping), rel=1e-3)


# -- energy --------------------------------------------------------------------------------------------------------
def test_energy_agrees_with_dynamics(go2: qd.Robot) -> None:
    sim, v = qd.Simulation(go2), np.random.default_rng(1).normal(size=go2.nv)
    sim.reset(go2.q_home, v)
    assert sim.energy == pytest.approx(qd.Dynamics(go2).energy(go2.q_home, v).total, rel=1e-12)


# -- life ----------------------------------------------------------------------------------------------------------


def test_reset_returns_to_home_at_rest(go2: qd.Robot) -> None:
    sim = qd.Simulation(go2)
    for _ in range(50):
        sim.step(np.ones(go2.nu))
    sim.reset()
    np.testing.assert_array_equal(sim.q, go2.q_home)
    assert not sim.v.any() and not sim.tau.any() and sim.time == 0.0 and sim.residual == 0.0
    assert sim.status == "free" and sim.work.total == 0.0
    assert set(sim.contact_forces) == set(go2.feet) and not any(f.any() for f in sim.contact_forces.values())
    with pytest.raises(ValueError, match="read-only"):
        sim.q[0] = 1.0


@pytest.mark.parametrize(
    ("tau", "error"),
    [
        (np.zeros(11), qd.ArgumentError),
        (np.zeros((12, 1)), qd.ArgumentError),
        (np.full(12, np.nan), qd.ArgumentError),
        (np.full(12, np.inf), qd.ArgumentError),
        ("x", qd.ArgumentTypeError),
    ],
)
def test_step_rejects_an_invalid_torque_by_name_and_keeps_its_state(
    go2: qd.Robot, tau: object, error: type[Exception]
) -> None:
    sim = qd.Simulation(go2)
    raises(error, "tau", sim.step, tau)
    np.testing.assert_array_equal(sim.q, go2.q_home)
    assert sim.time == 0.0


def test_invalid_options_raise_errors_that_name_them(go2: qd.Robot) -> None:
    for options in (
        {"dt": 0.0},
        {"dt": np.nan},
        {"dt": 1.0},
        {"friction": -0.1},
        {"friction": 50.0},
        {"friction": np.nan},
        {"contact": "magic"},
        {"floor": np.nan},
    ):
        raises(qd.ArgumentError, next(iter(options)), qd.Simulation, go2, **options)
    sim, q = qd.Simulation(go2), go2.q_home.copy()
    q[3:7] *= 1.01
    raises(qd.ArgumentError, "q", sim.reset, q)
    raises(qd.ArgumentError, "v", sim.reset, None, np.full(go2.nv, np.nan))


def test_divergence_error_contains_the_last_finite_state(solo12: qd.Robot) -> None:
    sim = qd.Simulation(solo12)
    with pytest.raises(qd.DivergenceError, match="solo") as caught:
        for _ in range(5000):
            sim.step(1e3 * sim.v[6:] + 1.0)  # a damper with the wrong sign
    assert np.isfinite(caught.value.q).all() and np.isfinite(caught.value.v).all()
    np.testing.assert_array_equal(caught.value.q, sim.q)
    assert caught.value.time == sim.time


@pytest.mark.parametrize("contact", ["frictional", "rigid"])
def test_contacts_unsolved_by_the_compiled_solver_are_solved_by_the_fallback(go2: qd.Robot, contact: str) -> None:
    sim = qd.Simulation(go2, contact=contact)
    for _ in range(5):
        sim.step(np.zeros(go2.nu))
    k, impulses = sim._n_contacts, sim._contacts.impulses
    known = impulses[: 3 * k].copy()
    assert k >= 4 and (known.reshape(k, 3)[:, 2] > 0.0).any()
    impulses[: 3 * k] = 0.0
    residual, status = sim._fallback_solver.solve(sim._contacts, k)
    assert residual < 1e-8 and status in ("solved", "passive")
    np.testing.assert_allclose(impulses[: 3 * k], known, atol=1e-4 * np.abs(known).max())
