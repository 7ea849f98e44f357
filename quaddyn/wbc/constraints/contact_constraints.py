"""Constraints of contacts.

- `ContactMotion`: closed contacts do not move.
- `FrictionPyramid`: contact forces within linearized Coulomb friction cones.
- `NormalForce`: bounds of normal contact forces.
"""

from __future__ import annotations

import math

from ...compiler import Vector, compiled
from ...contact.contact import pyramid_friction_ratio
from ...robot.arguments import check_positive
from ...robot.robot import Robot
from ..contact_points import rotate
from ..element import ElementKind, Layout, RowCounts, ScalarParameter, scales
from ..row_writing import Item, add_force_bounds, add_force_equality, add_motion_equality, tag_equality_contact
from ..tick_data import ContactRole, StrictQuantity, TickContext, frame_kinematics
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


#: Index of the first row of a surface's cone, beyond the rows of any pyramid.
FIRST_SURFACE_ROW = 1 << 20
#: Components of a row below this value are rounding errors.
ROUNDING_TOLERANCE = 1e-9
#: Names of the conditions that a row of a surface's cone may express.
CONE_ROW_NAMES = ("normal force", "friction cone", "center of pressure", "torsional friction")


class FrictionPyramid(Constraint):
    r"""Forces of unilateral contacts within a pyramid *inside* Coulomb's cone, about the normal of each contact.

    With m faces whose outward directions d_i lie in the ground plane:

    .. math::

        d_i \cdot f \le \mu \cos(\pi / m)\, f_n, \qquad i = 1 \dots m

    The edges of the pyramid lie on the cone, and the middles of its faces are inside by the factor cos(pi / m): 0.707
    for the default of 4 faces, which excludes up to 29 % of the friction that Coulomb's law allows; 0.924 for 8.  (A
    pyramid with mu along the axes would allow sqrt(2) mu on the diagonals.)  A surface has the wrench cone of
    `quaddyn.contact.friction_pyramid`: four faces, the center of pressure inside, and a bounded moment about the
    normal; a polygon has more rows.  Use it on level 0 of every controller with contacts.

    Args:
        faces: m, number of faces, at least 3.
        name: name of the constraint in the controller.

    Source: Caron, Pham, Nakamura 2015, "Stability of surface contacts for humanoid robots: closed-form formulae of the
    contact wrench cone for rectangular support areas", for surfaces.
    """

    unit = "N"

    def __init__(self, *, faces: int = 4, name: str = "friction") -> None:
        super().__init__(name)
        pyramid_friction_ratio(faces)
        self._faces = int(faces)

    @property
    def faces(self) -> int:
        """Number of faces of each pyramid."""
        return self._faces

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns the layout: no parameters, and as many limit rows as the friction pyramids of all contacts have."""
        return Layout(0, 0, limits=counts.max_cone_rows)

    def row_name(self, contact: str, row: int) -> str:
        """Returns the name of a row for explanations."""
        return (
            f"{contact} friction cone"
            if row < FIRST_SURFACE_ROW
            else f"{contact} {CONE_ROW_NAMES[(row - FIRST_SURFACE_ROW) % len(CONE_ROW_NAMES)]}"
        )


@compiled()
def classify_cone_row(normal: Vector, row: Vector) -> int:
    """Returns which condition a row of a surface's wrench cone expresses, as an index of `CONE_ROW_NAMES`.

    Args:
        normal: (3,) normal of the surface, in the axes of the row.
        row: (6,) the row.
    """
    moment_about_normal, tangential_moment, tangential_force, normal_force = 0.0, 0.0, 0.0, 0.0
    for i in range(3):
        moment_about_normal += normal[i] * row[3 + i]
        normal_force += normal[i] * row[i]
    for i in range(3):
        tangential_moment += abs(row[3 + i] - moment_about_normal * normal[i])
        tangential_force += abs(row[i] - normal_force * normal[i])
    if abs(moment_about_normal) > ROUNDING_TOLERANCE:
        return 3
    if tangential_moment > ROUNDING_TOLERANCE:
        return 2
    return 1 if tangential_force > ROUNDING_TOLERANCE else 0


@compiled(inline=False)
def write_friction_pyramid_rows(item: Item, t: TickContext) -> None:
    """Writes ``cone @ f <= 0`` for each unilateral contact."""
    contacts, face = t.contacts, t.work.vectors[4]
    for c in range(len(contacts.size)):
        role = contacts.role[c]
        if (
            t.points.first_force[c] < 0
            or contacts.is_unilateral[c] == 0
            or (role != ContactRole.UNILATERAL and role != ContactRole.FORCED)
        ):
            continue
        for cone_row in range(contacts.cone_row_count[c]):
            cone = contacts.cone[c, cone_row]
            face[:6] = cone[:6]
            if contacts.is_surface[c] != 0:
                R = frame_kinematics(t.terms, t.model, contacts.frame[c]).rotation
                rotate(R, cone, face)
                rotate(R, cone[3:], face[3:])
            row = (
                cone_row
                if contacts.is_surface[c] == 0
                else FIRST_SURFACE_ROW + 4 * cone_row + classify_cone_row(contacts.surface_normal[c], cone)
            )
            add_force_bounds(t, c, face, -math.inf, 0.0, 1.0 / t.model.mass, item.element_index, row)


FrictionPyramid.kind = ElementKind(102, write_friction_pyramid_rows)


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
