"""`NormalForce`: bounds of normal forces."""

from __future__ import annotations

import math

from ...compiler import compiled
from ..codes import NORMAL_FORCE
from ..contact_points import rotated
from ..data import COMPLIANT, Instant, frame_of
from ..element import Layout, RowCounts
from ..rows import Item, bound_force
from .constraint import Constraint

#: The row of a normal force comes first, then those of a grip's components.
GRIP = 1


class NormalForce(Constraint):
    r"""Normal forces of unilateral contacts between their bounds, `ContactSettings.limit`.

    .. math::

        s\, f_{min} \le n \cdot f \le \min\left(f_{max},\; F \frac{s}{1 - s}\right)

    with s the share of the contact, 1 once it is made, and F the weight over the number of contacts; n is the contact's
    normal, and of a surface that of the surface itself.

    While a contact is made or broken the least force counts in proportion to its share, and the largest is its cap: see
    `quaddyn.wbc.ramps.ContactRamps`.

    Args:
        name: by which the controller knows it.
    """

    code = NORMAL_FORCE
    unit = "N"

    def __init__(self, *, name: str = "normal force") -> None:
        super().__init__(name)

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """No parameters; at most one row for every force component."""
        return Layout(0, 0, limits=counts.forces)

    def row_name(self, contact: str, row: int) -> str:
        """Name of a row, for explanations."""
        return f"{contact} normal force" if row < GRIP else f"{contact} grip"


@compiled(inline=False)
def normal_force_rows(item: Item, t: Instant) -> None:
    """``least <= n . f <= largest`` of each contact that pushes; a grip's components within its cap."""
    contacts, axis = t.contacts, t.work.vectors[4]
    for c in range(len(contacts.size)):
        if t.points.column[c] < 0 or contacts.role[c] == COMPLIANT:
            continue
        cap, size = min(contacts.largest[c], contacts.cap[c]), contacts.size[c]
        for i in range(6):
            axis[i] = 0.0
        if contacts.pushes[c] != 0:
            if contacts.surface[c] != 0:
                rotated(frame_of(t.terms, t.model, contacts.frame[c]).rotation, contacts.face[c], axis)
            else:
                for i in range(3):
                    axis[i] = contacts.normal[c, i]
            least = min(contacts.least[c] * contacts.share[c], cap)
            bound_force(t, c, axis, least, cap, 1.0 / t.model.mass, item.number, 0)
        elif cap < math.inf:  # a grip fades in and out on every axis
            for i in range(size):
                bound = cap if i < 3 else cap * t.model.length
                axis[i] = 1.0
                bound_force(t, c, axis, -bound, bound, 1.0 / t.model.mass, item.number, GRIP + i)
                axis[i] = 0.0
