"""`Robot`: the one record that everything downstream reads; `Leg` and `Foot` as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..urdf.tree import Array, FrozenArrays, Tree
from .arguments import several
from .bodies import Body, joint_places
from .report import Report


@dataclass(frozen=True, slots=True, eq=False)
class Foot(FrozenArrays):
    """Where a leg touches the ground: a sphere rigidly attached to the last moving body.

    Attributes:
        name: the foot's name by geometry, such as "FL"; also the name of a frame of ``robot.model`` at the
            sphere's centre, with the axes of `frame`.
        frame: the file's own frame (link) that carries the foot; an alias of `name` for look-ups.
        radius: radius of the contact sphere [m]; 0 for a point.
        offset: (3,) centre of the sphere in `frame` [m].
    """

    name: str
    frame: str
    radius: float
    offset: Array


@dataclass(frozen=True, slots=True)
class Leg:
    """A serial limb that ends in a foot.

    Attributes:
        name: by geometry: "FL", "FR", "RL", "RR" on a quadruped, "L", "R" on a biped, "leg" on a single leg.
        joints: names of its moving joints, hip to ankle.
        side: "left", "right" or "center".
        foot: its `Foot`.
        knee: name of the knee joint (None for a leg of one joint).
        knee_sign: sign (+1 or -1) of the knee's joint coordinate that bends the leg further from `q_home`.
        bend: where the knee points in `q_home`, seen from the line hip to foot: "forward", "backward" or "straight".
    """

    name: str
    joints: tuple[str, ...]
    side: str
    foot: Foot
    knee: str | None
    knee_sign: int
    bend: str

    @property
    def n(self) -> int:
        """Number of moving joints."""
        return len(self.joints)


@dataclass(frozen=True, eq=False)
class Robot:
    """A robot that passed the guard: model, limits, legs and feet, frozen and picklable.

    Made by `quaddyn.load` alone.  Vectors are read-only.  Joint order is the model's (``joint_names``); torques
    are in ``actuated`` order; use `order` to map to a caller's own order.

    Attributes:
        name: the robot's name in its file.
        root: "free" (base velocity in the base frame), "planar" (sagittal x, z, pitch) or "fixed".
        tree: the resolved `Tree` (limits, damping, friction, armature after overrides).
        bodies: composite joint bodies: fixed links merged into the body that carries them; ``bodies[0]`` is the base.
        model: ``pin.Model`` built from `tree`; treat as frozen.
        actuated: names of the actuated 1-dof joints, in torque order.
        q_home: (nq,) home configuration.
        lower, upper: (nq,) position limits [rad or m]; infinite on the root and where the file gives none.
        velocity_limits: (nu,) [rad/s or m/s].
        effort_limits: (nu,) [N m or N]; inf where the file gives none.
        damping: (nv,) viscous friction [N m s/rad]; 0 on the root.
        friction: (nv,) Coulomb friction [N m]; 0 on the root.
        armature: (nv,) rotor inertia seen at the joint [kg m^2]; 0 on the root.
        legs: `Leg` by name.
        report: the guard's findings and the provenance of every resolved number.
        source: the URDF document itself (text if it was given as text), for readers that share no code with ours.
    """

    name: str
    root: str
    tree: Tree
    bodies: tuple[Body, ...]
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
    report: Report
    source: bytes | str
    _frame_ids: Mapping[str, int] = field(init=False, repr=False)
    _places: Mapping[str, tuple[int, int]] = field(init=False, repr=False)
    _actuated_index: NDArray[np.intp] = field(init=False, repr=False)

    # -- sizes -----------------------------------------------------------------------------------------------
    @property
    def nq(self) -> int:
        """Size of a configuration q."""
        return int(self.model.nq)

    @property
    def nv(self) -> int:
        """Size of a velocity v."""
        return int(self.model.nv)

    @property
    def nu(self) -> int:
        """Number of actuated joints."""
        return len(self.actuated)

    @property
    def mass(self) -> float:
        """Total mass [kg]."""
        return float(sum(b.inertial.mass for b in self.bodies))

    # -- names -----------------------------------------------------------------------------------------------
    @property
    def joint_names(self) -> tuple[str, ...]:
        """Moving joints of the file in model order (the root joint is not one of them)."""
        return tuple(self._places)

    @property
    def feet(self) -> tuple[str, ...]:
        """Names of the feet: ("FL", "FR", "RL", "RR") on every quadruped."""
        return tuple(self.legs)

    def frame_id(self, name: str) -> int:
        """Index in ``model.frames`` of a foot ("FL"), link or joint of the file, in this order of precedence.

        A foot's file frame is an alias of the foot only through its own link frame (same body, other origin when
        the foot has an offset).

        Raises:
            UnknownNameError: no such name; near matches are listed.
        """
        try:
            return self._frame_ids[name]
        except (KeyError, TypeError):
            raise UnknownNameError("frame", name, self._frame_ids) from None

    @property
    def frame_names(self) -> tuple[str, ...]:
        """Every name that `frame_id` knows: feet, links, joints."""
        return tuple(self._frame_ids)

    def velocity_index(self, joint: str) -> int:
        """Index in v (and tau of size nv) of a 1-dof joint.

        Raises:
            UnknownNameError: no such joint.
        """
        return self._place(joint)[1]

    def configuration_index(self, joint: str) -> int:
        """Index in q of a joint's first coordinate.

        Raises:
            UnknownNameError: no such joint.
        """
        return self._place(joint)[0]

    def _place(self, joint: str) -> tuple[int, int]:
        try:
            return self._places[joint]
        except (KeyError, TypeError):
            raise UnknownNameError("joint", joint, self._places) from None

    # -- maps ------------------------------------------------------------------------------------------------
    @property
    def actuated_index(self) -> NDArray[np.intp]:
        """(nu,) indices of the actuated joints in v: ``tau_full[robot.actuated_index] = tau``."""
        return self._actuated_index

    def expand(self, tau: Array) -> Array:
        """Actuated torques (nu,) as generalized forces (nv,): S^T tau, zeros elsewhere.

        Raises:
            ArgumentError: `tau` has another shape, or an entry that is not finite.
            ArgumentTypeError: `tau` is no float64 array.
        """
        if not isinstance(tau, np.ndarray) or tau.dtype != np.float64:
            got = f"{type(tau).__name__} of {tau.dtype}" if isinstance(tau, np.ndarray) else type(tau).__name__
            raise ArgumentTypeError(f"tau: expected a float64 array of shape ({self.nu},), got {got}")
        if tau.shape != (self.nu,):
            raise ArgumentError(f"tau: expected shape ({self.nu},) (the actuated joints), got {tau.shape}")
        if not np.isfinite(tau).all():
            raise ArgumentError(f"tau: entry {int(np.argmin(np.isfinite(tau)))} is not finite: {tau}")
        out = np.zeros(self.nv)
        out[self._actuated_index] = tau
        return out

    def order(self, names: Iterable[str]) -> NDArray[np.intp]:
        """Permutation from torque order to a caller's joint order: ``tau_sdk = tau[robot.order(sdk_names)]``.

        Back again: ``tau[robot.order(sdk_names)] = tau_sdk``.

        Args:
            names: every actuated joint once, in the caller's order.

        Returns:
            (nu,) integer indices.

        Raises:
            UnknownNameError: a name that is no actuated joint.
            ArgumentError: a joint missing or named twice.
        """
        names = several("names", names, "joint names")
        place = {n: i for i, n in enumerate(self.actuated)}
        for n in names:
            if n not in place:
                raise UnknownNameError("actuated joint", n, self.actuated)
        missing = [n for n in self.actuated if n not in names]
        twice = sorted({n for n in names if names.count(n) > 1})
        if missing or twice:
            raise ArgumentError(f"names: every actuated joint once; missing {missing}, twice {twice}")
        return np.array([place[n] for n in names], dtype=np.intp)

    # -- life ------------------------------------------------------------------------------------------------
    def __post_init__(self) -> None:
        self._seal()

    def _seal(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name, None)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        object.__setattr__(self, "legs", MappingProxyType(dict(self.legs)))
        found: dict[pin.FrameType, dict[str, int]] = {}
        for i, frame in enumerate(self.model.frames):
            found.setdefault(frame.type, {}).setdefault(frame.name, i)
        kinds = pin.FrameType
        ids: dict[str, int] = {}
        for kind in (kinds.FIXED_JOINT, kinds.JOINT, kinds.BODY, kinds.OP_FRAME):  # the later, the stronger
            ids.update(found.get(kind, {}))
        ids.pop("universe", None)
        object.__setattr__(self, "_frame_ids", ids)
        places = joint_places(self.bodies, self.root)
        object.__setattr__(self, "_places", places)
        index = np.array([places[n][1] for n in self.actuated], dtype=np.intp)
        index.flags.writeable = False
        object.__setattr__(self, "_actuated_index", index)

    def __getstate__(self) -> dict[str, object]:
        state = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        state["legs"] = dict(self.legs)
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)
        self._seal()

    #: What a notebook shows of a robot; set by the package, since drawing is done rooms further up.
    picture: ClassVar[Callable[[Robot], str] | None] = None

    def _repr_html_(self) -> str | None:
        picture = type(self).picture
        return None if picture is None else picture(self)

    def __repr__(self) -> str:
        feet = f", feet={self.feet}" if self.feet else ""
        sizes = f"nq={self.nq}, nv={self.nv}, nu={self.nu}, mass={self.mass:.3f}"
        return f"Robot({self.name!r}, root={self.root!r}, {sizes}{feet})"
