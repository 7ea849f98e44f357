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
from .completion import COMPLETIONS

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
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in common.items()
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__doc__ = kind.__doc__
    return run


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
