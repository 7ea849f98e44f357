"""`quaddyn campaign`: many runs of one experiment; what they came to; any of them again."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import shlex
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from .. import campaigns
from ..campaigns import Campaign, Failure, OutcomeCounts, Store
from ..campaigns.binomial_bounds import interval
from ..campaigns.dask_cluster import tls
from ..campaigns.plain_values import encode_record
from ..campaigns.registry import find, import_campaign, names
from ..errors import ArgumentError
from .app import app
from .campaign_options import command, renamed_fields_of
from .console import check_writable, count, err, is_terminal, out, say, wait_for_interrupt
from .renamed_options import renamed_options, warn_renamed

if TYPE_CHECKING:
    from ..campaigns import Summary

StoreArgument = Annotated[Path, typer.Argument(metavar="STORE", help="file of results")]
CampaignOption = Annotated[
    str | None, typer.Option("--campaign", metavar="MODULE:CLASS", help="of the store's campaign, if not registered")
]
StoreOption = Annotated[Path | None, typer.Option(help="file of results, made or gone on with; default: none is kept")]
WorkersOption = Annotated[
    int | None, typer.Option(min=0, help="processes; 0: this one, case after case; default: one for each core")
]
DaskOption = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="tcp://HOST:PORT, tls://HOST:PORT, or local:N (extra: cluster)")
]
CaOption = Annotated[Path | None, typer.Option(help="certificate authority of a tls:// scheduler")]
CertOption = Annotated[Path | None, typer.Option(help="our certificate for a tls:// scheduler")]
KeyOption = Annotated[Path | None, typer.Option(help="our key for a tls:// scheduler")]
BatchOption = Annotated[int, typer.Option(min=1, help="cases sent to a worker at a time; more for short cases")]
IgnoreMismatchOption = Annotated[
    bool, typer.Option("--ignore-mismatch", help="continue a store of another version or robot model")
]
JsonOption = Annotated[bool, typer.Option("--json", help="machine-readable result")]
COMMON: dict[str, tuple[Any, Any]] = {
    "store": (StoreOption, None),
    "workers": (WorkersOption, None),
    "dask": (DaskOption, None),
    "tls_ca": (CaOption, None),
    "tls_cert": (CertOption, None),
    "tls_key": (KeyOption, None),
    "batch": (BatchOption, 1),
    "ignore_mismatch": (IgnoreMismatchOption, False),
    "as_json": (JsonOption, False),
}


#: New names of options and campaigns by their old names.
RENAMED_OPTIONS = {"--force": "--ignore-mismatch"}
RENAMED_CAMPAIGNS = {"agreement": "verification", "reach": "velocity-limits", "slippery": "friction-drop"}


class _Registered(typer.core.TyperGroup):
    """Group with the commands of this module and one command for each registered campaign, made on demand."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return [*names(), *super().list_commands(ctx)]

    def get_command(self, ctx: typer.Context, name: str) -> Any:  # type: ignore[override]
        if name not in names() and RENAMED_CAMPAIGNS.get(name) in names():
            warn_renamed(f"campaign {name}", f"campaign {RENAMED_CAMPAIGNS[name]}")
            name = RENAMED_CAMPAIGNS[name]
        if name not in names():
            return super().get_command(ctx, name)
        single = typer.Typer(add_completion=False, rich_markup_mode=None)  # as that of `app`
        kind = find(name)
        options = renamed_options(f"campaign {name}", RENAMED_OPTIONS | renamed_fields_of(kind))
        single.command(name, cls=options)(command(kind, _run, COMMON))
        return typer.main.get_command(single)


campaign_app = typer.Typer(
    cls=_Registered,
    no_args_is_help=True,
    help="Many runs of one experiment, on every core or a cluster; exit code 1 if a case raised or killed its workers.",
)
app.add_typer(campaign_app, name="campaign")


@campaign_app.command(cls=renamed_options("campaign resume", RENAMED_OPTIONS))
def resume(
    store: StoreArgument,
    campaign: CampaignOption = None,
    workers: WorkersOption = None,
    dask: DaskOption = None,
    tls_ca: CaOption = None,
    tls_cert: CertOption = None,
    tls_key: KeyOption = None,
    batch: BatchOption = 1,
    ignore_mismatch: IgnoreMismatchOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run the cases of a campaign that are not in its store yet, with its last options."""
    with _opened(store, campaign) as there:
        found = there.campaign
    _run(
        found,
        store=store,
        workers=workers,
        dask=dask,
        tls_ca=tls_ca,
        tls_cert=tls_cert,
        tls_key=tls_key,
        batch=batch,
        ignore_mismatch=ignore_mismatch,
        as_json=as_json,
    )


@campaign_app.command()
def show(store: StoreArgument, campaign: CampaignOption = None, as_json: JsonOption = False) -> None:
    """What is in a store: successes with the exact 95 % interval of their probability, failures by reason."""
    with _opened(store, campaign) as there:
        tally = OutcomeCounts.from_rows(there.campaign, there.rows())
        processors, total = there.processors(), there.campaign.count()
        if as_json:
            print(json.dumps({**_json(there.campaign, tally), "cases": total, "processors": processors}, indent=2))
            return
        done = f"{tally.total:,} of {total:,}" if total is not None else f"{tally.total:,}"
        say(f"{there.campaign.name}: {done} cases in {store}")
    _print(tally, str(store))
    if len(processors) > 1:
        say(f"of {len(processors)} kinds of processors: records are bit-equal only among equal ones")


@campaign_app.command()
def export(
    store: StoreArgument,
    campaign: CampaignOption = None,
    csv: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="all digits of every number")] = None,
    parquet: Annotated[Path | None, typer.Option("--parquet", metavar="FILE", help="extra: export")] = None,
) -> None:
    """Write a store as a table: a row for each case, its fields and its record in columns."""
    from ..campaigns import store_export

    if csv is None and parquet is None:
        raise ArgumentError("--csv, --parquet: name a file")
    with _opened(store, campaign) as there:
        for path, write in ((csv, store_export.write_csv), (parquet, store_export.write_parquet)):
            if path is not None:
                check_writable(path)
                write(there, path)
                say(f"wrote {len(there)} rows to {path}")


def _opened(store: Path, campaign: str | None) -> Store:
    """Opens a store for reading, with the class of its campaign if the user names it."""
    return Store.read(store, None if campaign is None else import_campaign(campaign))


def replay_case(store: Path, number: int, record: Path | None, *, named: str | None, as_json: bool) -> None:
    """Runs one case of a store again, in the viewer; exit code 1 if its record differs."""
    from ..viewer import Viewer

    check_writable(record)
    with _opened(store, named) as there:
        campaign, row = there.campaign, there.row(number)
    if not as_json:
        say(f"{campaign.name} {store}#{number}: {row.case}")
        say(f"then: {_fate(campaign, row.result)}")
    live = record is None and not as_json
    with Viewer(campaign.case_robot(row.case), serve=live, open_browser=live and is_terminal(sys.stdout)) as viewer:
        if live:
            say(f"live view: {viewer.url}")
        again = campaigns.rerun_case(campaign, row.case, viewer)
        if record is not None:
            viewer.record(record, title=f"{campaign.name} {store.name}#{number}: {_fate(campaign, again)}")
        identical = _text(again) == _text(row.result)
        if as_json:
            now = {"error": again.error} if isinstance(again, Failure) else dict(again)
            case = dataclasses.asdict(row.case)
            found = {"campaign": campaign.name, "number": number, "case": case, "record": now}
            print(json.dumps({**found, "fate": _fate(campaign, again), "identical": identical}, indent=2))
        else:
            say(f"now: {_fate(campaign, again)}; {'the same record, bit for bit' if identical else 'another record'}")
            if record is not None:
                say(f"wrote {record}")
        if live and is_terminal(sys.stdin) and is_terminal(sys.stdout):
            out.print("the view stays open; Ctrl-C ends")
            wait_for_interrupt()
    if not identical:
        raise typer.Exit(1)


def _fate(campaign: Campaign[Any], result: campaigns.Record | Failure) -> str:
    if isinstance(result, Failure):
        return f"poison: {result.error}" if result.killed_workers else f"raised {result.error}"
    return campaign.failure_reason(result) or "success"


def _text(result: campaigns.Record | Failure) -> str:
    return result.error if isinstance(result, Failure) else encode_record(result)


def _run(
    campaign: Campaign[Any],
    *,
    store: Path | None,
    workers: int | None,
    dask: str | None,
    tls_ca: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    batch: int,
    ignore_mismatch: bool,
    as_json: bool,
) -> None:
    if workers is not None and dask is not None:
        raise ArgumentError("--workers, --dask: one of them")
    security = tls(tls_ca, tls_cert, tls_key)
    done = 0

    def tell(progress: campaigns.Progress) -> None:
        nonlocal done
        done = progress.done
        update(progress)

    try:
        with executor(workers, dask, security) as pool, count(campaign.name, quiet=as_json) as update:
            summary = campaigns.run(campaign, pool, store, batch=batch, ignore_mismatch=ignore_mismatch, progress=tell)
    except KeyboardInterrupt:
        kept = f"kept; go on with: quaddyn campaign resume {shlex.quote(str(store))}" if store else "lost: no --store"
        err.print(f"stopped: {done} cases done, {kept}", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None
    tally = summary.tally
    if as_json:
        print(json.dumps({**_json(campaign, tally), **_speed(summary)}, indent=2))
    else:
        say(f"{campaign.name}: {summary.ran:,} cases in {summary.seconds:.1f} s, {summary.skipped:,} done before")
        _print(tally, str(store) if store else "")
    if tally.errors or tally.killed_workers:
        raise typer.Exit(1)


@contextlib.contextmanager
def executor(workers: int | None, dask: str | None, security: Any) -> Iterator[Executor | None]:
    """Yields the executor that the options select; None for this process."""
    if workers == 0:
        yield None
        return
    for name in ("distributed", "tornado"):  # what matters of it is in our own messages
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with warnings.catch_warnings(record=True) as warned:
        try:
            found: Executor = (
                campaigns.process_pool(workers) if dask is None else campaigns.dask_executor(dask, security=security)
            )
        finally:
            for warning in warned:
                err.print(f"[yellow]warning:[/] {escape(str(warning.message))}", highlight=False, soft_wrap=True)
    with found:
        yield found


def _speed(summary: Summary) -> dict[str, object]:
    return {"ran": summary.ran, "skipped": summary.skipped, "seconds": summary.seconds}


def _json(campaign: Campaign[Any], tally: OutcomeCounts) -> dict[str, object]:
    return {
        "campaign": campaign.name,
        "options": dataclasses.asdict(campaign),  # type: ignore[call-overload]
        "total": tally.total,
        **dataclasses.asdict(tally),
        "interval": list(interval(tally.successes, tally.total)) if tally.total else None,
    }


def _print(tally: OutcomeCounts, store: str) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("outcome", overflow="fold")
    table.add_column("cases", justify="right", no_wrap=True)
    table.add_column("share, 95 % interval", justify="right", no_wrap=True)
    table.add_column("such as", no_wrap=True)

    def row(outcome: str, number: int, key: str = "") -> None:
        low, high = interval(number, tally.total)
        share = f"{number / tally.total:.1%} ({low:.1%} to {high:.1%})"
        table.add_row(outcome, f"{number:,}", share, " ".join(f"#{n}" for n in tally.examples.get(key, ())))

    if not tally.total:
        return
    row("[green]success[/]", tally.successes)
    for reason, number in tally.failures.items():
        row(escape(reason), number, reason)
    for error, number in tally.errors.items():
        row(f"[red]raised[/] {escape(error)}", number, error)
    if tally.killed_workers:
        row("[red]poison[/]: its worker died each time", tally.killed_workers, "poison")
    out.print(table)
    first = next((n for numbers in tally.examples.values() for n in numbers), None)
    if first is not None and store:
        say(f"one of them again: quaddyn replay {shlex.quote(f'{store}#{first}')} --record out.html")
