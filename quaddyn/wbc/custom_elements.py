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

A Jacobian that contradicts the differences of the value, for example by its sign, rows or scale, causes a
`RuntimeWarning`.  Each row is compared once: at the first tick along all motions that the closed contacts permit, or at
the first tick in which its value moves.  If the drift is known in
closed form, override `drift`, which saves two evaluations of the Jacobian.  For other elements, such as rows on forces
and torques, derive from `quaddyn.wbc.Constraint` and define a method `rows`.  With a single row, scalars and a flat
(nv,) Jacobian are accepted.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

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

#: Largest second difference of a value, as a fraction of the first one, at which the value counts as smooth.
MAX_CURVATURE = 0.1

#: Ratio of the derivative of an error to its Jacobian below which their units differ, if the ratio is the same at half
#: the error (the ratio of a clipped error is not); and relative deviation up to which values count as the same.
MIN_SCALE, SCALE_TOLERANCE = 0.05, 0.1

#: Rotation of the heading at which a Jacobian is compared a second time [rad].
CHECKED_HEADING = 1.0

#: Singular values of the contact Jacobian below this fraction of the largest one are zero.
RANK_TOLERANCE = 1e-6

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
        self._differencer.check_jacobian(self, "error", tick, error, -J)
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
        self._differencer.check_jacobian(self, "value", tick, value, J)
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

    def check_jacobian(
        self, element: CustomTask | CustomConstraint, method: str, tick: Tick, values: Array, J: Array
    ) -> None:
        """Compares the derivative of an element's values with ``J``, each row once.

        The first call compares it along all motions that the contacts of the tick permit: a value may be relative to
        feet that do not move, and its Jacobian may omit them.  Rows whose value does not change along these motions are
        compared along v once it changes.  A wrong sign, frame, order or scale is reported, once.  Rows that change in
        the direction of ``J v``, but less, are accepted, because errors may be clipped, and so are rows that errors of
        rotations couple.  Both are compared again at later states.

        Args:
            element: the element.
            method: name of its method that computes the values.
            tick: the tick.
            values: (rows,) the values at this tick.
            J: (rows, nv) their derivative by the velocity, according to the element's Jacobian.

        Warns:
            RuntimeWarning: a row deviates by more than `MAX_JACOBIAN_DEVIATION`.
        """

        def evaluate(state: State) -> Array:
            return _check_row_values(element, method, getattr(element, method)(state), len(J))

        if len(self._is_checked) != len(J):
            self._is_checked = np.zeros(len(J), dtype=bool)
            self._check_permitted_motions(element, method, tick, values, J, evaluate)
        if self._is_checked.all():
            return
        s = tick.state
        max_speed = float(np.abs(s.v).max(initial=0.0))
        if max_speed < MIN_CHECKED_SPEED:
            return
        self._ticks += 1
        if self._ticks > MAX_CONSECUTIVE_CHECKS and self._ticks % CHECK_INTERVAL:
            return
        derivative, expected = self._differentiate(evaluate, s), J @ s.v
        size = np.maximum(np.abs(derivative), np.abs(expected))
        is_clipped = (derivative * expected >= 0.0) & (np.abs(derivative) <= np.abs(expected))
        is_compared = (size > MIN_CHECKED_DERIVATIVE * max_speed) & (size >= 0.5 * size.max()) & ~self._is_checked
        is_different = np.abs(derivative - expected) > MAX_JACOBIAN_DEVIATION * size
        wrong = is_compared & is_different & ~is_clipped
        self._is_checked |= is_compared & ~is_different
        if wrong.any():
            row = int(np.argmax(wrong))
            self._warn(element, method, row, f"along v is {derivative[row]:.4g}, and {{}}J v is {expected[row]:.4g}")

    def _check_permitted_motions(
        self,
        element: CustomTask | CustomConstraint,
        method: str,
        tick: Tick,
        values: Array,
        J: Array,
        evaluate: Callable[[State], Array],
    ) -> None:
        """Compares the derivatives of all values with ``J`` along all motions that the contacts permit.

        With a free root it does so once more at another heading, at which world and body axes differ; the permitted
        motions, in body axes, are the same at both headings.
        """
        s, integrate, model = tick.state, self._robot.algorithms.integrate, self._robot.model
        q, v, no_step, heading_step = np.array(s.q), np.array(s.v), np.zeros(len(s.v)), np.zeros(len(s.v))
        directions, sign = _permitted_directions(tick), -1.0 if method == "error" else 1.0

        def evaluate_at(start: Array, step: Array) -> Array:
            return evaluate(self._dynamics.update(integrate(model, start, step), v)).copy()

        def differentiate(start: Array) -> tuple[Array, Array]:
            after = np.array([evaluate_at(start, DIFFERENCE_STEP * d) for d in directions]).T
            before = np.array([evaluate_at(start, -DIFFERENCE_STEP * d) for d in directions]).T
            curvature = after + before - 2.0 * evaluate_at(start, no_step)[:, np.newaxis]
            return (after - before) / (2.0 * DIFFERENCE_STEP), curvature / DIFFERENCE_STEP

        # Values that depend on earlier calls have no derivative.
        if len(directions) < len(J) or not np.allclose(evaluate_at(q, no_step), values, rtol=1e-9, atol=1e-12):
            return
        is_checked = self._compare_permitted_motions(element, method, values, J, q, directions, differentiate)
        if self._robot.root == "free" and not self._is_checked.all():
            heading_step[3:6] = CHECKED_HEADING * pin.Quaternion(*q[[6, 3, 4, 5]]).toRotationMatrix()[2]
            turned = np.asarray(integrate(model, q, heading_step))
            with suppress(Exception):  # elements may be undefined at that heading
                values = evaluate_at(turned, no_step)
                J = sign * _evaluate_jacobian(element, self._dynamics.update(turned, v), len(J))
                is_checked &= self._compare_permitted_motions(
                    element, method, values, J, turned, directions, differentiate, location=" at another heading"
                )
        self._is_checked |= is_checked

    def _compare_permitted_motions(
        self,
        element: CustomTask | CustomConstraint,
        method: str,
        values: Array,
        J: Array,
        q: Array,
        directions: Array,
        differentiate: Callable[[Array], tuple[Array, Array]],
        *,
        location: str = "",
    ) -> NDArray[np.bool_]:
        """Compares the derivatives of values with ``J`` and warns of the first row that differs.

        Args:
            element: the element.
            method: name of its method that computes the values.
            values: (rows,) the values at q.
            J: (rows, nv) their derivative by the velocity, according to the element's Jacobian.
            q: (nq,) configuration.
            directions: (k, nv) orthonormal velocities along which the values are differentiated.
            differentiate: function of a configuration that returns the derivatives (rows, k) of the values along
                `directions`, and their second differences (rows, k) divided by the step.
            location: words for the warning that describe the configuration, with a leading space.

        Returns:
            (rows,) whether each row has a large enough derivative and agrees with ``J``.
        """
        (derivative, curvature), expected = differentiate(q), J @ directions.T
        lengths, expected_lengths = np.linalg.norm(derivative, axis=1), np.linalg.norm(expected, axis=1)
        size = np.maximum(lengths, expected_lengths)
        is_compared = (size > MIN_CHECKED_DERIVATIVE) & (np.linalg.norm(curvature, axis=1) <= MAX_CURVATURE * size)
        is_different = np.linalg.norm(derivative - expected, axis=1) > MAX_JACOBIAN_DEVIATION * size
        coupling = np.linalg.lstsq(expected.T, derivative.T, rcond=None)[0].T
        # Clipped vectors and rotations couple rows by a matrix with a positive semidefinite symmetric part.
        is_coupled = (
            len(J) > 1
            and bool((np.linalg.norm(derivative - coupling @ expected, axis=1) <= SCALE_TOLERANCE * size).all())
            and bool((MAX_JACOBIAN_DEVIATION * lengths <= expected_lengths).all())
            and np.linalg.eigvalsh(coupling + coupling.T)[0] >= -SCALE_TOLERANCE * np.abs(coupling).max()
        )
        for row in np.flatnonzero(is_compared & is_different).tolist():
            ratio = float(derivative[row] @ expected[row]) / max(float(expected_lengths[row] ** 2), 1e-300)
            is_scaled = np.linalg.norm(derivative[row] - ratio * expected[row]) <= SCALE_TOLERANCE * lengths[row]
            if is_scaled and 0.0 <= ratio <= 1.0:
                if ratio > MIN_SCALE or lengths[row] == 0.0:
                    continue
                # Step to a configuration at which the error, without clipping, is half as large.
                half_step = -0.5 / ratio * np.linalg.pinv(expected) @ values @ directions
                half_derivative = np.full(len(directions), np.inf)
                with suppress(Exception):  # likewise
                    half_q = self._robot.algorithms.integrate(self._robot.model, q, half_step)
                    half_derivative = differentiate(half_q)[0][row]
                if np.linalg.norm(half_derivative - derivative[row]) > SCALE_TOLERANCE * lengths[row]:
                    continue  # a clipped error
            elif is_coupled and not is_scaled:
                continue
            motion = derivative[row] - expected[row]
            motion /= np.linalg.norm(motion)
            text = (
                f"along a motion that the contacts permit{location} is {derivative[row] @ motion:.4g}, and {{}}J v is "
                f"{expected[row] @ motion:.4g}"
            )
            if is_scaled and ratio > 0.0:
                text += f", a scale of {ratio:.4g} between them"
            self._warn(element, method, row, text)
            break
        return np.asarray(is_compared & ~is_different)

    def _warn(self, element: CustomTask | CustomConstraint, method: str, row: int, difference: str) -> None:
        """Warns about a row of the Jacobian, and ends the comparison; `difference` has {} for the sign of J."""
        self._is_checked[:] = True
        warnings.warn(
            f"{element.name}.jacobian: does not match {element.name}.{method}: the derivative of row {row} "
            f"{difference.format('-' if method == 'error' else '')}; check sign, frame, order and unit",
            RuntimeWarning,
            stacklevel=3,
        )

    def _differentiate(self, function: Callable[[State], Array], s: State) -> Array:
        """Returns the derivative of a function of the state along v, which must not be zero."""
        v, q = np.array(s.v), np.array(s.q)
        step = DIFFERENCE_STEP / float(np.abs(v).max())
        integrate, model = self._robot.algorithms.integrate, self._robot.model
        after = function(self._dynamics.update(integrate(model, q, step * v), v)).copy()
        before = function(self._dynamics.update(integrate(model, q, -step * v), v))
        return np.asarray((after - before) / (2.0 * step))


def _permitted_directions(tick: Tick) -> Array:
    """Returns an orthonormal basis (k, nv) of the velocities at which the closed contacts do not move."""
    jacobians = [contact.jacobian for contact in tick.contacts if contact.is_motion_constrained]
    if not jacobians:
        return np.eye(len(tick.state.v))
    _, values, basis = np.linalg.svd(np.vstack(jacobians))
    return basis[np.count_nonzero(values > RANK_TOLERANCE * values[0]) :]


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
