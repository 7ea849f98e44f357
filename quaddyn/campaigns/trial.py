"""`Trial`: description of one simulated run of a quadruped: robot, plant, command, disturbances, terrain, seed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..contact.solvers.problem import NOMINAL_FRICTION
from ..deprecation import renamed_fields
from ..errors import ArgumentError, UnknownNameError
from .campaign import PlainValue

PLANTS = ("embedded", "mujoco")
#: All plants of trials: a kind, or a kind and its contact model.
ALL_PLANTS = (
    *PLANTS, "embedded:compliant", "embedded:creeping", "mujoco:stiff", "mujoco:mujoco", "mujoco:menagerie",
    "mujoco:soft",
)  # fmt: skip
#: Fields that must be finite and not negative.
NON_NEGATIVE_FIELDS = (
    "push", "friction", "slip_friction", "slip_time", "slip_duration", "payload", "com_offset", "step", "strips",
    "boxes", "rubble", "relief", "delay", "noise_scale", "model_error",
)  # fmt: skip
#: Fields that select terrain other than level ground; at most one of them may be nonzero.
TERRAIN_FIELDS = ("slope", "step", "strips", "boxes", "stairs", "rubble", "relief")


@renamed_fields(
    told="terrain_known",
    stretch="course_interval",
    strength="torque_scale",
    miss="max_velocity_error",
    progress="min_velocity_ratio",
    measured="averaging_time",
    slip="slip_friction",
    com="com_offset",
    com_direction="com_offset_direction",
    noise="noise_scale",
    estimated="use_state_estimate",
)
@dataclass(frozen=True, kw_only=True)
class Trial:
    """Complete description of one simulated run; a disturbance of size 0 is off.

    Directions are angles from the robot's forward direction at the start, counterclockwise seen from above [rad].

    Attributes:
        robot: catalogue name, path or URDF text.
        plant: "embedded" or "mujoco", optionally with a contact model after a colon: "embedded:compliant",
            "embedded:creeping" (compliant ground with creep, see `Simulation`), "mujoco:mujoco" (MuJoCo's default
            contact parameters), "mujoco:stiff", "mujoco:menagerie" or "mujoco:soft", see `MujocoPlant`.
        gait: name of the gait.
        options: of the controller, the plant and the gait, such as ``(("controller.friction", 0.3),)``; see
            `quaddyn.campaigns.walking_campaigns.SweepCampaign`.
        dt: period of controller and plant [s].
        seconds: duration of the run, which ends earlier at a fall [s].
        averaging_time: velocities, torques and powers are evaluated over the last part of the run, of this length [s].
        velocity: forward and leftward velocity [m/s] and yaw rate [rad/s], commanded from 0.3 s on.
        min_velocity_ratio: smallest ratio of the velocity along the command to the commanded speed that is a success.
        max_velocity_error: largest difference from the commanded velocity in any component that is a success, in
            multiples of `unit_speed` and `unit_turn`; None: not evaluated.
        unit_speed, unit_turn: units of `max_velocity_error` [m/s, rad/s].
        push: change of the robot's velocity by a push on its base: impulse over mass [m/s].
        push_direction: direction of the push from the robot's heading at that time [rad].
        push_time: start of the push [s].
        push_duration: duration of the push [s].
        friction: Coulomb friction coefficient of the ground.
        slip_friction: Coulomb friction coefficient of the ground from `slip_time` on; 0: no change.  The run then goes
            on for one second after a fall.
        slip_time: time of the change of friction [s].
        slip_duration: duration of the changed friction; 0: until the end [s].
        payload: additional mass on the trunk, not included in the controller's model [kg].
        com_offset: horizontal displacement of the center of mass of the whole robot, by the payload if any [m].
        com_offset_direction: direction of `com_offset` [rad].
        slope: inclination of the ground [rad].
        slope_direction: uphill direction [rad].
        step: height of one step up, perpendicular to the direction of travel [m].
        step_distance: distance of its edge from the center of the feet at the start [m].
        strips: largest height difference between adjacent strips of ground that lie across the direction of travel [m].
        boxes: height of boxes scattered on the ground ahead [m].
        stairs, tread: rise of each of the steps ahead (negative: down) and their depth [m].
        rubble: largest height of boxes of random size that cover a third of the ground ahead [m].
        relief: amplitude of smooth random height variations of the ground ahead [m].
        terrain_known: whether the controller is given the terrain as a height map.
        course_interval: distances ahead of the start at which the evaluation begins and at which the run ends as a
            success [m]; a robot that does not reach the second one within `seconds` fails.  None: the run lasts
            `seconds`, and `averaging_time` is evaluated.
        delay: age of sensor readings when the controller gets them [s].
        noise_scale: scale of the noise of encoders and IMU relative to consumer parts.  With a delay or noise the
            controller is given an estimated state instead of the true one.
        use_state_estimate: whether the controller is given an estimated state in any case.
        model_error: largest relative error of the masses in the controller's model; joint damping, rotor inertia and
            foot radii are wrong in proportion, see `quaddyn.campaigns.trial_runner.with_model_error`.
        torque_scale: available motor torque as a fraction of the robot's effort limits, not known to the controller.
        seed, number: seed of the random numbers of the run: ``SeedSequence(entropy=seed, spawn_key=(number,))``.
    """

    robot: str
    plant: str = "embedded"
    gait: str = "trot"
    options: tuple[tuple[str, PlainValue], ...] = ()
    dt: float = 2e-3
    seconds: float = 6.5
    averaging_time: float = 4.0
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    min_velocity_ratio: float = 0.7
    max_velocity_error: float | None = None
    unit_speed: float = 1.0
    unit_turn: float = 1.0
    push: float = 0.0
    push_direction: float = 0.0
    push_time: float = 2.0
    push_duration: float = 0.1
    friction: float = NOMINAL_FRICTION
    slip_friction: float = 0.0
    slip_time: float = 2.0
    slip_duration: float = 0.0
    payload: float = 0.0
    com_offset: float = 0.0
    com_offset_direction: float = 0.0
    slope: float = 0.0
    slope_direction: float = 0.0
    step: float = 0.0
    step_distance: float = 0.0
    strips: float = 0.0
    boxes: float = 0.0
    stairs: float = 0.0
    tread: float = 0.0
    rubble: float = 0.0
    relief: float = 0.0
    terrain_known: bool = False
    course_interval: tuple[float, float] | None = None
    delay: float = 0.0
    noise_scale: float = 0.0
    use_state_estimate: bool = False
    model_error: float = 0.0
    torque_scale: float = 1.0
    seed: int = 0
    number: int = 0

    def __post_init__(self) -> None:
        if self.plant not in ALL_PLANTS:
            raise UnknownNameError("plant", self.plant, ALL_PLANTS)
        if not 0.0 < self.averaging_time <= self.seconds < math.inf:
            raise ArgumentError(
                f"averaging_time, seconds: expected 0 < averaging_time <= seconds < inf [s], got "
                f"{self.averaging_time} and {self.seconds}"
            )
        terrains = [name for name in TERRAIN_FIELDS if getattr(self, name)]
        if len(terrains) > 1:
            raise ArgumentError(
                f"{' and '.join(terrains)}: at most one kind of terrain can be selected; set the others to 0"
            )
        for name in NON_NEGATIVE_FIELDS:
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ArgumentError(f"{name}: expected a finite number, 0 or more, got {getattr(self, name)}")
        if not 0.0 < self.torque_scale < math.inf:
            raise ArgumentError(
                f"torque_scale: expected a positive fraction of the effort limits, got {self.torque_scale}"
            )
        if self.stairs and not (math.isfinite(self.stairs) and 0.0 < self.tread < math.inf):
            raise ArgumentError(
                f"stairs, tread: expected a finite rise and a depth [m], got {self.stairs}, {self.tread}"
            )
        if self.course_interval is not None and not 0.0 <= self.course_interval[0] < self.course_interval[1] < math.inf:
            raise ArgumentError(f"course_interval: expected two ascending distances [m], got {self.course_interval}")
