"""Pinocchio's algorithms in the coordinates of a robot whose joints may mimic others.

``robot.algorithms`` is Pinocchio itself where every joint is independent.  Otherwise it is a `Coupled`, whose functions
have the names, arguments and results of Pinocchio's, in the robot's own q (nq,) and v (nv,); the model and its data
stay those of all joints.  (Pinocchio's own mimic joints, of 4.1, have no articulated bodies, derivatives or regressors,
and must come after the joint that they follow.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio as pin

from ..urdf.tree import Array
from .coupling import Coupling

#: Pinocchio's module, or what stands for it.
Algorithms = Any


def algorithms(coupling: Coupling | None) -> Algorithms:
    """Pinocchio's algorithms in the coordinates of the independent joints."""
    return pin if coupling is None else Coupled(coupling)


class Coupled:
    """Pinocchio's functions for a robot with joints that mimic others; see `quaddyn.robot.coupling`.

    Args:
        coupling: of the robot.
    """

    def __init__(self, coupling: Coupling) -> None:
        self._coupling = coupling
        self._q, self._v = coupling.configuration, coupling.velocity

    # -- configurations ---------------------------------------------------------------------------------------
    def neutral(self, model: Any) -> Array:
        """(nq,) independent joints at zero."""
        return np.asarray(pin.neutral(model)[self._coupling.q_index])

    def isNormalized(self, model: Any, q: Array, tolerance: float) -> bool:  # Pinocchio's name
        """Whether quaternions and (cos, sin) pairs have unit length."""
        return bool(pin.isNormalized(model, self._q(q), tolerance))

    def normalize(self, model: Any, q: Array) -> Array:
        """(nq,) q with those of unit length."""
        return np.asarray(pin.normalize(model, self._q(q))[self._coupling.q_index])

    def integrate(self, model: Any, q: Array, v: Array) -> Array:
        """(nq,) where v (nv,) leads from q in unit time."""
        return np.asarray(pin.integrate(model, self._q(q), self._v(v))[self._coupling.q_index])

    def dIntegrate(self, model: Any, q: Array, v: Array, argument: Any) -> Array:
        """(nv, nv) derivative of `integrate`, which moves joints one by one, by one of its arguments."""
        index = self._coupling.v_index
        return np.asarray(pin.dIntegrate(model, self._q(q), self._v(v), argument)[np.ix_(index, index)])

    def difference(self, model: Any, q0: Array, q1: Array) -> Array:
        """(nv,) the velocity from q0 to q1 in unit time."""
        return np.asarray(pin.difference(model, self._q(q0), self._q(q1))[self._coupling.v_index])

    def interpolate(self, model: Any, q0: Array, q1: Array, share: float) -> Array:
        """(nq,) on the way from q0 to q1."""
        return np.asarray(pin.interpolate(model, self._q(q0), self._q(q1), share)[self._coupling.q_index])

    # -- kinematics -------------------------------------------------------------------------------------------
    def forwardKinematics(self, model: Any, data: Any, q: Array, *motion: Array) -> None:
        """Placements of all joints, and velocities and accelerations where v and a are given."""
        pin.forwardKinematics(model, data, self._q(q), *map(self._v, motion))

    def framesForwardKinematics(self, model: Any, data: Any, q: Array) -> None:
        """Placements of all joints and frames."""
        pin.framesForwardKinematics(model, data, self._q(q))

    def computeJointJacobians(self, model: Any, data: Any, q: Array) -> None:
        """Into data, for all joints."""
        pin.computeJointJacobians(model, data, self._q(q))

    def computeFrameJacobian(self, model: Any, data: Any, q: Array, frame: int, reference: Any) -> Array:
        """(6, nv)."""
        return self._coupling.columns(pin.computeFrameJacobian(model, data, self._q(q), frame, reference))

    def getFrameJacobian(self, model: Any, data: Any, frame: int, reference: Any) -> Array:
        """(6, nv), after `computeJointJacobians` and the frame's placement."""
        return self._coupling.columns(pin.getFrameJacobian(model, data, frame, reference))

    def centerOfMass(self, model: Any, data: Any, q: Array, *rest: Any) -> Array:
        """(3,); `rest` may be v, and whether subtrees are wanted."""
        motion = [self._v(x) if isinstance(x, np.ndarray) else x for x in rest]
        return np.asarray(pin.centerOfMass(model, data, self._q(q), *motion))

    def jacobianCenterOfMass(self, model: Any, data: Any, *rest: Any) -> Array:
        """(3, nv); `rest` may be q, and whether subtrees are wanted."""
        where = [self._q(x) if isinstance(x, np.ndarray) else x for x in rest]
        return self._coupling.columns(pin.jacobianCenterOfMass(model, data, *where))

    def computeCentroidalMomentum(self, model: Any, data: Any, q: Array, v: Array) -> Any:
        """The momentum about the centre of mass."""
        return pin.computeCentroidalMomentum(model, data, self._q(q), self._v(v))

    def computeCentroidalMap(self, model: Any, data: Any, q: Array) -> Array:
        """(6, nv)."""
        return self._coupling.columns(pin.computeCentroidalMap(model, data, self._q(q)))

    def computeCentroidalMomentumTimeVariation(self, model: Any, data: Any, q: Array, v: Array, a: Array) -> Any:
        """Its rate of change."""
        return pin.computeCentroidalMomentumTimeVariation(model, data, self._q(q), self._v(v), self._v(a))

    def computeKineticEnergy(self, model: Any, data: Any, *motion: Array) -> float:
        """[J]; of (q, v), or of what data was brought to."""
        if motion:
            motion = self._q(motion[0]), self._v(motion[1])
        return float(pin.computeKineticEnergy(model, data, *motion))

    def computeDistances(self, model: Any, data: Any, geometry: Any, scratch: Any, q: Array) -> Any:
        """Least distances of pairs of shapes."""
        return pin.computeDistances(model, data, geometry, scratch, self._q(q))

    # -- dynamics ---------------------------------------------------------------------------------------------
    def rnea(self, model: Any, data: Any, q: Array, v: Array, a: Array) -> Array:
        """(nv,) inverse dynamics."""
        return self._coupling.force(pin.rnea(model, data, self._q(q), self._v(v), self._v(a)))

    def nonLinearEffects(self, model: Any, data: Any, q: Array, v: Array) -> Array:
        """(nv,) h."""
        return self._coupling.force(pin.nonLinearEffects(model, data, self._q(q), self._v(v)))

    def computeGeneralizedGravity(self, model: Any, data: Any, q: Array) -> Array:
        """(nv,) g."""
        return self._coupling.force(pin.computeGeneralizedGravity(model, data, self._q(q)))

    def crba(self, model: Any, data: Any, q: Array, convention: Any = pin.Convention.LOCAL) -> Array:
        """(nv, nv) M, both triangles."""
        return self._coupling.inertia(pin.crba(model, data, self._q(q), convention))

    def aba(self, model: Any, data: Any, q: Array, v: Array, tau: Array) -> Array:
        """(nv,) forward dynamics, by M: articulated bodies would have to know forces across the tree."""
        h = self.nonLinearEffects(model, data, q, v)
        return np.asarray(np.linalg.solve(self.crba(model, data, q), tau - h))

    def computeMinverse(self, model: Any, data: Any, q: Array) -> Array:
        """(nv, nv) the inverse of M."""
        inverse = np.linalg.inv(self.crba(model, data, q))
        return np.asarray(0.5 * (inverse + inverse.T))

    def computeCoriolisMatrix(self, model: Any, data: Any, q: Array, v: Array) -> Array:
        """(nv, nv) ``G^T C G``: as G is constant, ``dM/dt = C + C^T`` holds, and Christoffel's symbols carry over."""
        return self._coupling.square(pin.computeCoriolisMatrix(model, data, self._q(q), self._v(v)))

    def computeRNEADerivatives(self, model: Any, data: Any, q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
        """Three (nv, nv): by q, v and a."""
        parts = pin.computeRNEADerivatives(model, data, self._q(q), self._v(v), self._v(a))
        by_q, by_v, by_a = map(self._coupling.square, parts)
        return by_q, by_v, by_a

    def computeABADerivatives(
        self, model: Any, data: Any, q: Array, v: Array, tau: Array
    ) -> tuple[Array, Array, Array]:
        """Three (nv, nv): by q, v and tau, ``-M^-1`` times those of inverse dynamics (Carpentier and Mansard 2018)."""
        a, inverse = self.aba(model, data, q, v, tau), self.computeMinverse(model, data, q)
        by_q, by_v, _ = self.computeRNEADerivatives(model, data, q, v, a)
        return -inverse @ by_q, -inverse @ by_v, inverse

    def computeJointTorqueRegressor(self, model: Any, data: Any, q: Array, v: Array, a: Array) -> Array:
        """(nv, 10 bodies)."""
        Y = pin.computeJointTorqueRegressor(model, data, self._q(q), self._v(v), self._v(a))
        return self._coupling.columns(Y.reshape(len(self._coupling.v_from), -1).T).T

    def computeAllTerms(self, model: Any, data: Any, q: Array, v: Array) -> None:
        """Into data, for all joints."""
        pin.computeAllTerms(model, data, self._q(q), self._v(v))
