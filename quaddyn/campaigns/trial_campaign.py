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

#: Froude-like speed that is commanded where nothing else is said [sqrt(g l)].
SPEED = 0.25
FRAMES_PER_SECOND = 30.0


class TrialCampaign(Campaign[Trial]):
    """A campaign of runs of quadrupeds; subclasses say which."""

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
        """See `run_trial`."""
        return run_trial(case)

    @property
    @abstractmethod
    def robots(self) -> Iterable[str]:
        """Sources of all robots that occur in cases."""

    def model_hash(self) -> str:
        """Of the robots: more trials, or other disturbances, may be added to a store."""
        return hash_texts(*(hash_robot(source) for source in sorted(set(self.robots))))

    def case_robot(self, case: Trial) -> Robot:
        """The robot that the controller knows: of a payload nothing is seen."""
        return load_cached_robot(case.robot)

    def replay(self, case: Trial, viewer: Viewer) -> Record:
        """Run a case again, drawing it and its ground; the same record, bit for bit.

        The last frame says what became of it.
        """
        shown = -1
        world: Plant | None = None

        def draw(plant: Plant, text: str, time: float | None) -> None:
            viewer.show(
                plant.q,
                v=plant.v,
                contacts=plant.contacts,
                show_support_polygon=True,
                friction=case.friction,
                caption=f"{plant.time:.2f} s, {text}",
                time=time,
            )

        def watch(plant: Plant, command: LocomotionCommand) -> None:
            nonlocal shown, world
            if world is None:
                world = plant
                viewer.show_terrain(plant.terrain)
            frame = int(plant.time * FRAMES_PER_SECOND + 1e-6)
            if frame == shown:
                return
            shown = frame
            pushed = case.push and case.push_time <= plant.time < case.push_time + case.push_duration
            draw(plant, command.mode.value + (", pushed" if pushed else ""), plant.time)

        record = run_trial(case, watch)
        if world is not None:
            draw(
                world, self.failure_reason(record) or "success", None
            )  # a frame of its own, however soon after the last
        return record


def proportions(source: str) -> Morphology:
    """Of a robot by its source."""
    return Morphology.from_robot(load_cached_robot(source))


def cruise(p: Morphology, rng: np.random.Generator) -> tuple[float, float, float]:
    """A direction at random, at the speed that is usual here."""
    angle = rng.uniform(-np.pi, np.pi)
    return SPEED * p.speed_scale * float(np.cos(angle)), SPEED * p.speed_scale * float(np.sin(angle)), 0.0
