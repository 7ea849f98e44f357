"""`MujocoContact`: the contact parameters of a MuJoCo model, and presets of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import check_positive

#: Friction cones of MuJoCo.
CONES = ("elliptic", "pyramidal")
#: Contact dimensions of MuJoCo that have sliding friction: sliding, with torsion, with torsion and rolling.
CONTACT_DIMENSIONS = (3, 4, 6)


def _validate_numbers(name: str, values: object, count: int) -> tuple[float, ...]:
    """Returns a tuple of `count` finite numbers; raises if `values` is not one."""
    if not isinstance(values, tuple) or len(values) != count:
        raise ArgumentTypeError(f"{name}: expected a tuple of {count} numbers, got {values!r}")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ArgumentTypeError(f"{name}: expected a tuple of {count} numbers, got {values!r}")
        if not math.isfinite(value):
            raise ArgumentError(f"{name}: expected finite numbers, got {values}")
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class MujocoContact:
    """Contact parameters of a MuJoCo model, named as in MuJoCo; the defaults are MuJoCo's.

    Sliding friction is a property of the plant and its terrain (`MujocoPlant.friction`).

    Attributes:
        cone: shape of the friction cones, "pyramidal" or "elliptic".
        impratio: ratio of frictional to normal constraint impedance.  With elliptic cones a larger ratio means less
            creep under tangential load.
        solref: time constant [s] and damping ratio of the contact springs, both positive; or the negated stiffness
            [1/s^2] and damping [1/s], both negative.  None: critically damped, twice the time step of the plant.
        solimp: impedance at no penetration, impedance at full width, width [m], midpoint and power of the transition.
        condim: contact dimension; 3 for sliding friction, 4 with torsional, 6 with torsional and rolling friction.
        torsional: coefficient of torsional friction [m].
        rolling: coefficient of rolling friction [m].

    Raises:
        ArgumentError: an attribute out of range.
        ArgumentTypeError: an attribute of the wrong type.
    """

    cone: str = "pyramidal"
    impratio: float = 1.0
    solref: tuple[float, float] | None = (0.02, 1.0)
    solimp: tuple[float, float, float, float, float] = (0.9, 0.95, 0.001, 0.5, 2.0)
    condim: int = 3
    torsional: float = 0.005
    rolling: float = 0.0001

    def __post_init__(self) -> None:
        if self.cone not in CONES:
            raise ArgumentError(f"cone: expected one of {', '.join(CONES)}, got {self.cone!r}")
        check_positive("impratio", self.impratio)
        if isinstance(self.condim, bool) or self.condim not in CONTACT_DIMENSIONS:
            raise ArgumentError(f"condim: expected one of {CONTACT_DIMENSIONS}, got {self.condim!r}")
        for name in ("torsional", "rolling"):
            check_positive(name, getattr(self, name), zero=True)
        if self.solref is not None:
            time, damping = _validate_numbers("solref", self.solref, 2)
            if not ((time > 0.0 and damping > 0.0) or (time < 0.0 and damping < 0.0)):
                raise ArgumentError(f"solref: expected two positive or two negative numbers, got {self.solref}")
        min_impedance, max_impedance, width, midpoint, power = _validate_numbers("solimp", self.solimp, 5)
        if not (
            0.0 < min_impedance <= 1.0
            and 0.0 < max_impedance <= 1.0
            and width > 0.0
            and 0.0 < midpoint < 1.0
            and power >= 1.0
        ):
            raise ArgumentError(
                "solimp: expected two impedances in (0, 1], a positive width, a midpoint in (0, 1) and a power of at "
                f"least 1, got {self.solimp}"
            )


#: Presets by name.  "stiff": as rigid as the time step allows, friction cones circular.  "mujoco": MuJoCo's defaults.
#: "menagerie": feet of quadrupeds in MuJoCo Menagerie (Go2, A1, ANYmal C), where the width of `solimp` is about the
#: foot's radius.  "soft": a mat in which feet sink by some millimeters and creep under tangential load.
PRESETS: Mapping[str, MujocoContact] = MappingProxyType(
    {
        "stiff": MujocoContact(cone="elliptic", impratio=100.0, solref=None, torsional=0.0, rolling=0.0),
        "mujoco": MujocoContact(),
        "menagerie": MujocoContact(
            cone="elliptic",
            impratio=100.0,
            solimp=(0.015, 1.0, 0.022, 0.5, 2.0),
            condim=6,
            torsional=0.02,
            rolling=0.01,
        ),
        "soft": MujocoContact(solref=(0.04, 1.0), solimp=(0.8, 0.9, 0.01, 0.5, 2.0)),
    }
)


def find_contact_parameters(contact: str | MujocoContact) -> MujocoContact:
    """Returns contact parameters by the name of a preset, or as given.

    Raises:
        ArgumentTypeError: neither a name nor a `MujocoContact`.
        UnknownNameError: there is no such preset.
    """
    if isinstance(contact, MujocoContact):
        return contact
    if not isinstance(contact, str):
        raise ArgumentTypeError(
            f"contact: expected the name of a preset or a MujocoContact, got {type(contact).__name__}"
        )
    if contact not in PRESETS:
        raise UnknownNameError("contact", contact, PRESETS)
    return PRESETS[contact]
