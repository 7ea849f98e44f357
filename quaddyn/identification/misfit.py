"""Likely causes of torques that a fit does not explain: order and signs of the data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..dynamics import Dynamics
from .accumulator import REGRESSION_CHUNK
from .base_parameters import BaseParameters
from .samples import MeasuredForces, Samples, iterate_samples
from .stacked_regressor import iterate_chunks

#: Correlation of two torques above which one is taken for the other.
MIN_CORRELATION = 0.8
#: Cause if neither order nor sign of the torques is.
UNKNOWN_CAUSE = "check order, signs and units of the positions, and that positions and torques have the same times"


def likely_causes(base: BaseParameters, samples: Samples | Iterable[Samples], joints: Sequence[str]) -> tuple[str, ...]:
    """Compares measured torques with those of the model in the robot's file, and states likely errors of the data.

    The comparison uses correlations, which masses that differ from the file hardly change.

    Args:
        base: base parameters of the robot.
        samples: the data, at once or in chunks.
        joints: actuated joints whose torque is not explained.

    Returns:
        Sentences without a period, at least one.
    """
    robot = base.robot
    measured, regressor = MeasuredForces(robot), base.regressor()
    beta = base.project(Dynamics(robot).parameters(inertial=base.inertial))
    n, index = robot.nu, robot.actuated_index
    count, means, products = 0, np.zeros(2 * n), np.zeros((2 * n, 2 * n))
    for part in iterate_samples(samples):
        for piece in iterate_chunks(len(part), REGRESSION_CHUNK):
            some = part[piece]
            y = measured.generalized_forces(some)[:, index]
            rows = np.concatenate([y, (regressor(*some.states) @ beta)[:, index]], axis=1)
            count, means, products = count + len(some), means + rows.sum(axis=0), products + rows.T @ rows
    means, products = means / max(count, 1), products / max(count, 1)
    deviation = np.sqrt(np.maximum(products.diagonal() - means**2, 0.0))
    scale = np.where(deviation > 0.0, deviation, np.inf)
    correlation = ((products - np.outer(means, means)) / np.outer(scale, scale))[:n, n:]
    flipped, swapped = list[str](), list[str]()
    for joint in joints:
        i = robot.actuated.index(joint)
        own, best = correlation[i, i], int(np.argmax(correlation[i]))
        if own < -MIN_CORRELATION:
            flipped.append(joint)
        elif best != i and correlation[i, best] > max(MIN_CORRELATION, own + 1.0 - MIN_CORRELATION):
            swapped.append(f"{joint} is that of {robot.actuated[best]}")
    out = [f"the torque of {', '.join(flipped)} has the opposite sign"] if flipped else []
    out += [f"the order of the joints is another one: the torque of {', of '.join(swapped)}"] if swapped else []
    return tuple(out) or (UNKNOWN_CAUSE,)
