"""`Campaign`: base class of experiments, which yields cases and runs each as a pure function of the case.

This module also has the registry of campaigns by name.

Cases, options and records of a store are plain values, serialized as JSON exact to the bit.  A worker process caches
robots, draws the random numbers of a case, runs cases and returns outcomes (`run_cases`).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import json
import math
import os
import platform
import socket
import time
import traceback
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from ..deprecation import RENAMED, renamed_overrides
from ..errors import ArgumentError, ArgumentTypeError, CampaignError, UnknownNameError
from ..robot import Robot, load
from ..version import __version__

if TYPE_CHECKING:
    from ..robot import Robot
    from ..viewer import Viewer


T = TypeVar("T")
#: Types of the values of cases and options, which may also be tuples of them, and of records, which may not.
PlainValue = float | int | bool | str | None
#: Maximum number of characters of a text of a file in an error message.
MAX_SHOWN_CHARACTERS = 200


def encode(value: object) -> str:
    """Encodes a frozen dataclass of plain values as JSON; equal values give equal texts.

    Floats are written with enough digits to give the same bits; infinities and NaN as Python's JSON writes them.

    Raises:
        ArgumentTypeError: a field holds another type; the message names it.
    """
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise ArgumentTypeError(
            f"{type(value).__qualname__}: expected a dataclass whose fields are numbers, texts, None, or tuples of them"
        )
    kind = type(value).__qualname__
    return _to_json(
        {f.name: _to_json_value(getattr(value, f.name), f"{kind}.{f.name}") for f in dataclasses.fields(value)}
    )


def decode(kind: type[T], text: object) -> T:
    """Decodes a dataclass that `encode` wrote, also under field names of an earlier version.

    Raises:
        ArgumentError: the text does not match the dataclass or the types of its fields.
    """
    try:
        values = {
            _current_field_name(kind, name): _lists_to_tuples(value) for name, value in _decode_object(text).items()
        }
        _check_fields(kind, values)
        return kind(**values)
    except Exception as error:  # a dataclass may reject its fields by any exception
        raise ArgumentError(f"{shorten(text)} is not a {kind.__qualname__}: {shorten(error)}") from error


def _current_field_name(kind: type[Any], name: str) -> str:
    """Returns the current name of a field that may have the name of an earlier version."""
    return RENAMED.get(f"{kind.__module__}.{kind.__qualname__}({name})", name)


def key(text: str) -> bytes:
    """Returns the 16 bytes by which a store identifies an encoded case."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def encode_record(record: Mapping[str, object]) -> str:
    """Encodes a record as JSON; NumPy scalars become Python scalars.

    Raises:
        ArgumentTypeError: an entry is not a number, text, bool or None; the message names it.
    """
    if not isinstance(record, Mapping):
        raise ArgumentTypeError(f"record: expected a mapping of names to plain values, got {type(record).__qualname__}")
    plain: dict[str, PlainValue] = {}
    for name, value in record.items():
        item = value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value
        if not isinstance(name, str) or not (item is None or isinstance(item, (bool, int, float, str))):
            raise ArgumentTypeError(f"record[{name!r}]: expected a number, text, bool or None, got {value!r}")
        plain[name] = item
    return _to_json(plain)


def decode_record(text: object) -> dict[str, PlainValue]:
    """Decodes a record that `encode_record` wrote.

    Raises:
        ArgumentError: the text is not a record.
    """
    try:
        found = _decode_object(text)
        if wrong := [name for name, value in found.items() if not isinstance(value, PlainValue)]:
            raise ArgumentTypeError(f"record[{wrong[0]!r}]: expected a number, text, bool or None")
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"{shorten(text)} is not a record: {shorten(error)}") from error
    return found


def _decode_object(text: object) -> dict[str, Any]:
    """Decodes a JSON object.

    Raises:
        ValueError, RecursionError: the text is not a JSON object.
    """
    if not isinstance(text, str):
        raise ArgumentTypeError(f"expected text, got {type(text).__name__}")
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ArgumentTypeError(f"expected a JSON object, got {type(found).__name__}")
    return found


def shorten(text: object) -> str:
    """Returns a text for messages: at most `MAX_SHOWN_CHARACTERS` characters, control characters escaped."""
    shown = str(text) if isinstance(text, Exception) else repr(text)
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in shown[: MAX_SHOWN_CHARACTERS + 1])
    return shown if len(shown) <= MAX_SHOWN_CHARACTERS else f"{shown[:MAX_SHOWN_CHARACTERS]}..."


@cache
def _field_types(kind: type[Any]) -> dict[str, tuple[Any, Any]]:
    """Returns the annotation and default of each field by name; {} if annotations cannot be resolved."""
    try:
        hints = typing.get_type_hints(kind)
    except Exception:  # names that are imported only for type checking
        return {}
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    return {field.name: (hints.get(field.name, Any), field.default) for field in fields}


def _check_fields(kind: Any, values: Mapping[str, object]) -> None:
    """Rejects values whose types differ from the annotations of the fields of a dataclass.

    Raises:
        ArgumentTypeError: a value of another type; the message names the field.
    """
    hints = _field_types(kind)
    for name, value in values.items():
        hint, default = hints.get(name, (Any, None))
        if type(value) is not hint and not _has_type(value, hint) and value != default:
            expected = hint.__name__ if isinstance(hint, type) else hint
            raise ArgumentTypeError(f"{name}: expected {expected}, got the value {shorten(value)}")


def _has_type(value: object, hint: Any) -> bool:
    """Returns whether a plain value is of an annotated type; numbers may be of any numeric type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_has_type(value, each) for each in inner)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(inner) == 2 and inner[1] is Ellipsis:
            return all(_has_type(each, inner[0]) for each in value)
        return len(value) == len(inner) and all(map(_has_type, value, inner))
    if hint in (bool, int, float):
        return isinstance(value, (bool, int, float))
    if hint in (str, tuple):
        return isinstance(value, hint)
    return value is None if hint is type(None) else True


def _to_json(value: object) -> str:
    """Returns a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _to_json_value(value: object, where: str) -> object:
    """Returns a plain value with tuples as lists, or raises an error that names the field `where`."""
    if isinstance(value, tuple):
        return [_to_json_value(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise ArgumentTypeError(f"{where}: expected str, int, float, bool, None or a tuple of them, got {value!r}")


def _lists_to_tuples(value: Any) -> Any:
    """Returns a decoded value with lists as tuples."""
    return tuple(_lists_to_tuples(item) for item in value) if isinstance(value, list) else value


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
    """Imports the class of a campaign that is not registered, given as "module:class".

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


@functools.lru_cache(maxsize=64)
def load_cached_robot(source: str, **options: Any) -> Robot:
    """Loads a robot by `quaddyn.load`, once per process.

    Args:
        source: a catalogue name, a path or URDF text.
        **options: options of `quaddyn.load`, hashable.
    """
    return load(source, **options)


def hash_robot(source: str, **options: Any) -> str:
    """Returns a hash of the resolved source of a robot and the options, for `Campaign.model_hash`.

    Args:
        source: a catalogue name, a path or URDF text.
        **options: options of `quaddyn.load`, hashable.
    """
    return hash_texts(load_cached_robot(source, **options).source, repr(sorted(options.items())))


def case_rng(seed: int, *case: int) -> np.random.Generator:
    """Returns the random generator of one case: ``SeedSequence(entropy=seed, spawn_key=case)``.

    Args:
        seed: seed of the campaign.
        *case: indices of the case; each combination has independent random numbers.
    """
    return np.random.default_rng(np.random.SeedSequence(entropy=seed, spawn_key=case))


class Outcome(NamedTuple):
    """Outcome of a case."""

    record: str | None  # the record as JSON; None if the case raised an exception
    error: str | None  # type and text of the exception; None with a record
    trace: str | None  # traceback; None with a record
    seconds: float  # CPU time of the thread [s]


class Worker(NamedTuple):
    """Process that runs cases."""

    name: str  # host and process id
    # name and features, for which machine code is compiled; equal processors give records that are equal to the bit
    processor: str
    package: str  # version of this package in the worker
    model: str  # `Campaign.model_hash` in the worker


class WorkerReply(NamedTuple):
    """Reply of a worker."""

    outcomes: list[Outcome]  # outcome of each case, in order
    worker: Worker  # description of the worker process


def run_cases(campaign: Campaign[Any], cases: Sequence[Any]) -> WorkerReply:
    """Runs cases and returns their outcomes; exceptions of cases are outcomes, not raised."""
    worker = describe_worker(campaign)
    if len(cases) > 1 and type(campaign).run_batch is not Campaign.run_batch:
        start = time.thread_time()
        try:
            records = campaign.run_batch(cases)
            if len(records) != len(cases):
                raise ArgumentError(f"run_batch: expected {len(cases)} records, got {len(records)}")
            seconds_per_case = (time.thread_time() - start) / len(cases)
            return WorkerReply([Outcome(encode_record(r), None, None, seconds_per_case) for r in records], worker)
        except Exception:  # the cases run one by one below, so that the failing one is found
            pass
    return WorkerReply([_run_case(campaign, case) for case in cases], worker)


def _run_case(campaign: Campaign[Any], case: Any) -> Outcome:
    """Runs one case and returns its outcome; an exception becomes an outcome."""
    start = time.thread_time()
    try:
        return Outcome(encode_record(campaign.run(case)), None, None, time.thread_time() - start)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        trace = "".join(traceback.format_tb(error.__traceback__))
        return Outcome(None, _describe_error(error), trace, time.thread_time() - start)


def rerun_case(campaign: Campaign[Any], case: Any, viewer: Viewer) -> Record | Failure:
    """Runs a case again in a viewer.

    Args:
        campaign: campaign of the case.
        case: the case.
        viewer: viewer that shows the run.

    Returns:
        The record, or the failure.
    """
    try:
        return campaign.replay(case, viewer)
    except Exception as error:
        return Failure(_describe_error(error))


def _describe_error(error: BaseException) -> str:
    """Returns type and text of an exception."""
    return "".join(traceback.format_exception_only(error)).strip()


@functools.lru_cache(maxsize=64)
def describe_worker(campaign: Campaign[Any]) -> Worker:
    """Returns the worker record of this process: host and process id, processor, package version and model hash."""
    return Worker(f"{socket.gethostname()}:{os.getpid()}", _describe_processor(), __version__, campaign.model_hash())


@functools.cache
def _describe_processor() -> str:
    """Returns name and features of the processor, on which the bits of records depend."""
    from ..compiler import machine

    try:
        target = machine.kernel_machine()
    except machine.UnsupportedMachineError:
        return platform.machine()
    return f"{target.cpu}, {target.bits} bit, {target.features}"
