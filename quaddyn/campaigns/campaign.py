"""`Campaign`: base class of experiments, which yields cases and runs each as a pure function of the case.

This module also has the registry of campaigns by name.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from ..deprecation import renamed_overrides
from ..errors import ArgumentError, CampaignError, UnknownNameError
from .plain_values import PlainValue, encode

if TYPE_CHECKING:
    from ..robot import Robot
    from ..viewer import Viewer


C = TypeVar("C")
Record = Mapping[str, PlainValue]


class Failure(NamedTuple):
    """Reason for which a case has no record.

    Attributes:
        error: type and text of the exception, or a description of how its worker processes died.
        killed_workers: whether the case was abandoned because its worker processes died.
        trace: traceback of the exception, or how the last worker process died.
    """

    error: str
    killed_workers: bool = False
    trace: str = ""


def campaign_option(
    default: Any = dataclasses.MISSING,
    help_text: str = "one or more of {names}",
    *,
    among: Iterable[str] = (),
    expected: str = "",
    valid: Callable[[Any], bool] = lambda value: 0.0 < value < math.inf,
) -> Any:
    """Returns a field of a campaign with its help and the check of its values.

    Args:
        default: default value; a tuple for an option with several values; without it the option is required.
        help_text: help on the command line, in which ``{names}`` stands for the names in `among`.
        among: the known names; other values are rejected.
        expected: description of valid values for the error message, such as "positive numbers"; "": not checked.
        valid: whether a value is valid, by default whether it is positive and finite; checked for every value of a
            tuple.
    """
    names = tuple(among)
    checks = {"among": names, "expected": expected, "valid": valid}
    return dataclasses.field(default=default, metadata={"help": help_text.format(names=", ".join(names)), **checks})


def count_option(default: int, help_text: str, *, minimum: int = 1) -> Any:
    """Returns a field of a campaign with a number of things, such as trials; see `campaign_option`.

    Args:
        default: default number of them.
        help_text: help on the command line.
        minimum: smallest valid number of them.
    """
    return campaign_option(default, help_text, expected=f"at least {minimum}", valid=lambda value: value >= minimum)


def singular(name: str) -> str:
    """Returns the name of one value of an option, such as "gait" of "gaits"."""
    return name.removesuffix("s")


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Returns the value if it is a tuple, and else a tuple that contains only the value."""
    return value if isinstance(value, tuple) else (value,)


@renamed_overrides(failure="failure_reason", shown="case_robot")
class Campaign(ABC, Generic[C]):
    """Base class of experiments with many runs; subclasses are frozen dataclasses at the top level of a module.

    The fields of a campaign are its options, made by `campaign_option`.  They hold plain values (`PlainValue`),
    determine the cases, and become options of the command line.  A *case* holds everything on which its run depends, so
    that it can be replayed anywhere: robot, controller options, plant, disturbance, seed.

    Attributes:
        name: name of the campaign for `find`, on the command line and in stores.
        Case: type of the cases, a frozen, hashable dataclass of plain values.
        renamed_entries: new names of entries of records, by the old names that stores of earlier versions have.
        units: units of fields of cases and entries of records, by name, for headers of tables.
    """

    name: ClassVar[str]
    Case: ClassVar[type[Any]]
    renamed_entries: ClassVar[Mapping[str, str]] = {}
    units: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            given, metadata = getattr(self, field.name), field.metadata
            values = as_tuple(given)
            for name in values if metadata.get("among") else ():
                if name not in metadata["among"]:
                    raise UnknownNameError(singular(field.name), name, metadata["among"])
            if metadata.get("expected") and not all(map(metadata["valid"], values)):
                raise ArgumentError(f"{field.name}: expected {metadata['expected']}, got {given}")

    @abstractmethod
    def cases(self) -> Iterator[C]:
        """Yields the cases one at a time, always in the same order; there may be millions of cases."""

    @abstractmethod
    def run(self, case: C) -> Record:
        """Runs one case and returns its record, a mapping of names to plain values.

        The record must depend on the case alone, not on time, host, order or earlier cases.  An exception is recorded
        with its text.  By convention the entry "success" (bool) is the outcome and "reason" (str) the cause of a
        failure.
        """

    def run_batch(self, cases: Sequence[C]) -> Sequence[Record]:
        """Runs several cases and returns the record of each, equal to that of `run`; override it if that is faster."""
        return [self.run(case) for case in cases]

    def count(self) -> int | None:
        """Returns the number of cases, for progress reports; None if unknown."""
        return None

    def model_hash(self) -> str:
        """Returns a hash of everything besides the case on which records depend, such as robot files.

        A store can be continued only with the same hash.  By default it is the hash of all options.
        """
        return hash_texts(self.name, encode(self))

    def failure_reason(self, record: Record) -> str | None:
        """Returns why a record is a failure, None for a success; by default from its "success" and "reason"."""
        return None if record.get("success", True) else str(record.get("reason") or "failed")

    def case_robot(self, case: C) -> Robot:
        """Returns the robot that `replay` shows for a case.

        Raises:
            ArgumentError: the campaign cannot be shown in the viewer.
        """
        raise self._no_replay_error()

    def replay(self, case: C, viewer: Viewer) -> Record:
        """Runs a case again and shows it in the viewer; returns the same record, equal to the bit.

        Raises:
            ArgumentError: the campaign cannot be shown in the viewer.
        """
        raise self._no_replay_error()

    def _no_replay_error(self) -> ArgumentError:
        """Returns the error of a campaign without replay."""
        return ArgumentError(
            f"campaign {self.name!r}: its cases cannot be shown in the viewer, because the campaign does not support "
            "replay"
        )


def hash_texts(*parts: str | bytes) -> str:
    """Returns a hash of 32 hexadecimal digits of texts or bytes, for `Campaign.model_hash`.

    Args:
        *parts: texts or bytes; their order and boundaries matter.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


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
