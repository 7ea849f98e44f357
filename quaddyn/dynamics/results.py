"""Small named results of `Dynamics`."""

from __future__ import annotations

from typing import NamedTuple

from ..urdf.tree import Array


class Energy(NamedTuple):
    """Mechanical energy of a robot.

    Attributes:
        kinetic: kinetic energy ``1/2 v^T M v`` [J], that of the rotors (armature) included.
        potential: potential energy of gravity [J]; zero if all masses are at height 0.
    """

    kinetic: float
    potential: float

    @property
    def total(self) -> float:
        """Total mechanical energy, ``kinetic + potential`` [J]."""
        return self.kinetic + self.potential


class RneaDerivatives(NamedTuple):
    """Partial derivatives of ``tau = rnea(q, v, a)``.

    Attributes:
        dtau_dq: (nv, nv) derivative with respect to q in the tangent space [N m/rad, N/m]: to first order,
            ``tau(integrate(q, dq)) - tau(q) = dtau_dq @ dq``.
        dtau_dv: (nv, nv) derivative with respect to velocity [N m s/rad, N s/m].
        dtau_da: (nv, nv) derivative with respect to acceleration, the inertia matrix M [kg m^2, kg m, kg].
    """

    dtau_dq: Array
    dtau_dv: Array
    dtau_da: Array


class AbaDerivatives(NamedTuple):
    """Partial derivatives of ``a = aba(q, v, tau)``.

    Attributes:
        da_dq: (nv, nv) derivative with respect to q in the tangent space [1/s^2]: to first order,
            ``a(integrate(q, dq)) - a(q) = da_dq @ dq``.
        da_dv: (nv, nv) derivative with respect to velocity [1/s].
        da_dtau: (nv, nv) derivative with respect to generalized force, ``M^-1`` [1/(kg m^2), 1/(kg m), 1/kg].
    """

    da_dq: Array
    da_dv: Array
    da_dtau: Array
