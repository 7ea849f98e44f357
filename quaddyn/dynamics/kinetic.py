"""Kinetic energy with rotors: Pinocchio's counts those of some kinds of joints only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio as pin

from ..urdf.tree import Array


class KineticEnergy:
    """``1/2 v^T M v``: of the bodies by Pinocchio, and of the rotors by their armature.

    ``pin.computeKineticEnergy`` (4.1) leaves out the rotors of joints whose axis is none of x, y and z.

    Args:
        model: its bodies; copied.
        armature: of all joints, or of the independent ones [kg m^2].
    """

    def __init__(self, model: Any, armature: Array) -> None:
        self._bodies, self._armature = model.copy(), np.array(armature)
        self._bodies.armature = np.zeros(model.nv)

    def of(self, data: Any, v: Array) -> float:
        """Of the velocities that `data` was brought to by forward kinematics, and of rotors at v [J].

        Args:
            data: of the model.
            v: velocities of the joints that `armature` is of.
        """
        bodies: float = pin.computeKineticEnergy(self._bodies, data)
        return bodies + 0.5 * float((self._armature * v) @ v)
