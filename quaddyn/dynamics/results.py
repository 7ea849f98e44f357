"""Small named results of `Dynamics`."""

from __future__ import annotations

from typing import NamedTuple

from ..urdf.tree import Array


class Energy(NamedTuple):
    """Mechanical energy [J].

    Attributes:
        kinetic: ``1/2 v^T M v``, rotors (armature) included.
        potential: of gravity, zero where every mass lies in the world's origin.
    """

    kinetic: float
    potential: float

    @property
    def total(self) -> float:
        """``kinetic + potential`` [J]."""
        return self.kinetic + self.potential


class RneaDerivatives(NamedTuple):
    """Partial derivatives of ``tau = rnea(q, v, a)``, each (nv, nv).

    Attributes:
        dtau_dq: along a tangent step: ``tau(integrate(q, dq)) - tau(q) = dtau_dq @ dq`` to first order.
        dtau_dv: by velocity.
        dtau_da: by acceleration, which is M.
    """

    dtau_dq: Array
    dtau_dv: Array
    dtau_da: Array


class AbaDerivatives(NamedTuple):
    """Partial derivatives of ``a = aba(q, v, tau)``, each (nv, nv).

    Attributes:
        da_dq: along a tangent step: ``a(integrate(q, dq)) - a(q) = da_dq @ dq`` to first order.
        da_dv: by velocity.
        da_dtau: by generalized force, which is ``M^-1``.
    """

    da_dq: Array
    da_dv: Array
    da_dtau: Array
