"""What a `Simulation` makes once of its robot, ground and arguments, for the compiled step."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError
from ..robot.arguments import number
from ..robot.robot import Robot
from ..urdf.tree import Array
from . import contact_data, contact_step
from .bodies import bodies_of, last_mover
from .collisions import Ground
from .drives import Drives
from .plant import DIVERGENCE_SPEED
from .spheres import Placed
from .stops import Stops

#: A sphere takes part in the contact problem when it could reach the ground within one step at this speed [m/s].
APPROACH_SPEED = 20.0
#: Penetrations deeper than this [m] are undone: a share per step, at no more than this speed [m/s].
SLOP, RECOVERY_SHARE, RECOVERY_SPEED = 1e-4, 0.1, 0.1
#: Below this joint speed Coulomb friction turns into viscous friction [rad/s or m/s].
STICTION_SPEED = 1e-3
#: Positive work that a passive contact may do in a step, as a share of the energy that lifts the robot by 1 m.
PASSIVE = 5e-12
#: Rate at which a compliant ground's oscillation under the robot would go on undamped, and its damping ratio.
GROUND_FREQUENCY, GROUND_DAMPING = 15.0, 1.0


def contact_law(
    robot: Robot, contact: str, dt: float, stiffness: float | None, damping: float | None, creep: float = 0.0
) -> contact_data.ContactLaw:
    """Of the arguments of a `Simulation`.

    Raises:
        ArgumentError: a stiffness, damping or creep that is no such number, or of ground that has none.
    """
    compliant, creep = contact == "compliant", number("creep", creep)
    if not 0.0 <= creep < np.inf:
        raise ArgumentError(f"creep: expected a number, 0 or more [m/s/N], got {creep}")
    if creep and not compliant:
        raise ArgumentError(f'creep: only contact="compliant" has it, not {contact!r}')
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
    return contact_data.ContactLaw(
        dt, dt, APPROACH_SPEED * dt, SLOP, RECOVERY_SHARE, RECOVERY_SPEED, float(k), float(c), creep,
        STICTION_SPEED,
        -1.0 if contact == "rigid" else contact_step.TOLERANCE,
        PASSIVE * float(robot.mass) * 9.81 if contact == "frictional" else math.inf,
    )  # fmt: skip


def step_model(
    robot: Robot,
    drives: Drives,
    spheres: list[Placed],
    ground: Ground,
    stops: Stops,
    law: contact_data.ContactLaw,
    integrator: str,
) -> contact_data.StepModel:
    """What stays from step to step; spheres by centre in their joint's frame, radius, joint and its last column."""
    model, coupling = robot.model, robot.coupling
    bodies, (clusters, around) = bodies_of(model, drives.armature, coupling), _clusters(spheres)
    last = np.array([last_mover(bodies, s.joint) for s in spheres], dtype=np.int64)
    return contact_data.StepModel(
        bodies,
        drives.actuated,
        np.array([s.in_joint for s in spheres], dtype=np.float64).reshape(-1, 3),
        np.array([s.radius for s in spheres], dtype=np.float64),
        np.array([s.joint for s in spheres], dtype=np.int64),
        last,
        last if coupling is None else np.where(last < 0, -1, robot.nv - 1),
        clusters,
        around,
        ground,
        stops,
        law,
        integrator == "adaptive",
        integrator == "rk4",
        robot.root == "free",
        float(robot.mass) * float(np.linalg.norm(model.gravity.linear)),
        DIVERGENCE_SPEED,
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
