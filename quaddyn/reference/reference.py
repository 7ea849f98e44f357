"""`Reference`: the oracle behind the names and conventions of `quaddyn.Dynamics`."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..errors import ArgumentError, UnknownNameError
from . import configuration, derivatives, frames, momentum
from .aba import aba
from .algebra import Array
from .coriolis import coriolis_by_bodies, coriolis_closed_form
from .kinematics import BodyPlacements, place_bodies
from .lie_group import forward_dynamics
from .mass import crba, mass_by_jacobians
from .model import GRAVITY, Model, Root, build_model
from .reader import Mimic, read_urdf
from .regressor import parameters, regressor
from .rnea import gravity, nle, rnea

Forces = Mapping[str, Array]


class ReferenceEnergy(NamedTuple):
    """Kinetic and potential energy [J]."""

    kinetic: float
    potential: float


class Reference:
    """A robot's dynamics from the file on, by the textbook.

    At this boundary the conventions are the package's: velocities and forces linear before angular, a free root's
    velocity in the base frame, external forces on the robot along world axes at a frame's origin.  Inside, twists are
    angular before linear.

    Args:
        source: URDF text or bytes, a path, or a `Model` built by hand (to which root, frames,
            gravity and mimic do not apply).
        root: "free", "planar" (sagittal x, z, pitch) or "fixed".
        frames: extra frames by name: a link and (3,) an offset in it [m], such as feet.
        armature: (nv,) rotor inertia [kg m^2]; zero by default, as no URDF states it.
        damping: (nv,) viscous friction [N m s/rad]; by default the file's.
        friction: (nv,) Coulomb friction [N m]; by default the file's.
        gravity: (3,) acceleration of free fall [m/s^2].
        mimic: "follow" lets a joint that mimics another do so, "independent" lets it move on its own, "refuse" raises.
        counting: continuous joints whose turns count, as those of closed loops.

    Raises:
        ModelError: the file cannot be read as a tree of links, or the root does not fit it.
        ArgumentError: armature, damping or friction of another shape.
    """

    def __init__(
        self,
        source: str | bytes | os.PathLike[str] | Model,
        *,
        root: Root = "fixed",
        frames: Mapping[str, tuple[str, Array]] | None = None,
        armature: Array | None = None,
        damping: Array | None = None,
        friction: Array | None = None,
        gravity: Array | tuple[float, ...] = GRAVITY,
        mimic: Mimic = "follow",
        counting: Collection[str] = (),
    ) -> None:
        self._last: tuple[tuple[str, bytes], BodyPlacements] | None = None
        if isinstance(source, Model):
            self.model = source
        else:
            self.model = build_model(
                read_urdf(source, mimic=mimic, counting=counting), root, frames=frames, gravity=gravity
            )
        self.model = replace(
            self.model,
            armature=self._chosen("armature", armature, self.model.armature),
            damping=self._chosen("damping", damping, self.model.damping),
            friction=self._chosen("friction", friction, self.model.friction),
        )

    @property
    def nq(self) -> int:
        """Size of q."""
        return self.model.nq

    @property
    def nv(self) -> int:
        """Size of v."""
        return self.model.nv

    def forward_kinematics(self, q: Array) -> BodyPlacements:
        """Forward kinematics at `q` (nq,), for the functions of this subpackage; the last result is cached."""
        q = np.asarray(q)
        key = q.dtype.char, q.tobytes()
        last = self._last
        if last is None or last[0] != key or last[1].model is not self.model:
            self._last = last = key, place_bodies(self.model, q)
        return last[1]

    def wrenches(self, at: BodyPlacements, fext: Forces | None) -> list[Array] | None:
        """Per body, (6,) the sum of the forces on it in its frame, moment before force."""
        if fext is None:
            return None
        out = [np.zeros(6) for _ in self.model.bodies]
        for name, force in fext.items():
            frame = self._frame(name)
            if frame[0] >= 0:
                out[frame[0]] = out[frame[0]] + frames.wrench(at, frame, force)
        return out

    # -- configurations --------------------------------------------------------------------------------------
    def integrate(self, q: Array, v: Array) -> Array:
        """(nq,) where the velocity `v` (nv,) leads from `q` in unit time."""
        return configuration.integrate(self.model, q, v)

    def random_configuration(self, rng: np.random.Generator, *, beyond: float = 0.0) -> Array:
        """(nq,) a random configuration, up to the share `beyond` of a joint's range outside it."""
        return configuration.random_configuration(self.model, rng, beyond=beyond)

    # -- joint space -----------------------------------------------------------------------------------------
    def rnea(self, q: Array, v: Array, a: Array, *, fext: Forces | None = None) -> Array:
        """(nv,) inverse dynamics ``M a + h - sum_i J_i^T f_i``."""
        at = self.forward_kinematics(q)
        return rnea(at, v, a, wrenches=self.wrenches(at, fext))

    def crba(self, q: Array) -> Array:
        """(nv, nv) joint-space inertia."""
        return crba(self.forward_kinematics(q))

    def aba(self, q: Array, v: Array, tau: Array, *, fext: Forces | None = None) -> Array:
        """(nv,) forward dynamics by articulated bodies, or by M where joints follow others."""
        at = self.forward_kinematics(q)
        return aba(at, v, tau, wrenches=self.wrenches(at, fext))

    def lie_group(self, q: Array, v: Array, tau: Array, *, fext: Forces | None = None) -> Array:
        """(nv,) forward dynamics by source D's recursion; where joints follow others, by closed forms of M and h."""
        if self.model.coupled:
            at = self.forward_kinematics(q)
            h = coriolis_closed_form(at, v) @ v + nle(at, np.zeros(self.nv), wrenches=self.wrenches(at, fext))
            return np.asarray(np.linalg.solve(mass_by_jacobians(at), tau - h))
        return forward_dynamics(self.model, q, v, tau, wrenches=self.wrenches(self.forward_kinematics(q), fext))

    def nle(self, q: Array, v: Array) -> Array:
        """(nv,) nonlinear effects ``h = C v + g``."""
        return nle(self.forward_kinematics(q), v)

    def gravity(self, q: Array) -> Array:
        """(nv,) the gravity term."""
        return gravity(self.forward_kinematics(q))

    def coriolis(self, q: Array, v: Array) -> Array:
        """(nv, nv) the Christoffel-consistent Coriolis matrix, see `quaddyn.reference.coriolis`."""
        return coriolis_by_bodies(self.forward_kinematics(q), v)

    def conditioning(self, q: Array) -> float:
        """The largest condition number of what forward dynamics solves with: of M (nv, nv)."""
        return float(np.linalg.cond(self.crba(q)))

    def has_lie_group(self, q: Array) -> bool:
        """Whether `lie_group` is defined: always."""
        return True

    def mass_inverse(self, q: Array) -> Array:
        """(nv, nv) ``M^-1``."""
        return np.asarray(np.linalg.inv(self.crba(q)))

    def rnea_derivatives(self, q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
        """Three (nv, nv): derivatives of `rnea` by q (tangent), v, a."""
        return derivatives.rnea_derivatives(self.model, q, v, a)

    def aba_derivatives(self, q: Array, v: Array, tau: Array) -> tuple[Array, Array, Array]:
        """Three (nv, nv): derivatives of `aba` by q (tangent), v, tau."""
        return derivatives.aba_derivatives(self.model, q, v, tau)

    def regressor(self, q: Array, v: Array, a: Array) -> Array:
        """(nv, 13 nb) joint torque regressor."""
        return regressor(self.forward_kinematics(q), v, a)

    def parameters(self) -> Array:
        """(13 nb,) the model's own parameters, in the order of `regressor`'s columns."""
        return parameters(self.model)

    def joint_friction(self, v: Array) -> Array:
        """(nv,) ``damping v + friction sign(v)``."""
        return np.asarray(self.model.damping * v + self.model.friction * np.sign(v))

    # -- frames ----------------------------------------------------------------------------------------------
    def frame_placement(self, q: Array, name: str) -> Array:
        """(4, 4) ``T_world_frame``."""
        return frames.placement(self.forward_kinematics(q), self._frame(name))

    def frame_jacobian(self, q: Array, name: str, *, reference: str = "local_world_aligned") -> Array:
        """(6, nv) Jacobian of a frame."""
        return frames.jacobian(self.forward_kinematics(q), self._frame(name), _validate_reference(reference))

    def frame_velocity(self, q: Array, v: Array, name: str, *, reference: str = "local_world_aligned") -> Array:
        """(6,) velocity of a frame."""
        return frames.velocity(self.forward_kinematics(q), self._frame(name), v, _validate_reference(reference))

    def frame_drift(self, q: Array, v: Array, name: str, *, reference: str = "local_world_aligned") -> Array:
        """(6,) ``dJ/dt v`` of a frame."""
        return frames.drift(self.forward_kinematics(q), self._frame(name), v, _validate_reference(reference))

    # -- the whole robot -------------------------------------------------------------------------------------
    def center_of_mass(self, q: Array) -> Array:
        """(3,) centre of mass [m]."""
        return momentum.center_of_mass(self.forward_kinematics(q))

    def com_jacobian(self, q: Array) -> Array:
        """(3, nv) Jacobian of the centre of mass."""
        return momentum.com_jacobian(self.forward_kinematics(q))

    def com_drift(self, q: Array, v: Array) -> Array:
        """(3,) acceleration of the centre of mass at ``a = 0`` [m/s^2]."""
        return momentum.com_drift(self.forward_kinematics(q), v)

    def centroidal_momentum(self, q: Array, v: Array) -> Array:
        """(6,) linear and angular momentum about the centre of mass."""
        return momentum.centroidal_momentum(self.forward_kinematics(q), v)

    def energy(self, q: Array, v: Array) -> ReferenceEnergy:
        """Kinetic and potential energy [J]."""
        at = self.forward_kinematics(q)
        return ReferenceEnergy(momentum.kinetic_energy(at, v), momentum.potential_energy(at))

    def _chosen(self, name: str, given: Array | None, own: Array) -> Array:
        if given is None:
            return own
        if np.shape(given) != (self.nv,):
            raise ArgumentError(f"{name}: expected shape ({self.nv},), got {np.shape(given)}")
        return np.array(given, dtype=float)

    def _frame(self, name: str) -> tuple[int, Array]:
        if name not in self.model.frames:
            raise UnknownNameError("frame", name, self.model.frames)
        return self.model.frames[name]


def _validate_reference(reference: str) -> str:
    if reference not in frames.REFERENCES:
        raise ArgumentError(f"reference: expected one of {', '.join(frames.REFERENCES)}; got {reference!r}")
    return reference
