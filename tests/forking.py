"""Forks of this process whose children must finish within a time limit."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable

HUNG = 9


def fork(call: Callable[[], object], patience: float) -> int:
    """Calls a function in a child; returns its exit code, 0 for success, or `HUNG` after `patience` [s]."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns if there are threads
        child = os.fork()
    if child == 0:
        code = 1
        try:
            call()
            code = 0
        finally:
            os._exit(code)
    end = time.monotonic() + patience
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(1e-3)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return HUNG


def forks_beside_threads(call: Callable[[], object], count: int, pause: float, patience: float) -> list[int]:
    """Forks `count` children that call the function while three threads call it, too; returns their exit codes."""
    ending = threading.Event()

    def work() -> None:
        while not ending.is_set():
            call()

    threads, found = [threading.Thread(target=work, daemon=True) for _ in range(3)], list[int]()
    for thread in threads:
        thread.start()
    try:
        for _ in range(count):
            time.sleep(pause)
            found.append(fork(call, patience))
    finally:
        ending.set()
        for thread in threads:
            thread.join()
    return found


def make_controllers(count: int, pause: float, patience: float) -> list[int]:
    """Threads and children each create a controller and compute a torque, in a process without earlier controllers."""
    import numpy as np

    import quaddyn as qd

    robot = qd.load("go2")

    def make() -> None:
        state = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
        assert np.isfinite(qd.WholeBodyController(robot).compute(state).tau).all()

    return forks_beside_threads(make, count, pause, patience)


if __name__ == "__main__":
    print(*make_controllers(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])))
