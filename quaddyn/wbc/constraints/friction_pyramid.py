"""`FrictionPyramid`: contact forces inside Coulomb's cone."""

from __future__ import annotations

import math

from ...compiler import Vector, compiled
from ...contact.friction_cones import friction_share
from ..codes import FRICTION_PYRAMID
from ..contact_points import rotated
from ..data import FORCED, UNILATERAL, Instant, frame_of
from ..element import Layout, RowCounts
from ..rows import Item, bound_force
from .constraint import Constraint

#: Rows of a surface's cone are numbered from here on, beyond those of any pyramid.
SOLE = 1 << 20
#: Components below this are none.
ROUNDING = 1e-9
#: What each of them keeps, which is told by the components of the wrench that it is about.
KEEPS = ("normal force", "friction cone", "centre of pressure", "turning friction")


class FrictionPyramid(Constraint):
    r"""Forces of unilateral contacts stay in a pyramid *inside* Coulomb's cone, about each contact's own normal.

    With m faces whose outward directions d_i lie in the ground:

    .. math::

        d_i \cdot f \le \mu \cos(\pi / m)\, f_n, \qquad i = 1 \dots m

    Its edges touch the
    cone and its faces' middles stay inside it by the factor cos(pi / m): 0.707 for the default of 4, which forbids up
    to 29 % of the friction that Coulomb allows; 0.924 for 8.  (A pyramid with mu along the axes would allow sqrt(2) mu
    on the diagonals.)  A surface has the cone of wrenches of `quaddyn.contact.pyramid`: four faces, the centre of
    pressure inside, and a bounded moment about the normal; where it is a polygon, more rows.

    Args:
        faces: m, at least 3.
        name: by which the controller knows it.
    """

    code = FRICTION_PYRAMID
    unit = "N"

    def __init__(self, *, faces: int = 4, name: str = "friction") -> None:
        super().__init__(name)
        friction_share(faces)
        self._faces = int(faces)

    @property
    def faces(self) -> int:
        """Of each pyramid."""
        return self._faces

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """No parameters; the rows of all cones."""
        return Layout(0, 0, limits=counts.cone_rows)

    def row_name(self, contact: str, row: int) -> str:
        """Name of a row, for explanations."""
        return f"{contact} friction cone" if row < SOLE else f"{contact} {KEEPS[(row - SOLE) % len(KEEPS)]}"


@compiled()
def keeps(normal: Vector, row: Vector) -> int:
    """What a row of a surface's cone keeps, the normal in the axes of the row: its place in `KEEPS`."""
    turning, tilting, sliding, pressing = 0.0, 0.0, 0.0, 0.0
    for i in range(3):
        turning += normal[i] * row[3 + i]
        pressing += normal[i] * row[i]
    for i in range(3):
        tilting += abs(row[3 + i] - turning * normal[i])
        sliding += abs(row[i] - pressing * normal[i])
    if abs(turning) > ROUNDING:
        return 3
    if tilting > ROUNDING:
        return 2
    return 1 if sliding > ROUNDING else 0


@compiled(inline=False)
def friction_pyramid_rows(item: Item, t: Instant) -> None:
    """``cone @ f <= 0`` of each contact that pushes."""
    contacts, face = t.contacts, t.work.vectors[4]
    for c in range(len(contacts.size)):
        role = contacts.role[c]
        if t.points.column[c] < 0 or contacts.pushes[c] == 0 or (role != UNILATERAL and role != FORCED):
            continue
        for o in range(contacts.rows[c]):
            cone = contacts.cone[c, o]
            for i in range(6):
                face[i] = cone[i]
            if contacts.surface[c] != 0:
                R = frame_of(t.terms, t.model, contacts.frame[c]).rotation
                rotated(R, cone, face)
                rotated(R, cone[3:], face[3:])
            row = o if contacts.surface[c] == 0 else SOLE + 4 * o + keeps(contacts.face[c], cone)
            bound_force(t, c, face, -math.inf, 0.0, 1.0 / t.model.mass, item.number, row)
