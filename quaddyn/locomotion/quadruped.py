"""`Quadruped`: the robot that is moved, its parts and its senses, and what it is doing now."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from ..contact.solvers.problem import NOMINAL_FRICTION
from ..errors import ArgumentError
from ..robot.arguments import number
from ..robot.robot import Robot
from ..urdf.tree import Array
from ..wbc import JointBounds, TorqueLimits, WholeBodyController
from .arguments import asked_friction, check_whole_body, is_estimated
from .capability import Capability
from .course import Course, Preview
from .foothold_map import FootholdMap, Heights
from .footing import Footing
from .gait import Clock, Gait, gait_named
from .grip import Grip
from .ground import GroundPlane
from .modes import Mode
from .motor_guard import MotorGuard
from .proportions import FEET, Proportions
from .proprioception import Proprioception
from .thrust import LOADING
from .trunk import Trunk

#: Nominal friction divided by the coefficient that is assumed where friction is estimated, and that coefficient.
CAUTION = 1.5
FRICTION = round(NOMINAL_FRICTION / CAUTION, 3)
#: Natural frequency of feet in the air [1/sqrt(l/g)], and the weight of their accelerations against those of the centre
#: of mass, 1.  Whose joints are too slow or too weak for its swing comes late: what it loses is not taken from the
#: centre of mass, whose error would ask for a longer and faster swing.
FOOT_RATE, FOOT_WEIGHT = 8.0, 0.125
#: How many times larger accelerations joints may have in a jump than on the way, where the whole-body controller is the
#: default one: torques limit them, too.
QUICK = 3.0


class Quadruped:
    """What `Walking`, `Flight` and `Fall` share: each is given the same one, and may change what it is doing.

    Args:
        robot: a quadruped with a free root.
        dt: control period [s].
        gait: to move with.
        friction: "estimated", "assumed", or Coulomb's coefficient of the ground.
        terrain: heights of the ground, as far as it is known.
        payload: "estimated" or None.
        touching: "estimated" or "scheduled".
        whole_body: of the same robot and period; None for the default one.

    Attributes:
        robot: as given.
        dt: as given [s].
        proportions: of the robot.
        whole_body: the whole-body controller.
        base: name of the trunk's body.
        guard: cuts torques to what motors may be sent.
        capability: what the robot can do.
        grip: friction and normals that are counted on.
        senses: what joint torques tell.
        footing: who touches the ground, of a robot that may have lost it.
        preview: from footfalls to the motion of the centre of mass.
        gait: to move with.
        terrain: as given.
        map: of the ground that is known; None where nothing is.
        mode: what it is doing.
        ground: as far as it is known; None before the first tick, and where the next tick is to be a first one.
        course: the wanted motion of the middle of the feet, from the first tick on.
        clock: of the gait, from the first tick on.
        trunk: references of centre of mass and base.
        tau: (nu,) torques since the last tick [N m].

    Raises:
        ArgumentError: a robot that cannot walk, or an option out of range.
        UnknownNameError: no such gait or option.
    """

    __slots__ = (
        "base", "capability", "clock", "course", "dt", "footing", "gait", "grip", "ground", "guard", "map", "mode",
        "preview", "proportions", "robot", "senses", "tau", "terrain", "trunk", "whole_body",
    )  # fmt: skip

    map: FootholdMap | None
    terrain: Heights | None
    mode: Mode
    ground: GroundPlane | None
    course: Course
    clock: Clock
    tau: Array

    def __init__(
        self,
        robot: Robot,
        *,
        dt: float,
        gait: str | Gait,
        friction: float | str,
        terrain: Heights | None,
        payload: str | None,
        touching: str,
        whole_body: WholeBodyController | None,
    ) -> None:
        self.proportions = p = Proportions.of(robot)
        self.robot, self.dt = robot, number("dt", dt)
        if not 0.0 < self.dt <= 0.01:
            raise ArgumentError(f"dt: expected a period in (0, 0.01] s, got {dt}")
        self.gait = gait_named(gait)
        told, known, slips = asked_friction(friction, FRICTION)
        ours = whole_body is None
        if whole_body is None:
            trot = self.gait if self.gait.moves else gait_named("trot")
            whole_body = WholeBodyController(robot, dt=self.dt, friction=told, ramp_time=LOADING * trot.period * p.time)
        else:
            check_whole_body(whole_body, robot, self.dt)
        self.whole_body = whole_body
        tasks = whole_body.tasks
        Trunk.prepare(p, tasks)
        for foot in FEET:
            tasks[foot].gains((FOOT_RATE / p.time) ** 2)
            tasks[foot].weight = FOOT_WEIGHT
        torque = next((item for item in tasks.values() if isinstance(item, TorqueLimits)), None)
        self.guard = MotorGuard(robot, p, self.dt, torque)
        bounds = next((item for item in tasks.values() if isinstance(item, JointBounds)), None)
        self.capability = Capability(robot, p, self.guard, bounds, QUICK if ours else 1.0)
        self.base = robot.bodies[0].name
        self.know(terrain)
        self.grip = Grip(whole_body, sure=ours and known)
        self.senses = Proprioception(
            robot, p, self.dt, self.grip, payload=is_estimated("payload", payload),
            touching=is_estimated("touching", touching, "scheduled"), friction=slips,
        )  # fmt: skip
        self.preview, self.footing = Preview(p), Footing(robot, p, self.dt)
        self.trunk = Trunk(p, whole_body, self.grip, p.height, deep=self.capability.crouch)
        self.capability.require(self.gait, self.grip.told)

    def reset(self) -> None:
        """Stand, with nothing known of the motion."""
        self.start_over()
        self.know(self.terrain)
        self.trunk.end()
        self.mode = Mode.STANDING
        self.senses.reset()
        self.capability.reset()
        self.tau = np.zeros(self.robot.nu)

    def __getattr__(self, name: str) -> NoReturn:
        if name in self.__slots__:
            raise AttributeError(f"a LocomotionController has no {name} before the first tick")
        raise AttributeError(name)

    def start_over(self) -> None:
        """The next tick is a first one."""
        self.whole_body.reset()
        self.ground = None

    def know(self, terrain: Heights | None) -> None:
        """The ground is this, as far as it is known; None where nothing is."""
        self.map = None if terrain is None else FootholdMap(terrain, self.proportions)
        self.terrain = terrain

    def normals(self, ground: GroundPlane, *, even: bool = False) -> list[tuple[float, float, float]]:
        """Of the ground under each foot: where it is known, its own, else that of the plane of all.

        Args:
            ground: the plane of the feet.
            even: whether all feet stand on that plane, whatever is known.
        """
        x, y, z = ground.normal.tolist()
        if self.map is None or even:
            return [(x, y, z)] * len(FEET)
        return [self.map.normal(*point) or (x, y, z) for point in ground.points.tolist()]
