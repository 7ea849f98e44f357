"""Errors of this package: one class hierarchy, each class also derived from the builtin that callers expect."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class QuaddynError(Exception):
    """Base of every error that quaddyn raises on purpose."""


class ModelError(QuaddynError, ValueError):
    """Error in a robot description; the message names file, element, value and what to do."""


class UnreadableFileError(ModelError):
    """Error of a robot description that does not exist or cannot be opened; the message names the file."""


class ArgumentError(QuaddynError, ValueError):
    """Error of an argument with a wrong shape or range or a non-finite value; the message names it."""


class ArgumentTypeError(ArgumentError, TypeError):
    """Error of an argument with a wrong type or dtype; the message names it."""


class UnknownNameError(QuaddynError, KeyError):
    """Error of a frame, joint, foot or robot name that does not exist; the message lists near matches.

    Args:
        kind: kind of the object that is named, such as "frame".
        name: the name.
        known: known names.
        meant: the known name that `name` stands for, such as that of the foot whose frame in the file is `name`; "" if
            there is none.
        root: name of the root link, which differs from robot to robot, if a frame was sought; "" otherwise.
    """

    def __init__(self, kind: str, name: object, known: Iterable[str], meant: str = "", root: str = "") -> None:
        self.kind, self.name, self.known, self.meant, self.root = kind, name, tuple(known), meant, root
        super().__init__(kind, name, self.known, meant, root)

    def __str__(self) -> str:
        if not isinstance(self.name, str):
            kind = type(self.name).__name__
            meant = f"did you mean {self.known[0]!r}?" if len(self.known) == 1 else _suggest_names("", self.known)
            return f"{self.kind}: expected a name, got the {kind} {self.name}; {meant}"
        if self.meant:
            return f"unknown {self.kind} {self.name!r}; this is the frame of {self.meant!r} in the file; pass that name"
        names = _suggest_names(self.name, self.known)
        root = f"the root link is {self.root!r}; " if self.root and repr(self.root) not in names else ""
        return f"unknown {self.kind} {self.name!r}; {root}{names}"

    def __reduce__(self) -> tuple[type[UnknownNameError], tuple[str, object, tuple[str, ...], str, str]]:
        return type(self), (self.kind, self.name, self.known, self.meant, self.root)


class UnknownAttributeError(QuaddynError, AttributeError):
    """Error of an attribute that an object does not have; the message lists near matches."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.known = kind, tuple(known)
        super().__init__(f"{kind!r} object has no attribute {name!r}; {_suggest_names(name, self.known)}", name=name)

    def __reduce__(self) -> tuple[type[UnknownAttributeError], tuple[str, str, tuple[str, ...]]]:
        return type(self), (self.kind, str(self.name), self.known)


def _suggest_names(name: object, known: tuple[str, ...]) -> str:
    """Returns the end of a message that suggests names similar to `name`, or lists the known ones."""
    near = difflib.get_close_matches(str(name), known, n=5, cutoff=0.5)
    if not near:  # a part of a name is a near match too, whatever its case
        lowered = str(name).lower()
        near = [k for k in known if lowered and (lowered in k.lower() or k.lower() in lowered)][:5]
    if near:
        return f"did you mean {', '.join(map(repr, near))}?"
    more = "" if len(known) <= 12 else f", ... ({len(known)} in all)"
    return f"known: {', '.join(known[:12])}{more}"


class UnreachableError(QuaddynError, ValueError):
    """Error of a foot target `target` (3,) [m] that the leg cannot reach; `nearest` (3,) [m] is the nearest point."""

    def __init__(self, leg: str, target: object, nearest: object) -> None:
        self.leg, self.target, self.nearest = leg, target, nearest
        super().__init__(leg, target, nearest)

    def __str__(self) -> str:
        return f"leg {self.leg!r} cannot reach {self.target}; the nearest point it can reach is {self.nearest}"


class FileError(QuaddynError, OSError):
    """Error of a file that cannot be read or written, with the attributes of `OSError`."""


class MissingFileError(FileError, FileNotFoundError):
    """Error of a file or folder that does not exist."""


class FolderPathError(FileError, IsADirectoryError):
    """Error of the path of a folder where that of a file is needed."""


class FileAccessError(FileError, PermissionError):
    """Error of a file without permission, or that other users could have created, written or replaced."""


class StaleStateError(QuaddynError, RuntimeError):
    """Error of reading a State after its Dynamics has been updated again."""


class ConcurrencyError(QuaddynError, RuntimeError):
    """Error of a call of a controller or simulator during another call of it, such as one by another thread."""


class DivergenceError(QuaddynError, ArithmeticError):
    """Error of a simulation with numbers that are not finite; `time`, `q`, `v` are the last valid state."""

    def __init__(self, message: str, time: float, q: object, v: object) -> None:
        self.time, self.q, self.v = time, q, v
        super().__init__(message, time, q, v)

    def __str__(self) -> str:
        return str(self.args[0])


class CompileError(QuaddynError, TypeError):
    """Error of a function that cannot be compiled; the message names file, line and what to do."""


class CampaignError(QuaddynError, RuntimeError):
    """Error of a campaign that cannot continue; finished cases are stored, and the message says how to continue."""


class StoreError(CampaignError):
    """Error of a result store that cannot be used; the message names the file and the reason."""
