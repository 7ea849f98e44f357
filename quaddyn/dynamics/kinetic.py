"""Kinetic energy with rotors: Pinocchio's counts those of some kinds of joints only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio as pin

from ..urdf.tree import Array


class KineticEnergy:
    """Kinetic energy ``1/2 v^T M v``: that of the bodies by Pinocchio, and that of the rotors by their armature.

    ``pin.computeKineticEnergy`` (4.1) leaves out the rotors of joints whose axis is not x, y or z.

    Args:
        model: Pinocchio model with the bodies; copied.
        armature: armature of all joints, or of the independent ones [kg m^2].
    """

    def __init__(self, model: Any, armature: Array) -> None:
        self._bodies, self._armature = model.copy(), np.array(armature)
        self._bodies.armature = np.zeros(model.nv)

    def of(self, data: Any, v: Array) -> float:
        """Returns the kinetic energy [J] of the bodies in `data`, and of the rotors at joint velocities `v`.

        Args:
            data: data of the model after forward kinematics with velocities.
            v: velocities of the joints of `armature`.
        """
        bodies: float = pin.computeKineticEnergy(self._bodies, data)
        return bodies + 0.5 * float((self._armature * v) @ v)
