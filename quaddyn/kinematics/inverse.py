"""`inverse_kinematics`: a configuration that places any set of frames at their targets, by damped least squares.

The module also makes tasks on a robot's velocity v for `quaddyn.hierarchy`: pairs (J, w) with ``J v = w``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike, NDArray

from ..deprecation import renamed_attributes, renamed_parameters
from ..dynamics import State
from ..dynamics.arguments import MAX_CONFIGURATION_NORM, check_unit_norms
from ..errors import ArgumentError, ArgumentTypeError
from ..hierarchy import LinearTask
from ..robot.arguments import check_integer, check_number, check_sequence, check_type, check_vector
from ..robot.robot import Robot
from ..urdf.tree import Array, Pose

#: Length of a step below which the iteration ends [rad or m].
_MIN_STEP = 1e-15


@renamed_attributes(solved="ok")
@dataclass(frozen=True, slots=True, eq=False)
class InverseSolution:
    """Result of `inverse_kinematics`.

    Attributes:
        q: (nq,) best configuration.
        converged: whether every frame is at its target, within the tolerance.
        status: "converged"; "stationary", where no small motion within the limits reduces the errors; or
            "max_iterations".
        errors: by frame, its distance from the target [m]; for a placement the norm of distance and angle [m, rad].
        iterations: number of iterations from the start that led to `q`.
        starts: number of starts that were tried.
    """

    q: Array
    converged: bool
    status: str
    errors: Mapping[str, float]
    iterations: int
    starts: int

    @property
    def ok(self) -> bool:
        """The same as `converged`."""
        return self.converged


@renamed_parameters(limits="respect_limits")
def inverse_kinematics(
    robot: Robot,
    targets: Mapping[str, ArrayLike | Pose],
    *,
    q0: Array | None = None,
    joints: Sequence[str] | None = None,
    move_root: bool = True,
    respect_limits: bool = True,
    tolerance: float = 1e-10,
    damping: float = 1e-3,
    max_iterations: int = 100,
    restarts: int = 10,
    seed: int = 0,
) -> InverseSolution:
    """Computes a configuration that places frames at their targets.

    Levenberg-Marquardt method on the configuration manifold with Nielsen's choice of the damping; joints at a limit
    that would leave it stay there.  If the first start does not converge, random starts follow.

    The error of a placement is the logarithm of ``T_frame_target`` in meters and radians: one radian has the weight of
    one meter.

    Source: K. Madsen, H. B. Nielsen, O. Tingleff, *Methods for Non-Linear Least Squares Problems*, 2004, section 3.2;
    Sugihara, *Solvability-unconcerned inverse kinematics*, IEEE T-RO 2011, for the application to robots.

    Args:
        robot: any robot.
        targets: by frame (foot, link or joint): (3,) target position of its origin [m], or its target placement as a
            `Pose` or (4, 4) matrix; world axes.
        q0: (nq,) configuration at the start; None for ``robot.q_home``.
        joints: names of the joints that may move; None for all.
        move_root: whether the root of a free or planar robot may move.
        respect_limits: whether position limits are satisfied; a start outside is clamped to them.
        tolerance: largest error of every frame [m, rad].
        damping: damping of the first step, relative to the largest diagonal entry of ``J^T J``.
        max_iterations: bound of the iterations per start.
        restarts: bound of the number of further starts; their joints are uniform within the limits (or a whole turn),
            their roots stay at q0.
        seed: seed of the random starts.

    Raises:
        ArgumentError: invalid targets or options, or a q0 of the wrong shape or not finite.
        UnknownNameError: a frame or joint that the robot does not have.
    """
    check_type("robot", robot, Robot, "a Robot from quaddyn.load")
    if q0 is None:
        q0 = robot.q_home
    q0 = check_vector("q0", q0, (robot.nq,), f"nq of {robot.name}")
    check_unit_norms(robot, q0)
    tolerance, damping = check_number("tolerance", tolerance), check_number("damping", damping)
    for name, value in (("tolerance", tolerance), ("damping", damping)):
        if not (np.isfinite(value) and value > 0.0):
            raise ArgumentError(f"{name}: expected a positive number, got {value}")
    for name, count, minimum in (("max_iterations", max_iterations, 1), ("restarts", restarts, 0), ("seed", seed, 0)):
        check_integer(name, count, least=minimum)
    problem = _InverseProblem(robot, targets, joints, move_root, respect_limits)
    rng = np.random.default_rng(seed)
    best: InverseSolution | None = None
    for start in range(restarts + 1):
        q = problem.clamp_to_limits(q0 if start == 0 else problem.draw_start(q0, rng))
        solution = problem.minimize(q, tolerance, damping, max_iterations, start + 1)
        if best is None or max(solution.errors.values()) < max(best.errors.values()):
            best = solution
        if best.converged:
            break
    assert best is not None
    return InverseSolution(best.q, best.converged, best.status, best.errors, best.iterations, start + 1)


class _InverseProblem:
    """Errors of all frames, their Jacobian, and the coordinates that may move."""

    def __init__(
        self,
        robot: Robot,
        targets: Mapping[str, ArrayLike | Pose],
        joints: Sequence[str] | None,
        move_root: bool,
        respect_limits: bool,
    ) -> None:
        if not isinstance(targets, Mapping) or not targets:
            raise ArgumentError(
                "targets: expected at least one target, in a mapping from frame name to position or placement"
            )
        self.model, self.data = robot.model, robot.model.createData()
        self.algorithms, self.nv, self.coupling = robot.algorithms, robot.nv, robot.coupling
        self.targets = [(name, robot.frame_id(name), _check_target(name, value)) for name, value in targets.items()]
        if isinstance(joints, str):
            raise ArgumentTypeError(f"joints: expected a sequence of names, got the single string {joints!r}")
        moving = np.zeros(robot.nv, dtype=np.bool_)
        all_joints = [body.joint for body in robot.bodies[1:] if body.joint is not None]
        by_name = {joint.name: joint for joint in all_joints if joint.independent}
        for name in robot.joint_names if joints is None else joints:
            v = robot.velocity_index(name)
            moving[v : v + by_name[name].nv] = True
        moving[: {"free": 6, "planar": 3, "fixed": 0}[robot.root]] = move_root
        if not moving.any():
            raise ArgumentError(
                "joints: expected at least one joint, or move_root=True on a robot with a moving root, got none"
            )
        self.moving = np.flatnonzero(moving)
        # Indices in q, and ranges, of joints with one coordinate; indices of continuous joints, which have (cos, sin).
        one_coordinate = [j for j in by_name.values() if j.nq == 1 and moving[robot.velocity_index(j.name)]]
        self.indices = np.array([robot.configuration_index(j.name) for j in one_coordinate], dtype=np.intp)
        self.continuous_indices = [
            robot.configuration_index(j.name)
            for j in by_name.values()
            if j.type == "continuous" and moving[robot.velocity_index(j.name)]
        ]
        columns = {int(v): k for k, v in enumerate(self.moving)}
        self.columns = np.array([columns[robot.velocity_index(j.name)] for j in one_coordinate], dtype=np.intp)
        self.lower, self.upper = robot.lower[self.indices], robot.upper[self.indices]
        self.respect_limits = respect_limits
        default_range = np.where([j.type == "prismatic" for j in one_coordinate], 1.0, np.pi)
        self.low = np.where(
            np.isfinite(self.lower), self.lower, np.minimum(-default_range, self.upper - 2.0 * default_range)
        )
        self.high = np.where(
            np.isfinite(self.upper), self.upper, np.maximum(default_range, self.lower + 2.0 * default_range)
        )

    def clamp_to_limits(self, q: Array) -> Array:
        """Returns the configuration with the moving joints clamped to their limits, if these are respected."""
        q = q.copy()
        if self.respect_limits:
            q[self.indices] = np.clip(q[self.indices], self.lower, self.upper)
        return q

    def draw_start(self, q0: Array, rng: np.random.Generator) -> Array:
        """Returns q0 with random values of the moving joints."""
        q = q0.copy()
        q[self.indices] = rng.uniform(self.low, self.high)
        for i in self.continuous_indices:
            angle = rng.uniform(-np.pi, np.pi)
            q[i : i + 2] = np.cos(angle), np.sin(angle)
        return q

    def errors(self, q: Array) -> Array:
        """Computes the errors (m,) of all targets, one after the other."""
        self.algorithms.framesForwardKinematics(self.model, self.data, q)
        return np.concatenate([self._error(frame, target) for _, frame, target in self.targets])

    def _error(self, frame: int, target: Array | pin.SE3) -> Array:
        """Returns the error of one frame: (3,) for a position [m], (6,) for a placement [m, rad]."""
        placement = self.data.oMf[frame]
        if isinstance(target, pin.SE3):
            return np.asarray(-pin.log6(placement.actInv(target)).vector)
        return np.asarray(placement.translation - target)

    def jacobian(self, q: Array) -> Array:
        """Computes the derivative (m, moving) of `errors`; call it after `errors` at the same q."""
        self.algorithms.computeJointJacobians(self.model, self.data, q)
        rows = []
        for _, frame, target in self.targets:
            if isinstance(target, pin.SE3):
                J = pin.getFrameJacobian(self.model, self.data, frame, pin.LOCAL).reshape(6, -1)
                rows.append(pin.Jlog6(target.actInv(self.data.oMf[frame])) @ J)
            else:
                J = pin.getFrameJacobian(self.model, self.data, frame, pin.LOCAL_WORLD_ALIGNED).reshape(6, -1)
                rows.append(J[:3])
        J = np.vstack(rows)
        return np.asarray((J if self.coupling is None else self.coupling.at(q).columns(J))[:, self.moving])

    def error_norms(self, e: Array) -> dict[str, float]:
        """Returns the norm of the error of each frame."""
        out, i = {}, 0
        for name, _, target in self.targets:
            size = 6 if isinstance(target, pin.SE3) else 3
            out[name] = float(np.linalg.norm(e[i : i + size]))
            i += size
        return out

    def apply_step(self, q: Array, dx: Array) -> Array:
        """Returns the configuration after a step (moving,) of the moving coordinates, clamped to the limits."""
        v = np.zeros(self.nv)
        v[self.moving] = dx
        return self.clamp_to_limits(self.algorithms.normalize(self.model, self.algorithms.integrate(self.model, q, v)))

    def free_coordinates(self, q: Array, gradient: Array) -> NDArray[np.bool_]:
        """Returns a mask (moving,), false at coordinates at a limit that a step along -gradient would violate."""
        out = np.ones(len(self.moving), dtype=np.bool_)
        if self.respect_limits:
            downhill, x = -gradient[self.columns], q[self.indices]
            out[self.columns] = ~(((x <= self.lower) & (downhill < 0.0)) | ((x >= self.upper) & (downhill > 0.0)))
        return out

    def minimize(self, q: Array, tolerance: float, damping: float, iterations: int, starts: int) -> InverseSolution:
        """Minimizes the errors from one start by the Levenberg-Marquardt method; `starts` is stored in the result."""
        e, mu, damping_growth, status = self.errors(q), -1.0, 2.0, "max_iterations"
        n_done = 0
        while n_done < iterations:
            if max(self.error_norms(e).values()) <= tolerance:
                status = "converged"
                break
            n_done += 1
            J = self.jacobian(q)
            gradient = J.T @ e
            free = self.free_coordinates(q, gradient)
            H = J[:, free].T @ J[:, free]
            if mu < 0.0:
                mu = damping * float(H.diagonal().max(initial=1e-12))
            if not free.any() or np.abs(gradient[free]).max() <= 1e-12 * np.linalg.norm(e) * np.linalg.norm(J):
                status = "stationary"
                break
            dx = np.zeros(len(self.moving))
            dx[free] = -np.linalg.solve(H + mu * np.eye(int(free.sum())), gradient[free])
            trial = self.apply_step(q, dx)
            new_e = self.errors(trial)
            if np.abs(trial - q).max() <= _MIN_STEP:
                status = "stationary"
                break
            predicted = float(dx @ (mu * dx - gradient))
            ratio = float(e @ e - new_e @ new_e) / predicted if predicted > 0.0 else -1.0
            if new_e @ new_e < e @ e:
                q, e = trial, new_e
                mu, damping_growth = mu * max(1.0 / 3.0, 1.0 - (2.0 * ratio - 1.0) ** 3), 2.0
            else:
                mu, damping_growth = mu * damping_growth, 2.0 * damping_growth
                self.errors(q)
        norms = self.error_norms(e)
        converged = max(norms.values()) <= tolerance
        return InverseSolution(q, converged, "converged" if converged else status, norms, n_done, starts)


def _check_target(name: str, value: ArrayLike | Pose) -> Array | pin.SE3:
    """Returns a target as a position (3,) or a placement after checking it; raises an error that names it otherwise."""
    if isinstance(value, Pose):
        value = value.homogeneous
    try:
        target = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"targets[{name!r}]: expected (3,), (4, 4) or a Pose, got {value!r:.60}") from None
    if target.shape not in ((3,), (4, 4)):
        raise ArgumentError(f"targets[{name!r}]: expected (3,) or (4, 4) numbers, got shape {target.shape}")
    if not np.isfinite(target).all():
        raise ArgumentError(f"targets[{name!r}]: every entry must be finite, got {target[~np.isfinite(target)][0]}")
    if np.abs(target).max() > MAX_CONFIGURATION_NORM:
        raise ArgumentError(
            f"targets[{name!r}]: expected entries of at most {MAX_CONFIGURATION_NORM:g}, got {np.abs(target).max():.3g}"
        )
    if target.shape == (3,):
        return target
    R = target[:3, :3]
    if np.abs(R @ R.T - np.eye(3)).max() > 1e-6 or np.linalg.det(R) < 0.0 or (target[3] != [0, 0, 0, 1]).any():
        raise ArgumentError(
            f"targets[{name!r}]: expected a placement, rotation matrix and last row (0, 0, 0, 1), got\n{target}"
        )
    return pin.SE3(R, target[:3, 3])


#: Rows of a frame's Jacobian: linear before angular.
FRAME_ROWS = {"x": 0, "y": 1, "z": 2, "rx": 3, "ry": 4, "rz": 5}


def frame_task(s: State, frame: str, velocity: ArrayLike, *, rows: Iterable[str] = ("x", "y", "z")) -> LinearTask:
    """Returns the task that a frame moves with a given velocity.

    For velocity-level control (source E), pass such pairs to `quaddyn.hierarchy.solve_prioritized` in order of
    priority.

    Args:
        s: a State at the configuration in question.
        frame: name of a foot, link or joint.
        velocity: (len(rows),) desired linear velocity of its origin [m/s] and angular velocity [rad/s], world axes.
        rows: names of the components, out of "x", "y", "z", "rx", "ry", "rz".

    Returns:
        (J, w): (m, nv) and (m,).

    Raises:
        ArgumentError: an unknown row, or a `velocity` of another size or not finite.
        UnknownNameError: no such frame.
    """
    rows = check_sequence("rows", rows, "names of rows")
    unknown = [row for row in rows if row not in FRAME_ROWS]
    if unknown or len(set(rows)) != len(rows):
        raise ArgumentError(f"rows: expected names from {', '.join(FRAME_ROWS)}, each at most once, got {rows}")
    w = _numbers("velocity", velocity)
    if w.shape != (len(rows),):
        raise ArgumentError(f"velocity: expected shape ({len(rows)},), one per row, got {w.shape}")
    return s.jacobian(frame)[[FRAME_ROWS[row] for row in rows]].copy(), w


def joint_task(s: State, rates: Mapping[str, float]) -> LinearTask:
    """Returns the task that joints move at given rates.

    Args:
        s: a State of the robot.
        rates: desired rate by joint name [rad/s or m/s].

    Returns:
        (J, w): (m, nv) and (m,).

    Raises:
        ArgumentError: no joints, or a rate that is not finite.
        UnknownNameError: no such joint, or one with more than one degree of freedom.
    """
    if not isinstance(rates, Mapping) or not rates:
        raise ArgumentError(f"rates: expected a mapping from at least one joint name to its rate, got {rates!r}")
    J = np.zeros((len(rates), s.robot.nv))
    for row, joint in enumerate(rates):
        J[row, s.robot.velocity_index(joint)] = 1.0
    return J, _numbers("rates", list(rates.values()))


def _numbers(name: str, value: ArrayLike) -> Array:
    """Returns `value` as an array of finite floats; raises an error under its name otherwise."""
    try:
        out = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{name}: expected numbers, got {type(value).__name__}") from None
    if not np.isfinite(out).all():
        raise ArgumentError(f"{name}: every entry must be finite, got {value!r}")
    return out
