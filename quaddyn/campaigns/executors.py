"""`process_pool` and `dask_executor`: executors of this machine and of a Dask cluster, which replace dead workers."""

from __future__ import annotations

import concurrent.futures
import contextlib
import ipaddress
import logging
import multiprocessing
import os
import signal
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from .. import operating_system
from ..errors import ArgumentError, CampaignError
from ..extras import import_extra

#: Number of deaths of its workers after which a case is recorded as one that kills workers.
MAX_WORKER_DEATHS = 3


class WorkerDied(BrokenExecutor):
    """Exception of a call whose worker process died; another process replaces it."""


def count_worker_deaths(error: BaseException) -> int | None:
    """Returns the number of workers that died during a call, from its exception; None for other exceptions."""
    if isinstance(error, WorkerDied):
        return 1
    kind = type(error)
    if kind.__name__ == "KilledWorker" and kind.__module__.startswith("distributed"):
        return MAX_WORKER_DEATHS  # Dask has repeated the call so often already
    return None


T = TypeVar("T")
#: One thread of linear algebra per worker: the workers use all cores, and sums do not depend on the number of threads.
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")}
#: Maximum number of attempts to start a process that is killed during its start.
_MAX_START_ATTEMPTS = 100


class ProcessPool(Executor):
    """Executor of `count` spawned processes.

    Each process belongs to a thread, which sends it one call at a time.  When a process dies, only the call that it ran
    raises `WorkerDied`, and the next call gets a new process.  The processes end with this one, however it ends; an
    exception in the ``with`` block ends them during their calls.
    """

    def __init__(self, count: int) -> None:
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ArgumentError(f"count: expected a positive number of processes, got {count!r}")
        self.slots = count
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="campaign-worker")
        self._thread_local = threading.local()
        self._processes: weakref.WeakSet[_Process] = weakref.WeakSet()
        self._starting = threading.Lock()
        self._ended = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Calls a function in one of the processes and returns a future of its result.

        The function and its arguments are pickled.
        """
        return self._threads.submit(self._call, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Waits for the calls and ends the processes; without `wait` ends them during their calls."""
        if not wait:
            self._kill()
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        self._ended = True
        if wait:
            for process in list(self._processes):
                process.end()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._kill()
        self.shutdown(cancel_futures=kind is not None)

    def pids(self) -> list[int]:
        """Returns the ids of the present processes."""
        return [process.pid for process in list(self._processes) if process.alive]

    def _kill(self) -> None:
        """Kills all processes."""
        with self._starting:
            self._ended = True
            for process in list(self._processes):
                process.kill()

    def _call(self, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        """Runs a call in the process of the present thread, which is started if it does not exist."""
        process: _Process | None = getattr(self._thread_local, "process", None)
        if process is None or not process.alive:
            process = self._thread_local.process = self._start()
        ok, value = process.call(fn, args, kwargs)
        if ok:
            result: T = value
            return result
        raise value

    def _start(self) -> _Process:
        """Starts a process and waits until it is ready."""
        death: WorkerDied | None = None
        for _ in range(_MAX_START_ATTEMPTS):
            with self._starting:
                if self._ended:
                    raise CampaignError("the executor was shut down; create a new one")
                process = _Process()
                self._processes.add(process)
            try:
                process.call(os.getpid, (), {})
                return process
            except WorkerDied as error:
                death = error
                if not process.killed:
                    break
        raise CampaignError(
            f"no worker process can be started: {death}. A script that starts workers must do so inside the block if "
            '__name__ == "__main__":'
        )


class _Process:
    """One spawned process, connected by a pipe."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(other_end,), daemon=True)
        with _one_thread_each(), interrupts_blocked():
            self._process.start()
        other_end.close()  # the pipe then closes when the process dies
        self.pid = self._process.pid or 0

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.is_alive()

    @property
    def killed(self) -> bool:
        """Whether a signal ended the process."""
        return (self._process.exitcode or 0) < 0

    def call(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, Any]:
        """Runs a call; returns whether it returned, and the result or the exception."""
        try:
            self._pipe.send((fn, args, kwargs))
            reply: tuple[bool, Any] = self._pipe.recv()
            return reply
        except (EOFError, ConnectionError) as error:
            self._process.join()
            code = self._process.exitcode or 0
            ending = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            raise WorkerDied(f"the worker process ended with {ending}") from error

    def kill(self) -> None:
        """Kills the process."""
        self._process.kill()

    def end(self) -> None:
        """Ends the process by closing its pipe, and waits for its end."""
        self._pipe.close()
        self._process.join()
        self._process.close()


def _serve(pipe: Connection) -> None:
    """Serves calls until the other end of the pipe is closed."""
    while True:
        try:
            fn, args, kwargs = pipe.recv()
        except (EOFError, ConnectionError):
            return
        except Exception as error:  # cannot be unpickled here
            reply: tuple[bool, Any] = (False, CampaignError(f"{type(error).__name__}: {error}"))
        else:
            try:
                reply = (True, fn(*args, **kwargs))
            except BaseException as error:
                reply = (False, error)
        try:
            pipe.send(reply)
        except ConnectionError:
            return
        except Exception as error:
            pipe.send((False, CampaignError(f"the result cannot be pickled: {type(error).__name__}: {error}")))


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Context with the environment of processes that start inside: one thread of linear algebra each."""
    previous = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Context in which new processes and threads ignore Ctrl-C; only the client handles it, and ends them."""
    resource_tracker.ensure_running()  # its start unblocks interrupts, which would otherwise affect the first process
    with operating_system.interrupts_blocked():
        yield


def process_pool(count: int | None = None) -> ProcessPool:
    """Returns an executor of processes of this machine, for a ``with`` block.

    Args:
        count: number of processes; None: one per core.
    """
    return ProcessPool(count if count is not None else operating_system.usable_processors())


#: Interval at which the number of workers of a cluster, which may change, is read [s].
_REFRESH_INTERVAL = 2.0


class InsecureClusterWarning(UserWarning):
    """Warning of a scheduler on the network without TLS, whose port allows anyone to run programs as its user."""


class DaskExecutor(Executor):
    """Executor on the workers of a Dask client; made by `dask_executor`.

    Dask's scheduler distributes the calls, repeats those whose workers die, and reports when they die too often.

    Args:
        client: `distributed.Client` of the cluster.
        local: temporary `distributed.LocalCluster` that ends with the executor; None for an existing cluster.
    """

    def __init__(self, client: Any, local: Any = None) -> None:
        self.client, self.local = client, local
        self._count = 0 if local is None else len(local.workers)
        self._futures: weakref.WeakSet[Future[Any]] = weakref.WeakSet()
        self._last_refresh, self._slots = -_REFRESH_INTERVAL, 1

    @property
    def slots(self) -> int:
        """Number of calls that its workers run at a time at present."""
        if time.monotonic() > self._last_refresh + _REFRESH_INTERVAL:
            if self.local is not None:  # replaces workers that Dask removed because they did not restart in time
                self.local.scale(self._count)
            self._slots = max(1, sum(self.client.nthreads().values()))
            self._last_refresh = time.monotonic()
        return self._slots

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Calls a function on one of the workers and returns a future of its result.

        The function and its arguments are pickled.
        """
        dask_future = self.client.submit(fn, *args, **kwargs, pure=False)
        future: Future[T] = Future()
        future.add_done_callback(lambda done: dask_future.cancel() if done.cancelled() else None)
        self._futures.add(future)
        self.client.loop.add_callback(_forward_result, dask_future, future)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Disconnects from the cluster; a temporary one ends."""
        if wait and not cancel_futures:
            concurrent.futures.wait(list(self._futures))
        self.client.close()
        if self.local is not None:
            self.local.close()

    def __exit__(self, kind: object, *_: object) -> None:
        self.shutdown(cancel_futures=kind is not None)


async def _forward_result(dask_future: Any, future: Future[Any]) -> None:
    """Forwards the result of a Dask future to a standard one.

    `Client.get_executor` of Dask never completes the future if the connection breaks at certain times.
    """
    try:
        result, error = await dask_future, None
    except BaseException as raised:
        result, error = None, raised
    if not future.set_running_or_notify_cancel():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def dask_executor(address: str, *, security: Any = None, timeout: float = 30.0) -> DaskExecutor:
    """Returns an executor on a Dask cluster, for a ``with`` block.

    Args:
        address: address of a scheduler, such as "tcp://127.0.0.1:8786" or "tls://host:8786"; "local:4" starts one with
            four worker processes on the loopback interface of this machine, and ends it.
        security: `distributed.Security`, for "tls://"; None: none.
        timeout: longest response time of the scheduler [s].

    Raises:
        CampaignError: Dask is not installed, or no scheduler responds.
        ArgumentError: an invalid address.
    """
    distributed = _import_distributed()
    kind, _, rest = address.partition(":")
    if kind == "local":
        if not rest.isdecimal() or int(rest) < 1:
            raise ArgumentError(f"address: expected local:N with the number of workers N, got {address!r}")
        local = _start_local_cluster(int(rest))
        return DaskExecutor(distributed.Client(local, set_as_default=False), local)
    if not address.startswith(("tcp://", "tls://")):
        raise ArgumentError(f"address: expected tcp://HOST:PORT, tls://HOST:PORT or local:N, got {address!r}")
    _warn_if_exposed(address)
    try:
        with interrupts_blocked():
            client = distributed.Client(address, security=security, timeout=timeout, set_as_default=False)
    except Exception as error:  # such as an invalid reply, if the port is not that of a scheduler
        raise CampaignError(f"no Dask scheduler could be reached at {address}: {error}") from error
    return DaskExecutor(client)


def tls(
    ca: str | os.PathLike[str] | None, certificate: str | os.PathLike[str] | None, key: str | os.PathLike[str] | None
) -> Any:
    """Returns `distributed.Security` from certificate files, for "tls://"; None without files.

    Raises:
        CampaignError: Dask is not installed.
    """
    given = {"tls_ca_file": ca, "tls_client_cert": certificate, "tls_client_key": key}
    files = {name: os.fspath(path) for name, path in given.items() if path is not None}
    return _import_distributed().Security(require_encryption=True, **files) if files else None


def _import_distributed() -> Any:
    """Returns the module `distributed`, or raises an error if Dask is not installed."""
    return import_extra("distributed", "cluster", name="Dask", error=CampaignError)


def _start_local_cluster(count: int) -> Any:
    """Starts a cluster of worker processes on this machine and returns it."""
    import dask

    settings = {
        "distributed.scheduler.allowed-failures": MAX_WORKER_DEATHS - 1,
        # A worker has only the task that it runs, so that its death does not count for other tasks.
        "distributed.scheduler.worker-saturation": 1.0,
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
    }
    with dask.config.set(settings), interrupts_blocked():
        return _import_distributed().LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # without an address Dask uses port 8787
            worker_dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        )


def _warn_if_exposed(address: str) -> None:
    """Warns of a scheduler that other machines can reach without TLS."""
    if address.startswith("tls://"):
        return
    host = address.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if not loopback:
        warnings.warn(
            f"the scheduler {address} is neither on the loopback interface of this machine nor protected by TLS: "
            "anyone who can connect to it can run programs on its workers and send wrong results; keep the port "
            "private or use tls://",
            InsecureClusterWarning,
            stacklevel=3,
        )
