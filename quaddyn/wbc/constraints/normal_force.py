"""`NormalForce`: bounds of normal contact forces."""

from __future__ import annotations

import math

from ...compiler import compiled
from ..contact_points import rotate
from ..element import Layout, RowCounts
from ..element_kind import ElementKind
from ..row_writing import Item, add_force_bounds
from ..tick_data import ContactRole, TickContext, frame_kinematics
from .constraint import Constraint

#: Row 0 is the normal force; the rows of a grip's force components start here.
FIRST_GRASP_ROW = 1


class NormalForce(Constraint):
    r"""Normal forces of unilateral contacts within the bounds of `ContactSettings.set_normal_force_bounds`.

    .. math::

        s\, f_{min} \le n \cdot f \le \min\left(f_{max},\; F \frac{s}{1 - s}\right)

    with s the activation of the contact, 1 once it is made, and F the robot's weight divided by the number of contacts;
    n is the contact normal, or the normal of the surface if the contact is a surface.

    While a contact is made or broken, the lower bound is scaled by the activation, and the upper bound is the cap of
    `quaddyn.wbc.contact_ramps.ContactRamps`.  Use it on level 0 of every controller with contacts.

    Args:
        name: name of the constraint in the controller.
    """

    unit = "N"

    def __init__(self, *, name: str = "normal force") -> None:
        super().__init__(name)

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns a layout without parameters, with at most one limit per force component."""
        return Layout(0, 0, limits=counts.forces)

    def row_name(self, contact: str, row: int) -> str:
        """Returns the name of a row for explanations."""
        return f"{contact} normal force" if row < FIRST_GRASP_ROW else f"{contact} grip"


@compiled(inline=False)
def write_normal_force_rows(item: Item, t: TickContext) -> None:
    """Writes the bounds of the normal force of each unilateral contact, and the caps of the components of a grip."""
    contacts, axis = t.contacts, t.work.vectors[4]
    for c in range(len(contacts.size)):
        if t.points.first_force[c] < 0 or contacts.role[c] == ContactRole.COMPLIANT:
            continue
        cap, size = min(contacts.max_force[c], contacts.cap[c]), contacts.size[c]
        axis[:6] = 0.0
        if contacts.is_unilateral[c] != 0:
            if contacts.is_surface[c] != 0:
                rotate(frame_kinematics(t.terms, t.model, contacts.frame[c]).rotation, contacts.surface_normal[c], axis)
            else:
                for i in range(3):
                    axis[i] = contacts.normal[c, i]
            lower = min(contacts.min_force[c] * contacts.activation[c], cap)
            add_force_bounds(t, c, axis, lower, cap, 1.0 / t.model.mass, item.element_index, 0)
        elif cap < math.inf:  # the components of a grip are ramped on every axis
            for i in range(size):
                bound = cap if i < 3 else cap * t.model.length
                axis[i] = 1.0
                add_force_bounds(t, c, axis, -bound, bound, 1.0 / t.model.mass, item.element_index, FIRST_GRASP_ROW + i)
                axis[i] = 0.0


NormalForce.kind = ElementKind(103, write_normal_force_rows)
