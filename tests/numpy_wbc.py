"""Reference implementation of whole-body ticks: rows of every element in NumPy, with Pinocchio's terms of a `State`.

It is independent of the compiled ticks.  The unknowns are ``x = (a_A, f / m)``: accelerations of the joints with
motors, and contact forces over the mass. The rows U of ``M a + h = S^T tau + J^T f`` without a motor (the root's and
those of passive joints) give the other accelerations, ``a_U = M_UU^-1 (J_U^T f - h_U - M_UA a_A)``, the others the
torques; hence a, f and tau are affine in x.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
from hierarchy_problems import levels_of
from numpy.typing import NDArray

import quaddyn as qd
from quaddyn.contact import Contact
from quaddyn.contact.contact_set import (
    compute_contact_drift,
    compute_contact_jacobian,
    grasp_map,
    split_contact_lever,
)
from quaddyn.hierarchy import solve
from quaddyn.wbc import (
    CollisionLimits,
    ComTask,
    ContactMotion,
    FootTask,
    ForceTask,
    FrictionPyramid,
    HeldObject,
    JointBounds,
    JointFriction,
    NormalForce,
    Task,
    TorqueLimits,
    TorqueRate,
)
from quaddyn.wbc.contact_settings import ContactFrame
from quaddyn.wbc.element import scales
from quaddyn.wbc.tick import Rows, Tick
from quaddyn.wbc.tick_problem import RowGroup, TickProblem

Array = NDArray[np.float64]

AXES = ("x", "y", "z", "rx", "ry", "rz")


class Unknowns:
    """The affine maps from x to accelerations, ``a = T x + t``, and torques, ``tau = W x + w``.

    Args:
        tick: state, contacts and settings of the tick.
        friction: (nv,) joint friction torques, None for zero.
    """

    def __init__(self, tick: Tick, friction: Array | None = None) -> None:
        s, robot = tick.state, tick.robot
        self.M, self.mass = s.M.copy(), tick.scales.mass
        self.h = s.h + (0.0 if friction is None else friction)
        self.J = np.zeros((tick.nf, robot.nv))
        for contact in tick.contacts:
            self.J[contact.columns] = contact.jacobian
        A = self.motors = robot.actuated_index
        U = self.passive = np.setdiff1d(np.arange(robot.nv), A)
        self.nu, self.n = len(A), len(A) + tick.nf
        T, t = np.zeros((robot.nv, self.n)), np.zeros(robot.nv)
        T[A, np.arange(self.nu)] = 1.0
        if len(U):
            right = np.column_stack((-self.M[np.ix_(U, A)], self.mass * self.J[:, U].T, -self.h[U]))
            solved = np.linalg.solve(self.M[np.ix_(U, U)], right)
            T[U], t[U] = solved[:, :-1], solved[:, -1]
        self.T, self.t = T, t
        self.W = self.M[A] @ T
        self.W[:, self.nu :] -= self.mass * self.J[:, A].T
        self.w = self.M[A] @ t + self.h[A]

    def recover(self, x: Array) -> tuple[Array, Array, Array]:
        """Accelerations (nv,), stacked forces (nf,) and torques (nu,) of x."""
        f = self.mass * x[self.nu :]
        a = self.T @ x + self.t
        U, load = self.passive, self.h - self.J.T @ f
        if len(U):  # one step of iterative refinement
            a[U] -= np.linalg.solve(self.M[np.ix_(U, U)], (self.M @ a + load)[U])
        return a, f, (self.M @ a + load)[self.motors]

    def group(self, owner: str, rows: Rows) -> RowGroup:
        """Rows in accelerations, forces and torques as rows in x."""
        m = rows.size
        A, offset = np.zeros((m, self.n)), np.zeros(m)
        if rows.acceleration is not None:
            A, offset = A + rows.acceleration @ self.T, offset + rows.acceleration @ self.t
        if rows.torque is not None:
            A, offset = A + rows.torque @ self.W, offset + rows.torque @ self.w
        if rows.force is not None:
            A[:, self.nu :] += self.mass * rows.force
        weights = np.ones(m) if rows.weights is None else np.array(rows.weights)
        return RowGroup(owner, rows.names, rows.unit, A, rows.lower - offset, rows.upper - offset, offset, weights)


# -- rows of elements -----------------------------------------------------------------------------------------------
def desired_contact_acceleration(motion: ContactMotion, contact: ContactFrame) -> Array:
    """(size,) desired acceleration of a contact point."""
    return np.asarray(-motion.damping * contact.velocity)


def contact_rows(motion: ContactMotion, contact: ContactFrame, weight: float) -> Rows:
    """Rows ``J a + drift = -damping v`` of a contact."""
    wanted = desired_contact_acceleration(motion, contact) - contact.drift
    names = tuple(f"{contact.name} contact {axis}" for axis in AXES[: contact.size])
    weights = np.full(contact.size, weight)
    return Rows(names, "m/s^2", wanted, wanted, acceleration=contact.jacobian, weights=weights)


def blended_rows(task: FootTask, tick: Tick, contact: ContactFrame, motion: ContactMotion) -> Rows:
    """Rows of a foot task that become those of its contact as the contact activation increases from 0 to 1."""
    s, share = tick.state, contact.activation
    J = (1.0 - share) * task.jacobian(s) + share * contact.jacobian[:3]
    drift = (1.0 - share) * task.drift(s) + share * contact.drift[:3]
    wanted = (1.0 - share) * task.desired(s) + share * desired_contact_acceleration(motion, contact)[:3] - drift
    return Rows(task.row_names, "m/s^2", wanted, wanted, acceleration=J, weights=task.weight / (1.0 - share))


def contact_of_task(task: FootTask, tick: Tick) -> ContactFrame | None:
    """The contact that replaces a foot task, by the foot's name, else the first on its frame; None if inactive."""
    robot = tick.robot
    on_it = [s.name for s in tick._active_contacts.settings if robot.frame_id(s.frame) == task.frame_id]
    chosen = task.frame if task.frame in on_it else next(iter(on_it), "")
    return next((c for c in tick.contacts if c.name == chosen), None)


def motion_task(task: Task, tick: Tick) -> list[Rows]:
    used = np.flatnonzero(task._mask)
    if not len(used):
        return []
    s = tick.state
    J, wanted = task.jacobian(s)[used], (task.desired(s) - task.drift(s))[used]
    out = []
    for unit, part in groupby(range(len(used)), key=lambda k: task.units[used[k]]):
        k = list(part)
        names = tuple(task.row_names[i] for i in used[k])
        out.append(Rows(names, unit, wanted[k], wanted[k], acceleration=J[k], weights=task.weight[used[k]]))
    return out


def foot_task(task: FootTask, tick: Tick) -> list[Rows]:
    contact = contact_of_task(task, tick)
    return [] if contact is not None and contact.is_motion_constrained else motion_task(task, tick)


def desired_force(task: ForceTask, contact: ContactFrame) -> Array:
    out = np.zeros(contact.size)
    given = task.references.get(contact.name, np.zeros(0))[: contact.size]
    out[: len(given)] = given
    return out


def force_weights(contact: ContactFrame) -> Array:
    """(size,) weights: 1 for forces, and one over the mean half size of the surface for moments."""
    half = contact.settings.contact.half_size
    return np.ones(3) if half is None else np.append(np.ones(3), np.full(3, 1.0 / half.mean()))


def force_task(task: ForceTask, tick: Tick) -> list[Rows]:
    out = []
    for contact in tick.contacts:
        if task.contacts is not None and contact.name not in task.contacts:
            continue
        wanted = desired_force(task, contact)
        if contact.settings.role != "compliant":
            names = tuple(f"{contact.name} force {axis}" for axis in AXES[: contact.size])
            block, weights = tick.force_rows(contact, np.eye(contact.size)), task.weight * force_weights(contact)
            out.append(Rows(names, "N", wanted, wanted, force=block, weights=weights))
        elif contact.name in task.references:
            n, w, stiffness = contact.settings.normal, task.bandwidth, contact.settings.contact.stiffness
            assert stiffness is not None
            value = -w * w * (n @ wanted[:3] - contact.spring_force()) / stiffness
            value -= 2.0 * w * n @ contact.velocity[:3] + n @ contact.drift[:3]
            row, bound = (n @ contact.jacobian[:3])[None, :], np.array([value])
            out.append(Rows((f"{contact.name} force",), "m/s^2", bound, bound, acceleration=row))
    return out


def contact_motion(motion: ContactMotion, tick: Tick) -> list[Rows]:
    out = []
    for contact in tick.contacts:
        if contact.is_motion_constrained and contact.activation >= 1.0:
            out.append(contact_rows(motion, contact, 1.0))
        elif contact.settings.role == "compliant":
            force = np.zeros(contact.size)
            force[:3] = contact.spring_force() * contact.settings.normal
            names, weights = (f"{contact.name} spring",) * contact.size, np.full(contact.size, 1.0 / tick.scales.mass)
            block = tick.force_rows(contact, np.eye(contact.size))
            out.append(Rows(names, "N", force, force, force=block, weights=weights))
    return out


def friction_pyramid(cone: FrictionPyramid, tick: Tick) -> list[Rows]:
    out = []
    for contact in tick.contacts:
        if contact.settings.role not in ("unilateral", "force") or not contact.settings.contact.unilateral:
            continue
        block = tick.force_rows(contact, contact.settings.cone_face_rows(cone.faces, contact.rotation))
        m = len(block)
        keeps = ("friction cone",) * m
        if contact.settings.contact.kind == "surface":
            axes = contact.settings.contact.axes_at(contact.rotation)
            about = (
                np.abs(contact.settings.cone_face_rows(cone.faces, contact.rotation) @ np.kron(np.eye(2), axes.T))
                > 1e-9
            )
            keeps = tuple(
                "torsional friction" if row[5] else "center of pressure" if row[3:].any()
                else "friction cone" if row[:2].any() else "normal force"
                for row in about
            )  # fmt: skip
        names, weights = tuple(f"{contact.name} {each}" for each in keeps), np.full(m, 1.0 / tick.scales.mass)
        out.append(Rows(names, "N", np.full(m, -np.inf), np.zeros(m), force=block, weights=weights))
    return out


def normal_force(_: NormalForce, tick: Tick) -> list[Rows]:
    out = []
    for contact in tick.contacts:
        settings = contact.settings
        if settings.role == "compliant":
            continue
        cap = min(settings.max_normal_force, contact.cap)
        if settings.contact.unilateral:
            low, block = (
                np.array([min(settings.min_normal_force * contact.activation, cap)]),
                np.zeros((1, contact.size)),
            )
            block[0, :3] = settings.contact.axes_at(contact.rotation)[2]
            names, high = (f"{contact.name} normal force",), np.array([cap])
        elif cap < np.inf:  # bilateral contacts are bounded on every axis during ramps
            block, high = np.eye(contact.size), np.full(contact.size, cap)
            high[3:] *= tick.scales.length
            names, low = (f"{contact.name} grip",) * contact.size, -high
        else:
            continue
        weights = np.full(len(high), 1.0 / tick.scales.mass)
        out.append(Rows(names, "N", low, high, force=tick.force_rows(contact, block), weights=weights))
    return out


def torque_limits(limit: TorqueLimits, tick: Tick) -> list[Rows]:
    which = np.flatnonzero(limit.limits < 1e17)  # huge limits count as none
    names, bound = tuple(f"{tick.robot.actuated[i]} torque limit" for i in which), limit.limits[which].copy()
    weights = np.full(len(bound), 1.0 / (tick.scales.mass * tick.scales.length))
    return [Rows(names, "N m", -bound, bound, torque=np.eye(tick.robot.nu)[which], weights=weights)]


def torque_rate(rate: TorqueRate, tick: Tick) -> list[Rows]:
    before = tick.tau_before
    if before is None:
        return []
    step = rate.rate * tick.dt
    names = tuple(f"{joint} torque rate" for joint in tick.robot.actuated)
    weights = np.full(len(step), 1.0 / (tick.scales.mass * tick.scales.length))
    return [Rows(names, "N m", before - step, before + step, torque=np.eye(len(step)), weights=weights)]


def max_joint_acceleration(p: JointBounds, room: Array, v: Array) -> Array:
    """Largest acceleration at a distance `room` from the upper limit; see `JointBounds`."""
    h, stop = p.horizon, -v / p.horizon
    high = np.minimum(p.acceleration, (p.velocity - v) / h)
    inside = np.isfinite(room) & (room >= 0.0)
    near = np.where(inside, room, 0.0)
    turn = np.minimum(stop, np.where(v > 0.0, -v * v / np.maximum(2.0 * near, 2e-300), -0.0 * v))
    if p.viability:
        d = np.minimum(p.deceleration, np.minimum((p.upper - p.lower) / h**2, p.velocity / h))
        rest = near - 0.5 * h * v
        # the root of (v + h a)^2 = 2 d (room - h v - h^2 a / 2) with v + h a >= 0
        b, c = h * (2.0 * v + d * h), v * v - 2.0 * d * (near - h * v)
        root = (-b + np.sqrt(np.maximum(b * b - 4.0 * h * h * c, 0.0))) / (2.0 * h * h)
        limit = np.where(rest >= 0.0, root, turn)
    else:
        end = 2.0 * (near - h * v) / (h * h)
        limit = np.where(end > stop, end, turn)
    high = np.where(inside, np.minimum(high, limit), high)
    back = np.maximum(np.where(inside, 0.0, room) / max(p.recovery, h), -p.velocity)
    high = np.where(room < 0.0, np.minimum(high, (back - v) / h), high)
    return np.asarray(np.maximum(high, -p.deceleration))


def joint_bounds(p: JointBounds, tick: Tick) -> list[Rows]:
    robot, s = tick.robot, tick.state
    q = s.q[[robot.configuration_index(joint) for joint in robot.actuated]]
    v = s.v[robot.actuated_index]
    low, high = -max_joint_acceleration(p, q - p.lower, -v), max_joint_acceleration(p, p.upper - q, v)
    brake = np.minimum(np.maximum(-v / p.horizon, high), low)
    low, high = np.where(low > high, brake, low), np.where(low > high, brake, high)
    names = tuple(f"{joint} joint bound" for joint in robot.actuated)
    rows, weights = np.eye(robot.nv)[robot.actuated_index], np.full(robot.nu, tick.scales.length)
    return [Rows(names, "rad/s^2", low, high, acceleration=rows, weights=weights)]


def fixed_point(s: qd.State, frame: str, at: Array) -> tuple[Array, Array, Array]:
    """Jacobian (6, nv), drift (6,) and position (3,) of a point that is fixed in a frame."""
    point = Contact(name="point", frame=frame, kind="surface", half_size=np.ones(2), offset=at)
    fixed, turning = split_contact_lever(s, point)
    return (
        compute_contact_jacobian(s, point, turning),
        compute_contact_drift(s, point, fixed, turning),
        s.placement(frame).translation + turning,
    )


def held_object(e: HeldObject, tick: Tick) -> list[Rows]:
    """Equations of motion of the object, and rows for the motion of every hand with it."""
    hands = [contact for contact in tick.contacts if contact.name in e.contacts]
    if not hands:
        return []
    s, share = tick.state, min(hand.activation for hand in hands)
    J, bias, o = fixed_point(s, e.frame, e.com)
    T, omega = s.placement(e.frame), s.velocity(e.frame)[3:]
    M = np.zeros((6, 6))
    M[:3, :3], M[3:, 3:] = e.mass * np.eye(3), T.rotation @ e.inertia @ T.rotation.T
    bias[:3] -= s.robot.model.gravity.linear
    load = M @ bias
    load[3:] += np.cross(omega, M[3:, 3:] @ omega)
    G = np.zeros((6, tick.nf))
    for hand in hands:
        G[:, hand.columns] = grasp_map(hand.point - o, hand.size)
    weights = np.array([1.0, 1.0, 1.0, *3 * (1.0 / tick.scales.length,)]) / tick.scales.mass
    rows = []
    for part, unit in ((slice(0, 3), "N"), (slice(3, 6), "N m")):
        names, wanted = tuple(f"{e.name} {axis}" for axis in AXES[part]), -share * load[part]
        rows.append(Rows(names, unit, wanted, wanted, share * (M @ J)[part], G[part], weights=weights[part]))
    for hand in hands:
        frames = [s.robot.model.frames[s.robot.frame_id(f)].parentJoint for f in (hand.settings.frame, e.frame)]
        if hand.activation < 1.0 or frames[0] == frames[1]:
            continue
        there, drifting, _ = fixed_point(s, e.frame, T.rotation.T @ (hand.point - T.translation))
        along, gap = hand.jacobian - there[: hand.size], hand.drift - drifting[: hand.size]
        wanted = -e.damping * (along @ s.v) - gap
        names = tuple(f"{hand.name} along {e.name} {axis}" for axis in AXES[: hand.size])
        rows.append(Rows(names, "m/s^2", wanted, wanted, along))
    return rows


BUILT_IN: tuple[tuple[type, Any], ...] = (
    (FootTask, foot_task),
    (Task, motion_task),
    (ForceTask, force_task),
    (ContactMotion, contact_motion),
    (FrictionPyramid, friction_pyramid),
    (NormalForce, normal_force),
    (TorqueLimits, torque_limits),
    (TorqueRate, torque_rate),
    (JointBounds, joint_bounds),
    (CollisionLimits, lambda limits, tick: []),  # see `numpy_tick`
    (HeldObject, held_object),
    (JointFriction, lambda friction, tick: []),  # part of the equations of motion
)


def joint_friction(wbc: qd.WholeBodyController) -> Array:
    """(nv,) friction torques of the last tick, from the velocities stored for the next one."""
    last, nv, out = wbc._last.command, wbc.robot.nv, np.zeros(wbc.robot.nv)
    for e in wbc.tasks.values():
        if isinstance(e, JointFriction):
            assert last is not None
            w = e.block[3 + 4 * nv :] - wbc.dt * last.acceleration
            x = np.clip(w / e.stiction_speed, -1.0, 1.0)
            out += e.compensation_fraction * (e.damping * w + e.coulomb * x * (3.0 - x * x) / 2.0)
    return out


def rows_of(element: Any, tick: Tick) -> list[Rows]:
    """Rows of an element; custom elements are evaluated with their own `rows`, unless they only inherit."""
    for kind, rows in BUILT_IN:
        if isinstance(element, kind):
            found: list[Rows] = rows(element, tick)
            return found
    asked: list[Rows] = element.rows(tick)
    return asked


# -- a tick ----------------------------------------------------------------------------------------------------------
@dataclass
class NumpyTick:
    """One tick with its unknowns and rows.

    Attributes:
        tick: state, contacts and settings.
        unknowns: maps from x to accelerations and torques.
        problem: levels of the hierarchy.
    """

    tick: Tick
    unknowns: Unknowns
    problem: TickProblem

    def optimum(self) -> Array:
        """x at the strict optimum."""
        return solve(levels_of(self.problem)).x


def last_tick(wbc: qd.WholeBodyController, state: qd.State, before: Array | None) -> Tick:
    """The `Tick` of a controller's last call, as passed to elements."""
    contacts, unit = wbc.contacts.values(), scales(wbc.robot)
    ramps = wbc._structure.schedule.ramps
    shares = list(zip(ramps.activation.tolist(), ramps.cap.tolist(), strict=True))
    return Tick.at(state, tuple(contacts), shares, wbc.dt, unit, before)


def numpy_tick(
    wbc: qd.WholeBodyController, state: qd.State, before: Array | None = None, friction: Array | None = None
) -> NumpyTick:
    """Builds the last tick of a controller again; controller and state must be unchanged since then.

    Args:
        wbc: the controller.
        state: state passed to the controller.
        before: (nu,) torques of the previous tick, None for the first.
        friction: (nv,) joint friction torques; `joint_friction(wbc)` by default.
    """
    tick = last_tick(wbc, state, before)
    unknowns = Unknowns(tick, joint_friction(wbc) if friction is None else friction)
    levels = [[wbc.tasks[name] for name in level] for level in wbc.levels]
    rows = [[(e.name, part) for e in level for part in rows_of(e, tick)] for level in levels]
    motion = next((e for level in levels for e in level if isinstance(e, ContactMotion)), None)
    feet = [(k, e) for k, level in enumerate(levels) for e in level if isinstance(e, FootTask)]
    for contact in tick.contacts:
        if motion is None or not contact.is_motion_constrained or contact.activation >= 1.0:
            continue
        mine = [(k, e) for k, e in feet if contact.size == 3 and contact_of_task(e, tick) is contact]
        for k, task in mine:
            rows[k].append((task.name, blended_rows(task, tick, contact, motion)))
        if not mine:
            k, progress = ramp_level(contact.activation, len(levels))
            rows[k].append((motion.name, contact_rows(motion, contact, progress / (1.0 - progress))))
    groups = [[unknowns.group(owner, part) for owner, part in level if part.size] for level in rows]
    command = wbc._last.command
    for k, level in enumerate(levels):  # `test_collision_limits` compares the rows of these with their definition
        own = {e.name for e in level if isinstance(e, CollisionLimits)}
        if own and command is not None:
            groups[k] += [group for group in command.details.problem.levels[k] if group.element in own]
    if wbc.robot.root == "free":
        groups = [[with_gravity_offset(wbc.tasks[g.element], g, tick) for g in level] for level in groups]
    return NumpyTick(tick, unknowns, TickProblem(groups, unknowns.n))


def with_gravity_offset(element: Any, group: RowGroup, tick: Tick) -> RowGroup:
    """With a floating root, rows of the center of mass have the offset of gravity."""
    if not isinstance(element, ComTask):
        return group
    return replace(group, offset=tick.robot.model.gravity.linear[np.flatnonzero(element._mask)])


def ramp_level(share: float, levels: int) -> tuple[int, float]:
    """Level of the rows of a contact with activation `share`, and their progress on this level, in (0, 1)."""
    below = max(1, levels - 1)
    passed = min(int(share * below), below - 1)
    return levels - 1 - passed, min(max(share * below - passed, 1e-6), 1.0 - 1e-6)


# -- comparing -------------------------------------------------------------------------------------------------------
Line = tuple[Array, float, float, float, float]


def rows_by_name(groups: Iterable[RowGroup]) -> Mapping[tuple[str, str, str, bool], list[Line]]:
    """Rows of a level by element, name, unit and whether they are equalities, in order."""
    out: dict[tuple[str, str, str, bool], list[Line]] = defaultdict(list)
    for g in groups:
        numbers = (g.lower.tolist(), g.upper.tolist(), g.offset.tolist(), g.weights.tolist())
        for name, row, *rest_ in zip(g.names, g.A, *numbers, strict=True):
            out[g.element, name, g.unit, rest_[0] == rest_[1]].append((row, *rest_))
    return out


def assert_same_rows(found: TickProblem, wanted: TickProblem, tolerance: float = 1e-10) -> int:
    """Asserts that two problems have the same rows, names and units; returns the number of rows."""
    assert found.n == wanted.n and len(found.levels) == len(wanted.levels)
    count = 0
    for k, (mine, theirs) in enumerate(zip(found.levels, wanted.levels, strict=True)):
        one, other = rows_by_name(mine), rows_by_name(theirs)
        assert one.keys() == other.keys(), (k, sorted(one.keys() ^ other.keys()))
        for key, rows in other.items():
            assert len(one[key]) == len(rows), (k, key)
            for (A, low, high, offset, weight), (A0, low0, high0, offset0, weight0) in zip(one[key], rows, strict=True):
                long = 1.0 + np.abs(A0).max(initial=0.0)
                np.testing.assert_allclose(A, A0, atol=tolerance * long, rtol=0.0, err_msg=f"level {k} {key}")
                size = 1.0 + abs(offset0) + max(abs(b) if np.isfinite(b) else 0.0 for b in (low0, high0))
                for what, x, y in (("lower", low, low0), ("upper", high, high0), ("offset", offset, offset0)):
                    same = x == y or abs(x - y) <= tolerance * size
                    assert same, f"level {k} {key} {what}: {x} instead of {y}"
                assert abs(weight - weight0) <= tolerance * weight0, (k, key, weight, weight0)
                count += 1
    return count
