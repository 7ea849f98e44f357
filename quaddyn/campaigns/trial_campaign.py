"""`TrialCampaign`: base class of all campaigns whose cases are of type `Trial`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..locomotion import Morphology
from ..robot import Robot
from .campaign import Campaign, Record, hash_texts
from .trial import Trial
from .trial_runner import run_trial
from .worker_memory import hash_robot, load_cached_robot

if TYPE_CHECKING:
    from ..locomotion import LocomotionCommand
    from ..simulation import Plant
    from ..viewer import Viewer

#: Default commanded speed [sqrt(g l)].
DEFAULT_COMMAND_SPEED = 0.25
FRAMES_PER_SECOND = 30.0


class TrialCampaign(Campaign[Trial]):
    """Base class of campaigns whose cases are runs of quadrupeds; subclasses define the cases."""

    Case: ClassVar[type[Trial]] = Trial
    renamed_entries: ClassVar[Mapping[str, str]] = {
        "burst": "peak_motor_power",
        "foreseen": "predicted_slope_limit",
        "allowed": "allowed_fraction",
        "limit": "limit_reason",
        "miss": "velocity_error",
        "progress": "velocity_ratio",
    }

    def run(self, case: Trial) -> Record:
        """Runs one trial; see `run_trial`."""
        return run_trial(case)

    @property
    @abstractmethod
    def robots(self) -> Iterable[str]:
        """Sources of all robots of the cases."""

    def model_hash(self) -> str:
        """Returns a hash of the robots: more trials, or other disturbances, may be added to a store."""
        return hash_texts(*(hash_robot(source) for source in sorted(set(self.robots))))

    def case_robot(self, case: Trial) -> Robot:
        """Returns the robot model of the controller; a payload is not shown."""
        return load_cached_robot(case.robot)

    def replay(self, case: Trial, viewer: Viewer) -> Record:
        """Runs a case again and shows robot and terrain; returns the same record, equal to the bit.

        The last frame shows the outcome.
        """
        last_frame = -1
        last_plant: Plant | None = None

        def show(plant: Plant, text: str, time: float | None) -> None:
            viewer.show(
                plant.q,
                v=plant.v,
                contacts=plant.contacts,
                show_support_polygon=True,
                friction=case.friction,
                caption=f"{plant.time:.2f} s, {text}",
                time=time,
            )

        def on_tick(plant: Plant, command: LocomotionCommand) -> None:
            nonlocal last_frame, last_plant
            if last_plant is None:
                last_plant = plant
                viewer.show_terrain(plant.terrain)
            frame = int(plant.time * FRAMES_PER_SECOND + 1e-6)
            if frame == last_frame:
                return
            last_frame = frame
            is_pushed = case.push and case.push_time <= plant.time < case.push_time + case.push_duration
            show(plant, command.mode.value + (", pushed" if is_pushed else ""), plant.time)

        record = run_trial(case, on_tick)
        if last_plant is not None:
            show(last_plant, self.failure_reason(record) or "success", None)  # always a separate frame
        return record


def robot_proportions(source: str) -> Morphology:
    """Returns the proportions of a robot given by its source."""
    return Morphology.from_robot(load_cached_robot(source))


def draw_velocity(p: Morphology, rng: np.random.Generator) -> tuple[float, float, float]:
    """Draws a direction at random; returns the velocity command at the default speed (forward, leftward, yaw rate)."""
    angle = rng.uniform(-np.pi, np.pi)
    return (
        DEFAULT_COMMAND_SPEED * p.speed_scale * float(np.cos(angle)),
        DEFAULT_COMMAND_SPEED * p.speed_scale * float(np.sin(angle)),
        0.0,
    )
