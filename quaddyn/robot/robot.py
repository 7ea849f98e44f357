"""`Robot`: the record of one robot that all other subpackages read; `Leg` and `Foot` as data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike, NDArray

from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError, ModelError, UnknownNameError
from ..urdf.tree import Array, FrozenArrays, KinematicLoop, Tree, frozen
from .algorithms import Algorithms, algorithms
from .arguments import check_number, check_sequence, check_vector
from .bodies import CompositeBody, joint_indices
from .configuration import (
    Configuration,
    decompose_configuration,
    independent_joints,
    joint_values,
    random_joint_values,
    set_base,
    set_joint_value,
)
from .coupling import MimicCoupling, coupling
from .report import ValidationReport

if TYPE_CHECKING:
    from .loops import LoopCoupling
    from .motors import Motors


@dataclass(frozen=True, slots=True, eq=False)
class Foot(FrozenArrays):
    """Contact sphere of a leg, rigidly attached to its last moving body.

    Attributes:
        name: name of the foot by geometry, such as "FL"; also the name of a frame of ``robot.model`` at the center of
            the sphere, with the axes of `frame`.
        frame: frame (link) of the file that carries the foot; an alias of `name` for look-ups.
        radius: radius of the contact sphere [m]; 0 for a point.
        offset: (3,) center of the sphere in `frame` [m].
    """

    name: str
    frame: str
    radius: float
    offset: Array


@renamed_attributes(bend="knee_direction")
@dataclass(frozen=True, slots=True)
class Leg:
    """Serial limb that ends in a foot.

    Attributes:
        name: "FL", "FR", "RL", "RR" on a quadruped ("F", "L", "R", "B" if one leg is in front, one at each side and one
            behind), "L", "R" on a biped, "leg" on a single leg.
        joints: names of its moving joints, from hip to ankle.
        side: "left", "right" or "center".
        foot: contact sphere of the leg.
        knee: name of the knee joint; None for a leg with one joint.
        knee_sign: sign (+1 or -1, dimensionless) of the change of the knee coordinate that bends the leg further from
            `q_home`.
        knee_direction: side of the line from hip to foot on which the knee is in `q_home`: "forward", "backward" or
            "straight"; for a leg that bends sideways, "forward" means outward.
    """

    name: str
    joints: tuple[str, ...]
    side: str
    foot: Foot
    knee: str | None
    knee_sign: int
    knee_direction: str

    @property
    def n(self) -> int:
        """Number of moving joints."""
        return len(self.joints)


@renamed_attributes(close="close_loop", expand="generalized_torques", order="joint_permutation")
@dataclass(frozen=True, eq=False)
class Robot:
    """Validated robot: model, limits, legs and feet; frozen and picklable.

    Only `quaddyn.load` creates robots.  Vectors are read-only.  The joint order is that of the model (``joint_names``);
    torques are in ``actuated`` order; `joint_permutation` maps to the joint order of the caller.

    Joints that mimic others (``<mimic>``), and joints that closed loops move, have no coordinates in q and v: q, v and
    generalized forces are those of the independent joints.  Their damping, friction, armature and limits account for
    the joints that mimic them.  With closed loops, armature and inertia of the dependent joints appear only in M,
    because they are not constant in independent coordinates.

    Attributes:
        name: name of the robot in its file.
        root: "free" (base velocity in the base frame), "planar" (sagittal x, z, pitch) or "fixed".
        tree: the resolved `Tree` (limits, damping, friction, armature after overrides).
        bodies: composite joint bodies: fixed links merged into the body that carries them; ``bodies[0]`` is the base.
        model: ``pin.Model`` built from `tree`; treat it as frozen.  All joints are independent in it: for a robot with
            dependent joints it takes ``at.q`` and ``at.velocity(v)`` of ``at = coupling.at(q)``.
        actuated: names of the actuated 1-dof joints, in torque order.
        q_home: (nq,) home configuration.
        lower, upper: (nq,) position limits in the order of q [rad or m]; infinite on the root and where the file gives
            none.  In torque order: `lower_position_limits`, `upper_position_limits`.
        velocity_limits: (nu,) [rad/s or m/s].
        effort_limits: (nu,) [N m or N]; inf where the file gives none.
        damping: (nv,) viscous friction [N m s/rad]; 0 on the root.
        friction: (nv,) Coulomb friction [N m]; 0 on the root.
        armature: (nv,) rotor inertia seen at the joint [kg m^2]; 0 on the root.
        legs: `Leg` by name.
        report: findings of the validation and the origin of every resolved value.
        poses: (nq,) configurations by name: the group states of the SRDF that belongs to the file, or the keyframes of
            an MJCF; joints that a pose does not name are as in `q_home`.
        source: the URDF document itself (text if it was given as text), for readers that share no code with this one.
        coupling: how dependent joints follow the independent ones: `MimicCoupling` for ``<mimic>``, `LoopCoupling` for
            closed loops, None if all joints are independent.
        algorithms: Pinocchio's functions, taking `model`, its data, and q and v of the robot: the module ``pinocchio``
            itself if `coupling` is None.
    """

    name: str
    root: str
    tree: Tree
    bodies: tuple[CompositeBody, ...]
    model: pin.Model
    actuated: tuple[str, ...]
    q_home: Array
    lower: Array
    upper: Array
    velocity_limits: Array
    effort_limits: Array
    damping: Array
    friction: Array
    armature: Array
    legs: Mapping[str, Leg]
    report: ValidationReport
    source: bytes | str
    poses: Mapping[str, Array] = field(default_factory=dict, repr=False)
    coupling: MimicCoupling | LoopCoupling | None = field(init=False, repr=False)
    algorithms: Algorithms = field(init=False, repr=False)
    _frame_ids: Mapping[str, int] = field(init=False, repr=False)
    _first_indices: Mapping[str, tuple[int, int]] = field(init=False, repr=False)
    _actuated_index: NDArray[np.intp] = field(init=False, repr=False)

    # -- sizes -----------------------------------------------------------------------------------------------
    @property
    def nq(self) -> int:
        """Size of a configuration q."""
        return int(self.model.nq) if self.coupling is None else len(self.coupling.q_index)

    @property
    def nv(self) -> int:
        """Size of a velocity v."""
        return int(self.model.nv) if self.coupling is None else len(self.coupling.v_index)

    @property
    def nu(self) -> int:
        """Number of actuated joints."""
        return len(self.actuated)

    @property
    def mass(self) -> float:
        """Total mass [kg]."""
        return float(sum(b.inertial.mass for b in self.bodies))

    @property
    def visual_model(self) -> pin.GeometryModel:
        """Visual geometry as ``pin.GeometryModel`` of `model`, created at each access.

        Meshes that are missing or cannot be read are left out.
        """
        from .geometry_models import geometry_model

        return geometry_model(self.model, self.tree, lambda link: link.visuals)

    @property
    def collision_model(self) -> pin.GeometryModel:
        """Collision geometry as ``pin.GeometryModel`` of `model` without collision pairs, created at each access.

        Meshes are triangles as in their files.  `quaddyn.kinematics.CollisionModel` computes distances instead, with
        convex hulls and its own pairs.
        """
        from .geometry_models import geometry_model

        return geometry_model(self.model, self.tree, lambda link: link.collisions)

    # -- names -----------------------------------------------------------------------------------------------
    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the independent moving joints of the file in model order, without the joints of the root."""
        return tuple(self._first_indices)

    @property
    def feet(self) -> tuple[str, ...]:
        """Names of the feet: ("FL", "FR", "RL", "RR") on a quadruped, in the order of `legs` if those were given."""
        return tuple(self.legs)

    def frame_id(self, name: str) -> int:
        """Returns the index in ``model.frames`` of a foot ("FL"), link or joint, in this order of precedence.

        The link that carries a foot is another frame on the same body; its origin differs from that of the foot if the
        foot has an offset.

        Raises:
            UnknownNameError: no such name; near matches are listed, and the root link is named.  If an index in
                ``model.frames`` was given, the message states the name of that frame.
        """
        try:
            return self._frame_ids[name]
        except (KeyError, TypeError):
            given: object = name
            known: Iterable[str] = self._frame_ids
            if isinstance(given, int | np.integer) and 0 <= given < self.model.nframes:
                known = (self.model.frames[int(given)].name,)
            raise UnknownNameError("frame", name, known, root=self.bodies[0].name) from None

    @property
    def frame_names(self) -> tuple[str, ...]:
        """Names of all frames that `frame_id` accepts: feet, links, joints."""
        return tuple(self._frame_ids)

    def velocity_index(self, joint: str) -> int:
        """Returns the index in v (and in tau of size nv) of a 1-dof joint.

        Raises:
            UnknownNameError: no such joint, or one that is not independent.
        """
        return self._place(joint)[1]

    def configuration_index(self, joint: str) -> int:
        """Returns the index in q of the first coordinate of a joint.

        Raises:
            UnknownNameError: no such joint.
        """
        return self._place(joint)[0]

    def _place(self, joint: str) -> tuple[int, int]:
        try:
            return self._first_indices[joint]
        except (KeyError, TypeError):
            why = None if self.coupling is None else self.coupling.followers.get(str(joint))
            kind = "joint" if why is None else f"independent joint (this joint {why})"
            raise UnknownNameError(kind, joint, self._first_indices) from None

    # -- configurations --------------------------------------------------------------------------------------
    @property
    def lower_position_limits(self) -> Array:
        """(nu,) lower position limits of the actuated joints [rad or m], in torque order; -inf for none."""
        return frozen(self.lower[[self._place(joint)[0] for joint in self.actuated]])

    @property
    def upper_position_limits(self) -> Array:
        """(nu,) upper position limits of the actuated joints [rad or m], in torque order; inf for none."""
        return frozen(self.upper[[self._place(joint)[0] for joint in self.actuated]])

    def configuration(
        self,
        *,
        position: ArrayLike | None = None,
        orientation: object = None,
        joints: Mapping[str, float] | ArrayLike | None = None,
        order: Sequence[str] | None = None,
    ) -> Array:
        """Returns a configuration assembled by name; parts that are not given are those of `q_home`.

        Args:
            position: (3,) position of the base in the world [m]; for a planar root (x, z) suffices.  None: that of
                `q_home`.
            orientation: orientation of the base: a rotation matrix (3, 3), scipy's ``Rotation``, a ``pin.Quaternion``,
                {"wxyz": ...}, {"xyzw": ...}, {"rpy": ...} [rad] or {"rotation_vector": ...} [rad]; for a planar root
                the pitch [rad] suffices.  Four bare numbers are rejected, because both quaternion orders are in use.
                None: that of `q_home`.
            joints: values by name of any 1-dof joints, or one value for each joint of `order` [rad or m].  None: those
                of `q_home`.
            order: names of the joints of a list of values.  None: ``actuated``, the order of torques.

        Returns:
            (nq,) configuration.

        Raises:
            ArgumentError: an invalid value, a rotation of unnamed order, or a base that is fixed.
            UnknownNameError: a name that is not a 1-dof joint.
        """
        q = np.array(self.q_home)
        known = independent_joints(self.bodies)
        set_base(q, self.root, position, orientation)
        if joints is not None:
            for name in self.coupling.followers if self.coupling is not None else ():
                if isinstance(joints, Mapping) and name in joints:
                    self._place(name)  # raises an error that names the joint it follows
            named = joint_values(joints, known, self.actuated if order is None else order)
            for name, value in named.items():
                set_joint_value(q, self._place(name)[0], known[name], value)
        return q

    def decompose(self, q: ArrayLike) -> Configuration:
        """Splits a configuration into parts by name; the inverse of `configuration`.

        Args:
            q: (nq,) configuration.

        Raises:
            ArgumentError: `q` has another shape, or an entry that is not finite.
        """
        return decompose_configuration(self._q("q", q), self.root, self._first_indices, independent_joints(self.bodies))

    @property
    def neutral(self) -> Array:
        """(nq,) Pinocchio's neutral configuration: joints at zero, the base at the origin without rotation.

        Joints of closed loops, which may not close at zero, have their values of `q_home`.
        """
        q = np.array(self.algorithms.neutral(self.model))
        if self.coupling is not None and self.coupling.has_loops:
            q_entries = self.coupling.q_from[self.coupling.closures.q]
            q[q_entries[q_entries >= 0]] = self.q_home[q_entries[q_entries >= 0]]
        return frozen(q)

    def integrate(self, q: ArrayLike, v: ArrayLike, dt: float = 1.0) -> Array:
        """Integrates a constant velocity over a time on the configuration manifold (``pin.integrate``).

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity [rad/s, m/s].
            dt: time [s].

        Returns:
            (nq,) configuration after `dt`.
        """
        return np.asarray(
            self.algorithms.integrate(self.model, self._q("q", q), check_number("dt", dt) * self._v("v", v))
        )

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """Returns the velocity (nv,) [rad/s, m/s] that leads from `q0` to `q1` (nq,) in 1 s (``pin.difference``)."""
        return np.asarray(self.algorithms.difference(self.model, self._q("q0", q0), self._q("q1", q1)))

    @renamed_parameters(share="alpha")
    def interpolate(self, q0: ArrayLike, q1: ArrayLike, alpha: float) -> Array:
        """Interpolates between two configurations along the shortest path (``pin.interpolate``).

        Args:
            q0: (nq,) configuration at ``alpha = 0``.
            q1: (nq,) configuration at ``alpha = 1``.
            alpha: position along the path [dimensionless]; values outside [0, 1] extrapolate.

        Returns:
            (nq,) configuration.
        """
        ends = self._q("q0", q0), self._q("q1", q1)
        return np.asarray(self.algorithms.interpolate(self.model, *ends, check_number("alpha", alpha)))

    def random_configuration(self, seed: int | np.random.Generator) -> Array:
        """Returns a random configuration (nq,), uniform within the joint limits.

        The base is within 1 m of home along each axis and has a random orientation.  Joints without limits are within
        half a turn, or 1 m, of zero.

        Args:
            seed: seed of the random numbers, or a generator.
        """
        rng = np.random.default_rng(seed)
        position: Array | None = None
        orientation: object = None
        if self.root == "planar":
            position, orientation = self.q_home[:2] + rng.uniform(-1.0, 1.0, 2), float(rng.uniform(-np.pi, np.pi))
        elif self.root == "free":
            position, quaternion = self.q_home[:3] + rng.uniform(-1.0, 1.0, 3), rng.standard_normal(4)
            orientation = {"xyzw": quaternion / np.linalg.norm(quaternion)}
        joints = random_joint_values(rng, independent_joints(self.bodies))
        return self.configuration(position=position, orientation=orientation, joints=joints)

    def _q(self, name: str, value: ArrayLike) -> Array:
        return check_vector(name, value, (self.nq,), f"nq of {self.name}")

    def _v(self, name: str, value: ArrayLike) -> Array:
        return check_vector(name, value, (self.nv,), f"nv of {self.name}")

    @property
    def unit_norm_slices(self) -> tuple[tuple[str, int, int], ...]:
        """Parts of q with unit norm: (joint, first entry, size) of each quaternion (4) and (cos, sin) pair (2)."""
        out = []
        for name, joint in zip(self.model.names[1:], list(self.model.joints)[1:], strict=True):
            # Floating joints end in a quaternion, continuous and planar ones in (cos, sin); others have no unit part.
            if joint.nq != joint.nv:
                size = 4 if joint.nv == 6 else 2
                first = joint.idx_q + joint.nq - size
                out.append((name, first if self.coupling is None else int(self.coupling.q_from[first]), size))
        return tuple(out)

    @property
    def one_dof_joints(self) -> Mapping[int, tuple[int, int]]:
        """Coordinates in q of each joint with one degree of freedom, planar roots included, by its entry of v.

        The coordinates are the index of the first one and their number: 2, (cos, sin), for a continuous joint,
        otherwise 1.
        """
        out: dict[int, tuple[int, int]] = {}
        c = self.coupling
        for joint in list(self.model.joints)[1:]:
            v, q = int(joint.idx_v), int(joint.idx_q)
            if joint.nv == 1 and (c is None or v in c.v_index):
                out[v if c is None else int(c.v_from[v])] = q if c is None else int(c.q_from[q]), int(joint.nq)
        return out

    def close_loop(
        self,
        frame_a: str | tuple[str, ArrayLike],
        frame_b: str | tuple[str, ArrayLike],
        kind: str = "point",
        *,
        axis: ArrayLike | None = None,
        name: str | None = None,
        dependent: Iterable[str] = (),
    ) -> Robot:
        """Returns a robot in which two frames stay together, so that some joints follow the others.

        q, v and generalized forces of the new robot are those of its independent joints; its home configuration is as
        close to that of this robot as the loop permits.  Its ``source`` contains the loop as ``<loop_joint>``, which
        `load` reads.

        Args:
            frame_a: name of a frame, or (name, (3,) point in the axes of that frame [m]).
            frame_b: the same on another body.
            kind: "point" (the points coincide: a ball joint), "revolute" (the axes coincide as well) or "weld" (the
                frames coincide).
            axis: (3,) axis of a "revolute" loop, with the same coordinates in both frames [dimensionless].  None for
                other kinds.
            name: name of the loop, for messages.  None: "loop_1", "loop_2" and so on.
            dependent: names of the joints that follow.  Empty: first those without a motor, then those that belong to
                no leg; among several, those with the largest influence on the loop.

        Raises:
            ModelError: the loop does not close, is singular at home, or its rank is undetermined there.
            UnknownNameError: no such frame or joint.
            ArgumentError: another kind, or an axis for a loop that is not revolute.
        """
        closing = type(self)._close_loop_hook
        assert closing is not None
        return closing(self, frame_a, frame_b, kind, axis, name, dependent)

    def reject_coupled_joints(self, what: str) -> None:
        """Raises an error if some joints mimic others, or are moved by closed loops.

        Args:
            what: name of the feature that does not support such joints, for the message.

        Raises:
            ModelError: naming such a joint.
        """
        self.reject_loops(what)
        if self.coupling is not None:
            name, why = next(iter(self.coupling.followers.items()))
            raise ModelError(
                f"{what}: joint {name!r} of {self.name!r} {why}, which is not supported; "
                "load the robot with mimic=False (--no-mimic), so that every joint moves independently, or make that "
                "joint fixed"
            )

    def reject_loops(self, what: str) -> None:
        """Raises an error if the robot has closed loops.

        Args:
            what: name of the feature that does not support them, for the message.

        Raises:
            ModelError: naming a joint that a loop moves.
        """
        if self.coupling is not None and self.coupling.has_loops:
            name, why = next(iter(self.coupling.followers.items()))
            raise ModelError(
                f"{what}: joint {name!r} of {self.name!r} {why}, which is not supported; "
                "load the robot with loops=False, so that every joint moves independently"
            )

    def reject_spatial_loops(self, what: str) -> None:
        """Raises an error if the robot has closed loops other than planar ones (`PlanarLoop`).

        Args:
            what: name of the feature that does not support them, for the message.

        Raises:
            ModelError: naming such a loop.
        """
        if self.coupling is None or not self.coupling.has_loops:
            return
        if any(loop.kind == "gear" for loop in self.coupling.loops):
            raise ModelError(
                f"{what}: {self.name!r} has both closed loops and joints that mimic others, which is not supported; "
                "load the robot with mimic=False, so that these joints move independently, or with loops=False"
            )
        if (loop := self.coupling.spatial) is not None:
            raise ModelError(
                f"{what}: loop {loop.name!r} of {self.name!r} is not planar with three dependent joints, and other "
                "loops have no closed-form solution; load the robot with loops=False, so that every joint moves "
                "independently"
            )

    @property
    def motors(self) -> Motors:
        """Motors of the actuated joints: convert torques and speeds between motors and joints.

        Raises:
            ModelError: see `Motors`.
        """
        from .motors import Motors

        return Motors(self.model, self.coupling, self.tree.transmissions, self.actuated, self.actuated_index)

    @property
    def loops(self) -> tuple[KinematicLoop, ...]:
        """The closed loops; `coupling` gives the motion of their joints."""
        if self.coupling is None or not self.coupling.has_loops:
            return ()
        return tuple(x for x in self.coupling.loops if x.kind != "gear")

    # -- maps ------------------------------------------------------------------------------------------------
    @property
    def actuated_index(self) -> NDArray[np.intp]:
        """(nu,) indices of the actuated joints in v: ``tau_full[robot.actuated_index] = tau``."""
        return self._actuated_index

    def generalized_torques(self, tau: ArrayLike) -> Array:
        """Returns actuated torques (nu,) as generalized forces (nv,): S^T tau, zeros elsewhere.

        Args:
            tau: (nu,) torques in ``actuated`` order [N m or N].

        Raises:
            ArgumentError: `tau` has another shape, or an entry that is not finite.
            ArgumentTypeError: `tau` is not of real numbers.
        """
        out = np.zeros(self.nv)
        out[self._actuated_index] = check_vector("tau", tau, (self.nu,), "the actuated joints")
        return out

    def joint_permutation(self, names: Iterable[str]) -> NDArray[np.intp]:
        """Returns the permutation from torque order to the joint order of the caller, such as that of a robot's SDK.

        ``tau_sdk = tau[robot.joint_permutation(sdk_names)]``; the inverse is
        ``tau[robot.joint_permutation(sdk_names)] = tau_sdk``.

        Args:
            names: every actuated joint once, in the order of the caller.

        Returns:
            (nu,) integer indices.

        Raises:
            UnknownNameError: a name that is not an actuated joint.
            ArgumentError: a joint is missing or named twice.
        """
        names = check_sequence("names", names, "joint names")
        index_by_name = {n: i for i, n in enumerate(self.actuated)}
        for n in names:
            if n not in index_by_name:
                raise UnknownNameError("actuated joint", n, self.actuated)
        missing = [n for n in self.actuated if n not in names]
        twice = sorted({n for n in names if names.count(n) > 1})
        if missing or twice:
            raise ArgumentError(f"names: expected every actuated joint once; missing: {missing}, named twice: {twice}")
        return np.array([index_by_name[n] for n in names], dtype=np.intp)

    # -- construction and pickling ---------------------------------------------------------------------------
    @classmethod
    def from_pinocchio(cls, model: pin.Model, **options: Any) -> Robot:
        """Makes a robot from a Pinocchio model; the same as `quaddyn.load` with the model.

        Args:
            model: model of any number of joints with the joint models that URDF has; a free-flyer or the joints of a
                planar root, if there are any, become the root.
            options: options of `quaddyn.load`, such as ``feet``, which a model does not name.

        Raises:
            ModelError: the model is rejected, or has joints that URDF does not have.
        """
        robot: Robot = sys.modules["quaddyn"].load(model, **options)  # imported later than this module
        return robot

    def __post_init__(self) -> None:
        self._seal()

    def _seal(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name, None)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        object.__setattr__(self, "legs", MappingProxyType(dict(self.legs)))
        object.__setattr__(self, "coupling", self._make_coupling())
        object.__setattr__(self, "poses", MappingProxyType({name: frozen(q) for name, q in self.poses.items()}))
        object.__setattr__(self, "algorithms", algorithms(self.coupling))
        found: dict[pin.FrameType, dict[str, int]] = {}
        for i, frame in enumerate(self.model.frames):
            found.setdefault(frame.type, {}).setdefault(frame.name, i)
        kinds = pin.FrameType
        ids: dict[str, int] = {}
        for kind in (kinds.FIXED_JOINT, kinds.JOINT, kinds.BODY, kinds.OP_FRAME):  # later kinds replace earlier ones
            ids.update(found.get(kind, {}))
        ids.pop("universe", None)
        object.__setattr__(self, "_frame_ids", ids)
        first_indices = joint_indices(self.bodies, self.root)
        object.__setattr__(self, "_first_indices", first_indices)
        index = np.array([first_indices[n][1] for n in self.actuated], dtype=np.intp)
        index.flags.writeable = False
        object.__setattr__(self, "_actuated_index", index)

    def _make_coupling(self) -> MimicCoupling | LoopCoupling | None:
        if self.tree.loops:
            from .loops import loop_coupling  # imports the compiler

            return loop_coupling(self.model, self.tree, self.q_home)
        return coupling(self.bodies, self.root)

    def __getstate__(self) -> dict[str, object]:
        state = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        state["legs"], state["poses"] = dict(self.legs), dict(self.poses)
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)
        self._seal()

    #: What closes a loop; set by the package, since stances are computed further up.
    _close_loop_hook: ClassVar[Callable[..., Robot] | None] = None

    def _repr_html_(self) -> str:
        picture: str = sys.modules["quaddyn"]._picture(self)  # drawn by a subpackage that this one must not import
        return picture

    def __repr__(self) -> str:
        feet = f", feet={self.feet}" if self.feet else ""
        sizes = f"nq={self.nq}, nv={self.nv}, nu={self.nu}, mass={self.mass:.3f}"
        return f"Robot({self.name!r}, root={self.root!r}, {sizes}{feet})"


def make_foot_name_error(robot: Robot, kind: str, name: object, known: Iterable[str]) -> UnknownNameError:
    """Returns the error of an unknown name of a foot, leg or contact, which names the foot of a frame of the file.

    Args:
        robot: the robot.
        kind: kind of the object that is named, such as "contact".
        name: the name.
        known: known names.
    """
    known = tuple(known)
    meant = [foot for foot, leg in robot.legs.items() if leg.foot.frame == name and foot in known]
    return UnknownNameError(kind, name, known, meant[0] if meant else "")
