"""The compiled reading of a `FootholdMap`."""

from __future__ import annotations

import math

from ..compiler import Matrix, Tensor, Vector, entry

#: Half the side of the patch that a foot wants to be a plane, in cells.
PATCH_RADIUS = 3


@entry("footholds on ground that is known")
def fit_planes(
    heights: Matrix,
    slopes: Tensor,
    cost: Matrix,
    cell: float,
    slope_scale: float,
    roughness_scale: float,
    begin: int,
    end: int,
) -> None:
    """Fit a plane to the patch about every cell of some rows; see `FootholdMap`.

    Args:
        heights: (n, m) of the ground, NaN where unknown [m].
        slopes: (n, m, 2) rise of the planes along x and y; is set, NaN where the patch is not all known.
        cost: (n, m) of a foothold; is set, inf where the patch is not all known.
        cell: side of a cell [m].
        slope_scale: slope that costs 1.
        roughness_scale: distance from the plane that costs 1 [m].
        begin: first row of the cells that are looked at.
        end: the row after the last.
    """
    n, m, side = heights.shape[0], heights.shape[1], 2 * PATCH_RADIUS + 1
    spread = side * PATCH_RADIUS * (PATCH_RADIUS + 1) * side // 3  # the sum of k^2 over the patch
    for i in range(begin, end):
        for j in range(m):
            slopes[i, j, 0], slopes[i, j, 1], cost[i, j] = math.nan, math.nan, math.inf
            if PATCH_RADIUS <= i < n - PATCH_RADIUS and PATCH_RADIUS <= j < m - PATCH_RADIUS:
                here, total, along, across = heights[i, j], 0.0, 0.0, 0.0
                for a in range(-PATCH_RADIUS, PATCH_RADIUS + 1):
                    row = 0.0
                    for b in range(-PATCH_RADIUS, PATCH_RADIUS + 1):
                        h = heights[i + a, j + b] - here
                        row += h
                        across += b * h
                    total += row
                    along += a * row
                mean, along, across, far = total / (side * side), along / spread, across / spread, 0.0
                for a in range(-PATCH_RADIUS, PATCH_RADIUS + 1):
                    start, odd = here + mean + a * along, 0.0
                    for b in range(-PATCH_RADIUS, PATCH_RADIUS + 1):
                        odd = max(odd, abs(heights[i + a, j + b] - (start + b * across)))
                    far = max(far, odd)
                x, y, off = along / cell, across / cell, far / roughness_scale
                total = (x * x + y * y) / (slope_scale * slope_scale) + off * off
                slopes[i, j, 0], slopes[i, j, 1] = x, y
                if math.isfinite(total):
                    cost[i, j] = total


@entry("footholds on ground that is known")
def fit_plane_under_foot(
    heights: Matrix, i: int, j: int, z: float, cell: float, max_slope: float, tolerance: float, slope: Vector
) -> bool:
    """Rise along x and y of the surface that a foot stands on, with nothing of what is across an edge.

    Of the cells about its own the foot stands on the one whose height is nearest to its own: cells and edges do not
    coincide.  To that surface belongs what can be gone to on a slope that is believed; its plane is that of least
    squares.

    Args:
        heights: (n, m) of the ground, NaN where unknown [m].
        i: row of the foot's cell, `PATCH` from the border at least.
        j: column of it.
        z: height of the foot's bottom [m].
        cell: side of a cell [m].
        max_slope: slope up to which ground is one surface.
        tolerance: how far it may be uneven [m].
        slope: (2,) is set.

    Returns:
        Whether it is: not where too little is known, or where what belongs to the surface spans no plane.
    """
    here, best = math.nan, math.inf
    for a in range(-1, 2):
        for b in range(-1, 2):
            off = abs(heights[i + a, j + b] - z)
            if off < best:
                here, best = heights[i + a, j + b], off
    n, sa, sb, sh, aa, ab, bb, ah, bh = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for a in range(-PATCH_RADIUS, PATCH_RADIUS + 1):
        for b in range(-PATCH_RADIUS, PATCH_RADIUS + 1):
            h = heights[i + a, j + b] - here
            if abs(h) <= max_slope * cell * math.sqrt(a * a + b * b) + tolerance:
                n, sa, sb, sh = n + 1.0, sa + a, sb + b, sh + h
                aa, ab, bb, ah, bh = aa + a * a, ab + a * b, bb + b * b, ah + a * h, bh + b * h
    if n < 3.0:
        return False
    aa, ab, bb, ah, bh = aa - sa * sa / n, ab - sa * sb / n, bb - sb * sb / n, ah - sa * sh / n, bh - sb * sh / n
    determinant = aa * bb - ab * ab
    if not determinant > 1e-3 * (aa + bb) * (aa + bb):
        return False
    slope[0], slope[1] = (bb * ah - ab * bh) / (determinant * cell), (aa * bh - ab * ah) / (determinant * cell)
    return True


@entry("footholds on ground that is known")
def required_lift(
    heights: Matrix,
    origin_x: float,
    origin_y: float,
    cell: float,
    start: Vector,
    end: Vector,
    path_fractions: Matrix,
    lift_fractions: Vector,
    half_widths: Vector,
    radius: float,
    mean_slope: float,
    tolerance: float,
) -> float:
    """How high a foot must be lifted so that its sphere touches the ground nowhere on its way; -inf of unknown ground.

    The sphere is wider than it is, so that a foot may be beside its path: an ellipsoid of revolution.

    Args:
        heights: (n, m) of the ground, NaN where unknown [m].
        origin_x: where the first of them is, along x [m].
        origin_y: along y [m].
        cell: distance between them [m].
        start: (3,) of the sphere's centre at lift-off, world [m].
        end: (3,) at touchdown.
        path_fractions: (k, 3) shares of the way from start to end, along x, y and z, at the instants looked at.
        lift_fractions: (k,) shares of the lift then.
        half_widths: (k,) half the width that the sphere is given then [m].
        radius: of the foot's sphere [m].
        mean_slope: how much the ground rises on the whole.
        tolerance: how far the sphere may be in the ground [m].
    """
    n, m, most = heights.shape[0], heights.shape[1], -math.inf
    for k in range(len(lift_fractions)):
        x = (start[0] + path_fractions[k, 0] * (end[0] - start[0]) - origin_x) / cell
        y = (start[1] + path_fractions[k, 1] * (end[1] - start[1]) - origin_y) / cell
        z, around = start[2] + path_fractions[k, 2] * (end[2] - start[2]), half_widths[k] / cell
        top = -math.inf
        for i in range(max(math.floor(x - around) + 1, 0), min(math.floor(x + around) + 1, n)):
            for j in range(max(math.floor(y - around) + 1, 0), min(math.floor(y + around) + 1, m)):
                share = ((i - x) * (i - x) + (j - y) * (j - y)) / (around * around)
                if share < 1.0:
                    high = heights[i, j] + radius * math.sqrt(1.0 - share)
                    if high > top:
                        top = high
        # On a plane, what is wider than a sphere stands higher.
        wide, tall = mean_slope * half_widths[k], mean_slope * radius
        even = math.sqrt(radius * radius + wide * wide) - math.sqrt(radius * radius + tall * tall)
        most = max(most, (top - even - tolerance - z) / lift_fractions[k])
    return most
