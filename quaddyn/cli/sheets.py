"""`quaddyn datasheet`: measures the performance limits of a robot and writes them as an HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

from ..campaigns.executors import tls
from ..robot import CATALOGUE
from .app import app
from .campaigning import (
    CaOption,
    CertOption,
    DaskOption,
    DeviceOption,
    KeyOption,
    WorkersOption,
    check_device,
    open_executor,
)
from .completion import COMPLETIONS
from .console import PAGE_ENDINGS, check_writable, make_display, print_text
from .renamed_options import renamed_options


@app.command(cls=renamed_options("datasheet", {"--against": "--compare", "--bounds": "--only"}))
def datasheet(
    robot: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE", help="a quadruped: catalogue name or URDF file", autocompletion=COMPLETIONS["robot"]
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="HTML page to write; default: NAME.html in the current folder")
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE",
            help="another robot to show on the same page; repeatable",
            autocompletion=COMPLETIONS["robot"],
        ),
    ] = None,
    workers: WorkersOption = None,
    dask: DaskOption = None,
    tls_ca: CaOption = None,
    tls_cert: CertOption = None,
    tls_key: KeyOption = None,
    device: DeviceOption = "cpu",
    store: Annotated[
        Path | None, typer.Option(help="file for all trials, created or continued; default: the page's name with .db")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="bounds for 80 % instead of 95 % success, with fewer push directions")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="measure only these limits: push, friction, slope, ...; repeatable",
            autocompletion=COMPLETIONS["only"],
        ),
    ] = None,
    directions: Annotated[
        int | None, typer.Option(min=1, help="number of push directions; default: 8, or 4 with --quick")
    ] = None,
    plant: Annotated[str, typer.Option(help="embedded or mujoco", autocompletion=COMPLETIONS["plant"])] = "embedded",
    seed: Annotated[int, typer.Option(min=0, help="random seed of all trials")] = 0,
) -> None:
    """Measure the limits of a robot as an HTML page: speed, pushes, friction, slope, steps, payload, delay.

    Runs some thousand trials of four simulated seconds: 10 to 20 minutes on 8 cores, a quarter with --quick. An
    interrupted measurement continues from its store. `quaddyn replay STORE#NUMBER` shows a trial in the viewer.
    """
    from ..campaigns.datasheet import QUICK, DataSheet, MeasurementProgress, measure
    from ..campaigns.sheet_page import page

    check_device(device)
    name = robot if robot in CATALOGUE else Path(robot).stem
    out = Path(f"{name}.html") if out is None else out
    store = out.with_suffix(".db") if store is None else store
    check_writable(out, PAGE_ENDINGS)
    check_writable(store)
    settings = (QUICK if quick else {}) | ({} if directions is None else {"directions": directions})
    campaign = DataSheet(robot=(robot, *(compare or ())), plant=plant, seed=seed, bounds=tuple(only or ()), **settings)
    columns = (
        TextColumn("measuring"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total} bounds"),
        TextColumn("{task.fields[trials]:,} trials"),
        TimeElapsedColumn(),
    )
    with make_display(*columns) as display:
        task = display.add_task("", total=None, trials=0)

        def on_progress(current: MeasurementProgress) -> None:
            display.update(task, completed=current.found, total=current.total, trials=current.trials)

        with open_executor(workers, dask, tls(tls_ca, tls_cert, tls_key)) as pool:
            sheet = measure(campaign, pool, str(store), progress=on_progress)
    out.write_text(page(sheet), encoding="utf-8")
    print_text(f"wrote {out}: {sheet.trials:,} trials, {sheet.seconds:,.0f} s of CPU time; trials stored in {store}")
