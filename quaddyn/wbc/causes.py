"""What is likely behind a tick that lacks something: a guess for people, from the size of what its rows ask for."""

from __future__ import annotations

import numpy as np

from ..urdf.tree import Array
from .certificate import Details
from .problem import Group

#: Acceleration [m/s^2] beyond which a contact that is to be held was moving: three times gravity.
MOVING = 30.0
#: In the names of the rows that hold contacts, and at the end of those that keep joints within their bounds.
CONTACT, BOUND = " contact ", " joint bound"
#: How many names a sentence lists.
LISTED = 4


def likely_cause(details: Details, outcome: str) -> str:
    """One sentence; "" where nothing stands out.

    Contacts that are to be held ask for the acceleration that stops them; joints beyond their bounds, or too fast
    for them, ask for one that brings them back.
    """
    level0 = details.problem.levels[0]
    if outcome == "infeasible":
        fast = _asking([g for g in level0 if CONTACT in g.names[0]], MOVING)
        if fast:
            return (
                f"likely cause: {fast} assumed to carry, but moving fast; do they touch, and is the velocity that was "
                "measured right?"
            )
        forced = [
            name.removesuffix(BOUND)
            for g in level0
            for name, low, high in zip(g.names, g.lower + g.offset, g.upper + g.offset, strict=True)
            if name.endswith(BOUND) and (low > 0.0 or high < 0.0)
        ]
        if forced:
            return f"likely cause: beyond their bounds, or too fast to stop before them: {_listed(forced)}"
    if details.problem.n and not any(g.unit == "N" for level in details.problem.levels for g in level):
        return "likely cause: no contact was assumed to carry"
    return ""


def six_digits(size: float) -> float:
    """Rounds to six significant digits, so that rounding does not order what is equally large."""
    return float(f"{size:.6g}")


def _asking(groups: list[Group], most: float) -> str:
    """The contacts whose wanted accelerations are longer than `most`, the fastest first."""
    found: list[tuple[float, str]] = []
    for group in groups:
        wanted: Array = np.where(group.wanted, group.lower + group.offset, 0.0)[:3]
        if np.linalg.norm(wanted) > most:
            found.append((-six_digits(float(np.linalg.norm(wanted))), group.names[0].rpartition(CONTACT)[0]))
    return _listed([name for _, name in sorted(found)])


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
