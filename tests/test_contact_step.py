"""`ContactStep`: one compiled step keeps the balance of momentum, the law of contact and the energy."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quaddyn as qd
from quaddyn.contact.solvers import ContactStep, FrictionalSolver, Sphere, residual

G = 9.81


def foot_spheres(robot: qd.Robot) -> list[Sphere]:
    frames = [robot.model.frames[robot.frame_id(foot)] for foot in robot.feet]
    return [
        Sphere(frame.parentJoint, np.array(frame.placement.translation), leg.foot.radius)
        for frame, leg in zip(frames, robot.legs.values(), strict=True)
    ]


class Stepper:
    """A robot, its data and a `ContactStep` over its feet."""

    def __init__(self, robot: qd.Robot, friction: float = 0.6, dt: float = 1e-3, **options: float) -> None:
        self.robot, self.dt, self.model, self.data = robot, dt, robot.model, robot.model.createData()
        self.step = ContactStep(self.model, self.data, foot_spheres(robot), friction, dt=dt, **options)
        self.no_damping = np.zeros(robot.nv)

    def __call__(
        self, q: np.ndarray, v: np.ndarray, force: np.ndarray, damping: np.ndarray | None = None
    ) -> np.ndarray:
        pin.crba(self.model, self.data, q, pin.Convention.WORLD)
        pin.nonLinearEffects(self.model, self.data, q, v)
        return self.step.advance(v, force, self.no_damping if damping is None else damping)


def touching(robot: qd.Robot, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A state near home, the tangent planes under its feet (normals, levels), and a velocity."""
    q = pin.integrate(robot.model, robot.q_home, rng.normal(0.0, 0.2, robot.nv))
    normals = np.column_stack((rng.normal(0.0, 0.3, (len(robot.feet), 2)), np.ones(len(robot.feet))))
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    dyn = qd.Dynamics(robot)
    centres = np.array([dyn.frame_placement(q, foot).translation for foot in robot.feet])
    radii = np.array([leg.foot.radius for leg in robot.legs.values()])
    return q, normals, (normals * centres).sum(axis=1) - radii, rng.normal(0.0, 0.5, robot.nv)


@pytest.mark.parametrize(
    ("name", "root"), [("go2", "free"), ("solo8", "free"), ("anymal_c", "free"), ("solo12", "planar"), ("hyq", "fixed")]
)
def test_impulses_balance_the_momentum_and_obey_the_law_on_any_ground(name: str, root: str) -> None:
    robot, rng = qd.load(name, root=root), np.random.default_rng(4)
    stepper, dyn = Stepper(robot), qd.Dynamics(robot)
    pushed = 0
    for _ in range(20):
        q, normals, levels, v = touching(robot, rng)
        force, damping = rng.normal(0.0, robot.mass, robot.nv), rng.uniform(0.0, 1.0, robot.nv)
        stepper.step.ground(normals, levels)
        after = stepper(q, v, force, damping)
        s, step = dyn.update(q, v), stepper.step
        # J of the lowest points by the frames of Dynamics: a second way to the same number
        J = np.vstack(
            [
                s.jacobian(foot)[:3] + leg.foot.radius * pin.skew(n) @ s.jacobian(foot)[3:]
                for (foot, leg), n in zip(robot.legs.items(), normals, strict=True)
            ]
        )
        np.testing.assert_allclose(step.gaps, 0.0, atol=1e-12)
        left = s.M @ (after - v) - stepper.dt * (force - s.h - damping * after) - J.T @ step.impulses.ravel()
        np.testing.assert_allclose(left, 0.0, atol=1e-9)
        work = step.impulses.ravel() @ J @ (v + after) / 2.0
        assert step.contact_work == pytest.approx(work, abs=1e-9)
        assert step.status in ("solved", "passive", "retried") and step.residual <= 1e-8
        for impulse, n in zip(step.impulses, normals, strict=True):
            assert np.linalg.norm(impulse - n * (n @ impulse)) <= 0.6 * (n @ impulse) + 1e-9
            pushed += bool(n @ impulse > 1e-6)
    assert pushed > 5


def test_the_compiled_step_finds_what_the_solver_finds() -> None:
    robot, rng = qd.load("go2"), np.random.default_rng(5)
    stepper = Stepper(robot, passive_depth=0.0)
    for _ in range(30):
        q, normals, levels, v = touching(robot, rng)
        stepper.step.reset()
        stepper.step.ground(normals, levels)
        stepper(q, v, np.zeros(robot.nv))
        problem = stepper.step.problem()
        other = FrictionalSolver("admm").solve(problem)
        assert other.converged
        frames = stepper.step.frames
        mine = np.einsum("iab,ib->ia", frames, stepper.step.impulses)
        assert residual(mine, problem.G, problem.shifted, problem.mu) <= 1e-8
        np.testing.assert_allclose(mine, other.impulses, atol=1e-6)
        np.testing.assert_allclose(frames[:, 2], normals, atol=1e-15)


def test_what_the_compiled_core_leaves_goes_down_the_ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    robot, rng = qd.load("go2"), np.random.default_rng(6)
    q, normals, levels, v = touching(robot, rng)
    v[2] = -1.0
    good, poor = Stepper(robot), Stepper(robot)
    for stepper in (good, poor):
        stepper.step.ground(normals, levels)
    poor.step._options[poor.step._core.TOLERANCE] = 1e9  # the compiled core takes no trouble, and reports it
    expected, after = good(q, v, np.zeros(robot.nv)), poor(q, v, np.zeros(robot.nv))
    assert poor.step.status in ("retried", "passive") and poor.step.residual <= 1e-8
    np.testing.assert_allclose(after, expected, atol=1e-7)
    np.testing.assert_allclose(poor.step.impulses, good.step.impulses, atol=1e-7)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(("go2", "solo12", "anymal_c", "solo8")),
    friction=st.floats(0.0, 2.0),
    dt=st.sampled_from((5e-4, 1e-3, 2e-3)),
)
def test_dropped_robots_get_no_energy_from_the_ground(seed: int, name: str, friction: float, dt: float) -> None:
    robot, rng, height = _robot(name), np.random.default_rng(seed), 0.05
    stepper = Stepper(robot, friction, dt)
    q, v = pin.integrate(robot.model, robot.q_home, rng.normal(0.0, 0.1, robot.nv)), rng.normal(0.0, 0.3, robot.nv)
    q[2] -= stepper_gap(stepper, q) - height
    bar = 1e-9 * robot.mass * G * height
    touched, damping = 0, np.repeat((0.0, 0.5 * robot.mass), (6, robot.nu))
    for _ in range(round(0.3 / dt)):
        force = np.zeros(robot.nv)
        force[6:] = 10.0 * robot.mass * (robot.q_home[-robot.nu :] - q[-robot.nu :])
        after = stepper(q, v, force, damping)
        assert stepper.step.contact_work <= bar
        assert stepper.step.residual <= 1e-8 and np.isfinite(after).all()
        touched += stepper.step.impulses.any()
        q, v = pin.integrate(robot.model, q, dt * after), after
    assert touched and stepper.step.gaps.min() > -1e-4


_ROBOTS: dict[str, qd.Robot] = {}


def _robot(name: str) -> qd.Robot:
    if name not in _ROBOTS:
        _ROBOTS[name] = qd.load(name)
    return _ROBOTS[name]


def stepper_gap(stepper: Stepper, q: np.ndarray) -> float:
    """Height of the lowest foot above z = 0."""
    pin.forwardKinematics(stepper.model, stepper.data, q)
    return float((stepper.step.centres()[:, 2] - [leg.foot.radius for leg in stepper.robot.legs.values()]).min())


def test_feet_that_start_inside_the_ground_are_lifted_out() -> None:
    robot = qd.load("go2")
    stepper, q, v = Stepper(robot), robot.q_home.copy(), np.zeros(robot.nv)
    q[2] -= 0.005
    for _ in range(300):
        force = np.zeros(robot.nv)
        force[6:] = 200.0 * (robot.q_home[7:] - q[7:]) - 5.0 * v[6:]
        v = stepper(q, v, force)
        q = pin.integrate(robot.model, q, stepper.dt * v)
    assert stepper.step.gaps.min() > -2e-4


def block(slope: float) -> tuple[qd.Robot, np.ndarray]:
    """A block of 2 kg on three fixed spheres, and the configuration in which it rests on a slope."""
    corners = ((0.2, 0.1), (0.2, -0.1), (-0.2, 0.0))
    legs = "".join(
        f'<link name="c{i}"><collision><geometry><sphere radius="0.02"/></geometry></collision></link>'
        f'<joint name="j{i}" type="fixed"><parent link="base"/><child link="c{i}"/>'
        f'<origin xyz="{x} {y} -0.03"/></joint>'
        for i, (x, y) in enumerate(corners)
    )
    text = f"""<robot name="block"><link name="base"><inertial><mass value="2"/>
    <inertia ixx="0.01" iyy="0.02" izz="0.03" ixy="0" ixz="0" iyz="0"/></inertial></link>{legs}</robot>"""
    robot = qd.load(text, root="free")
    tilt = pin.Quaternion(pin.utils.rotate("y", slope))
    q = np.concatenate((tilt.toRotationMatrix() @ np.array([0.0, 0.0, 0.05]), tilt.coeffs()))
    return robot, q


@pytest.mark.parametrize("share", [0.99, 1.01, 1.5])
def test_a_block_on_a_slope_holds_up_to_the_edge_of_the_cone(share: float) -> None:
    slope, mu = np.arctan(0.5), 0.5 / share
    robot, q = block(slope)
    data = robot.model.createData()
    spheres = [Sphere(1, np.array([x, y, -0.03]), 0.02) for x, y in ((0.2, 0.1), (0.2, -0.1), (-0.2, 0.0))]
    step = ContactStep(robot.model, data, spheres, mu, dt=1e-3)
    normal = np.array([np.sin(slope), 0.0, np.cos(slope)])
    step.ground(normal, 0.0)
    v, way = np.zeros(6), 0.0
    for _ in range(200):
        pin.crba(robot.model, data, q, pin.Convention.WORLD)
        pin.nonLinearEffects(robot.model, data, q, v)
        v = step.advance(v, np.zeros(6), np.zeros(6))
        q = pin.integrate(robot.model, q, 1e-3 * v)
        way += 1e-3 * v[0]
    # free body on a slope: v = g (sin - mu cos) t down the slope, or rest
    speed = max(0.0, G * (np.sin(slope) - mu * np.cos(slope)) * 0.2)
    assert v[0] == pytest.approx(speed, abs=1e-9) and np.abs(v[1:]).max() < 1e-9
    assert way == pytest.approx(speed * 0.201 / 2.0, abs=1e-9)
    total = step.impulses.sum(axis=0) / 1e-3
    assert total @ normal == pytest.approx(2.0 * G * np.cos(slope), rel=1e-9)


def test_bad_options_are_refused_by_name() -> None:
    robot = qd.load("go2")
    data, spheres = robot.model.createData(), foot_spheres(robot)
    for name, options in (
        ("friction", {"friction": 20.0}),
        ("friction", {"friction": np.nan}),
        ("friction", {"friction": np.zeros(3)}),
        ("dt", {"dt": 0.0}),
        ("spheres", {"spheres": [Sphere(99, np.zeros(3), 0.0)]}),
        ("spheres", {"spheres": [Sphere(0, np.zeros(3), 0.0)]}),
        ("tolerance", {"tolerance": 2.0}),
    ):
        with pytest.raises(qd.ArgumentError, match=name):
            ContactStep(robot.model, data, **({"spheres": spheres, "friction": 0.6, "dt": 1e-3} | options))  # type: ignore[arg-type]
