"""`ContactMotion`: contacts that hold do not move."""

from __future__ import annotations

from ...compiler import compiled
from ...robot.arguments import positive
from ...robot.robot import Robot
from ..block import Scalar
from ..codes import CONTACT_MOTION
from ..data import BILATERAL, MOTION, NOTHING, Instant
from ..element import Layout, RowCounts
from ..rows import Item, name_equality, want_force, want_motion
from ..scales import scales
from .constraint import Constraint

AXES = ("x", "y", "z", "rx", "ry", "rz")
#: Rows of a contact's motion come first, then those of a spring's force.
SPRING = 6


class ContactMotion(Constraint):
    r"""Contacts that hold do not move: at each contact point (all six rows of a surface), with d the damping.

    .. math::

        J_c\, a + \dot J_c v = -d\, J_c v

    The damping takes out what velocity a contact has when it is made, and what numerics add.  A compliant contact's
    force is set equal to that of its spring here.  While a contact is made or broken its rows are not strict: see
    `quaddyn.wbc.controller`.

    Args:
        robot: the robot.
        damping: [1/s]; ``10 sqrt(g / l)`` by default.
        name: by which the controller knows it.

    Attributes:
        damping: as given; may be set at any time.
    """

    code = CONTACT_MOTION
    damping = Scalar(0)

    def __init__(self, robot: Robot, *, damping: float | None = None, name: str = "contact") -> None:
        super().__init__(name, 1, robot=robot)
        self.damping = 10.0 * scales(robot).frequency if damping is None else positive("damping", damping, zero=True)

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """The damping; rows for every force of a contact that holds, and of one that is made or broken."""
        return Layout(0, 1, equalities=counts.forces)

    def row_name(self, contact: str, row: int) -> str:
        """Name of a row, for explanations."""
        return f"{contact} contact {AXES[row]}" if row < SPRING else f"{contact} spring"

    def row_unit(self, row: int) -> str:
        """Its unit."""
        return "m/s^2" if row < SPRING else "N"


@compiled(inline=False)
def resting_rows(item: Item, t: Instant, c: int, weight: float) -> None:
    """``J a + drift = -damping v`` of contact c."""
    table = t.model.chains[t.contacts.frame[c]]
    chain = table[1 : 1 + table[0]]
    for i in range(t.contacts.size[c]):
        wanted = t.points.wanted[c, i] - t.points.drift[c, i]
        want_motion(t, t.points.jacobian[c, i], chain, wanted, weight, item.number, i)
        name_equality(t.rows, c)


@compiled(inline=False)
def contact_motion_rows(item: Item, t: Instant) -> None:
    """Rows of contacts that hold, and the forces of compliant ones."""
    for c in range(len(t.contacts.size)):
        if t.points.column[c] < 0 or t.points.strict[c] == NOTHING:
            continue
        if t.points.strict[c] == MOTION:
            resting_rows(item, t, c, 1.0)
        else:
            for i in range(t.contacts.size[c]):
                want_force(t, c, i, t.points.wanted[c, i], 1.0 / t.model.mass, item.number, SPRING + i)


@compiled(inline=False)
def yielding_rows(item: Item, t: Instant, level: int) -> None:
    """Rows of contacts that come or go where no foot task shares the foot: they rise from the last level to the first.

    On each level their weight grows from 0 to infinity, ``p / (1 - p)``, where the next one starts.
    """
    below = max(1, t.model.levels - 1)
    for c in range(len(t.contacts.size)):
        share = t.contacts.share[c]
        guided = t.contacts.guide[c] >= 0 and t.contacts.size[c] == 3
        if not 0.0 < share < 1.0 or guided or t.contacts.role[c] > BILATERAL:
            continue
        passed = min(int(share * below), below - 1)
        if level == t.model.levels - 1 - passed:
            progress = min(max(share * below - passed, 1e-6), 1.0 - 1e-6)
            resting_rows(item, t, c, progress / (1.0 - progress))
