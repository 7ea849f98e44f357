"""Elements and contacts of every kind, on robots of every kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

import quaddyn as qd
from quaddyn.contact import Contact
from quaddyn.kinematics import CapsuleModel, Obstacle
from quaddyn.urdf.tree import MeshShape
from quaddyn.wbc import (
    CollisionLimits,
    ComTask,
    Constraint,
    ContactMotion,
    FootTask,
    ForceTask,
    FrameAxisTask,
    FrameOrientationTask,
    FramePositionTask,
    FrameTask,
    FrictionPyramid,
    HeldObject,
    JointAccelerationTask,
    JointBounds,
    LinearConstraint,
    MomentumTask,
    MotorLimits,
    NormalForce,
    PayloadSet,
    PostureTask,
    RelativeFrameTask,
    RobustLimits,
    TorqueLimits,
    TorqueRate,
    constraints,
    default_constraints,
    tasks,
)
from quaddyn.wbc.element import Element
from quaddyn.wbc.tick import Rows, Tick

#: Robots of every kind: legs of two and three joints, two feet, arms, free, planar and fixed roots, continuous
#: joints, passive joints.
ROBOTS: dict[str, Callable[[], qd.Robot]] = {
    name: cache(make)
    for name, make in {
        "go2": lambda: qd.load("go2"),
        "solo12": lambda: qd.load("solo12"),
        "anymal_c": lambda: qd.load("anymal_c"),
        "solo8": lambda: qd.load("solo8"),
        "bolt": lambda: qd.load("bolt"),
        "b1_z1": lambda: qd.load("b1_z1"),
        "planar hyq": lambda: qd.load("hyq", root="planar"),
        "four_link_leg": lambda: qd.load("four_link_leg"),
        "ur5": lambda: qd.load("ur5"),
        "double_pendulum_continuous": lambda: qd.load("double_pendulum_continuous"),
        "passive go2": lambda: qd.load("go2", actuated=[n for n in qd.load("go2").actuated if n != "FL_calf_joint"]),
    }.items()
}

#: Options of contacts.
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"unilateral": False},
    {"force_only": True, "friction": 0.4},
    {"stiffness": 1e4, "damping": 10.0},
)


def ends(robot: qd.Robot) -> tuple[str, ...]:
    """Frames that can be in contact: the feet, or the last link."""
    return robot.feet or (robot.bodies[-1].name,)


def controller_of_every_kind(robot: qd.Robot) -> qd.WholeBodyController:
    """A controller of a quadruped with all kinds of tasks, constraints and contacts, and a short ramp."""
    foot = robot.feet[0]
    levels: list[list[Element]] = [
        [ComTask(robot), FrameOrientationTask(robot, robot.bodies[0].name, "base"), FootTask(robot, foot)],
        [FrameTask(robot, robot.feet[1], "a frame"), MomentumTask(robot)],
        [
            FrameAxisTask(robot, robot.bodies[0].name, "an axis", weight=0.1),
            FramePositionTask(robot, robot.bodies[-1].name, "a point"),
        ],
        [RelativeFrameTask(robot, robot.feet[2], robot.bodies[0].name), ForceTask(robot, contacts=robot.feet[:2])],
        [PostureTask(robot), JointAccelerationTask(robot, weight=0.1), ForceTask(robot, "rest")],
    ]
    contacts = [
        Contact(name="belly", frame=robot.bodies[0].name, kind="surface", half_size=(0.1, 0.05)),
        Contact(name=robot.feet[2], frame=robot.feet[2], kind="point", radius=0.02, stiffness=2e4, damping=50.0),
        Contact(name=robot.feet[3], frame=robot.feet[3], kind="point", unilateral=False),
        Contact(name="hand", frame=robot.bodies[-2].name, force_only=True, unilateral=False, offset=(0.0, 0.02, 0.0)),
        Contact(name="palm", frame=robot.bodies[-1].name, kind="surface", half_size=(0.05, 0.04), force_only=True),
    ]
    knees = [
        body.name for body in robot.bodies[1:] if body.joint.name in {leg.joints[-1] for leg in robot.legs.values()}
    ]
    capsules = CapsuleModel(robot, links=knees, reach=np.inf)
    things = CollisionLimits(capsules, obstacles={"ball": Obstacle.sphere(0.1), "wall": Obstacle.plane([0, 1, 0])},
                             obstacle_positions={"ball": [0.2, 0.0, 0.1], "wall": [0.0, -0.5, 0.0]})  # fmt: skip
    load = HeldObject(
        robot, ("hand", "palm"), robot.bodies[-1].name, 0.5, com=(0.1, 0.0, 0.0), inertia=1e-3 * np.eye(3)
    )
    constraints = [*default_constraints(robot, 1e-3), TorqueRate(robot, 500.0), things, load]
    return qd.WholeBodyController(robot, tasks=levels, constraints=constraints, contacts=contacts, ramp_time=0.02)


def any_contacts(robot: qd.Robot, rng: np.random.Generator) -> list[Contact]:
    """Contacts at each end and a surface at the last body, of random kinds, on tilted ground."""
    out = []
    for frame in ends(robot):
        normal, offset = np.array([0.0, 0.0, 1.0]) + 0.3 * rng.normal(size=3), 0.03 * rng.normal(size=3)
        kind = KINDS[rng.integers(len(KINDS))]
        out.append(Contact(name=frame, frame=frame, radius=0.02, normal=normal, offset=offset, **kind))
    kind = KINDS[rng.integers(len(KINDS))]
    shape = (
        {"half_size": (0.05, 0.03)} if rng.random() < 0.5 else {"polygon": [(0.06, 0.01), (-0.04, 0.03), (0.0, -0.05)]}
    )
    sole: dict[str, Any] = {"kind": "surface", "normal": np.array([0.1, 0.2, 1.0])} | shape
    out.append(Contact(name="sole", frame=robot.bodies[-1].name, offset=0.03 * rng.normal(size=3), **sole | kind))
    return out


def contacts_for(kind: str, robot: qd.Robot, rng: np.random.Generator) -> list[Contact]:
    """`any_contacts`, in which contacts that hold an object are not in contact with the ground."""
    found = any_contacts(robot, rng)
    if kind != "held_object":
        return found
    return [replace(c, force_only=True, stiffness=None) if c.name in (ends(robot)[0], "sole") else c for c in found]


def state(robot: qd.Robot, rng: np.random.Generator, spread: float = 0.3) -> tuple[Any, Any]:
    """A random state around home."""
    q = robot.algorithms.integrate(robot.model, robot.q_home, spread * rng.normal(size=robot.nv))
    return q, rng.normal(size=robot.nv)


def _linear(robot: qd.Robot) -> LinearConstraint:
    """Equalities and limits over all variables."""
    rng, foot = np.random.default_rng(0), ends(robot)[0]
    return LinearConstraint(
        "own rows", [-1.0, 2.0, -np.inf], [1.0, 2.0, 3.0], acceleration=rng.normal(size=(3, robot.nv)),
        torque=rng.normal(size=(3, robot.nu)), forces={foot: rng.normal(size=(3, 3)), "sole": rng.normal(size=(3, 6))},
        weights=[0.5, 1.0, 2.0], unit="m/s^2",
    )  # fmt: skip


def _robust(robot: qd.Robot) -> RobustLimits:
    """Limits for payloads up to a fifth of the robot's mass, slightly off its root."""
    band = PayloadSet((0.0, 0.2 * robot.mass), (0.0, 0.0, 0.0), (0.02, 0.0, 0.02), radius_of_gyration=0.01)
    return RobustLimits(robot, band, friction_fraction=0.9, torque_margin=0.01, name="element")


def _collisions(robot: qd.Robot) -> CollisionLimits:
    """Links of any shape, or a capsule if there are none, against obstacles around the robot."""
    every = [link for body in robot.bodies for link, _ in body.links if link.collisions]
    plain = [link.name for link in every if not any(isinstance(c.shape, MeshShape) for c in link.collisions)]
    links = plain[:4:3] or [every[-1].name]  # fitting capsules to meshes takes too long
    things = {"ball": Obstacle.sphere(0.05), "bar": Obstacle.capsule(0.03, [0.3, 0, 0], [-0.2, 0.4, 0.1])}
    things |= {"crate": Obstacle.box([0.3, 0.1, 0.1]), "floor": Obstacle.plane([0.1, 0.0, 1.0])}
    where = {"ball": [0.4, 0.3, 0.1], "bar": [-0.7, 0.0, 0.5], "crate": [0.0, 0.9, 0.2], "floor": [0.0, 0.0, -1.0]}
    limits = CollisionLimits(
        CapsuleModel(robot, links=links, reach=np.inf),
        obstacles=things,
        obstacle_positions=where,
        barrier_rate=10.0,
        max_acceleration=1e4,
        name="element",
    )
    limits.set_obstacle_pose("ball", where["ball"], velocity=[0.1, -0.2, 0.3])
    return limits


def _held(robot: qd.Robot) -> HeldObject:
    """An object carried by the last body and held by a foot as well."""
    hands, inertia = ("sole", ends(robot)[0]), np.diag([0.01, 0.02, 0.015])
    return HeldObject(robot, hands, robot.bodies[-1].name, 2.0, com=(0.1, 0.2, -0.1), inertia=inertia, name="element")


#: Every element, by the words of its class name without "Task" or "Constraint".
ELEMENTS: dict[str, Callable[[qd.Robot], Any]] = {
    "com": lambda r: ComTask(r, "element"),
    "frame_position": lambda r: FramePositionTask(r, r.bodies[-1].name, "element", axes=("x", "z")),
    "foot": lambda r: FootTask(r, ends(r)[0], "element", weight=(1.0, 2.0, 3.0)),
    "frame_orientation": lambda r: FrameOrientationTask(r, r.bodies[-1].name, "element"),
    "frame_axis": lambda r: FrameAxisTask(r, r.bodies[-1].name, "element", axis="y"),
    "frame": lambda r: FrameTask(r, ends(r)[-1], "element", weight=0.5),
    "relative_frame": lambda r: RelativeFrameTask(r, ends(r)[0], r.bodies[-1].name, "element"),
    "posture": lambda r: PostureTask(r, "element"),
    "joint_acceleration": lambda r: JointAccelerationTask(r, "element", joints=r.actuated[-1:]),
    "momentum": lambda r: MomentumTask(r, "element", axes=None),
    "force": lambda r: ForceTask(r, "element"),
    "contact_motion": lambda r: ContactMotion(r, name="element"),
    "friction_pyramid": lambda r: FrictionPyramid(name="element", faces=5),
    "normal_force": lambda r: NormalForce(name="element"),
    "torque_limits": lambda r: TorqueLimits(r, limits=30.0, name="element"),
    "torque_rate": lambda r: TorqueRate(r, 1e3, name="element"),
    "joint_bounds": lambda r: JointBounds(r, 1e-3, name="element"),
    "collision_limits": _collisions,
    "linear": _linear,
    "robust_limits": _robust,
    "motor_limits": lambda r: MotorLimits(r, 20.0, no_load_speed=3.0, corner_speed=1.0, name="element"),
    "held_object": _held,
}


#: Elements of the package whose rows are computed in Python.
IN_PYTHON = {"linear", "robust_limits", "motor_limits"}

#: Every exported class of elements, by the words of its name, including the two base classes.
EXPORTED: dict[str, type[Element]] = {
    re.sub("(?<=[a-z])(?=[A-Z])", "_", re.sub("(?<=.)(Task|Constraint)$", "", kind.__name__)).lower(): kind
    for subpackage in (tasks, constraints)
    for kind in (getattr(subpackage, name) for name in subpackage.__all__)
}


def check_that_every_kind_is_there(elements: Iterable[Element], *besides: str) -> None:
    """Asserts that every exported kind is present, except those of the names `besides`."""
    there = {type(each) for each in elements}
    missing = {name for name, kind in EXPORTED.items() if kind not in there}
    assert missing == {"task", "constraint", *besides}, missing


class Heavy(Constraint):
    """A custom element: a minimum downward acceleration of the center of mass."""

    def rows(self, tick: Tick) -> list[Rows]:
        """One row."""
        J = tick.state.com_jacobian[2:]
        return [Rows(("own",), "m/s^2", np.array([-np.inf]), np.array([-0.1]), acceleration=J)]


def everything(robot: qd.Robot, hand: str) -> tuple[list[Any], list[list[Any]]]:
    """Elements of every kind for a robot with four feet and an arm: level 0 and the levels below."""
    feet, base = robot.feet, robot.bodies[0].name
    wrench = LinearConstraint("push", -1.0, np.inf, forces={hand: np.eye(6)[2:3], feet[0]: 0.1 * np.eye(3)[2:]})
    torque = LinearConstraint("joints", 0.1, 0.1, torque=np.eye(robot.nu)[:1], acceleration=0.1 * np.eye(robot.nv)[:1])
    level_0 = [*default_constraints(robot, 1e-3), TorqueRate(robot, 2e4), wrench]
    first = [ComTask(robot, axes=("x", "z")), FrameOrientationTask(robot, base, "base", axes=("rx", "ry"))]
    first += [FootTask(robot, foot, weight=2.0) for foot in feet[:3]] + [Heavy("heavy")]
    second = [FrameTask(robot, hand, "hand pose", weight=0.5), MomentumTask(robot, axes=("rz",)), torque]
    third = [FramePositionTask(robot, base, "height", axes=("z",)), RelativeFrameTask(robot, hand, base)]
    last = [PostureTask(robot), JointAccelerationTask(robot, joints=robot.actuated[-3:]), ForceTask(robot)]
    return level_0, [first, second, third, last]
