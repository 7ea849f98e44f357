"""Pictures of the elements and solvers: sketches over the side view of a robot, and curves that the code computes.

Each function is named after the element it draws, and draws it into one pair of axes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Arc, Circle, Polygon

import quaddyn as qd
from quaddyn.contact import CompliantPlane, Contact
from quaddyn.contact import friction_pyramid as pyramid_rows
from quaddyn.contact.solvers import (
    CompliantSolver,
    ContactProblem,
    FrictionalSolver,
    ImpactSolver,
    RigidSolver,
)
from quaddyn.hierarchy import Level, solve, solve_equal_priority, solve_prioritized

Draw = Callable[[Axes], None]
PICTURES: dict[str, Draw] = {}

ROBOT, GHOST, GOAL, MOTION, FORCE = "#3a4a5a", "#c3ccd6", "#2a9d5c", "#d1495b", "#2f6fb7"
plt.rcParams.update(
    {
        "svg.hashsalt": "quaddyn",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "lines.linewidth": 1.8,
    }
)


def picture(draw: Draw) -> Draw:
    """Registers a function that draws one picture."""
    PICTURES[draw.__name__.replace("_", "-")] = draw
    return draw


# -- The robot from its left ------------------------------------------------------------------------------------------
@functools.cache
def robot() -> tuple[qd.Robot, qd.Dynamics]:
    """Returns the robot of the sketches."""
    go2 = qd.load("go2")
    return go2, qd.Dynamics(go2)


def posture(changes: dict[str, float] | None = None, height: float = 0.0, pitch: float = 0.0) -> np.ndarray:
    """Returns the home configuration with changed joints, trunk height and trunk pitch."""
    go2, _ = robot()
    q = go2.q_home.copy()
    q[2] += height
    q[3:7] = 0.0, np.sin(pitch / 2), 0.0, np.cos(pitch / 2)
    for joint, turn in (changes or {}).items():
        q[7 + go2.actuated.index(joint)] += turn
    return q


def at(q: np.ndarray, frame: str) -> np.ndarray:
    """Returns the position of a frame in the picture, (forward, up) [m]."""
    return robot()[1].frame_placement(q, frame).translation[[0, 2]]


def stick(ax: Axes, q: np.ndarray, color: str = ROBOT, width: float = 4.0) -> None:
    """Draws the trunk and the two left legs."""
    go2, _ = robot()
    hips = [at(q, go2.legs[leg].joints[1]) for leg in ("FL", "RL")]
    up = np.array([0.0, 0.045])
    ax.add_patch(Polygon([hips[0] + up, hips[1] + up, hips[1] - up, hips[0] - up], facecolor=color, alpha=0.85, lw=0))
    for leg in ("FL", "RL"):
        points = np.array([*(at(q, joint) for joint in go2.legs[leg].joints[1:]), at(q, leg)])
        ax.plot(*points.T, color=color, lw=width, solid_capstyle="round")
        ax.add_patch(Circle(points[-1], go2.legs[leg].foot.radius, color=color, lw=0))


def scene(ax: Axes, *ghosts: np.ndarray, now: np.ndarray | None = None) -> np.ndarray:
    """Draws the ground, the robot, and its reference in a lighter color."""
    q = posture() if now is None else now
    ax.axhline(0.0, color="#8a8f98", lw=1.2)
    for ghost in ghosts:
        stick(ax, ghost, GHOST)
    stick(ax, q)
    ax.set_aspect("equal")
    ax.set_xlim(-0.42, 0.5)
    ax.set_ylim(-0.08, 0.52)
    ax.axis("off")
    return q


def arrow(
    ax: Axes, start: np.ndarray, end: np.ndarray, color: str = MOTION, label: str = "", width: float = 2.0
) -> None:
    """Draws an arrow with a label at its head."""
    ax.annotate(
        "", end, start, arrowprops={"arrowstyle": "-|>", "color": color, "lw": width, "shrinkA": 0, "shrinkB": 0}
    )
    if label:
        ax.annotate(label, end, xytext=(5, 4), textcoords="offset points", color=color)


def dot(ax: Axes, place: np.ndarray, color: str, label: str = "", where: tuple[int, int] = (6, 6)) -> None:
    """Draws a point with a label."""
    ax.plot(*place, "o", color=color, ms=7, mec="white", mew=0.8, zorder=5)
    if label:
        ax.annotate(label, place, xytext=where, textcoords="offset points", color=color)


def triad(ax: Axes, origin: np.ndarray, angle: float, size: float = 0.12, alpha: float = 1.0) -> None:
    """Draws the x and z axes of a frame."""
    for turn, color in ((0.0, MOTION), (np.pi / 2, FORCE)):
        tip = origin + size * np.array([np.cos(angle + turn), np.sin(angle + turn)])
        ax.annotate(
            "", tip, origin, arrowprops={"arrowstyle": "-|>", "color": color, "lw": 2, "alpha": alpha, "shrinkA": 0}
        )


def com(q: np.ndarray) -> np.ndarray:
    """Returns the center of mass in the picture."""
    return robot()[1].center_of_mass(q)[[0, 2]]


# -- Tasks ------------------------------------------------------------------------------------------------------------
@picture
def task(ax: Axes) -> None:
    """Error of a task over time, for critical and for little damping."""
    t = np.linspace(0.0, 1.2, 300)
    w = 8.0
    ax.plot(t, (1 + w * t) * np.exp(-w * t), color=FORCE, label="damping = 2 sqrt(stiffness), the default")
    d = 0.2
    wd = w * np.sqrt(1 - d * d)
    ax.plot(
        t, np.exp(-d * w * t) * (np.cos(wd * t) + d * w / wd * np.sin(wd * t)), color=MOTION, label="a fifth of that"
    )
    ax.axhline(0.0, color="#8a8f98", lw=1)
    ax.set(xlabel="t [s], stiffness 64 1/s²", ylabel="error / error at t = 0")
    ax.legend(frameon=False)


@picture
def com_task(ax: Axes) -> None:
    """Error of the center of mass."""
    now = scene(ax, posture(height=0.05))
    goal = com(now) + (0.06, 0.08)
    dot(ax, com(now), MOTION, "c", (-14, -4))
    dot(ax, goal, GOAL, "c*")
    arrow(ax, com(now), goal)


@picture
def frame_position_task(ax: Axes) -> None:
    """Error of a point of the robot."""
    now = scene(ax, now=posture({"FL_thigh_joint": 0.3, "FL_calf_joint": -0.5}))
    foot = at(now, "FL")
    goal = foot + (0.14, 0.06)
    dot(ax, foot, MOTION, "p", (-12, -12))
    dot(ax, goal, GOAL, "p*")
    arrow(ax, foot, goal)


@picture
def foot_task(ax: Axes) -> None:
    """Swing trajectory of a foot, and the activation of its contact."""
    now = scene(ax, now=posture({"FL_thigh_joint": 0.1, "FL_calf_joint": -0.5}))
    start, end = at(posture(), "FL") - (0.08, 0.0), at(posture(), "FL") + (0.12, 0.0)
    s = np.linspace(0.0, 1.0, 60)
    ax.plot(start[0] + (end - start)[0] * s, start[1] + 0.09 * np.sin(np.pi * s) ** 2, "--", color=GOAL)
    dot(ax, at(now, "FL"), MOTION)
    dot(ax, end, GOAL, "contact activation s", (-20, -22))


@picture
def frame_orientation_task(ax: Axes) -> None:
    """Rotation between two orientations of the trunk."""
    scene(ax, posture(height=0.03), now=posture(height=0.03, pitch=0.22))
    origin = at(posture(height=0.03), "base")
    triad(ax, origin, 0.0, 0.3, 0.35)
    triad(ax, origin, -0.22, 0.3)
    ax.add_patch(Arc(origin, 0.5, 0.5, theta1=-12.6, theta2=0.0, color=GOAL, lw=2))
    ax.annotate("log(R* Rᵀ)", origin + (0.26, -0.05), color=GOAL, xytext=(8, -2), textcoords="offset points")


@picture
def frame_task(ax: Axes) -> None:
    """A frame and its reference."""
    now, goal = posture({"FL_thigh_joint": -0.4, "FL_calf_joint": 0.2}), posture(height=0.06, pitch=-0.15)
    scene(ax, goal, now=now)
    triad(ax, at(now, "base"), 0.0)
    triad(ax, at(goal, "base") + (0.08, 0.06), 0.15)
    arrow(ax, at(now, "base"), at(goal, "base") + (0.08, 0.06), GOAL, width=1.2)


@picture
def frame_axis_task(ax: Axes) -> None:
    """An axis and its reference direction."""
    now = scene(ax)
    origin, n, d = at(now, "base"), np.array([0.32, 0.0]), 0.32 * np.array([np.cos(0.35), np.sin(0.35)])
    arrow(ax, origin, origin + n, MOTION, "n")
    arrow(ax, origin, origin + d, GOAL, "d")
    ax.add_patch(Arc(origin, 0.44, 0.44, theta1=0.0, theta2=20.0, color=FORCE, lw=2))
    ax.annotate("n × d", origin + (0.22, 0.035), xytext=(6, 0), textcoords="offset points", color=FORCE)


@picture
def relative_frame_task(ax: Axes) -> None:
    """A foot seen from the trunk."""
    now = scene(ax, now=posture({"FL_thigh_joint": -0.3, "FL_calf_joint": -0.5}))
    triad(ax, at(now, "base"), 0.0)
    arrow(ax, at(now, "base"), at(now, "FL"), GOAL, "r")
    triad(ax, at(now, "FL"), -0.5, 0.09)


@picture
def posture_task(ax: Axes) -> None:
    """A posture and home."""
    scene(ax, posture(), now=posture({"FL_thigh_joint": 0.5, "FL_calf_joint": -0.6, "RL_thigh_joint": 0.2}))
    ax.annotate("q*", at(posture(), "FL_calf"), color="#8a94a0", xytext=(-22, -2), textcoords="offset points")


@picture
def joint_acceleration_task(ax: Axes) -> None:
    """Accelerations of single joints."""
    now = scene(ax, now=posture({"FL_thigh_joint": 0.1, "FL_calf_joint": -0.5}))
    for joint, color in (("FL_thigh", GOAL), ("FL_calf", MOTION), ("RL_thigh", GOAL), ("RL_calf", MOTION)):
        place = at(now, joint)
        ax.add_patch(Arc(place, 0.13, 0.13, theta1=190, theta2=320, color=color, lw=2.2))
        tip = place + 0.065 * np.array([np.cos(np.radians(320)), np.sin(np.radians(320))])
        arrow(ax, tip - (0.012, 0.014), tip + (0.004, 0.006), color)


@picture
def momentum_task(ax: Axes) -> None:
    """Momentum about the center of mass."""
    now = scene(ax, now=posture(height=0.04, pitch=0.1))
    dot(ax, com(now), FORCE)
    arrow(ax, com(now), com(now) + (0.2, 0.0), FORCE, "linear")
    ax.add_patch(Arc(com(now), 0.26, 0.26, theta1=30, theta2=280, color=MOTION, lw=2.2))
    tip = com(now) + 0.13 * np.array([np.cos(np.radians(280)), np.sin(np.radians(280))])
    arrow(ax, tip - (0.012, 0.002), tip + (0.012, 0.004), MOTION)
    ax.annotate("angular", com(now) + (-0.12, 0.13), color=MOTION)


@picture
def force_task(ax: Axes) -> None:
    """Contact forces and their references."""
    now = scene(ax)
    for foot, force, wanted in (("FL", 0.22, 0.16), ("RL", 0.13, 0.16)):
        place = at(now, foot) * (1, 0)
        ax.plot([place[0] + 0.02] * 2, [0.0, wanted], "--", color=GOAL, lw=2)
        arrow(ax, place, place + (0.0, force), FORCE, "f" if foot == "FL" else "")
    ax.annotate("f*", at(now, "FL") * (1, 0) + (0.03, 0.13), color=GOAL)


# -- Constraints ------------------------------------------------------------------------------------------------------
@picture
def constraint(ax: Axes) -> None:
    """The set of solutions of a level, and its restriction by a constraint."""
    half_plane(ax, "l ≤ C u ≤ u", two=True)


def half_plane(ax: Axes, label: str, *, two: bool = False) -> None:
    """The part of a plane on one side of a line, or between two."""
    n = np.array([0.6, 0.8])
    t = np.array([0.8, -0.6])
    for offset in (0.5, -0.5) if two else (0.5,):
        ax.plot(*np.array([offset * n - 2 * t, offset * n + 2 * t]).T, color=ROBOT)
    low = -0.5 if two else -3.0
    ax.add_patch(
        Polygon([0.5 * n - 2 * t, 0.5 * n + 2 * t, low * n + 2 * t, low * n - 2 * t], color=GOAL, alpha=0.2, lw=0)
    )
    ax.annotate(label, (-0.35, -0.1), color=GOAL)
    ax.set(
        xlim=(-1, 1),
        ylim=(-0.8, 0.8),
        aspect="equal",
        xlabel="first unknown",
        ylabel="second unknown",
        xticks=[],
        yticks=[],
    )


@picture
def custom_task(ax: Axes) -> None:
    """Two feet whose reference is the same height."""
    now = scene(ax, now=posture({"FL_thigh_joint": 0.1, "FL_calf_joint": -0.5}))
    front, hind = at(now, "FL"), at(now, "RL")
    ax.plot([hind[0], front[0] + 0.1], [hind[1]] * 2, "--", color=GOAL)
    arrow(ax, front, np.array([front[0], hind[1]]), MOTION, "e(q)")


@picture
def custom_constraint(ax: Axes) -> None:
    """A value that approaches its bound at most as fast as a critically damped spring."""
    t, k = np.linspace(0.0, 1.5, 300), 64.0
    w = np.sqrt(k)
    for speed, color in ((0.0, FORCE), (-0.4, GOAL)):
        ax.plot(t, (0.1 + (speed + w * 0.1) * t) * np.exp(-w * t), color=color, label=f"from {speed:g} m/s")
    ax.axhspan(-0.02, 0.0, color=MOTION, alpha=0.2, lw=0)
    ax.set(xlabel="t [s], stiffness 64 1/s²", ylabel="value [m]", ylim=(-0.02, 0.11))
    ax.legend(frameon=False)


@picture
def linear_constraint(ax: Axes) -> None:
    """A half-space."""
    half_plane(ax, "A u ≤ upper")


@picture
def contact_motion(ax: Axes) -> None:
    """A foot that neither slips nor lifts."""
    foot_closeup(ax)
    for end in ((0.055, 0.0), (-0.055, 0.0), (0.0, 0.05)):
        arrow(ax, np.zeros(2), np.array(end), MOTION)
        ax.plot(*(0.65 * np.array(end)), "x", color=ROBOT, ms=9, mew=2)
    ax.annotate("J a + drift = −d J v", (-0.085, -0.02), color=ROBOT)


def foot_closeup(ax: Axes) -> None:
    """One foot on the ground."""
    ax.axhline(0.0, color="#8a8f98", lw=1.4)
    ax.add_patch(Circle((0.0, 0.022), 0.022, color=GHOST, lw=0))
    ax.plot([0.0, 0.04], [0.022, 0.11], color=GHOST, lw=16, solid_capstyle="round")
    ax.set(xlim=(-0.1, 0.1), ylim=(-0.035, 0.11), aspect="equal")
    ax.axis("off")


@picture
def friction_pyramid(ax: Axes) -> None:
    """Sections of the cone and of the pyramids inside it, at a normal force of 1 N."""
    mu, angle = 0.6, np.linspace(0.0, 2 * np.pi, 721)
    ax.plot(mu * np.cos(angle), mu * np.sin(angle), color=ROBOT, label="Coulomb's cone")
    around = np.stack([np.cos(angle), np.sin(angle)])
    for faces, color in ((4, MOTION), (8, FORCE)):
        rows = pyramid_rows(Contact(name="foot", frame="foot", friction=mu), faces=faces)[:, :3]
        radius = (-rows[:, 2:] / np.maximum(rows[:, :2] @ around, 1e-12)).min(axis=0)
        ax.plot(*(radius * around), color=color, label=f"{faces} faces")
    ax.set(aspect="equal", xlabel="tangential force x [N]", ylabel="y [N]", xlim=(-0.7, 1.45))
    ax.legend(frameon=False, loc="center right")


@picture
def normal_force(ax: Axes) -> None:
    """The largest normal force while a contact is made."""
    s = np.linspace(0.0, 0.93, 200)
    ax.fill_between(s, s * 0.1, np.minimum(s / (1 - s), 3.0), color=GOAL, alpha=0.2, lw=0)
    ax.plot(s, s / (1 - s), color=FORCE, label="bound, F s / (1 − s)")
    ax.plot(s, s * 0.1, color=MOTION, label="minimum force, s f_min")
    ax.axhline(3.0, color=ROBOT, label="maximum force")
    ax.set(xlabel="activation s of the contact", ylabel="normal force / F", ylim=(0, 3.4), xlim=(0, 1))
    ax.legend(frameon=False)


def wish(t: np.ndarray) -> np.ndarray:
    """Returns a torque that lower levels request."""
    return 30 * np.sin(7 * t) + 12 * np.sign(np.sin(23 * t))


@picture
def torque_limits(ax: Axes) -> None:
    """A torque within its limits."""
    t = np.linspace(0.0, 1.0, 800)
    ax.plot(t, wish(t), color=GHOST, label="without the limits")
    ax.plot(t, np.clip(wish(t), -23.7, 23.7), color=FORCE, label="torque")
    for limit in (-23.7, 23.7):
        ax.axhline(limit, color=MOTION, ls="--", lw=1)
    ax.set(xlabel="t [s]", ylabel="torque [N m]")
    ax.legend(frameon=False, loc="lower left")


@picture
def torque_rate(ax: Axes) -> None:
    """A torque that may not change faster."""
    t = np.linspace(0.0, 1.0, 800)
    torque = [wish(t)[0]]
    for value in wish(t)[1:]:
        torque.append(torque[-1] + float(np.clip(value - torque[-1], -300 * t[1], 300 * t[1])))
    ax.plot(t, wish(t), color=GHOST, label="without the limit")
    ax.plot(t, torque, color=FORCE, label="at most 300 N m/s")
    ax.set(xlabel="t [s]", ylabel="torque [N m]")
    ax.legend(frameon=False, loc="lower left")


@picture
def motor_limits(ax: Axes) -> None:
    """Torque limits of a motor over its speed."""
    speed = np.linspace(-12.0, 12.0, 400)
    ahead, back = (np.clip((10.0 - w) / 5.0, 0.0, 1.0) for w in (speed, -speed))
    ax.fill_between(speed, -20.0 * back, 20.0 * ahead, color=GOAL, alpha=0.2, lw=0)
    ax.plot(speed, 20.0 * ahead, color=FORCE)
    ax.plot(speed, -20.0 * back, color=FORCE)
    ax.annotate("drives", (4.0, 14.0), color=MOTION)
    ax.annotate("brakes", (4.0, -14.0), color=MOTION)
    ax.set(xlabel="speed of the motor [rad/s]", ylabel="torque of the motor [N m]")


@picture
def robust_limits(ax: Axes) -> None:
    """A contact force that lies in the friction cone for every payload."""
    mu, normal = 0.6, np.linspace(0.0, 100.0, 2)
    ax.fill_betweenx(normal, -mu * normal, mu * normal, color=GHOST, alpha=0.3, lw=0, label="friction cone")
    ax.fill_betweenx(
        normal, -0.8 * mu * normal, 0.8 * mu * normal, color=GOAL, alpha=0.2, lw=0, label="at the lowest friction"
    )
    changes = np.array([[0.0, 0.0], [6.0, 14.0], [9.0, 30.0], [3.0, 34.0], [-2.0, 20.0]])
    force = np.array([14.0, 52.0])
    around = force + changes[[0, 1, 2, 3, 4, 0]]
    ax.fill(*around.T, color=FORCE, alpha=0.25, lw=0)
    ax.plot(*(force + changes[1:]).T, "o", color=FORCE, ms=5, label="f + P w, a vertex each")
    ax.plot(*force, "o", color=MOTION, label="f")
    ax.set(xlabel="tangential force [N]", ylabel="normal force [N]", xlim=(-60, 60), ylim=(0, 100))
    ax.legend(frameon=False, loc="lower left")


@picture
def held_object(ax: Axes) -> None:
    """An object between two palms, with contact forces that carry its weight and internal forces."""
    ax.add_patch(Polygon([(-0.1, -0.06), (0.1, -0.06), (0.1, 0.06), (-0.1, 0.06)], color=GHOST, lw=0))
    for side in (-1.0, 1.0):
        palm = [(side * x, y) for x, y in ((0.1, -0.045), (0.118, -0.045), (0.118, 0.045), (0.1, 0.045))]
        ax.add_patch(Polygon(palm, color=ROBOT, lw=0))
        ax.plot([side * 0.118, side * 0.2], [0.0, 0.03], color=ROBOT, lw=8, solid_capstyle="round")
        arrow(ax, np.array([side * 0.1, 0.0]), np.array([side * 0.03, 0.0]), GOAL, "squeeze" if side > 0.0 else "")
        arrow(
            ax, np.array([side * 0.1, 0.0]), np.array([side * 0.03, 0.05]), FORCE, "on the object" if side > 0.0 else ""
        )
    arrow(ax, np.zeros(2), np.array([0.0, -0.1]), MOTION, "m g")
    ax.set(xlim=(-0.24, 0.24), ylim=(-0.13, 0.1), aspect="equal")
    ax.axis("off")


@picture
def joint_bounds(ax: Axes) -> None:
    """States from which a joint can stop in time."""
    low, high, v_max, a_max = -1.0, 1.0, 6.0, 40.0
    q = np.linspace(low, high, 400)
    top = np.minimum(np.sqrt(2 * a_max * (high - q)), v_max)
    bottom = -np.minimum(np.sqrt(2 * a_max * (q - low)), v_max)
    ax.fill_between(q, bottom, top, color=GOAL, alpha=0.2, lw=0)
    ax.plot(q, top, color=MOTION)
    ax.plot(q, bottom, color=MOTION)
    for limit in (low, high):
        ax.axvline(limit, color=ROBOT, lw=1)
    ax.annotate("(v + h a)² ≤ 2 a_max (q_max − q(h))", (0.15, 6.25), color=MOTION, ha="center")
    ax.annotate("viable", (-0.1, -0.3), color=GOAL)
    ax.set(xlabel="joint position [rad]", ylabel="velocity [rad/s]", ylim=(-6.8, 7.4))


@picture
def joint_friction(ax: Axes) -> None:
    """Torque over the desired velocity, and the friction that it compensates."""
    w, step = np.linspace(-0.4, 0.4, 401), 0.1
    x = np.clip(w / step, -1.0, 1.0)
    ax.plot(w, np.sign(w) + w, color=ROBOT, lw=1)
    ax.plot(w, 0.5 * x * (3.0 - x * x) + w, color=MOTION)
    ax.axvspan(-step, step, color=GOAL, alpha=0.2, lw=0)
    ax.annotate("d w + c φ(w / w_s)", (0.12, 0.7), color=MOTION)
    ax.annotate("|w| < w_s", (-0.09, -1.45), color=GOAL)
    ax.set(xlabel="desired joint velocity w [rad/s]", ylabel="torque [N m]", ylim=(-1.6, 1.6))


@picture
def collision_limits(ax: Axes) -> None:
    """States from which a pair keeps its distance, and trajectories along the barrier."""
    p, most, h = 50.0, 100.0, np.linspace(0.0, 0.12, 200)
    soft = most / p**2

    def fastest(x: float) -> float:
        return p * x if x <= soft else float(np.sqrt(2.0 * most * (x - 0.5 * soft)))

    edge = np.array([-fastest(x) for x in h])
    ax.fill_between(1e3 * h, edge, 3.0, color=GOAL, alpha=0.2, lw=0)
    ax.plot(1e3 * h, edge, color=MOTION)
    for room, speed in ((0.1, -1.0), (0.1, -4.2), (0.03, 1.5)):
        x, v, way = room, speed, [(room, speed)]
        for _ in range(3000):
            slope = p if x <= soft else most / fastest(x)
            a = -slope * v - p * (v + fastest(x))
            x, v = x + 1e-4 * v, v + 1e-4 * a
            way.append((x, v))
        ax.plot(*(np.array(way) * [1e3, 1.0]).T, color=ROBOT, lw=1)
    ax.annotate("ḣ + k(h) ≥ 0", (60, -1.2), color=GOAL)
    ax.set(xlabel="margin h [mm]", ylabel="rate of h [m/s]", xlim=(-2, 120), ylim=(-5.2, 3.0))


# -- Solvers: curves that they computed -------------------------------------------------------------------------------
G = np.eye(3) / 2.0  # one contact that carries 2 kg
DT = 1e-3


def one_contact(
    solver: FrictionalSolver | RigidSolver | CompliantSolver, g: tuple[float, ...], offset: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Impulse over dt [N] and velocity after it [m/s]."""
    found = solver.solve(ContactProblem(G, np.array(g), 0.6, offset=np.array([offset])))
    return found.impulses[0] / DT, found.velocities[0]


@picture
def frictional_solver(ax: Axes) -> None:
    """Stick and slip of a 2 kg contact under its weight, over the tangential push."""
    push = np.linspace(0.0, 25.0, 120)
    answers = [one_contact(FrictionalSolver(), (f * DT / 2.0, 0.0, -9.81 * DT)) for f in push]
    ax.plot(push, [-f[0] for f, _ in answers], color=FORCE, label="friction [N]")
    ax.plot(push, [1e3 * v[0] for _, v in answers], color=MOTION, label="speed after 1 ms [mm/s]")
    ax.axvline(0.6 * 2 * 9.81, color=ROBOT, ls="--", lw=1)
    ax.annotate("μ m g", (0.6 * 2 * 9.81, 13.5), xytext=(5, 0), textcoords="offset points")
    ax.set(xlabel="push [N]")
    ax.legend(frameon=False)


@picture
def rigid_solver(ax: Axes) -> None:
    """A rigid contact pulls, a frictional one does not."""
    lift = np.linspace(-40.0, 40.0, 81)
    for solver, color, label in (
        (RigidSolver(), FORCE, "rigid contact"),
        (FrictionalSolver(), MOTION, "frictional contact"),
    ):
        ax.plot(
            lift, [one_contact(solver, (0.0, 0.0, (f / 2 - 9.81) * DT))[0][2] for f in lift], color=color, label=label
        )
    ax.set(xlabel="force that lifts 2 kg [N]", ylabel="normal force [N]")
    ax.legend(frameon=False)


@picture
def compliant_solver(ax: Axes) -> None:
    """Normal force of a step over the depth, for several speeds."""
    depth = np.linspace(-1e-3, 3e-3, 120)
    solver = CompliantSolver(1e4, 20.0, dt=DT)
    for speed, color in ((-0.2, FORCE), (0.0, ROBOT), (0.2, MOTION)):
        force = [one_contact(solver, (0.0, 0.0, speed), -d / DT)[0][2] for d in depth]
        ax.plot(1e3 * depth, force, color=color, label=f"normal speed {speed:+.1f} m/s")
    ax.set(xlabel="depth [mm]", ylabel="normal force [N]")
    ax.legend(frameon=False)


@picture
def impact_solver(ax: Axes) -> None:
    """A ball that falls from one meter."""
    dt = 2e-3
    for e, color in ((0.8, FORCE), (0.5, GOAL), (0.0, MOTION)):
        solver, z, v, heights = ImpactSolver(e), 1.0, 0.0, []
        for _ in range(900):
            v -= 9.81 * dt
            if z + dt * v < 0.0:
                hit = solver.collide(
                    ContactProblem(G, np.array([0.0, 0.0, v]), 0.6, previous_velocity=np.array([0.0, 0.0, v]))
                )
                v = float(hit.solution.velocities[0, 2])
            z = max(z + dt * v, 0.0)
            heights.append(z)
        ax.plot(dt * np.arange(900), heights, color=color, label=f"e = {e:g}")
    ax.set(xlabel="t [s]", ylabel="height [m]")
    ax.legend(frameon=False)


@picture
def compliant_plane(ax: Axes) -> None:
    """Normal and friction force of a point behind the surface."""
    floor = CompliantPlane.floor(stiffness=1e4, damping=50.0, friction=0.6)
    speed = np.linspace(-0.05, 0.05, 201)
    for depth, color in ((1e-3, MOTION), (2e-3, FORCE)):
        forces = [floor.forces(np.array([0.0, 0.0, -depth]), np.array([v, 0.0, 0.0])) for v in speed]
        ax.plot(1e3 * speed, [f[0] for f in forces], color=color, label=f"{1e3 * depth:g} mm deep")
    ax.set(xlabel="tangential speed [mm/s]", ylabel="friction [N]")
    ax.legend(frameon=False)


def plane_of(ax: Axes, levels: list[Level], points: dict[str, tuple[np.ndarray, str]]) -> None:
    """Two unknowns, a half-plane constraint, a target, and solutions."""
    half_plane(ax, "")
    for label, (x, color) in points.items():
        dot(ax, x, color, label)


@picture
def level(ax: Axes) -> None:
    """A level with an equality and an inequality."""
    half_plane(ax, "lower ≤ C x ≤ upper")
    ax.plot([-1, 1], [-0.55, 0.25], color=FORCE)
    ax.annotate("A x = b", (-0.9, -0.42), color=FORCE)


@picture
def solve_(ax: Axes) -> None:
    """The second level as well as the first allows."""
    first = Level(C=np.array([[0.6, 0.8]]), upper=np.array([0.5]))
    wish_at = np.array([0.7, 0.6])
    found = solve([first, Level(A=np.eye(2), b=wish_at)]).x
    half_plane(ax, "level 1")
    dot(ax, wish_at, MOTION, "target of level 2")
    dot(ax, found, FORCE, "x", (-12, -12))
    arrow(ax, wish_at, found, "#8a8f98", width=1.2)


PICTURES["solve"] = PICTURES.pop("solve-")
PICTURES["hierarchy-solver"] = PICTURES["solve"]


def planar_arm(ax: Axes, rates: np.ndarray, color: str, label: str) -> None:
    """Draws the 3R arm and the velocity of its hand at these joint rates."""
    angles = np.cumsum(np.radians([30.0, 60.0, 60.0]))
    points = np.vstack([np.zeros(2), np.cumsum(np.stack([np.sin(angles), np.cos(angles)], axis=1), axis=0)])
    ax.plot(*points.T, "o-", color=ROBOT, lw=4, ms=6)
    J = np.array([[0, -np.sqrt(3), -np.sqrt(3)], [-4, -3, -1]]) / 2
    arrow(ax, points[-1], points[-1] + 0.6 * J @ rates, color, label)
    ax.set(aspect="equal", xlim=(-0.3, 2.8), ylim=(-0.2, 1.9), xlabel="x [m]", ylabel="z [m]")


def arm_tasks() -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns the tasks: hand velocity (1, 1), and zero velocity of the first two joints."""
    J = np.array([[0, -np.sqrt(3), -np.sqrt(3)], [-4, -3, -1]]) / 2
    return [(J, np.ones(2)), (np.eye(3)[:2], np.zeros(2))]


@picture
def prioritized_(ax: Axes) -> None:
    """The first task holds exactly."""
    planar_arm(ax, solve_prioritized(arm_tasks()).x, GOAL, "hand, as desired")


@picture
def equal_priority_(ax: Axes) -> None:
    """Both tasks have a residual."""
    planar_arm(ax, solve_prioritized(arm_tasks()).x, GHOST, "")
    planar_arm(ax, solve_equal_priority(arm_tasks()).x, MOTION, "hand, 0.08 m/s off")


PICTURES["prioritized"] = PICTURES.pop("prioritized-")
PICTURES["equal-priority"] = PICTURES.pop("equal-priority-")


# -- Kinds of contact -------------------------------------------------------------------------------------------------
@picture
def contact_point(ax: Axes) -> None:
    """A dry point contact: its force in a cone."""
    foot_closeup(ax)
    ax.add_patch(Polygon([(0, 0), (-0.054, 0.09), (0.054, 0.09)], color=GOAL, alpha=0.25, lw=0))
    arrow(ax, np.zeros(2), np.array([0.02, 0.075]), FORCE, "f")


@picture
def contact_surface(ax: Axes) -> None:
    """A sole, whose center of pressure may be anywhere inside."""
    ax.axhline(0.0, color="#8a8f98", lw=1.4)
    ax.add_patch(Polygon([(-0.07, 0), (0.07, 0), (0.07, 0.015), (-0.07, 0.015)], color=GHOST, lw=0))
    ax.plot([0.0, 0.02], [0.015, 0.11], color=GHOST, lw=16)
    for x, f in zip(np.linspace(-0.06, 0.06, 7), (0.02, 0.026, 0.032, 0.04, 0.047, 0.053, 0.06), strict=True):
        arrow(ax, np.array([x, 0.0]), np.array([x, f]), FORCE, width=1.2)
    dot(ax, np.array([0.016, 0.0]), MOTION, "center of pressure", (4, -16))
    ax.set(xlim=(-0.1, 0.1), ylim=(-0.035, 0.11), aspect="equal")
    ax.axis("off")


@picture
def contact_bilateral(ax: Axes) -> None:
    """A bilateral contact, which also pulls."""
    foot_closeup(ax)
    for end in ((0.05, 0.04), (0.0, -0.034), (-0.05, 0.03)):
        arrow(ax, np.zeros(2), np.array(end), FORCE)


@picture
def contact_compliant(ax: Axes) -> None:
    """A spring and a damper under the foot."""
    foot_closeup(ax)
    z = np.linspace(-0.033, 0.0, 60)
    ax.plot(0.006 * np.sign(np.sin(z * 1200)) - 0.01, z, color=MOTION, lw=1.5)
    ax.plot([0.012, 0.012], [-0.033, 0.0], color=ROBOT, lw=3)
    ax.annotate("f_n = max(0, k d − c v_n)", (0.025, -0.022), color=MOTION)


@picture
def contact_force(ax: Axes) -> None:
    """A hand that pushes and may move."""
    foot_closeup(ax)
    arrow(ax, np.zeros(2), np.array([0.0, 0.07]), FORCE, "f, chosen")
    arrow(ax, np.zeros(2), np.array([0.06, 0.0]), GOAL, "free to move")


def draw_all(folder: Path) -> None:
    """Writes all pictures that are missing or older than this file."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Path(__file__).stat().st_mtime
    for name, draw in PICTURES.items():
        path = folder / f"{name}.svg"
        if path.exists() and path.stat().st_mtime > made:
            continue
        figure, ax = plt.subplots(figsize=(6.0, 3.4), layout="constrained")
        draw(ax)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    draw_all(Path(__file__).resolve().parent.parent / "pictures")
