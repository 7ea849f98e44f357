"""`dask_executor`: executor on a Dask cluster, an existing one or a temporary one on this machine."""

from __future__ import annotations

import concurrent.futures
import ipaddress
import logging
import os
import time
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from types import TracebackType
from typing import Any, TypeVar

from ..errors import ArgumentError, CampaignError
from .worker_failures import MAX_WORKER_DEATHS
from .worker_processes import interrupts_blocked

T = TypeVar("T")
_REFRESH_INTERVAL = 2.0  # [s] the number of workers may change


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
    try:
        import distributed
    except ImportError as error:
        raise CampaignError(
            'Dask, which is required for clusters, is not installed; install it with: pip install "quaddyn[cluster]"'
        ) from error
    return distributed


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
