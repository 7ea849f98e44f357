"""`ElevationMap`: heights of the ground about a robot, from point clouds, with how sure they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_vector, floats, number, positive
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, Pose, frozen

#: Most cells of a map; four millions weigh 64 MB.
MAX_CELLS = 4_000_000
#: Deviation of a height that was told instead of measured [m].
PRIOR_HEIGHT_STD = 1e-6
#: Distance from a line of cells' centres below which a point is on it, as a fraction of a cell: it may lie beyond the
#: window by as much, and cells to its other side do not count.  Coordinates of 1e6 cells are rounded by 1e-10.
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
    """A grid of heights that moves with the robot; unknown cells are NaN.

    Each cell holds the mean and the variance of a normally distributed height.  A scan gives a cell one measurement,
    the mean of the highest of its points, with the variance of the sensor and of the pose that it was taken from; it is
    fused by Kalman's rule.  A measurement that contradicts the cell by more than `outlier_gate` standard deviations
    leaves the height as it is and widens its variance until both agree: a stray point does no harm, and ground that did
    change is believed at the second sight.  All heights grow less certain with the way that the robot has gone, since
    its own height drifts.  Source: Fankhauser, Bloesch, Hutter 2018, "Probabilistic terrain mapping for mobile robots
    with uncertain localization".

    Cells lie on whole multiples of `resolution` in the world, so that the window moves without resampling.  Owns
    mutable
    memory: one per thread.

    Args:
        size: of the window along the world's x and y [m].
        resolution: side of a cell [m].
        center: (2,) of the window at first, x and y [m].
        drift_rate: standard deviation that heights gain over a metre that the sensor moves [m/sqrt(m)].
        outlier_gate: standard deviations within which a measurement agrees with a cell.

    Attributes:
        resolution: as given [m].
        shape: (n, m) cells along x and y.
        drift_rate: as given.
        outlier_gate: as given.

    Raises:
        ArgumentError: a length that is not positive, too many cells, or a center that is not finite.
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
        self.resolution = positive("resolution", resolution)
        if not (lengths > 0.0).all():
            raise ArgumentError(f"size: expected positive lengths [m], got {size}")
        if not float(np.prod(lengths / self.resolution + 1.0)) <= MAX_CELLS:
            raise ArgumentError(
                f"size, resolution: {size} m in cells of {resolution} m are more than {MAX_CELLS:,} cells"
            )
        n, m = (int(np.ceil(x / self.resolution - 1e-9)) + 1 for x in lengths)
        self.shape = (n, m)
        self.drift_rate, self.outlier_gate = number("drift_rate", drift_rate), positive("outlier_gate", outlier_gate)
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
        """A map that is told instead of measured, such as that of ``terrain.height``.

        Args:
            function: heights [m] of arrays x and y [m], both (n, m); NaN where it is unknown.
            size: of the window [m].
            resolution: side of a cell [m].
            center: (2,) of the window [m].

        Raises:
            ArgumentError: heights of another shape; and errors of the class.
        """
        if not callable(function):
            raise ArgumentTypeError(f"function: expected something to call, got {type(function).__name__}")
        out = cls(size, resolution=resolution, center=center)
        X, Y = np.meshgrid(*out.axes, indexing="ij")
        heights = floats("function", function(X, Y))
        if heights.shape not in ((), out.shape):
            raise ArgumentError(f"function: expected heights of shape {out.shape}, got {heights.shape}")
        out._height[:] = np.where(np.isfinite(heights), heights, np.nan)
        out._variance[:] = np.where(np.isfinite(heights), PRIOR_HEIGHT_STD**2, np.nan)
        return out

    # -- what it holds -----------------------------------------------------------------------------------------------
    @property
    def heights(self) -> Array:
        """(n, m) of the cells' centres, NaN where unknown [m]."""
        return frozen(self._height)

    @property
    def standard_deviations(self) -> Array:
        """(n, m) standard deviation of each height, NaN where unknown [m]."""
        return frozen(np.sqrt(self._variance))

    @property
    def axes(self) -> tuple[Array, Array]:
        """(n,) and (m,): x and y of the cells' centres [m]."""
        x, y = ((first + np.arange(n)) * self.resolution for first, n in zip(self._first, self.shape, strict=True))
        return x, y

    @property
    def known_fraction(self) -> float:
        """Share of the cells whose height is known."""
        return float(np.isfinite(self._height).mean())

    def height(self, x: ArrayLike, y: ArrayLike) -> Array:
        """Heights between the cells' centres, bilinear [m].

        Args:
            x: of any shape [m].
            y: of the same shape [m].

        Returns:
            Of that shape; NaN beyond the window and where a cell that counts is unknown.
        """
        X, Y = np.broadcast_arrays(floats("x", x), floats("y", y))
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
        """Upward unit normals of the ground, from differences of heights.

        Args:
            x: of any shape [m].
            y: of the same shape [m].
            stencil: how far to either side the heights are compared [m]; one cell by default.

        Returns:
            (..., 3), NaN where a height that counts is unknown.
        """
        d = self.resolution if stencil is None else positive("stencil", stencil)
        X, Y = np.broadcast_arrays(floats("x", x), floats("y", y))
        slope = [
            (self.height(X + dx, Y + dy) - self.height(X - dx, Y - dy)) / (2.0 * d) for dx, dy in ((d, 0.0), (0.0, d))
        ]
        out = np.stack((-slope[0], -slope[1], np.ones(X.shape)), axis=-1)
        length = np.linalg.norm(out, axis=-1, keepdims=True)
        return np.asarray(np.where(np.isfinite(length), out, np.nan) / length)

    # -- what comes in -----------------------------------------------------------------------------------------------
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
        """Fuse the points of one scan.

        Args:
            points: (k, 3) in the sensor's axes [m]; those that are not finite saw nothing and are left out.
            pose: of the sensor in the world.
            noise: standard deviation of the points, of all or (k,) of each [m].
            position_deviation: standard deviation of the pose's height [m].
            tilt_deviation: standard deviation of the pose's roll and pitch [rad].
            follow: move the window so that the sensor is at its centre.

        Returns:
            How many points fell into the window.

        Raises:
            ArgumentTypeError: something that is no array of numbers, or no pose.
            ArgumentError: a wrong shape, or a deviation that is not positive (of the pose: negative).
        """
        if not isinstance(pose, Pose):
            raise ArgumentTypeError(f"pose: expected a Pose, got {type(pose).__name__}")
        cloud = floats("points", points)
        if cloud.ndim != 2 or cloud.shape[1] != 3:
            raise ArgumentError(f"points: expected shape (k, 3), got {cloud.shape}")
        sigma = floats("noise", noise)
        if sigma.shape not in ((), (len(cloud),)) or not (np.isfinite(sigma) & (sigma > 0.0)).all():
            raise ArgumentError(f"noise: expected one positive number or {len(cloud)} [m], got shape {sigma.shape}")
        for name, value in (("position_deviation", position_deviation), ("tilt_deviation", tilt_deviation)):
            if not 0.0 <= number(name, value) < np.inf:
                raise ArgumentError(f"{name}: expected 0 or more, got {value}")
        place = check_vector("pose", pose.translation, (3,), "where the sensor is")
        turned = check_vector("pose", pose.rotation, (3, 3), "how the sensor is turned")
        if follow:
            self.recenter(place[:2])
        self._add_drift_variance(place)

        with np.errstate(invalid="ignore"):  # NaN and infinity stand for directions in which nothing was seen
            x, y, z = turned @ cloud.T + place[:, None]
            u, v = x / self.resolution - self._first[0], y / self.resolution - self._first[1]
        n, m = self.shape
        there = (u > -0.5) & (u < n - 0.5) & (v > -0.5) & (v < m - 0.5) & np.isfinite(z)
        if not there.all():
            x, y, z, u, v = (part[there] for part in (x, y, z, u, v))
            sigma = sigma[there] if sigma.ndim else sigma
        if len(z):
            cell = (u + 0.5).astype(np.intp) * m + (v + 0.5).astype(np.intp)
            common = tilt_deviation**2 * ((x - place[0]) ** 2 + (y - place[1]) ** 2) + position_deviation**2
            self._fuse_points(cell, z, sigma, common)
        return len(z)

    def _fuse_points(self, cell: NDArray[np.intp], z: Array, sigma: Array, common: Array) -> None:
        """Take in points: the cell of each, its height and its own deviation [m], and the pose's variance [m^2]."""
        height, variance = self._height.reshape(-1), self._variance.reshape(-1)
        top = np.full(height.size, -np.inf)
        np.maximum.at(top, cell, z)
        weight = (z >= top[cell] - self.outlier_gate * sigma) / sigma**2  # at an edge, of the points on top alone
        total = np.bincount(cell, weight, height.size)
        seen = np.flatnonzero(total)
        mean, shared = (np.bincount(cell, weight * x, height.size)[seen] / total[seen] for x in (z, common))
        measured = 1.0 / total[seen] + shared  # many points make up for their own noise, not for the pose's
        before, P = height[seen], variance[seen]
        off, gain = mean - before, P / (P + measured)
        agree = off**2 <= self.outlier_gate**2 * (P + measured)
        height[seen] = np.where(np.isnan(before), mean, np.where(agree, before + gain * off, before))
        widened = np.where(agree, (1.0 - gain) * P, P + (off / self.outlier_gate) ** 2)
        variance[seen] = np.where(np.isnan(before), measured, widened)

    def _add_drift_variance(self, place: Array) -> None:
        """Let all heights grow less certain with the way since the last scan."""
        if self._last_position is not None and self.drift_rate > 0.0:
            self._variance += self.drift_rate**2 * float(np.linalg.norm(place - self._last_position))
        self._last_position = np.array(place)

    def recenter(self, center: ArrayLike) -> None:
        """Centre the window elsewhere; cells that come into it are unknown, those that leave it are forgotten.

        Args:
            center: (2,) x and y [m].

        Raises:
            ArgumentError: it is not finite.
        """
        first = self._first_cell(check_vector("center", center, (2,), "x and y"))
        by = first - self._first
        if not by.any():
            return
        kept, wanted = [], []
        for d, n in zip(by.tolist(), self.shape, strict=True):
            kept.append(slice(min(max(d, 0), n), max(min(n + d, n), 0)))
            wanted.append(slice(min(max(-d, 0), n), max(min(n - d, n), 0)))
        for name in ("_height", "_variance"):
            new = np.full(self.shape, np.nan)
            new[tuple(wanted)] = getattr(self, name)[tuple(kept)]
            setattr(self, name, new)
        self._first = first

    def clear(self) -> None:
        """Make all cells unknown."""
        self._height[:], self._variance[:], self._last_position = np.nan, np.nan, None

    def _first_cell(self, center: Array) -> NDArray[np.int64]:
        """Number of the first cell along x and y of a window about `center`."""
        if not (np.abs(center) < 1e9 * self.resolution).all():
            raise ArgumentError(f"center: expected a place within 1e9 cells, got {center}")
        middle: NDArray[np.int64] = np.rint(center / self.resolution).astype(np.int64)
        return middle - np.array(self.shape, dtype=np.int64) // 2
