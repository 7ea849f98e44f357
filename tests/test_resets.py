"""Resets: afterwards a state does not depend on its history, except in fields without effect and in parameters."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from test_compiled_footwork import fill
from test_simulation_compiled import as_python

import quaddyn as qd
from quaddyn.locomotion import (
    LocomotionController,
    contact_estimation,
    friction_model,
    gait,
    ground_plane,
    landing,
    progress_monitor,
    slope_limiter,
    steering,
    trunk_controller,
    walk_start,
)
from quaddyn.locomotion.walker import Walker, lose_ground


@cache
def walker() -> Walker:
    """Records of a controller."""
    robot = qd.load("go2")
    controller = LocomotionController(robot, dt=2e-3)
    controller.compute(qd.Dynamics(robot).update(np.array(robot.q_home), np.zeros(robot.nv)))
    return controller._walking.records.walker


def flatten(value: Any, name: str) -> dict[str, np.ndarray]:
    """Returns all arrays of a record by name."""
    if isinstance(value, np.ndarray):
        return {name: value}
    fields = zip(value._fields, value, strict=True)
    return {key: x for field, each in fields for key, x in flatten(each, f"{name}.{field}").items()}


def after_reset(reset: Callable[[Walker], object], names: list[str], seed: int) -> dict[str, np.ndarray]:
    """Returns the arrays of the named records after a reset, before which they are random."""
    e = copy.deepcopy(walker())
    records = {name: e.landing if name == "landing" else getattr(e.walk, name) for name in names}
    for record in records.values():
        fill(record, np.random.default_rng(seed))
    with as_python():
        reset(e)
    return {key: x for name, record in records.items() for key, x in flatten(record, name).items()}


#: Resets, and the records that they reset.
RESETS: dict[str, tuple[Callable[[Walker], object], str]] = {
    "ground contact": (lambda e: contact_estimation.reset_ground_contact(e.walk.ground_contact), "ground_contact"),
    "contacts": (lambda e: contact_estimation.reset_contact_estimate(e.walk.contacts), "contacts"),
    "friction": (lambda e: friction_model.reset_friction_estimate(e.walk.friction_parameters, e.walk.slips), "slips"),
    "progress": (lambda e: progress_monitor.reset_progress(e.walk.progress), "progress"),
    "slope": (lambda e: slope_limiter.reset_slope(e.walk.slope), "slope"),
    "steering": (lambda e: steering.reset_steering(e.walk.steering), "steering"),
    "trunk": (lambda e: trunk_controller.reset_trunk(e.walk.trunk, 0.3), "trunk"),
    "gait": (lambda e: gait.restart_gait(e.walk.gait, e.walk.gait_limits.timing, 0.5), "gait"),
    "plane of unknown terrain": (lambda e: ground_plane.advance_slope(e.walk.ground, 1.0), "ground"),
    "walk": (
        lambda e: walk_start.begin_walk(e.walk, e.initial_footwork, 0.1),
        "gait path ground ground_contact contacts progress steering trunk footwork",
    ),
    "loss of the ground": (lose_ground, "landing ground_contact contacts gait"),
    "tick in the air": (lambda e: landing.extend_legs(e.landing, e.walk), "landing"),
    "end of a landing": (lambda e: landing.balance_landing(e.landing, e.walk, True), "ground_contact contacts trunk"),
}
#: Fields that every reset may keep: parameters, outputs of the next tick, and values that a flag makes invalid.
KEPT = {
    "ground_contact": "dt|last_rate|last_feet|ground_force",
    "contacts": r"observer\.(dt|beta|damping|friction|stiction_speed|actuated|p|drive|current)|rotors\..*|residual|"
    r"trigger\.(.*threshold.*|dwell_time|passed_since|changed)|in_contact|is_known|is_followed",
    "slips": r"slip\.motion|loads\..*",
    "progress": "alpha",
    "slope": "min_velocity_change|uphill|evaluated_.*",
    "steering": "dt|friction|is_transitioning",
    "trunk": "slope_lowering|base_weight.*|references.*",
    "gait": r"trot\..*",
    "path": "",
    "ground": "next_footholds|map_height|map_center",
    "footwork": "",
    "landing": "reach|com_weight|in_contact|positions|velocities|acceleration|jump_yaw",
}
#: Additional fields that single resets keep.
ALSO_KEPT = {
    "tick in the air": r"landing\.(settled_time|stopping_distance|is_com_weight_changed|is_jump)",
    "plane of unknown terrain": r"ground\.(points|has_next_foothold|slope)",
    "end of a landing": r"trunk\.(height|com_offset|tilt_trim|desired_height|desired_rate)",
}


@pytest.mark.parametrize("name", RESETS)
def test_state_after_a_reset_does_not_depend_on_its_history(name: str) -> None:
    reset, records = RESETS[name]
    one, other = (after_reset(reset, records.split(), seed) for seed in (0, 1))
    kept = "|".join([*(rf"{record}\.({KEPT[record]})" for record in records.split()), ALSO_KEPT.get(name, "-")])
    changed = [key for key in one if not np.array_equal(one[key], other[key], equal_nan=True)]
    assert [key for key in changed if not re.fullmatch(kept, key)] == []
