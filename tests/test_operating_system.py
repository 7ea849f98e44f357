"""Calls that not every operating system has: their substitutes, simulated by removing the calls."""

from __future__ import annotations

import ast
import ctypes
import errno
import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from forking import fork
from raising import raises

from quaddyn import operating_system
from quaddyn.compiler import machine
from quaddyn.errors import FileAccessError
from quaddyn.safe_files import open_private_file

PACKAGE = Path(operating_system.__file__).parent

#: What `os` and `signal` have on Linux, and not on macOS or Windows.
MISSING_ON_MACOS = {
    "os": (
        "sched_getaffinity", "sched_setaffinity", "sched_getscheduler", "sched_setscheduler", "sched_getparam",
        "sched_param", "SCHED_FIFO", "posix_fallocate",
    ),
    "signal": (),
}  # fmt: skip
MISSING_ON_WINDOWS = {
    "os": (
        *MISSING_ON_MACOS["os"], "geteuid", "getuid", "killpg", "setsid", "pread", "pwrite", "register_at_fork", "fork",
        "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "getloadavg", "posix_spawn", "fchmod",
    ),
    "signal": ("pthread_sigmask", "SIGKILL", "SIGALRM", "SIGUSR1", "SIGHUP"),
}  # fmt: skip
SYSTEMS = {"macos": MISSING_ON_MACOS, "windows": MISSING_ON_WINDOWS}

#: Program that uses every part of the package which calls the operating system.
PROGRAM = """
import os, signal
for name in {os}:
    if hasattr(os, name):
        delattr(os, name)
for name in {signal}:
    delattr(signal, name)
import tempfile
from pathlib import Path
import numpy as np
import quaddyn as qd
import quaddyn.cli
from quaddyn.campaigns.executors import interrupts_blocked
from quaddyn.runtime import (
    ControlLoop, PlantInterface, RealTimeOptions, Recording, SharedMemory, WalkingController, load_recording,
)
from quaddyn.viewer.animation import RecordedPage

robot = qd.load("go2")
controller = WalkingController(robot)
interface = PlantInterface(qd.Simulation(robot, dt=2e-3))
with tempfile.TemporaryDirectory() as folder:
    recording = Recording(Path(folder) / "run.qdlog", robot, controller=controller, seconds=1.0)
    options = RealTimeOptions(priority=10, cpus=(0,), lock_memory=True)
    loop = ControlLoop(interface, controller, clock=interface, recorder=recording, real_time=options)
    with interrupts_blocked():
        report = loop.run(0.05)
    assert len(load_recording(Path(folder) / "run.qdlog")) == 25
    memory = SharedMemory(Path(folder) / "ring", robot.nu, 4, create=True)
    memory.close()
    qd.Simulation(robot).batch(8).step(np.zeros((8, robot.nu)))
    page = RecordedPage(Path(folder) / "page.html")
    page.write_text("<html></html>", encoding="utf-8")
    assert page.parent == Path(folder) and page._repr_html_()
print(report.fault, *report.real_time, sep="; ")
"""


@pytest.mark.parametrize("system", SYSTEMS)
def test_control_loops_logs_and_batches_work_without_the_calls_of_linux(system: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(**SYSTEMS[system])], capture_output=True, encoding="utf-8", timeout=120
    )
    assert run.returncode == 0, run.stderr
    assert "this system cannot restrict a process to processors" in run.stdout
    assert "this system has no SCHED_FIFO" in run.stdout


def test_only_one_module_uses_calls_that_some_systems_lack() -> None:
    names = {name for table in SYSTEMS.values() for names in table.values() for name in names}
    names |= {"PosixPath", "getppid", "CDLL", "start_new_session"}
    allowed = {
        "operating_system.py": names,
        "forks.py": {"register_at_fork"},  # behind hasattr
        "machine.py": {"register_at_fork"},  # behind hasattr
        "console.py": {"CDLL"},  # of NumPy's library, on every system
        "driver.py": {"CDLL"},  # of the GPU's driver, on every system
    }
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {node.attr}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in names - allowed.get(path.name, set())
    ]
    assert not found


@pytest.mark.parametrize("system", ["linux", "windows"])
def test_space_is_reserved_and_a_full_disk_is_an_error(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if system == "windows":
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        operating_system.reserve_space(file, 3_000_001)
        assert os.fstat(file).st_size == 3_000_001 and not any(operating_system.read_at(file, 10, 2_999_990))
        if system == "windows":
            monkeypatch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "no space")))
            raises(OSError, "no space", operating_system.reserve_space, file, 10)
    finally:
        os.close(file)


def test_symbolic_links_are_rejected_without_o_nofollow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_NOFOLLOW", raising=False)
    (tmp_path / "file").touch(mode=0o600)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.close(open_private_file(tmp_path / "file"))
    raises(FileAccessError, "symbolic link", open_private_file, tmp_path / "link")


def test_modes_are_ignored_where_users_have_no_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows reports mode 0o777 for every folder."""
    tmp_path.chmod(0o777)
    assert operating_system.is_writable_by_others(tmp_path.stat())
    monkeypatch.delattr(os, "geteuid", raising=False)
    assert not operating_system.is_writable_by_others(tmp_path.stat())


@pytest.mark.parametrize("has_groups", [True, False])
def test_a_process_is_ended_with_its_children(has_groups: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_groups:
        monkeypatch.delattr(os, "killpg", raising=False)
    child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    code = (
        f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); print(1); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code if has_groups else "print(1); import time; time.sleep(60)"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stdout.readline()
    operating_system.end_with_children(process, 2.0)
    assert process.returncode is not None
    if has_groups:
        deadline = time.monotonic() + 10.0
        while time.monotonic() < deadline:
            try:
                os.killpg(process.pid, 0)
            except ProcessLookupError:
                break
            time.sleep(0.02)
        else:
            pytest.fail("a child is still running")
    process.stdout.close()


def test_real_time_options_raise_errors_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoLock:
        @staticmethod
        def mlockall(_: int) -> int:
            ctypes.set_errno(errno.EPERM)
            return -1

    monkeypatch.setattr(operating_system, "c_library", NoLock)
    with pytest.raises(OSError) as error:
        operating_system.lock_memory()
    assert operating_system.describe_os_error(error.value) == "operation not permitted"
    monkeypatch.setattr(operating_system, "c_library", lambda: None)
    raises(OSError, "has no mlockall", operating_system.lock_memory)
    with pytest.raises(OSError):
        operating_system.set_affinity((10**6,))


def test_interrupts_are_blocked_and_restored() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with operating_system.interrupts_blocked():
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


# -- processes that fork while other threads run ----------------------------------------------------------------------
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@pytest.mark.parametrize("kind", ["ours", "llvmlite's"])
def test_child_can_compile_while_a_thread_holds_the_compiler_lock(kind: str) -> None:
    ffi = pytest.importorskip("llvmlite.binding.ffi")

    lock, inside = machine.lock if kind == "ours" else ffi.lib._lock._lock, threading.Event()

    def work() -> None:
        with lock:
            inside.set()
            time.sleep(0.1)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(60.0)

    def take() -> None:
        assert lock.acquire(timeout=10.0)
        lock.release()

    try:
        assert fork(take, 60.0) == 0
    finally:
        thread.join()
    take()  # the parent can acquire the lock, too


def test_child_can_import_a_module_that_a_thread_is_importing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_to_come.py").write_text("import time\ntime.sleep(0.2)\nhere = True\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    thread = threading.Thread(target=importlib.import_module, args=("slow_to_come",))
    thread.start()
    while "slow_to_come" not in sys.modules:
        time.sleep(1e-3)
    try:
        assert fork(lambda: importlib.import_module("slow_to_come").here, 20.0) == 0
    finally:
        thread.join()
        sys.modules.pop("slow_to_come", None)


def test_fork_during_an_import_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "forking_at_once.py").write_text("from forking import fork\ncode = fork(int, 60.0)\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    start = time.monotonic()
    try:
        assert importlib.import_module("forking_at_once").code == 0
    finally:
        sys.modules.pop("forking_at_once", None)
    assert time.monotonic() - start < 5.0


@pytest.mark.slow
def test_children_and_threads_create_controllers_concurrently() -> None:
    """Three new processes with cached machine code; benchmarks/under_fire.py runs more."""
    for _ in range(3):
        program = Path(__file__).with_name("forking.py")
        done = subprocess.run(
            [sys.executable, str(program), "10", "0.05", "120"], capture_output=True, encoding="utf-8", check=True
        )
        assert done.stdout.split() == ["0"] * 10
