"""Options that commands pass on and results that they print, with fakes in place of the functions that they call."""

from __future__ import annotations

import json
import math
import shutil
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from test_printed import agreement, demo_report
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn.campaigns.datasheet import QUICK
from quaddyn.cli import app, campaigning, logs, showing
from quaddyn.cli import console as cli_console
from quaddyn.demo import RequestedValue
from quaddyn.robot.catalogue import find_entry

ROBOT = "two_link_leg"


def run_command(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(map(str, words)), env={"COLUMNS": "150"})
    assert result.exit_code == code, result.output
    return result.stdout


def error_of(*words: object) -> str:
    result = CliRunner().invoke(app, list(map(str, words)))
    assert isinstance(result.exception, qd.QuaddynError), result.output
    return str(result.exception)


class FakeViewer:
    """Viewer that records its calls."""

    made: ClassVar[list[FakeViewer]] = []

    def __init__(self, robot: Any, **options: Any) -> None:
        self.robot, self.options, self.calls = robot, options, []
        self.missing_meshes, self.url, self.view_url = ("a [mesh]",), "http://here/", "http://there/"
        FakeViewer.made.append(self)

    def __enter__(self) -> FakeViewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.calls.append("closed")

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **options: self.calls.append((name, arguments, options))


@pytest.fixture
def viewer(monkeypatch: pytest.MonkeyPatch) -> list[FakeViewer]:
    """The viewers that were created; waiting for an interrupt returns at once."""
    FakeViewer.made = []
    monkeypatch.setattr("quaddyn.viewer.Viewer", FakeViewer)
    monkeypatch.setattr("quaddyn.viewer.JointSliders", lambda viewer: SimpleNamespace(update="update"))

    def wait(meanwhile: Any = None) -> None:
        FakeViewer.made[-1].calls.append(("waits", meanwhile))

    for module in (showing, logs, campaigning):
        monkeypatch.setattr(module, "wait_for_interrupt", wait)
    return FakeViewer.made


def set_terminal(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    for module in (showing, campaigning):
        monkeypatch.setattr(module, "is_terminal", lambda stream: there)


# -- view, leg, demo -----------------------------------------------------------------------------------------------
def test_view_shows_a_robot_live_or_writes_a_page(viewer: list[FakeViewer], tmp_path: Path) -> None:
    text = run_command("view", ROBOT, "--port", "1234", "--host", "0.0.0.0")
    (live,) = viewer
    assert live.options == {"open_browser": True, "port": 1234, "host": "0.0.0.0"}
    assert "two_link_leg at http://here/; press Ctrl-C to quit" in text
    (name, (q,), options), waits, closed = live.calls
    assert (name, options, waits, closed) == ("show", {"show_com": True}, ("waits", "update"), "closed")
    np.testing.assert_array_equal(q, live.robot.q_home)
    page = tmp_path / "page.html"
    assert run_command("view", ROBOT, "--frames", "--root", "fixed", "--record", page) == f"wrote {page}\n"
    written = viewer[1]
    assert written.options == {"open_browser": False, "port": 0, "host": "127.0.0.1"} and written.robot.root == "fixed"
    frames, _, record, _ = written.calls
    assert frames == ("show_frames", ((written.robot.tree.root.name, *written.robot.feet),), {})
    assert record == ("record", (page,), {})


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Recorded calls of the functions that the demo runs."""
    asked: list[Any] = []

    def job(name: str) -> Any:
        def do(robot: Any, *, progress: Any, on_start: Any = None, **options: Any) -> Any:
            if on_start is not None:
                on_start((RequestedValue("yaw rate", 9.0, 1.0, "rad/s", "reach of FL"),))
            asked.append((name, options))
            progress(1.0)
            return demo_report(robot=robot.name)

        return do

    for name in ("run_locomotion_demo", "run_squat_demo"):
        monkeypatch.setattr(f"quaddyn.demo.{name}", job(name))
    monkeypatch.setattr(
        "quaddyn.verification.cross_check", lambda robot, **o: asked.append(("check", o)) or agreement()
    )
    return asked


def test_demo_prints_reduced_requests_before_the_robot(demo: list[Any]) -> None:
    first, second, *_ = run_command("demo", "--robot", "small_quadruped", "--headless").splitlines()
    assert first == "yaw rate [rad/s]: 1.000 of 9.000 requested, limited by: reach of FL"
    assert second.startswith("Robot('")


def test_demo_passes_its_options_on(
    demo: list[Any], viewer: list[FakeViewer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    set_terminal(monkeypatch, False)
    run_command("demo", "--robot", "small_quadruped", "--headless", "--json")
    (name, options), (_, checked) = demo
    assert (name, viewer) == ("run_locomotion_demo", [])
    assert options == {
        "gait": "trot", "plant": "embedded", "velocity": None, "pushes": [], "jump": None, "terrain": None,
        "blind": False, "duration": 8.0, "viewer": None, "realtime": False, "teleop": False, "record": None,
        "plot": None,
    }  # fmt: skip
    checked.pop("progress")
    assert checked == {"samples": 3, "n_derivative_samples": 0}
    demo.clear()
    page = tmp_path / "page.html"
    text = run_command("demo", "--robot", "small_quadruped", "--gait", "walk", "--velocity", "0.1,-0.2,0.3",
                       "--push", "8@1", "--push=-5@2.5", "--terrain", "slope=5", "--blind", "--teleop",
                       "--port", "77", "--record", page)  # fmt: skip
    options = demo[0][1]
    assert viewer[0].options == {"open_browser": False, "port": 77, "host": "127.0.0.1"}
    assert options.pop("viewer") is viewer[0]
    pushes = [(push.force, push.time) if hasattr(push, "force") else tuple(push)[:2] for push in options.pop("pushes")]
    assert sorted(pushes) in ([(-5.0, 2.5), (8.0, 1.0)], [(1.0, 8.0), (2.5, -5.0)])
    assert options == {
        "gait": "walk", "plant": "embedded", "velocity": [0.1, -0.2, 0.3], "jump": None, "terrain": "slope=5",
        "blind": True, "duration": 3600.0, "realtime": True, "teleop": True, "record": page, "plot": None,
    }  # fmt: skip
    assert "live view: http://here/" in text and f"wrote {page}" in text and "the view stays open" not in text
    demo.clear()
    set_terminal(monkeypatch, True)
    text = run_command("demo", "--robot", "small_quadruped", "--gait", "squat", "--seconds", "1.5")
    options = demo[0][1]
    assert options.pop("viewer") is viewer[1] and demo[0][0] == "run_squat_demo"
    assert options == {"duration": 1.5, "realtime": True, "record": None, "plot": None}
    assert viewer[1].options["open_browser"] is True and "the view stays open until Ctrl-C" in text
    assert ("waits", None) in viewer[1].calls
    demo.clear()
    run_command("demo", "--robot", "small_quadruped", "--teleop")
    assert ("waits", None) not in viewer[2].calls


@pytest.mark.parametrize(
    "wrong",
    [
        *(("--gait", gait) for gait in ("waltz", "swing", "Squat")),
        *(("--velocity", velocity) for velocity in ("1", "nan,0,0")),
        *(("--terrain", "hills=1"), ("--push", "8@99")),
    ],
)
def test_demo_rejects_invalid_options_before_it_prints(wrong: tuple[str, str]) -> None:
    found = CliRunner().invoke(app, ["demo", "--robot", "small_quadruped", "--headless", *wrong])
    assert isinstance(found.exception, qd.QuaddynError) and found.stdout == ""


def test_demo_swings_the_joints_of_a_robot_that_cannot_walk(demo: list[Any]) -> None:
    run_command("demo", "--robot", ROBOT, "--headless", "--json")
    assert demo[0][0] == "run_squat_demo" and demo[0][1]["realtime"] is False
    said = error_of("demo", "--robot", ROBOT, "--headless", "--gait", "squat")
    assert said == "--gait: expected swing for two_link_leg with root='fixed', got squat"
    together = (
        "--velocity, --terrain, --push, --jump, --teleop, --plant: accepted only for locomotion of a quadruped; "
        "remove these options, or pass --gait with a gait of locomotion"
    )
    for words in (
        ("--velocity", "0,0,0"),
        ("--terrain", "slope=1"),
        ("--push", "8@1"),
        ("--jump", "0.1"),
        ("--teleop",),
        ("--plant", "mujoco"),
    ):
        assert error_of("demo", "--robot", ROBOT, *words) == together
    headless = "--teleop: requires the live viewer page, which receives the keys; remove --headless"
    assert error_of("demo", "--robot", "small_quadruped", "--headless", "--teleop") == headless
    for wrong in ("1,2", "1,2,3,4", "1,2,x", "1,2,inf", ""):
        expected = f"--velocity: expected 3 finite numbers, separated by commas; got {wrong!r}"
        assert error_of("demo", "--robot", "small_quadruped", "--headless", "--velocity", wrong) == expected


def test_demo_renders_video_and_reports_an_interrupt(
    demo: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    filmed: list[Any] = []
    monkeypatch.setattr("quaddyn.viewer.check_video", lambda path: filmed.append(path))

    def render_video(page: Path, video: Path, *, progress: Any) -> None:
        filmed.append((page, video, page.parent.is_dir()))

    monkeypatch.setattr("quaddyn.viewer.render_video", render_video)
    video = tmp_path / "walk.mp4"
    text = run_command("demo", "--robot", "small_quadruped", "--headless", "--video", video)
    page = demo[0][1]["record"]
    assert filmed == [video, (page, video, True)] and not page.parent.exists() and f"wrote {video}" in text
    own = tmp_path / "own.html"
    run_command("demo", "--robot", "small_quadruped", "--headless", "--video", video, "--record", own)
    assert filmed[-1] == (own, video, True)
    monkeypatch.setattr("quaddyn.demo.run_locomotion_demo", lambda robot, **o: demo_report(interrupted=True))
    assert CliRunner().invoke(app, ["demo", "--robot", "small_quadruped", "--headless"]).exit_code == -130


# -- replay and logs -----------------------------------------------------------------------------------------------
def solved(**changes: Any) -> Any:
    status = SimpleNamespace(outcome="solved", violation=0.0, kkt=1e-9)
    command = SimpleNamespace(
        status=status, tau=np.array([1.0, -2.0]), forces={"FL": np.array([1.0, 2.0, 3.0])},
        explain=lambda include_last_level=False, max_lines=5: f"explained last={include_last_level}\nlines={max_lines}",
    )  # fmt: skip
    record = SimpleNamespace(
        robot="dog", tick=3, joints=("a", "b"), is_same_version=True, contact_activations={"FL": 1.0}
    )
    given = {"record": record, "command": command, "identical": True, "difference": 0.0, "equal_to_rounding": True}
    return SimpleNamespace(**given | changes)


def test_saved_tick_is_replayed_and_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again = solved()
    monkeypatch.setattr("quaddyn.wbc.replay", lambda file: again)
    text = run_command("replay", "tick.npz")
    assert "explained last=False\nlines=5" in text and text.endswith("solution: identical to the saved one\n")
    assert "last=True" in run_command("replay", "tick.npz", "--include-last-level")
    again = solved(identical=False, difference=1.23456e-13)
    again.record.is_same_version = False
    end = "solution: differs by 1.23e-13 N m; it was saved by another version of the package\n"
    assert run_command("replay", "tick.npz").endswith(end)
    again.equal_to_rounding = False
    assert run_command("replay", "tick.npz", code=1).endswith(end)
    again.command.status.kkt = math.inf
    assert json.loads(run_command("replay", "tick.npz", "--json", "--include-last-level", code=1)) == {
        "robot": "dog", "tick": 3, "identical": False, "rounding": False, "difference": 1.23456e-13, "same_code": False,
        "outcome": "solved", "violation": 0.0, "kkt": None, "tau": {"a": 1.0, "b": -2.0},
        "forces": {"FL": [1.0, 2.0, 3.0]},
        "explanation": ["explained last=True", "lines=None"],
    }  # fmt: skip
    assert json.loads(run_command("replay", "t#x", "--json", code=1))["tick"] == 3
    assert error_of("replay", "tick.npz", "--record", tmp_path / "x.html").startswith(
        "--record: only accepted with a case of a"
    )
    (tmp_path / "odd#1").touch()
    assert json.loads(run_command("replay", tmp_path / "odd#1", "--json", code=1))["tick"] == 3


class FakeLog(SimpleNamespace):
    def __len__(self) -> int:
        return len(self.stages)

    def __str__(self) -> str:
        return "dog, some ticks"


def recording(ticks: int = 10, dt: float = 0.01) -> FakeLog:
    stages = [SimpleNamespace(value="rise" if i < 4 else "run") for i in range(ticks)]
    robot = SimpleNamespace(nq=1)
    return FakeLog(
        name="dog", metadata={"dt": dt, "robot": "<robot/>", "feet": ["FL", "FR"]}, stages=stages,
        statuses=("solved",), faults=(), robot=lambda *a, **k: robot, state=lambda i, machine: (float(i), -float(i)),
        records={
            "begun": 5.0 + dt * np.arange(ticks),
            "status": np.array([b"solved"] * ticks),
            "reason": np.array([b""] * (ticks - 1) + [b"fell"]),
            "torque": np.array([[np.nan, np.nan] if i < 4 else [-float(i), 1.0] for i in range(ticks)]),
            "foot_forces": np.array([[np.nan, np.nan] if i < 4 else [float(i), 2.0] for i in range(ticks)]),
        },
        commanded_torques=np.array([[float(i), np.nan] for i in range(ticks)]),
    )  # fmt: skip


def test_recording_is_played_in_the_viewer(
    viewer: list[FakeViewer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = recording()
    monkeypatch.setattr("quaddyn.runtime.load_log", lambda file: log)
    (tmp_path / "run").touch()
    page = tmp_path / "page.html"
    assert run_command("log", "view", tmp_path / "run", "--record", page).endswith(f"wrote {page}\n")
    first, *rest, record, closed = viewer[0].calls
    assert viewer[0].options == {"open_browser": False, "fps": 30.0, "port": 0, "host": "127.0.0.1"}
    assert [call[1][0] for call in (first, *rest)] == [0.0, 3.0, 6.0, 9.0], "thirty frames per second"
    assert first[2]["caption"] == "rise | solved" and rest[-1][2]["caption"] == "run | solved | fell"
    assert (first[2]["time"], first[2]["v"]) == (0.0, 0.0) and rest[0][2]["time"] == pytest.approx(0.03)
    assert rest[0][2]["tau"].tolist() == [3.0, 0.0] and rest[0][2]["forces"] is None, "commanded where not measured"
    assert rest[1][2]["tau"].tolist() == [-6.0, 1.0] and rest[1][2]["forces"]["FL"].tolist() == [0.0, 0.0, 6.0]
    assert record == ("record", (page,), {"title": "dog, run"}) and closed == "closed"
    log = recording(2, 0.1)
    assert "dog at http://here/; press Ctrl-C to quit" in run_command("log", "view", tmp_path / "run", "--port", "5")
    assert viewer[1].options == {"open_browser": True, "fps": 30.0, "port": 5, "host": "127.0.0.1"}
    ((_, go_on), _) = viewer[1].calls
    viewer[1].calls.clear()
    for _ in range(3):
        go_on()
    assert [name for name, *_ in viewer[1].calls] == [
        "wait_while_paused",
        "clear_recording",
        "show",
        "wait_while_paused",
        "show",
        "wait_while_paused",
        "clear_recording",
        "show",
    ]
    log = recording(0)
    assert error_of("log", "view", tmp_path / "run") == f"{tmp_path / 'run'}: the log contains no ticks"


def test_recordings_are_printed_compared_and_replayed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log = recording()
    for name in ("load_recording", "load_log"):
        monkeypatch.setattr(f"quaddyn.runtime.{name}", lambda file: log)
    file = tmp_path / "run"
    file.touch()
    assert run_command("log", "show", file) == "dog, some ticks\n"
    assert json.loads(run_command("log", "show", file, "--json")) == {
        "dt": 0.01, "feet": ["FL", "FR"], "robot": "dog", "ticks": 10, "stages": {"rise": 4, "run": 6},
        "statuses": ["solved"], "faults": [],
    }  # fmt: skip
    plotted: list[Path] = []
    log.plot = plotted.append
    log.to_csv = log.to_parquet = lambda to: f"{to}!"
    log.to_mcap = lambda to, encoding: f"{to} in {encoding}"
    monkeypatch.chdir(tmp_path)
    assert run_command("log", "plot", file) == "wrote log.png\n" and plotted == [Path("log.png")]
    assert run_command("log", "csv", file) == "wrote log.csv!\n"
    assert run_command("log", "parquet", file, "--out", "x.parquet") == "wrote x.parquet!\n"
    assert run_command("log", "mcap", file) == "wrote log.mcap in ros2\n"
    assert run_command("log", "mcap", file, "--encoding", "json") == "wrote log.mcap in json\n"
    log.compare = lambda other: {"position": 0.0, "a": 0.0}
    assert run_command("log", "compare", file, file) == f"{'position':<24} 0\n{'a':<24} 0\n"
    log.compare = lambda other: {"position": 0.0, "a": 1.23456e-7}
    assert run_command("log", "compare", file, file, code=1).splitlines()[1] == f"{'a':<24} 1.23e-07"
    assert json.loads(run_command("log", "compare", file, file, "--json", code=1)) == {"position": 0.0, "a": 1.23456e-7}
    log.replay = lambda: SimpleNamespace(
        ticks=7, n_different=0, max_difference=0.0, first_different=None, identical=True
    )
    assert run_command("log", "replay", file) == "7 ticks computed again: all identical\n"
    log.replay = lambda: SimpleNamespace(
        ticks=7, n_different=2, max_difference=0.012345, first_different=4, identical=False
    )
    said = "7 ticks computed again: 2 of them differ, from tick 4, torques by up to 0.0123 N m\n"
    assert run_command("log", "replay", file, code=1) == said
    assert json.loads(run_command("log", "replay", file, "--json", code=1)) == {
        "ticks": 7, "differing": 2, "largest": 0.012345, "first": 4, "identical": False,
    }  # fmt: skip


# -- campaigns and data sheets -------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("default")
def test_options_select_the_executor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made: list[Any] = []

    class Pool:
        def __init__(self, name: str) -> None:
            made.append(name)

        def __enter__(self) -> None:
            made.append("begun")

        def __exit__(self, *_: object) -> None:
            made.append("ended")

    def cluster(address: str, *, security: Any) -> Any:
        warnings.warn("open to [all]", UserWarning, stacklevel=2)
        return Pool(f"{address} {security}")

    monkeypatch.setattr("quaddyn.campaigns.process_pool", lambda count: Pool(f"workers {count}"))
    monkeypatch.setattr("quaddyn.campaigns.dask_executor", cluster)
    for workers, dask in ((0, None), (3, None), (None, None), (None, "tcp://x")):
        with campaigning.open_executor(workers, dask, "tls") as found:
            assert (found is None) is (workers == 0)
    names = ("workers 3", "workers None", "tcp://x tls")
    assert made == [word for name in names for word in (name, "begun", "ended")]
    assert capsys.readouterr().err == "warning: open to [all]\n"


def test_datasheet_passes_its_options_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []

    def measure(campaign: Any, pool: Any, store: str, *, progress: Any) -> Any:
        progress(SimpleNamespace(found=1, total=2, trials=3))
        asked.append((campaign, pool, store))
        return SimpleNamespace(trials=12345, seconds=6789.4)

    monkeypatch.setattr("quaddyn.campaigns.datasheet.measure", measure)
    monkeypatch.setattr("quaddyn.campaigns.sheet_page.page", lambda sheet: "the page \u00b0")
    monkeypatch.chdir(tmp_path)
    said = "wrote go2.html: 12,345 trials, 6,789 s of CPU time; trials stored in go2.db\n"
    assert run_command("datasheet", "go2", "--workers", "0") == said
    campaign, pool, store = asked.pop()
    assert (campaign.robot, campaign.plant, campaign.seed, campaign.bounds) == (("go2",), "embedded", 0, ())
    assert (pool, store) == (None, "go2.db") and campaign.probability == 0.95
    assert (tmp_path / "go2.html").read_text(encoding="utf-8") == "the page \u00b0"
    (tmp_path / "a/b").mkdir(parents=True)
    shutil.copy(find_entry("small_quadruped").path, tmp_path / "a/b/dog.urdf")
    run_command("datasheet", "a/b/dog.urdf", "--compare", "go2", "--compare", "a1", "--quick", "--only", "push",
         "--only", "step",
         "--plant", "mujoco", "--seed", "4", "--workers", "0", "--store", "my.db")  # fmt: skip
    campaign, _, store = asked.pop()
    assert campaign.robot == ("a/b/dog.urdf", "go2", "a1") and campaign.bounds == ("push", "step")
    assert (campaign.plant, campaign.seed, store) == ("mujoco", 4, "my.db") and (tmp_path / "dog.html").exists()
    assert {name: getattr(campaign, name) for name in QUICK} == QUICK
    run_command("datasheet", "go2", "--workers", "0", "--out", "sheet.htm")
    assert asked.pop()[2] == "sheet.db" and (tmp_path / "sheet.htm").exists()
    for words, directions, probability in (((), 6, 0.95), (("--quick",), 6, QUICK["probability"])):
        run_command("datasheet", "go2", "--workers", "0", "--directions", "6", *words)
        campaign = asked.pop()[0]
        assert (campaign.directions, campaign.probability) == (directions, probability)


def test_results_go_to_stdout_and_progress_to_stderr() -> None:
    assert cli_console.err.stderr and not cli_console.out.stderr
    assert not cli_console.err._emoji and not cli_console.out._emoji
