"""`quaddyn datasheet`: what a robot can take, as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ..campaigns.dask_cluster import tls
from ..robot import CATALOGUE
from .app import app
from .campaigning import CaOption, CertOption, DaskOption, KeyOption, WorkersOption, executor
from .console import check_writable, err, say
from .renamed_options import renamed_options


@app.command(cls=renamed_options("datasheet", {"--against": "--compare", "--bounds": "--only"}))
def datasheet(
    robot: Annotated[str, typer.Argument(metavar="NAME|FILE", help="a quadruped: catalogue name or URDF file")],
    out: Annotated[Path | None, typer.Option(help="the page; default: NAME.html here")] = None,
    compare: Annotated[
        list[str] | None, typer.Option(metavar="NAME|FILE", help="another robot on the same page; repeatable")
    ] = None,
    workers: WorkersOption = None,
    dask: DaskOption = None,
    tls_ca: CaOption = None,
    tls_cert: CertOption = None,
    tls_key: KeyOption = None,
    store: Annotated[
        Path | None, typer.Option(help="file of all trials, made or gone on with; default: beside the page, .db")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="claim 80 % instead of 95 %, with fewer directions")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="measure only these limits: push, friction, slope, ...; repeatable"),
    ] = None,
    directions: Annotated[int | None, typer.Option(min=1, help="of pushes; default: 8, with --quick 4")] = None,
    plant: Annotated[str, typer.Option(help="embedded or mujoco")] = "embedded",
    seed: Annotated[int, typer.Option(min=0, help="of all trials")] = 0,
) -> None:
    """Measure what a robot can take: speeds, pushes, friction, slopes, steps, payload, delay; write it as a page.

    Some thousand trials of four simulated seconds: 10 to 20 minutes on 8 cores; --quick takes a quarter.  An
    interrupted measurement goes on from its store.  Each trial can be seen again with `quaddyn replay STORE#NUMBER`.
    """
    from ..campaigns.datasheet import QUICK, DataSheet, MeasurementProgress, measure
    from ..campaigns.sheet_page import page

    name = robot if robot in CATALOGUE else Path(robot).stem
    out = Path(f"{name}.html") if out is None else out
    store = out.with_suffix(".db") if store is None else store
    check_writable(out)
    check_writable(store)
    given = (QUICK if quick else {}) | ({} if directions is None else {"directions": directions})
    campaign = DataSheet(robot=(robot, *(compare or ())), plant=plant, seed=seed, bounds=tuple(only or ()), **given)
    columns = (
        TextColumn("measuring"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total} bounds"),
        TextColumn("{task.fields[trials]:,} trials"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as display:
        task = display.add_task("", total=None, trials=0)

        def tell(a: MeasurementProgress) -> None:
            display.update(task, completed=a.found, total=a.total, trials=a.trials)

        with executor(workers, dask, tls(tls_ca, tls_cert, tls_key)) as pool:
            sheet = measure(campaign, pool, str(store), progress=tell)
    out.write_text(page(sheet), encoding="utf-8")
    say(f"wrote {out}: {sheet.trials:,} trials, {sheet.seconds:,.0f} s of CPU time; trials kept in {store}")
