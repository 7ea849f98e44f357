"""Campaigns run every case once, give the same records on every executor, and reject invalid stores and options."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest
from campaign_examples import Shown, Throw, Throws, Together
from raising import raises
from slow_parameters import NIGHT, others_slow
from typer.testing import CliRunner
from waiting import wait_for

import quaddyn as qd
from quaddyn import campaigns
from quaddyn.campaigns import Failure, Record, Store, campaign, run
from quaddyn.campaigns.campaign import decode, decode_record, encode, encode_record
from quaddyn.campaigns.campaign_runner import count_by_field
from quaddyn.campaigns.executors import tls
from quaddyn.campaigns.store import StoredCase, to_frame, write_csv
from quaddyn.campaigns.walking_campaigns import PushCampaign
from quaddyn.cli import app
from quaddyn.errors import ArgumentError, ArgumentTypeError, CampaignError, StoreError, UnknownNameError
from quaddyn.viewer import Viewer


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


# -- `quaddyn campaign` and `quaddyn replay store#17` -----------------------------------------------------------------
runner = CliRunner()
TESTS = Path(__file__).resolve().parent


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Throws", "Shown", "Options"):
        monkeypatch.setitem(campaign.BUILT_IN_CAMPAIGNS, name.lower(), f"campaign_examples:{name}")


def call(*words: object, code: int = 0) -> str:
    result = runner.invoke(app, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def test_every_registered_campaign_is_a_command_with_its_options() -> None:
    text = call("campaign", "--help")
    assert all(name in text for name in (*campaign.names(), "resume", "show", "export"))
    for name in campaign.names():
        assert "--store" in call("campaign", name, "--help"), name
    assert "number of throws" in call("campaign", "throws", "--help")


@pytest.mark.parametrize("words", [("campaign", "throws", "--workers", "0"), ("datasheet", "go2")])
def test_campaigns_and_data_sheets_reject_other_devices(words: tuple[str, ...], tmp_path: Path) -> None:
    for device, reason in (("cuda:1", "run on the CPU only, got 'cuda:1'"), ("tpu", "expected cpu, got 'tpu'")):
        raises(qd.ArgumentError, f"--device: .*{reason}", call, *words, "--device", device)
    assert "1 cases" in call("campaign", "throws", "--trials", 1, "--workers", 0, "--device", "cpu")


def test_campaign_is_run_resumed_shown_and_exported(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    told = json.loads(call("campaign", "throws", "--trials", 12, "--store", store, "--workers", 1, "--json"))
    assert (told["ran"], told["total"], told["options"]["trials"]) == (12, 12, 12)
    assert told["interval"][0] < told["successes"] / 12 <= told["interval"][1]
    assert "12 done before" in call("campaign", "throws", "--trials", 14, "--store", store, "--workers", 0)
    assert "0 cases" in call("campaign", "resume", store, "--workers", 0)
    shown = json.loads(call("campaign", "show", store, "--json"))
    assert (shown["total"], shown["cases"], len(shown["processors"])) == (14, 14, 1)
    table = call("campaign", "show", store)
    assert "14 of 14 cases" in table
    assert "success" in table
    call("campaign", "export", store, "--csv", tmp_path / "runs.csv", "--parquet", tmp_path / "runs.parquet")
    with Store.read(store) as there:
        rows = list(there.rows())
        expected = to_frame(there)
    with (tmp_path / "runs.csv").open(newline="", encoding="utf-8") as file:
        for row, line in zip(rows, csv.DictReader(file), strict=True):
            assert int(line["number"]) == row.number
            for name in ("x", "tiny", "sum"):
                assert float(line[f"record.{name}"]) == row.result[name]
            assert line["record.success"] == str(row.result["success"])
    import pandas

    again = pandas.read_parquet(tmp_path / "runs.parquet")
    assert list(again.columns) == list(expected.columns)
    assert (again["record.tiny"] == [row.result["tiny"] for row in rows]).all()
    assert (again["case.number"] == [row.case.number for row in rows]).all()
    assert "robots" not in again.columns


def test_success_rates_are_counted_by_push_and_tables_have_units(tmp_path: Path) -> None:
    campaign = PushCampaign(trials=4, sizes=(0.2, 0.5), gaits=("trot",), plants=("embedded",), robot=("solo12",))
    cases = list(campaign.cases())
    small = min(case.push for case in cases)
    rows = [
        StoredCase(k, case, {"success": case.push == small or k % 4 == 1, "vx": 0.1}, 0.1, 0.0, "", "", "")
        for k, case in enumerate(cases)
    ]
    counts = count_by_field(campaign, rows)
    assert list(counts) == ["push"] and list(counts["push"].values()) == [(4, 4), (2, 4)]

    class FakeStore:
        def __init__(self) -> None:
            self.campaign = campaign

        def rows(self) -> list[StoredCase]:
            return rows

    write_csv(FakeStore(), tmp_path / "runs.csv")  # type: ignore[arg-type]
    header = (tmp_path / "runs.csv").read_text(encoding="utf-8").partition("\n")[0].strip().split(",")
    assert {"case.push [m/s]", "case.push_time [s]", "record.vx [m/s]", "record.success", "number"} <= set(header)


def test_unregistered_campaign_needs_the_campaign_option(tmp_path: Path) -> None:
    store, named = tmp_path / "runs.db", ("--campaign", "campaign_examples:Together")
    run(Together(6), store=store, cases=list(Together(6).cases())[:4])
    assert "4 of 6 cases" in call("campaign", "show", store, *named)
    assert json.loads(call("campaign", "resume", store, *named, "--workers", 0, "--json"))["ran"] == 2
    call("campaign", "export", store, *named, "--csv", tmp_path / "runs.csv")
    assert len((tmp_path / "runs.csv").read_text(encoding="utf-8").splitlines()) == 7
    for wrong, message in (
        ("nowhere_to_be_found:Together", "expected the form module:class.*the import failed.*PYTHONPATH"),
        ("campaign_examples:Gone", "the import failed"),
        (":", "the import failed"),
        ("campaign_examples:Throw", "expected a subclass of quaddyn.campaigns.Campaign"),
        ("campaign_examples:Throws", "contains results of campaign 'together', not of 'throws'"),
    ):
        raises(CampaignError, message, call, "campaign", "show", store, "--campaign", wrong)
    raises(ArgumentError, "--campaign: only accepted with a case", call, "replay", tmp_path / "tick.npz", *named)


@pytest.mark.parametrize("beside", [True, False])
def test_module_named_in_a_store_is_not_imported(beside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store names a module in the first folder of sys.path, or a class that can be imported."""
    store = tmp_path / "runs.db"
    run(Together(2), store=store)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "chosen.py").write_text("from pathlib import Path\nPath(__file__ + '.ran').touch()\n", encoding="utf-8")
    origin = "chosen:Together" if beside else "campaign_examples:Together"
    with contextlib.closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE origin SET kind = ?", (origin,))
    for words in (("campaign", "show"), ("campaign", "resume"), ("replay",)):
        with pytest.raises(
            StoreError, match=rf"runs.db: the campaign of the store is not registered .its class was {origin}.*together"
        ):
            call(*words, f"{store}#1" if words == ("replay",) else store)
    assert not (tmp_path / "chosen.py.ran").exists() and "chosen" not in sys.modules
    with contextlib.closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("DROP TABLE origin")  # the first stores had none
    raises(StoreError, "not registered: unknown campaign 'together'", Store.read, store)


def test_failures_are_grouped_and_errors_exit_with_1(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    words = ("campaign", "throws", "--trials", 9, "--what", "raise", "--every", 3, "--store", store, "--workers", 0)
    text = call(*words, code=1)
    assert "ValueError: throw … fails" in text
    assert "#3 #6 #9" in text
    told = json.loads(call("campaign", "show", store, "--json"))
    assert told["errors"] == {"ValueError: throw … fails": 3}
    call("campaign", "export", store, "--csv", tmp_path / "runs.csv")
    assert (tmp_path / "runs.csv").read_text(encoding="utf-8").count("ValueError: throw ") == 3


def test_options_of_every_type_are_parsed(tmp_path: Path) -> None:
    words = ("--needed", "x", "--sizes", "0.5,big", "--sizes", "2", "--names", "a, b", "--no-wide", "--label", "l")
    store = tmp_path / "runs.db"
    call("campaign", "options", *words, "--half", 0.5, "--store", store, "--workers", 0)
    with Store.read(store) as there:
        cases = [row.case for row in there.rows()]
        assert there.campaign.half == 0.5
    assert [case.size for case in cases] == [0.5, "big", 2.0]
    assert {(case.names, case.wide, case.label) for case in cases} == {(("a", "b"), False, "l")}
    assert json.loads(call("campaign", "options", "--needed", "y", "--workers", 0, "--json"))["total"] == 1
    call("campaign", "options", code=2)


def test_case_is_replayed_bit_for_bit_into_a_page(tmp_path: Path) -> None:
    store, page = tmp_path / "runs.db", tmp_path / "out.html"
    call("campaign", "shown", "--trials", 40, "--store", store, "--workers", 0)
    with Store.read(store) as there:
        failing = next(row.number for row in there.rows() if not row.result["success"])
    text = call("replay", f"{store}#{failing}", "--record", page)
    assert "too far" in text
    assert "same record" in text
    assert "too far" in page.read_text(encoding="utf-8")
    told = json.loads(call("replay", f"{store}#1", "--json"))
    assert told["identical"]
    assert told["case"]["number"] == 0
    with pytest.raises(CampaignError, match="#99: the case does not exist; the store contains 40"):
        runner.invoke(app, ["replay", f"{store}#99"], catch_exceptions=False)


def test_replay_reports_a_different_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "runs.db"
    call("campaign", "shown", "--trials", 2, "--store", store, "--workers", 0)

    def replay(self: Shown, case: Throw, viewer: Viewer) -> Record:
        viewer.show(viewer.robot.q_home)
        return {"success": False, "reason": "x"}

    monkeypatch.setattr("campaign_examples.Shown.replay", replay)
    told = json.loads(call("replay", f"{store}#1", "--json", code=1))
    assert (told["identical"], told["fate"], told["mismatch"]) == (False, "x", "")
    robot = tmp_path / "dog.urdf"
    robot.touch()
    monkeypatch.setattr("campaign_examples.Shown.robots", (str(robot), "go2"), raising=False)
    monkeypatch.setattr("campaign_examples.Shown.model_hash", lambda self: "0123456789")
    text = call("replay", f"{store}#1", "--record", tmp_path / "x.html", code=1)
    assert "of another robot model or other options (hash '" in text
    assert f"now '01234567'); robot file {robot}" in " ".join(text.split())


def test_incompatible_options_are_rejected(tmp_path: Path) -> None:
    for words, name in (
        (("campaign", "throws", "--workers", "2", "--dask", "local:1"), "--workers, --dask"),
        (("campaign", "throws", "--dask", "4"), "address"),
        (("campaign", "throws", "--dask", "local:none"), "local:N"),
        (("campaign", "export", str(tmp_path)), "--csv"),
        (("campaign", "options", "--needed", "x", "--half", "y"), ""),
    ):
        result = runner.invoke(app, list(words))
        assert result.exit_code != 0
        assert name in (str(result.exception) if isinstance(result.exception, ArgumentError) else result.output)


FIRST_WORKER = """
import signal
from quaddyn.campaigns.executors import process_pool
if __name__ == "__main__":
    with process_pool(1) as executor:
        print(signal.SIGINT in executor.submit(signal.pthread_sigmask, signal.SIG_BLOCK, ()).result())
"""


def test_first_worker_of_a_process_ignores_ctrl_c(tmp_path: Path) -> None:
    script = tmp_path / "first.py"
    script.write_text(FIRST_WORKER, encoding="utf-8")
    told = subprocess.run([sys.executable, str(script)], capture_output=True, encoding="utf-8", timeout=60, check=True)
    assert told.stdout == "True\n"


INTERRUPTED = """
import sys
sys.path.insert(0, {tests!r})
from quaddyn.campaigns import campaign
campaign.BUILT_IN_CAMPAIGNS["throws"] = "campaign_examples:Throws"
from quaddyn.cli import main
if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("workers", others_slow(["0", "2"], ["0"]))
def test_ctrl_c_stores_finished_cases_and_prints_how_to_continue(tmp_path: Path, workers: str) -> None:
    store, script = tmp_path / "runs.db", tmp_path / "go.py"
    script.write_text(INTERRUPTED.format(tests=str(TESTS)), encoding="utf-8")
    words = ["campaign", "throws", "--trials", "100000", "--seconds", "0.02", "--store", str(store)]
    process = subprocess.Popen(
        [sys.executable, str(script), *words, "--workers", workers],
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,  # Ctrl-C is sent to the whole process group, with the workers
    )
    try:
        wait_for(lambda: store.exists() and done(store) >= 3)
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    assert "continue with: quaddyn campaign resume" in told
    assert "Traceback" not in told
    kept = done(store)
    assert 3 <= kept < 100000
    assert f"interrupted: {kept} cases done" in told


def done(store: Path) -> int:
    try:
        with Store.read(store) as there:
            return len(there)
    except CampaignError:  # the store is being created
        return 0
