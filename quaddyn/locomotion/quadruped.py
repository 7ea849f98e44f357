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
from .arguments import is_estimated, parse_friction, validate_wbc
from .contact_monitor import ContactMonitor
from .estimators import LocomotionEstimators
from .foothold_map import FootholdMap, Heights
from .friction_model import FrictionModel
from .gait import Gait, GaitScheduler, find_gait
from .ground_plane import GroundPlane
from .locomotion_limits import LocomotionLimits
from .modes import LocomotionMode
from .morphology import FEET, Morphology
from .path_reference import ComPreview, PathReference
from .torque_limiter import TorqueLimiter
from .trunk_controller import TrunkController
from .vertical_force import LOADING_TIME

#: Nominal friction divided by the coefficient that is assumed where friction is estimated, and that coefficient.
NOMINAL_FRICTION_RATIO = 1.5
ASSUMED_FRICTION = round(NOMINAL_FRICTION / NOMINAL_FRICTION_RATIO, 3)
#: Natural frequency of feet in the air [1/sqrt(l/g)], and the weight of their accelerations against those of the centre
#: of mass, 1.  Whose joints are too slow or too weak for its swing comes late: what it loses is not taken from the
#: centre of mass, whose error would ask for a longer and faster swing.
SWING_FOOT_FREQUENCY, SWING_FOOT_WEIGHT = 8.0, 0.125
#: How many times larger accelerations joints may have in a jump than on the way, where the whole-body controller is the
#: default one: torques limit them, too.
JUMP_ACCELERATION_RATIO = 3.0


class Quadruped:
    """What `Walking`, `Flight` and `Fall` share: each is given the same one, and may change what it is doing.

    Args:
        robot: a quadruped with a free root.
        dt: control period [s].
        gait: to move with.
        friction: "estimated", "assumed", or Coulomb's coefficient of the ground.
        terrain: heights of the ground, as far as it is known.
        payload: "estimated" or None.
        contact_detection: "estimated" or "scheduled".
        wbc: of the same robot and period; None for the default one.

    Attributes:
        robot: as given.
        dt: as given [s].
        morphology: of the robot.
        wbc: the whole-body controller.
        base: name of the trunk's body.
        torque_limiter: cuts torques to what motors may be sent.
        capability: what the robot can do.
        friction_model: friction and normals that are counted on.
        estimators: what joint torques tell.
        contact_monitor: who touches the ground, of a robot that may have lost it.
        preview: from footfalls to the motion of the centre of mass.
        gait: to move with.
        terrain: as given.
        foothold_map: of the ground that is known; None where nothing is.
        mode: what it is doing.
        ground: as far as it is known; None before the first tick, and where the next tick is to be a first one.
        path_reference: the wanted motion of the middle of the feet, from the first tick on.
        gait_scheduler: of the gait, from the first tick on.
        trunk: references of centre of mass and base.
        tau: (nu,) torques since the last tick [N m].

    Raises:
        ArgumentError: a robot that cannot walk, or an option out of range.
        UnknownNameError: no such gait or option.
    """

    __slots__ = (
        "base",
        "capability",
        "contact_monitor",
        "dt",
        "estimators",
        "foothold_map",
        "friction_model",
        "gait",
        "gait_scheduler",
        "ground",
        "mode",
        "morphology",
        "path_reference",
        "preview",
        "robot",
        "tau",
        "terrain",
        "torque_limiter",
        "trunk",
        "wbc",
    )  # fmt: skip

    foothold_map: FootholdMap | None
    terrain: Heights | None
    mode: LocomotionMode
    ground: GroundPlane | None
    path_reference: PathReference
    gait_scheduler: GaitScheduler
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
        contact_detection: str,
        wbc: WholeBodyController | None,
    ) -> None:
        self.morphology = p = Morphology.from_robot(robot)
        self.robot, self.dt = robot, number("dt", dt)
        if not 0.0 < self.dt <= 0.01:
            raise ArgumentError(f"dt: expected a period in (0, 0.01] s, got {dt}")
        self.gait = find_gait(gait)
        told, known, slips = parse_friction(friction, ASSUMED_FRICTION)
        ours = wbc is None
        if wbc is None:
            trot = self.gait if self.gait.has_swing_phase else find_gait("trot")
            wbc = WholeBodyController(
                robot, dt=self.dt, friction=told, ramp_time=LOADING_TIME * trot.period * p.time_scale
            )
        else:
            validate_wbc(wbc, robot, self.dt)
        self.wbc = wbc
        tasks = wbc.tasks
        TrunkController.set_gains(p, tasks)
        for foot in FEET:
            tasks[foot].gains((SWING_FOOT_FREQUENCY / p.time_scale) ** 2)
            tasks[foot].weight = SWING_FOOT_WEIGHT
        torque = next((item for item in tasks.values() if isinstance(item, TorqueLimits)), None)
        self.torque_limiter = TorqueLimiter(robot, p, self.dt, torque)
        bounds = next((item for item in tasks.values() if isinstance(item, JointBounds)), None)
        self.capability = LocomotionLimits(
            robot, p, self.torque_limiter, bounds, JUMP_ACCELERATION_RATIO if ours else 1.0
        )
        self.base = robot.bodies[0].name
        self.set_terrain_knowledge(terrain)
        self.friction_model = FrictionModel(wbc, is_given=ours and known)
        self.estimators = LocomotionEstimators(
            robot, p, self.dt, self.friction_model, payload=is_estimated("payload", payload),
            contacts=is_estimated("contact_detection", contact_detection, "scheduled"), friction=slips,
        )  # fmt: skip
        self.preview, self.contact_monitor = ComPreview(p), ContactMonitor(robot, p, self.dt)
        self.trunk = TrunkController(
            p, wbc, self.friction_model, p.height, slope_lowering=self.capability.compute_slope_lowering
        )
        self.capability.require_feasible(self.gait, self.friction_model.nominal)

    def reset(self) -> None:
        """Stand, with nothing known of the motion."""
        self.request_restart()
        self.set_terrain_knowledge(self.terrain)
        self.trunk.restore_base_weight()
        self.mode = LocomotionMode.STANDING
        self.estimators.reset()
        self.capability.reset()
        self.tau = np.zeros(self.robot.nu)

    def __getattr__(self, name: str) -> NoReturn:
        if name in self.__slots__:
            raise AttributeError(f"a LocomotionController has no {name} before the first tick")
        raise AttributeError(name)

    def request_restart(self) -> None:
        """The next tick is a first one."""
        self.wbc.reset()
        self.ground = None

    def set_terrain_knowledge(self, terrain: Heights | None) -> None:
        """The ground is this, as far as it is known; None where nothing is."""
        self.foothold_map = None if terrain is None else FootholdMap(terrain, self.morphology)
        self.terrain = terrain

    def ground_normals(self, ground: GroundPlane, *, ignore_map: bool = False) -> list[tuple[float, float, float]]:
        """Of the ground under each foot: where it is known, its own, else that of the plane of all.

        Args:
            ground: the plane of the feet.
            ignore_map: whether all feet stand on that plane, whatever is known.
        """
        x, y, z = ground.normal.tolist()
        if self.foothold_map is None or ignore_map:
            return [(x, y, z)] * len(FEET)
        return [self.foothold_map.normal(*point) or (x, y, z) for point in ground.points.tolist()]
