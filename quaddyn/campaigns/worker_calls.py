"""What a worker does with the cases it is sent, and what it answers."""

from __future__ import annotations

import functools
import os
import platform
import socket
import time
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ArgumentError
from ..version import __version__
from .campaign import Campaign, Failure, Record
from .plain_values import encode_record

if TYPE_CHECKING:
    from ..viewer import Viewer


class Outcome(NamedTuple):
    """What became of a case.

    Attributes:
        record: as JSON; None where it raised.
        error: type and text of the exception; None for a record.
        trace: where it was raised; None for a record.
        seconds: CPU time of the thread that ran it [s].
    """

    record: str | None
    error: str | None
    trace: str | None
    seconds: float


class Worker(NamedTuple):
    """A process that ran cases.

    Attributes:
        name: host and process id.
        processor: name and features, as machine code is made for them; records are bit-equal among equal ones.
        package: version of this package there.
        model: `Campaign.model_hash` there.
    """

    name: str
    processor: str
    package: str
    model: str


class WorkerReply(NamedTuple):
    """What a worker sends back: an outcome for each case, in order."""

    outcomes: list[Outcome]
    worker: Worker


def work(campaign: Campaign[Any], cases: Sequence[Any]) -> WorkerReply:
    """Run cases; their exceptions are outcomes, not raised."""
    worker = here(campaign)
    if len(cases) > 1 and type(campaign).run_batch is not Campaign.run_batch:
        start = time.thread_time()
        try:
            records = campaign.run_batch(cases)
            if len(records) != len(cases):
                raise ArgumentError(f"run_batch gave {len(records)} records of {len(cases)} cases")
            each = (time.thread_time() - start) / len(cases)
            return WorkerReply([Outcome(encode_record(r), None, None, each) for r in records], worker)
        except Exception:  # whose fault it is shows when they run one by one
            pass
    return WorkerReply([_alone(campaign, case) for case in cases], worker)


def _alone(campaign: Campaign[Any], case: Any) -> Outcome:
    start = time.thread_time()
    try:
        return Outcome(encode_record(campaign.run(case)), None, None, time.thread_time() - start)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        trace = "".join(traceback.format_tb(error.__traceback__))
        return Outcome(None, _described(error), trace, time.thread_time() - start)


def rerun_case(campaign: Campaign[Any], case: Any, viewer: Viewer) -> Record | Failure:
    """What became of a case, now that it runs in a viewer."""
    try:
        return campaign.replay(case, viewer)
    except Exception as error:
        return Failure(_described(error))


def _described(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


@functools.lru_cache(maxsize=64)
def here(campaign: Campaign[Any]) -> Worker:
    """This process, as a worker for a campaign."""
    return Worker(f"{socket.gethostname()}:{os.getpid()}", _processor(), __version__, campaign.model_hash())


@functools.cache
def _processor() -> str:
    from ..compiler import machine

    try:
        found = machine.host()
    except machine.Unsupported:
        return platform.machine()
    return f"{found.cpu}, {found.bits} bit, {found.features}"
