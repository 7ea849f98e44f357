"""``<transmission>``: which joint a motor turns, and how many times as fast as the joint the motor turns.

Those of a single joint and a single actuator are read (ROS's SimpleTransmission), with ``<mechanicalReduction>`` in
either of them, 1 where it is missing.  Others are left out: nothing but `Robot.motors` needs them.
"""

from __future__ import annotations

import math

from .tree import Transmission
from .values import ElementReader
from .xml import Element

TAG = "mechanicalReduction"


def read_transmissions(reader: ElementReader, root: Element) -> tuple[Transmission, ...]:
    """The transmissions of a document, in its order."""
    out: dict[str, Transmission] = {}
    for element in root.all("transmission"):
        joints, actuators = element.all("joint"), element.all("actuator")
        if len(joints) != 1 or len(actuators) > 1 or "name" not in joints[0].attrib:
            continue
        told = [each for parent in (*actuators, *joints, element) for each in parent.all(TAG)]
        reduction = _number(told[0].text) if told else 1.0
        found = Transmission(joints[0].attrib["name"], reduction or 1.0)
        if reduction is None:
            reader.warn(told[0], f"{told[0].text!r} is no reduction; left out", "write a number other than 0")
        elif out.setdefault(found.joint, found) != found:
            reader.warn(element, f"a second reduction of joint {found.joint!r}; left out", "keep the one that is meant")
    return tuple(out.values())


def _number(text: str) -> float | None:
    """A finite number other than 0."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value != 0.0 else None
