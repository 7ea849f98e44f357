"""Campaigns run every case once, give the same records on every executor, and reject invalid stores and options."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest
from campaign_examples import Throw, Throws, Together
from raising import raises
from slow_parameters import NIGHT

from quaddyn import campaigns
from quaddyn.campaigns import Failure, Progress, Store, run
from quaddyn.campaigns.campaign import decode, decode_record, encode, encode_record
from quaddyn.campaigns.executors import tls
from quaddyn.errors import ArgumentError, ArgumentTypeError, CampaignError, StoreError, UnknownNameError


@dataclass(frozen=True)
class Everything:
    a: float
    b: int
    c: bool
    d: str | None
    e: tuple[object, ...]


def contents(store: str | Path, kind: type[Throws] = Throws) -> set[tuple[str, str]]:
    """Pairs of case and record or error text, without tracebacks, which depend on the worker."""
    with Store.read(store, kind) as there:
        rows = list(there.rows())
    found = {
        (encode(r.case), r.result.error if isinstance(r.result, Failure) else encode_record(r.result)) for r in rows
    }
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("x", [0.1, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, 1 / 3])
def test_cases_and_records_are_decoded_to_the_same_bits(x: float) -> None:
    case = Everything(x, 2**70, True, 'text "with" ünits\n', (1, (x, None), "b"))
    again = decode(Everything, encode(case))
    assert again == case
    assert math.copysign(1.0, again.a) == math.copysign(1.0, x)
    assert [type(v) for v in again.e] == [int, tuple, str]
    record = decode_record(encode_record({"x": np.float64(x), "n": np.int64(3), "ok": np.bool_(True), "y": None}))
    assert record == {"x": x, "n": 3, "ok": True, "y": None}
    assert type(record["ok"]) is bool
    assert math.isnan(float(str(decode_record(encode_record({"x": math.nan}))["x"])))


def test_values_that_are_not_plain_are_rejected_by_name() -> None:
    raises(ArgumentTypeError, r"Everything\.e\[1\].*array", encode, Everything(0.0, 0, True, None, (1, np.zeros(2))))
    raises(ArgumentTypeError, r"record\['q'\]", encode_record, {"q": [1, 2]})
    raises(ArgumentError, "Throw", decode, Throw, '{"nothing": 1}')


def test_serial_run_stores_every_case_in_order() -> None:
    summary = run(Throws(trials=12))
    assert (summary.ran, summary.skipped) == (12, 0)
    results = list(summary.results)
    assert [case.number for case, _ in results] == list(range(12))
    assert summary.tally.total == 12
    assert summary.tally.successes + summary.tally.failures.get("too far", 0) == 12


@pytest.fixture(scope="module")
def executors() -> Iterator[dict[str, Executor]]:
    """Executors by name; with Dask only in the nightly run, because test_campaigns_faults compares its records."""
    with (
        campaigns.dask_executor("local:2") if NIGHT else contextlib.nullcontext() as dask,
        campaigns.process_pool(2) as processes,
        ThreadPoolExecutor(3) as threads,
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool,
    ):
        yield {"processes": processes, "threads": threads, "plain pool": pool} | ({"Dask": dask} if dask else {})


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("campaign", [Throws(30), Together(30), Throws(30, what="raise", every=5)])
def test_every_executor_gives_the_same_store(
    tmp_path: Path, executors: dict[str, Executor], campaign: Throws, batch: int
) -> None:
    run(campaign, store=tmp_path / "serial.db")
    expected = contents(tmp_path / "serial.db", type(campaign))
    assert len(expected) == 30
    for name, executor in executors.items():
        run(campaign, executor, tmp_path / f"{name}.db", batch=batch)
        assert contents(tmp_path / f"{name}.db", type(campaign)) == expected, name


def test_second_run_skips_finished_cases_and_more_trials_extend_a_store(tmp_path: Path) -> None:
    store, log = tmp_path / "runs.db", tmp_path / "ran"
    campaign = Throws(10, folder=str(tmp_path))
    assert run(campaign, store=store, cases=list(campaign.cases())[2:5]).ran == 3
    summary = run(campaign, store=store)
    assert (summary.ran, summary.skipped) == (7, 3)
    assert len(list(summary.results)) == 10
    summary = run(replace(campaign, trials=15), store=store)
    assert (summary.ran, summary.skipped) == (5, 10)
    assert sorted(map(int, log.read_text(encoding="utf-8").split())) == list(range(15))


def test_repeated_case_runs_once(tmp_path: Path) -> None:
    campaign = Throws(4, folder=str(tmp_path))
    cases = [*campaign.cases(), *campaign.cases()]
    with ThreadPoolExecutor(2) as pool:
        summary = run(campaign, pool, cases=cases)
    assert (summary.ran, summary.skipped) == (4, 4)
    assert len((tmp_path / "ran").read_text(encoding="utf-8").split()) == 4


def test_open_store_accepts_several_runs(tmp_path: Path) -> None:
    campaign = Throws(6)
    cases = list(campaign.cases())
    with Store.open(tmp_path / "runs.db", campaign) as store:
        assert run(campaign, store=store, cases=cases[:2]).ran == 2
        again = run(campaign, store=store, cases=cases[:4])
        assert (again.ran, again.skipped, len(list(again.results))) == (2, 2, 4)
    assert len(contents(tmp_path / "runs.db")) == 4


def test_exceptions_are_stored_as_results_with_their_text(tmp_path: Path) -> None:
    summary = run(Throws(6, what="raise", every=3), store=tmp_path / "runs.db")
    failures = [result for _, result in summary.results if isinstance(result, Failure)]
    assert [f.error for f in failures] == [f"ValueError: throw {i} fails\nfor a test" for i in (2, 5)]
    assert all("campaign_examples.py" in f.trace and not f.killed_workers for f in failures)
    assert summary.tally.errors == {"ValueError: throw … fails": 2}
    assert summary.tally.examples["ValueError: throw … fails"] == (3, 6)
    assert run(Throws(6, what="raise", every=3), store=tmp_path / "runs.db").ran == 0
    assert run(Throws(1, what="exit")).tally.errors == {"SystemExit: …": 1}


def test_progress_reports_total_rate_and_failures() -> None:
    told: list[Progress] = []
    run(Throws(8, what="raise", every=4), progress=told.append)
    assert (told[-1].done, told[-1].total, told[-1].failures) == (8, 8, 2)
    assert told[-1].rate > 0.0
    assert told[-1].remaining == 0.0


@dataclass(frozen=True)
class Other(Throws):
    name = "other"


@dataclass(frozen=True)
class Heavier(Throws):
    def model_hash(self) -> str:
        return campaigns.hash_texts("heavier")


def test_store_of_another_campaign_or_model_is_rejected_with_the_reason(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    run(Throws(3), store=store)
    raises(StoreError, "campaign 'throws', not of 'other'", run, Other(3), store=store)
    raises(StoreError, "another robot model", run, Heavier(4), store=store)
    assert run(Heavier(4), store=store, ignore_mismatch=True).ran == 1
    with Store.read(store, Throws) as there:
        assert len({row.model for row in there.rows()}) == 2
    raises(StoreError, "campaign 'throws', not of 'other'", run, Other(3), store=store, ignore_mismatch=True)


def test_store_of_another_version_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "runs.db"
    run(Throws(3), store=store)
    monkeypatch.setattr("quaddyn.campaigns.store.__version__", "99.0")
    monkeypatch.setattr("quaddyn.campaigns.campaign.__version__", "99.0")
    raises(StoreError, r"results of quaddyn 0.*, but this is quaddyn 99\.0", run, Throws(3), store=store)


def test_files_that_are_not_stores_are_rejected(tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_text("no database\n" * 100, encoding="utf-8")
    raises(StoreError, "not a store of a campaign", run, Throws(3), store=text)
    raises(StoreError, "the file does not exist", Store.read, tmp_path / "none.db", Throws)
    with pytest.raises(StoreError, match=r"its folder does not exist|unable to open"):
        run(Throws(3), store=tmp_path / "nowhere" / "runs.db")


def test_store_allows_one_writer_and_readers(tmp_path: Path) -> None:
    path, campaign = tmp_path / "runs.db", Throws(5)
    with Store.open(path, campaign) as store:
        run(campaign, store=store, cases=list(campaign.cases())[:3])
        raises(StoreError, "another process", Store.open, path, campaign)
        with Store.read(path, Throws) as reader:
            assert len(reader) == 3
    assert run(campaign, store=path).ran == 2


@pytest.mark.parametrize("options", [{"batch": 0}, {"in_flight": 0}, {"batch": 1.5}])
def test_options_out_of_range_are_rejected(options: dict[str, int]) -> None:
    raises(ArgumentError, next(iter(options)), run, Throws(1), **options)


class Counting(ThreadPoolExecutor):
    most = now = 0

    def submit(self, fn, /, *args, **kwargs):
        self.now += 1
        self.most = max(self.most, self.now)
        future = super().submit(fn, *args, **kwargs)
        future.add_done_callback(lambda _: setattr(self, "now", self.now - 1))
        return future


def test_cases_in_flight_are_bounded() -> None:
    with Counting(2) as pool:
        assert run(Throws(200), pool, in_flight=5).ran == 200
    assert 1 < pool.most <= 5
    with Counting(2) as pool:
        run(Throws(400), pool)
    assert pool.most <= 64


def test_closed_executor_raises_a_campaign_error() -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    raises(CampaignError, "Finished results are stored", run, Throws(3), pool)


def test_tls_security_uses_the_given_files() -> None:
    pytest.importorskip("distributed")
    assert tls(None, None, None) is None
    for files in (("ca.pem", None, None), ("ca.pem", "own.pem", Path("own.key"))):
        made = tls(*files)
        assert made.require_encryption is True
        assert (made.tls_ca_file, made.tls_client_cert, made.tls_client_key) == tuple(f and str(f) for f in files)


@dataclass(frozen=True)
class CheckedThrows(Throws):
    """Throws with checked options."""

    colors: tuple[str, ...] = campaigns.campaign_option(("red",), among=("red", "blue"))
    speeds: tuple[float, ...] = campaigns.campaign_option((1.0,), "speeds [m/s]", expected="positive numbers")
    hands: int = campaigns.count_option(2, "number of hands")


def test_options_of_campaigns_are_checked() -> None:
    assert CheckedThrows(colors=("blue", "red"), speeds=()).hands == 2
    assert {f.name: f.metadata["help"] for f in fields(CheckedThrows)[-3:]} == {
        "colors": "one or more of red, blue", "speeds": "speeds [m/s]", "hands": "number of hands",
    }  # fmt: skip
    raises(UnknownNameError, "unknown color 'bleu'; did you mean 'blue'", CheckedThrows, colors=("red", "bleu"))
    for speed in (0.0, -1.0, math.inf, math.nan):
        raises(ArgumentError, r"speeds: expected positive numbers, got \(1.0, ", CheckedThrows, speeds=(1.0, speed))
    raises(ArgumentError, "hands: expected at least 1, got 0", CheckedThrows, hands=0)
