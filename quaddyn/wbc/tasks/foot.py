"""`FootTask`: the position of a swing foot, blended with its contact while that is made or broken."""

from __future__ import annotations

from ...compiler import compiled
from ..element import Layout, ReferenceResolver, RowCounts
from ..element_kind import ElementKind
from ..row_writing import Item, add_motion_equality
from ..tick import Rows, Tick
from ..tick_data import ContactRole, TickContext, frame_kinematics
from .frame_position import FramePositionTask, capture_frame_position_reference, write_frame_position_rows
from .motion_parameters import clear_motion_reference, desired_acceleration, motion_parameters, write_position_state


class FootTask(FramePositionTask):
    r"""Position of a swing foot: the center of its sphere, world axes [m].

    The task is active only while the foot is not in contact.  While the contact is made or broken, task and contact are
    blended.  With s the activation of the contact, which goes from 0 to 1, J_c its Jacobian, and the acceleration that
    it prescribes,

    .. math::

        \left((1 - s)\, J_p + s\, J_c\right) a =
        (1 - s)\,(a^\star - \dot J_p v) + s\,(-d\, J_c v - \dot J_c v), \qquad w = \frac{w^\star}{1 - s}

    with the weight w: the weighted row tends to the strict constraint as s tends to 1; see `quaddyn.wbc.controller`.
    Without a reference the foot keeps the position at which it was lifted.

    Args:
        robot: the robot.
        frame: name of the foot's frame.
        name: name of the task in the controller; the name of the frame if None.
        stiffness: scalar or (3,) [1/s^2]; ``(4 sqrt(g / l))^2`` with l the leg length if None.
        damping: scalar or (3,) [1/s]; critical damping if None.
        weight: scalar or (3,), relative to the other rows of the level, dimensionless.
        axes: labels of the rows to use; all if None.
    """

    def rows(self, tick: Tick) -> list[Rows]:
        """Returns the rows in Python, for derived classes; the same rows as those of `write_foot_rows`."""
        contact = tick.foot(self.frame)
        if contact is None or not contact.is_motion_constrained:
            return super().rows(tick)
        s, activation, damping = tick.state, contact.activation, tick.contact_damping
        if activation >= 1.0 or contact.size != 3 or damping is None:
            return []
        J = (1.0 - activation) * self.jacobian(s) + activation * contact.jacobian
        target = (1.0 - activation) * (self.desired(s) - self.drift(s))
        target -= activation * (damping * contact.velocity + contact.drift)
        return [Rows(self.row_names, "m/s^2", target, target, acceleration=J, weights=self.weight / (1.0 - activation))]

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """Returns the numbers of the frame and of the contact of the same foot."""
        return references.add_frame(self.frame), references.foot_contact_number(self.frame)

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns the layout of a frame position, with a contact as the second integer (-1 for none)."""
        return super().declare_layout(counts)._replace(second=range(-1, counts.contacts))


@compiled(inline=False)
def write_foot_rows(item: Item, t: TickContext) -> None:
    """Writes the rows of a swing foot; blended ones while its contact is made or broken, none while it is closed."""
    c = item.second
    if c < 0 or t.points.first_force[c] < 0 or t.contacts.role[c] > ContactRole.BILATERAL:
        write_frame_position_rows(item, t)
    elif t.model.contact_motion_start >= 0 and t.contacts.activation[c] < 1.0 and t.contacts.size[c] == 3:
        write_blended_foot_rows(item, t, c, t.contacts.activation[c])


@compiled(inline=False)
def write_blended_foot_rows(item: Item, t: TickContext, c: int, activation: float) -> None:
    """Writes the rows that are blended from the task to contact c as the activation s of c goes from 0 to 1.

    The guided point moves from the center of the sphere to the contact point, the desired acceleration from the task's
    to the contact's, and the weight from the task's to infinity, ``weight / (1 - s)``.
    """
    p, frame, task_state = (
        motion_parameters(item.parameters, 3),
        frame_kinematics(t.terms, t.model, item.first),
        t.work.task_state,
    )
    write_position_state(p, frame.origin, frame.velocity, frame.drift, task_state)
    task_fraction, row, J = 1.0 - activation, t.work.vectors[4], t.points.jacobian[c]
    for i in range(3):
        target = task_fraction * (desired_acceleration(p, i, task_state[0, i], task_state[1, i]) - task_state[2, i])
        target += activation * (t.points.target[c, i] - t.points.drift[c, i])
        for k in range(len(frame.chain)):
            row[k] = task_fraction * frame.jacobian[i, k] + activation * J[i, k]
        add_motion_equality(t, row, frame.chain, target, p.weight[i] / task_fraction, item.element_index, i)


@compiled()
def capture_foot_reference(item: Item, t: TickContext) -> None:
    """Sets the current position as the reference of the task, unless the contact of the foot is closed."""
    if item.second < 0 or t.contacts.activation[item.second] < 1.0:
        capture_frame_position_reference(item, t)


FootTask.kind = ElementKind(
    3, write_foot_rows, capture_reference=capture_foot_reference, clear_reference=clear_motion_reference
)
