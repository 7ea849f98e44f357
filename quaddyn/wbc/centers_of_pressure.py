"""`compute_centers_of_pressure`: centers of pressure of surface contacts at a past tick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..contact.support import compute_center_of_pressure
from ..urdf.tree import Array
from .tick_data import ContactStateData, RigidBodyTerms


def compute_centers_of_pressure(
    terms: RigidBodyTerms, contacts: ContactStateData, names: Sequence[str], forces: Mapping[str, Array]
) -> dict[str, Array]:
    """Returns the (3,) center of pressure of each loaded surface contact by name, world axes [m].

    Args:
        terms: rigid-body terms of the tick.
        contacts: state of the contacts at the tick.
        names: names of all contacts.
        forces: contact forces of the tick, by contact.
    """
    points = {}
    for c, name in enumerate(names):
        if name not in forces or contacts.is_surface[c] == 0:
            continue
        first_term = int(terms.frames[contacts.frame[c]])
        R, origin = (
            terms.values[first_term : first_term + 9].reshape(3, 3),
            terms.values[first_term + 9 : first_term + 12],
        )
        with np.errstate(all="ignore"):  # a damaged file may contain any number
            point = compute_center_of_pressure(
                origin + R @ contacts.offset[c], R @ contacts.surface_normal[c], forces[name]
            )
        if point is not None:
            points[name] = point
    return points
