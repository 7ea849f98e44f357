"""`LinearConstraint`: a constraint whose rows are given as matrices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...errors import ArgumentError, UnknownNameError
from ...urdf.tree import Array, frozen
from ..tick import Rows, Tick
from .constraint import Constraint


class LinearConstraint(Constraint):
    r"""Rows with given matrices, which may be replaced between ticks.

    .. math::

        l \le A_a\, a + A_\tau\, \tau + \sum_c A_c\, f_c \le u

    Use it for limits that your program computes itself, such as the total power or a force distribution.

    Args:
        name: name of the constraint in the controller and in explanations.
        lower: l, (m,) or scalar, in its unit `unit`; -inf for no bound.
        upper: u, (m,) or scalar, in its unit `unit`; inf for no bound; equal to `lower` for an equality.
        acceleration: A_a, (m, nv) [`unit` per m/s^2 or rad/s^2]; zero if None.
        torque: A_tau, (m, nu) [`unit` per N m or N]; zero if None.
        forces: A_c, (m, 3) or (m, 6) by contact [`unit` per N or N m]; contacts without force are left out of a tick;
            zero if None.
        weights: (m,) or scalar, weights relative to the other rows of the level.
        unit: unit of the rows, for explanations.

    Raises:
        ArgumentError: shapes do not fit, or bounds cross or are NaN.
        UnknownNameError: the controller has no such contact.
    """

    def __init__(
        self,
        name: str,
        lower: ArrayLike,
        upper: ArrayLike,
        *,
        acceleration: ArrayLike | None = None,
        torque: ArrayLike | None = None,
        forces: Mapping[str, ArrayLike] | None = None,
        weights: ArrayLike = 1.0,
        unit: str = "",
    ) -> None:
        super().__init__(name)
        self.unit = unit
        self._known_contacts: tuple[str, ...] | None = None
        self.set(lower, upper, acceleration=acceleration, torque=torque, forces=forces, weights=weights)

    def set(
        self,
        lower: ArrayLike,
        upper: ArrayLike,
        *,
        acceleration: ArrayLike | None = None,
        torque: ArrayLike | None = None,
        forces: Mapping[str, ArrayLike] | None = None,
        weights: ArrayLike = 1.0,
    ) -> None:
        """Replaces all matrices and bounds; for its arguments and errors see the class.

        To replace one of them, assign to the attribute of the same name.
        """
        self._check_contacts(forces or {}, self._known_contacts)
        parts: dict[str, Array] = {}
        for name, value in (("acceleration", acceleration), ("torque", torque), *(forces or {}).items()):
            if value is not None:
                parts[name] = np.array(value, dtype=np.float64)
                if parts[name].ndim != 2 or not np.isfinite(parts[name]).all():
                    raise ArgumentError(f"{self.name}: {name}: expected a matrix of finite numbers, got {value}")
        sizes = {len(part) for part in parts.values()}
        if not sizes:
            raise ArgumentError(f"{self.name}: expected at least one matrix: acceleration=, torque= or forces=")
        if len(sizes) != 1:
            raise ArgumentError(
                f"{self.name}: expected matrices with the same number of rows, got {sorted(sizes)} rows"
            )
        m = sizes.pop()
        try:
            low, high, w = (
                np.broadcast_to(np.asarray(x, dtype=np.float64), (m,)).copy() for x in (lower, upper, weights)
            )
        except ValueError:
            raise ArgumentError(f"{self.name}: bounds and weights: expected {m} entries or one number") from None
        if not ((low <= high).all() and np.isfinite(w).all() and (w >= 0.0).all()):
            raise ArgumentError(f"{self.name}: lower, upper, weights: expected lower <= upper and finite weights >= 0")
        if (low == np.inf).any() or (high == -np.inf).any():
            raise ArgumentError(
                f"{self.name}: lower, upper: expected bounds between which a finite number exists, got {low} and {high}"
            )
        self._low, self._high, self._weights = low, high, w
        self._acceleration, self._torque = parts.pop("acceleration", None), parts.pop("torque", None)
        self._forces = parts

    def _replace_one(self, **changes: Any) -> None:
        """Replaces some of the matrices and bounds, and validates all of them."""
        current: dict[str, Any] = {
            "lower": self._low, "upper": self._high, "acceleration": self._acceleration, "torque": self._torque,
            "forces": self._forces, "weights": self._weights,
        }  # fmt: skip
        self.set(**(current | changes))

    @property
    def lower(self) -> Array:
        """(m,) lower bounds, -inf for no bound; may be set."""
        return frozen(self._low)

    @lower.setter
    def lower(self, value: ArrayLike) -> None:
        self._replace_one(lower=value)

    @property
    def upper(self) -> Array:
        """(m,) upper bounds, inf for no bound; may be set."""
        return frozen(self._high)

    @upper.setter
    def upper(self, value: ArrayLike) -> None:
        self._replace_one(upper=value)

    @property
    def weights(self) -> Array:
        """(m,) weights; may be set."""
        return frozen(self._weights)

    @weights.setter
    def weights(self, value: ArrayLike) -> None:
        self._replace_one(weights=value)

    @property
    def acceleration(self) -> Array | None:
        """(m, nv) matrix of accelerations, None for zeros; may be set."""
        return None if self._acceleration is None else frozen(self._acceleration)

    @acceleration.setter
    def acceleration(self, value: ArrayLike | None) -> None:
        self._replace_one(acceleration=value)

    @property
    def torque(self) -> Array | None:
        """(m, nu) matrix of torques, None for zeros; may be set."""
        return None if self._torque is None else frozen(self._torque)

    @torque.setter
    def torque(self, value: ArrayLike | None) -> None:
        self._replace_one(torque=value)

    @property
    def forces(self) -> Mapping[str, Array]:
        """(m, 3) or (m, 6) matrices of contact forces by contact; may be set."""
        return MappingProxyType({name: frozen(block) for name, block in self._forces.items()})

    @forces.setter
    def forces(self, value: Mapping[str, ArrayLike] | None) -> None:
        self._replace_one(forces=value)

    def validate_contacts(self, contacts: Collection[str]) -> None:
        """Checks that the contacts of the constraint exist.

        Args:
            contacts: names of the contacts of a controller.

        Raises:
            UnknownNameError: the constraint refers to another contact.
        """
        self._check_contacts(self._forces, contacts)

    def bind_contacts(self, contacts: Collection[str]) -> None:
        """Accepts only these contacts from now on.

        Args:
            contacts: names of the contacts of a controller.
        """
        self.validate_contacts(contacts)
        self._known_contacts = tuple(contacts)

    def _check_contacts(self, names: Iterable[str], known: Collection[str] | None) -> None:
        """Validates that contacts are known; all are accepted if `known` is None."""
        for name in names:
            if known is not None and name not in known:
                raise UnknownNameError(f"contact of {self.name!r}", name, known)

    def rows(self, tick: Tick) -> list[Rows]:
        """Returns the rows as they were set."""
        for part, n in ((self._acceleration, tick.robot.nv), (self._torque, tick.robot.nu)):
            if part is not None and part.shape[1] != n:
                raise ArgumentError(f"{self.name}: expected matrices of {n} columns, got {part.shape[1]}")
        force = None
        if self._forces:
            force = np.zeros((len(self._low), tick.nf))
            for name, block in self._forces.items():
                columns = tick.columns(name)
                if columns is None:
                    continue
                size = columns.stop - columns.start
                if block.shape[1] != size:
                    raise ArgumentError(f"{self.name}: {name}: expected {size} columns, got {block.shape[1]}")
                force[:, columns] += block
        names = (self.name,) * len(self._low)
        rows = Rows(names, self.unit, self._low, self._high, self._acceleration, force, self._torque, self._weights)
        return [rows]
