"""Campaigns by name."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import Any

from ..errors import UnknownNameError
from .campaign import Campaign

#: ``module:class`` by name; imported when asked for.  Packages add theirs with entry points "quaddyn.campaigns".
OWN: dict[str, str] = {
    "agreement": "quaddyn.campaigns.agreement:AgreementCampaign",
    "datasheet": "quaddyn.campaigns.datasheet:DataSheet",
    "gaits": "quaddyn.campaigns.gaits:Gaits",
    "identification": "quaddyn.campaigns.identification:LogIdentification",
    "robustness": "quaddyn.campaigns.robustness:Robustness",
    "sweep": "quaddyn.campaigns.sweep:Sweep",
}


def names() -> tuple[str, ...]:
    """All campaigns that can be found."""
    return tuple(sorted({*OWN, *(point.name for point in entry_points(group="quaddyn.campaigns"))}))


def find(name: str) -> type[Campaign[Any]]:
    """The kind of campaign of a name.

    Raises:
        UnknownNameError: no such campaign is registered.
    """
    if name in OWN:
        module, _, kind = OWN[name].partition(":")
        found: type[Campaign[Any]] = getattr(importlib.import_module(module), kind)
        return found
    for point in entry_points(group="quaddyn.campaigns", name=name):
        found = point.load()
        return found
    raise UnknownNameError("campaign", name, names())
