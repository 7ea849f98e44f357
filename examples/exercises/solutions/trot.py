"""Solution: a trot."""

import numpy as np

PERIOD = 0.4  # of the gait [s]
DUTY = 0.6  # fraction of the period in which a foot is on the ground
HEIGHT = 0.07  # largest height of a swing foot above the ground [m]


def phase(foot: str, t: float) -> float:
    """Returns the phase of a foot."""
    return (t / PERIOD + (0.5 if foot in ("FR", "RL") else 0.0)) % 1.0


def touchdown(neutral: np.ndarray, velocity: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Returns the touchdown position: half of the distance of a stance ahead, and a correction of the velocity."""
    return neutral + 0.5 * DUTY * PERIOD * reference + 0.1 * (velocity - reference)


def swing(start: np.ndarray, goal: np.ndarray, alpha: float) -> np.ndarray:
    """Returns the position of a swing foot: a polynomial of degree five, and a squared sine for the height."""
    blend = alpha**3 * (10.0 - 15.0 * alpha + 6.0 * alpha**2)
    return start + blend * (goal - start) + np.array([0.0, 0.0, HEIGHT * np.sin(np.pi * alpha) ** 2])
