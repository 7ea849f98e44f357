"""`Trial`: one run of a quadruped against one set of disturbances, with the size of each; what a run measures of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..contact.solvers.problem import NOMINAL_FRICTION
from ..errors import ArgumentError, UnknownNameError
from .plain_values import Plain

PLANTS = ("embedded", "mujoco")
#: All plants of trials: a kind, or a kind and its contact model.
ALL_PLANTS = (
    *PLANTS, "embedded:compliant", "embedded:creeping", "mujoco:stiff", "mujoco:mujoco", "mujoco:menagerie",
    "mujoco:soft",
)  # fmt: skip
#: Fields that cannot be negative.
SIZES = (
    "push", "friction", "slip", "slip_time", "slip_duration", "payload", "com", "step", "strips", "boxes", "rubble",
    "relief", "delay", "noise",
    "model_error",
)  # fmt: skip
#: Fields that make the ground other than level; one at most.
GROUNDS = ("slope", "step", "strips", "boxes", "stairs", "rubble", "relief")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Everything that a run depends on; a disturbance of size 0 is none.

    Directions are angles from the robot's forward direction at the start, counterclockwise seen from above [rad].

    Attributes:
        robot: catalogue name, path or URDF text.
        plant: "embedded" or "mujoco", with another contact model after a colon: "embedded:compliant",
            "embedded:creeping" (compliant ground that creeps, see `Simulation`), "mujoco:mujoco" (MuJoCo's defaults),
            "mujoco:menagerie" or "mujoco:soft", see `MujocoPlant`.
        gait: that it moves with.
        options: of the controller, the plant and the gait, such as ``(("controller.friction", 0.3),)``; see
            `quaddyn.campaigns.sweep.Sweep`.
        dt: period of controller and plant [s].
        seconds: how long the run is; it ends at a fall [s].
        measured: velocities, torques and powers count over the last so many seconds [s].
        velocity: forward and leftward [m/s] and yaw rate [rad/s], commanded from 0.3 s on.
        progress: least share of the commanded velocity to be reached along it.
        miss: largest difference from the commanded velocity in any component, in `unit_speed` and `unit_turn`; none by
            default.
        unit_speed, unit_turn: what `miss` is measured in [m/s, rad/s].
        push: change of the robot's velocity by a push on its base: impulse over mass [m/s].
        push_direction: from the robot's heading when it is pushed [rad].
        push_time: when [s].
        push_duration: how long [s].
        friction: Coulomb's coefficient of the ground.
        slip: Coulomb's coefficient that the ground has from `slip_time` on; 0 for no change.  The run then goes on for
            a second after a fall.
        slip_time: when [s].
        slip_duration: for how long; 0 for good [s].
        payload: extra mass on the trunk, of which the controller knows nothing [kg].
        com: how far the whole robot's centre of mass is moved horizontally (by the payload, if any) [m].
        com_direction: which way [rad].
        slope: of the ground [rad].
        slope_direction: uphill [rad].
        step: height of one step up across the way [m].
        step_distance: from the middle of the feet to its edge [m].
        strips: the ground ahead is of strips across the way, each at most so much higher or lower than the next [m].
        boxes: height of boxes strewn about the ground ahead [m].
        stairs, tread: how much each of the steps ahead is higher than the one before (negative: lower), and how deep it
            is [m].
        rubble: most height of boxes of random size that cover a third of the ground ahead [m].
        relief: amplitude of smooth waves of the ground ahead [m].
        told: whether the controller is given the heights of the ground.
        stretch: how far ahead of the start velocities begin to count, and where the run ends in success; one that does
            not get there within `seconds` fails.  None: a run lasts `seconds`, and `measured` says what counts [m].
        delay: age of what the sensors say [s].
        noise: of encoders and IMU, in multiples of what consumer parts have; with a delay or noise the controller is
            told an estimate instead of the true state.
        estimated: whether it is told an estimate in any case.
        model_error: largest relative error of the masses in the controller's model; joint damping, rotor inertia and
            the feet's radii are wrong in proportion, see `quaddyn.campaigns.trial_setup.with_model_error`.
        strength: of the motors, as a share of the robot's effort limits; the controller knows nothing of it.
        seed, number: of the random numbers of the run: ``SeedSequence(entropy=seed, spawn_key=(number,))``.
    """

    robot: str
    plant: str = "embedded"
    gait: str = "trot"
    options: tuple[tuple[str, Plain], ...] = ()
    dt: float = 2e-3
    seconds: float = 6.5
    measured: float = 4.0
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    progress: float = 0.7
    miss: float | None = None
    unit_speed: float = 1.0
    unit_turn: float = 1.0
    push: float = 0.0
    push_direction: float = 0.0
    push_time: float = 2.0
    push_duration: float = 0.1
    friction: float = NOMINAL_FRICTION
    slip: float = 0.0
    slip_time: float = 2.0
    slip_duration: float = 0.0
    payload: float = 0.0
    com: float = 0.0
    com_direction: float = 0.0
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
    told: bool = False
    stretch: tuple[float, float] | None = None
    delay: float = 0.0
    noise: float = 0.0
    estimated: bool = False
    model_error: float = 0.0
    strength: float = 1.0
    seed: int = 0
    number: int = 0

    def __post_init__(self) -> None:
        if self.plant not in ALL_PLANTS:
            raise UnknownNameError("plant", self.plant, ALL_PLANTS)
        if not 0.0 < self.measured <= self.seconds < math.inf:
            raise ArgumentError(
                f"measured, seconds: expected 0 < measured <= seconds [s], got {self.measured} and {self.seconds}"
            )
        grounds = [name for name in GROUNDS if getattr(self, name)]
        if len(grounds) > 1:
            raise ArgumentError(f"{' and '.join(grounds)}: the ground can be one of them")
        for name in SIZES:
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ArgumentError(f"{name}: expected a finite number, 0 or more, got {getattr(self, name)}")
        if not 0.0 < self.strength < math.inf:
            raise ArgumentError(f"strength: expected a positive share of the effort limits, got {self.strength}")
        if self.stairs and not (math.isfinite(self.stairs) and 0.0 < self.tread < math.inf):
            raise ArgumentError(
                f"stairs, tread: expected a finite rise and a depth [m], got {self.stairs}, {self.tread}"
            )
        if self.stretch is not None and not 0.0 <= self.stretch[0] < self.stretch[1] < math.inf:
            raise ArgumentError(f"stretch: expected two ascending distances [m], got {self.stretch}")
