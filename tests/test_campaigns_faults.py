"""Campaigns with killed workers, a killed client, cases that kill workers, a full disk and damaged stores."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from campaign_examples import Throw, Throws
from raising import raises
from slow_parameters import NIGHT, others_slow
from waiting import wait_for

from quaddyn import campaigns
from quaddyn.campaigns import DaskExecutor, Failure, Progress, Store, run
from quaddyn.campaigns.campaign import encode, encode_record
from quaddyn.campaigns.executors import ProcessPool, tls
from quaddyn.errors import CampaignError, StoreError

TESTS = Path(__file__).resolve().parent


def contents(store: str | Path) -> dict[str, str]:
    """Record or error text of each case."""
    with Store.read(store, Throws) as there:
        rows = list(there.rows())
    found = {encode(r.case): r.result.error if isinstance(r.result, Failure) else encode_record(r.result) for r in rows}
    assert len(found) == len(rows), "a case is there twice"
    return found


def records(campaign: Throws) -> dict[str, str]:
    """Records of a campaign without faults."""
    return {encode(case): encode_record(campaign.run(case)) for case in campaign.cases()}


@pytest.fixture(scope="module", params=["processes", "Dask"])
def executor(request: pytest.FixtureRequest) -> Iterator[ProcessPool | DaskExecutor]:
    with campaigns.process_pool(2) if request.param == "processes" else campaigns.dask_executor("local:2") as there:
        yield there


def pids(executor: ProcessPool | DaskExecutor) -> list[int]:
    """Process ids of the current workers."""
    if isinstance(executor, ProcessPool):
        return executor.pids()
    return [nanny.pid for nanny in executor.local.workers.values() if nanny.pid and nanny.is_alive()]


class Killer:
    """Progress callback that kills workers each time `every` more cases are done."""

    def __init__(self, executor: ProcessPool | DaskExecutor, *, every: int, times: int, how_many: int = 1) -> None:
        self.executor, self.every, self.left, self.how_many = executor, every, times, how_many
        self.killed = 0

    def __call__(self, progress: Progress) -> None:
        if not self.left or progress.done < self.every * (1 + self.killed // self.how_many):
            return
        self.left -= 1
        # Killed workers may not be replaced yet; reading `slots` lets the cluster replace them.
        assert wait_for(lambda: self.executor.slots > 0 and len(pids(self.executor)) >= self.how_many, 120.0)
        for pid in pids(self.executor)[: self.how_many]:
            os.kill(pid, signal.SIGKILL)
            self.killed += 1


@pytest.mark.parametrize(
    ("how_many", "times", "every", "cases"),
    others_slow([(1, 1, 10, 40), (2, 2, 10, 40), (1, 3, 8, 30), (1, 50, 8, 500)], [(1, 1, 10, 40)]),
)
def test_killed_workers_lose_and_duplicate_no_case(
    tmp_path: Path, executor: ProcessPool | DaskExecutor, how_many: int, times: int, every: int, cases: int
) -> None:
    campaign = Throws(cases, seconds=0.03)
    killer = Killer(executor, every=every, times=times, how_many=how_many)
    summary = run(campaign, executor, tmp_path / "runs.db", progress=killer)
    assert killer.killed == how_many * times
    assert (summary.ran, summary.tally.killed_workers) == (cases, 0)
    assert contents(tmp_path / "runs.db") == records(campaign)


@pytest.mark.parametrize("executor", others_slow(["processes", "Dask"], ["processes"]), indirect=True)
def test_batches_of_killed_workers_are_rerun_case_by_case(tmp_path: Path, executor: ProcessPool | DaskExecutor) -> None:
    campaign = Throws(12, what="die once", every=6, folder=str(tmp_path))
    summary = run(campaign, executor, tmp_path / "runs.db", batch=4)
    assert summary.tally.killed_workers == 0
    assert len(contents(tmp_path / "runs.db")) == 12


@pytest.mark.parametrize("executor", others_slow(["processes", "Dask"], ["processes"]), indirect=True)
def test_case_that_kills_workers_is_recorded_and_the_others_continue(
    tmp_path: Path, executor: ProcessPool | DaskExecutor
) -> None:
    campaign = Throws(10, what="die", every=10)
    summary = run(campaign, executor, tmp_path / "runs.db", batch=5 if isinstance(executor, ProcessPool) else 1)
    assert (summary.ran, summary.tally.killed_workers) == (10, 1)
    (row,) = [row for row in summary.rows if isinstance(row.result, Failure)]
    assert row.case.number == 9
    assert row.result.killed_workers
    assert row.result.error == "the worker process of this case died 3 times"
    there = contents(tmp_path / "runs.db")
    assert {k: v for k, v in there.items() if "died" not in v} == records(Throws(9))
    assert run(campaign, executor, tmp_path / "runs.db").ran == 0


def test_pool_that_cannot_replace_workers_ends_with_stored_results(tmp_path: Path) -> None:
    campaign = Throws(20, what="die", every=10)
    with (
        pytest.raises(CampaignError, match=r"cannot be replaced.*Finished results are stored"),
        ProcessPoolExecutor(1, get_context("spawn")) as pool,
    ):
        run(campaign, pool, tmp_path / "runs.db")
    assert 1 <= len(contents(tmp_path / "runs.db")) <= 9


UNGUARDED = """
from quaddyn import campaigns
with campaigns.process_pool(1) as executor:
    executor.submit(print).result()
"""


def test_script_without_main_guard_raises_an_explanatory_error(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED, encoding="utf-8")
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, encoding="utf-8", timeout=100)
    assert ended.returncode == 1
    assert "the worker process ended with exit code 1. A script that starts workers must do so inside" in ended.stderr


CLIENT = """
import os, sys
sys.path.insert(0, {tests!r})
from campaign_examples import Throws
from quaddyn import campaigns
if __name__ == "__main__":
    with {executor} as executor:
        executor.submit(os.getpid).result()
        print(*({pids}), flush=True)
        campaigns.run(Throws(10000, seconds=0.02), executor, {store!r})
"""


@pytest.mark.parametrize(
    ("executor_text", "pids_text"),
    [
        ("campaigns.process_pool(2)", "executor.pids()"),
        pytest.param(
            'campaigns.dask_executor("local:1")', "executor.client.run(os.getpid).values()", marks=pytest.mark.slow
        ),
    ],
)
def test_killed_client_leaves_a_usable_store_and_no_workers(tmp_path: Path, executor_text: str, pids_text: str) -> None:
    store, script = tmp_path / "runs.db", tmp_path / "client.py"
    script.write_text(
        CLIENT.format(tests=str(TESTS), executor=executor_text, pids=pids_text, store=str(store)), encoding="utf-8"
    )
    client = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, encoding="utf-8")
    assert client.stdout is not None
    workers = [int(word) for word in client.stdout.readline().split()]
    assert wait_for(lambda: committed(store) >= 10)
    client.kill()
    client.wait()
    client.stdout.close()
    assert wait_for(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in workers))
    done = committed(store)
    campaign = Throws(done + 5)
    summary = run(campaign, store=store)
    assert 0 < summary.ran <= 5 + 2  # results are stored in order of arrival
    assert records(campaign).items() <= contents(store).items()


def committed(store: Path) -> int:
    try:
        with Store.read(store, Throws) as there:
            return len(there)
    except CampaignError:
        return 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", folder], capture_output=True, encoding="utf-8"
    )
    if mounted.returncode:
        if os.environ.get("QUADDYN_REQUIRE_TOOLS") == "1" and os.geteuid() == 0:
            pytest.fail(f"mount: {mounted.stderr}")
        pytest.skip(f"no file system can be mounted here: {mounted.stderr}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_full_disk_ends_the_campaign_with_committed_results(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quaddyn.campaigns.store.COMMIT_INTERVAL", 0.0)  # commit every result before the disk is full
    store, campaign = small_disk / "runs.db", Throws(1500)
    with pytest.raises(StoreError, match=r"runs\.db: no space is left on the disk; committed results are stored"):
        run(campaign, store=store)
    there = contents(store)
    assert 0 < len(there) < 1500
    expected = records(campaign)
    assert there.items() <= expected.items()
    raises(StoreError, "no space is left", run, campaign, store=store)
    assert contents(store) == there
    roomy = tmp_path / "runs.db"
    for file in small_disk.iterdir():
        shutil.copy(file, roomy.parent / file.name)
    assert run(campaign, store=roomy).skipped == len(there)
    assert contents(roomy) == expected


def test_new_store_on_a_full_disk_raises_an_error(small_disk: Path) -> None:
    (small_disk / "other").write_bytes(bytes(256 * 1024 - 8192))
    raises(StoreError, "no space is left", run, Throws(3), store=small_disk / "runs.db")


def store_of_killed_client(folder: Path, campaign: Throws, commits: int) -> tuple[Path, Path]:
    """Store and journal as a killed client leaves them."""
    store = Store.open(folder / "live.db", campaign)
    cases = list(campaign.cases())
    step = len(cases) // commits
    for i in range(commits):
        run(campaign, store=store, cases=cases[i * step : (i + 1) * step])
    for name in ("live.db", "live.db-wal"):
        shutil.copy(folder / name, folder / name.replace("live", "torn"))
    store.close()
    return folder / "torn.db", folder / "torn.db-wal"


@pytest.mark.parametrize("fraction", [0.999, 0.9, 0.61, 0.5, 0.3])
def test_store_with_truncated_journal_keeps_earlier_commits(tmp_path: Path, fraction: float) -> None:
    campaign = Throws(200)
    store, journal = store_of_killed_client(tmp_path, campaign, 40)
    size = journal.stat().st_size
    os.truncate(journal, int(size * fraction))
    expected = records(campaign)
    kept = contents(store)
    assert len(kept) % 5 == 0  # whole commits
    assert len(kept) >= 200 * fraction - 40
    assert kept.items() <= expected.items()
    assert run(campaign, store=store).skipped == len(kept)
    assert contents(store) == expected


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.7, 1.0])
def test_truncated_or_overwritten_store_is_rejected_with_the_reason(tmp_path: Path, fraction: float) -> None:
    store = tmp_path / "runs.db"
    run(Throws(300), store=store)
    data = bytearray(store.read_bytes())
    if fraction == 1.0:
        data[3 * 4096 : 4 * 4096] = os.urandom(4096)
    store.write_bytes(data[: int(len(data) * fraction)])
    if fraction == 0.0:
        assert run(Throws(3), store=store).ran == 3  # an empty file is a new store
        return
    raises(StoreError, r"runs\.db.*damaged", run, Throws(300), store=store)
    with pytest.raises(StoreError, match=r"runs\.db.*damaged"), Store.read(store, Throws) as there:
        list(there.rows())


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT {} FROM n"
#: SQL that damages a store, and a pattern of the error message.
FOREIGN: dict[str, tuple[str, str]] = {
    "an endless view of the format": (
        f"DROP TABLE about; CREATE VIEW about AS {ENDLESS.format('max(x) AS format, x AS campaign')}",
        "not a store of a campaign",
    ),
    "an endless view of results": (
        f"DROP TABLE results; CREATE VIEW results AS {ENDLESS.format('x AS number')} WHERE x < 0",
        "another definition: 'results'",
    ),
    "a view of itself": (
        "DROP TABLE workers; CREATE VIEW workers AS SELECT * FROM workers",
        "another definition: 'workers'",
    ),
    "an endless column": (
        "DROP TABLE sessions; CREATE TABLE sessions (id INTEGER PRIMARY KEY, started REAL, package TEXT, model TEXT, "
        "options TEXT AS (printf('%.*c', 1000000000, 'x')))",
        "another definition: 'sessions'",
    ),
    "a trigger": (
        "CREATE TRIGGER t AFTER INSERT ON sessions BEGIN DELETE FROM results; END",
        "another definition: 't'",
    ),
    "no table": ("DROP TABLE results", "another definition: 'results'"),
    "no campaign": ("DELETE FROM about", "damaged"),
    "a format in words": ("UPDATE about SET format = 'one'", "damaged"),
    "a campaign of bytes": ("UPDATE about SET campaign = x'00ff'", "damaged"),
    "no options": ("DELETE FROM sessions", "damaged"),
    "options that are not an object": ("UPDATE sessions SET options = '[1, 2]'", "options: .*JSON object"),
    "options in prose": ("UPDATE sessions SET options = 'Dear reader'", "options: 'Dear reader' is not a Throws"),
    "options nested without end": (f"UPDATE sessions SET options = '{'[' * 100_000}'", "options: .* is not a Throws"),
    "options of another type": ('UPDATE sessions SET options = \'{"trials": "many"}\'', "trials: expected int"),
    "an option too many": ("UPDATE sessions SET options = '{\"x\": 1}'", "options: .* is not a Throws"),
    "a case in prose": ("UPDATE results SET \"case\" = 'no case'", "#1: 'no case' is not a Throw"),
    "a case of bytes": ("UPDATE results SET \"case\" = x'7b7d'", "#1: .* expected text, got bytes"),
    "a case of other types": ('UPDATE results SET "case" = \'{"number": [1]}\'', "#1: .*number: expected int"),
    "text that is not UTF-8": ("UPDATE results SET \"case\" = CAST(x'ff' AS TEXT)", "UTF-8"),
    "a record in prose": ("UPDATE results SET record = 'fine'", "#1: 'fine' is not a record"),
    "a record of lists": ("UPDATE results SET record = '{\"x\": [1]}'", r"#1: .*'x'\]: expected a number"),
    "a record that is a list": ("UPDATE results SET record = '[]'", "#1: .* is not a record"),
    "a record nested without end": (f"UPDATE results SET record = '{'[' * 100_000}'", "#1: .* is not a record"),
    "a number of digits without end": (
        f"UPDATE results SET record = '{{\"x\": {'9' * 5000}}}'",
        "#1: .* is not a record",
    ),
    "a record of bytes": ("UPDATE results SET record = x'7b7d'", "#1: the store is damaged: record has the type bytes"),
    "neither record nor error": ("UPDATE results SET record = NULL", "neither a record nor an error"),
    "a duration in words": (
        "UPDATE results SET seconds = 'long'",
        "#1: the store is damaged: seconds has the type str",
    ),
    "poison in words": ("UPDATE results SET poison = 'no'", "#1: the store is damaged: poison has the type str"),
    "a worker of bytes": ("UPDATE workers SET name = x'00'", "#1: the store is damaged: worker has the type bytes"),
    "a processor of bytes": ("UPDATE workers SET processor = x'00'", "damaged: the name of a processor"),
    "a model of bytes": ("UPDATE sessions SET model = x'00'", "#1: the store is damaged: model has the type bytes"),
}


@pytest.fixture(scope="module")
def small_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small") / "runs.db"
    run(Throws(3), store=path)
    return path


@pytest.mark.parametrize("what", FOREIGN)
def test_manipulated_store_is_rejected_with_the_reason(what: str, small_store: Path, tmp_path: Path) -> None:
    """The error names the file within seconds, and no SQL of the file is executed."""
    store, (script, said) = tmp_path / "runs.db", FOREIGN[what]
    shutil.copyfile(small_store, store)
    with contextlib.closing(sqlite3.connect(store)) as connection:
        connection.executescript(script)
    began = time.monotonic()
    with pytest.raises(StoreError, match=said) as caught, Store.read(store, Throws) as there:
        list(there.rows())
        there.processors()
    assert str(caught.value).startswith(str(store)) and len(str(caught.value)) < 1000
    assert time.monotonic() - began < 5.0


def test_store_with_random_bytes_is_read_or_rejected(small_store: Path, tmp_path: Path) -> None:
    store, data, rng = tmp_path / "runs.db", small_store.read_bytes(), random.Random(45)
    refused, draws = 0, 150 if NIGHT else 50
    for _ in range(draws):
        damaged = bytearray(data)
        for _ in range(rng.choice((1, 8, 64))):
            damaged[rng.randrange(len(data))] = rng.randrange(256)
        store.write_bytes(damaged)
        try:
            with Store.read(store, Throws) as there:
                rows = list(there.rows())
                there.processors()
            assert all(isinstance(row.case, Throw) for row in rows)
        except StoreError as error:
            refused += str(store) in str(error)
    assert draws // 8 < refused < draws


def test_worker_with_another_model_is_rejected(tmp_path: Path, executor: Executor) -> None:
    assert executor.submit(os.getpid).result() > 0
    campaign = Throws(3)
    with Store.open(tmp_path / "runs.db", campaign) as store:
        store._model = "another"
        raises(CampaignError, "has another robot model", run, campaign, executor, store)
        assert len(store) == 0


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for all members of a cluster, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    paths = folder / "cluster.pem", folder / "cluster.key"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=127.0.0.1".split()
    made = subprocess.run(
        ["openssl", *words, "-out", paths[0], "-keyout", paths[1]], capture_output=True, encoding="utf-8", timeout=60
    )
    assert made.returncode == 0, made.stderr
    return paths


@pytest.fixture
def scheduler(tmp_path: Path, certificate: tuple[Path, Path]) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Address and process of a scheduler that accepts only TLS, with one worker."""
    pem, key = map(str, certificate)
    where = str(tmp_path / "scheduler.json")
    shared = ["--scheduler-file", where, "--tls-ca-file", pem, "--tls-cert", pem, "--tls-key", key, "--no-dashboard"]
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), "OMP_NUM_THREADS": "1"}
    with contextlib.ExitStack() as stack:

        def start(*words: str) -> subprocess.Popen[bytes]:
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": settings}
            process = subprocess.Popen(
                [sys.executable, "-m", "distributed.cli." + words[0], *words[1:], *shared], **quiet
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        first = start("dask_scheduler", "--protocol", "tls", "--host", "127.0.0.1", "--port", "0")
        assert wait_for(lambda: Path(where).exists() and Path(where).read_text(encoding="utf-8").endswith("}"))
        start("dask_worker", "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1")
        yield json.loads(Path(where).read_text(encoding="utf-8"))["address"], first


@pytest.mark.slow
def test_killed_tls_scheduler_ends_the_campaign_with_stored_results(
    tmp_path: Path, scheduler: tuple[str, subprocess.Popen[bytes]], certificate: tuple[Path, Path]
) -> None:
    (address, process), (pem, key), store = scheduler, certificate, tmp_path / "runs.db"
    assert address.startswith("tls://127.0.0.1:")
    raises(CampaignError, "no Dask scheduler could be reached at tls://", campaigns.dask_executor, address, timeout=0.5)
    campaign = Throws(2000, seconds=0.01)

    def kill(progress: Progress) -> None:
        if progress.done >= 20 and process.poll() is None:
            process.kill()
            process.wait()

    with (
        pytest.raises(
            CampaignError, match=r"the connection to the executor's workers is lost.*Finished results are stored"
        ),
        campaigns.dask_executor(address, security=tls(pem, pem, key)) as executor,
    ):
        run(campaign, executor, store, progress=kill)
    kept = contents(store)
    assert 20 <= len(kept) < 2000
    shorter = Throws(len(kept) + 20, seconds=0.01)
    assert run(shorter, store=store).skipped >= len(kept) - 1
    assert records(shorter).items() <= contents(store).items()
