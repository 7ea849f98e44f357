"""`ElevationMap`: terrain heights around a robot from point clouds, with their uncertainty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_array, check_number, check_positive, check_vector
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, Pose, frozen

#: Maximum number of cells; four million need 64 MB.
MAX_CELLS = 4_000_000
#: Standard deviation of a height that was given instead of measured [m].
PRIOR_HEIGHT_STD = 1e-6
#: Distance from a line of cell centers below which a point is on it, as a fraction of a cell: it may lie outside the
#: window by as much, and needs no cells on the other side.  Coordinates of 1e6 cells are rounded by 1e-10.
LINE_TOLERANCE = 1e-9


@renamed_attributes(
    of="from_function",
    move="recenter",
    forget="clear",
    known="known_fraction",
    deviations="standard_deviations",
    cell="resolution",
    drift="drift_rate",
    gate="outlier_gate",
)
class ElevationMap(StrictAttributes, fixed=("resolution", "shape", "drift_rate", "outlier_gate")):
    """Grid of terrain heights that moves with the robot; unknown cells are NaN.

    Each cell stores mean and variance of a normally distributed height.  A scan gives a cell one measurement, the mean
    of its highest points, with the variance of the sensor and of the sensor pose; it is fused by a Kalman filter.  A
    measurement that contradicts the cell by more than `outlier_gate` standard deviations does not change the
    height, but increases its variance until both agree: single outliers have no effect, and terrain that has changed is
    accepted at the second measurement.  The variance of all heights grows with the distance traveled, since the robot's
    own height drifts.
    Source: Fankhauser, Bloesch, Hutter 2018, "Probabilistic terrain mapping for mobile robots with uncertain
    localization".

    Cell centers are integer multiples of `resolution` in the world, so that the window moves without resampling.  Owns
    mutable memory: one per thread.

    Args:
        size: (2,) size of the window along world x and y [m].
        resolution: side of a cell [m].
        center: (2,) initial center of the window, world x and y [m].
        drift_rate: standard deviation that heights gain per square root of the distance that the sensor moves
            [m/sqrt(m)].
        outlier_gate: number of standard deviations within which a measurement agrees with a cell.

    Attributes:
        resolution: as given [m].
        shape: (n, m) number of cells along x and y.
        drift_rate: as given [m/sqrt(m)].

    Raises:
        ArgumentError: a length is not positive, there are too many cells, or the center is not finite.
    """

    @renamed_parameters(cell="resolution", drift="drift_rate", gate="outlier_gate")
    def __init__(
        self,
        size: tuple[float, float] = (4.0, 4.0),
        *,
        resolution: float = 0.02,
        center: ArrayLike = (0.0, 0.0),
        drift_rate: float = 0.01,
        outlier_gate: float = 3.0,
    ) -> None:
        lengths = check_vector("size", size, (2,), "lengths along x and y")
        self.resolution = check_positive("resolution", resolution)
        if not (lengths > 0.0).all():
            raise ArgumentError(f"size: expected positive lengths [m], got {size}")
        if not float(np.prod(lengths / self.resolution + 1.0)) <= MAX_CELLS:
            raise ArgumentError(
                f"size, resolution: expected at most {MAX_CELLS:,} cells, got a map of {size} m with cells of "
                f"{resolution} m"
            )
        n, m = (int(np.ceil(x / self.resolution - 1e-9)) + 1 for x in lengths)
        self.shape = (n, m)
        self.drift_rate, self.outlier_gate = (
            check_number("drift_rate", drift_rate),
            check_positive("outlier_gate", outlier_gate),
        )
        if not 0.0 <= self.drift_rate < np.inf:
            raise ArgumentError(f"drift_rate: expected 0 or more, got {drift_rate}")
        self._first = self._first_cell(check_vector("center", center, (2,), "x and y"))
        self._height, self._variance = np.full(self.shape, np.nan), np.full(self.shape, np.nan)
        self._last_position: Array | None = None

    @classmethod
    @renamed_parameters(cell="resolution")
    def from_function(
        cls,
        function: Callable[[Array, Array], Any],
        size: tuple[float, float] = (4.0, 4.0),
        *,
        resolution: float = 0.02,
        center: ArrayLike = (0.0, 0.0),
    ) -> ElevationMap:
        """Creates a map with given heights, such as those of ``terrain.height``.

        Args:
            function: heights [m] of arrays x and y [m], both (n, m); NaN where unknown.
            size: (2,) size of the window [m].
            resolution: side of a cell [m].
            center: (2,) center of the window [m].

        Raises:
            ArgumentError: heights of a wrong shape, and errors of the class.
        """
        if not callable(function):
            raise ArgumentTypeError(f"function: expected a function of x and y, got {type(function).__name__}")
        out = cls(size, resolution=resolution, center=center)
        X, Y = np.meshgrid(*out.axes, indexing="ij")
        heights = check_array("function", function(X, Y))
        if heights.shape not in ((), out.shape):
            raise ArgumentError(f"function: expected heights of shape {out.shape}, got {heights.shape}")
        out._height[:] = np.where(np.isfinite(heights), heights, np.nan)
        out._variance[:] = np.where(np.isfinite(heights), PRIOR_HEIGHT_STD**2, np.nan)
        return out

    # -- heights -----------------------------------------------------------------------------------------------
    @property
    def heights(self) -> Array:
        """(n, m) heights at the cell centers, NaN where unknown [m]."""
        return frozen(self._height)

    @property
    def standard_deviations(self) -> Array:
        """(n, m) standard deviation of each height, NaN where unknown [m]."""
        return frozen(np.sqrt(self._variance))

    @property
    def axes(self) -> tuple[Array, Array]:
        """(n,) x and (m,) y coordinates of the cell centers, world [m]."""
        x, y = ((first + np.arange(n)) * self.resolution for first, n in zip(self._first, self.shape, strict=True))
        return x, y

    @property
    def known_fraction(self) -> float:
        """Fraction of the cells with known height."""
        return float(np.isfinite(self._height).mean())

    def height(self, x: ArrayLike, y: ArrayLike) -> Array:
        """Interpolates heights between the cell centers, bilinearly [m].

        Args:
            x: x coordinates of any shape, world [m].
            y: y coordinates of the same shape, world [m].

        Returns:
            Heights of that shape; NaN outside the window and where a cell with nonzero weight is unknown.
        """
        X, Y = np.broadcast_arrays(check_array("x", x), check_array("y", y))
        u, v = X / self.resolution - self._first[0], Y / self.resolution - self._first[1]
        n, m = self.shape
        edge = LINE_TOLERANCE
        inside = (u >= -edge) & (u <= n - 1.0 + edge) & (v >= -edge) & (v <= m - 1.0 + edge)
        u, v = np.clip(u, 0.0, n - 1.0), np.clip(v, 0.0, m - 1.0)
        i = np.where(inside, np.minimum(u, n - 2.0), 0.0).astype(np.intp)
        j = np.where(inside, np.minimum(v, m - 2.0), 0.0).astype(np.intp)
        s, t = np.where(inside, u - i, 0.0), np.where(inside, v - j, 0.0)
        out = np.zeros(X.shape)
        for a, b, weight in ((0, 0, (1 - s) * (1 - t)), (1, 0, s * (1 - t)), (0, 1, (1 - s) * t), (1, 1, s * t)):
            out += np.where(weight > LINE_TOLERANCE, weight * self._height[i + a, j + b], 0.0)
        return np.where(inside, out, np.nan)

    @renamed_parameters(reach="stencil")
    def normal(self, x: ArrayLike, y: ArrayLike, *, stencil: float | None = None) -> Array:
        """Computes upward unit normals of the terrain from differences of heights.

        Args:
            x: x coordinates of any shape, world [m].
            y: y coordinates of the same shape, world [m].
            stencil: distance to either side at which heights are compared [m]; None for one cell.

        Returns:
            (..., 3) normals, world; NaN where one of these heights is unknown.
        """
        d = self.resolution if stencil is None else check_positive("stencil", stencil)
        X, Y = np.broadcast_arrays(check_array("x", x), check_array("y", y))
        slope = [
            (self.height(X + dx, Y + dy) - self.height(X - dx, Y - dy)) / (2.0 * d) for dx, dy in ((d, 0.0), (0.0, d))
        ]
        out = np.stack((-slope[0], -slope[1], np.ones(X.shape)), axis=-1)
        length = np.linalg.norm(out, axis=-1, keepdims=True)
        return np.asarray(np.where(np.isfinite(length), out, np.nan) / length)

    # -- updates -----------------------------------------------------------------------------------------------
    def update(
        self,
        points: ArrayLike,
        pose: Pose,
        *,
        noise: ArrayLike = 0.01,
        position_deviation: float = 0.0,
        tilt_deviation: float = 0.0,
        follow: bool = True,
    ) -> int:
        """Fuses the points of one scan into the map.

        Args:
            points: (k, 3) points in the sensor frame [m]; points that are not finite are ignored.
            pose: pose of the sensor in the world.
            noise: standard deviation of the points, one or (k,) [m].
            position_deviation: standard deviation of the pose's height [m].
            tilt_deviation: standard deviation of the pose's roll and pitch [rad].
            follow: whether the window is centered at the sensor first.

        Returns:
            The number of points within the window.

        Raises:
            ArgumentTypeError: an argument is not an array of numbers, or `pose` is not a Pose.
            ArgumentError: a wrong shape, a noise that is not positive, or a negative deviation of the pose.
        """
        if not isinstance(pose, Pose):
            raise ArgumentTypeError(f"pose: expected a Pose, got {type(pose).__name__}")
        cloud = check_array("points", points)
        if cloud.ndim != 2 or cloud.shape[1] != 3:
            raise ArgumentError(f"points: expected shape (k, 3), got {cloud.shape}")
        sigma = check_array("noise", noise)
        if sigma.shape not in ((), (len(cloud),)) or not (np.isfinite(sigma) & (sigma > 0.0)).all():
            raise ArgumentError(f"noise: expected one positive number or {len(cloud)} [m], got shape {sigma.shape}")
        for name, value in (("position_deviation", position_deviation), ("tilt_deviation", tilt_deviation)):
            if not 0.0 <= check_number(name, value) < np.inf:
                raise ArgumentError(f"{name}: expected 0 or more, got {value}")
        position = check_vector("pose", pose.translation, (3,), "position of the sensor")
        rotation = check_vector("pose", pose.rotation, (3, 3), "rotation of the sensor")
        if follow:
            self.recenter(position[:2])
        self._add_drift_variance(position)

        with np.errstate(invalid="ignore"):  # NaN and infinity: no return in this direction
            x, y, z = rotation @ cloud.T + position[:, None]
            u, v = x / self.resolution - self._first[0], y / self.resolution - self._first[1]
        n, m = self.shape
        inside = (u > -0.5) & (u < n - 0.5) & (v > -0.5) & (v < m - 0.5) & np.isfinite(z)
        if not inside.all():
            x, y, z, u, v = (values[inside] for values in (x, y, z, u, v))
            sigma = sigma[inside] if sigma.ndim else sigma
        if len(z):
            cell = (u + 0.5).astype(np.intp) * m + (v + 0.5).astype(np.intp)
            pose_variances = (
                tilt_deviation**2 * ((x - position[0]) ** 2 + (y - position[1]) ** 2) + position_deviation**2
            )
            self._fuse_points(cell, z, sigma, pose_variances)
        return len(z)

    def _fuse_points(self, cell: NDArray[np.intp], z: Array, sigma: Array, pose_variances: Array) -> None:
        """Fuses points into the heights and variances of their cells.

        Args:
            cell: (k,) flat index of the cell of each point.
            z: (k,) heights [m].
            sigma: () or (k,) standard deviations [m].
            pose_variances: (k,) variances by the sensor pose [m^2].
        """
        height, variance = self._height.reshape(-1), self._variance.reshape(-1)
        highest = np.full(height.size, -np.inf)
        np.maximum.at(highest, cell, z)
        weight = (z >= highest[cell] - self.outlier_gate * sigma) / sigma**2  # at an edge, only the highest points
        total = np.bincount(cell, weight, height.size)
        measured_cells = np.flatnonzero(total)
        mean, pose_variance = (
            np.bincount(cell, weight * x, height.size)[measured_cells] / total[measured_cells]
            for x in (z, pose_variances)
        )
        measured_variance = (
            1.0 / total[measured_cells] + pose_variance
        )  # many points reduce their own noise, not that of the pose
        previous, P = height[measured_cells], variance[measured_cells]
        innovation, gain = mean - previous, P / (P + measured_variance)
        agrees = innovation**2 <= self.outlier_gate**2 * (P + measured_variance)
        height[measured_cells] = np.where(
            np.isnan(previous), mean, np.where(agrees, previous + gain * innovation, previous)
        )
        updated = np.where(agrees, (1.0 - gain) * P, P + (innovation / self.outlier_gate) ** 2)
        variance[measured_cells] = np.where(np.isnan(previous), measured_variance, updated)

    def _add_drift_variance(self, position: Array) -> None:
        """Increases the variance of all heights for the distance to the last sensor position."""
        if self._last_position is not None and self.drift_rate > 0.0:
            self._variance += self.drift_rate**2 * float(np.linalg.norm(position - self._last_position))
        self._last_position = np.array(position)

    def recenter(self, center: ArrayLike) -> None:
        """Moves the window; cells that enter it are unknown, those that leave it are deleted.

        Args:
            center: (2,) new center, world x and y [m].

        Raises:
            ArgumentError: the center is not finite.
        """
        first = self._first_cell(check_vector("center", center, (2,), "x and y"))
        shift = first - self._first
        if not shift.any():
            return
        source, target = [], []
        for d, n in zip(shift.tolist(), self.shape, strict=True):
            source.append(slice(min(max(d, 0), n), max(min(n + d, n), 0)))
            target.append(slice(min(max(-d, 0), n), max(min(n - d, n), 0)))
        for name in ("_height", "_variance"):
            new = np.full(self.shape, np.nan)
            new[tuple(target)] = getattr(self, name)[tuple(source)]
            setattr(self, name, new)
        self._first = first

    def clear(self) -> None:
        """Sets the heights of all cells to unknown."""
        self._height[:], self._variance[:], self._last_position = np.nan, np.nan, None

    def _first_cell(self, center: Array) -> NDArray[np.int64]:
        """Returns the indices (2,) of the first cell along x and y of a window with a given center."""
        if not (np.abs(center) < 1e9 * self.resolution).all():
            raise ArgumentError(f"center: expected a position within 1e9 cells, got {center}")
        middle: NDArray[np.int64] = np.rint(center / self.resolution).astype(np.int64)
        return middle - np.array(self.shape, dtype=np.int64) // 2
