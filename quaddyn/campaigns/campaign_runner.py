"""`run`: distributes the cases of a campaign to an executor and stores each outcome exactly once."""

from __future__ import annotations

import dataclasses
import os
import queue
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

from ..deprecation import renamed_attributes, renamed_fields, renamed_parameters
from ..errors import ArgumentError, CampaignError
from ..operating_system import usable_processors
from .campaign import Campaign, Failure, Record, WorkerReply, encode, run_cases
from .executors import MAX_WORKER_DEATHS, count_worker_deaths
from .store import COMMIT_INTERVAL, MEMORY, Store, StoredCase

#: Number of examples stored for each reason.
MAX_EXAMPLES = 5
#: Largest number of values of a field by which successes are counted.
MAX_FIELD_VALUES = 20


@renamed_attributes(of="from_rows")
@renamed_fields(poison="killed_workers")
@dataclass(frozen=True)
class OutcomeCounts:
    """Numbers of outcomes of a campaign.

    Attributes:
        successes: number of successes.
        failures: number of failed records by reason, as `Campaign.failure_reason` gives it; most frequent first.
        errors: number of cases that raised, by the first line of the exception, its numbers replaced by dots.
        killed_workers: number of cases whose workers died.
        examples: the first case numbers of each failure and error; those of `killed_workers` under "poison".
    """

    successes: int
    failures: dict[str, int]
    errors: dict[str, int]
    killed_workers: int
    examples: dict[str, tuple[int, ...]]

    @property
    def total(self) -> int:
        """Number of all cases."""
        return self.successes + sum(self.failures.values()) + sum(self.errors.values()) + self.killed_workers

    @classmethod
    def from_rows(cls, campaign: Campaign[Any], rows: Iterable[StoredCase]) -> Self:
        """Counts the outcomes of the stored cases of a campaign."""
        successes = killed_workers = 0
        failures: Counter[str] = Counter()
        errors: Counter[str] = Counter()
        examples: dict[str, tuple[int, ...]] = {}
        for row in rows:
            if isinstance(row.result, Failure):
                reason = "poison" if row.result.killed_workers else _without_numbers(row.result.error)
                if row.result.killed_workers:
                    killed_workers += 1
                else:
                    errors[reason] += 1
            else:
                failure_reason = campaign.failure_reason(row.result)
                if failure_reason is None:
                    successes += 1
                    continue
                failures[reason := failure_reason] += 1
            numbers = examples.get(reason, ())
            if len(numbers) < MAX_EXAMPLES:
                examples[reason] = (*numbers, row.number)
        return cls(successes, dict(failures.most_common()), dict(errors.most_common()), killed_workers, examples)


def count_by_field(campaign: Campaign[Any], rows: Iterable[StoredCase]) -> dict[str, dict[Any, tuple[int, int]]]:
    """Counts successes by the value of each field that the cases of a campaign vary, such as the size of a push.

    Fields that depend on the `number` of a case alone, which random numbers do, are left out.

    Returns:
        For each field with 2 to 20 values, of which each has two cases or more: numbers of successes and of cases by
        value, in ascending order.
    """
    counts: dict[str, dict[Any, list[int]]] = {}
    by_number: dict[tuple[str, int], Any] = {}
    varied: set[str] = set()
    for row in rows:
        success = not isinstance(row.result, Failure) and campaign.failure_reason(row.result) is None
        for f in dataclasses.fields(row.case):
            value, values = getattr(row.case, f.name), counts.setdefault(f.name, {})
            number = getattr(row.case, "number", None)
            if number is None or by_number.setdefault((f.name, number), value) != value:
                varied.add(f.name)
            if len(values) <= MAX_FIELD_VALUES:
                count = values.setdefault(value, [0, 0])
                count[0], count[1] = count[0] + success, count[1] + 1
    return {
        name: {value: (count[0], count[1]) for value, count in sorted(values.items(), key=_sort_key)}
        for name, values in counts.items()
        if name in varied and 2 <= len(values) <= MAX_FIELD_VALUES and min(total for _, total in values.values()) > 1
    }


def _sort_key(item: tuple[Any, object]) -> tuple[bool, Any]:
    """Returns a key that sorts numbers before other values."""
    is_number = isinstance(item[0], int | float)
    return not is_number, item[0] if is_number else str(item[0])


def _without_numbers(error: str) -> str:
    """Returns the first line of an error with its numbers replaced by "…", so that similar errors count together."""
    return re.sub(r"[-+]?\d[\d.]*(e[-+]?\d+)?", "…", error.partition("\n")[0])


class Progress(NamedTuple):
    """Progress of a campaign.

    Attributes:
        done: number of cases in the store, those of earlier runs included.
        total: number of all cases; None if unknown.
        rate: cases of this run per second [1/s].
        remaining: estimated time to the end [s]; None if unknown.
        failures: number of cases of this run without a record.
    """

    done: int
    total: int | None
    rate: float
    remaining: float | None
    failures: int


@dataclass(frozen=True, eq=False)
class Summary:
    """Result of a run of a campaign.

    Attributes:
        campaign: the campaign.
        ran: number of cases that ran.
        skipped: number of cases that were in the store already.
        seconds: duration [s].
    """

    campaign: Campaign[Any]
    ran: int
    skipped: int
    seconds: float
    _store: Store | str = field(repr=False)
    _cases: Sequence[Any] | None = field(repr=False)

    @property
    def rows(self) -> Iterator[StoredCase]:
        """Stored result of every case, in the order of the cases."""
        store = self._store
        with Store.read(store, type(self.campaign)) if isinstance(store, str) else nullcontext(store) as reader:
            for case in self.campaign.cases() if self._cases is None else self._cases:
                row = reader.find(encode(case))
                if row is not None:
                    yield row

    @property
    def results(self) -> Iterator[tuple[Any, Record | Failure]]:
        """Every case with its record or failure, in the order of the cases."""
        return ((row.case, row.result) for row in self.rows)

    @cached_property
    def tally(self) -> OutcomeCounts:
        """Numbers of successes, and of failures by reason."""
        return OutcomeCounts.from_rows(self.campaign, self.rows)


@renamed_parameters(force="ignore_mismatch")
def run(
    campaign: Campaign[Any],
    executor: Executor | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    *,
    cases: Iterable[Any] | None = None,
    batch: int = 1,
    in_flight: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    ignore_mismatch: bool = False,
) -> Summary:
    """Runs the cases of a campaign that are not in the store.

    Exceptions of a case are stored as its result, and so is the death of its worker process if it occurs three times.
    An interrupt ends the run at once and keeps all finished results; a further run continues.

    Args:
        campaign: the campaign.
        executor: `process_pool`, `dask_executor`, or any other; None: this process, one case after the other.
        store: a file, created if it does not exist, or an open store; None: memory.
        cases: the cases to run; None: all cases of the campaign.
        batch: number of cases that are sent to a worker at a time; larger for short cases.
        in_flight: largest number of batches in progress; None: enough to keep the workers busy.
        progress: called at most ten times per second; None: not called.
        ignore_mismatch: see `Store.open`.

    Raises:
        StoreError: the store cannot be used, or its disk is full.
        CampaignError: the executor failed, or a worker has another version or model.
    """
    for name, value in (("batch", batch), ("in_flight", in_flight)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ArgumentError(f"{name}: expected a positive integer, got {value!r}")
    selected_cases = None if cases is None else tuple(cases)
    if isinstance(store, Store):
        open_store, owns_store = store, False
        if store.campaign != campaign:
            raise ArgumentError(
                f"store: {store.path} was opened for another campaign or other options; open a new store, or pass the "
                "same campaign and options"
            )
    else:
        open_store = Store.open(MEMORY if store is None else store, campaign, ignore_mismatch=ignore_mismatch)
        owns_store = True
    total = campaign.count() if selected_cases is None else len(selected_cases)
    campaign_run = _CampaignRun(campaign, executor or _InProcessExecutor(), open_store, progress, total)
    start_time = time.perf_counter()
    try:
        campaign_run.run(campaign.cases() if selected_cases is None else iter(selected_cases), batch, in_flight)
    finally:
        if owns_store and store is not None:
            open_store.close()
        else:
            open_store.commit()
    source = open_store.path if owns_store and store is not None else open_store
    return Summary(
        campaign, campaign_run.ran, campaign_run.skipped, time.perf_counter() - start_time, source, selected_cases
    )


class _Task(NamedTuple):
    """Cases that are sent to a worker together, as text and as objects."""

    texts: tuple[str, ...]
    cases: tuple[Any, ...]


class _CampaignRun:
    """Main loop of the client, which sends a bounded number of cases to the executor and stores outcomes."""

    def __init__(
        self,
        campaign: Campaign[Any],
        executor: Executor,
        store: Store,
        progress: Callable[[Progress], None] | None,
        total: int | None,
    ) -> None:
        self.ran = self.skipped = self.failures = 0
        self._campaign, self._executor, self._store = campaign, executor, store
        self._progress, self._total = progress, total
        self._start_time = self._last_report = time.monotonic()
        self._arrivals: queue.SimpleQueue[Future[WorkerReply]] = queue.SimpleQueue()
        self._in_flight: dict[Future[WorkerReply], _Task] = {}
        self._pending_texts: set[str] = set()
        self._retry: deque[_Task] = deque()
        self._deaths: Counter[str] = Counter()

    def run(self, cases: Iterator[Any], batch: int, in_flight: int | None) -> None:
        """Runs all cases that are not in the store."""
        tasks = self._next_tasks(cases, batch)
        try:
            while True:
                max_tasks = in_flight or _max_in_flight(self._executor)
                while len(self._in_flight) < max_tasks and (task := next(tasks, None)) is not None:
                    self._send(task)
                self._report_progress()
                if not self._in_flight:
                    if not self._retry:
                        return
                    continue
                try:
                    self._receive(self._arrivals.get(timeout=COMMIT_INTERVAL))
                except queue.Empty:
                    pass
                self._store.commit(now=False)
        except BaseException:
            for future in self._in_flight:
                future.cancel()
            raise
        finally:
            self._report_progress(last=True)

    def _next_tasks(self, cases: Iterator[Any], batch: int) -> Iterator[_Task | None]:
        """Yields the next task, tasks of dead workers first, then cases not in the store; None while there is none."""
        texts: list[str] = []
        batch_cases: list[Any] = []
        is_exhausted = False
        while True:
            if self._retry:
                yield self._retry.popleft()
                continue
            if is_exhausted:
                yield None
                continue
            for case in cases:
                text = encode(case)
                if text in self._pending_texts or text in self._store:
                    self.skipped += 1
                    self._report_progress()
                    continue
                self._pending_texts.add(text)
                texts.append(text)
                batch_cases.append(case)
                if len(texts) == batch:
                    break
            else:
                is_exhausted = True
            if texts:
                task = _Task(tuple(texts), tuple(batch_cases))
                texts, batch_cases = [], []
                yield task

    def _send(self, task: _Task) -> None:
        """Submits a task to the executor."""
        try:
            future = self._executor.submit(run_cases, self._campaign, task.cases)
        except (BrokenExecutor, RuntimeError) as error:
            raise _executor_error(error) from error
        self._in_flight[future] = task
        future.add_done_callback(self._arrivals.put)

    def _receive(self, future: Future[WorkerReply]) -> None:
        """Stores the outcomes of a finished task, or handles the death of its worker."""
        task = self._in_flight.pop(future)
        try:
            reply = future.result()
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            n_deaths = count_worker_deaths(error)
            if n_deaths is None:
                raise _executor_error(error) from error
            self._record_killed_case(task, n_deaths, error)
            return
        self._store.check(reply.worker)
        self._store.add(task.texts, reply.outcomes, reply.worker)
        self.ran += len(task.texts)
        self.failures += sum(outcome.record is None for outcome in reply.outcomes)
        self._pending_texts.difference_update(task.texts)

    def _record_killed_case(self, task: _Task, n_deaths: int, error: BaseException) -> None:
        """Handles the death of a worker: its cases run again one by one, until a case has killed too many workers."""
        if len(task.texts) > 1:
            self._retry.extend(_Task((t,), (c,)) for t, c in zip(task.texts, task.cases, strict=True))
            return
        (text,) = task.texts
        self._deaths[text] += n_deaths
        if self._deaths[text] < MAX_WORKER_DEATHS:
            self._retry.append(task)
            return
        self._store.add_killed_case(
            text, f"the worker process of this case died {self._deaths.pop(text)} times", str(error)
        )
        self.ran += 1
        self.failures += 1
        self._pending_texts.discard(text)

    def _report_progress(self, *, last: bool = False) -> None:
        """Calls the progress function at most ten times per second, and with `last` in any case."""
        now = time.monotonic()
        if self._progress is None or (not last and now < self._last_report + 0.1):
            return
        self._last_report = now
        done, rate = self.ran + self.skipped, self.ran / max(now - self._start_time, 1e-9)
        remaining = (self._total - done) / rate if self._total is not None and rate > 0.0 else None
        self._progress(Progress(done, self._total, rate, remaining, self.failures))


class _InProcessExecutor(Executor):
    """Executor that runs each call at once in this process."""

    slots = 1

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Calls the function at once and returns its completed future."""
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def _max_in_flight(executor: Executor) -> int:
    """Returns the number of batches in progress that keeps the workers of an executor busy."""
    if isinstance(executor, _InProcessExecutor):
        return 1
    slots = getattr(executor, "slots", None) or getattr(executor, "_max_workers", None) or usable_processors()
    return max(64, 4 * int(slots))


def _executor_error(error: BaseException) -> CampaignError:
    """Returns the error to raise for a failure of the executor, with its cause and advice."""
    if isinstance(error, CampaignError):
        return error
    if isinstance(error, BrokenExecutor):
        reason = "the worker processes of the executor died and cannot be replaced; use quaddyn.campaigns.process_pool"
    elif isinstance(error, (CancelledError, OSError)):
        reason = f"the connection to the executor's workers is lost ({type(error).__name__})"
    else:
        reason = f"a worker cannot run the campaign: {type(error).__name__}: {error}"
    return CampaignError(f"{reason}. Finished results are stored; run the campaign again to continue")
