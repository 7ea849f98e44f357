"""Writing of the rows of all levels over the unknowns, level by level and element by element."""

from __future__ import annotations

from ..compiler import Vector, compiled
from .constraints.collision_rows import write_collision_rows
from .constraints.contact_motion import write_contact_motion_rows, write_ramped_contact_rows
from .constraints.friction_pyramid import write_friction_pyramid_rows
from .constraints.held_object_rows import write_held_object_rows
from .constraints.joint_bound_rows import write_joint_bound_rows
from .constraints.joint_friction import add_joint_friction, predict_velocity
from .constraints.normal_force import write_normal_force_rows
from .constraints.torque_limits import write_torque_limit_rows
from .constraints.torque_rate import write_torque_rate_rows
from .element_codes import (
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
from .row_writing import Item, add_force_equality, add_joint_equality, finish_equality, finish_limit, project_custom_row
from .tasks.com import capture_com_reference, write_com_rows
from .tasks.foot import write_foot_rows
from .tasks.force import write_force_rows
from .tasks.frame import capture_frame_reference, write_frame_rows
from .tasks.frame_axis import capture_frame_axis_reference, write_frame_axis_rows
from .tasks.frame_orientation import capture_frame_orientation_reference, write_frame_orientation_rows
from .tasks.frame_position import capture_frame_position_reference, write_frame_position_rows
from .tasks.momentum import write_momentum_rows
from .tasks.posture import capture_posture_reference, write_posture_rows
from .tasks.relative_frame import capture_relative_frame_reference, write_relative_frame_rows
from .tick_data import ControllerModel, TickContext

# Columns of a row of `ControllerModel.items`.
LEVEL, CODE, START, SIZE, FIRST, SECOND = range(6)
# Number of entries of a custom row before its coefficients: level, two bounds, weight, element, row of the element.
CUSTOM_ROW_HEADER_SIZE = 6


@compiled()
def get_item(t: TickContext, i: int) -> Item:
    """Returns task or constraint i."""
    table = t.model.items
    return Item(i, t.inputs.parameters[table[i, START] :], table[i, SIZE], table[i, FIRST], table[i, SECOND])


@compiled(inline=False)
def capture_missing_references(t: TickContext) -> None:
    """Sets the current position as the reference of motion tasks without one, except of feet with a closed contact."""
    table = t.model.items
    for i in range(table.shape[0]):
        if table[i, CODE] < FORCE_TASK and t.inputs.parameters[table[i, START]] == 0.0:
            capture_reference(table[i, CODE], get_item(t, i), t)


@compiled()
def capture_reference(code: int, item: Item, t: TickContext) -> None:
    """Sets the current position as the reference of one task; tasks without a position are unchanged."""
    if code == COM:
        capture_com_reference(item, t)
    elif code == FRAME_POSITION or (code == FOOT and (item.second < 0 or t.contacts.activation[item.second] < 1.0)):
        capture_frame_position_reference(item, t)
    elif code == FRAME_ORIENTATION:
        capture_frame_orientation_reference(item, t)
    elif code == FRAME:
        capture_frame_reference(item, t)
    elif code == RELATIVE_FRAME:
        capture_relative_frame_reference(item, t)
    elif code == FRAME_AXIS:
        capture_frame_axis_reference(item, t)
    elif code == POSTURE:
        capture_posture_reference(item, t)


@compiled(inline=False)
def write_bias_forces(t: TickContext) -> None:
    """Computes the bias forces of the equations of motion: h plus the joint friction that is compensated."""
    table, bias = t.model.items, t.work.bias
    for j in range(len(t.v)):
        bias[j] = t.terms.h[j]
    for i in range(table.shape[0]):
        if table[i, CODE] == JOINT_FRICTION:
            add_joint_friction(get_item(t, i), t, bias)


@compiled(inline=False)
def predict_velocities(t: TickContext, acceleration: Vector) -> None:
    """Updates the desired joint velocities of the next tick from the accelerations of this one."""
    table = t.model.items
    for i in range(table.shape[0]):
        if table[i, CODE] == JOINT_FRICTION:
            predict_velocity(get_item(t, i), t, acceleration)


@compiled()
def write_element_rows(code: int, item: Item, t: TickContext, contacts_as_rows: bool) -> None:
    """Writes the rows of one element."""
    if code == COM:
        write_com_rows(item, t)
    elif code == FRAME_POSITION:
        write_frame_position_rows(item, t)
    elif code == FOOT:
        write_foot_rows(item, t)
    elif code == FRAME_ORIENTATION:
        write_frame_orientation_rows(item, t)
    elif code == FRAME:
        write_frame_rows(item, t)
    elif code == RELATIVE_FRAME:
        write_relative_frame_rows(item, t)
    elif code == FRAME_AXIS:
        write_frame_axis_rows(item, t)
    elif code == POSTURE or code == JOINT_ACCELERATION:
        write_posture_rows(item, t)
    elif code == MOMENTUM:
        write_momentum_rows(item, t)
    elif code == FORCE_TASK:
        write_force_rows(item, t)
    elif code == CONTACT_MOTION:
        if contacts_as_rows:  # otherwise they have been eliminated
            write_contact_motion_rows(item, t)
    elif code == FRICTION_PYRAMID:
        write_friction_pyramid_rows(item, t)
    elif code == NORMAL_FORCE:
        write_normal_force_rows(item, t)
    elif code == TORQUE_LIMITS:
        write_torque_limit_rows(item, t)
    elif code == TORQUE_RATE:
        write_torque_rate_rows(item, t)
    elif code == JOINT_BOUNDS:
        write_joint_bound_rows(item, t)
    elif code == COLLISION_LIMITS:
        write_collision_rows(item, t)
    elif code == HELD_OBJECT:
        write_held_object_rows(item, t)
    elif code == CUSTOM:
        write_custom_element_rows(item, t)


@compiled(inline=False)
def write_custom_element_rows(item: Item, t: TickContext) -> None:
    """Writes the rows of one element that were computed in Python."""
    for i in range(t.inputs.custom_rows.shape[0]):
        z = t.inputs.custom_rows[i]
        if int(z[4]) != item.element_index:
            continue
        rows, row, n = t.rows, int(z[5]), t.maps.n
        if z[1] == z[2]:
            length = project_custom_row(t, z[CUSTOM_ROW_HEADER_SIZE:], rows.A[rows.n_equalities])
            finish_equality(rows, n, z[1], length, z[3], item.element_index, row)
        else:
            length = project_custom_row(t, z[CUSTOM_ROW_HEADER_SIZE:], rows.C[rows.n_limits])
            finish_limit(rows, n, z[1], z[2], length, z[3], item.element_index, row)


@compiled()
def write_min_norm_rows(t: TickContext) -> None:
    """Writes the rows ``a_j = 0``, ``f / m = 0``, which determine the remaining freedom by minimum norm."""
    for i in range(len(t.model.actuated)):
        add_joint_equality(t, t.model.actuated[i], 0.0, 1.0, -1, i)
    for c in range(len(t.contacts.size)):
        if t.points.first_force[c] >= 0:
            for i in range(t.contacts.size[c]):
                add_force_equality(t, c, i, 0.0, 1.0 / t.model.mass, -1, i)


@compiled()
def find_contact_motion(model: ControllerModel) -> int:
    """Returns the index of the element that keeps contacts at rest, -1 without one."""
    for i in range(model.items.shape[0]):
        if model.items[i, CODE] == CONTACT_MOTION:
            return i
    return -1


@compiled(inline=False)
def write_all_rows(t: TickContext, contacts_as_rows: bool, add_min_norm_level: bool) -> None:
    """Writes the rows of all levels.

    Args:
        t: the tick.
        contacts_as_rows: whether closed contacts are rows of level 0, instead of being eliminated beforehand.
        add_min_norm_level: whether to add a level with the minimum-norm rows.
    """
    rows, table, contact_motion = t.rows, t.model.items, find_contact_motion(t.model)
    rows.n_equalities = 0
    rows.n_limits = 0
    for level in range(t.model.levels):
        rows.A_start[level] = rows.n_equalities
        rows.C_start[level] = rows.n_limits
        for i in range(table.shape[0]):
            if table[i, LEVEL] == level:
                write_element_rows(table[i, CODE], get_item(t, i), t, contacts_as_rows)
        if contact_motion >= 0:
            write_ramped_contact_rows(get_item(t, contact_motion), t, level)
    rows.A_start[t.model.levels] = rows.n_equalities
    rows.C_start[t.model.levels] = rows.n_limits
    if add_min_norm_level:
        write_min_norm_rows(t)
    rows.A_start[t.model.levels + 1] = rows.n_equalities
    rows.C_start[t.model.levels + 1] = rows.n_limits
