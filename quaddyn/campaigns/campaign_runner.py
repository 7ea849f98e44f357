"""Drive a campaign on an executor: cases out, outcomes into the store, nothing lost and nothing twice."""

from __future__ import annotations

import os
import queue
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from ..deprecation import renamed_parameters
from ..errors import ArgumentError, CampaignError
from .campaign import Campaign, Failure, Record
from .outcome_counts import OutcomeCounts
from .plain_values import encode
from .store import COMMIT_EVERY, MEMORY, Store, StoredCase
from .worker_calls import WorkerReply, work
from .worker_failures import LIVES, deaths


class Progress(NamedTuple):
    """How far a campaign is.

    Attributes:
        done: cases that are in the store, those of earlier runs too.
        total: of all cases; None if unknown.
        rate: cases of this run per second [1/s].
        remaining: time until the end at this rate [s]; None if unknown.
        failures: cases of this run without a record.
    """

    done: int
    total: int | None
    rate: float
    remaining: float | None
    failures: int


@dataclass(frozen=True, eq=False)
class Summary:
    """What a run of a campaign came to.

    Attributes:
        campaign: that ran.
        ran: number of cases that ran now.
        skipped: number of cases that were in the store already.
        seconds: it took [s].
    """

    campaign: Campaign[Any]
    ran: int
    skipped: int
    seconds: float
    _store: Store | str = field(repr=False)
    _cases: Sequence[Any] | None = field(repr=False)

    @property
    def rows(self) -> Iterator[StoredCase]:
        """What became of every case, in the order of the cases."""
        store = self._store
        with Store.read(store, type(self.campaign)) if isinstance(store, str) else nullcontext(store) as reader:
            for case in self.campaign.cases() if self._cases is None else self._cases:
                row = reader.find(encode(case))
                if row is not None:
                    yield row

    @property
    def results(self) -> Iterator[tuple[Any, Record | Failure]]:
        """Every case with its record, or with why there is none, in the order of the cases."""
        return ((row.case, row.result) for row in self.rows)

    @cached_property
    def tally(self) -> OutcomeCounts:
        """Successes, and failures by reason."""
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
    """Run the cases of a campaign that are not in the store.

    Exceptions of a case are results.  So is "poison": a case whose worker dies three times.  An interrupt ends it at
    once with what is done kept; running it again goes on.

    Args:
        campaign: what to run.
        executor: `workers`, `cluster`, or any other; by default this process, one case after the other.
        store: a file, made if it is not there; an open store; by default memory.
        cases: only these; by default all of the campaign.
        batch: cases sent to a worker at a time, for short ones.
        in_flight: most batches sent and not answered; by default what keeps the executor's workers busy.
        progress: called from time to time.
        ignore_mismatch: see `Store.open`.

    Raises:
        StoreError: the store cannot be used, or its disk is full.
        CampaignError: the executor broke, or a worker has another version or model.
    """
    for name, value in (("batch", batch), ("in_flight", in_flight)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ArgumentError(f"{name}: expected a positive integer, got {value!r}")
    chosen = None if cases is None else tuple(cases)
    if isinstance(store, Store):
        kept, ours = store, False
        if store.campaign != campaign:
            raise ArgumentError(f"store: {store.path} was opened for another campaign or other options")
    else:
        kept, ours = Store.open(MEMORY if store is None else store, campaign, ignore_mismatch=ignore_mismatch), True
    total = campaign.count() if chosen is None else len(chosen)
    drive = _Drive(campaign, executor or _Here(), kept, progress, total)
    began = time.perf_counter()
    try:
        drive.run(campaign.cases() if chosen is None else iter(chosen), batch, in_flight)
    finally:
        if ours and store is not None:
            kept.close()
        else:
            kept.commit()
    where = kept.path if ours and store is not None else kept
    return Summary(campaign, drive.ran, drive.skipped, time.perf_counter() - began, where, chosen)


class _Task(NamedTuple):
    """Cases that travel together, as text and as they are."""

    texts: tuple[str, ...]
    cases: tuple[Any, ...]


class _Drive:
    """The client's loop: bounded cases out, outcomes in."""

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
        self._began = self._told = time.monotonic()
        self._arrivals: queue.SimpleQueue[Future[WorkerReply]] = queue.SimpleQueue()
        self._flying: dict[Future[WorkerReply], _Task] = {}
        self._out: set[str] = set()
        self._again: deque[_Task] = deque()
        self._deaths: Counter[str] = Counter()

    def run(self, cases: Iterator[Any], batch: int, in_flight: int | None) -> None:
        feed = self._feed(cases, batch)
        try:
            while True:
                most = in_flight or _enough(self._executor)
                while len(self._flying) < most and (task := next(feed, None)) is not None:
                    self._send(task)
                self._tell()
                if not self._flying:
                    if not self._again:
                        return
                    continue
                try:
                    self._take(self._arrivals.get(timeout=COMMIT_EVERY))
                except queue.Empty:
                    pass
                self._store.commit(now=False)
        except BaseException:
            for future in self._flying:
                future.cancel()
            raise
        finally:
            self._tell(last=True)

    def _feed(self, cases: Iterator[Any], batch: int) -> Iterator[_Task | None]:
        """What to send next: first what came back from dead workers, then cases that are not in the store."""
        texts: list[str] = []
        held: list[Any] = []
        ended = False
        while True:
            if self._again:
                yield self._again.popleft()
                continue
            if ended:
                yield None
                continue
            for case in cases:
                text = encode(case)
                if text in self._out or text in self._store:
                    self.skipped += 1
                    self._tell()
                    continue
                self._out.add(text)
                texts.append(text)
                held.append(case)
                if len(texts) == batch:
                    break
            else:
                ended = True
            if texts:
                task = _Task(tuple(texts), tuple(held))
                texts, held = [], []
                yield task

    def _send(self, task: _Task) -> None:
        try:
            future = self._executor.submit(work, self._campaign, task.cases)
        except (BrokenExecutor, RuntimeError) as error:
            raise _broken(error) from error
        self._flying[future] = task
        future.add_done_callback(self._arrivals.put)

    def _take(self, future: Future[WorkerReply]) -> None:
        task = self._flying.pop(future)
        try:
            answer = future.result()
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            died = deaths(error)
            if died is None:
                raise _broken(error) from error
            self._bury(task, died, error)
            return
        self._store.check(answer.worker)
        self._store.add(task.texts, answer.outcomes, answer.worker)
        self.ran += len(task.texts)
        self.failures += sum(outcome.record is None for outcome in answer.outcomes)
        self._out.difference_update(task.texts)

    def _bury(self, task: _Task, died: int, error: BaseException) -> None:
        """A worker died: its cases run again, each by itself, until it is clear whose fault it is."""
        if len(task.texts) > 1:
            self._again.extend(_Task((t,), (c,)) for t, c in zip(task.texts, task.cases, strict=True))
            return
        (text,) = task.texts
        self._deaths[text] += died
        if self._deaths[text] < LIVES:
            self._again.append(task)
            return
        self._store.add_poison(text, f"its worker died {self._deaths.pop(text)} times", str(error))
        self.ran += 1
        self.failures += 1
        self._out.discard(text)

    def _tell(self, *, last: bool = False) -> None:
        now = time.monotonic()
        if self._progress is None or (not last and now < self._told + 0.1):
            return
        self._told = now
        done, rate = self.ran + self.skipped, self.ran / max(now - self._began, 1e-9)
        remaining = (self._total - done) / rate if self._total is not None and rate > 0.0 else None
        self._progress(Progress(done, self._total, rate, remaining, self.failures))


class _Here(Executor):
    """This process, one after the other."""

    slots = 1

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def _enough(executor: Executor) -> int:
    """Batches in flight that keep the workers of an executor busy."""
    if isinstance(executor, _Here):
        return 1
    slots = getattr(executor, "slots", None) or getattr(executor, "_max_workers", None) or os.cpu_count() or 1
    return max(64, 4 * int(slots))


def _broken(error: BaseException) -> CampaignError:
    if isinstance(error, CampaignError):
        return error
    if isinstance(error, BrokenExecutor):
        why = "the executor's workers died, and it cannot replace them; quaddyn.campaigns.process_pool does"
    elif isinstance(error, (CancelledError, OSError)):
        why = f"the connection to the executor's workers is lost ({type(error).__name__})"
    else:
        why = f"a worker cannot run the campaign: {type(error).__name__}: {error}"
    return CampaignError(f"{why}. What is done is kept; run it again to go on")
