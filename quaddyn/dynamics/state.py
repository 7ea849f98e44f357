"""`State`: the kinematics and dynamics at one (q, v), and their small named results.

*Frames.*  `reference` has the same meaning for velocity, Jacobian and drift.  A frame's velocity is (6,), linear before
angular, and `reference` selects its coordinates:

=========================  =============================================================================================
"local_world_aligned"      velocity of the frame's origin and angular velocity, both along world axes
"local"                    the same two vectors along the frame's own axes (the body twist)
"world"                    the spatial twist: velocity of the point that passes through the world's origin, world axes
=========================  =============================================================================================

For each of them ``velocity = J v`` and ``d/dt velocity = J a + drift``, the derivative being that of the six numbers.
Hence ``drift = dJ/dt v`` in all three: the *classical* acceleration of the frame's origin at ``a = 0`` in
"local_world_aligned", and the *spatial* acceleration at ``a = 0`` in "local" and "world" (which differs from the
classical one by ``omega x v``: Featherstone, *Rigid Body Dynamics Algorithms*, 2008, section 2.11).

*Kinetic energy* includes all rotors; Pinocchio's function includes those of some kinds of joints only.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, NoReturn, TypeAlias

import numpy as np
import pinocchio as pin

from ..errors import ArgumentError, StaleStateError
from ..robot.robot import Robot
from ..urdf.tree import Array, Pose

#: A word, or Pinocchio's own constant.
ReferenceFrame: TypeAlias = Literal["local_world_aligned", "local", "world"] | pin.ReferenceFrame

#: Pinocchio's constant for each reference.
REFERENCES: Final = MappingProxyType(
    {"local_world_aligned": pin.LOCAL_WORLD_ALIGNED, "local": pin.LOCAL, "world": pin.WORLD}
)


def resolve_reference(reference: object) -> pin.ReferenceFrame:
    """Pinocchio's constant for `reference`.

    Raises:
        ArgumentError: no such reference; the three are listed.
    """
    try:
        return REFERENCES[reference]  # type: ignore[index]  # any object may arrive here
    except (KeyError, TypeError):
        if isinstance(reference, pin.ReferenceFrame):
            return reference
        known = ", ".join(map(repr, REFERENCES))
        raise ArgumentError(f"reference: expected one of {known}; got {reference!r}") from None


def velocity(model: pin.Model, data: pin.Data, frame: int, reference: object) -> Array:
    """(6,) velocity of `frame`; needs joint placements and velocities in `data`."""
    out: Array = pin.getFrameVelocity(model, data, frame, resolve_reference(reference)).vector.copy()
    return out


def drift(model: pin.Model, data: pin.Data, frame: int, reference: object) -> Array:
    """(6,) ``dJ/dt v`` of `frame`; needs joint placements, velocities and accelerations at ``a = 0`` in `data`."""
    axes = resolve_reference(reference)
    acceleration = pin.getFrameClassicalAcceleration if axes == pin.LOCAL_WORLD_ALIGNED else pin.getFrameAcceleration
    out: Array = acceleration(model, data, frame, axes).vector.copy()
    return out


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


# Looked up once: an attribute of the extension module costs as much as a comparison.
_crba, _nle, _WORLD = pin.crba, pin.nonLinearEffects, pin.Convention.WORLD
_jacobians, _com_jacobian = pin.computeJointJacobians, pin.jacobianCenterOfMass
_frame_placement = pin.updateFramePlacement


class StateMemory:
    """The memory behind the current `State`: one ``pin.Data``, read-only views of it, and a count of its updates."""

    __slots__ = (
        "M",
        "all_terms_tick",
        "at_rest",
        "centroidal_momentum",
        "checked",
        "com",
        "com_jacobian",
        "com_jacobian_tick",
        "data",
        "drift_tick",
        "dynamics_tick",
        "gravity",
        "h",
        "kinematics",
        "kinetic",
        "local_jacobian",
        "memory",
        "robot",
        "root_joints",
        "tick",
    )

    def __init__(self, robot: Robot, checked: bool) -> None:
        data, use = robot.model.createData(), robot.algorithms
        self.kinematics, self.local_jacobian = use.forwardKinematics, pin.getFrameJacobian
        self.kinetic = KineticEnergy(robot.model, robot.model.armature)
        #: Whether every (q, v) has been examined.
        self.checked = checked
        self.robot, self.data, self.tick = robot, data, 0
        #: The updates of which kinematics, M and h are computed, and of which everything is.
        self.dynamics_tick = self.all_terms_tick = 0
        #: The updates of which the Jacobian of the center of mass, and accelerations at ``a = 0``, are computed.
        self.com_jacobian_tick = self.drift_tick = 0
        self.at_rest = np.zeros(robot.nv)
        #: Joints that hang on the world itself: one, unless several limbs stand on a bolted base.
        self.root_joints = tuple(i for i, parent in enumerate(robot.model.parents) if i and parent == 0)
        # Eigen never moves these.
        self.M, self.h, self.gravity = (_view_of_data(data, x) for x in (data.M, data.nle, data.g))
        self.com, self.com_jacobian = _view_of_data(data, data.com[0]), _view_of_data(data, data.Jcom.reshape(3, -1))
        self.centroidal_momentum = _view_of_data(data, data.hg.vector)
        placements = _view_placements(data)
        self.memory = None if placements is None else (_view_of_data(data, data.J.reshape(6, -1).T), placements)

    def all_velocities(self, v: Array) -> Array:
        """Returns the velocities (nv_all,) of all joints at v (nv,) and the present configuration."""
        return v

    def compute(self, q: Array, v: Array) -> None:
        """Computes placements, velocities, M, h, joint Jacobians and the center of mass at (q, v)."""
        _crba(self.robot.model, self.data, q, _WORLD)
        _nle(self.robot.model, self.data, q, v)
        self.dynamics_tick = self.tick

    def compute_com_jacobian(self) -> None:
        """Computes the Jacobian of the center of mass, whose position keeps its bits: it is restored afterwards."""
        stored, com = self.data.com[0], self.com.copy()
        _com_jacobian(self.robot.model, self.data, False)
        stored[:] = com
        self.com_jacobian_tick = self.tick

    def compute_all(self, q: Array, v: Array) -> None:
        """Computes all remaining terms at (q, v).

        M, placements and Jacobians are recomputed with the same bits; h and the Jacobian of the center of mass would
        change in their last bits, so their earlier values are restored.
        """
        if self.dynamics_tick != self.tick:
            self.compute(q, v)
        if self.com_jacobian_tick != self.tick:
            self.compute_com_jacobian()
        h, J = self.h.copy(), self.com_jacobian.copy()
        pin.computeAllTerms(self.robot.model, self.data, q, v)
        self.data.nle, self.data.Jcom = h, J
        self.all_terms_tick = self.com_jacobian_tick = self.drift_tick = self.tick


class CoupledStateMemory(StateMemory):
    """`StateMemory` of a robot with dependent joints: Pinocchio's data have all joints, the views independent ones.

    See `quaddyn.robot.coupling`.
    """

    __slots__ = ("coupling", "here", "own")

    def __init__(self, robot: Robot, checked: bool) -> None:
        super().__init__(robot, checked)
        assert robot.coupling is not None
        self.coupling, self.memory, n = robot.coupling, None, robot.nv
        self.here = robot.coupling.at(robot.q_home)
        self.own = np.zeros((n, n)), np.zeros(n), np.zeros(n), np.zeros((3, n))
        self.M, self.h, self.gravity, self.com_jacobian = map(_read_only_view, self.own)
        self.local_jacobian = self._jacobian

    def _jacobian(self, model: pin.Model, data: pin.Data, frame: int, reference: pin.ReferenceFrame) -> Array:
        return self.here.columns(pin.getFrameJacobian(model, data, frame, reference))

    def all_velocities(self, v: Array) -> Array:
        """Returns the velocities (nv_all,) of all joints at v (nv,) of the independent joints."""
        return self.here.velocity(v)

    def compute(self, q: Array, v: Array) -> None:
        """Computes the terms of `StateMemory.compute`; M and h refer to the independent joints."""
        self.here = self.coupling.at(q)
        self.own[0][:] = self.here.inertia(_crba(self.robot.model, self.data, self.here.q, _WORLD))
        self._bias(v)
        self.dynamics_tick = self.tick

    def _bias(self, v: Array) -> None:
        """h, and forces and accelerations of all bodies at ``a = 0``, where dependent joints accelerate."""
        here = self.here
        self.own[1][:] = here.force(pin.rnea(self.robot.model, self.data, here.q, here.velocity(v), here.drift(v)))

    def compute_com_jacobian(self) -> None:
        """Computes the Jacobian of `StateMemory.compute_com_jacobian` for the independent joints."""
        super().compute_com_jacobian()
        self.own[3][:] = self.here.columns(self.data.Jcom)

    def compute_all(self, q: Array, v: Array) -> None:
        """Computes the terms of `StateMemory.compute_all`; M, h and Jacobians refer to the independent joints."""
        if self.dynamics_tick != self.tick:
            self.compute(q, v)
        if self.com_jacobian_tick != self.tick:
            self.compute_com_jacobian()
        pin.computeAllTerms(self.robot.model, self.data, self.here.q, self.here.velocity(v))
        self.own[2][:] = self.here.force(self.data.g)
        self._bias(v)
        # computeAllTerms leaves accelerations with zero for dependent joints: drift_tick = 0 has them recomputed.
        self.all_terms_tick, self.drift_tick = self.tick, 0


class State:
    """Kinematics and dynamics of the robot at one (q, v); made by `Dynamics.update` alone.

    All values are read-only.  Attributes are views of memory that the next ``update`` of the same `Dynamics`
    overwrites: from then on this State is stale and raises `StaleStateError` when read.  Copy the values needed later.

    Velocities of the root are those of Pinocchio: a free root's first six entries are linear and angular velocity
    in the base frame.  ``M a + h = S^T tau + sum_i J_i^T f_i``.

    Args:
        live: memory of the `Dynamics` that made this State.
        tick: number of updates of that memory, this one included.
        q: (nq,) configuration.
        v: (nv,) velocity [rad/s, m/s].
    """

    __slots__ = ("_live", "_q", "_tick", "_v")

    def __init__(self, live: StateMemory, tick: int, q: Array, v: Array) -> None:
        # One by one: quicker than through a tuple.
        self._live = live
        self._tick = tick
        self._q = q
        self._v = v

    def _fresh_memory(self) -> StateMemory:
        """Returns the memory; raises a `StaleStateError` if a later update has overwritten it."""
        live = self._live
        if live.tick != self._tick:
            raise StaleStateError(
                "this State is stale, because its Dynamics was updated again; use the State that the last "
                "update returned, or a second Dynamics for a second state"
            )
        return live

    def _memory_with_dynamics(self) -> StateMemory:
        """Returns the memory after computing kinematics, M and h."""
        live = self._fresh_memory()
        if live.dynamics_tick != live.tick:
            live.compute(self._q, self._v)
        return live

    def _memory_with_com_jacobian(self) -> StateMemory:
        """Returns the memory after computing the Jacobian of the center of mass."""
        live = self._memory_with_dynamics()
        if live.com_jacobian_tick != live.tick:
            live.compute_com_jacobian()
        return live

    def _memory_with_drift(self) -> StateMemory:
        """Returns the memory after computing the accelerations at ``a = 0``."""
        live = self._memory_with_dynamics()
        if live.drift_tick != live.tick:
            live.kinematics(live.robot.model, live.data, self._q, self._v, live.at_rest)
            live.drift_tick = live.tick
        return live

    def _memory_with_all_terms(self) -> StateMemory:
        """Returns the memory after computing all terms."""
        live = self._fresh_memory()
        if live.all_terms_tick != live.tick:
            live.compute_all(self._q, self._v)
        return live

    # -- where it is -----------------------------------------------------------------------------------------
    @property
    def robot(self) -> Robot:
        """Robot of this state; readable even if the state is stale."""
        return self._live.robot

    @property
    def is_stale(self) -> bool:
        """Whether reading would raise `StaleStateError`."""
        return self._live.tick != self._tick

    @property
    def q(self) -> Array:
        """(nq,) configuration."""
        self._fresh_memory()
        return _read_only_view(self._q)

    @property
    def v(self) -> Array:
        """(nv,) velocity."""
        self._fresh_memory()
        return _read_only_view(self._v)

    # -- joint space -----------------------------------------------------------------------------------------
    @property
    def M(self) -> Array:
        """(nv, nv) joint-space inertia, symmetric positive definite, armature included (Featherstone 2008, ch. 6)."""
        return self._memory_with_dynamics().M

    @property
    def h(self) -> Array:
        """(nv,) Coriolis, centrifugal and gravity terms: ``h = C v + g`` = ``rnea(q, v, 0)``; no joint friction."""
        return self._memory_with_dynamics().h

    @property
    def gravity(self) -> Array:
        """(nv,) the gravity part of h: ``rnea(q, 0, 0)``."""
        return self._memory_with_all_terms().gravity

    @property
    def energy(self) -> Energy:
        """Kinetic and potential energy [J]; the latter is zero with all mass at the world's origin."""
        whole = self._memory_with_all_terms()
        return Energy(whole.kinetic.of(whole.data, whole.all_velocities(self._v)), whole.data.potential_energy)

    # -- center of mass --------------------------------------------------------------------------------------
    @property
    def com(self) -> Array:
        """Center of mass (3,) of the moving bodies, world axes [m]; links fixed to the world are left out."""
        return self._memory_with_dynamics().com

    @property
    def com_velocity(self) -> Array:
        """(3,) velocity of the center of mass, world axes [m/s]: ``com_jacobian @ v``."""
        return _read_only(self._memory_with_com_jacobian().com_jacobian @ self._v)

    @property
    def com_jacobian(self) -> Array:
        """(3, nv) Jacobian of the center of mass, world axes."""
        return self._memory_with_com_jacobian().com_jacobian

    @property
    def com_drift(self) -> Array:
        """(3,) acceleration of the center of mass at ``a = 0``, world axes [m/s^2]: ``d/dt com_jacobian @ v``.

        The forces that hold the motion at ``a = 0`` are the total change of momentum less gravity (Orin, Goswami,
        Lee 2013, section 3); the backward pass of `update` has summed them in the joints next to the world.
        """
        live = self._memory_with_dynamics()
        data = live.data
        force = sum((data.oMi[i].rotation @ data.f[i].linear for i in live.root_joints), np.zeros(3))
        return _read_only(force / data.mass[0] + live.robot.model.gravity.linear)

    @property
    def centroidal_momentum(self) -> Array:
        """(6,) linear [kg m/s] and, about the center of mass, angular momentum [kg m^2/s], world axes."""
        return self._memory_with_all_terms().centroidal_momentum

    # -- for compiled code -----------------------------------------------------------------------------------
    def writable_coordinates(self) -> tuple[Array, Array]:
        """Returns (q, v) as writable arrays, which compiled code accepts faster; they must not be written to.

        Raises:
            ArgumentError: they are not finite, which only a `Dynamics` that does not validate lets pass.
            StaleStateError: the Dynamics was updated again.
        """
        live, q, v = self._fresh_memory(), self._q, self._v
        if not live.checked and not (np.isfinite(q).all() and np.isfinite(v).all()):
            raise ArgumentError(
                "state: expected finite q and v; the state was computed with validate=False from a q or v with NaN "
                "or infinity"
            )
        return q, v

    def kinematic_arrays(self) -> tuple[Array, Array]:
        """Returns joint Jacobians and placements, without computing any other term of the state.

        Contiguous arrays that the Dynamics owns, writable, as compiled code takes them faster, but not to be written
        to: the columns of the world Jacobian, one a row (nv, 6), linear before angular; of every joint, the world
        first, the columns of its rotation and then its origin (joints, 4, 3), world axes.
        """
        live = self._fresh_memory()
        if live.robot.coupling is not None:
            names = ", ".join(live.robot.coupling.followers)
            raise ArgumentError(
                "state: joint Jacobians are only available if all joints move independently, but these joints follow "
                f"others: {names}; load the robot with mimic=False or loops=False"
            )
        if live.dynamics_tick != live.tick:
            _jacobians(live.robot.model, live.data, self._q)
        if live.memory is not None:
            return live.memory
        data = live.data  # not where it is expected to be: copied
        placed = np.array([np.vstack((at.rotation.T, at.translation)) for at in data.oMi])
        return np.array(data.J.reshape(6, -1).T, order="C"), placed

    # -- frames ----------------------------------------------------------------------------------------------
    def placement(self, name: str) -> Pose:
        """``T_world_frame`` of a foot, link or joint.

        Raises:
            UnknownNameError: no such frame.
            StaleStateError: the Dynamics was updated again.
        """
        live = self._memory_with_dynamics()
        placed = _frame_placement(live.robot.model, live.data, live.robot.frame_id(name))
        return Pose.of(placed.rotation, placed.translation)

    def origins(self, names: Sequence[str]) -> Array:
        """(n, 3) where several frames are, world axes [m]: their `placement` without rotations, at less cost.

        Raises:
            UnknownNameError: no such frame.
            StaleStateError: the Dynamics was updated again.
        """
        live = self._memory_with_dynamics()
        model, data, out = live.robot.model, live.data, np.empty((len(names), 3))
        for row, name in zip(out, names, strict=True):
            row[:] = _frame_placement(model, data, live.robot.frame_id(name)).translation
        return _read_only(out)

    def jacobian(self, name: str, *, reference: ReferenceFrame = "local_world_aligned") -> Array:
        """(6, nv) Jacobian of a frame, linear before angular: ``velocity = jacobian @ v``.

        Args:
            name: any of ``robot.frame_names``.
            reference: coordinates of the velocity, see `quaddyn.dynamics.state`.

        Raises:
            UnknownNameError: no such frame.
            ArgumentError: no such reference.
            StaleStateError: the Dynamics was updated again.
        """
        live = self._memory_with_dynamics()
        J: Array = live.local_jacobian(
            live.robot.model, live.data, live.robot.frame_id(name), resolve_reference(reference)
        )
        return _read_only(J.reshape(6, -1))  # the bindings hand a matrix of one column over as a vector

    def velocity(self, name: str, *, reference: ReferenceFrame = "local_world_aligned") -> Array:
        """(6,) velocity of a frame, linear [m/s] before angular [rad/s]; arguments and errors of `jacobian`."""
        live = self._memory_with_dynamics()
        return _read_only(velocity(live.robot.model, live.data, live.robot.frame_id(name), reference))

    def drift(self, name: str, *, reference: ReferenceFrame = "local_world_aligned") -> Array:
        """Returns the drift (6,), the velocity's derivative at a = 0: ``d/dt velocity = jacobian @ a + drift``.

        The drift is ``d/dt jacobian @ v`` in every reference: the classical acceleration of the frame's origin at
        ``a = 0`` in "local_world_aligned", the spatial one in "local" and "world" (see
        `quaddyn.dynamics.state`).  Arguments and errors are those of `jacobian`.
        """
        live = self._memory_with_drift()
        return _read_only(drift(live.robot.model, live.data, live.robot.frame_id(name), reference))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a State is a view of its Dynamics' memory and cannot be copied or pickled; copy its q and v instead"
        )

    def __repr__(self) -> str:
        return f"State({self.robot.name!r}, {'stale' if self.is_stale else 'fresh'})"


def _view_placements(data: pin.Data) -> Array | None:
    """Returns a view (joints, 4, 3) of all joint placements, each a rotation by columns and a translation.

    Returns None if their layout in memory differs from that of all Pinocchio versions up to now.
    """
    at = [(M.rotation, M.translation) for M in data.oMi]
    first, step = at[0][0].ctypes.data, 12 * at[0][0].itemsize
    for i, (rotation, translation) in enumerate(at):
        beside = rotation.ctypes.data == first + i * step and translation.ctypes.data == rotation.ctypes.data + 72
        if not (beside and rotation.flags.f_contiguous):
            return None
    strides = (step, 24, 8)
    return _view_of_data(data, np.lib.stride_tricks.as_strided(at[0][0], (len(at), 4, 3), strides))


class _DataMemory:
    """Memory of an array within a `pin.Data`, which it keeps alive.

    Pinocchio's arrays have no base; those that are items of vectors, such as ``data.com[0]``, dangle once the data are
    freed.
    """

    def __init__(self, data: pin.Data, array: Array) -> None:
        self.data, self.__array_interface__ = data, array.__array_interface__


def _view_of_data(data: pin.Data, array: Array) -> Array:
    """Returns a read-only view of an array within a `pin.Data` that keeps the data alive."""
    return _read_only(np.asarray(_DataMemory(data, array)))


def _read_only_view(array: Array) -> Array:
    """Returns a read-only view of an array."""
    return _read_only(array.view())


def _read_only(array: Array) -> Array:
    """`array` itself, made read-only."""
    array.flags.writeable = False
    return array
