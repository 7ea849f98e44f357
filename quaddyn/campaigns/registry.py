"""Campaigns by name."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import Any

from ..errors import CampaignError, UnknownNameError
from .campaign import Campaign

#: ``module:class`` by name; imported on request.  Packages add theirs with entry points "quaddyn.campaigns".
BUILT_IN_CAMPAIGNS: dict[str, str] = {
    "datasheet": "quaddyn.campaigns.datasheet:DataSheet",
    "friction-drop": "quaddyn.campaigns.friction_drop:FrictionDropCampaign",
    "gaits": "quaddyn.campaigns.gaits:GaitCampaign",
    "identification": "quaddyn.campaigns.identification:IdentificationCampaign",
    "obstacles": "quaddyn.campaigns.obstacles:ObstacleCampaign",
    "pushes": "quaddyn.campaigns.pushes:PushCampaign",
    "robustness": "quaddyn.campaigns.robustness:RobustnessCampaign",
    "slopes": "quaddyn.campaigns.slopes:SlopeCampaign",
    "sweep": "quaddyn.campaigns.sweep:SweepCampaign",
    "velocity-limits": "quaddyn.campaigns.velocity_limits:VelocityLimitCampaign",
    "verification": "quaddyn.campaigns.verification:VerificationCampaign",
}


#: Old names of campaigns, in stores and on command lines, and the new ones.
RENAMED_CAMPAIGNS = {"agreement": "verification", "reach": "velocity-limits", "slippery": "friction-drop"}


def current_name(name: str) -> str:
    """Returns the present name of a campaign that may be given by its old one, as in a store of an earlier version."""
    return RENAMED_CAMPAIGNS.get(name, name)


def names() -> tuple[str, ...]:
    """Returns the names of all campaigns."""
    return tuple(sorted({*BUILT_IN_CAMPAIGNS, *(point.name for point in entry_points(group="quaddyn.campaigns"))}))


def find(name: str) -> type[Campaign[Any]]:
    """Returns the class of a registered campaign.

    Raises:
        UnknownNameError: no such campaign is registered.
    """
    name = current_name(name)
    if name in BUILT_IN_CAMPAIGNS:
        return _attribute(BUILT_IN_CAMPAIGNS[name])  # type: ignore[no-any-return]
    for point in entry_points(group="quaddyn.campaigns", name=name):
        found: type[Campaign[Any]] = point.load()
        return found
    raise UnknownNameError("campaign", name, names())


def import_campaign(place: str) -> type[Campaign[Any]]:
    """Imports the class of a campaign that is not registered, which the user has named.

    Args:
        place: "module:class".

    Raises:
        CampaignError: it cannot be imported, or is not a campaign.
    """
    try:
        found = _attribute(place)
    except (ImportError, AttributeError, ValueError) as error:
        raise CampaignError(
            f"campaign {place!r}: expected module:class, and it cannot be imported here ({error}); if the module is a "
            "file, put the file's folder on PYTHONPATH"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Campaign)):
        raise CampaignError(f"campaign {place!r}: no subclass of quaddyn.campaigns.Campaign")
    return found


def _attribute(place: str) -> Any:
    module, _, kind = place.partition(":")
    return getattr(importlib.import_module(module), kind)
