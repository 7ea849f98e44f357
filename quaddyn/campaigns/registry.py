"""Registry of campaigns by name."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import Any

from ..errors import CampaignError, UnknownNameError
from .campaign import Campaign

#: ``module:class`` by name; imported on request. Other packages register campaigns by entry points of the group
#: "quaddyn.campaigns".
BUILT_IN_CAMPAIGNS: dict[str, str] = {
    "datasheet": "quaddyn.campaigns.datasheet:DataSheet",
    "friction-drop": "quaddyn.campaigns.walking_campaigns:FrictionDropCampaign",
    "gaits": "quaddyn.campaigns.walking_campaigns:GaitCampaign",
    "identification": "quaddyn.campaigns.identification:IdentificationCampaign",
    "obstacles": "quaddyn.campaigns.walking_campaigns:ObstacleCampaign",
    "pushes": "quaddyn.campaigns.walking_campaigns:PushCampaign",
    "robustness": "quaddyn.campaigns.walking_campaigns:RobustnessCampaign",
    "slopes": "quaddyn.campaigns.walking_campaigns:SlopeCampaign",
    "sweep": "quaddyn.campaigns.walking_campaigns:SweepCampaign",
    "velocity-limits": "quaddyn.campaigns.walking_campaigns:VelocityLimitCampaign",
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
        return _import_attribute(BUILT_IN_CAMPAIGNS[name])  # type: ignore[no-any-return]
    for point in entry_points(group="quaddyn.campaigns", name=name):
        found: type[Campaign[Any]] = point.load()
        return found
    raise UnknownNameError("campaign", name, names())


def import_campaign(path: str) -> type[Campaign[Any]]:
    """Imports the class of a campaign that is not registered.

    Args:
        path: "module:class".

    Raises:
        CampaignError: the class cannot be imported, or is not a campaign.
    """
    try:
        found = _import_attribute(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise CampaignError(
            f"campaign {path!r}: expected the form module:class of a class that can be imported, but the import "
            f"failed ({error}); if the module is a file, add its folder to PYTHONPATH"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Campaign)):
        raise CampaignError(f"campaign {path!r}: expected a subclass of quaddyn.campaigns.Campaign, got {found!r}")
    return found


def _import_attribute(path: str) -> Any:
    """Imports ``module:name`` and returns the attribute."""
    module, _, kind = path.partition(":")
    return getattr(importlib.import_module(module), kind)
