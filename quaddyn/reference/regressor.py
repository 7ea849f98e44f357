"""Joint torque regressor by unit parameters (source C, 2): column i is the inverse dynamics of delta_i = 1.

Per body ``delta = [Lxx Lxy Lxz Lyy Lyz Lzz lx ly lz m fv fc Ia]``, inertia and first moments about the body's frame.
Friction and rotor inertia of joints that mimic others are included in those of their leaders.
"""

from __future__ import annotations

import numpy as np

from .algebra import Array, ad, mass_properties, skew
from .kinematics import BodyPlacements, accelerations, body_jacobians, twists
from .model import Model

INERTIAL_PARAMETERS = ("Lxx", "Lxy", "Lxz", "Lyy", "Lyz", "Lzz", "lx", "ly", "lz", "m")
N_COLUMNS = 13


def unit_inertia(parameter: str) -> Array:
    """Returns the spatial inertia (6, 6) of a body whose named inertial parameter is 1 and all others 0."""
    G = np.zeros((6, 6))
    axes = ["xyz".index(letter) for letter in parameter[1:]]
    if parameter == "m":
        G[3:, 3:] = np.eye(3)
    elif len(axes) == 2:
        G[axes[0], axes[1]] = G[axes[1], axes[0]] = 1.0
    else:
        first = skew(np.eye(3)[axes[0]])
        G[:3, 3:], G[3:, :3] = first, -first
    return G


def parameters(model: Model) -> Array:
    """Returns delta (13 nb,) of the model in the order of `regressor`'s columns; a base fixed to the world first."""
    rows = [] if model.base is None else [_inertial_parameters(model.base), np.zeros(3)]
    for body in model.bodies:
        if body.name is not None:
            one = not (body.root or body.is_mimic) and body.v.stop - body.v.start == 1
            joint = (x[body.v.start] if one else 0.0 for x in (model.damping, model.friction, model.armature))
            rows += [_inertial_parameters(body.G), np.array([*joint])]
    return np.concatenate(rows)


def _inertial_parameters(G: Array) -> Array:
    """Returns the inertial parameters (10,) of a spatial inertia (6, 6)."""
    mass, com, _ = mass_properties(G)
    return np.array([*G[:3, :3][np.triu_indices(3)], *(mass * com), mass])


def regressor(at: BodyPlacements, v: Array, a: Array) -> Array:
    """Returns H (nv, 13 nb) with ``tau = H delta``; a base fixed to the world comes first, with columns of zeros.

    With a parameter of a single body, all wrenches of the closed form but one vanish (source A, 4), so that its column
    is ``J_k^T (G A_k + V_k x* G V_k)`` with G the unit inertia.  Friction and rotors act on one-dof joints only.
    """
    model = at.model
    V = twists(at, v)
    A = accelerations(at, V, v, a, np.concatenate([np.zeros(3), -model.gravity]))
    J = body_jacobians(at)
    blocks = [] if model.base is None else [np.zeros((model.nv, N_COLUMNS))]
    units = [unit_inertia(parameter) for parameter in INERTIAL_PARAMETERS]
    for i, body in enumerate(model.bodies):
        if body.name is None:
            continue
        H = np.zeros((model.nv, N_COLUMNS))
        wrenches = np.stack([G @ A[i] - ad(V[i]).T @ (G @ V[i]) for G in units], axis=1)
        H[:, : len(INERTIAL_PARAMETERS)] = J[i].T @ wrenches
        if not (body.root or body.is_mimic) and body.v.stop - body.v.start == 1:
            k = body.v.start
            H[k, len(INERTIAL_PARAMETERS) :] = v[k], np.sign(v[k]), a[k]
        blocks.append(H)
    return np.concatenate(blocks, axis=1)
