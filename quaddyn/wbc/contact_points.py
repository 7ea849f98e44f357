"""Contact points at one instant: Jacobian, drift, and what each contact prescribes strictly.

The contact point of a spherical foot is the point of the sphere that lies deepest along the contact's normal n,
``p = c - r n``.  Its force acts there, and held still is the material point that is there now: velocity
``v_c + omega x (-r n)``.  Since p stays below the centre as the foot turns, the acceleration that rolling without
slipping forbids is ``a_c + alpha x (-r n)``, which has no term ``omega x (omega x r)``.
"""

from __future__ import annotations

from ..compiler import Matrix, Vector, compiled, zeros
from .data import (
    BILATERAL,
    COMPLIANT,
    FORCE,
    MOTION,
    NOTHING,
    Contacts,
    Frame,
    Inputs,
    Model,
    Points,
    Terms,
    Work,
    frame_of,
)


@compiled()
def add_cross(a: Vector, b: Vector, out: Vector) -> None:
    """``out += a x b``."""
    out[0] += a[1] * b[2] - a[2] * b[1]
    out[1] += a[2] * b[0] - a[0] * b[2]
    out[2] += a[0] * b[1] - a[1] * b[0]


@compiled()
def rotated(R: Matrix, x: Vector, out: Vector) -> None:
    """``out = R x``."""
    for i in range(3):
        out[i] = R[i, 0] * x[0] + R[i, 1] * x[1] + R[i, 2] * x[2]


@compiled()
def move_jacobian(frame: Frame, lever: Vector, out: Matrix) -> None:
    """Jacobian of the point at `lever` from a frame's origin, over its chain: ``J_p = J - lever x J_angular``."""
    J = frame.jacobian
    for k in range(len(frame.chain)):
        x, y, z = J[3, k], J[4, k], J[5, k]
        out[0, k] = J[0, k] + y * lever[2] - z * lever[1]
        out[1, k] = J[1, k] + z * lever[0] - x * lever[2]
        out[2, k] = J[2, k] + x * lever[1] - y * lever[0]
        out[3, k] = x
        out[4, k] = y
        out[5, k] = z


@compiled()
def contact_lever(contacts: Contacts, frame: Frame, c: int, arm: Vector, lever: Vector) -> None:
    """From the origin of a contact's frame to where it touches; `arm` is the part that turns with the body."""
    rotated(frame.rotation, contacts.offset[c], arm)
    for i in range(3):
        lever[i] = arm[i] - contacts.radius[c] * contacts.normal[c, i]


@compiled()
def add_turning(omega: Vector, arm: Vector, out: Vector) -> None:
    """``out += omega x (omega x arm)``."""
    turned = zeros(3)
    add_cross(omega, arm, turned)
    add_cross(omega, turned, out)


@compiled(inline=False)
def locate_contact(contacts: Contacts, points: Points, frame: Frame, work: Work, c: int, damping: float) -> None:
    """Geometry of contact c, and what it prescribes strictly."""
    arm, lever, speed = work.vectors[0], work.vectors[1], work.vectors[2]
    omega = frame.velocity[3:]
    contact_lever(contacts, frame, c, arm, lever)
    turns = False
    for i in range(3):
        turns = turns or contacts.offset[c, i] != 0.0
    move_jacobian(frame, lever, points.jacobian[c])
    drift, size = points.drift[c], contacts.size[c]
    for i in range(6):
        speed[i] = frame.velocity[i]
        drift[i] = frame.drift[i]
    add_cross(omega, lever, speed)
    add_cross(frame.drift[3:], lever, drift)
    if turns:  # the arm turns with the body, the sphere's radius does not
        add_turning(omega, arm, drift)
    role = contacts.role[c]
    if role == COMPLIANT:
        depth, closing = contacts.height[c], 0.0
        for i in range(3):
            depth -= contacts.normal[c, i] * (frame.origin[i] + lever[i])
            closing += contacts.normal[c, i] * speed[i]
        pressing = 0.0
        if depth > 0.0:
            pressing = max(0.0, contacts.stiffness[c] * depth - contacts.damping[c] * closing)
        for i in range(size):
            points.wanted[c, i] = pressing * contacts.normal[c, i] if i < 3 else 0.0
        points.strict[c] = FORCE
    else:
        for i in range(size):
            points.wanted[c, i] = -damping * speed[i]
        points.strict[c] = MOTION if role <= BILATERAL and contacts.share[c] >= 1.0 else NOTHING


@compiled()
def locate_contacts(model: Model, terms: Terms, contacts: Contacts, points: Points, inputs: Inputs, work: Work) -> int:
    """All contacts that may carry force; how many components their forces have."""
    damping = inputs.numbers[model.held] if model.held >= 0 else 0.0
    column = 0
    for c in range(len(contacts.size)):
        points.column[c] = -1
        points.strict[c] = NOTHING
        if contacts.share[c] > 0.0:
            points.column[c] = column
            column += contacts.size[c]
            locate_contact(contacts, points, frame_of(terms, model, contacts.frame[c]), work, c, damping)
            if model.held < 0:
                points.strict[c] = NOTHING
    return column
