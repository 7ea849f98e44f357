"""`FootTask`: a foot in the air, and one that comes to its contact or leaves it."""

from __future__ import annotations

from ...compiler import compiled
from ..codes import FOOT
from ..data import BILATERAL, Instant, frame_of
from ..element import Layout, ReferenceResolver, RowCounts
from ..rows import Item, want_motion
from ..tick import Rows, Tick
from .frame_position import FramePositionTask, frame_position_rows
from .motion import desired, motion_parameters, position_found


class FootTask(FramePositionTask):
    r"""A foot in the air: its sphere's centre, world axes [m].

    It acts only while the foot is no contact.  While the contact is made or broken, task and contact share the foot:
    with s the contact's share, which goes from 0 to 1, its Jacobian J_c and the acceleration it prescribes,

    .. math::

        \left((1 - s)\, J_p + s\, J_c\right) a =
        (1 - s)\,(a^\star - \dot J_p v) + s\,(-d\, J_c v - \dot J_c v), \qquad w = \frac{w^\star}{1 - s}

    with the weight w, so that a constraint is the limit of a weighted row; see `quaddyn.wbc.controller`.  Without
    a reference the foot stays where it was when it was lifted.
    """

    code = FOOT

    def rows(self, tick: Tick) -> list[Rows]:
        """The rows of a class derived from this one, in Python; the same as `foot_rows`."""
        contact = tick.foot(self.frame)
        if contact is None or not contact.is_motion_constrained:
            return super().rows(tick)
        s, share, damping = tick.state, contact.activation, tick.contact_damping
        if share >= 1.0 or contact.size != 3 or damping is None:
            return []
        J = (1.0 - share) * self.jacobian(s) + share * contact.jacobian
        wanted = (1.0 - share) * (self.desired(s) - self.drift(s))
        wanted -= share * (damping * contact.velocity + contact.drift)
        return [Rows(self.row_names, "m/s^2", wanted, wanted, acceleration=J, weights=self.weight / (1.0 - share))]

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """The frame, and the contact of the same foot."""
        return references.add_frame(self.frame), references.foot_contact_number(self.frame)

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Like that of a frame's position, and a contact, -1 for none."""
        return super().declare_layout(counts)._replace(second=range(-1, counts.contacts))


@compiled(inline=False)
def foot_rows(item: Item, t: Instant) -> None:
    """Rows of a foot in the air; `foot_shared_rows` while its contact comes or goes; none while it holds."""
    c = item.second
    if c < 0 or t.points.column[c] < 0 or t.contacts.role[c] > BILATERAL:
        frame_position_rows(item, t)
    elif t.model.held >= 0 and t.contacts.share[c] < 1.0 and t.contacts.size[c] == 3:
        foot_shared_rows(item, t, c, t.contacts.share[c])


@compiled(inline=False)
def foot_shared_rows(item: Item, t: Instant, c: int, share: float) -> None:
    """Rows that pass from the task to contact c as its share s goes from 0 to 1.

    The point that is guided moves from the sphere's centre to the contact point, the wanted acceleration from the
    task's to the contact's, and the weight from the task's own to infinity, ``weight / (1 - s)``: a constraint of the
    level above is the limit of a weighted one.
    """
    p, frame, found = motion_parameters(item.numbers, 3), frame_of(t.terms, t.model, item.first), t.work.found
    position_found(p, frame.origin, frame.velocity, frame.drift, found)
    own, row, J = 1.0 - share, t.work.vectors[4], t.points.jacobian[c]
    for i in range(3):
        wanted = own * (desired(p, i, found[0, i], found[1, i]) - found[2, i])
        wanted += share * (t.points.wanted[c, i] - t.points.drift[c, i])
        for k in range(len(frame.chain)):
            row[k] = own * frame.jacobian[i, k] + share * J[i, k]
        want_motion(t, row, frame.chain, wanted, p.weight[i] / own, item.number, i)
