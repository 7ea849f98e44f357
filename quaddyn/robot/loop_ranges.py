"""Ranges of the independent joints of closed loops: where the loops close, within the limits of all joints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pinocchio as pin

from ..errors import ModelError
from ..urdf.tree import Array, Finding, Joint, Limits
from .loops import LoopCoupling

#: Number of samples between home and an end of a joint's range, and halvings where a loop stops closing.
N_SAMPLES, N_HALVINGS = 24, 12
#: Rays to each side of the box of several joints' ranges, about: it can be narrower anywhere, not at its corners alone.
RAYS_PER_SIDE = 24.0
#: Fraction of a range that stays free where it ends because a loop cannot close beyond: there G grows without bound.
RANGE_MARGIN = 0.05
#: Joints without a range are tried this far on each side of home [rad], lengths in loop sizes.
UNBOUNDED_JOINT_RANGE = 2.0 * np.pi
#: Distance beyond its range at which a joint counts as within it [rad, m]: what closing a loop leaves.
LIMIT_TOLERANCE = 1e-9
#: A range that is narrower is none [rad], or [sizes of the loop].
MIN_RANGE = 1e-3


def limit_to_closed_range(
    model: pin.Model, coupling: LoopCoupling, q: Array, joints: Mapping[str, Joint], findings: list[Finding]
) -> dict[str, Joint]:
    """Returns the independent joints of loops, their limits narrowed to where the loops close within all limits."""
    c, out = coupling.closures, {}
    names = {model.joints[i].idx_q: model.names[i] for i in range(1, model.njoints)}
    for g in range(len(c.size)):
        group = range(c.joints[g], c.joints[g + 1])
        bounds = _RangeSearch(
            coupling,
            [
                (int(c.q[i]), joints[names[int(c.q[i])]].limits)
                for i in group
                if c.own[i] < 0 and joints[names[int(c.q[i])]].mimic is None
            ],
            q,
        )  # the joint that it mimics has the range
        leaders = [(int(coupling.q_from[c.q[i]]), joints[names[int(c.q[i])]]) for i in group if c.own[i] >= 0]
        reach = np.array([_search_width(q[at], joint.limits, c.size[g], joint.type) for at, joint in leaders]).reshape(
            -1, 2
        )
        if len(leaders) == 1:
            fractions = np.array(
                [[bounds.feasible_fraction(leaders, reach, np.array([[side]])) for side in (-1.0, 1.0)]]
            )
        else:
            fractions = np.full(
                (len(leaders), 2), bounds.feasible_fraction(leaders, reach, _cube_surface(len(leaders)))
            )
        if bounds.jams and not fractions.any():
            loop = coupling.loops[c.loops[g]]
            raise ModelError(
                f"{loop.where}: loop {loop.name!r} closes only at home and not after any motion of "
                f"{' or '.join((repr(joint.name) for _, joint in leaders))}; correct the frames and axes of its "
                "joints, or leave it open by loops=False"
            )
        for (at, joint), (below, above), (left, right) in zip(leaders, reach, fractions, strict=True):
            range_text = f"[{joint.limits.lower:.4g}, {joint.limits.upper:.4g}]"
            if not joint.limits.lower - LIMIT_TOLERANCE <= q[at] <= joint.limits.upper + LIMIT_TOLERANCE:
                raise ModelError(
                    f"{joint.where}: joint {joint.name!r} must be at {q[at]:.4g} for its loops to close, which is "
                    f"outside its range {range_text}; correct the range or the frames of the loops, or leave them "
                    "open by loops=False"
                )
            lower = joint.limits.lower if left == 1.0 else float(q[at] - left * below)
            upper = joint.limits.upper if right == 1.0 else float(q[at] + right * above)
            if max(left * below, right * above) < MIN_RANGE * (1.0 if joint.type != "prismatic" else c.size[g]):
                lower = upper = float(q[at])
                reason = (
                    f"the range {range_text} of {joint.name!r} is reduced to its home position, because near home "
                    "its loops do not close elsewhere within the limits of all joints"
                )
                fix = "correct the frames of the loops, or the ranges of the joints that follow"
                findings.append(Finding("warning", joint.where, reason, fix))
            elif min(left, right) < 1.0:
                reason = (
                    f"the range {range_text} is reduced to [{lower:.4g}, {upper:.4g}], where its loop closes within "
                    "all limits"
                )
                findings.append(Finding("note", joint.where, reason))
            out[joint.name] = replace(joint, limits=replace(joint.limits, lower=lower, upper=upper))
    return out


class _RangeSearch:
    """Search along rays from home for the range in which loops close and dependent joints are within their limits."""

    def __init__(self, coupling: LoopCoupling, limits: list[tuple[int, Limits]], q: Array) -> None:
        home = coupling.configuration(q)
        self.coupling, self.q, self.jams = coupling, q, False
        # A limit that home violates is left out; validation reports it.
        self.limits = [
            (at, of) for at, of in limits if of.lower - LIMIT_TOLERANCE <= home[at] <= of.upper + LIMIT_TOLERANCE
        ]

    def feasible_fraction(self, leaders: Sequence[tuple[int, Joint]], reach: Array, rays: Array) -> float:
        """Returns the fraction of the rays that is feasible; 0 if the loops jam immediately."""
        good, bad, jammed = 0.0, None, False
        for k in range(1, N_SAMPLES + 1):
            state = self.find_violation(leaders, reach, rays, k / N_SAMPLES)
            if state != "well":
                bad, jammed = k / N_SAMPLES, state == "open"
                break
            good = k / N_SAMPLES
        if bad is None:
            return 1.0
        for _ in range(N_HALVINGS):
            middle = 0.5 * (good + bad)
            state = self.find_violation(leaders, reach, rays, middle)
            if state == "well":
                good = middle
            else:
                bad, jammed = middle, state == "open"
        self.jams = self.jams or (jammed and good == 0.0)
        return good * (1.0 - RANGE_MARGIN) if jammed else good

    def find_violation(self, leaders: Sequence[tuple[int, Joint]], reach: Array, rays: Array, fraction: float) -> str:
        """Returns the first violation on the rays at a fraction, "open" or "outside", otherwise "well"."""
        for ray in rays:
            q = self.q.copy()
            for (at, _), (below, above), side in zip(leaders, reach, ray, strict=True):
                q[at] += fraction * (above if side > 0.0 else below) * side
            q_all = self.coupling.configuration(q)
            if not np.isfinite(q_all).all():
                return "open"
            if not all(of.lower - LIMIT_TOLERANCE <= q_all[at] <= of.upper + LIMIT_TOLERANCE for at, of in self.limits):
                return "outside"
        return "well"


def _cube_surface(n: int) -> Array:
    """Returns points (rays, n) on the surface of the cube [-1, 1]^n, its corners first, where loops jam soonest."""
    steps = np.linspace(-1.0, 1.0, 1 + 2 * max(1, round(RAYS_PER_SIDE ** (1.0 / (n - 1)) / 2.0)))
    grid = np.stack(np.meshgrid(*[steps] * n, indexing="ij"), -1).reshape(-1, n)
    rays = grid[np.abs(grid).max(axis=1) == 1.0]
    return np.array(sorted(rays.tolist(), key=lambda ray: -sum(map(abs, ray))))


def _search_width(home: float, limits: Limits, size: float, kind: str) -> tuple[float, float]:
    """Returns the search distance below and above home."""
    far = UNBOUNDED_JOINT_RANGE if kind != "prismatic" else 4.0 * size
    ends = home - limits.lower, limits.upper - home
    below, above = (max(x, 0.0) if np.isfinite(x) else far for x in ends)
    return below, above
