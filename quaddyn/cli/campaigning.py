"""`quaddyn campaign` and `quaddyn datasheet`: many cases of an experiment, stored results, replay, and data sheets.

The fields of a campaign are options of its command.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
import logging
import shlex
import sys
import types
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union

import typer
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

from .. import campaigns
from ..campaigns import Campaign, Failure, OutcomeCounts, Store
from ..campaigns.binomial_bounds import interval
from ..campaigns.campaign import RENAMED_CAMPAIGNS, encode_record, find, import_campaign, names
from ..campaigns.campaign_runner import count_by_field
from ..campaigns.executors import tls
from ..deprecation import RENAMED
from ..errors import ArgumentError
from ..robot import CATALOGUE
from .app import JsonOption, PlantOption, app
from .console import (
    PAGE_ENDINGS,
    campaign_progress,
    check_writable,
    err,
    is_terminal,
    make_display,
    make_table,
    out,
    print_text,
    wait_for_interrupt,
)
from .loading import print_campaign_warnings, print_warnings
from .options import COMPLETIONS, renamed_options, warn_renamed

if TYPE_CHECKING:
    from ..campaigns import Summary


_NONE = type(None)


def make_command(
    kind: type[Campaign[Any]], action: Callable[..., None], common: Mapping[str, Any]
) -> Callable[..., None]:
    """Returns a command function for typer whose options are the fields of a campaign class and `common` options.

    Args:
        kind: campaign class, whose fields become options.
        action: called with the campaign, and with the common options by name.
        common: type, annotated with `typer.Option`, and default of each common option.
    """
    options = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if clash := options.keys() & common.keys():
        raise ArgumentError(
            f"campaign {kind.name!r}: fields {', '.join(sorted(clash))} have the names of common options; rename them"
        )
    hints = typing.get_type_hints(kind)

    def run(**arguments: Any) -> None:
        values = {name: _option_value(name, hints[name], arguments.pop(name)) for name in options}
        action(kind(**{name: v for name, v in values.items() if v is not _Default}), **arguments)

    parameters = [_make_parameter(f, hints[f.name]) for f in options.values()]
    run.__doc__ = kind.__doc__
    return _with_parameters(run, [*parameters, *_parameters(common)])


def _parameters(options: Mapping[str, tuple[Any, Any]]) -> list[inspect.Parameter]:
    """Returns the parameters of a command for annotated type and default of each option."""
    kind = inspect.Parameter.KEYWORD_ONLY
    return [inspect.Parameter(name, kind, annotation=a, default=default) for name, (a, default) in options.items()]


def _with_parameters(command: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """Returns a command after setting the parameters that typer reads."""
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def renamed_fields_of(kind: type[Campaign[Any]]) -> dict[str, str]:
    """Returns the new option by the old one for each renamed field of a campaign class."""
    out = {}
    for parent in kind.__mro__:
        prefix = f"{parent.__module__}.{parent.__qualname__}("
        for old, new in RENAMED.items():
            if old.startswith(prefix):
                out["--" + old[len(prefix) : -1].replace("_", "-")] = "--" + new.replace("_", "-")
    return out


class _Default:
    """Marker of an option that was not given, for which the default of the campaign applies."""


def _make_parameter(field: dataclasses.Field[Any], hint: Any) -> inspect.Parameter:
    """Returns the parameter of a command function for a field."""
    is_required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    flag = "--" + field.name.replace("_", "-")
    help_text = str(field.metadata.get("help", ""))
    kinds, takes_several = _value_types(hint)
    if not is_required and not takes_several and kinds != (bool,):
        default_value = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        if default_value not in (None, "", ()):
            help_text = f"{help_text} [default: {default_value}]".strip()
    kind: Any = kinds[0] if len(kinds) == 1 else str
    names = [f"{flag}/--no-{flag[2:]}"] if kind is bool and not takes_several else [flag]
    completion = COMPLETIONS.get(field.name) if str in kinds else None
    annotation: Any
    if takes_several:
        help_text = f"{help_text}; separated by commas, or repeated".strip("; ")
        option = typer.Option(*names, help=help_text, show_default=False, autocompletion=completion)
        annotation = Annotated[list[str] if is_required else list[str] | None, option]
    else:
        option = typer.Option(*names, help=help_text, show_default=False, autocompletion=completion)
        annotation = Annotated[kind if is_required else kind | None, option]
    default = inspect.Parameter.empty if is_required else None
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _value_types(hint: Any) -> tuple[tuple[type, ...], bool]:
    """Returns the types of one value of an annotation, and whether the option takes several values."""
    if typing.get_origin(hint) is tuple:
        inner = [a for a in typing.get_args(hint) if a is not Ellipsis]
        found = {kind: None for a in inner for kind in _value_types(a)[0]}
        return tuple(found), True
    if typing.get_origin(hint) in (Union, types.UnionType):
        parts = [_value_types(a) for a in typing.get_args(hint) if a is not _NONE]
        return tuple({kind: None for kinds, _ in parts for kind in kinds}), any(several for _, several in parts)
    return (hint,), False


def _option_value(name: str, hint: Any, given: Any) -> Any:
    """Returns the value of an option from the command line, or `_Default` if it was not given."""
    if given is None:
        return _Default
    kinds, several = _value_types(hint)
    if several:
        words = [word.strip() for text in given for word in text.split(",")]
        return tuple(_parse_word(name, kinds, word) for word in words if word)
    return _parse_word(name, kinds, given) if isinstance(given, str) else given


def _parse_word(name: str, kinds: tuple[type, ...], word: str) -> Any:
    """Returns a word, converted to the first of int, float, bool and str that is in `kinds` and accepts it."""
    for kind in (int, float, bool, str):
        if kind not in kinds:
            continue
        try:
            return {"true": True, "false": False}[word.lower()] if kind is bool else kind(word)
        except (ValueError, KeyError):
            continue
    raise ArgumentError(f"--{name.replace('_', '-')}: expected {' or '.join(k.__name__ for k in kinds)}, got {word!r}")


StoreArgument = Annotated[Path, typer.Argument(metavar="STORE", help="file with stored results")]
CampaignOption = Annotated[
    str | None,
    typer.Option(
        "--campaign", metavar="MODULE:CLASS", help="class of the campaign of the store, if it is not registered"
    ),
]
StoreOption = Annotated[
    Path | None, typer.Option(help="file for the results, created or continued; default: results are not stored")
]
WorkersOption = Annotated[
    int | None, typer.Option(min=0, help="number of processes; 0: run in this process; default: one per core")
]
DaskOption = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="tcp://HOST:PORT, tls://HOST:PORT, or local:N (needs quaddyn[cluster])"),
]
CaOption = Annotated[Path | None, typer.Option(help="file of the certificate authority for a tls:// scheduler")]
CertOption = Annotated[Path | None, typer.Option(help="file of the client certificate for a tls:// scheduler")]
KeyOption = Annotated[Path | None, typer.Option(help="file of the client key for a tls:// scheduler")]
BatchOption = Annotated[
    int,
    typer.Option(
        min=1, help="number of cases sent to a worker at a time; trials without pushes on level ground run together"
    ),
]
DeviceOption = Annotated[str, typer.Option(help="cpu; there is no code of locomotion controllers for GPUs")]
IgnoreMismatchOption = Annotated[
    bool, typer.Option("--ignore-mismatch", help="continue a store that another version or robot model wrote")
]
COMMON: dict[str, tuple[Any, Any]] = {
    "store": (StoreOption, None),
    "workers": (WorkersOption, None),
    "dask": (DaskOption, None),
    "tls_ca": (CaOption, None),
    "tls_cert": (CertOption, None),
    "tls_key": (KeyOption, None),
    "batch": (BatchOption, 1),
    "device": (DeviceOption, "cpu"),
    "ignore_mismatch": (IgnoreMismatchOption, False),
    "as_json": (JsonOption, False),
}


#: New names of options by their old names.
RENAMED_OPTIONS = {"--force": "--ignore-mismatch"}
RENAMED.update({f"quaddyn campaign {old}": new for old, new in RENAMED_CAMPAIGNS.items()})


class _CampaignGroup(typer.core.TyperGroup):
    """Command group with the commands of this module and one per registered campaign, created on demand."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return [*names(), *super().list_commands(ctx)]

    def get_command(self, ctx: typer.Context, name: str) -> Any:  # type: ignore[override]
        if name not in names() and RENAMED_CAMPAIGNS.get(name) in names():
            warn_renamed(f"campaign {name}", f"campaign {RENAMED_CAMPAIGNS[name]}")
            name = RENAMED_CAMPAIGNS[name]
        if name not in names():
            return super().get_command(ctx, name)
        single = typer.Typer(add_completion=False, rich_markup_mode=None)  # the same setting as in `app`
        kind = find(name)
        options = renamed_options(f"campaign {name}", RENAMED_OPTIONS | renamed_fields_of(kind))
        single.command(name, cls=options)(make_command(kind, _run, COMMON))
        return typer.main.get_command(single)


campaign_app = typer.Typer(
    cls=_CampaignGroup,
    no_args_is_help=True,
    help="Run many cases of an experiment on all cores or a cluster; exit code 1 if a case raised an error or killed "
    "its workers.",
)
app.add_typer(campaign_app, name="campaign")


def resume(store: Path, campaign: str | None, **options: Any) -> None:
    """Continue a campaign: run the cases that are not in its store yet, with the options of its last run."""
    with _open_store(store, campaign) as opened:
        stored_campaign = opened.campaign
    _run(stored_campaign, store=store, **options)


campaign_app.command(cls=renamed_options("campaign resume", RENAMED_OPTIONS))(
    _with_parameters(
        resume,
        _parameters(COMMON | {"store": (StoreArgument, inspect.Parameter.empty), "campaign": (CampaignOption, None)}),
    )
)


@campaign_app.command()
def show(store: StoreArgument, campaign: CampaignOption = None, as_json: JsonOption = False) -> None:
    """Summarize a store: success rate with its exact 95 % confidence interval, and failures by reason."""
    with _open_store(store, campaign) as opened:
        tally = OutcomeCounts.from_rows(opened.campaign, opened.rows())
        by_field, units = count_by_field(opened.campaign, opened.rows()), opened.campaign.units
        processors, total = opened.processors(), opened.campaign.count()
        if as_json:
            print(
                json.dumps(
                    {
                        **_outcomes_json(opened.campaign, tally),
                        "by_field": {
                            name: [
                                {"value": value, "successes": n, "total": total} for value, (n, total) in counts.items()
                            ]
                            for name, counts in by_field.items()
                        },
                        "cases": total,
                        "processors": processors,
                    },
                    indent=2,
                )
            )
            return
        done = f"{tally.total:,} of {total:,}" if total is not None else f"{tally.total:,}"
        print_text(f"{opened.campaign.name}: {done} cases in {store}")
    _print_outcomes(tally, str(store))
    _print_successes(by_field, units)
    if len(processors) > 1:
        print_text(f"{len(processors)} kinds of processors: records are equal to the bit only on the same kind")


@campaign_app.command()
def export(
    store: StoreArgument,
    campaign: CampaignOption = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="CSV file to write, with all digits of every number")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", metavar="FILE", help="Parquet file to write (needs quaddyn[export])")
    ] = None,
) -> None:
    """Write a store as a table: one row per case, with its fields and its record in columns."""
    from ..campaigns.store import write_csv, write_parquet

    if csv is None and parquet is None:
        raise ArgumentError("--csv, --parquet: expected at least one of these options, with the file to write")
    check_writable(csv, (".csv",))
    check_writable(parquet, (".parquet",))
    with _open_store(store, campaign) as opened:
        for path, write in ((csv, write_csv), (parquet, write_parquet)):
            if path is not None:
                write(opened, path)
                print_text(f"wrote {len(opened)} rows to {path}")


def _open_store(store: Path, campaign: str | None) -> Store:
    """Opens a store for reading, with the campaign class MODULE:CLASS if given."""
    return Store.read(store, None if campaign is None else import_campaign(campaign))


def replay_case(store: Path, number: int, record: Path | None, *, named: str | None, as_json: bool) -> None:
    """Runs one case of a store again in the viewer, and exits with code 1 if the new record differs."""
    from ..campaigns.store import describe_mismatch
    from ..viewer import Viewer

    check_writable(record, PAGE_ENDINGS)
    with _open_store(store, named) as opened:
        campaign, row = opened.campaign, opened.row(number)
    robot = campaign.case_robot(row.case)
    if isinstance(source := getattr(row.case, "robot", None), str):
        print_warnings(robot, source)
    if not as_json:
        print_text(f"{campaign.name} {store}#{number}: {row.case}")
        print_text(f"stored: {_outcome_text(campaign, row.result)}")
    live = record is None and not as_json
    with Viewer(robot, serve=live, open_browser=live and is_terminal(sys.stdout)) as viewer:
        if live:
            print_text(f"live view: {viewer.url}")
        result = campaigns.rerun_case(campaign, row.case, viewer)
        if record is not None:
            viewer.record(record, title=f"{campaign.name} {store.name}#{number}: {_outcome_text(campaign, result)}")
        identical = _result_text(result) == _result_text(row.result)
        reason = "" if identical else describe_mismatch(row.package, row.model, campaign.model_hash())
        files = [x for x in getattr(campaign, "robots", ()) if "<" not in x and Path(x).suffix]
        if reason and files:
            reason += f"; robot file {', '.join(files)}"
        if as_json:
            record_json = {"error": result.error} if isinstance(result, Failure) else dict(result)
            case = dataclasses.asdict(row.case)
            case_json = {"campaign": campaign.name, "number": number, "case": case, "record": record_json}
            print(
                json.dumps(
                    {**case_json, "fate": _outcome_text(campaign, result), "identical": identical, "mismatch": reason},
                    indent=2,
                )
            )
        else:
            comparison = "same record" if identical else "different record"
            print_text(f"replayed: {_outcome_text(campaign, result)}; {comparison}")
            if reason:
                print_text(f"the stored record is that of {reason}")
            if record is not None:
                print_text(f"wrote {record}")
        if live and is_terminal(sys.stdin) and is_terminal(sys.stdout):
            out.print("the view stays open until Ctrl-C")
            wait_for_interrupt()
    if not identical:
        raise typer.Exit(1)


def _outcome_text(campaign: Campaign[Any], result: campaigns.Record | Failure) -> str:
    """Returns the outcome of a case as text: "success", the reason of a failure, or the error."""
    if isinstance(result, Failure):
        return f"killed its workers: {result.error}" if result.killed_workers else f"raised {result.error}"
    return campaign.failure_reason(result) or "success"


def _result_text(result: campaigns.Record | Failure) -> str:
    """Returns a result as text, equal for results that are equal to the bit."""
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
    device: str,
    ignore_mismatch: bool,
    as_json: bool,
) -> None:
    """Runs a campaign with the common options of the command line and prints the counts of its outcomes."""
    if workers is not None and dask is not None:
        raise ArgumentError("--workers, --dask: expected at most one of these options; remove one")
    check_device(device)
    security = tls(tls_ca, tls_cert, tls_key)
    print_campaign_warnings(campaign)
    done = 0

    def on_progress(progress: campaigns.Progress) -> None:
        nonlocal done
        done = progress.done
        update(progress)

    try:
        with open_executor(workers, dask, security) as pool, campaign_progress(campaign.name, quiet=as_json) as update:
            summary = campaigns.run(
                campaign, pool, store, batch=batch, ignore_mismatch=ignore_mismatch, progress=on_progress
            )
    except KeyboardInterrupt:
        consequence = (
            f"which are stored; continue with: quaddyn campaign resume {shlex.quote(str(store))}"
            if store
            else "which are lost, because there was no --store"
        )
        err.print(f"interrupted: {done} cases done, {consequence}", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None
    tally = summary.tally
    if as_json:
        print(json.dumps({**_outcomes_json(campaign, tally), **_run_json(summary)}, indent=2))
    else:
        print_text(
            f"{campaign.name}: {summary.ran:,} cases in {summary.seconds:.1f} s, {summary.skipped:,} done before"
        )
        _print_outcomes(tally, str(store) if store else "")
    if tally.errors or tally.killed_workers:
        raise typer.Exit(1)


def check_device(device: str) -> None:
    """Rejects another device than the CPU.

    Raises:
        ArgumentError: another device.
    """
    if device != "cpu":
        reason = "locomotion controllers run on the CPU only" if device[:4] == "cuda" else "expected cpu"
        raise ArgumentError(f"--device: {reason}, got {device!r}; remove the option")


@contextlib.contextmanager
def open_executor(workers: int | None, dask: str | None, security: Any) -> Iterator[Executor | None]:
    """Yields the executor that the options select; None for this process."""
    if workers == 0:
        yield None
        return
    for name in ("distributed", "tornado"):  # errors are reported by messages of this package
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with warnings.catch_warnings(record=True) as caught_warnings:
        try:
            pool: Executor = (
                campaigns.process_pool(workers) if dask is None else campaigns.dask_executor(dask, security=security)
            )
        finally:
            for warning in caught_warnings:
                err.print(f"[yellow]warning:[/] {escape(str(warning.message))}", highlight=False, soft_wrap=True)
    with pool:
        yield pool


def _run_json(summary: Summary) -> dict[str, object]:
    """Returns numbers of cases and duration of a run as JSON data."""
    return {"ran": summary.ran, "skipped": summary.skipped, "seconds": summary.seconds}


def _outcomes_json(campaign: Campaign[Any], tally: OutcomeCounts) -> dict[str, object]:
    """Returns options and outcomes of a campaign as JSON data."""
    return {
        "campaign": campaign.name,
        "options": dataclasses.asdict(campaign),  # type: ignore[call-overload]
        "total": tally.total,
        **dataclasses.asdict(tally),
        "interval": list(interval(tally.successes, tally.total)) if tally.total else None,
    }


def _print_successes(by_field: dict[str, dict[Any, tuple[int, int]]], units: Mapping[str, str]) -> None:
    """Prints the success rate by value of each varied field, with its confidence interval."""
    if not by_field:
        return
    table = make_table("~cases with", ">successes", ">success rate, 95 % interval")
    for name, counts in by_field.items():
        for value, (successes, total) in counts.items():
            low, high = interval(successes, total)
            text = f"{value:.4g} {units.get(name, '')}" if isinstance(value, float) else str(value)
            rate = f"{successes / total:.1%} ({low:.1%} to {high:.1%})"
            table.add_row(escape(f"{name} {text}".rstrip()), f"{successes} of {total}", rate)
    out.print(table)


def _print_outcomes(tally: OutcomeCounts, store: str) -> None:
    """Prints the outcomes as a table, with examples and how to replay one."""
    table = make_table("~outcome", ">cases", ">fraction, 95 % interval", "examples")

    def row(outcome: str, number: int, key: str = "") -> None:
        low, high = interval(number, tally.total)
        fraction = f"{number / tally.total:.1%} ({low:.1%} to {high:.1%})"
        table.add_row(outcome, f"{number:,}", fraction, " ".join(f"#{n}" for n in tally.examples.get(key, ())))

    if not tally.total:
        return
    row("[green]success[/]", tally.successes)
    for reason, number in tally.failures.items():
        row(escape(reason), number, reason)
    for error, number in tally.errors.items():
        row(f"[red]raised[/] {escape(error)}", number, error)
    if tally.killed_workers:
        row("[red]killed its workers[/]", tally.killed_workers, "poison")
    out.print(table)
    first = next((n for numbers in tally.examples.values() for n in numbers), None)
    if first is not None and store:
        print_text(f"to replay one of them: quaddyn replay {shlex.quote(f'{store}#{first}')} --record out.html")


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
    plant: PlantOption = "embedded",
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
    print_campaign_warnings(campaign)
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
