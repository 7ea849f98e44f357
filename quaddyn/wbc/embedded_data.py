"""`make_embedded_controller`: a controller as arrays, for C99 and for batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..contact import friction_pyramid, pyramid_friction_ratio
from ..robot.robot import Robot
from ..urdf.tree import Array
from .contact_ramps import make_ramps
from .controller_structure import ControllerStructure
from .embedded import ControllerProgress, EmbeddedController
from .tick_solver import TickSolver


def make_embedded_controller(structure: ControllerStructure, dt: float, ramp_time: float) -> EmbeddedController:
    """Returns a copy of a controller as arrays, before its first tick.

    Args:
        structure: elements and contacts of the controller; no element may be a custom one.
        dt: control period [s].
        ramp_time: time over which contacts are made and broken [s].
    """
    solver = structure.solver
    robot, data, count, scale = solver.robot, solver.make_first_tick_data(), len(solver.names), solver.scales
    size = solver.result_size
    return EmbeddedController(
        data=data,
        ramps=make_ramps(count),
        values=np.zeros(size),
        last=np.zeros(size),
        requested=np.zeros(count, dtype=np.int64),
        progress=ControllerProgress.allocate(),
        home=np.array(robot.q_home, dtype=np.float64),
        unit_norm_parts=_unit_norm_parts(robot),
        frictionless_pyramids=_frictionless_pyramids(solver),
        activation_step=dt / ramp_time if ramp_time > 0.0 else np.inf,
        weight=scale.mass * scale.gravity,
        pyramid_friction_ratio=pyramid_friction_ratio(data.model.faces) if data.model.faces else 0.0,
    )


def _unit_norm_parts(robot: Robot) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Returns first index and size (n, 2) of each part of q that has unit norm, such as a quaternion."""
    return np.array([(first, size) for _, first, size in robot.unit_norm_slices], dtype=np.int64).reshape(-1, 2)


def _frictionless_pyramids(solver: TickSolver) -> Array:
    """Returns the rows (contacts, faces + 1, 3) of the friction pyramids at zero friction; zeros without a pyramid."""
    faces, contacts = solver.tables.model.faces, solver.contacts
    pyramids = np.zeros((len(contacts), faces + 1, 3))
    for rows, settings in zip(pyramids, contacts, strict=True):
        if faces and settings.contact.unilateral and settings.contact.kind != "surface":
            rows[:] = friction_pyramid(replace(settings.contact, friction=0.0), faces=faces)
    return pyramids
