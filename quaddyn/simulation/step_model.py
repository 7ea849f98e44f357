"""Constant data of the compiled step, computed once from robot, terrain and arguments of a `Simulation`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..dynamics.kinematic_tree import last_moving_row, make_kinematic_tree
from ..errors import ArgumentError
from ..robot.arguments import check_number
from ..robot.robot import Robot
from ..urdf.tree import Array
from . import contact_data, contact_step
from .actuators import Drives
from .contact_data import JointStops
from .plant import DIVERGENCE_SPEED
from .spheres import PlacedSphere
from .terrain import TerrainArrays

#: Spheres that would reach the ground within one step at this speed [m/s] take part in the contact problem.
MAX_APPROACH_SPEED = 20.0
#: Penetration that is not corrected [m], fraction of a deeper one corrected per step, and maximum speed of that [m/s].
SLOP, RECOVERY_FRACTION, RECOVERY_SPEED = 1e-4, 0.1, 0.1
#: Joint speed below which Coulomb friction becomes viscous [rad/s or m/s].
STICTION_SPEED = 1e-3
#: Positive work that a passive contact may do in a step, divided by the energy that lifts the robot by 1 m.
PASSIVE_WORK_FRACTION = 5e-12
#: Undamped natural frequency of the robot on compliant ground by default [Hz], and its damping ratio.
GROUND_FREQUENCY, GROUND_DAMPING = 15.0, 1.0


def make_contact_law(
    robot: Robot, contact: str, dt: float, stiffness: float | None, damping: float | None, creep: float = 0.0
) -> contact_data.ContactLaw:
    """Returns the contact law for arguments of `Simulation`.

    Raises:
        ArgumentError: stiffness, damping or creep is out of range, or the law does not have this parameter.
    """
    compliant, creep = contact == "compliant", check_number("creep", creep)
    if not 0.0 <= creep < np.inf:
        raise ArgumentError(f"creep: expected a number, 0 or more [m/s/N], got {creep}")
    if creep and not compliant:
        raise ArgumentError(f'creep: not accepted with contact={contact!r}; use contact="compliant"')
    if not compliant and not (stiffness is damping is None):
        raise ArgumentError(f'stiffness, damping: not accepted with contact={contact!r}; use contact="compliant"')
    ground_stiffness, ground_damping = np.inf, 0.0
    if compliant:
        angular_frequency, mass_per_foot = 2.0 * np.pi * GROUND_FREQUENCY, robot.mass / max(len(robot.feet), 1)
        ground_stiffness = (
            mass_per_foot * angular_frequency * angular_frequency
            if stiffness is None
            else check_number("stiffness", stiffness)
        )
        if not 0.0 < ground_stiffness < np.inf:
            raise ArgumentError(f"stiffness: expected a positive number [N/m], got {stiffness}")
        ground_damping = (
            2.0 * GROUND_DAMPING * np.sqrt(mass_per_foot * ground_stiffness)
            if damping is None
            else check_number("damping", damping)
        )
        if not 0.0 <= ground_damping < np.inf:
            raise ArgumentError(f"damping: expected a number, 0 or more [N s/m], got {damping}")
    return contact_data.ContactLaw(
        dt, dt, MAX_APPROACH_SPEED * dt, SLOP, RECOVERY_FRACTION, RECOVERY_SPEED, float(ground_stiffness),
        float(ground_damping), creep, STICTION_SPEED,
        -1.0 if contact == "rigid" else contact_step.TOLERANCE,
        PASSIVE_WORK_FRACTION * float(robot.mass) * 9.81 if contact == "frictional" else math.inf,
    )  # fmt: skip


def make_step_model(
    robot: Robot,
    drives: Drives,
    spheres: list[PlacedSphere],
    ground: TerrainArrays,
    stops: JointStops,
    law: contact_data.ContactLaw,
    integrator: str,
) -> contact_data.StepModel:
    """Returns the constant data of a plant: kinematic tree, contact spheres, terrain, joint stops and contact law."""
    model, coupling = robot.model, robot.coupling
    bodies, (clusters, cluster_spheres) = make_kinematic_tree(model, drives.armature, coupling), _group_spheres(spheres)
    last_rows = np.array([last_moving_row(bodies, s.joint) for s in spheres], dtype=np.int64)
    return contact_data.StepModel(
        bodies,
        drives.actuated,
        np.array([s.in_joint for s in spheres], dtype=np.float64).reshape(-1, 3),
        np.array([s.radius for s in spheres], dtype=np.float64),
        np.array([s.joint for s in spheres], dtype=np.int64),
        last_rows,
        last_rows if coupling is None else np.where(last_rows < 0, -1, robot.nv - 1),
        clusters,
        cluster_spheres,
        ground,
        stops,
        law,
        integrator == "adaptive",
        integrator == "rk4",
        robot.root == "free",
        float(robot.mass) * float(np.linalg.norm(model.gravity.linear)),
        DIVERGENCE_SPEED,
    )


def _group_spheres(spheres: list[PlacedSphere]) -> tuple[NDArray[np.int64], Array]:
    """Groups consecutive spheres on one joint.

    Returns:
        Index after the last sphere of each group (c,), and a bounding sphere of each: center and radius (c, 4) [m].
    """
    ends: list[int] = []
    bounding_spheres: list[list[float]] = []
    first_sphere = 0
    for end in range(1, len(spheres) + 1):
        if end < len(spheres) and spheres[end].joint == spheres[first_sphere].joint:
            continue
        centers = np.array([s.in_joint for s in spheres[first_sphere:end]])
        cluster_center = 0.5 * (centers.min(axis=0) + centers.max(axis=0))
        radii = np.array([s.radius for s in spheres[first_sphere:end]])
        ends.append(end)
        bounding_spheres.append(
            [*cluster_center, float((np.linalg.norm(centers - cluster_center, axis=1) + radii).max())]
        )
        first_sphere = end
    return np.array(ends, dtype=np.int64), np.array(bounding_spheres, dtype=np.float64).reshape(-1, 4)
