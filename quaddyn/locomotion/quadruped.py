"""`Quadruped`: the controlled robot with its estimators and shared components, and the present mode.

The arguments of `LocomotionController` are validated here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ..contact.solvers.problem import NOMINAL_FRICTION
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import check_number, check_sequence
from ..robot.robot import Robot, make_foot_name_error
from ..robot.units import warn_of_direction, warn_of_length
from ..urdf.tree import Array
from ..wbc import JointBounds, TorqueLimits, WholeBodyController
from ..wbc.tick_period import make_tick_displacements
from .com_preview import allocate_com_reference, make_preview_parameters
from .contact_estimation import ContactMonitor
from .estimators import LocomotionEstimators
from .fall_detection import make_fall_detector
from .foothold_map import FootholdMap, Heights
from .friction_model import FrictionModel
from .gait import LOADING_TIME, Gait, GaitScheduler, find_gait
from .ground_plane import GroundPlane, write_ground_normals
from .locomotion_limits import LocomotionLimits
from .modes import LocomotionMode, allocate_mode_state
from .morphology import FEET, Morphology
from .path_reference import PathReference
from .torque_limiter import TorqueLimiter
from .trunk_controller import TrunkController


def validate_feet(measured_contacts: Collection[str], robot: Robot) -> tuple[str, ...]:
    """Returns the names of feet of a robot in contact as a tuple.

    Raises:
        ArgumentTypeError: a mapping, or not a collection of names.
        UnknownNameError: a name that is not one of `FEET`.
    """
    if isinstance(measured_contacts, tuple):  # of a control loop, at every tick
        names: tuple[str, ...] = measured_contacts
    elif isinstance(measured_contacts, Mapping):
        raise ArgumentTypeError(
            "measured_contacts: expected the names of the feet in contact, got a mapping; pass its keys that are True"
        )
    else:
        names = check_sequence("measured_contacts", measured_contacts, "names of feet")
    for name in names:
        if name not in FEET:
            raise make_foot_name_error(robot, "foot", name, FEET)
    return names


def validate_jump(
    height: float | None, distance: Sequence[float] | Array, turn: float, leg_length: float
) -> tuple[float | None, tuple[float, float], float]:
    """Returns a requested jump as floats: height [m] or None, distance (2,) [m] and turn [rad].

    A height that seems to be in millimeters, compared with the leg length [m], or a turn that seems to be in degrees,
    gives a warning.

    Raises:
        ArgumentError: the height is not positive, or a number is not finite.
        ArgumentTypeError: an argument is not a number.
    """
    if height is not None:
        height = check_number("height", height)
        if not (math.isfinite(height) and height > 0.0):
            raise ArgumentError(f"height: expected a height above 0 m, or None for the default, got {height}")
        warn_of_length("height", height, leg_length, stacklevel=6)
    displacement, turn = (
        [check_number("distance", x) for x in check_sequence("distance", distance, "numbers")],
        check_number("turn", turn),
    )
    if len(displacement) != 2 or not all(map(math.isfinite, (*displacement, turn))):
        raise ArgumentError(
            "distance, turn: expected two finite lengths, forward and leftward [m], and a finite angle [rad], got "
            f"{tuple(displacement)} and {turn}"
        )
    warn_of_direction("turn", turn, stacklevel=6)
    return height, (displacement[0], displacement[1]), turn


def validate_wbc(wbc: object, robot: Robot, dt: float) -> None:
    """Rejects a whole-body controller that cannot serve a locomotion controller.

    Args:
        wbc: the whole-body controller.
        robot: robot of the locomotion controller.
        dt: control period of the locomotion controller [s].

    Raises:
        ArgumentTypeError: `wbc` is not a WholeBodyController.
        ArgumentError: it is of another robot or period, or tasks or contacts are missing.
    """
    if not isinstance(wbc, WholeBodyController):
        raise ArgumentTypeError(f"wbc: expected a WholeBodyController, got {type(wbc).__name__}")
    if wbc.robot is not robot:
        raise ArgumentError(
            "wbc: belongs to another Robot object; load the robot once and use that object for both controllers"
        )
    if wbc.dt != dt:
        raise ArgumentError(f"wbc: expected the controller's period, dt={dt} s, got {wbc.dt} s")
    missing = [name for name in ("com", "base", "forces", *FEET) if name not in wbc.tasks]
    if missing:
        raise ArgumentError(
            f"wbc: tasks are missing whose references the locomotion controller sets: {', '.join(missing)}"
        )
    missing = [name for name in FEET if name not in wbc.contacts]
    if missing:
        raise ArgumentError(f"wbc: expected a contact for every foot; missing contacts: {', '.join(missing)}")


def is_estimated(option: str, value: object, other: str | None = None) -> bool:
    """Returns whether an option is "estimated".

    Args:
        option: name of the option, for the error message.
        value: value of the option.
        other: the only other value allowed.

    Raises:
        UnknownNameError: the value is neither "estimated" nor `other`.
    """
    if value not in ("estimated", other):
        raise UnknownNameError(option, value, ("estimated",) if other is None else ("estimated", other))
    return value == "estimated"


def parse_friction(friction: float | str, assumed: float) -> tuple[float, bool, bool]:
    """Returns the friction coefficient, whether it is given for this ground, and whether slips are detected.

    Args:
        friction: a coefficient, "estimated" or "nominal".
        assumed: coefficient that is assumed if none is given.
    """
    if isinstance(friction, str):
        return assumed, False, is_estimated("friction", friction, "nominal")
    return check_number("friction", friction), True, True


#: Nominal friction divided by the coefficient that is assumed where friction is estimated, and that coefficient.
NOMINAL_FRICTION_RATIO = 1.5
ASSUMED_FRICTION = round(NOMINAL_FRICTION / NOMINAL_FRICTION_RATIO, 3)
#: Natural frequency of swing feet [1/sqrt(l/g)], and weight of their accelerations relative to those of the center of
#: mass, 1.  The weight is small, so that a foot whose joints are too slow or too weak lands late instead of disturbing
#: the center of mass, whose error would require a longer and faster swing.
SWING_FOOT_FREQUENCY, SWING_FOOT_WEIGHT = 8.0, 0.125
#: Ratio of the joint accelerations allowed in a jump to those in walking, with the default whole-body controller;
#: torque limits hold as well.
JUMP_ACCELERATION_RATIO = 3.0


class Quadruped:
    """Components shared by the controllers of ground phase, flight phase and falls, which may change the mode.

    Args:
        robot: a quadruped with a free root.
        dt: control period [s].
        gait: gait to move with.
        friction: "estimated", "nominal", or the friction coefficient of the ground.
        terrain: terrain heights; None for blind locomotion.
        payload: "estimated" or None.
        contact_detection: "estimated" or "scheduled".
        rotor_inertia: "estimated" or "model".
        wbc: whole-body controller of the same robot and period; None for the default one.

    Attributes:
        robot: the robot.
        dt: control period [s].
        morphology: lengths and units of the robot.
        wbc: the whole-body controller.
        base: name of the trunk's body.
        torque_limiter: limiter of the motor torques.
        capability: limits of velocities, slopes, gaits and jumps.
        friction_model: friction and normals of the contacts.
        estimators: estimators of payload, contacts and friction.
        contact_monitor: detector of lost ground contact.
        fall_detector: state of the detector of falls.
        displacements: displacements of the center of mass between ticks.
        preview: parameters of the plan of the center-of-mass motion.
        com_reference: reference of the center of mass at the last tick.
        gait: gait to move with.
        terrain: terrain heights; None for blind locomotion.
        foothold_map: foothold costs; None in blind locomotion.
        mode_state: record of the present mode, and conditions of its changes.
        ground: plane of the feet.
        path_reference: path reference.
        gait_scheduler: phases of the gait.
        trunk: trunk controller.
        tau: (nu,) torques since the last tick [N m].

    Raises:
        ArgumentError: the robot cannot walk, or an option is out of range.
        UnknownNameError: there is no such gait or option.
    """

    __slots__ = (
        "base",
        "capability",
        "com_reference",
        "contact_monitor",
        "displacements",
        "dt",
        "estimators",
        "fall_detector",
        "foothold_map",
        "friction_model",
        "gait",
        "gait_scheduler",
        "ground",
        "mode_state",
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
        rotor_inertia: str,
        wbc: WholeBodyController | None,
    ) -> None:
        self.morphology = p = Morphology.from_robot(robot)
        self.robot, self.dt = robot, check_number("dt", dt)
        if not 0.0 < self.dt <= 0.01:
            raise ArgumentError(f"dt: expected a period in (0, 0.01] s, got {dt}")
        self.gait = find_gait(gait)
        nominal, is_given, detects_slips = parse_friction(friction, ASSUMED_FRICTION)
        is_default_wbc = wbc is None
        if wbc is None:
            ramp_gait = self.gait if self.gait.has_swing_phase else find_gait("trot")
            wbc = WholeBodyController(
                robot, dt=self.dt, friction=nominal, ramp_time=LOADING_TIME * ramp_gait.period * p.time_scale
            )
        else:
            validate_wbc(wbc, robot, self.dt)
        self.wbc = wbc
        wbc.checks_motion = False  # `walker.begin_tick` compares states with `displacements`
        tasks = wbc.tasks
        TrunkController.set_gains(p, tasks)
        for foot in FEET:
            tasks[foot].gains((SWING_FOOT_FREQUENCY / p.time_scale) ** 2)
            tasks[foot].weight = SWING_FOOT_WEIGHT
        torque_limits = next((item for item in tasks.values() if isinstance(item, TorqueLimits)), None)
        self.torque_limiter = TorqueLimiter(robot, p, self.dt, torque_limits)
        bounds = next((item for item in tasks.values() if isinstance(item, JointBounds)), None)
        self.capability = LocomotionLimits(
            robot, p, self.torque_limiter, bounds, JUMP_ACCELERATION_RATIO if is_default_wbc else 1.0
        )
        self.mode_state = allocate_mode_state()
        self.ground, self.path_reference = GroundPlane(np.zeros((4, 3))), PathReference(np.zeros(2), 0.0)
        self.gait_scheduler = GaitScheduler(self.gait if self.gait.has_swing_phase else "trot", p.time_scale)
        self.base, self.displacements = robot.bodies[0].name, make_tick_displacements(robot, self.dt)
        self.set_terrain_knowledge(terrain)
        self.friction_model = FrictionModel(wbc, is_given=is_default_wbc and is_given)
        self.estimators = LocomotionEstimators(
            wbc, p, self.friction_model, payload=is_estimated("payload", payload),
            contacts=is_estimated("contact_detection", contact_detection, "scheduled"), friction=detects_slips,
            rotors=is_estimated("rotor_inertia", rotor_inertia, "model"),
        )  # fmt: skip
        self.preview, self.com_reference = make_preview_parameters(p), allocate_com_reference()
        self.contact_monitor, self.fall_detector = ContactMonitor(self.dt), make_fall_detector(p, self.dt)
        self.trunk = TrunkController(
            p, wbc, self.friction_model, p.height, slope_lowering=self.capability.slope_lowering
        )
        self.capability.require_feasible(self.gait, self.friction_model.nominal)

    @property
    def mode(self) -> LocomotionMode:
        """Present mode."""
        return LocomotionMode.from_code(self.mode_state.mode)

    @mode.setter
    def mode(self, mode: LocomotionMode) -> None:
        self.mode_state.mode = mode.code

    @property
    def has_started(self) -> bool:
        """Whether there was a tick since the start, or since `request_restart`."""
        return self.mode_state.has_started

    def request_restart(self) -> None:
        """Resets the whole-body controller, and makes the next tick be treated as the first one."""
        self.wbc.reset()
        self.mode_state.has_started = False

    def set_terrain_knowledge(self, terrain: Heights | None) -> None:
        """Sets the terrain heights; None for blind locomotion."""
        self.foothold_map = None if terrain is None else FootholdMap(terrain, self.morphology)
        self.terrain = terrain

    def ground_normals(self, ground: GroundPlane) -> Array:
        """Returns the unit normals (4, 3) of the ground under each foot, world, from the map or from the plane."""
        normals = np.empty((len(FEET), 3))
        write_ground_normals(ground.state, normals)
        if self.foothold_map is not None:
            for row, point in zip(normals, ground.points.tolist(), strict=True):
                normal = self.foothold_map.normal(*point)
                if normal is not None:
                    row[:] = normal
        return normals
