"""Processes that fork while other threads run: children do not deadlock on locks or unfinished imports."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from forking import fork

from quaddyn.compiler import machine

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
