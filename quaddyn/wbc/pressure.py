"""`pressures`: where surfaces press on what they touch, at a tick that is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..contact.center_of_pressure import pressure_point
from ..urdf.tree import Array
from .data import Contacts, Terms


def pressures(terms: Terms, contacts: Contacts, names: Sequence[str], forces: Mapping[str, Array]) -> dict[str, Array]:
    """The centres of pressure by surface that presses, world axes [m].

    Args:
        terms: of the tick.
        contacts: as the tick read them.
        names: of all contacts.
        forces: that the tick came to, by contact that is there.
    """
    out = {}
    for c, name in enumerate(names):
        if name not in forces or contacts.surface[c] == 0:
            continue
        at = int(terms.frames[contacts.frame[c]])
        R, origin = terms.values[at : at + 9].reshape(3, 3), terms.values[at + 9 : at + 12]
        with np.errstate(all="ignore"):  # a damaged file may say anything
            point = pressure_point(origin + R @ contacts.offset[c], R @ contacts.face[c], forces[name])
        if point is not None:
            out[name] = point
    return out
