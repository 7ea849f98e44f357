"""`Reference`: the reference implementation with the names and conventions of `quaddyn.Dynamics`."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..errors import ArgumentError, UnknownNameError
from . import algorithms, kinematics
from .algebra import Array
from .algorithms import (
    aba,
    coriolis_by_bodies,
    coriolis_closed_form,
    crba,
    forward_dynamics,
    mass_by_jacobians,
    nle,
    parameters,
    regressor,
    rnea,
)
from .kinematics import BodyPlacements, place_bodies
from .model import GRAVITY, Model, Root, build_model
from .reader import Mimic, read_urdf

Forces = Mapping[str, Array]


class ReferenceEnergy(NamedTuple):
    """Kinetic and potential energy [J]."""

    kinetic: float
    potential: float


class JointQuantities(ABC):
    """Quantities that follow from placements and motion of all joints, of a tree or of a robot with closed loops."""

    model: Model
    #: Entries of the velocity of all joints that are independent.
    independent_v: Any = slice(None)

    @property
    def nv(self) -> int:
        """Size of v."""
        return self.model.nv

    @abstractmethod
    def forward_kinematics(self, q: Array) -> BodyPlacements:
        """Returns the placements of all bodies at `q` (nq,)."""

    @abstractmethod
    def rnea(self, q: Array, v: Array, a: Array, *, fext: Forces | None = None) -> Array:
        """Returns the generalized forces ``M a + h - sum_i J_i^T f_i`` (nv,)."""

    def motion_at_rest(self, q: Array, v: Array) -> tuple[Array, Array | None]:
        """Returns the velocities of all joints, and their accelerations at ``a = 0``; None for zero accelerations."""
        return v, None

    def reduce(self, q: Array, J: Array) -> Array:
        """Returns a Jacobian with respect to v, from that with respect to the velocities of all joints."""
        return J

    def nle(self, q: Array, v: Array) -> Array:
        """Returns the nonlinear effects ``h = C v + g`` (nv,)."""
        return self.rnea(q, v, np.zeros(self.nv))

    def gravity(self, q: Array) -> Array:
        """Returns the gravity term (nv,)."""
        return self.nle(q, np.zeros(self.nv))

    def parameters(self) -> Array:
        """Returns the model's own parameters (13 nb,), in the order of the columns of `regressor`."""
        return parameters(self.model)

    def joint_friction(self, v: Array) -> Array:
        """Returns the joint friction ``damping v + friction sign(v)`` (nv,)."""
        damping, friction = self.model.damping[self.independent_v], self.model.friction[self.independent_v]
        return np.asarray(damping * v + friction * np.sign(v))

    # -- frames ----------------------------------------------------------------------------------------------
    def frame_placement(self, q: Array, name: str) -> Array:
        """Returns the placement (4, 4) of a frame in the world."""
        return algorithms.placement(self.forward_kinematics(q), self._frame(name))

    def frame_jacobian(self, q: Array, name: str, *, reference: str = "local_world_aligned") -> Array:
        """Returns the Jacobian (6, nv) of a frame."""
        J = algorithms.jacobian(self.forward_kinematics(q), self._frame(name), _validate_reference(reference))
        return self.reduce(q, J)

    def frame_velocity(self, q: Array, v: Array, name: str, *, reference: str = "local_world_aligned") -> Array:
        """Returns the velocity (6,) of a frame."""
        V, _ = self.motion_at_rest(q, v)
        return algorithms.velocity(self.forward_kinematics(q), self._frame(name), V, _validate_reference(reference))

    def frame_drift(self, q: Array, v: Array, name: str, *, reference: str = "local_world_aligned") -> Array:
        """Returns ``dJ/dt v`` (6,) of a frame."""
        (V, A), at, frame = self.motion_at_rest(q, v), self.forward_kinematics(q), self._frame(name)
        drift = algorithms.drift(at, frame, V, _validate_reference(reference))
        return drift if A is None else np.asarray(drift + algorithms.jacobian(at, frame, reference) @ A)

    # -- the whole robot -------------------------------------------------------------------------------------
    def center_of_mass(self, q: Array) -> Array:
        """Returns the center of mass (3,) in the world [m]."""
        return algorithms.center_of_mass(self.forward_kinematics(q))

    def com_jacobian(self, q: Array) -> Array:
        """Returns the Jacobian (3, nv) of the center of mass."""
        return self.reduce(q, algorithms.com_jacobian(self.forward_kinematics(q)))

    def com_drift(self, q: Array, v: Array) -> Array:
        """Returns the acceleration (3,) of the center of mass at ``a = 0`` [m/s^2]."""
        (V, A), at = self.motion_at_rest(q, v), self.forward_kinematics(q)
        drift = algorithms.com_drift(at, V)
        return drift if A is None else np.asarray(drift + algorithms.com_jacobian(at) @ A)

    def centroidal_momentum(self, q: Array, v: Array) -> Array:
        """Returns the linear momentum and the angular momentum about the center of mass, (6,)."""
        return algorithms.centroidal_momentum(self.forward_kinematics(q), self.motion_at_rest(q, v)[0])

    def energy(self, q: Array, v: Array) -> ReferenceEnergy:
        """Returns kinetic and potential energy [J]."""
        at = self.forward_kinematics(q)
        kinetic = algorithms.kinetic_energy(at, self.motion_at_rest(q, v)[0])
        return ReferenceEnergy(kinetic, algorithms.potential_energy(at))

    def _frame(self, name: str) -> tuple[int, Array]:
        if name not in self.model.frames:
            raise UnknownNameError("frame", name, self.model.frames)
        return self.model.frames[name]


class Reference(JointQuantities):
    """Dynamics of a robot from its file by textbook algorithms.

    The conventions of its methods are the package's: velocities and forces linear before angular, a free root's
    velocity in the base frame, external forces on the robot along world axes at a frame's origin.  Internally, twists
    are angular before linear.

    Args:
        source: URDF text or bytes, a path, or a `Model` built by hand (to which root, frames,
            gravity and mimic do not apply).
        root: "free", "planar" (sagittal x, z, pitch) or "fixed".
        frames: extra frames by name, such as feet: a link and (3,) an offset in it [m]; None for no extra frames.
        armature: (nv,) rotor inertia [kg m^2]; zero by default, as no URDF states it.
        damping: (nv,) viscous friction [N m s/rad]; by default the file's.
        friction: (nv,) Coulomb friction [N m]; by default the file's.
        gravity: (3,) gravitational acceleration [m/s^2].
        mimic: treatment of a joint that mimics another: "follow" couples it, "independent" ignores the coupling,
            "refuse" raises an error.
        counting: continuous joints with unbounded angles instead of (cos, sin), such as those of closed loops.

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
            armature=self._vector_or_default("armature", armature, self.model.armature),
            damping=self._vector_or_default("damping", damping, self.model.damping),
            friction=self._vector_or_default("friction", friction, self.model.friction),
        )

    @property
    def nq(self) -> int:
        """Size of q."""
        return self.model.nq

    def forward_kinematics(self, q: Array) -> BodyPlacements:
        """Returns the placements of all bodies at `q` (nq,); the last result is cached."""
        q = np.asarray(q)
        key = q.dtype.char, q.tobytes()
        last = self._last
        if last is None or last[0] != key or last[1].model is not self.model:
            self._last = last = key, place_bodies(self.model, q)
        return last[1]

    def wrenches(self, at: BodyPlacements, fext: Forces | None) -> list[Array] | None:
        """Returns the total external wrench (6,) on each body in its frame, moment before force."""
        if fext is None:
            return None
        out = [np.zeros(6) for _ in self.model.bodies]
        for name, force in fext.items():
            frame = self._frame(name)
            if frame[0] >= 0:
                out[frame[0]] = out[frame[0]] + algorithms.wrench(at, frame, force)
        return out

    # -- configurations --------------------------------------------------------------------------------------
    def integrate(self, q: Array, v: Array) -> Array:
        """Returns the configuration (nq,) after unit time at the velocity `v` (nv,) from `q`."""
        return kinematics.integrate(self.model, q, v)

    def random_configuration(self, rng: np.random.Generator, *, beyond: float = 0.0) -> Array:
        """Returns a random configuration (nq,); joints may exceed their range by the fraction `beyond` of it."""
        return kinematics.random_configuration(self.model, rng, beyond=beyond)

    # -- joint space -----------------------------------------------------------------------------------------
    def rnea(self, q: Array, v: Array, a: Array, *, fext: Forces | None = None) -> Array:
        """Returns the generalized forces ``M a + h - sum_i J_i^T f_i`` (nv,)."""
        at = self.forward_kinematics(q)
        return rnea(at, v, a, wrenches=self.wrenches(at, fext))

    def crba(self, q: Array) -> Array:
        """Returns the joint-space inertia M (nv, nv)."""
        return crba(self.forward_kinematics(q))

    def aba(self, q: Array, v: Array, tau: Array, *, fext: Forces | None = None) -> Array:
        """Returns the joint accelerations (nv,) by articulated bodies, or by solving with M if joints mimic others."""
        at = self.forward_kinematics(q)
        return aba(at, v, tau, wrenches=self.wrenches(at, fext))

    def lie_group(self, q: Array, v: Array, tau: Array, *, fext: Forces | None = None) -> Array:
        """Returns the joint accelerations (nv,) by the recursion of `quaddyn.reference.algorithms`.

        With mimic joints, for which the recursion is not derived, it solves ``M a = tau - h``, with M from the body
        Jacobians and h from the closed form of the Coriolis matrix.

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity [rad/s, m/s].
            tau: (nv,) generalized force [N m, N].
            fext: external forces by frame.
        """
        if self.model.coupled:
            at = self.forward_kinematics(q)
            h = coriolis_closed_form(at, v) @ v + nle(at, np.zeros(self.nv), wrenches=self.wrenches(at, fext))
            return np.asarray(np.linalg.solve(mass_by_jacobians(at), tau - h))
        return forward_dynamics(self.model, q, v, tau, wrenches=self.wrenches(self.forward_kinematics(q), fext))

    def coriolis(self, q: Array, v: Array) -> Array:
        """Returns the Christoffel-consistent Coriolis matrix (nv, nv), see `quaddyn.reference.algorithms`."""
        return coriolis_by_bodies(self.forward_kinematics(q), v)

    def conditioning(self, q: Array) -> float:
        """Returns the largest condition number of the matrices that forward dynamics solves with, here of M."""
        return float(np.linalg.cond(self.crba(q)))

    def has_lie_group(self, q: Array) -> bool:
        """Returns True: `lie_group` is always defined."""
        return True

    def mass_inverse(self, q: Array) -> Array:
        """Returns ``M^-1`` (nv, nv)."""
        return np.asarray(np.linalg.inv(self.crba(q)))

    def rnea_derivatives(self, q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
        """Returns the derivatives (nv, nv) of `rnea` with respect to q (tangent), v and a."""
        return algorithms.rnea_derivatives(self.model, q, v, a)

    def aba_derivatives(self, q: Array, v: Array, tau: Array) -> tuple[Array, Array, Array]:
        """Returns the derivatives (nv, nv) of `aba` with respect to q (tangent), v and tau."""
        return algorithms.aba_derivatives(self.model, q, v, tau)

    def regressor(self, q: Array, v: Array, a: Array) -> Array:
        """Returns the joint torque regressor (nv, 13 nb)."""
        return regressor(self.forward_kinematics(q), v, a)

    def _vector_or_default(self, name: str, given: Array | None, own: Array) -> Array:
        if given is None:
            return own
        if np.shape(given) != (self.nv,):
            raise ArgumentError(f"{name}: expected shape ({self.nv},), got {np.shape(given)}")
        return np.array(given, dtype=float)


def _validate_reference(reference: str) -> str:
    if reference not in algorithms.REFERENCES:
        raise ArgumentError(f"reference: expected one of {', '.join(algorithms.REFERENCES)}; got {reference!r}")
    return reference
