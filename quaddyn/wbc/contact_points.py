"""Kinematics of the contact points in the current state: Jacobian, drift, and the prescribed motion or force.

The contact point of a spherical foot is the point of the sphere that lies deepest along the contact normal n,
``p = c - r n`` with center c and radius r.  The contact force acts there.  A closed contact keeps the material point of
the foot at p at rest: its velocity is ``v_c + omega x (-r n)``.  Since p stays below the center while the foot rotates,
rolling without slipping forbids the acceleration ``a_c + alpha x (-r n)``, without a term ``omega x (omega x r)``.
"""

from __future__ import annotations

from ..compiler import Matrix, Vector, compiled, zeros
from .tick_data import (
    ContactPointData,
    ContactRole,
    ContactStateData,
    ControllerModel,
    FrameKinematics,
    RigidBodyTerms,
    StrictQuantity,
    TickInputData,
    TickScratch,
    frame_kinematics,
)


@compiled()
def add_cross(a: Vector, b: Vector, out: Vector) -> None:
    """Adds ``a x b`` to `out`."""
    out[0] += a[1] * b[2] - a[2] * b[1]
    out[1] += a[2] * b[0] - a[0] * b[2]
    out[2] += a[0] * b[1] - a[1] * b[0]


@compiled()
def rotate(R: Matrix, x: Vector, out: Vector) -> None:
    """Computes ``out = R x``."""
    for i in range(3):
        out[i] = R[i, 0] * x[0] + R[i, 1] * x[1] + R[i, 2] * x[2]


@compiled(inline=False)
def shift_jacobian(frame: FrameKinematics, lever: Vector, out: Matrix) -> None:
    """Computes the Jacobian of the point at `lever` from a frame's origin: ``J_p = J - lever x J_angular``."""
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
def compute_contact_lever(
    contacts: ContactStateData, frame: FrameKinematics, c: int, arm: Vector, lever: Vector
) -> None:
    """Computes the vector from the origin of a contact's frame to the contact point.

    Args:
        contacts: state of the contacts.
        frame: kinematics of the contact's frame.
        c: index of the contact.
        arm: (3,) takes the part that rotates with the body.
        lever: (3,) takes the vector.
    """
    rotate(frame.rotation, contacts.offset[c], arm)
    for i in range(3):
        lever[i] = arm[i] - contacts.radius[c] * contacts.normal[c, i]


@compiled()
def add_centripetal(omega: Vector, arm: Vector, out: Vector) -> None:
    """Adds ``omega x (omega x arm)`` to `out`."""
    tangential = zeros(3)
    add_cross(omega, arm, tangential)
    add_cross(omega, tangential, out)


@compiled(inline=False)
def locate_contact(
    contacts: ContactStateData,
    points: ContactPointData,
    frame: FrameKinematics,
    work: TickScratch,
    c: int,
    damping: float,
) -> None:
    """Computes the kinematics of contact c, and its target: the force of a compliant contact, or an acceleration."""
    arm, lever, point_velocity = work.vectors[0], work.vectors[1], work.vectors[2]
    omega = frame.velocity[3:]
    compute_contact_lever(contacts, frame, c, arm, lever)
    has_arm = False
    for i in range(3):
        has_arm = has_arm or contacts.offset[c, i] != 0.0
    shift_jacobian(frame, lever, points.jacobian[c])
    drift, size = points.drift[c], contacts.size[c]
    for i in range(6):
        point_velocity[i] = frame.velocity[i]
        drift[i] = frame.drift[i]
    add_cross(omega, lever, point_velocity)
    add_cross(frame.drift[3:], lever, drift)
    if has_arm:  # the arm rotates with the body, the radius of the sphere does not
        add_centripetal(omega, arm, drift)
    role = contacts.role[c]
    if role == ContactRole.COMPLIANT:
        depth, closing_speed = contacts.surface_height[c], 0.0
        for i in range(3):
            depth -= contacts.normal[c, i] * (frame.origin[i] + lever[i])
            closing_speed += contacts.normal[c, i] * point_velocity[i]
        spring_force = 0.0
        if depth > 0.0:
            spring_force = max(0.0, contacts.stiffness[c] * depth - contacts.damping[c] * closing_speed)
        for i in range(size):
            points.target[c, i] = spring_force * contacts.normal[c, i] if i < 3 else 0.0
        points.strict_kind[c] = StrictQuantity.FORCE
    else:
        for i in range(size):
            points.target[c, i] = -damping * point_velocity[i]
        points.strict_kind[c] = (
            StrictQuantity.MOTION
            if role <= ContactRole.BILATERAL and contacts.activation[c] >= 1.0
            else StrictQuantity.NOTHING
        )


@compiled()
def locate_contacts(
    model: ControllerModel,
    terms: RigidBodyTerms,
    contacts: ContactStateData,
    points: ContactPointData,
    inputs: TickInputData,
    work: TickScratch,
) -> int:
    """Computes the kinematics of all active contacts.

    Returns:
        The number of components of their forces.
    """
    damping = inputs.parameters[model.contact_motion_start] if model.contact_motion_start >= 0 else 0.0
    n_forces = 0
    for c in range(len(contacts.size)):
        points.first_force[c] = -1
        points.strict_kind[c] = StrictQuantity.NOTHING
        if contacts.activation[c] > 0.0:
            points.first_force[c] = n_forces
            n_forces += contacts.size[c]
            locate_contact(contacts, points, frame_kinematics(terms, model, contacts.frame[c]), work, c, damping)
            if model.contact_motion_start < 0:
                points.strict_kind[c] = StrictQuantity.NOTHING
    return n_forces
