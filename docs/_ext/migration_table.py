"""Writes ``docs/migration.md``, the table of old and new public names, from `quaddyn.deprecation.RENAMED`.

``python docs/_ext/migration_table.py`` after renaming something; a test compares the page with the table.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "migration.md"
HEAD = """# Old and new names

Public names and command-line options that changed. An old name works for one more version; it causes a
`DeprecationWarning` (on the command line a warning on stderr) that gives the new name. `Name(parameter=)` stands for a
parameter of a function or of a constructor, `Name.attribute` for an attribute or method.
"""


#: Keys of JSON output that changed, by command: old and new key; old keys are not written any more.
JSON_KEYS = {
    "quaddyn demo --json": {
        "asked": "requested_velocity",
        "velocity": "clamped_velocity",
        "limit": "limit_reason",
        "measured": "measured_velocity",
        "jump": "jump_summary",
        "unmeasured": "unmeasured_checks",
        "checks.NAME.bound": "checks.NAME.limit",
        "requests[].asked": "requests[].requested",
        "requests[].limit": "requests[].limit_reason",
        "requests[].is_cut": "requests[].is_reduced",
    },
    "quaddyn leg --json": {
        "legs[].held": "legs[].fixed_joints",
        "legs[].reached": "legs[].n_reached",
        "legs[].error": "legs[].max_error",
        "legs[].seconds": "legs[].seconds_per_target",
        "legs[].branches[].home": "legs[].branches[].contains_home",
        "legs[].branches[].reached": "legs[].branches[].reached_fraction",
        "legs[].branches[].within_limits": "legs[].branches[].fraction_within_limits",
    },
    "quaddyn campaign show --json": {"poison": "killed_workers"},
}

#: Names without an alias, which are removed, and what to use instead.
REMOVED = {
    "quaddyn.reference.closed_form": "`tests/reference_algorithms.py`, `closed_form_inverse_dynamics`",
    "quaddyn.reference.coriolis.coriolis_christoffel, mass_rate": "`tests/reference_algorithms.py`",
    "quaddyn.reference.loop_reader": "`quaddyn.reference.reader`",
    "quaddyn.reference.mass.mass_by_rnea": "`tests/reference_algorithms.py`",
    "quaddyn.reference.model.plane_axes": "`quaddyn.reference.algebra.rotation_to`",
    "quaddyn.reference.rnea.gravity": "`nle` at zero velocity, or `Reference.gravity`",
    "quaddyn.reference.rnea.rnea(trick=, gravity=)": "`tests/reference_algorithms.py`, `closed_form_inverse_dynamics`",
    "quaddyn.reference.worked": "`tests/reference_algorithms.py`, `two_body_torque`",
}


def import_all() -> None:
    """Imports every module of the package, since each declares its old names when it is imported."""
    import quaddyn

    for info in pkgutil.walk_packages(quaddyn.__path__, "quaddyn."):
        if not info.name.endswith("__main__"):
            importlib.import_module(info.name)


def campaign_names() -> list[str]:
    """Returns the names of the package's own campaigns, after making their commands, which are made on demand."""
    import typer

    from quaddyn.campaigns.campaign import find, names
    from quaddyn.cli import app

    own = [name for name in names() if find(name).__module__.startswith("quaddyn.")]
    group = typer.main.get_command(app).commands["campaign"]  # type: ignore[attr-defined]
    for name in own:
        group.get_command(typer.Context(group), name)
    return own


def shown(name: str) -> tuple[str, str]:
    """Returns the subpackage of an old name and the name as it is written in the table."""
    if " " in name:
        return "command line", name
    path, parenthesis, parameter = name.removesuffix(")").partition("(")
    parts = path.split(".")
    modules = max(n for n in range(1, len(parts) + 1) if ".".join(parts[:n]) in sys.modules)
    rest = ".".join(parts[modules:])
    if not rest:
        return "quaddyn", path
    subpackage = ".".join(parts[: min(modules, 2)])
    if not parenthesis:
        return subpackage, rest
    return subpackage, f"{rest}({parameter if '=' in parameter else parameter + '='})"


def new_name(old: str, new: str) -> str:
    """Returns the new name, written like the old one in the table."""
    if "(" in old:
        before, _, parameter = old.partition("(")
        if "=" in parameter.removesuffix("=)"):
            return f"{before}({parameter.partition('=')[0]}={new})"
        return f"{before}({new}=)"
    if " " in old:
        return f"{old.rpartition(' ')[0]} {new}"
    owner, dot, _ = old.rpartition(".")
    return new if new.startswith("quaddyn.") else f"{owner}{dot}{new}"


def text() -> str:
    """Returns the whole page."""
    from quaddyn.deprecation import RENAMED

    import_all()
    own = {*campaign_names(), "resume"}
    tables: dict[str, dict[str, str]] = defaultdict(dict)
    for name, new in RENAMED.items():
        words = name.split()
        if words[:2] == ["quaddyn", "campaign"] and len(words) == 4 and words[2] not in own:
            continue  # a user's campaign
        if name.startswith(("quaddyn.", "quaddyn ")):
            subpackage, old = shown(name)
            tables[subpackage][old] = new_name(old, new)
    out = HEAD
    for subpackage in sorted(tables, key=lambda each: (each == "command line", each)):
        title = "Command line" if subpackage == "command line" else f"`{subpackage}`"
        rows = sorted(tables[subpackage].items(), key=lambda row: row[0].lower())
        out += f"\n## {title}\n\n| old | new |\n|---|---|\n" + "".join(f"| `{a}` | `{b}` |\n" for a, b in rows)
    out += (
        "\n## JSON output\n\nKeys of `--json` that changed; there is no alias.\n\n"
        "| command | old key | new key |\n|---|---|---|\n"
    )
    out += "".join(f"| `{command}` | `{a}` | `{b}` |\n" for command, keys in JSON_KEYS.items() for a, b in keys.items())
    out += "\n## Removed\n\nNames without an alias.\n\n| old | instead |\n|---|---|\n"
    return out + "".join(f"| `{name}` | {instead} |\n" for name, instead in REMOVED.items())


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    PAGE.write_text(text(), encoding="utf-8")
