"""The errors this package raises: one family, each also the builtin a caller would expect."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class QuaddynError(Exception):
    """Base of every error raised on purpose by quaddyn."""


class ModelError(QuaddynError, ValueError):
    """A robot description was refused; the message names file, element, value and what to do."""


class ArgumentError(QuaddynError, ValueError):
    """An argument has the wrong shape, range or a non-finite value; the message names it."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument has the wrong type or dtype; the message names it."""


class UnknownNameError(QuaddynError, KeyError):
    """A frame, joint, foot or robot name does not exist; the message lists near matches."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        super().__init__(kind, name, self.known)

    def __str__(self) -> str:
        if not isinstance(self.name, str):
            kind = type(self.name).__name__
            meant = f"did you mean {self.known[0]!r}?" if len(self.known) == 1 else _near_matches("", self.known)
            return f"{self.kind}: expected a name, got the {kind} {self.name}; {meant}"
        return f"unknown {self.kind} {self.name!r}; {_near_matches(self.name, self.known)}"

    def __reduce__(self) -> tuple[type[UnknownNameError], tuple[str, object, tuple[str, ...]]]:
        return type(self), (self.kind, self.name, self.known)


class UnknownAttributeError(QuaddynError, AttributeError):
    """An object has no attribute of a name; the message lists near matches."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.known = kind, tuple(known)
        super().__init__(f"{kind!r} object has no attribute {name!r}; {_near_matches(name, self.known)}", name=name)

    def __reduce__(self) -> tuple[type[UnknownAttributeError], tuple[str, str, tuple[str, ...]]]:
        return type(self), (self.kind, str(self.name), self.known)


def _near_matches(name: object, known: tuple[str, ...]) -> str:
    """What could have been meant by a name."""
    near = difflib.get_close_matches(str(name), known, n=5, cutoff=0.5)
    if not near:  # case and separators aside, a part of a name is a near match too
        wanted = str(name).lower()
        near = [k for k in known if wanted and (wanted in k.lower() or k.lower() in wanted)][:5]
    if near:
        return f"did you mean {', '.join(map(repr, near))}?"
    more = "" if len(known) <= 12 else f", ... ({len(known)} in all)"
    return f"known: {', '.join(known[:12])}{more}"


class UnreachableError(QuaddynError, ValueError):
    """A leg cannot put its foot at `target` (3,) [m]; `nearest` (3,) is the nearest point that it can reach."""

    def __init__(self, leg: str, target: object, nearest: object) -> None:
        self.leg, self.target, self.nearest = leg, target, nearest
        super().__init__(leg, target, nearest)

    def __str__(self) -> str:
        return f"leg {self.leg!r} cannot reach {self.target}; the nearest point it can reach is {self.nearest}"


class FileAccessError(QuaddynError, PermissionError):
    """A file is refused because others than this user could have put it there, written it or see it overwritten."""


class StaleStateError(QuaddynError, RuntimeError):
    """A State was read after the Dynamics it came from had been updated again."""


class ConcurrencyError(QuaddynError, RuntimeError):
    """A controller or plant was called while another call of it was under way, such as one by another thread."""


class DivergenceError(QuaddynError, ArithmeticError):
    """A simulation left the finite numbers; `time`, `q`, `v` hold the last good state."""

    def __init__(self, message: str, time: float, q: object, v: object) -> None:
        self.time, self.q, self.v = time, q, v
        super().__init__(message, time, q, v)

    def __str__(self) -> str:
        return str(self.args[0])


class CompileError(QuaddynError, TypeError):
    """A function cannot be compiled; the message names file, line and remedy."""


class CampaignError(QuaddynError, RuntimeError):
    """A campaign cannot go on; what is done is kept, and the message says how to go on."""


class StoreError(CampaignError):
    """A store of results cannot be used; the message names the file and the reason."""
