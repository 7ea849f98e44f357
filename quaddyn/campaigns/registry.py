"""Campaigns by name."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import Any

from ..errors import CampaignError, UnknownNameError
from .campaign import Campaign

#: ``module:class`` by name; imported when asked for.  Packages add theirs with entry points "quaddyn.campaigns".
OWN: dict[str, str] = {
    "agreement": "quaddyn.campaigns.agreement:AgreementCampaign",
    "datasheet": "quaddyn.campaigns.datasheet:DataSheet",
    "gaits": "quaddyn.campaigns.gaits:Gaits",
    "identification": "quaddyn.campaigns.identification:LogIdentification",
    "obstacles": "quaddyn.campaigns.obstacles:Obstacles",
    "pushes": "quaddyn.campaigns.pushes:Pushes",
    "reach": "quaddyn.campaigns.reach:Reach",
    "robustness": "quaddyn.campaigns.robustness:Robustness",
    "slippery": "quaddyn.campaigns.slippery:Slippery",
    "slopes": "quaddyn.campaigns.slopes:Slopes",
    "sweep": "quaddyn.campaigns.sweep:Sweep",
}


def names() -> tuple[str, ...]:
    """All campaigns that can be found."""
    return tuple(sorted({*OWN, *(point.name for point in entry_points(group="quaddyn.campaigns"))}))


def find(name: str, origin: str | None = None) -> type[Campaign[Any]]:
    """The kind of campaign of a name.

    Args:
        name: of the campaign.
        origin: "module:class", where to look if none of the name is registered.

    Raises:
        UnknownNameError: no such campaign is registered.
        CampaignError: it cannot be imported from its origin.
    """
    if name in OWN:
        module, _, kind = OWN[name].partition(":")
        found: type[Campaign[Any]] = getattr(importlib.import_module(module), kind)
        return found
    for point in entry_points(group="quaddyn.campaigns", name=name):
        found = point.load()
        return found
    if origin is None:
        raise UnknownNameError("campaign", name, names())
    return _imported(name, origin)


def _imported(name: str, origin: str) -> type[Campaign[Any]]:
    module, _, kind = origin.partition(":")
    if module == "__main__":
        raise CampaignError(
            f"campaign {name!r} is a class of the script that ran it; give it a module of its own, or read the store "
            f"in that script with Store.read(path, {kind})"
        )
    try:
        found = getattr(importlib.import_module(module), kind)
    except (ImportError, AttributeError) as error:
        raise CampaignError(
            f"campaign {name!r} is {origin}, which cannot be imported here ({error}); if it is in a file "
            f"{module}.py, put the file's folder on PYTHONPATH"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Campaign) and found.name == name):
        raise CampaignError(f"campaign {name!r} was {origin}, which is no campaign of that name now")
    return found
