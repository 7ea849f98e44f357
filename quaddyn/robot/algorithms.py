"""Pinocchio's algorithms in the coordinates of a robot with dependent joints (mimic joints or closed loops).

``robot.algorithms`` is Pinocchio itself if every joint is independent.  Otherwise it is a `CoupledAlgorithms`, whose
functions have the names, arguments and results of Pinocchio's, but take q (nq,) and v (nv,) of the independent joints;
model and data are those of all joints.  Pinocchio's own mimic joints (4.1) have no articulated-body algorithm,
derivatives or regressors, and must come after the joint that they follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pinocchio as pin

from ..errors import ModelError
from ..urdf.tree import Array
from .coupling import MimicCoupling

if TYPE_CHECKING:
    from .loops import LoopCoupling

#: Pinocchio's module, or what stands for it.
Algorithms = Any


def algorithms(coupling: MimicCoupling | LoopCoupling | None) -> Algorithms:
    """Returns Pinocchio's algorithms in the coordinates of the independent joints."""
    return pin if coupling is None else CoupledAlgorithms(coupling)


class CoupledAlgorithms:
    """Pinocchio's functions for a robot with dependent joints; see `quaddyn.robot.coupling`.

    Args:
        coupling: coupling of the joints of the robot.
    """

    def __init__(self, coupling: MimicCoupling | LoopCoupling) -> None:
        self._coupling, self._at = coupling, coupling.at

    # Configurations move joint by joint: what dependent joints do meanwhile does not matter to the independent ones.
    def _q(self, model: Any, q: Array) -> Array:
        out = np.array(pin.neutral(model))
        out[self._coupling.q_index] = q
        return out

    def _v(self, model: Any, v: Array) -> Array:
        out = np.zeros(model.nv)
        out[self._coupling.v_index] = v
        return out

    # -- configurations ---------------------------------------------------------------------------------------
    def neutral(self, model: Any) -> Array:
        """Returns the configuration (nq,) with the independent joints at zero."""
        return np.asarray(pin.neutral(model)[self._coupling.q_index])

    def isNormalized(self, model: Any, q: Array, tolerance: float) -> bool:  # Pinocchio's name
        """Returns whether quaternions and (cos, sin) pairs have unit norm, and all loops close."""
        return bool(pin.isNormalized(model, self._q(model, q), tolerance) and self._coupling.closes(q))

    def normalize(self, model: Any, q: Array) -> Array:
        """Returns q (nq,) with quaternions and (cos, sin) pairs normalized."""
        return np.asarray(pin.normalize(model, self._q(model, q))[self._coupling.q_index])

    def integrate(self, model: Any, q: Array, v: Array) -> Array:
        """Returns the configuration (nq,) that the velocity v (nv,) reaches from q in unit time."""
        return np.asarray(pin.integrate(model, self._q(model, q), self._v(model, v))[self._coupling.q_index])

    def dIntegrate(self, model: Any, q: Array, v: Array, argument: Any) -> Array:
        """Returns the derivative (nv, nv) of `integrate` with respect to one of its arguments."""
        index = self._coupling.v_index
        return np.asarray(pin.dIntegrate(model, self._q(model, q), self._v(model, v), argument)[np.ix_(index, index)])

    def difference(self, model: Any, q0: Array, q1: Array) -> Array:
        """Returns the velocity (nv,) that leads from q0 to q1 in unit time."""
        return np.asarray(pin.difference(model, self._q(model, q0), self._q(model, q1))[self._coupling.v_index])

    def interpolate(self, model: Any, q0: Array, q1: Array, alpha: float) -> Array:
        """Returns the configuration (nq,) at the fraction `alpha` of the path from q0 to q1."""
        return np.asarray(pin.interpolate(model, self._q(model, q0), self._q(model, q1), alpha)[self._coupling.q_index])

    # -- kinematics -------------------------------------------------------------------------------------------
    def forwardKinematics(self, model: Any, data: Any, q: Array, *motion: Array) -> None:
        """Computes placements of all joints in `data`, and velocities and accelerations if v and a are given."""
        here = self._at(q)
        rates = [here.velocity(motion[0])] if motion else []
        pin.forwardKinematics(model, data, here.q, *rates, *(here.acceleration(motion[0], a) for a in motion[1:]))

    def framesForwardKinematics(self, model: Any, data: Any, q: Array) -> None:
        """Computes placements of all joints and frames in `data`."""
        pin.framesForwardKinematics(model, data, self._at(q).q)

    def computeJointJacobians(self, model: Any, data: Any, q: Array) -> None:
        """Computes the Jacobians of all joints in `data`."""
        pin.computeJointJacobians(model, data, self._at(q).q)

    def computeFrameJacobian(self, model: Any, data: Any, q: Array, frame: int, reference: Any) -> Array:
        """Returns the Jacobian (6, nv) of a frame."""
        here = self._at(q)
        return here.columns(pin.computeFrameJacobian(model, data, here.q, frame, reference))

    def centerOfMass(self, model: Any, data: Any, q: Array, *rest: Any) -> Array:
        """Returns the center of mass (3,) [m]; `rest` may be v, and whether subtrees are computed."""
        here = self._at(q)
        motion = [here.velocity(x) if isinstance(x, np.ndarray) else x for x in rest]
        return np.asarray(pin.centerOfMass(model, data, here.q, *motion))

    def jacobianCenterOfMass(self, model: Any, data: Any, q: Array, *rest: Any) -> Array:
        """Returns the Jacobian (3, nv) of the center of mass; `rest` may be whether subtrees are computed."""
        here = self._at(q)
        return here.columns(pin.jacobianCenterOfMass(model, data, here.q, *rest))

    def computeCentroidalMomentum(self, model: Any, data: Any, q: Array, v: Array) -> Any:
        """Returns the momentum about the center of mass."""
        here = self._at(q)
        return pin.computeCentroidalMomentum(model, data, here.q, here.velocity(v))

    def computeCentroidalMap(self, model: Any, data: Any, q: Array) -> Array:
        """Returns the centroidal momentum matrix (6, nv)."""
        here = self._at(q)
        return here.columns(pin.computeCentroidalMap(model, data, here.q))

    def computeCentroidalMomentumTimeVariation(self, model: Any, data: Any, q: Array, v: Array, a: Array) -> Any:
        """Returns the rate of change of the centroidal momentum."""
        here = self._at(q)
        motion = here.velocity(v), here.acceleration(v, a)
        return pin.computeCentroidalMomentumTimeVariation(model, data, here.q, *motion)

    def computeKineticEnergy(self, model: Any, data: Any, *motion: Array) -> float:
        """Returns the kinetic energy [J] at (q, v), or of the last forward kinematics in `data`."""
        if motion:
            here = self._at(motion[0])
            motion = here.q, here.velocity(motion[1])
        return float(pin.computeKineticEnergy(model, data, *motion))

    def computeDistances(self, model: Any, data: Any, geometry: Any, scratch: Any, q: Array) -> Any:
        """Computes the smallest distances of pairs of shapes."""
        return pin.computeDistances(model, data, geometry, scratch, self._at(q).q)

    # -- dynamics ---------------------------------------------------------------------------------------------
    def rnea(self, model: Any, data: Any, q: Array, v: Array, a: Array) -> Array:
        """Returns the generalized forces (nv,) of inverse dynamics."""
        here = self._at(q)
        return here.force(pin.rnea(model, data, here.q, here.velocity(v), here.acceleration(v, a)))

    def nonLinearEffects(self, model: Any, data: Any, q: Array, v: Array) -> Array:
        """Returns the Coriolis, centrifugal and gravity terms h (nv,)."""
        here = self._at(q)
        return here.force(pin.rnea(model, data, here.q, here.velocity(v), here.drift(v)))

    def computeGeneralizedGravity(self, model: Any, data: Any, q: Array) -> Array:
        """Returns the gravity term g (nv,)."""
        here = self._at(q)
        return here.force(pin.computeGeneralizedGravity(model, data, here.q))

    def crba(self, model: Any, data: Any, q: Array, convention: Any = pin.Convention.LOCAL) -> Array:
        """Returns the joint-space inertia M (nv, nv), both triangles filled."""
        here = self._at(q)
        return here.inertia(pin.crba(model, data, here.q, convention))

    def aba(self, model: Any, data: Any, q: Array, v: Array, tau: Array) -> Array:
        """Returns the accelerations (nv,) of forward dynamics, solved with M.

        Articulated bodies do not apply, because a force on one body acts on joints in other branches of the tree.
        """
        h = self.nonLinearEffects(model, data, q, v)
        return np.asarray(np.linalg.solve(self.crba(model, data, q), tau - h))

    def computeMinverse(self, model: Any, data: Any, q: Array) -> Array:
        """Returns the inverse (nv, nv) of M."""
        inverse = np.linalg.inv(self.crba(model, data, q))
        return np.asarray(0.5 * (inverse + inverse.T))

    def computeCoriolisMatrix(self, model: Any, data: Any, q: Array, v: Array) -> Array:
        """Returns ``G^T (C G + M dG/dt)`` (nv, nv), for which ``dM/dt = C + C^T`` holds."""
        here = self._at(q)
        C = here.square(pin.computeCoriolisMatrix(model, data, here.q, here.velocity(v)).copy())
        return C + here.columns((pin.crba(model, data, here.q, pin.Convention.LOCAL) @ here.rate(v)).T).T

    def computeRNEADerivatives(self, model: Any, data: Any, q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
        """Returns the derivatives (nv, nv) of inverse dynamics with respect to q, v and a.

        Raises:
            ModelError: the robot has closed loops, for which second derivatives of the loop closure would be needed.
        """
        self._refuse_loops("rnea_derivatives")
        here = self._at(q)
        parts = pin.computeRNEADerivatives(model, data, here.q, here.velocity(v), here.velocity(a))
        by_q, by_v, by_a = map(here.square, parts)
        return by_q, by_v, by_a

    def computeABADerivatives(
        self, model: Any, data: Any, q: Array, v: Array, tau: Array
    ) -> tuple[Array, Array, Array]:
        """Returns the derivatives (nv, nv) of forward dynamics with respect to q, v and tau.

        They are ``-M^-1`` times those of inverse dynamics (Carpentier and Mansard 2018).

        Raises:
            ModelError: the robot has closed loops.
        """
        self._refuse_loops("aba_derivatives")
        a, inverse = self.aba(model, data, q, v, tau), self.computeMinverse(model, data, q)
        by_q, by_v, _ = self.computeRNEADerivatives(model, data, q, v, a)
        return -inverse @ by_q, -inverse @ by_v, inverse

    def computeJointTorqueRegressor(self, model: Any, data: Any, q: Array, v: Array, a: Array) -> Array:
        """Returns the joint torque regressor (nv, 10 n_bodies)."""
        here = self._at(q)
        Y = pin.computeJointTorqueRegressor(model, data, here.q, here.velocity(v), here.acceleration(v, a))
        return here.columns(Y.reshape(len(here.G), -1).T).T

    def computeAllTerms(self, model: Any, data: Any, q: Array, v: Array) -> None:
        """Computes all terms in `data`, for all joints with zero accelerations of all joints."""
        here = self._at(q)
        pin.computeAllTerms(model, data, here.q, here.velocity(v))

    def _refuse_loops(self, what: str) -> None:
        if self._coupling.has_loops:
            raise ModelError(
                f"{what}: not available for a robot with closed loops; load the robot with loops=False, which leaves "
                "its loops open"
            )
