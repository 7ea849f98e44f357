"""Likely cause of a tick with deficits: a heuristic, from the size of the accelerations that rows require."""

from __future__ import annotations

import numpy as np

from ..urdf.tree import Array
from .tick_problem import RowGroup, TickDetails

#: Required acceleration [m/s^2] beyond which a contact that should be at rest was moving: three times gravity.
MOVING_CONTACT_ACCELERATION = 30.0
#: Middle of the names of rows that keep contacts at rest, and end of those that keep joints within their bounds.
CONTACT_ROW_INFIX, JOINT_BOUND_SUFFIX = " contact ", " joint bound"
#: Largest number of names that a sentence lists.
MAX_LISTED_NAMES = 4


def likely_cause(details: TickDetails, outcome: str) -> str:
    """Returns one sentence about the likely cause of the deficits; "" if nothing stands out.

    Contacts that are to be held at rest require the acceleration that stops them.  Joints beyond their bounds, or too
    fast for them, require one that brings them back.
    """
    level0 = details.problem.levels[0]
    if outcome == "infeasible":
        fast_contacts = _name_fast_contacts(
            [g for g in level0 if CONTACT_ROW_INFIX in g.names[0]], MOVING_CONTACT_ACCELERATION
        )
        if fast_contacts:
            return (
                f"likely cause: {fast_contacts} move fast although they are assumed to carry load; check whether the "
                "contacts are closed and whether the measured velocity is right"
            )
        nonviable_joints = [
            name.removesuffix(JOINT_BOUND_SUFFIX)
            for g in level0
            for name, low, high in zip(g.names, g.lower + g.offset, g.upper + g.offset, strict=True)
            if name.endswith(JOINT_BOUND_SUFFIX) and (low > 0.0 or high < 0.0)
        ]
        if nonviable_joints:
            return (
                "likely cause: joints that are beyond their bounds or too fast to stop in time: "
                f"{_join_names(nonviable_joints)}"
            )
    if details.problem.n and not any(g.unit == "N" for level in details.problem.levels for g in level):
        return "likely cause: no contact was assumed to carry load"
    return ""


def round_to_six_digits(size: float) -> float:
    """Rounds to six significant digits, so that rounding errors do not order numbers that are equal."""
    return float(f"{size:.6g}")


def _name_fast_contacts(groups: list[RowGroup], threshold: float) -> str:
    """Returns the names of the contacts whose required accelerations exceed `threshold` [m/s^2], the largest first."""
    fast: list[tuple[float, str]] = []
    for group in groups:
        required: Array = np.where(group.is_equality, group.lower + group.offset, 0.0)[:3]
        if np.linalg.norm(required) > threshold:
            fast.append(
                (-round_to_six_digits(float(np.linalg.norm(required))), group.names[0].rpartition(CONTACT_ROW_INFIX)[0])
            )
    return _join_names([name for _, name in sorted(fast)])


def _join_names(names: list[str]) -> str:
    """Returns the first names, separated by commas, and the number of the others."""
    more = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
    return ", ".join(names[:MAX_LISTED_NAMES]) + more
