"""Fields of a campaign as options of the command line."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Union

import typer

from ..campaigns import Campaign
from ..deprecation import RENAMED
from ..errors import ArgumentError

_NONE = type(None)


def command(kind: type[Campaign[Any]], act: Callable[..., None], common: Mapping[str, Any]) -> Callable[..., None]:
    """Returns a command function for typer with the options of a kind of campaign and `common` options.

    Args:
        kind: kind of campaign, whose fields become options.
        act: called with the campaign, and with the common options by name.
        common: type, annotated with `typer.Option`, and default of each common option.
    """
    own = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if clash := own.keys() & common.keys():
        raise ArgumentError(f"campaign {kind.name!r}: options {', '.join(sorted(clash))} are the command's own")
    hints = typing.get_type_hints(kind)

    def run(**given: Any) -> None:
        values = {name: _value(name, hints[name], given.pop(name)) for name in own}
        act(kind(**{name: v for name, v in values.items() if v is not _Default}), **given)

    parameters = [_parameter(f, hints[f.name]) for f in own.values()]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in common.items()
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__doc__ = kind.__doc__
    return run


def renamed_fields_of(kind: type[Campaign[Any]]) -> dict[str, str]:
    """Returns the new option by the old one for each renamed field of a kind of campaign."""
    out = {}
    for parent in kind.__mro__:
        prefix = f"{parent.__module__}.{parent.__qualname__}("
        for old, new in RENAMED.items():
            if old.startswith(prefix):
                out["--" + old[len(prefix) : -1].replace("_", "-")] = "--" + new.replace("_", "-")
    return out


class _Default:
    """Marker of an option that was not given, so that the campaign's own default applies."""


def _parameter(field: dataclasses.Field[Any], hint: Any) -> inspect.Parameter:
    """Returns the parameter of a command function for a field."""
    needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    flag = "--" + field.name.replace("_", "-")
    words = str(field.metadata.get("help", ""))
    simple, several = _parts(hint)
    if not needed and not several and simple != (bool,):
        shown = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        if shown not in (None, "", ()):
            words = f"{words} [default: {shown}]".strip()
    kind: Any = simple[0] if len(simple) == 1 else str
    names = [f"{flag}/--no-{flag[2:]}"] if kind is bool and not several else [flag]
    annotation: Any
    if several:
        option = typer.Option(*names, help=f"{words}; separated by commas, or repeated".strip("; "), show_default=False)
        annotation = Annotated[list[str] if needed else list[str] | None, option]
    else:
        option = typer.Option(*names, help=words, show_default=False)
        annotation = Annotated[kind if needed else kind | None, option]
    default = inspect.Parameter.empty if needed else None
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _parts(hint: Any) -> tuple[tuple[type, ...], bool]:
    """Returns the types of one value, and whether the option takes several values."""
    if typing.get_origin(hint) is tuple:
        inner = [a for a in typing.get_args(hint) if a is not Ellipsis]
        found = {kind: None for a in inner for kind in _parts(a)[0]}
        return tuple(found), True
    if typing.get_origin(hint) in (Union, types.UnionType):
        parts = [_parts(a) for a in typing.get_args(hint) if a is not _NONE]
        return tuple({kind: None for kinds, _ in parts for kind in kinds}), any(several for _, several in parts)
    return (hint,), False


def _value(name: str, hint: Any, given: Any) -> Any:
    """Returns the value of an option, or `_Default`."""
    if given is None:
        return _Default
    kinds, several = _parts(hint)
    if several:
        words = [word.strip() for text in given for word in text.split(",")]
        return tuple(_read(name, kinds, word) for word in words if word)
    return _read(name, kinds, given) if isinstance(given, str) else given


def _read(name: str, kinds: tuple[type, ...], word: str) -> Any:
    """Returns a word as the first permitted type of int, float, bool and str that accepts it."""
    for kind in (int, float, bool, str):
        if kind not in kinds:
            continue
        try:
            return {"true": True, "false": False}[word.lower()] if kind is bool else kind(word)
        except (ValueError, KeyError):
            continue
    raise ArgumentError(f"--{name.replace('_', '-')}: expected {' or '.join(k.__name__ for k in kinds)}, got {word!r}")
