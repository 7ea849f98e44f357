"""Classical Runge-Kutta step on the configuration manifold of a robot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pinocchio as pin

from ..robot.algorithms import Algorithms
from ..urdf.tree import Array


def rk4_step(
    algorithms: Algorithms,
    model: pin.Model,
    data: pin.Data,
    q: Array,
    v: Array,
    force: Callable[[Array], Array],
    dt: float,
) -> tuple[Array, Array]:
    """Returns the state after one fourth-order step, with rotations on the manifold.

    Configurations are ``q (+) theta`` with theta in the tangent space at q, which starts at 0 and obeys ``theta' =
    A(theta)^-1 v`` with the derivative A of (+) with respect to theta. This is the method of Munthe-Kaas (1998,
    "Runge-Kutta methods on Lie groups"), with A inverted instead of expanded.

    Args:
        algorithms: algorithms of the robot.
        model: Pinocchio model, including armature.
        data: Pinocchio data of `model`.
        q: (nq,) configuration.
        v: (nv,) velocity.
        force: function that returns the generalized forces (nv,) at a configuration.
        dt: time step [s].

    Returns:
        Configuration (nq,) and velocity (nv,).
    """
    theta, rates, accelerations = np.zeros(len(v)), [], []
    velocity = v
    for step_fraction in (0.5, 0.5, 1.0, 0.0):
        q_stage = algorithms.integrate(model, q, theta)
        A = algorithms.dIntegrate(model, q, theta, pin.ARG1)
        rates.append(np.linalg.solve(A, velocity))
        accelerations.append(algorithms.aba(model, data, q_stage, velocity, force(q_stage)).copy())
        theta, velocity = step_fraction * dt * rates[-1], v + step_fraction * dt * accelerations[-1]
    weights = dt * np.array([1.0, 2.0, 2.0, 1.0]) / 6.0
    displacement: Array = weights @ np.array(rates)
    return algorithms.integrate(model, q, displacement), v + weights @ np.array(accelerations)
