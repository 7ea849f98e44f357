"""`make_embedded_walker`: a locomotion controller as records, for C99 and for batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...compiler import Record, interpret
from ...dynamics.joint_placements import make_world_jacobian
from ...errors import ArgumentError
from ...urdf.tree import Array
from ...wbc.embedded_data import make_embedded_controller
from ..ground_phase import GroundPhaseController
from ..modes import LocomotionMode
from ..morphology import FEET
from ..quadruped import Quadruped
from ..walker import Walker
from ..walking import WalkTasks
from .embedded_walker import EmbeddedWalker, WalkerOutput, reset_embedded_walker

#: Fields of `WalkTasks` that are views of the parameters of the whole-body controller.
TASK_BLOCKS = "com", "base", "fl", "fr", "rl", "rr"


def make_embedded_walker(walking: GroundPhaseController) -> EmbeddedWalker:
    """Returns a locomotion controller as records, before its first tick, with its gait, gains and nominal friction.

    Args:
        walking: the `GroundPhaseController` of a controller without terrain map and payload estimate, with the standard
            tasks.

    Raises:
        ArgumentError: the controller uses a feature that only Python has.
    """
    quad, wbc, records = walking.quadruped, walking.quadruped.wbc, walking.records.walker
    _require_exportable(quad, records)
    quad.capability.velocity_limits.gait_limits(quad.gait)
    embedded = make_embedded_controller(wbc._structure, wbc.dt, wbc.ramp_time)
    parameters, solver, tasks = embedded.data.inputs.parameters, wbc.solver, records.walk.tasks
    blocks = {name: _rebase(getattr(tasks, name), wbc.parameter_vector, parameters) for name in TASK_BLOCKS}
    limiter, limits = quad.torque_limiter, np.array(records.motors.limits)
    if limiter.element in wbc.tasks.values():
        limits = _rebase(limiter.limits, wbc.parameter_vector, parameters)
    walker = EmbeddedWalker(
        walker=Walker(
            walk=_copy(records.walk)._replace(tasks=WalkTasks(forces=np.zeros((4, 8)), **blocks)),
            landing=records.landing.copy(),
            folding=records.folding.copy(),
            initial_footwork=records.initial_footwork.copy(),
            motors=_copy(records.motors)._replace(limits=limits),
            terms=embedded.data.terms,
            foot_frames=records.foot_frames,
            jacobian=make_world_jacobian(quad.robot),
            displacements=records.displacements.copy(),
        ),
        wbc=embedded,
        output=WalkerOutput.allocate(contacts=4, tau=quad.robot.nu),
        foot_contacts=np.array([solver.names.index(foot) for foot in FEET], dtype=np.int64),
    )
    walk = walker.walker.walk
    walk.friction.friction = wbc.friction
    walk.parameters.lowering_fraction = quad.capability.slope_lowering
    with interpret():
        reset_embedded_walker(walker)
    return walker


def _require_exportable(quad: Quadruped, records: Walker) -> None:
    """Validates that compiled code computes all of a controller's ticks.

    Args:
        quad: components of the controller.
        records: its records.

    Raises:
        ArgumentError: it does not; names what must change.
    """
    wbc, data = quad.wbc, records.walk
    is_jumping = quad.mode in (LocomotionMode.CROUCHING, LocomotionMode.JUMPING) or records.landing.is_jump
    wbc._structure.levels.validate_parameters()
    custom = [element.name for _, element in wbc.solver.tables.custom_elements]
    force_tasks = wbc.solver.tables.force_tasks
    contacts = [wbc.contacts[foot].contact for foot in FEET if foot in wbc.contacts]
    for is_invalid, reason in (
        (is_jumping, "a jump is in progress; export it before or after the jump"),
        (
            any(wbc.contacts[foot].has_friction_override for foot in FEET if foot in wbc.contacts),
            "feet have friction coefficients of their own; set LocomotionController.friction instead",
        ),
        (quad.foothold_map is not None, "it has a terrain map; create it without terrain"),
        (quad.estimators.estimates_payload, 'it estimates the payload; create it without payload="estimated"'),
        (
            quad.robot.coupling is not None,
            f"joints of {quad.robot.name!r} depend on others; load it with mimic=False and loops=False",
        ),
        (bool(custom), f"the elements {', '.join(map(repr, custom))} are computed in Python; remove them"),
        (
            not data.parameters.writes_tasks,
            'its tasks "com", "base" or of the feet are custom ones; use the default tasks',
        ),
        (len(force_tasks) != 1 or force_tasks[0].contacts is not None, 'its only force task must be "forces"'),
        (len(contacts) < len(FEET) or any(c.kind != "point" for c in contacts), "its feet must be point contacts"),
        (not wbc.solver.tables.model.faces, "its friction cones must be pyramids"),
        (not set(FEET) <= set(wbc.solver.tables.frames), "its whole-body controller does not use all feet"),
    ):
        if is_invalid:
            raise ArgumentError(f"controller: cannot be exported or run in a batch: {reason}")


def _copy(x: Any) -> Any:
    """Returns a tree of named tuples with copies of all records and arrays."""
    if isinstance(x, Record):
        return x.copy()
    if isinstance(x, np.ndarray):
        return x.copy()
    return type(x)(*map(_copy, x)) if isinstance(x, tuple) else x


def _rebase(view: Array, memory: Array, copy: Array) -> Array:
    """Returns the view of `copy` that `view` is of `memory`, at the same offset.

    Raises:
        ArgumentError: it is not a view of `memory`.
    """
    begin = (view.ctypes.data - memory.ctypes.data) // view.itemsize
    if not 0 <= begin <= len(memory) - len(view):
        raise ArgumentError(
            "controller: cannot be exported or run in a batch: an element belongs to another controller"
        )
    return copy[begin : begin + len(view)]
