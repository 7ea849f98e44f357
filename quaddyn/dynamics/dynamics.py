"""`Dynamics`: the workspace that turns (q, v, a or tau) into every rigid-body quantity of a robot."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pinocchio as pin
from eigenpy import is_approx  # Pinocchio's own array layer
from numpy import ndarray

from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import FLOAT, Numbers, check_wrench, spatial_vector
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, Pose
from . import state
from .arguments import (
    MAX_CONFIGURATION_NORM,
    MAX_KINETIC_ENERGY,
    MAX_UNCHECKED_SPEED,
    UNIT_NORM_TOLERANCE,
    ArgumentChecker,
)
from .regressor import RegressorColumns
from .state import AbaDerivatives, CoupledStateMemory, Energy, ReferenceFrame, RneaDerivatives, State, StateMemory

#: Number of leading entries of q that are the position of the base, not its orientation, by kind of root.
POSITION_SIZES = {"free": 3, "planar": 2}

Forces = Mapping[str, Numbers | pin.Force]


class Dynamics(StrictAttributes):
    """Rigid-body dynamics of one robot: ``M(q) a + h(q, v) = tau + sum_i J_i^T f_i``.

    Use it in one of two ways: call `update` once per control tick and read the returned `State`; or call the stateless
    methods, which take q, v and a, return new arrays and do not change a State.

    Conventions are Pinocchio's: SI units, spatial vectors linear before angular, a free root's quaternion xyzw and its
    velocity in the base frame.  tau is a generalized force (nv,); `Robot.generalized_torques` computes it from (nu,)
    actuator torques.
    Armature (rotor inertia) is part of the model; joint friction is not, see `joint_friction`.

    Every vector must be an array or list of real numbers of the exact shape, finite, with quaternions and (cos, sin)
    pairs of unit norm to within `UNIT_NORM_TOLERANCE` (a plain float64 array is used as it is, others are converted);
    otherwise the call raises `ArgumentError` (a `ValueError`) or
    `ArgumentTypeError` (also a `TypeError`) naming the argument, and an unknown name `UnknownNameError`.  A result is
    finite or an `ArgumentError` is raised: never NaN out.  Errors below are listed where there are others.
    The first ten calls with a q also check its unit: joint positions far beyond their limits, which seem to be in
    degrees or millimeters, and a height of the base in millimeters give a `RuntimeWarning`, once.

    Owns mutable memory: one Dynamics per thread (the robot can be shared).  A pickle holds the robot and the option.

    Args:
        robot: a loaded robot.
        validate: False skips all checks of vectors and results, for inner loops over states already known to be
            good; what happens then on a bad argument is Pinocchio's: garbage, NaN or its own exception.
    """

    def __init__(self, robot: Robot, *, validate: bool = True) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        self._robot, self._validate = robot, validate
        self._model, self._scratch = robot.model, robot.model.createData()
        # Looked up once: an attribute of the extension module costs as much as a comparison below.
        self._algorithms = use = robot.algorithms
        self._rnea, self._aba, self._crba, self._nle = use.rnea, use.aba, use.crba, use.nonLinearEffects
        self._live = (StateMemory if robot.coupling is None else CoupledStateMemory)(robot, validate)
        self._boundary = ArgumentChecker(robot, validate)
        self._columns = RegressorColumns(robot)
        self._nq, self._nv = (robot.nq,), (robot.nv,)
        self._tau_tells = self._nan_reaches_tau()
        self._zero, self._unit = np.zeros(robot.nv), np.full(robot.nq, robot.nq**-0.5)
        self._one = np.full(robot.nv, robot.nv**-0.5)

    @property
    def robot(self) -> Robot:
        """The robot."""
        return self._robot

    @property
    def validate(self) -> bool:
        """Whether arguments and results are checked."""
        return self._validate

    # -- one pass per tick -----------------------------------------------------------------------------------
    #
    # Checks are arranged by price, since they may cost little over the call itself.  Eigen's is_approx(x, y, p), which
    # is |x - y| <= p min(|x|, |y|), is the cheapest look at a whole array: is_approx(x, x) holds exactly when every
    # entry is finite, and is_approx(q, unit, FAR) when q is moreover not far out.  That one also fails on a q of all
    # zeros, which is harmless: arguments that fail the quick check are checked exactly before they are rejected.

    def update(self, q: Numbers, v: Numbers) -> State:
        """Returns kinematics and dynamics at (q, v); the State returned before becomes stale.

        Validates and copies q and v.  The quantities are computed when the State is first read:
        joint placements and velocities, M, h, joint Jacobians and the center of mass together; its Jacobian; drift
        accelerations; and together the rest (``pin.computeAllTerms``): gravity, centroidal momentum and energies.
        If arguments of wrong type, shape or value are rejected, the last State stays fresh.

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity [rad/s, m/s].

        Raises:
            ArgumentError: also when q is longer than 1e8 or the kinetic energy above 1e50 J: what a State holds is
                computed about the world's origin in finite digits.
        """
        if self._validate and not (
            type(q) is type(v) is ndarray
            and q.shape == self._nq
            and v.shape == self._nv
            and q.dtype is v.dtype is FLOAT
            and self._boundary.is_normalized(self._model, q, UNIT_NORM_TOLERANCE)
            and is_approx(q, self._unit, MAX_CONFIGURATION_NORM)
            and (is_approx(v, self._one, MAX_UNCHECKED_SPEED) or not v.any())
        ):
            q, v = self._boundary.examine(q=q, v=v)
            if not math.hypot(*q) < MAX_CONFIGURATION_NORM:
                raise ArgumentError(
                    f"q: the norm {math.hypot(*q):.3g} exceeds {MAX_CONFIGURATION_NORM:g}; the terms of a State are "
                    "computed about the world's origin and lose precision there; choose an origin near the robot"
                )
            energy = self._algorithms.computeKineticEnergy(self._model, self._scratch, q, v)
            if not energy < MAX_KINETIC_ENERGY:
                raise ArgumentError(
                    f"v: the kinetic energy {energy:.3g} J exceeds {MAX_KINETIC_ENERGY:g} J, beyond which the terms of "
                    "a State overflow; the motion has diverged"
                )
        live = self._live
        if not self._validate and not (
            type(q) is type(v) is ndarray
            and q.shape == self._nq
            and v.shape == self._nv
            and q.dtype is v.dtype is FLOAT
        ):
            live.tick += 1  # the last State is stale, whatever happens
            live.compute(q, v)  # raises, or makes do with it
            q, v = (np.array(x, dtype=np.float64).reshape(-1) for x in (q, v))
        return self.update_validated(q.copy(), v.copy())

    def update_validated(self, q: Array, v: Array) -> State:
        """Returns the State at (q, v) as `update` does, without checks or copies.

        Args:
            q: (nq,) configuration that `update` would accept; it must not be written to afterwards.
            v: (nv,) velocity that `update` would accept; it must not be written to afterwards.
        """
        live = self._live
        live.tick = tick = live.tick + 1
        return State(live, tick, q, v)

    # -- the four that loops call: checks in the order of their price ------------------------------------------
    def rnea(self, q: Numbers, v: Numbers, a: Numbers, *, fext: Forces | None = None) -> Array:
        """Inverse dynamics ``tau = M a + h - sum_i J_i^T f_i`` (recursive Newton-Euler; Featherstone 2008, ch. 5).

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity [rad/s, m/s].
            a: (nv,) acceleration [rad/s^2, m/s^2].
            fext: forces on the robot by frame name: (3,) force [N], (6,) force and torque [N, N m] or a
                ``pinocchio.Force``, world axes, acting at the frame's origin.

        Returns:
            (nv,) generalized force [N m, N]; without joint friction (add ``joint_friction(v)``).

        Raises:
            UnknownNameError: a name in `fext` is not that of a frame.
        """
        if self._validate and not (
            type(q) is type(v) is type(a) is ndarray
            and q.shape == self._nq
            and v.shape == a.shape == self._nv
            and q.dtype is v.dtype is a.dtype is FLOAT
            and self._boundary.is_normalized(self._model, q, UNIT_NORM_TOLERANCE)
        ):
            q, v, a = self._boundary.examine(q=q, v=v, a=a)
        tau: Array = self._rnea(self._model, self._scratch, q, v, a)
        if fext is not None:
            with _ignoring_overflow():
                tau -= self._generalized(q, fext)
        # A NaN in a always reaches tau, and one in q or v does on all robots tried: dense products spread it.
        if self._validate and not (is_approx(tau, tau) and (self._tau_tells or (is_approx(q, q) and is_approx(v, v)))):
            self._boundary.refuse("rnea", tau, q=q, v=v, a=a)
        return tau

    def aba(self, q: Numbers, v: Numbers, tau: Numbers, *, fext: Forces | None = None) -> Array:
        """Forward dynamics ``a = M^-1 (tau + sum_i J_i^T f_i - h)`` (articulated bodies; Featherstone 2008, ch. 7).

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity [rad/s, m/s].
            tau: (nv,) generalized force [N m, N]; ``robot.generalized_torques`` computes it from actuator torques.
                Joint friction is not subtracted: pass ``tau - joint_friction(v)``.
            fext: forces on the robot, as for `rnea`.

        Returns:
            (nv,) acceleration [rad/s^2, m/s^2].

        Raises:
            UnknownNameError: a name in `fext` is not that of a frame.
        """
        if self._validate and not (
            type(q) is type(v) is type(tau) is ndarray
            and q.shape == self._nq
            and v.shape == tau.shape == self._nv
            and q.dtype is v.dtype is tau.dtype is FLOAT
            and self._boundary.is_normalized(self._model, q, UNIT_NORM_TOLERANCE)
        ):
            q, v, tau = self._boundary.examine(q=q, v=v, tau=tau)
        total = tau
        if fext is not None:
            with _ignoring_overflow():
                total = tau + self._generalized(q, fext)
        a: Array = self._aba(self._model, self._scratch, q, v, total)
        if self._validate and not (is_approx(q, q) and is_approx(v, v) and is_approx(a, a)):
            self._boundary.refuse("aba", a, q=q, v=v, tau=tau)
        return a

    def crba(self, q: Numbers) -> Array:
        """Joint-space inertia M (composite rigid bodies; Featherstone 2008, ch. 6), armature included.

        Args:
            q: (nq,) configuration.

        Returns:
            (nv, nv) symmetric positive definite, both triangles filled [kg m^2, kg m, kg].
        """
        if self._validate and not (
            type(q) is ndarray
            and q.shape == self._nq
            and q.dtype is FLOAT
            and self._boundary.is_normalized(self._model, q, UNIT_NORM_TOLERANCE)
        ):
            (q,) = self._boundary.examine(q=q)
        M: Array = self._crba(self._model, self._scratch, q)
        if self._validate and not is_approx(q, self._unit, MAX_CONFIGURATION_NORM):
            self._boundary.refuse("crba", M, q=q)
        return M

    def nle(self, q: Numbers, v: Numbers) -> Array:
        """Nonlinear effects ``h = C v + g = rnea(q, v, 0)`` (nv,) [N m, N]; without joint friction.

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity [rad/s, m/s].
        """
        if self._validate and not (
            type(q) is type(v) is ndarray
            and q.shape == self._nq
            and v.shape == self._nv
            and q.dtype is v.dtype is FLOAT
            and self._boundary.is_normalized(self._model, q, UNIT_NORM_TOLERANCE)
        ):
            q, v = self._boundary.examine(q=q, v=v)
        h: Array = self._nle(self._model, self._scratch, q, v)
        if self._validate and not (is_approx(q, q) and is_approx(v, v) and is_approx(h, h)):
            self._boundary.refuse("nle", h, q=q, v=v)
        return h

    # -- joint space -----------------------------------------------------------------------------------------
    def gravity(self, q: Numbers) -> Array:
        """Gravity part of h: ``g(q) = rnea(q, 0, 0)`` (nv,) [N m, N], the torque that holds the robot still.

        Args:
            q: (nq,) configuration.
        """
        (q,) = self._boundary.check(q=q)
        return self._boundary.finite(
            "gravity", self._algorithms.computeGeneralizedGravity(self._model, self._scratch, self._at_origin(q)), q=q
        )

    def coriolis(self, q: Numbers, v: Numbers) -> Array:
        """A Coriolis matrix C: ``C v + g = h`` and ``dM/dt = C + C^T``, that is, ``dM/dt - 2 C`` is skew.

        Many C share the product ``C v``; this is Pinocchio's recursive one, which equals Christoffel's on fixed-base
        robots of revolute joints (Echeandia and Wensing 2021).

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity [rad/s, m/s].

        Returns:
            (nv, nv).
        """
        q, v = self._boundary.check(q=q, v=v)
        return self._boundary.finite(
            "coriolis",
            self._algorithms.computeCoriolisMatrix(self._model, self._scratch, self._at_origin(q), v),
            q=q,
            v=v,
        )

    def mass_inverse(self, q: Numbers) -> Array:
        """``M^-1`` (nv, nv), symmetric, without forming M (Carpentier, *Analytical inverse of the JSIM*, 2018).

        Args:
            q: (nq,) configuration.
        """
        (q,) = self._boundary.check(q=q)
        return self._boundary.finite(
            "mass_inverse", self._algorithms.computeMinverse(self._model, self._scratch, self._at_origin(q)), q=q
        )

    def joint_friction(self, v: Numbers) -> Array:
        """Friction torque that opposes the motion: ``damping * v + friction * sign(v)`` (nv,) [N m, N].

        Not in `rnea`, `aba` or h (Pinocchio leaves the file's damping and friction out):
        ``tau_motor = rnea(q, v, a) + joint_friction(v)``.  At rest Coulomb friction counts as zero.

        Args:
            v: (nv,) velocity [rad/s, m/s].
        """
        (v,) = self._boundary.check(v=v)
        with _ignoring_overflow():
            friction = self._robot.damping * v + self._robot.friction * np.sign(v)
        return self._boundary.finite("joint_friction", friction, v=v)

    def energy(self, q: Numbers, v: Numbers) -> Energy:
        """Kinetic and potential energy [J]; the latter is zero with all mass at the world's origin.

        Without dissipation and forces, ``d/dt (kinetic + potential) = v . tau``.

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity [rad/s, m/s].
        """
        q, v = self._boundary.check(q=q, v=v)
        self._algorithms.forwardKinematics(self._model, self._scratch, q, v)
        with _ignoring_overflow():
            kinetic = self._live.kinetic.of(self._scratch, self._all_velocities(q, v))
        potential = pin.computePotentialEnergy(self._model, self._scratch)
        self._boundary.finite("energy", np.array([kinetic, potential]), q=q, v=v)
        return Energy(kinetic, potential)

    # -- frames ----------------------------------------------------------------------------------------------
    def frame_placement(self, q: Numbers, name: str) -> Pose:
        """``T_world_frame`` of a foot, link or joint.

        Args:
            q: (nq,) configuration.
            name: any of ``robot.frame_names``.

        Raises:
            UnknownNameError: no such frame.
        """
        frame = self._robot.frame_id(name)
        (q,) = self._boundary.check(q=q)
        self._algorithms.forwardKinematics(self._model, self._scratch, q)
        placed = pin.updateFramePlacement(self._model, self._scratch, frame)
        self._boundary.finite("frame_placement", placed.translation, q=q)
        return Pose.of(placed.rotation, placed.translation)

    def frame_jacobian(self, q: Numbers, name: str, *, reference: ReferenceFrame = "local_world_aligned") -> Array:
        """(6, nv) Jacobian of a frame, linear before angular: ``frame_velocity = J v``.

        Args:
            q: (nq,) configuration.
            name: any of ``robot.frame_names``.
            reference: coordinates of the velocity, see `quaddyn.dynamics.state`.

        Raises:
            UnknownNameError: no such frame.
            ArgumentError: no such reference.
        """
        frame, axes = self._robot.frame_id(name), state.resolve_reference(reference)
        (q,) = self._boundary.check(q=q)
        J = self._algorithms.computeFrameJacobian(self._model, self._scratch, q, frame, axes)
        return self._boundary.finite("frame_jacobian", J.reshape(6, -1), q=q)

    def frame_velocity(
        self, q: Numbers, v: Numbers, name: str, *, reference: ReferenceFrame = "local_world_aligned"
    ) -> Array:
        """(6,) velocity of a frame, linear [m/s] before angular [rad/s].

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity [rad/s, m/s].
            name: any of ``robot.frame_names``.
            reference: coordinates of the velocity, see `quaddyn.dynamics.state`.

        Raises:
            UnknownNameError: no such frame.
            ArgumentError: no such reference.
        """
        frame = self._robot.frame_id(name)
        q, v = self._boundary.check(q=q, v=v)
        self._algorithms.forwardKinematics(self._model, self._scratch, q, v)
        return self._boundary.finite(
            "frame_velocity", state.velocity(self._model, self._scratch, frame, reference), q=q, v=v
        )

    def frame_drift(
        self, q: Numbers, v: Numbers, name: str, *, reference: ReferenceFrame = "local_world_aligned"
    ) -> Array:
        """Returns the drift (6,), the velocity's derivative at a = 0: ``d/dt frame_velocity = J a + frame_drift``.

        The drift is ``dJ/dt v`` in every reference: the classical acceleration of the frame's origin at ``a = 0`` in
        "local_world_aligned", the spatial one in "local" and "world" (see `quaddyn.dynamics.state`).

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity [rad/s, m/s].
            name: any of ``robot.frame_names``.
            reference: coordinates of the velocity.

        Raises:
            UnknownNameError: no such frame.
            ArgumentError: no such reference.
        """
        frame = self._robot.frame_id(name)
        q, v = self._boundary.check(q=q, v=v)
        self._algorithms.forwardKinematics(self._model, self._scratch, q, v, self._zero)
        return self._boundary.finite("frame_drift", state.drift(self._model, self._scratch, frame, reference), q=q, v=v)

    # -- the whole robot -------------------------------------------------------------------------------------
    def center_of_mass(self, q: Numbers) -> Array:
        """Returns the center of mass (3,) of the moving bodies, world axes [m]; links fixed to the world are left out.

        Args:
            q: (nq,) configuration.
        """
        (q,) = self._boundary.check(q=q)
        return self._boundary.finite(
            "center_of_mass", self._algorithms.centerOfMass(self._model, self._scratch, q, False), q=q
        )

    def com_jacobian(self, q: Numbers) -> Array:
        """(3, nv) Jacobian of the center of mass, world axes.

        Args:
            q: (nq,) configuration.
        """
        (q,) = self._boundary.check(q=q)
        J: Array = self._algorithms.jacobianCenterOfMass(self._model, self._scratch, self._at_origin(q), False)
        return self._boundary.finite("com_jacobian", J.reshape(3, -1), q=q)

    def centroidal_momentum(self, q: Numbers, v: Numbers) -> Array:
        """(6,) linear [kg m/s] and, about the center of mass, angular momentum [kg m^2/s], world axes.

        Source: Orin, Goswami, Lee, *Centroidal dynamics of a humanoid robot*, 2013.

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity [rad/s, m/s].
        """
        q, v = self._boundary.check(q=q, v=v)
        momentum = self._algorithms.computeCentroidalMomentum(self._model, self._scratch, q, v).vector.copy()
        return self._boundary.finite("centroidal_momentum", momentum, q=q, v=v)

    # -- derivatives and parameters --------------------------------------------------------------------------
    def rnea_derivatives(self, q: Numbers, v: Numbers, a: Numbers) -> RneaDerivatives:
        """Partial derivatives of `rnea` by q (in the tangent space), v and a (Carpentier and Mansard 2018).

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity [rad/s, m/s].
            a: (nv,) acceleration [rad/s^2, m/s^2].
        """
        q, v, a = self._boundary.check(q=q, v=v, a=a)
        parts = self._algorithms.computeRNEADerivatives(self._model, self._scratch, self._at_origin(q), v, a)
        return RneaDerivatives(*(self._boundary.finite("rnea_derivatives", x.copy(), q=q, v=v, a=a) for x in parts))

    def aba_derivatives(self, q: Numbers, v: Numbers, tau: Numbers) -> AbaDerivatives:
        """Partial derivatives of `aba` by q (in the tangent space), v and tau (Carpentier and Mansard 2018).

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity [rad/s, m/s].
            tau: (nv,) generalized force [N m, N].
        """
        q, v, tau = self._boundary.check(q=q, v=v, tau=tau)
        parts = self._algorithms.computeABADerivatives(self._model, self._scratch, self._at_origin(q), v, tau)
        return AbaDerivatives(*(self._boundary.finite("aba_derivatives", x.copy(), q=q, v=v, tau=tau) for x in parts))

    def regressor(self, q: Numbers, v: Numbers, a: Numbers, *, inertial: bool = False) -> Array:
        """H with ``H(q, v, a) @ parameters() = rnea(q, v, a) + joint_friction(v)``.

        Columns, for every body of ``robot.bodies`` including the base, are those of `quaddyn.dynamics.regressor`:
        ``[Lxx Lxy Lxz Lyy Lyz Lzz lx ly lz m fv fc Ia]``.  The last three are zero for the base, and for joints of
        several degrees of freedom; a base bolted to the world has zero columns only.

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity [rad/s, m/s].
            a: (nv,) acceleration [rad/s^2, m/s^2].
            inertial: only the first ten columns of each body; then
                ``H @ parameters(inertial=True) = rnea(q, v, a) - armature * a``.

        Returns:
            (nv, 13 nb), or (nv, 10 nb) with `inertial`, for nb bodies.
        """
        q, v, a = self._boundary.check(q=q, v=v, a=a)
        Y = self._algorithms.computeJointTorqueRegressor(self._model, self._scratch, q, v, a)
        H = self._columns.regressor(Y, q, v, a, only_inertial=inertial)
        return self._boundary.finite("regressor", H, q=q, v=v, a=a)

    def parameters(self, *, inertial: bool = False) -> Array:
        """The robot's own parameters delta, in the order of `regressor`'s columns.

        Args:
            inertial: only the first ten of each body.

        Returns:
            (13 nb,), or (10 nb,) with `inertial`.
        """
        return self._columns.parameters(self._robot, only_inertial=inertial)

    def _all_velocities(self, q: Array, v: Array) -> Array:
        """(nv_all,) velocities of all joints."""
        coupling = self._robot.coupling
        return v if coupling is None else coupling.at(q).velocity(v)

    def _at_origin(self, q: Array) -> Array:
        """Configuration with a free base moved to the world's origin, where digits are not lost.

        For what does not depend on the base's place, though Pinocchio computes it about the world's origin: at 1 km
        M^-1 would be wrong by 1e-7, at 1,000 km by 20 %.
        """
        q = q.copy()
        q[: POSITION_SIZES.get(self._robot.root, 0)] = 0.0
        return q

    # -- inside ----------------------------------------------------------------------------------------------
    def _nan_reaches_tau(self) -> bool:
        """Returns whether a NaN in any entry of q or v leads to one in the result of `rnea`.

        As 0 * NaN is NaN, only terms that the algorithm leaves out can hide a NaN.  The set of these terms does not
        depend on the state, and infinity spreads as NaN does.
        """
        q, rest = self._robot.q_home, np.zeros(self._nv)
        states = [(q, v) for v in np.diag(rest + np.nan)] + [(x, rest) for x in q + np.diag(q + np.nan)]
        return not any(
            is_approx(tau, tau) for tau in (self._rnea(self._model, self._scratch, q, v, rest) for q, v in states)
        )

    def _generalized(self, q: Array, fext: Forces) -> Array:
        """(nv,) ``sum_i J_i^T f_i`` of forces given at frame origins along world axes."""
        if not isinstance(fext, Mapping):
            raise ArgumentTypeError(f"fext: expected a mapping from frame names to forces, got {type(fext).__name__}")
        total = np.zeros(self._nv)
        for name, force in fext.items():
            frame = self._robot.frame_id(name)
            meaning = "force [N], or (6,) force and torque [N, N m]"
            force = check_wrench(f"fext[{name!r}]", force, meaning) if self._validate else spatial_vector(force)
            J = self._algorithms.computeFrameJacobian(self._model, self._scratch, q, frame, pin.LOCAL_WORLD_ALIGNED)
            total += J.reshape(6, -1)[: len(force)].T @ force
        return total

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (self._robot, self._validate)

    def __repr__(self) -> str:
        return f"Dynamics({self._robot!r}, validate={self._validate})"


def _ignoring_overflow() -> np.errstate:
    """Returns a context in which NumPy does not warn of overflow; the caller checks the result and rejects it."""
    return np.errstate(over="ignore", invalid="ignore")


def _restore(robot: Robot, validate: bool) -> Dynamics:
    return Dynamics(robot, validate=validate)
