"""Frames on bodies: placement, Jacobian, velocity and drift, in Pinocchio's three reference frames.

Results are linear before angular, unlike inside this subpackage.  A frame's twist ``V_f = Ad(T_bf^-1) V_b`` in its own
axes is "local"; along world axes it is "local_world_aligned"; ``Ad(T_wf) V_f`` is "world", the spatial twist about the
world's origin (Lynch and Park 2017, sections 3.3.2 and 5.1).
"""

from __future__ import annotations

import numpy as np

from .algebra import Ad, Array, inverse, rigid_motion, swap
from .kinematics import BodyPlacements, accelerations, body_jacobians, twists

REFERENCES = ("local_world_aligned", "local", "world")


def placement(at: BodyPlacements, frame: tuple[int, Array]) -> Array:
    """Returns the placement (4, 4) in the world of a frame, given by its body and its placement in it."""
    body, T = frame
    return at.T_world[body] @ T if body >= 0 else T


def jacobian(at: BodyPlacements, frame: tuple[int, Array], reference: str) -> Array:
    """Returns the Jacobian J (6, nv) with ``velocity = J v``."""
    body, T = frame
    J = body_jacobians(at)[body] if body >= 0 else np.zeros((6, at.model.nv))
    return np.asarray(swap() @ _frame_map(at, frame, reference) @ Ad(inverse(T)) @ J)


def velocity(at: BodyPlacements, frame: tuple[int, Array], v: Array, reference: str) -> Array:
    """Returns the velocity (6,), computed by the recursion of twists instead of the Jacobian."""
    body, T = frame
    V = twists(at, v)[body] if body >= 0 else np.zeros(6)
    return np.asarray(swap() @ _frame_map(at, frame, reference) @ Ad(inverse(T)) @ V)


def drift(at: BodyPlacements, frame: tuple[int, Array], v: Array, reference: str) -> Array:
    """Returns ``dJ/dt v`` (6,): the derivative of the velocity at zero joint acceleration.

    The components of a body twist, and of the spatial twist about a fixed point, change by the spatial acceleration,
    mapped as twists are.  Along world axes at the frame's moving origin the linear part is the classical acceleration
    ``R (a + omega x v)`` (Featherstone, RBDA 2008, section 2.11).
    """
    body, T = frame
    if body < 0:
        return np.zeros(6)
    V = twists(at, v)
    A = accelerations(at, V, v, np.zeros(at.model.nv), np.zeros(6))
    X = Ad(inverse(T))
    V_f, A_f = X @ V[body], X @ A[body]
    if reference == "local_world_aligned":
        A_f = A_f + np.concatenate([np.zeros(3), np.cross(V_f[:3], V_f[3:])])
    return np.asarray(swap() @ _frame_map(at, frame, reference) @ A_f)


def wrench(at: BodyPlacements, frame: tuple[int, Array], force: Array) -> Array:
    """Returns the wrench (6,) in the body's frame, moment before force, of a force in world axes at a frame's origin.

    Args:
        at: the model at q.
        frame: frame on which the force acts: body and placement in it.
        force: (3,) force [N] or (6,) force and moment [N, N m], on the robot.
    """
    f, n = force[:3], force[3:] if force.size == 6 else np.zeros(3)
    here = rigid_motion(np.eye(3), placement(at, frame)[:3, 3])
    return np.asarray(Ad(inverse(here) @ at.T_world[frame[0]]).T @ np.concatenate([n, f]))


def _frame_map(at: BodyPlacements, frame: tuple[int, Array], reference: str) -> Array:
    """Returns the map (6, 6) of twists from the frame's own coordinates to those of `reference`."""
    T = placement(at, frame)
    if reference == "world":
        return Ad(T)
    if reference == "local":
        return np.eye(6)
    return Ad(rigid_motion(T[:3, :3], np.zeros(3)))
