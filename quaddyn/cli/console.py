"""Output of the command line: results on stdout, progress and errors on stderr."""

from __future__ import annotations

import ctypes
import importlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol, TextIO, TypeVar
from urllib.parse import urlsplit

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from ..errors import ArgumentError
from ..safe_files import check_ending

if TYPE_CHECKING:
    from ..viewer import Viewer

T = TypeVar("T")

#: Time between lines about the progress of a long operation [s].
LINE_INTERVAL = 10.0


class ProgressLike(Protocol):
    """Protocol of the progress of many cases, such as `quaddyn.campaigns.Progress`."""

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


def print_text(text: str) -> None:
    """Prints text without interpreting markup in names of robots and files."""
    out.print(text, markup=False, highlight=False, soft_wrap=True)


def make_table(*columns: str, title: str | None = None) -> Table:
    """Returns a table; ">" before the name of a column aligns it to the right, "~" folds its long cells.

    Args:
        columns: names of the columns, with their units.
        title: title in markup; None: none.
    """
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in columns:
        name = escape(column.lstrip("~>"))
        if column.startswith("~"):
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify="right" if column.startswith(">") else "left", no_wrap=True)
    return table


def page_addresses(viewer: Viewer) -> str:
    """Returns the address of the live page, and that without control if other machines can open it."""
    needs_token = urlsplit(viewer.view_url).path != "/"
    return f"{viewer.url} (without control: {viewer.view_url})" if needs_token else viewer.url


def make_display(*columns: ProgressColumn, quiet: bool = False) -> Progress:
    """Returns a progress display on stderr; it shows nothing if `quiet`, or if stderr is no terminal."""
    return Progress(*columns, console=err, transient=True, disable=quiet or not err.is_terminal)


def progress(items: list[T], title: str) -> Iterator[T]:
    """Yields the items with a progress bar on stderr."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with make_display(*columns) as display:
        yield from display.track(items, description=title)


@contextmanager
def progress_bar(title: str, *, quiet: bool, prints_lines: bool = False) -> Iterator[Callable[[float], None]]:
    """Shows a progress bar on stderr; yields the function to call with the fraction done (0 to 1).

    The bar appears at the first call, so that other messages can be printed before.  With
    `prints_lines`, if stderr is no terminal, a line is printed every ten seconds instead.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    display = make_display(*columns, quiet=quiet)
    task = display.add_task(title, total=1.0)

    begin = last_line = time.monotonic()

    def update(fraction: float) -> None:
        nonlocal last_line
        display.start()
        display.update(task, completed=fraction)
        now = time.monotonic()
        if prints_lines and not quiet and not err.is_terminal and now - last_line >= LINE_INTERVAL:
            last_line = now
            rest = f", {(now - begin) * (1.0 / fraction - 1.0):.0f} s remaining" if fraction > 0.0 else ""
            err.print(f"{title}: {fraction:.0%} after {now - begin:.0f} s{rest}", markup=False, highlight=False)

    try:
        yield update
    finally:
        display.stop()


@contextmanager
def campaign_progress(title: str, *, quiet: bool) -> Iterator[Callable[[ProgressLike], None]]:
    """Shows the number of finished cases on stderr, with rate and remaining time; yields the function to update it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.fields[of]}, {task.fields[rate]}, {task.fields[remaining]}"),
    )
    display = make_display(*columns, quiet=quiet)
    task = display.add_task(title, total=None, of="?", rate="", remaining="")

    def update(current: ProgressLike) -> None:
        display.start()
        remaining = "" if current.remaining is None else f"{timedelta(seconds=round(current.remaining))} left"
        of = "?" if current.total is None else f"{current.total:,}"
        display.update(
            task, completed=current.done, total=current.total, of=of, rate=f"{current.rate:.3g}/s", remaining=remaining
        )

    try:
        yield update
    finally:
        display.stop()


def is_terminal(stream: TextIO | None) -> bool:
    """Returns whether a stream is connected to a terminal."""
    return stream is not None and not stream.closed and stream.isatty()


#: Endings of recorded pages.
PAGE_ENDINGS = (".html", ".htm")


def check_writable(path: Path | None, endings: Sequence[str] = ()) -> None:
    """Raises an error if a file cannot be written; called before any work is done for it.

    Args:
        path: file to write; None is accepted.
        endings: endings of names that the command writes, such as ".csv"; empty for any.
    """
    if path is None:
        return
    if endings:
        try:
            check_ending(path, endings)
        except ArgumentError as error:
            raise typer.BadParameter(str(error)) from None
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise typer.BadParameter(
            f"{path} cannot be written: its folder does not exist, permission is missing, or the path is a folder"
        )


def use_one_linear_algebra_thread() -> bool:
    """Limits NumPy's OpenBLAS to one thread; returns whether it has this function (other libraries are unchanged).

    For matrices of a few hundred columns the threads of OpenBLAS cost up to ten times the CPU time of one thread, since
    each waits actively for work.  Environment variables have no effect after the import of NumPy.
    """
    library = ctypes.CDLL(importlib.import_module("numpy._core._multiarray_umath").__file__)
    for name in ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads64_", "openblas_set_num_threads"):
        if hasattr(library, name):
            getattr(library, name)(1)
            return True
    return False


def wait_for_interrupt(meanwhile: Callable[[], object] | None = None) -> NoReturn:
    """Keeps the process running until Ctrl-C; calls `meanwhile` thirty times per second."""
    while True:
        if meanwhile is not None:
            meanwhile()
        time.sleep(1.0 if meanwhile is None else 1.0 / 30.0)
