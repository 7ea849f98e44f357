"""`CustomTask` and `CustomConstraint`: base classes of user-defined elements.

Both are defined by functions of the configuration, of which the user defines the value and the Jacobian.  Velocities
are ``J v``, and the drift ``dJ/dt v`` is computed by differences of the Jacobian along the motion.  They may be added
to a running controller, and removed again::

    class Together(CustomTask):
        '''Two feet at the same height.'''

        def error(self, s):
            return s.placement("FR").translation[2:] - s.placement("FL").translation[2:]

        def jacobian(self, s):
            return s.jacobian("FL")[2:3] - s.jacobian("FR")[2:3]

    wbc.add(Together(robot, "together", rows=1, stiffness=100.0), level=1)
    wbc.remove("together")

A Jacobian that contradicts the differences of the value along the motion, for example by its sign, causes a
`RuntimeWarning`.  Each row is compared once, at the first tick in which its value moves.  If the drift is known in
closed form, override `drift`, which saves two evaluations of the Jacobian.  For other elements, such as rows on forces
and torques, derive from `quaddyn.wbc.Constraint` and define a method `rows`.  With a single row, scalars and a flat
(nv,) Jacobian are accepted.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from ..dynamics import Dynamics, State
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_sequence
from ..robot.robot import Robot
from ..urdf.tree import Array
from .constraints import Constraint
from .tasks.task import Gain, Task, check_row_values
from .tick import Rows, Tick

#: Largest entry of v times the step of the central difference [rad, m]: the truncation error is of the order of its
#: square, the rounding error of the order of 1e-16 divided by it.
DIFFERENCE_STEP = 1e-5

#: Largest deviation of ``J v`` from the derivative of a value, as a fraction of the larger of both, and smallest
#: derivative, relative to the largest entry of v [m], that is compared.
MAX_JACOBIAN_DEVIATION, MIN_CHECKED_DERIVATIVE = 0.5, 1e-3

#: Minimum largest entry of v [rad/s, m/s] at which a Jacobian is compared: at rest the direction of v is arbitrary.
MIN_CHECKED_SPEED = 1e-4

#: Number of ticks with motion in which every tick is compared, as long as a row has not moved enough; afterwards only
#: every `CHECK_INTERVAL`-th tick is.
MAX_CONSECUTIVE_CHECKS, CHECK_INTERVAL = 500, 32


class CustomTask(Task):
    r"""User-defined motion task; define `error` and `jacobian`.

    The rows are

    .. math:: J\, a + \dot J v = \ddot x + K_d\, (\dot x - J v) + K_p\, e(q)

    with the error e and the reference acceleration and velocity, which are zero unless they are set.

    Args:
        robot: the robot.
        name: name of the task in the controller.
        rows: number of rows, or their names.
        stiffness: K_p, scalar or (rows,) [1/s^2].
        damping: K_d, scalar or (rows,) [1/s]; critical damping if None.
        weight: scalar or (rows,), relative to the other rows of the level, dimensionless.
        unit: unit of the rows as accelerations.
        axes: names of the rows to use; all if None.
    """

    def __init__(
        self,
        robot: Robot,
        name: str,
        rows: int | Sequence[str],
        *,
        stiffness: Gain,
        damping: Gain | None = None,
        weight: Gain = 1.0,
        unit: str = "m/s^2",
        axes: Sequence[str] | None = None,
    ) -> None:
        names = row_names(rows)
        super().__init__(
            robot, name, names, (unit,) * len(names), 0, stiffness=stiffness, damping=damping, weight=weight, axes=axes
        )
        self._differencer = JacobianDifferencer(robot)

    @property
    def has_reference(self) -> bool:
        """True: `error` includes the reference."""
        return True

    @abstractmethod
    def error(self, s: State) -> Array:
        """(rows,) reference minus current value: a function of the configuration, apart from moving references."""

    @abstractmethod
    def jacobian(self, s: State) -> Array:
        """(rows, nv) Jacobian J of the current value, whose time derivative is ``J v``."""

    def position(self, s: State) -> Array:
        """(0,) empty: the task has no reference position."""
        return np.zeros(0)

    def velocity(self, s: State) -> Array:
        """(rows,) velocity ``J v``."""
        return np.asarray(_evaluate_jacobian(self, s, len(self.labels)) @ s.v)

    def drift(self, s: State) -> Array:
        """(rows,) drift ``dJ/dt v``, by differences; zero at rest."""
        return self._differencer.drift(self, s, len(self.labels))

    def rows(self, tick: Tick) -> list[Rows]:
        """Returns the rows at a tick, with one evaluation each of `error`, `jacobian` and `drift`."""
        s, n = tick.state, len(self.labels)
        J, error = _evaluate_jacobian(self, s, n), _check_row_values(self, "error", self.error(s), n)
        self._differencer.check_jacobian(self, "error", s, -J)
        desired = self._acceleration + self._damping * (self._velocity - J @ s.v) + self._stiffness * error
        return self.select_rows(J, np.asarray(desired - _check_row_values(self, "drift", self.drift(s), n)))


class CustomConstraint(Constraint):
    r"""User-defined limit ``value >= 0`` on a function of the configuration; define `value` and `jacobian`.

    .. math:: J\, a + \dot J v \ge -K_d\, J v - K_p\, h(q)

    with the value :math:`h`.  Along the bound the value converges to zero like a spring with a damper.  It does not
    cross zero if the damping is critical or more and the initial velocity is small enough. Source: Nguyen, Sreenath
    2016, "Exponential control barrier functions for enforcing high relative-degree safety-critical constraints".

    Args:
        robot: the robot.
        name: name of the constraint in the controller.
        rows: number of rows, or their names.
        stiffness: K_p, scalar or (rows,) [1/s^2].
        damping: K_d, scalar or (rows,) [1/s]; ``2 sqrt(stiffness)`` if None.
        weight: scalar or (rows,), relative to the other rows of the level, dimensionless.
        unit: unit of the rows as accelerations.

    Attributes:
        stiffness: (rows,) K_p [1/s^2]; may be set at any time.
        damping: (rows,) K_d [1/s], critical if None was given; may be set at any time.
        weight: (rows,) weights, dimensionless; may be set at any time.
    """

    def __init__(
        self,
        robot: Robot,
        name: str,
        rows: int | Sequence[str],
        *,
        stiffness: Gain,
        damping: Gain | None = None,
        weight: Gain = 1.0,
        unit: str = "m/s^2",
    ) -> None:
        super().__init__(name, robot=robot)
        self.unit, self._rows = unit, tuple(f"{name} {row}" for row in row_names(rows))
        self._upper = np.full(len(self._rows), np.inf)
        self.stiffness, self.weight = stiffness, weight
        self.damping = 2.0 * np.sqrt(self.stiffness) if damping is None else damping
        self._differencer = JacobianDifferencer(robot)

    @property
    def stiffness(self) -> Array:
        """(rows,) stiffness [1/s^2]; may be set."""
        return self._stiffness

    @stiffness.setter
    def stiffness(self, value: Gain) -> None:
        self._stiffness = check_row_values("stiffness", value, len(self._rows))

    @property
    def damping(self) -> Array:
        """(rows,) damping [1/s]; may be set."""
        return self._damping

    @damping.setter
    def damping(self, value: Gain) -> None:
        self._damping = check_row_values("damping", value, len(self._rows))

    @property
    def weight(self) -> Array:
        """(rows,) weights relative to the other rows of the level, dimensionless; may be set."""
        return self._weight

    @weight.setter
    def weight(self, value: Gain) -> None:
        self._weight = np.array(check_row_values("weight", value, len(self._rows)))

    @abstractmethod
    def value(self, s: State) -> Array:
        """(rows,) values that must not become negative; a function of the configuration."""

    @abstractmethod
    def jacobian(self, s: State) -> Array:
        """(rows, nv) Jacobian of the value: ``d/dt value = J v``."""

    def drift(self, s: State) -> Array:
        """(rows,) drift ``dJ/dt v``, by differences; zero at rest."""
        return self._differencer.drift(self, s, len(self._rows))

    def rows(self, tick: Tick) -> list[Rows]:
        """Returns the rows at a tick, with one evaluation each of `value`, `jacobian` and `drift`."""
        s, n = tick.state, len(self._rows)
        J, value = _evaluate_jacobian(self, s, n), _check_row_values(self, "value", self.value(s), n)
        self._differencer.check_jacobian(self, "value", s, J)
        lower = (
            -self._damping * (J @ s.v) - self._stiffness * value - _check_row_values(self, "drift", self.drift(s), n)
        )
        return [Rows(self._rows, self.unit, np.asarray(lower), self._upper, acceleration=J, weights=self._weight)]


class JacobianDifferencer:
    """Computer of derivatives along the motion by central differences, with separate dynamics buffers."""

    def __init__(self, robot: Robot) -> None:
        self._robot, self._dynamics = robot, Dynamics(robot, validate=False)
        self._is_checked, self._ticks = np.zeros(0, dtype=bool), 0

    def drift(self, element: CustomTask | CustomConstraint, s: State, rows: int) -> Array:
        """Returns ``dJ/dt v`` of an element, by the central difference of its Jacobian along v."""
        if not np.any(s.v):
            return np.zeros(rows)
        return self._differentiate(lambda moved: _evaluate_jacobian(element, moved, rows), s) @ s.v

    def check_jacobian(self, element: CustomTask | CustomConstraint, method: str, s: State, J: Array) -> None:
        """Compares the derivative of an element's value along v with ``J v``, each row once it moves.

        A wrong sign or a wrong frame is reported, once.  Rows that change in the direction of ``J v``, but less, are
        accepted, because errors may be clipped; and so are small rows, because errors of rotations couple rows.  Both
        are compared again at later states.

        Warns:
            RuntimeWarning: a row deviates by more than `MAX_JACOBIAN_DEVIATION`.
        """
        if len(self._is_checked) != len(J):
            self._is_checked = np.zeros(len(J), dtype=bool)
        if self._is_checked.all():
            return
        max_speed = float(np.abs(s.v).max(initial=0.0))
        if max_speed < MIN_CHECKED_SPEED:
            return
        self._ticks += 1
        if self._ticks > MAX_CONSECUTIVE_CHECKS and self._ticks % CHECK_INTERVAL:
            return
        derivative = self._differentiate(
            lambda moved: _check_row_values(element, method, getattr(element, method)(moved), len(J)), s
        )
        expected = J @ s.v
        size = np.maximum(np.abs(derivative), np.abs(expected))
        is_clipped = (derivative * expected >= 0.0) & (np.abs(derivative) <= np.abs(expected))
        is_compared = (size > MIN_CHECKED_DERIVATIVE * max_speed) & (size >= 0.5 * size.max()) & ~self._is_checked
        is_different = np.abs(derivative - expected) > MAX_JACOBIAN_DEVIATION * size
        wrong = is_compared & is_different & ~is_clipped
        self._is_checked |= is_compared & ~is_different
        if wrong.any():
            self._is_checked[:] = True
            row = int(np.argmax(wrong))
            sign = "-" if method == "error" else ""
            warnings.warn(
                f"{element.name}.jacobian: does not match {element.name}.{method}: the derivative of row {row} along v "
                f"is {derivative[row]:.4g}, and {sign}J v is {expected[row]:.4g}; check sign, frame and order",
                RuntimeWarning,
                stacklevel=2,
            )

    def _differentiate(self, function: Callable[[State], Array], s: State) -> Array:
        """Returns the derivative of a function of the state along v, which must not be zero."""
        v, q = np.array(s.v), np.array(s.q)
        step = DIFFERENCE_STEP / float(np.abs(v).max())
        integrate, model = self._robot.algorithms.integrate, self._robot.model
        after = function(self._dynamics.update(integrate(model, q, step * v), v)).copy()
        before = function(self._dynamics.update(integrate(model, q, -step * v), v))
        return np.asarray((after - before) / (2.0 * step))


def _evaluate_jacobian(element: CustomTask | CustomConstraint, s: State, rows: int) -> Array:
    """Returns the Jacobian (rows, nv) of an element; a single row may be flat."""
    given = element.jacobian(s)
    J = np.asarray(given, dtype=np.float64)
    if J.ndim == 1:
        J = J[np.newaxis]
    if J.shape != (rows, len(s.v)):
        raise ArgumentError(
            f"{element.name}.jacobian: expected a returned array of shape ({rows}, {len(s.v)}), got {np.shape(given)}"
        )
    return J


def _check_row_values(element: CustomTask | CustomConstraint, method: str, given: Array | float, rows: int) -> Array:
    """Returns one finite number per row of an element; a single row may be a scalar."""
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{element.name}.{method}: expected returned numbers, got {given!r}") from None
    if values.ndim == 0 and rows == 1:
        values = values[np.newaxis]
    if values.shape != (rows,):
        raise ArgumentError(
            f"{element.name}.{method}: expected a returned array of shape ({rows},), got {values.shape}"
        )
    if not np.isfinite(values).all():
        raise ArgumentError(f"{element.name}.{method}: expected returned finite numbers, got {given!r}")
    return values


def row_names(rows: int | Sequence[str]) -> tuple[str, ...]:
    """Returns the names of rows: the given names, or "0", "1", ... for a number of rows.

    Raises:
        ArgumentTypeError: neither a number nor a sequence.
        ArgumentError: no row, or a name that is used twice.
    """
    if isinstance(rows, bool) or not isinstance(rows, int | Sequence):
        raise ArgumentTypeError(f"rows: expected the number of rows or their names, got {type(rows).__name__}")
    names = tuple(map(str, range(rows))) if isinstance(rows, int) else check_sequence("rows", rows, "names of rows")
    if not names or len(set(names)) != len(names):
        raise ArgumentError(f"rows: expected at least one row, and each name once, got {rows}")
    return names
