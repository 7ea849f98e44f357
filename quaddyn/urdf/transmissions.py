"""Reader of ``<transmission>`` elements: the joints that each motor turns, and the reductions.

Two kinds are read.  One has a single joint and a single actuator (ROS's SimpleTransmission), with
``<mechanicalReduction>`` in either of them; the default is 1.  The other has two joints and two actuators, with roles:
DifferentialTransmission, and FourBarLinkageTransmission, whose second motor sits at the body before the first joint and
drives the second one past it, as the belts of coupled hips and knees do.  With reductions n of the joints and m of the
actuators the motors' speeds are (``transmission_interface``, differential_transmission.h and
four_bar_linkage_transmission.h)

    differential: m_1 (n_1 v_1 + n_2 v_2), m_2 (n_1 v_1 - n_2 v_2);    four-bar: m_1 n_1 v_1, m_2 (v_1 + n_2 v_2)

Other kinds are ignored: only `Robot.motors` uses transmissions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .tree import Transmission
from .values import ElementReader
from .xml import XmlElement

TAG = "mechanicalReduction"
#: ROS's classes of two joints and two actuators.
DIFFERENTIAL, FOUR_BAR = "DifferentialTransmission", "FourBarLinkageTransmission"


def read_transmissions(reader: ElementReader, root: XmlElement) -> tuple[Transmission, ...]:
    """Returns the transmissions of a document, in its order."""
    out: dict[str, Transmission] = {}
    for element in root.children_with_tag("transmission"):
        kind = next((each.text for each in element.children_with_tag("type")), "").strip().rpartition("/")[2]
        found = _read_pair(reader, element, kind) if kind in (DIFFERENTIAL, FOUR_BAR) else _read_single(reader, element)
        if found is None:
            continue
        known = [out[joint] for joint in found.joints if joint in out]
        if all(each == found for each in known):
            out |= dict.fromkeys(found.joints, found)
        else:
            joint = next(joint for joint in found.joints if joint in out)
            reader.warn(
                element,
                f"another transmission already defines the reduction of joint {joint!r}; this one is ignored",
                "remove one of them",
            )
    return tuple(dict.fromkeys(out.values()))


def _read_single(reader: ElementReader, element: XmlElement) -> Transmission | None:
    """Returns the transmission of one joint and at most one actuator; None if the element is not one."""
    joints, actuators = element.children_with_tag("joint"), element.children_with_tag("actuator")
    if len(joints) != 1 or len(actuators) > 1 or "name" not in joints[0].attrib:
        return None
    reduction = _read_reduction(reader, (*actuators, *joints, element))
    return None if reduction is None else Transmission((joints[0].attrib["name"],), ((reduction,),))


def _read_pair(reader: ElementReader, element: XmlElement, kind: str) -> Transmission | None:
    """Returns the transmission of two joints and two actuators, which are identified by role; None if it is invalid."""
    joints, actuators = _parts_by_role(element, "joint"), _parts_by_role(element, "actuator")
    if joints is None or actuators is None or any("name" not in joint.attrib for joint in joints):
        roles = "joint1, joint2, actuator1 and actuator2"
        reader.warn(
            element,
            f"{kind} is ignored, because its joints and actuators do not have the roles {roles}",
            "give each joint and actuator its <role>",
        )
        return None
    (n1, n2), (m1, m2) = ([_read_reduction(reader, (part,)) for part in parts] for parts in (joints, actuators))
    if n1 is None or n2 is None or m1 is None or m2 is None:
        return None
    rows = ((n1, n2), (n1, -n2)) if kind == DIFFERENTIAL else ((n1, 0.0), (1.0, n2))
    names = tuple(joint.attrib["name"] for joint in joints)
    return Transmission(names, tuple(tuple(own * x for x in row) for own, row in zip((m1, m2), rows, strict=True)))


def _parts_by_role(element: XmlElement, part: str) -> tuple[XmlElement, XmlElement] | None:
    """Returns the two joints or actuators of an element in the order of their roles; None without two roles."""
    roles = {
        next((each.text.strip() for each in own.children_with_tag("role")), ""): own
        for own in element.children_with_tag(part)
    }
    first, second = roles.get(f"{part}1"), roles.get(f"{part}2")
    return None if first is None or second is None or len(element.children_with_tag(part)) != 2 else (first, second)


def _read_reduction(reader: ElementReader, parents: Sequence[XmlElement]) -> float | None:
    """Returns the first reduction in `parents`, 1 if there is none; None if it is not a number other than 0."""
    found = [each for parent in parents for each in parent.children_with_tag(TAG)]
    reduction = _nonzero_number(found[0].text) if found else 1.0
    if reduction is None:
        reader.warn(
            found[0], f"the reduction {found[0].text!r} is not a number other than 0 and is ignored", "correct it"
        )
    return reduction


def _nonzero_number(text: str) -> float | None:
    """Returns the number that a text stands for; None if it is not finite or 0."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value != 0.0 else None
