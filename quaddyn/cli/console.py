"""Where the command speaks: results on stdout, progress and errors on stderr."""

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


class Advance(Protocol):
    """How far many like things are: `quaddyn.campaigns.Progress`."""

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
    """Print as it is: names of robots and files are no markup."""
    out.print(text, markup=False, highlight=False, soft_wrap=True)


def progress(items: list[T], title: str) -> Iterator[T]:
    """The items, with a bar on stderr while they are worked on."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, console=err, transient=True) as display:
        yield from display.track(items, description=title)


@contextmanager
def bar(title: str, *, quiet: bool) -> Iterator[Callable[[float], None]]:
    """A progress bar on stderr; yields the callable that takes the share done.

    It appears with the first call: until then others may say there what they do.
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
def count(title: str, *, quiet: bool) -> Iterator[Callable[[Advance], None]]:
    """A display of cases done on stderr, with their rate and the time left; yields the callable that takes them."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.fields[of]}, {task.fields[rate]}, {task.fields[left]}"),
    )
    display = Progress(*columns, console=err, transient=True, disable=quiet)
    task = display.add_task(title, total=None, of="?", rate="", left="")

    def tell(now: Advance) -> None:
        display.start()
        left = "" if now.remaining is None else f"{timedelta(seconds=round(now.remaining))} left"
        of = "?" if now.total is None else f"{now.total:,}"
        display.update(task, completed=now.done, total=now.total, of=of, rate=f"{now.rate:.3g}/s", left=left)

    try:
        yield tell
    finally:
        display.stop()


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person reads or writes there."""
    return stream is not None and not stream.closed and stream.isatty()


def check_writable(path: Path | None) -> None:
    """Refuse a page that cannot be written before any work is done for it."""
    if path is None:
        return
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise typer.BadParameter(f"{path} cannot be written: no such folder, no permission, or a folder itself")


def wait_for_interrupt(meanwhile: Callable[[], object] | None = None) -> NoReturn:
    """Keep the process alive until Ctrl-C, which ends it as everywhere else; call `meanwhile` thirty times a second."""
    while True:
        if meanwhile is not None:
            meanwhile()
        time.sleep(1.0 if meanwhile is None else 1.0 / 30.0)
