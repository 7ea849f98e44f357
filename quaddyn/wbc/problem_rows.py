"""The rows of all levels over the unknowns: for each level, those of each of its elements."""

from __future__ import annotations

from ..compiler import Vector, compiled
from .codes import (
    COLLISION_LIMITS,
    COM,
    CONTACT_MOTION,
    CUSTOM,
    FOOT,
    FORCE_TASK,
    FRAME,
    FRAME_AXIS,
    FRAME_ORIENTATION,
    FRAME_POSITION,
    FRICTION_PYRAMID,
    HELD_OBJECT,
    JOINT_ACCELERATION,
    JOINT_BOUNDS,
    JOINT_FRICTION,
    MOMENTUM,
    NORMAL_FORCE,
    POSTURE,
    RELATIVE_FRAME,
    TORQUE_LIMITS,
    TORQUE_RATE,
)
from .constraints.collision_rows import collision_limit_rows
from .constraints.contact_motion import contact_motion_rows, yielding_rows
from .constraints.friction_pyramid import friction_pyramid_rows
from .constraints.held_object_rows import held_object_rows
from .constraints.joint_bound_rows import joint_bound_rows
from .constraints.joint_friction import add_joint_friction, expect_velocity
from .constraints.normal_force import normal_force_rows
from .constraints.torque_limits import torque_limit_rows
from .constraints.torque_rate import torque_rate_rows
from .data import Instant, Model
from .rows import Item, custom_row, finish_equality, finish_limit, want_force, want_joint
from .tasks.com import com_capture, com_rows
from .tasks.foot import foot_rows
from .tasks.force import force_rows
from .tasks.frame import frame_capture, frame_rows
from .tasks.frame_axis import frame_axis_capture, frame_axis_rows
from .tasks.frame_orientation import frame_orientation_capture, frame_orientation_rows
from .tasks.frame_position import frame_position_capture, frame_position_rows
from .tasks.momentum import momentum_rows
from .tasks.posture import posture_capture, posture_rows
from .tasks.relative_frame import relative_frame_capture, relative_frame_rows

# Columns of a row of `Model.items`.
LEVEL, CODE, START, SIZE, FIRST, SECOND = range(6)
# Entries of a custom row before the row itself: level, bounds, weight, element, row of it.
CUSTOM_HEAD = 6


@compiled()
def item_of(t: Instant, i: int) -> Item:
    """Element i."""
    table = t.model.items
    return Item(i, t.inputs.numbers[table[i, START] :], table[i, SIZE], table[i, FIRST], table[i, SECOND])


@compiled(inline=False)
def hold_references(t: Instant) -> None:
    """Motion tasks without a reference position take the present one; a foot's, unless its contact is made."""
    table = t.model.items
    for i in range(table.shape[0]):
        if table[i, CODE] < FORCE_TASK and t.inputs.numbers[table[i, START]] == 0.0:
            capture_reference(table[i, CODE], item_of(t, i), t)


@compiled()
def capture_reference(code: int, item: Item, t: Instant) -> None:
    """One task takes the present position for its reference; those without a position do nothing."""
    if code == COM:
        com_capture(item, t)
    elif code == FRAME_POSITION or (code == FOOT and (item.second < 0 or t.contacts.share[item.second] < 1.0)):
        frame_position_capture(item, t)
    elif code == FRAME_ORIENTATION:
        frame_orientation_capture(item, t)
    elif code == FRAME:
        frame_capture(item, t)
    elif code == RELATIVE_FRAME:
        relative_frame_capture(item, t)
    elif code == FRAME_AXIS:
        frame_axis_capture(item, t)
    elif code == POSTURE:
        posture_capture(item, t)


@compiled(inline=False)
def joint_friction(t: Instant) -> None:
    """Forces of the equations of motion at a = 0, with the friction of joints that elements count."""
    table, bias = t.model.items, t.work.bias
    for j in range(len(t.v)):
        bias[j] = t.terms.h[j]
    for i in range(table.shape[0]):
        if table[i, CODE] == JOINT_FRICTION:
            add_joint_friction(item_of(t, i), t, bias)


@compiled(inline=False)
def expect_velocities(t: Instant, acceleration: Vector) -> None:
    """What accelerations of this tick make of the velocities that the next one wants."""
    table = t.model.items
    for i in range(table.shape[0]):
        if table[i, CODE] == JOINT_FRICTION:
            expect_velocity(item_of(t, i), t, acceleration)


@compiled()
def element_rows(code: int, item: Item, t: Instant, full: bool) -> None:
    """The rows of one element."""
    if code == COM:
        com_rows(item, t)
    elif code == FRAME_POSITION:
        frame_position_rows(item, t)
    elif code == FOOT:
        foot_rows(item, t)
    elif code == FRAME_ORIENTATION:
        frame_orientation_rows(item, t)
    elif code == FRAME:
        frame_rows(item, t)
    elif code == RELATIVE_FRAME:
        relative_frame_rows(item, t)
    elif code == FRAME_AXIS:
        frame_axis_rows(item, t)
    elif code == POSTURE or code == JOINT_ACCELERATION:
        posture_rows(item, t)
    elif code == MOMENTUM:
        momentum_rows(item, t)
    elif code == FORCE_TASK:
        force_rows(item, t)
    elif code == CONTACT_MOTION:
        if full:  # else they have been solved for
            contact_motion_rows(item, t)
    elif code == FRICTION_PYRAMID:
        friction_pyramid_rows(item, t)
    elif code == NORMAL_FORCE:
        normal_force_rows(item, t)
    elif code == TORQUE_LIMITS:
        torque_limit_rows(item, t)
    elif code == TORQUE_RATE:
        torque_rate_rows(item, t)
    elif code == JOINT_BOUNDS:
        joint_bound_rows(item, t)
    elif code == COLLISION_LIMITS:
        collision_limit_rows(item, t)
    elif code == HELD_OBJECT:
        held_object_rows(item, t)
    elif code == CUSTOM:
        custom_rows(item, t)


@compiled(inline=False)
def custom_rows(item: Item, t: Instant) -> None:
    """Rows that an element computed in Python."""
    for i in range(t.inputs.custom_rows.shape[0]):
        z = t.inputs.custom_rows[i]
        if int(z[4]) != item.number:
            continue
        rows, row, n = t.rows, int(z[5]), t.maps.n
        if z[1] == z[2]:
            length = custom_row(t, z[CUSTOM_HEAD:], rows.A[rows.count[0]])
            finish_equality(rows, n, z[1], length, z[3], item.number, row)
        else:
            length = custom_row(t, z[CUSTOM_HEAD:], rows.C[rows.count[1]])
            finish_limit(rows, n, z[1], z[2], length, z[3], item.number, row)


@compiled()
def min_norm_rows(t: Instant) -> None:
    """Remaining freedom takes the minimum-norm solution: ``a_j = 0``, ``f / m = 0``."""
    for i in range(len(t.model.actuated)):
        want_joint(t, t.model.actuated[i], 0.0, 1.0, -1, i)
    for c in range(len(t.contacts.size)):
        if t.points.column[c] >= 0:
            for i in range(t.contacts.size[c]):
                want_force(t, c, i, 0.0, 1.0 / t.model.mass, -1, i)


@compiled()
def held_item(model: Model) -> int:
    """The element that holds contacts, -1 without one."""
    for i in range(model.items.shape[0]):
        if model.items[i, CODE] == CONTACT_MOTION:
            return i
    return -1


@compiled(inline=False)
def build_problem(t: Instant, full: bool, free: bool) -> None:
    """The rows of all levels.

    Args:
        t: the instant.
        full: whether contacts that hold are rows of level 0, rather than solved for beforehand.
        free: whether there is a level more, the minimum norm.
    """
    rows, table, held = t.rows, t.model.items, held_item(t.model)
    rows.count[0] = 0
    rows.count[1] = 0
    for level in range(t.model.levels):
        rows.A_start[level] = rows.count[0]
        rows.C_start[level] = rows.count[1]
        for i in range(table.shape[0]):
            if table[i, LEVEL] == level:
                element_rows(table[i, CODE], item_of(t, i), t, full)
        if held >= 0:
            yielding_rows(item_of(t, held), t, level)
    rows.A_start[t.model.levels] = rows.count[0]
    rows.C_start[t.model.levels] = rows.count[1]
    if free:
        min_norm_rows(t)
    rows.A_start[t.model.levels + 1] = rows.count[0]
    rows.C_start[t.model.levels + 1] = rows.count[1]
