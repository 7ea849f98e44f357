"""Wrong on purpose: the acceleration is that of the frame instead of the center of mass."""

import numpy as np


def rotation(axis: np.ndarray, angle: float) -> np.ndarray:
    """Returns the rotation matrix (3, 3) of an angle [rad] about a unit vector."""
    x, y, z = axis
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * K @ K


def rnea(bodies: list, gravity: np.ndarray, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Returns the joint torques (n,) [N m]; see the exercise."""
    n, tau = len(bodies), np.zeros(len(bodies))
    R, p = np.zeros((n, 3, 3)), np.zeros((n, 3))  # of each body in its parent
    omega, alpha, acceleration = np.zeros((3, n, 3))  # of the frame of each body, in its axes
    force, moment = np.zeros((2, n, 3))  # on each body through its joint, about the origin of its frame
    for i, body in enumerate(bodies):
        R[i], p[i] = body.T[:3, :3] @ rotation(body.axis, q[i]), body.T[:3, 3]
        if body.parent < 0:
            w, dw, dv = np.zeros(3), np.zeros(3), -gravity  # gravity as an acceleration of the world upward
        else:
            w, dw, dv = omega[body.parent], alpha[body.parent], acceleration[body.parent]
        along = body.axis * v[i]
        omega[i] = R[i].T @ w + along
        alpha[i] = R[i].T @ dw + np.cross(R[i].T @ w, along) + body.axis * a[i]
        acceleration[i] = R[i].T @ (dv + np.cross(dw, p[i]) + np.cross(w, np.cross(w, p[i])))
        c = body.com
        f = body.mass * acceleration[i]
        force[i] = f
        moment[i] = body.inertia @ alpha[i] + np.cross(omega[i], body.inertia @ omega[i]) + np.cross(c, f)
    for i in reversed(range(n)):
        tau[i] = bodies[i].axis @ moment[i]
        if (parent := bodies[i].parent) >= 0:
            force[parent] += R[i] @ force[i]
            moment[parent] += R[i] @ moment[i] + np.cross(p[i], R[i] @ force[i])
    return tau
