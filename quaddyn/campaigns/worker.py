"""What a worker process does: caches robots, draws the random numbers of a case, runs cases and returns outcomes."""

from __future__ import annotations

import functools
import os
import platform
import socket
import time
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import ArgumentError
from ..robot import Robot, load
from ..version import __version__
from .campaign import Campaign, Failure, Record, hash_texts
from .plain_values import encode_record

if TYPE_CHECKING:
    from ..viewer import Viewer


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
