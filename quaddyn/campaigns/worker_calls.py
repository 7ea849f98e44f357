"""Functions that run in worker processes: `run_cases` runs cases and returns their outcomes."""

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
    """Outcome of a case.

    Attributes:
        record: the record as JSON; None if the case raised.
        error: type and text of the exception; None with a record.
        trace: traceback; None with a record.
        seconds: CPU time of the thread [s].
    """

    record: str | None
    error: str | None
    trace: str | None
    seconds: float


class Worker(NamedTuple):
    """Process that runs cases.

    Attributes:
        name: host and process id.
        processor: name and features, for which machine code is compiled; records are bit-equal on equal ones.
        package: version of this package there.
        model: `Campaign.model_hash` there.
    """

    name: str
    processor: str
    package: str
    model: str


class WorkerReply(NamedTuple):
    """Reply of a worker: an outcome for each case, in order."""

    outcomes: list[Outcome]
    worker: Worker


def run_cases(campaign: Campaign[Any], cases: Sequence[Any]) -> WorkerReply:
    """Runs cases and returns their outcomes; exceptions of cases are outcomes, not raised."""
    worker = describe_worker(campaign)
    if len(cases) > 1 and type(campaign).run_batch is not Campaign.run_batch:
        start = time.thread_time()
        try:
            records = campaign.run_batch(cases)
            if len(records) != len(cases):
                raise ArgumentError(f"run_batch gave {len(records)} records of {len(cases)} cases")
            each = (time.thread_time() - start) / len(cases)
            return WorkerReply([Outcome(encode_record(r), None, None, each) for r in records], worker)
        except Exception:  # running the cases one by one finds the one that fails
            pass
    return WorkerReply([_run_case(campaign, case) for case in cases], worker)


def _run_case(campaign: Campaign[Any], case: Any) -> Outcome:
    start = time.thread_time()
    try:
        return Outcome(encode_record(campaign.run(case)), None, None, time.thread_time() - start)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        trace = "".join(traceback.format_tb(error.__traceback__))
        return Outcome(None, _describe_error(error), trace, time.thread_time() - start)


def rerun_case(campaign: Campaign[Any], case: Any, viewer: Viewer) -> Record | Failure:
    """Runs a case again in a viewer and returns its record, or the failure."""
    try:
        return campaign.replay(case, viewer)
    except Exception as error:
        return Failure(_describe_error(error))


def _describe_error(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


@functools.lru_cache(maxsize=64)
def describe_worker(campaign: Campaign[Any]) -> Worker:
    """Returns the description of this process as a worker of a campaign."""
    return Worker(f"{socket.gethostname()}:{os.getpid()}", _processor(), __version__, campaign.model_hash())


@functools.cache
def _processor() -> str:
    from ..compiler import machine

    try:
        found = machine.kernel_machine()
    except machine.UnsupportedMachineError:
        return platform.machine()
    return f"{found.cpu}, {found.bits} bit, {found.features}"
