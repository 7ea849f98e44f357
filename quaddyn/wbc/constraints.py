"""Constraints as small classes: contacts that do not move, friction pyramids, normal forces, torques, own linear ones.

A constraint says which rows it wants; the level it is put on says how much they count.  Units are made comparable by
weights that turn every row into an acceleration: forces count per mass, torques per mass and leg length, joint
accelerations times the leg length.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar

import numpy as np

from ..contact.cones import friction_share
from ..errors import ArgumentError, UnknownNameError
from ..robot.arguments import number
from ..robot.robot import Robot
from ..urdf.tree import Array
from .block import Block, Scalar, Vector
from .contacts import ContactFrame
from .scales import scales
from .tick import Rows, Tick


class Constraint(Block, ABC):
    """Rows that limit what a tick decides; on any level of a controller.

    Args:
        name: by which the controller knows it.
        size: of its `block`: how many numbers a compiled tick reads.

    Attributes:
        robot: the one that it is of, None where it could be any.
    """

    #: What a compiled tick tells constraints apart by.
    code: ClassVar[int] = 100

    def __init__(self, name: str, size: int = 0, *, robot: Robot | None = None) -> None:
        self.name, self.robot = name, robot
        self._attach(np.zeros(size))

    @abstractmethod
    def rows(self, tick: Tick) -> list[Rows]:
        """The constraint's rows at one instant."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class ContactMotion(Constraint):
    """Contacts that hold do not move: ``J a + drift = -damping v`` at each contact point (all six rows of a surface).

    The damping takes out what velocity a contact has when it is made, and what numerics add.  A compliant contact's
    force is set equal to that of its spring here.  While a contact is made or broken its rows are not strict: see
    `quaddyn.wbc.controller`.

    Args:
        robot: the robot.
        damping: [1/s]; ``10 sqrt(g / l)`` by default.
        name: by which the controller knows it.
    """

    code = 101
    damping = Scalar(0)

    def __init__(self, robot: Robot, *, damping: float | None = None, name: str = "contact") -> None:
        super().__init__(name, 1, robot=robot)
        self.damping = 10.0 * scales(robot).frequency if damping is None else _positive("damping", damping, zero=True)

    def rest(self, contact: ContactFrame) -> Array:
        """(size,) acceleration that the contact point should have [m/s^2, rad/s^2]."""
        return np.asarray(-self.damping * contact.velocity)

    def rows(self, tick: Tick) -> list[Rows]:
        """Rows of made contacts, and the forces of compliant ones."""
        out = []
        for contact in tick.contacts:
            if contact.held and contact.share >= 1.0:
                wanted = self.rest(contact) - contact.drift
                names = tuple(f"{contact.name} contact {axis}" for axis in ("x", "y", "z", "rx", "ry", "rz"))
                out.append(Rows(names[: contact.size], "m/s^2", wanted, wanted, acceleration=contact.jacobian))
            elif contact.settings.role == "compliant":
                out.append(self._spring(tick, contact))
        return out

    def yielding_rows(self, contact: ContactFrame, progress: float) -> Rows:
        """Rows of a contact that is made or broken where no foot task shares the foot.

        Args:
            contact: the contact.
            progress: in (0, 1), how far it has grown on its present level: weight ``p / (1 - p)``.
        """
        wanted = self.rest(contact) - contact.drift
        names = tuple(f"{contact.name} contact {axis}" for axis in ("x", "y", "z", "rx", "ry", "rz"))[: contact.size]
        weights = np.full(contact.size, progress / (1.0 - progress))
        return Rows(names, "m/s^2", wanted, wanted, acceleration=contact.jacobian, weights=weights)

    def _spring(self, tick: Tick, contact: ContactFrame) -> Rows:
        force = np.zeros(contact.size)
        force[:3] = contact.spring_force() * contact.settings.normal
        block = tick.force_rows(contact, np.eye(contact.size))
        names = (f"{contact.name} spring",) * contact.size
        weights = np.full(contact.size, 1.0 / tick.scales.mass)
        return Rows(names, "N", force, force, force=block, weights=weights)


class FrictionPyramid(Constraint):
    """Forces of unilateral contacts stay in a pyramid *inside* Coulomb's cone, about each contact's own normal.

    With m faces whose outward directions d_i lie in the ground: ``d_i . f <= mu cos(pi / m) f_n``.  Its edges touch the
    cone and its faces' middles stay inside it by the factor cos(pi / m): 0.707 for the default of 4, which forbids up
    to 29 % of the friction that Coulomb allows; 0.924 for 8.  (A pyramid with mu along the axes would allow sqrt(2) mu
    on the diagonals.)  A surface has the cone of wrenches of `quaddyn.contact.pyramid`: four faces, the centre of
    pressure inside, and a bounded moment about the normal.

    Args:
        faces: m, at least 3.
        name: by which the controller knows it.
    """

    code = 102

    def __init__(self, *, faces: int = 4, name: str = "friction") -> None:
        super().__init__(name)
        friction_share(faces)
        self._faces = int(faces)

    @property
    def faces(self) -> int:
        """Of each pyramid."""
        return self._faces

    def rows(self, tick: Tick) -> list[Rows]:
        """One group per contact that pushes."""
        out = []
        for contact in tick.contacts:
            if contact.settings.role not in ("unilateral", "force") or not contact.settings.contact.unilateral:
                continue
            block = contact.settings.faces(self._faces, contact.rotation)
            names = (f"{contact.name} friction cone",) * len(block)
            weights = np.full(len(block), 1.0 / tick.scales.mass)
            zero, none = np.zeros(len(block)), np.full(len(block), -np.inf)
            out.append(Rows(names, "N", none, zero, force=tick.force_rows(contact, block), weights=weights))
        return out


class NormalForce(Constraint):
    """Normal forces of unilateral contacts between their bounds, `ContactSettings.limit`.

    While a contact is made or broken the least force counts in proportion to its share, and the largest is its cap: see
    `quaddyn.wbc.switching.Switch`.

    Args:
        name: by which the controller knows it.
    """

    code = 103

    def __init__(self, *, name: str = "normal force") -> None:
        super().__init__(name)

    def rows(self, tick: Tick) -> list[Rows]:
        """One row per contact with a bound; bilateral and chosen forces are bounded by their cap alone."""
        out = []
        for c in tick.contacts:
            settings = c.settings
            if settings.role == "compliant":
                continue
            weights = np.full(1, 1.0 / tick.scales.mass)
            cap = min(settings.maximum, c.cap)
            if settings.contact.unilateral:
                low = min(settings.minimum * c.share, cap)
                block = np.zeros((1, c.size))
                block[0, :3] = settings.normal
                rows = Rows(
                    (f"{c.name} normal force",),
                    "N",
                    np.array([low]),
                    np.array([cap]),
                    force=tick.force_rows(c, block),
                    weights=weights,
                )
                out.append(rows)
            elif cap < np.inf:  # a grip fades in and out on every axis
                bound = np.full(c.size, cap)
                if c.size == 6:
                    bound[3:] *= tick.scales.length
                names = (f"{c.name} grip",) * c.size
                block = tick.force_rows(c, np.eye(c.size))
                out.append(Rows(names, "N", -bound, bound, force=block, weights=np.repeat(weights, c.size)))
        return out


class TorqueLimits(Constraint):
    """Torques within the robot's limits.

    Args:
        robot: the robot.
        limits: (nu,) or scalar [N m]; ``robot.effort_limits`` by default.
        share: of the limits that may be used.
        name: by which the controller knows it.
    """

    code = 104
    limits = Vector(least=0.0)

    def __init__(
        self, robot: Robot, *, limits: Array | float | None = None, share: float = 1.0, name: str = "torque"
    ) -> None:
        super().__init__(name, robot.nu, robot=robot)
        bound = np.asarray(robot.effort_limits if limits is None else limits, dtype=np.float64)
        if bound.shape not in ((), (robot.nu,)) or not (bound >= 0.0).all():
            raise ArgumentError(f"limits: expected a number or {robot.nu} of them, not negative, got {limits}")
        self.limits = np.broadcast_to(bound, (robot.nu,)) * _positive("share", share, zero=True)
        self._names = tuple(f"{joint} torque limit" for joint in robot.actuated)
        self._rows = np.eye(robot.nu)

    def rows(self, tick: Tick) -> list[Rows]:
        """One row per joint with a limit."""
        which = np.flatnonzero(self.limits < 1e17)  # what is written for "none" counts as none
        if not len(which):
            return []
        names, bound = tuple(self._names[i] for i in which), self.limits[which]
        weights = np.full(len(bound), 1.0 / (tick.scales.mass * tick.scales.length))
        return [Rows(names, "N m", -bound, bound, torque=self._rows[which], weights=weights)]


class TorqueRate(Constraint):
    """Torques change by at most ``rate dt`` from one tick to the next; free on the first.

    For robots close to their torque limits.  Ramps of contacts move bounds, and where those bounds leave a level above
    a single choice, or nearly so, the strict optimum passes through what they open up as steeply as their faces are
    flat: without a jump, but tens of percent of ``m g l / 4`` in a millisecond.  Within a rate of 5 % per millisecond
    lower levels take longer, and upper ones give up nothing.

    Args:
        robot: the robot.
        rate: (nu,) or scalar [N m/s].
        name: by which the controller knows it.
    """

    code = 105
    rate = Vector(least=0.0)

    def __init__(self, robot: Robot, rate: Array | float, *, name: str = "torque rate") -> None:
        super().__init__(name, robot.nu, robot=robot)
        given = np.asarray(rate, dtype=np.float64)
        if given.shape not in ((), (robot.nu,)) or not (np.isfinite(given).all() and (given > 0.0).all()):
            raise ArgumentError(f"rate: expected a positive number or {robot.nu} of them [N m/s], got {rate}")
        self.rate = given
        self._names = tuple(f"{joint} torque rate" for joint in robot.actuated)
        self._rows = np.eye(robot.nu)

    def rows(self, tick: Tick) -> list[Rows]:
        """One row per joint, from the second tick on."""
        before = tick.tau_before
        if before is None:
            return []
        step = self.rate * tick.dt
        weights = np.full(len(step), 1.0 / (tick.scales.mass * tick.scales.length))
        return [Rows(self._names, "N m", before - step, before + step, torque=self._rows, weights=weights)]


class LinearConstraint(Constraint):
    """``lower <= A_a a + A_tau tau + sum_c A_c f_c <= upper``, with matrices of one's own; set anew at any tick.

    Args:
        name: by which the controller and explanations know it.
        lower: (m,) or scalar, -inf for none.
        upper: (m,) or scalar, inf for none; equal to `lower` for an equality.
        acceleration: (m, nv).
        torque: (m, nu).
        forces: (m, 3) or (m, 6) by contact; a contact that carries no force now counts with none.
        weights: (m,) or scalar, against other rows of the level.
        unit: for explanations.

    Raises:
        ArgumentError: shapes that do not fit, bounds that cross or are NaN.
        UnknownNameError: a contact that the controller does not know.
    """

    code = 106

    def __init__(
        self,
        name: str,
        lower: Array | float,
        upper: Array | float,
        *,
        acceleration: Array | None = None,
        torque: Array | None = None,
        forces: Mapping[str, Array] | None = None,
        weights: Array | float = 1.0,
        unit: str = "",
    ) -> None:
        super().__init__(name)
        self.unit = unit
        self._known: tuple[str, ...] | None = None
        self.set(lower, upper, acceleration=acceleration, torque=torque, forces=forces, weights=weights)

    def set(
        self,
        lower: Array | float,
        upper: Array | float,
        *,
        acceleration: Array | None = None,
        torque: Array | None = None,
        forces: Mapping[str, Array] | None = None,
        weights: Array | float = 1.0,
    ) -> None:
        """Replace all numbers; arguments and errors of the class."""
        self._check(forces or {}, self._known)
        parts: dict[str, Array] = {}
        for what, value in (("acceleration", acceleration), ("torque", torque), *(forces or {}).items()):
            if value is not None:
                parts[what] = np.array(value, dtype=np.float64)
                if parts[what].ndim != 2 or not np.isfinite(parts[what]).all():
                    raise ArgumentError(f"{self.name}: {what}: expected a finite matrix, got {value}")
        sizes = {len(part) for part in parts.values()}
        if len(sizes) != 1:
            raise ArgumentError(f"{self.name}: expected matrices with the same number of rows, got {sorted(sizes)}")
        m = sizes.pop()
        try:
            low, high, w = (
                np.broadcast_to(np.asarray(x, dtype=np.float64), (m,)).copy() for x in (lower, upper, weights)
            )
        except ValueError:
            raise ArgumentError(f"{self.name}: bounds and weights: expected {m} entries or one number") from None
        if not ((low <= high).all() and np.isfinite(w).all() and (w >= 0.0).all()):
            raise ArgumentError(f"{self.name}: expected lower <= upper and finite weights >= 0")
        if (low == np.inf).any() or (high == -np.inf).any():
            raise ArgumentError(f"{self.name}: no number lies between {low} and {high}")
        self._low, self._high, self._weights = low, high, w
        self._acceleration, self._torque = parts.pop("acceleration", None), parts.pop("torque", None)
        self._forces = parts

    def meet(self, known: Collection[str]) -> None:
        """Take only names of these contacts from now on.

        Raises:
            UnknownNameError: there are others already.
        """
        self._check(self._forces, known)
        self._known = tuple(known)

    def _check(self, names: Iterable[str], known: Collection[str] | None) -> None:
        for name in names:
            if known is not None and name not in known:
                raise UnknownNameError(f"contact of {self.name!r}", name, known)

    def rows(self, tick: Tick) -> list[Rows]:
        """The rows as they were set."""
        for part, n in ((self._acceleration, tick.robot.nv), (self._torque, tick.robot.nu)):
            if part is not None and part.shape[1] != n:
                raise ArgumentError(f"{self.name}: a matrix of {part.shape[1]} columns where {n} are needed")
        force = None
        if self._forces:
            force = np.zeros((len(self._low), tick.nf))
            for name, block in self._forces.items():
                contact = tick.contact(name)
                if contact is None:
                    continue
                if block.shape[1] != contact.size:
                    raise ArgumentError(f"{self.name}: {name}: expected {contact.size} columns, got {block.shape[1]}")
                force[:, contact.columns] += block
        names = (self.name,) * len(self._low)
        rows = Rows(names, self.unit, self._low, self._high, self._acceleration, force, self._torque, self._weights)
        return [rows]


def _positive(what: str, value: float, *, zero: bool = False) -> float:
    given = number(what, value)
    if not (np.isfinite(given) and (given > 0.0 or (zero and given == 0.0))):
        raise ArgumentError(f"{what}: expected a {'number >= 0' if zero else 'positive number'}, got {value}")
    return given
