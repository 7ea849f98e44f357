"""What a `Simulation` makes once of its robot, ground and arguments, for the compiled step."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..errors import ArgumentError, QuaddynError
from ..robot.arguments import number
from ..robot.robot import Robot
from ..urdf.tree import Array
from . import contact_step
from .actuators import Actuators
from .collisions import Ground
from .spheres import Placed

#: A sphere takes part in the contact problem when it could reach the ground within one step at this speed [m/s].
APPROACH_SPEED = 20.0
#: Penetrations deeper than this [m] are undone: a share per step, at no more than this speed [m/s].
SLOP, RECOVERY_SHARE, RECOVERY_SPEED = 1e-4, 0.1, 0.1
#: Below this joint speed Coulomb friction turns into viscous friction [rad/s or m/s].
STICTION_SPEED = 1e-3
#: Residual of the contact law up to which a solve counts [m/s].
TOLERANCE = 1e-8
#: Positive work that a passive contact may do in a step, as a share of the energy that lifts the robot by 1 m.
PASSIVE = 5e-12
#: Rate at which a compliant ground's oscillation under the robot would go on undamped, and its damping ratio.
GROUND_FREQUENCY, GROUND_DAMPING = 15.0, 1.0


def contact_law(
    robot: Robot, contact: str, dt: float, stiffness: float | None, damping: float | None
) -> contact_step.ContactLaw:
    """Of the arguments of a `Simulation`.

    Raises:
        ArgumentError: a stiffness or damping that is no such number, or of ground that has none.
    """
    compliant = contact == "compliant"
    if not compliant and not (stiffness is damping is None):
        raise ArgumentError(f'stiffness, damping: only contact="compliant" has them, not {contact!r}')
    k, c = np.inf, 0.0
    if compliant:
        w, share = 2.0 * np.pi * GROUND_FREQUENCY, robot.mass / max(len(robot.feet), 1)
        k = share * w * w if stiffness is None else number("stiffness", stiffness)
        if not 0.0 < k < np.inf:
            raise ArgumentError(f"stiffness: expected a positive number [N/m], got {stiffness}")
        c = 2.0 * GROUND_DAMPING * np.sqrt(share * k) if damping is None else number("damping", damping)
        if not 0.0 <= c < np.inf:
            raise ArgumentError(f"damping: expected a number, 0 or more [N s/m], got {damping}")
    return contact_step.ContactLaw(
        dt, dt, APPROACH_SPEED * dt, SLOP, RECOVERY_SHARE, RECOVERY_SPEED, float(k), float(c), STICTION_SPEED,
        -1.0 if contact == "rigid" else TOLERANCE,
        PASSIVE * float(robot.mass) * 9.81 if contact == "frictional" else math.inf,
    )  # fmt: skip


def step_model(
    model: pin.Model,
    parents: NDArray[np.int64],
    actuators: Actuators,
    spheres: list[Placed],
    ground: Ground,
    law: contact_step.ContactLaw,
) -> contact_step.StepModel:
    """What stays from step to step; spheres by centre in their joint's frame, radius, joint and its last column."""
    joints = [model.joints[sphere.joint] for sphere in spheres]
    clusters, around = _clusters(spheres)
    return contact_step.StepModel(
        parents,
        actuators.robot.actuated_index,
        actuators.damping,
        actuators.friction,
        np.array([s.in_joint for s in spheres], dtype=np.float64).reshape(-1, 3),
        np.array([s.radius for s in spheres], dtype=np.float64),
        np.array([s.joint for s in spheres], dtype=np.int64),
        np.array([joint.idx_v + joint.nv - 1 for joint in joints], dtype=np.int64),
        clusters,
        around,
        ground,
        law,
    )


def _clusters(spheres: list[Placed]) -> tuple[NDArray[np.int64], Array]:
    """Runs of spheres that one joint carries: the first after each, and a sphere around it (c, 4) [m]."""
    ends: list[int] = []
    around: list[list[float]] = []
    first = 0
    for end in range(1, len(spheres) + 1):
        if end < len(spheres) and spheres[end].joint == spheres[first].joint:
            continue
        centres = np.array([s.in_joint for s in spheres[first:end]])
        middle = 0.5 * (centres.min(axis=0) + centres.max(axis=0))
        radii = np.array([s.radius for s in spheres[first:end]])
        ends.append(end)
        around.append([*middle, float((np.linalg.norm(centres - middle, axis=1) + radii).max())])
        first = end
    return np.array(ends, dtype=np.int64), np.array(around, dtype=np.float64).reshape(-1, 4)


def placements(data: pin.Data, joints: int) -> Array:
    """A view (joints, 12) of all joint placements of `data`: the rotation column by column, then the translation.

    Pinocchio hands them out one by one, at a microsecond each; they are contiguous in its memory, which is checked.

    Raises:
        QuaddynError: they do not: this is no Pinocchio 4.1.
    """
    first = data.oMi[0].rotation
    start, stride = first.ctypes.data, 12 * first.itemsize
    for i in range(joints):
        rotation, translation = data.oMi[i].rotation, data.oMi[i].translation
        here = (rotation.ctypes.data, rotation.strides, translation.ctypes.data)
        if here != (start + i * stride, (8, 24), start + i * stride + 72):
            raise QuaddynError("Pinocchio keeps joint placements in an unknown way; this package needs pin 4.1")
    return np.lib.stride_tricks.as_strided(first.T, (joints, 12), (stride, 8), writeable=False)
