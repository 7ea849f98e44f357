"""Effort limits small enough to constrain the robot; much larger ones of a file count as none."""

from __future__ import annotations

import numpy as np

from .robot import Robot
from .validation import max_effective_efforts


def effective_effort_limits(robot: Robot) -> dict[str, float]:
    """Returns the effort limit of each actuated joint that has an effective one [N m or N]; the others have none."""
    largest = max_effective_efforts(robot.bodies)
    limits = zip(robot.actuated, robot.effort_limits.tolist(), strict=True)
    return {name: limit for name, limit in limits if 0.0 < limit <= largest.get(name, np.inf) and np.isfinite(limit)}
