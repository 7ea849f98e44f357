"""Output of the command line: results on stdout, progress and errors on stderr."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NoReturn, Protocol, TextIO, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

T = TypeVar("T")


class ProgressLike(Protocol):
    """Progress of many cases, such as `quaddyn.campaigns.Progress`."""

    @property
    def done(self) -> int: ...  # noqa: D102
    @property
    def total(self) -> int | None: ...  # noqa: D102
    @property
    def rate(self) -> float: ...  # noqa: D102
    @property
    def remaining(self) -> float | None: ...  # noqa: D102


# No emoji: ":100:" is a line of a file.
out, err = Console(emoji=False), Console(stderr=True, emoji=False)


def say(text: str) -> None:
    """Prints text without interpreting markup in names of robots and files."""
    out.print(text, markup=False, highlight=False, soft_wrap=True)


def progress(items: list[T], title: str) -> Iterator[T]:
    """Yields the items with a progress bar on stderr."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, console=err, transient=True) as display:
        yield from display.track(items, description=title)


@contextmanager
def bar(title: str, *, quiet: bool) -> Iterator[Callable[[float], None]]:
    """Progress bar on stderr; yields the function that takes the fraction done.

    The bar appears with the first call, so that other messages can be printed before.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    display = Progress(*columns, console=err, transient=True, disable=quiet)
    task = display.add_task(title, total=1.0)

    def tick(share: float) -> None:
        display.start()
        display.update(task, completed=share)

    try:
        yield tick
    finally:
        display.stop()


@contextmanager
def count(title: str, *, quiet: bool) -> Iterator[Callable[[ProgressLike], None]]:
    """Display of finished cases on stderr, with rate and remaining time; yields the function that updates it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.fields[of]}, {task.fields[rate]}, {task.fields[left]}"),
    )
    display = Progress(*columns, console=err, transient=True, disable=quiet)
    task = display.add_task(title, total=None, of="?", rate="", left="")

    def tell(now: ProgressLike) -> None:
        display.start()
        left = "" if now.remaining is None else f"{timedelta(seconds=round(now.remaining))} left"
        of = "?" if now.total is None else f"{now.total:,}"
        display.update(task, completed=now.done, total=now.total, of=of, rate=f"{now.rate:.3g}/s", left=left)

    try:
        yield tell
    finally:
        display.stop()


def is_terminal(stream: TextIO | None) -> bool:
    """Returns whether a stream is connected to a terminal."""
    return stream is not None and not stream.closed and stream.isatty()


def check_writable(path: Path | None) -> None:
    """Raises if a file cannot be written, before any work is done for it."""
    if path is None:
        return
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise typer.BadParameter(f"{path} cannot be written: no such folder, no permission, or a folder itself")


def wait_for_interrupt(meanwhile: Callable[[], object] | None = None) -> NoReturn:
    """Keeps the process running until Ctrl-C; calls `meanwhile` thirty times per second."""
    while True:
        if meanwhile is not None:
            meanwhile()
        time.sleep(1.0 if meanwhile is None else 1.0 / 30.0)
