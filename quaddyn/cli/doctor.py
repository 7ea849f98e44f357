"""`quaddyn doctor`: checks the installation, its versions and its compiled machine code."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ..compiler import machine, object_cache, prebuilt, silence_messages
from ..compiler.compilation_units import PREBUILT_FOLDER, CompilationUnit
from ..errors import QuaddynError
from ..kernels.kernel_cache import cached_kernels
from ..version import __version__
from .app import JsonOption, app
from .console import err, make_table, out, print_text

#: Packages whose versions are printed, and the extra of quaddyn that installs each; "" for required ones.
PACKAGES = {"numpy": "", "pin": "", "llvmlite": "", "mujoco": "mujoco", "matplotlib": "plot"}


@dataclass(frozen=True, slots=True)
class UnitState:
    """State of one compiled part of the package."""

    title: str  # title of the part, for tables
    module: str  # module with its source
    state: str  # "not yet" (not compiled), or the origin of its machine code
    place: str  # file of the machine code; "" if not compiled
    size: int | None  # size of the machine code [bytes]; None if not compiled
    seconds: float | None  # time of its compilation [s]; None if unknown


@dataclass(frozen=True, slots=True)
class Health:
    """State of the installation as plain data."""

    versions: dict[str, str]  # versions by package
    processor: dict[str, str]  # target triple, name and compilation target of the processor, and state of the kernels
    cache: dict[str, str | bool | None]  # folder of compiled code, whether it is used, and the reason if not
    units: list[UnitState]  # compiled parts of the package
    kernels: list[dict[str, str | int]]  # cached kernels of robots
    problems: list[str]  # descriptions of problems

    @property
    def passed(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


@app.command()
def doctor(
    compile: Annotated[bool, typer.Option("--compile", help="compile everything now")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check the installation: versions, processor, cache folder and compiled machine code.

    Exit code 1 if machine code cannot be compiled or run here, or cannot be cached although caching is enabled.
    """
    health = examine_installation(make=compile, quiet=as_json)
    if as_json:
        print(json.dumps({**asdict(health), "passed": health.passed}, indent=2))
    else:
        _print_health(health)
    if not health.passed:
        raise typer.Exit(1)


def examine_installation(*, make: bool, quiet: bool) -> Health:
    """Returns the state of the installation.

    Args:
        make: whether to compile parts that are not available.
        quiet: whether to suppress progress messages.
    """
    problems: list[str] = []
    target, processor = _check_processor(problems)
    place = object_cache.find_cache_folder()
    if place.reason and (place.is_enabled or make):
        problems.append(f"machine code is not cached: {place.folder or 'no folder'}: {place.reason}")
    writable = not place.reason and place.folder is not None and os.access(place.folder, os.W_OK)
    if not place.reason and not writable:
        problems.append(f"machine code is not cached, because the folder {place.folder} is not writable")
    units = prebuilt.all_units()
    states = [
        _unit_state(unit, target, make, f"{k}/{len(units)}", quiet, problems) for k, unit in enumerate(units, start=1)
    ]
    cache = {"folder": None if place.folder is None else str(place.folder), "used": writable, "reason": place.reason}
    kernels: list[dict[str, str | int]] = [
        {"robot": each.robot, "what": each.what, "file": str(each.file), "size": each.size} for each in cached_kernels()
    ]
    return Health(_versions(), processor, cache, states, kernels, problems)


def _versions() -> dict[str, str]:
    """Returns the versions of Python, this package and its dependencies by name."""
    versions = {"quaddyn": __version__, "python": f"{platform.python_implementation()} {platform.python_version()}"}
    for name, extra in PACKAGES.items():
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed: pip install " + (f"'quaddyn[{extra}]'" if extra else name)
    return versions


def _check_processor(problems: list[str]) -> tuple[str, dict[str, str]]:
    """Returns the compilation target, "" if there is none, and a description of the processor."""
    processor = {"triple": f"{platform.machine()}, {platform.system()}", "cpu": "", "target": "", "kernels": ""}
    try:
        binding = machine.llvm()
        processor |= {"triple": binding.get_process_triple(), "cpu": binding.get_host_cpu_name()}
        target = machine.portable_target()
        machine.check_machine_code(target)
        processor["target"] = target
    except machine.UnsupportedMachineError as error:
        problems.append(f"machine code cannot be generated: {error}")
        return "", processor
    try:
        processor["kernels"] = f"vectors of {machine.kernel_machine().bits} bits"
    except machine.UnsupportedMachineError as error:
        processor["kernels"] = f"not compiled, Pinocchio is used instead: {error}"
    return target, processor


def _unit_state(
    unit: CompilationUnit, target: str, make: bool, count: str, quiet: bool, problems: list[str]
) -> UnitState:
    """Returns the state of one compiled part, after compiling it if `make` is set."""
    machine_code = unit.load_machine_code(target) if target else None
    if machine_code is None and make and target:
        if not quiet:
            err.print(f"{count} {escape(unit.title)} ...", end=" ", highlight=False)
        start = time.perf_counter()
        try:
            with silence_messages():
                machine_code = unit.compile(target)
        except (QuaddynError, RuntimeError) as error:
            problems.append(f"{unit.title} cannot be compiled: {error}")
        else:
            if object_cache.cache_folder() is not None and unit.load_machine_code(target) is None:
                problems.append(f"{unit.title} was compiled, but could not be cached: {machine_code.path}")
        if not quiet:
            err.print("failed" if machine_code is None else f"{time.perf_counter() - start:.1f} s", highlight=False)
    elif machine_code is not None and make and not quiet:
        err.print(f"{count} {escape(unit.title)}: {machine_code.source}", highlight=False)
    if machine_code is None:
        return UnitState(unit.title, unit.module, "not yet", "", None, None)
    return UnitState(
        unit.title,
        unit.module,
        machine_code.source,
        machine_code.path,
        len(machine_code.code),
        machine_code.seconds or None,
    )


def _print_health(health: Health) -> None:
    """Prints the state of the installation as tables."""
    facts = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    for name, version in health.versions.items():
        facts.add_row(name, f"[yellow]{escape(version)}[/]" if version.startswith("not ") else escape(version))
    processor = health.processor
    facts.add_row("processor", escape(f"{processor['cpu']} ({processor['triple']})"))
    facts.add_row("compiled for", processor["target"] or "[red]nothing[/]")
    facts.add_row("kernels", escape(processor["kernels"] or "-"))
    folder, reason = health.cache["folder"], health.cache["reason"]
    facts.add_row("cache folder", escape(f"{folder or '-'}{f': {reason}' if reason else ''}"))
    shipped = any(unit.state == "prebuilt" for unit in health.units)
    facts.add_row("prebuilt objects", escape(str(PREBUILT_FOLDER)) if shipped else "none for this processor")
    out.print(facts)
    table = make_table("compiled part", "machine code", ">size [kB]", ">took [s]")
    for unit in health.units:
        size = "" if unit.size is None else f"{unit.size / 1024.0:.0f}"
        seconds = "" if unit.seconds is None else f"{unit.seconds:.1f}"
        color = "yellow" if unit.state == "not yet" else "green"
        table.add_row(escape(unit.title), f"[{color}]{unit.state}[/]", size, seconds)
    out.print(table)
    robots = sorted({str(each["robot"]) for each in health.kernels})
    total = sum(int(each["size"]) for each in health.kernels) / 1024.0
    print_text(
        f"cached kernels: {len(health.kernels)}, {total:.0f} kB" + (f", of {', '.join(robots)}" if robots else "")
    )
    if any(unit.state == "not yet" for unit in health.units) and health.passed:
        print_text("parts that are not compiled yet are compiled at first use, or now by quaddyn doctor --compile")
    for problem in health.problems:
        err.print(f"[bold red]problem:[/] {escape(problem)}", highlight=False, soft_wrap=True)
    if health.passed:
        out.print("[bold green]no problems found[/]")
