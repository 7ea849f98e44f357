"""`CompliantPlane`: a compliant floor or wall with the force law of a spring, a damper and dry friction.

Where a body's point has penetrated the plane by ``d > 0`` (n the outward normal, v the point's velocity):

    f_n = max(0, k d - c v.n),        f_t = -mu f_n v_t / max(|v_t|, v_s),        f = f_n n + f_t.

*Normal force.*  The spring and damper of Kelvin and Voigt, clamped at zero since a dry surface does not pull
(Brogliato, *Nonsmooth Mechanics*, 3rd ed., 2016, sec. 2.1).  The force is linear in (d, v) during contact, so that an
implicit step can use `CompliantPlane.derivatives` directly, and its damping has the unit N s/m.  Its disadvantage is a
jump of c |v.n| at touchdown, which Hunt and Crossley's ``k d (1 - c v.n)`` (1975) avoids at the cost of a damping that
vanishes in gentle contacts, where force controllers operate.

*Friction.*  Coulomb's cone, made single-valued at rest: below the stiction speed v_s friction is viscous, so that a
point under a constant tangential force F < mu f_n creeps at v_s F / (mu f_n).  The slope mu f_n / v_s divided by the
effective mass of the contact is the rate [1/s] that an explicit integrator has to resolve.

*Energy.*  With the stored energy ``E = k d^2 / 2``, the power f.v given to the body is at most ``-dE/dt``, always: in
contact, ``f_n v.n + dE/dt = -c (v.n)^2``; where the clamp is active, the spring's energy is lost; friction dissipates
``|f_t| |v_t|``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import check_number, check_sequence, check_type
from ..urdf.tree import Array, FrozenArrays, frozen

#: Largest friction coefficient accepted.
MAX_FRICTION = 10.0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CompliantPlane(FrozenArrays):
    r"""A compliant half-space: points on the side of `normal` are free, points behind the plane are pushed back.

    Where a body's point has penetrated the plane by d > 0, with n the outward normal and v the point's velocity:

    .. math::

        f_n = \max(0,\; k\, d - c\, v \cdot n), \qquad f_t = -\mu f_n \frac{v_t}{\max(|v_t|, v_s)}

    The docstring of `quaddyn.contact.compliant_plane` gives the reasons for this law.  Make planes directly or by
    `floor` and `wall`.

    Args:
        point: (3,) any point of the surface, world axes [m].
        normal: (3,) outward normal, towards the robot, world axes; normalized.
        stiffness: k [N/m].
        damping: c of the normal direction [N s/m].
        friction: Coulomb's coefficient mu, dimensionless, 0 to 10.
        stiction_speed: v_s, the tangential speed below which friction is viscous [m/s].

    Raises:
        ArgumentError: a vector of the wrong shape or not finite, a normal of length zero, or a coefficient out of
            range.
    """

    point: Array
    normal: Array
    stiffness: float = 1e4
    damping: float = 0.0
    friction: float = 0.0
    stiction_speed: float = 1e-2

    def __post_init__(self) -> None:
        for name in ("point", "normal"):
            try:
                vector = frozen(getattr(self, name))
            except (TypeError, ValueError):
                raise ArgumentTypeError(f"{name}: expected three numbers, got {getattr(self, name)!r}") from None
            if vector.shape != (3,) or not np.isfinite(vector).all():
                raise ArgumentError(f"{name}: expected three finite numbers, got {getattr(self, name)!r}")
            object.__setattr__(self, name, vector)
        length = float(np.hypot(np.hypot(*self.normal[:2]), self.normal[2]))
        if not 1e-100 < length < 1e100:
            raise ArgumentError(f"normal: expected a vector of nonzero length, got {self.normal}")
        object.__setattr__(self, "normal", frozen(self.normal / length))
        for name, low, high in (
            ("stiffness", 0.0, np.inf),
            ("damping", 0.0, np.inf),
            ("friction", 0.0, MAX_FRICTION),
            ("stiction_speed", 0.0, np.inf),
        ):
            value = check_number(name, getattr(self, name))
            must_be_positive = name in ("stiffness", "stiction_speed")
            if not (low <= value <= high and np.isfinite(value)) or (must_be_positive and value == 0.0):
                range_text = (
                    "positive" if must_be_positive else f"between 0 and {high:g}" if high < np.inf else "0 or positive"
                )
                raise ArgumentError(f"{name}: expected a finite number, {range_text}, got {value}")
            object.__setattr__(self, name, value)

    @classmethod
    def floor(cls, height: float = 0.0, **coefficients: float) -> CompliantPlane:
        """Returns the horizontal plane at `height` [m], facing up.

        Args:
            height: z coordinate of the plane in the world [m].
            coefficients: stiffness, damping, friction and stiction speed as in the constructor.
        """
        return cls(
            point=np.array((0.0, 0.0, check_number("height", height))), normal=np.array((0.0, 0.0, 1.0)), **coefficients
        )

    @classmethod
    def wall(cls, x: float, **coefficients: float) -> CompliantPlane:
        """Returns the vertical plane at `x` [m] that faces -x, towards a robot at smaller x.

        Args:
            x: x coordinate of the plane in the world [m].
            coefficients: stiffness, damping, friction and stiction speed as in the constructor.
        """
        return cls(point=np.array((check_number("x", x), 0.0, 0.0)), normal=np.array((-1.0, 0.0, 0.0)), **coefficients)

    def depths(self, positions: Array) -> Array:
        """Returns the penetration depth of points [m]; negative values are distances in front of the surface.

        Args:
            positions: (k, 3) or (3,), world axes [m].

        Returns:
            (k,) or ().
        """
        return np.asarray((self.point - _check_points("positions", positions)) @ self.normal)

    def forces(self, positions: Array, velocities: Array) -> Array:
        """Computes the surface's force on each of k points.

        Args:
            positions: (k, 3) or (3,), world axes [m].
            velocities: of the same shape, world axes [m/s].

        Returns:
            (k, 3) or (3,) forces on the body, world axes [N]; zero in front of the surface.

        Raises:
            ArgumentError: wrong shapes, an entry that is not finite, or a force beyond the floating-point range.
        """
        d, v = self.depths(positions), _check_points("velocities", velocities, np.shape(positions))
        with np.errstate(over="ignore", invalid="ignore"):
            v_n = v @ self.normal
            v_t = v - v_n[..., None] * self.normal
            f_n = np.where(d > 0.0, np.maximum(self.stiffness * d - self.damping * v_n, 0.0), 0.0)
            drag = self.friction * f_n / np.maximum(np.linalg.norm(v_t, axis=-1), self.stiction_speed)
            f = f_n[..., None] * self.normal - drag[..., None] * v_t
        _check_overflow("the force", f, positions, velocities)
        return np.asarray(f)

    def derivatives(self, positions: Array, velocities: Array) -> tuple[Array, Array]:
        """Computes the partial derivatives of `forces`, each point's by its own position and velocity.

        At non-differentiable points (touchdown, clamp, stiction speed) they are those of the side with the smaller
        force.

        Args:
            positions: (k, 3) or (3,), world axes [m].
            velocities: of the same shape, world axes [m/s].

        Returns:
            By position [N/m] and by velocity [N s/m], both (k, 3, 3) or (3, 3).

        Raises:
            ArgumentError: as `forces`.
        """
        d, v = self.depths(positions), _check_points("velocities", velocities, np.shape(positions))
        n = self.normal
        with np.errstate(over="ignore", invalid="ignore"):
            v_n = v @ n
            v_t = v - v_n[..., None] * n
            speed = np.linalg.norm(v_t, axis=-1)
            f_n = self.stiffness * d - self.damping * v_n
        _check_overflow("the force", np.stack((speed, f_n)), positions, velocities)
        pushing = (d > 0.0) & (f_n > 0.0)
        f_n = np.where(pushing, f_n, 0.0)
        speed_floor = np.maximum(speed, self.stiction_speed)[..., None]
        force_direction = n - self.friction * v_t / speed_floor  # d f / d f_n
        tangent_projector = np.eye(3) - np.multiply.outer(n, n)
        sliding = (speed > self.stiction_speed)[..., None, None]
        tangential = tangent_projector - np.where(
            sliding, (v_t / speed_floor)[..., :, None] * (v_t / speed_floor)[..., None, :], 0.0
        )
        push = np.where(pushing[..., None, None], force_direction[..., :, None] * n, 0.0)
        by_velocity = -self.damping * push - (self.friction * f_n[..., None] / speed_floor)[..., None] * tangential
        return -self.stiffness * push, by_velocity

    def energy(self, positions: Array) -> float:
        """Computes the elastic energy stored in the surface, ``sum k d^2 / 2`` [J].

        Args:
            positions: (k, 3) or (3,), world axes [m].

        Raises:
            ArgumentError: as `forces`.
        """
        depths = np.maximum(self.depths(positions), 0.0)
        with np.errstate(over="ignore"):
            energy = 0.5 * self.stiffness * (depths**2).sum()
        _check_overflow("the energy", energy, positions)
        return float(energy)


def foot_forces(
    s: State, planes: CompliantPlane | Iterable[CompliantPlane], feet: Iterable[str] | None = None
) -> Mapping[str, Array]:
    """Computes the forces of compliant planes on the spheres of the feet.

    Each force acts at the deepest point of the sphere, ``c - r n``, which moves with ``v_c + omega x (-r n)``.

    Args:
        s: the state.
        planes: one plane or several; the forces of several planes on one foot are added.
        feet: names of the feet that can be in contact; None for all.

    Returns:
        (6,) force [N] and moment about the sphere's center [N m] by foot, on the robot, world axes; accepted as
        ``fext`` by `Dynamics.aba` and `Dynamics.rnea`.

    Raises:
        UnknownNameError: no such foot.
        ArgumentTypeError: `planes` contains something other than planes.
        StaleStateError: the Dynamics of `s` was updated again.
    """
    check_type("s", s, State, "the State that Dynamics.update returns")
    robot = s.robot
    names = robot.feet if feet is None else check_sequence("feet", feet, "names of feet")
    plane_list = (planes,) if isinstance(planes, CompliantPlane) else check_sequence("planes", planes, "planes")
    for plane in plane_list:
        check_type("planes", plane, CompliantPlane, "CompliantPlane")
    out = {}
    for name in names:
        if name not in robot.legs:
            raise UnknownNameError("foot", name, robot.feet)
        center, twist = s.placement(name).translation, s.velocity(name)
        wrench = np.zeros(6)
        for plane in plane_list:
            lever = -robot.legs[name].foot.radius * plane.normal
            force = plane.forces(center + lever, twist[:3] - pin.skew(lever) @ twist[3:])
            wrench += np.concatenate((force, pin.skew(lever) @ force))
        out[name] = wrench
    return out


def _check_overflow(quantity: str, value: Array | np.float64, *arguments: Array) -> None:
    """Raises `ArgumentError` unless `value`, computed from finite arguments, is finite."""
    if not np.isfinite(value).all():
        size = max(float(np.abs(x).max(initial=0.0)) for x in arguments)
        raise ArgumentError(
            f"positions, velocities: {quantity} overflows (largest entry {size:.3g}); pass smaller values"
        )


def _check_points(name: str, value: object, shape: tuple[int, ...] | None = None) -> Array:
    """Returns `value` as floats of shape (3,) or (k, 3), or of the given shape; raises `ArgumentError` otherwise."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        raise ArgumentTypeError(f"{name}: expected an array of numbers, got {type(value).__name__} of {array.dtype}")
    if array.ndim not in (1, 2) or array.shape[-1] != 3:
        raise ArgumentError(f"{name}: expected shape (3,) or (k, 3), got {array.shape}")
    if shape is not None and array.shape != shape:
        raise ArgumentError(f"{name}: expected the shape of positions, {shape}, got {array.shape}")
    if not np.isfinite(array).all():
        raise ArgumentError(f"{name}: every entry must be finite, got {array[~np.isfinite(array)][0]}")
    return array.astype(np.float64, copy=False)
