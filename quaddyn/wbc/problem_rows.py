"""Writing of the rows of all levels over the unknowns, level by level and element by element.

Loops over `ELEMENT_KINDS` are unrolled by the compiler.
"""

from __future__ import annotations

from ..compiler import Vector, compiled
from .constraints.contact_motion import ContactMotion, write_ramped_contact_rows
from .element_registry import ELEMENT_KINDS
from .row_writing import Item, add_force_equality, add_joint_equality, get_item
from .tasks.motion_parameters import has_reference, motion_parameters
from .tick_data import ControllerModel, TickContext


@compiled(inline=False)
def capture_missing_references(t: TickContext) -> None:
    """Sets the current position as the reference of motion tasks without one, except of feet with a closed contact."""
    for i in range(len(t.model.elements.code)):
        item = get_item(t.model, t.inputs, i)
        if len(item.parameters) > 0 and not has_reference(motion_parameters(item.parameters, item.size)):
            for kind in ELEMENT_KINDS:
                if t.model.elements.code[i] == kind.code:
                    kind.capture_reference(item, t)


@compiled(inline=False)
def write_bias_forces(t: TickContext) -> None:
    """Computes the bias forces of the equations of motion: h plus the joint friction that is compensated."""
    bias = t.work.bias
    bias[: len(t.v)] = t.terms.h[: len(t.v)]
    for i in range(len(t.model.elements.code)):
        for kind in ELEMENT_KINDS:
            if t.model.elements.code[i] == kind.code:
                kind.add_bias_forces(get_item(t.model, t.inputs, i), t, bias)


@compiled(inline=False)
def finish_elements(t: TickContext, acceleration: Vector) -> None:
    """Stores what the elements read at the next tick, such as the velocities predicted from the accelerations."""
    for i in range(len(t.model.elements.code)):
        for kind in ELEMENT_KINDS:
            if t.model.elements.code[i] == kind.code:
                kind.finish_tick(get_item(t.model, t.inputs, i), t, acceleration)


@compiled()
def write_element_rows(code: int, item: Item, t: TickContext) -> None:
    """Writes the rows of one element."""
    for kind in ELEMENT_KINDS:
        if code == kind.code:
            kind.write_rows(item, t)


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
    for i in range(len(model.elements.code)):
        if model.elements.code[i] == ContactMotion.kind.code:
            return i
    return -1


@compiled(inline=False)
def write_all_rows(t: TickContext, add_min_norm_level: bool) -> None:
    """Writes the rows of all levels.

    Args:
        t: the tick.
        add_min_norm_level: whether to add a level with the minimum-norm rows.
    """
    rows, elements, contact_motion = t.rows, t.model.elements, find_contact_motion(t.model)
    rows.n_equalities = 0
    rows.n_limits = 0
    for level in range(t.model.levels):
        rows.A_start[level] = rows.n_equalities
        rows.C_start[level] = rows.n_limits
        for i in range(len(elements.level)):
            if elements.level[i] == level:
                write_element_rows(elements.code[i], get_item(t.model, t.inputs, i), t)
        if contact_motion >= 0:
            write_ramped_contact_rows(get_item(t.model, t.inputs, contact_motion), t, level)
    rows.A_start[t.model.levels] = rows.n_equalities
    rows.C_start[t.model.levels] = rows.n_limits
    if add_min_norm_level:
        write_min_norm_rows(t)
    rows.A_start[t.model.levels + 1] = rows.n_equalities
    rows.C_start[t.model.levels + 1] = rows.n_limits
