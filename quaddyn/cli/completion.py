"""Values of options and arguments for shell completion (``quaddyn --install-completion``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

#: Function that returns the values which begin with a text.
Completion = Callable[[str], list[str]]


def complete_from(values: Callable[[], Iterable[str]], *, several: bool = False) -> Completion:
    """Returns a function that completes a value.

    Args:
        values: returns all values; called when the shell asks for them, so that it may import.
        several: whether the option accepts several values separated by commas, of which the last one is completed.
    """

    def complete(incomplete: str) -> list[str]:
        done, comma, last = incomplete.rpartition(",") if several else ("", "", incomplete)
        return [done + comma + value for value in values() if value.startswith(last)]

    return complete


def _robots() -> Iterable[str]:
    from ..robot import CATALOGUE

    return CATALOGUE


def _roots() -> Iterable[str]:
    from ..robot.root import ROOTS

    return ROOTS


def _gaits() -> Iterable[str]:
    from ..locomotion import GAITS

    return (*GAITS, "squat", "swing")


def _terrains() -> Iterable[str]:
    from ..demo.demo_terrain import KINDS

    return [f"{kind}=" for kind in KINDS]


def _disturbances() -> Iterable[str]:
    from ..campaigns.walking_campaigns import DISTURBANCES

    return DISTURBANCES


def _contact_detections() -> Iterable[str]:
    from ..campaigns.walking_campaigns import CONTACT_DETECTION_OPTIONS

    return CONTACT_DETECTION_OPTIONS


#: Completion by the name of the option, or of the field of a campaign.
COMPLETIONS: Mapping[str, Completion] = MappingProxyType(
    {
        "compare": complete_from(_robots),
        "robot": complete_from(_robots),
        "root": complete_from(_roots),
        "gait": complete_from(_gaits),
        "plant": complete_from(lambda: ("embedded", "mujoco")),
        "terrain": complete_from(_terrains),
        "leg": complete_from(lambda: ("FL", "FR", "RL", "RR")),
        "disturbance": complete_from(_disturbances),
        "only": complete_from(lambda: ("speed", "push", "friction", "slope", "step", "payload", "delay")),
        "touching": complete_from(_contact_detections),
    }
)
