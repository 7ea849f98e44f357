"""`ContactMotion`: closed contacts do not move."""

from __future__ import annotations

from ...compiler import compiled
from ...robot.arguments import check_positive
from ...robot.robot import Robot
from ..element import ElementKind, Layout, RowCounts, ScalarParameter
from ..row_writing import Item, add_force_equality, add_motion_equality, tag_equality_contact
from ..scales import scales
from ..tick_data import ContactRole, StrictQuantity, TickContext
from .constraint import Constraint

AXES = ("x", "y", "z", "rx", "ry", "rz")
#: Rows 0 to 5 are the motion of a contact; the rows of a spring force start here.
FIRST_SPRING_ROW = 6


class ContactMotion(Constraint):
    r"""Contact points at rest: three rows of each closed point contact, six of a surface, with d the damping.

    .. math::

        J_c\, a + \dot J_c v = -d\, J_c v

    The damping removes the velocity that a contact has when it is made, and numerical drift.  For a compliant contact,
    the constraint sets its force to that of its spring instead.  While a contact is made or broken its rows are
    weighted instead of strict: see `quaddyn.wbc.controller`.  Use it on level 0 of every controller with contacts.

    Args:
        robot: the robot.
        damping: d [1/s]; ``10 sqrt(g / l)`` with l the leg length if None.
        name: name of the constraint in the controller.

    Attributes:
        damping: d [1/s], the default if None was given; may be set at any time.
    """

    damping = ScalarParameter(0)

    def __init__(self, robot: Robot, *, damping: float | None = None, name: str = "contact") -> None:
        super().__init__(name, 1, robot=robot)
        self.damping = (
            10.0 * scales(robot).frequency if damping is None else check_positive("damping", damping, zero=True)
        )

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns a layout of one parameter, and a row for each component of the forces."""
        return Layout(0, 1, equalities=counts.forces)

    def row_name(self, contact: str, row: int) -> str:
        """Returns the name of a row for explanations."""
        return f"{contact} contact {AXES[row]}" if row < FIRST_SPRING_ROW else f"{contact} spring"

    def row_unit(self, row: int) -> str:
        """Returns the unit of a row."""
        return "m/s^2" if row < FIRST_SPRING_ROW else "N"


@compiled(inline=False)
def write_one_contact_motion(item: Item, t: TickContext, c: int, weight: float) -> None:
    """Writes ``J a + drift = -damping v`` of contact c."""
    table = t.model.chains[t.contacts.frame[c]]
    chain = table[1 : 1 + table[0]]
    for i in range(t.contacts.size[c]):
        target = t.points.target[c, i] - t.points.drift[c, i]
        add_motion_equality(t, t.points.jacobian[c, i], chain, target, weight, item.element_index, i)
        tag_equality_contact(t.rows, c)


@compiled(inline=False)
def write_contact_motion_rows(item: Item, t: TickContext) -> None:
    """Writes the rows of closed contacts, and the forces of compliant ones, unless contacts are eliminated."""
    if not t.contacts_as_rows:
        return
    for c in range(len(t.contacts.size)):
        if t.points.first_force[c] < 0 or t.points.strict_kind[c] == StrictQuantity.NOTHING:
            continue
        if t.points.strict_kind[c] == StrictQuantity.MOTION:
            write_one_contact_motion(item, t, c, 1.0)
        else:
            for i in range(t.contacts.size[c]):
                add_force_equality(
                    t, c, i, t.points.target[c, i], 1.0 / t.model.mass, item.element_index, FIRST_SPRING_ROW + i
                )


@compiled(inline=False)
def write_ramped_contact_rows(item: Item, t: TickContext, level: int) -> None:
    """Writes the rows of one level for contacts that are being made or broken, unless a foot task blends them.

    The rows move from the last level to the first.  On each level their weight grows from 0 to infinity, ``p / (1 -
    p)`` with the progress p, and then they start on the level above.
    """
    lower_levels = max(1, t.model.levels - 1)
    for c in range(len(t.contacts.size)):
        activation = t.contacts.activation[c]
        has_foot_task = t.contacts.foot_task[c] >= 0 and t.contacts.size[c] == 3
        if not 0.0 < activation < 1.0 or has_foot_task or t.contacts.role[c] > ContactRole.BILATERAL:
            continue
        levels_passed = min(int(activation * lower_levels), lower_levels - 1)
        if level == t.model.levels - 1 - levels_passed:
            progress = min(max(activation * lower_levels - levels_passed, 1e-6), 1.0 - 1e-6)
            write_one_contact_motion(item, t, c, progress / (1.0 - progress))


ContactMotion.kind = ElementKind(101, write_contact_motion_rows)
