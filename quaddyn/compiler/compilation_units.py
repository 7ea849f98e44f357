"""`compiled` and `entry`: functions of restricted Python that become machine code when they are first called.

A function with ``@compiled`` stays what it is to Python; compiled functions call it as machine code.  With ``@entry``
it is called from Python as machine code, and its `Entry.python` is the function itself.  The entries of one module, and
all that they call, are one unit: one object, made once and kept (`objects`), or shipped with the package.
"""

from __future__ import annotations

import inspect
import re
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..deprecation import renamed_attributes
from . import object_cache
from .argument_checks import canonical, examine, from_python
from .call_graph import reachable, symbol
from .entry_wrapper import Wrapper, records_in
from .kinds import BOOL, FLOAT, INT, NOTHING, RecordKind
from .llvm_functions import FunctionWriter
from .machine import PORTABLE, link, llvm_version, lock, object_code, portable, target_options
from .object_cache import Found
from .python_calls import connect, connect_bound, direct, readable
from .signatures import Options, refuse, signature_of
from .source_fingerprint import fingerprint
from .typed_tree import Function
from .value_layout import EPILOGUE, Callee

F = TypeVar("F", bound=Callable[..., Any])

#: The package, and where objects that travel with it lie.
PACKAGE = Path(__file__).resolve().parents[1]
SHIPPED = PACKAGE / "_objects"
#: What the names of files with units begin with.
KIND = "unit"


def compiled(*, inline: bool | None = None) -> Callable[[F], F]:
    """Mark a function as callable from compiled functions.

    Args:
        inline: whether to inline it into its callers; by default LLVM decides.
    """

    def mark(function: F) -> F:
        function.__compiled__ = Options(inline)  # type: ignore[attr-defined]
        return function

    return mark


@renamed_attributes(ready="compile", bound="bind")
class Entry:
    """A function that Python calls as machine code; see `entry`.

    Attributes:
        python: the function itself, run by Python.
    """

    def __init__(self, function: Callable[..., Any], title: str, *, release: bool) -> None:
        self.python, self.release, self.title = function, release, title
        self.__wrapped__, self.__doc__, self.__name__ = function, function.__doc__, function.__name__
        self.__compiled__ = Options(False)
        self._call: Callable[..., Any] | None = None
        Unit.of(function.__module__).entries.append(self)

    def __call__(self, *arguments: Any) -> Any:
        """Run it."""
        call = self._call
        if call is None or _interpreting:
            call = self.compile()
        return call(*arguments)

    def compile(self) -> Callable[..., Any]:
        """The machine code as a builtin function, made if it has to be: what loops should call."""
        if _interpreting:
            return self.python
        if self._call is None:
            self._call = Unit.of(self.python.__module__).linked(self)
        return self._call

    def bind(self, *records: tuple[Any, ...]) -> Callable[..., Any]:
        """Like `compile`, for calls with the same records: what is returned takes the other arguments alone.

        Where the records' arrays lie is looked up once, here.  They are kept as long as what is returned.

        Args:
            records: all of the entry's, in the order of its parameters.

        Raises:
            ArgumentTypeError: one that does not fit.
        """
        return Unit.of(self.python.__module__).bind(self, records, self.compile())


def entry(title: str, *, release: bool = False) -> Callable[[Callable[..., Any]], Entry]:
    """Make a function callable from Python as machine code.

    Args:
        title: for messages, such as "whole-body control".
        release: whether to release the global interpreter lock during the call.
    """
    return lambda function: Entry(function, title, release=release)


_interpreting: list[bool] = []
_quiet: list[bool] = []


@contextmanager
def interpret() -> Iterator[None]:
    """Within this context, entries run as plain Python: slow, with every index checked, and open to a debugger."""
    _interpreting.append(True)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _interpreting.pop()


@contextmanager
def silence_messages() -> Iterator[None]:
    """Within this context, compiling prints no message: for callers that print their own."""
    _quiet.append(True)
    try:
        yield
    finally:
        _quiet.pop()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a unit's machine code came from.

    Attributes:
        title: what it is for.
        source: "compiled", "kept" or "shipped".
        place: file, or "" if it is nowhere.
        seconds: that it took.
    """

    title: str
    source: str
    place: str
    seconds: float


class Unit:
    """The entries of one module; `Unit.of` gives the only one.

    Attributes:
        entries: in the order of their definition.
        origin: of the machine code, once there is some.
    """

    every: dict[str, Unit] = {}  # noqa: RUF012  # by module

    def __init__(self, module: str) -> None:
        self.module, self.entries = module, list[Entry]()
        self.origin: Origin | None = None
        self._engine: Any = None
        self.kept: list[object] = []

    @classmethod
    def of(cls, module: str) -> Unit:
        """That of a module."""
        return cls.every.setdefault(module, cls(module))

    # -- machine code ------------------------------------------------------------------------------------------
    def linked(self, which: Entry) -> Callable[..., Any]:
        """An entry's machine code in this process."""
        with lock:
            if self._engine is None:
                start = time.perf_counter()
                target = portable()
                found = self.found(target) or self.compile(target)
                self._engine = link(found.code, PORTABLE[target])
                self.origin = Origin(self.title, found.source, found.place, time.perf_counter() - start)
            return self.callable(which, self._engine, builtin=True)

    @property
    def title(self) -> str:
        """What it is for."""
        return self.entries[0].title

    def found(self, target: str) -> Found | None:
        """Machine code for a target of `PORTABLE` that is there: shipped with the package, or kept."""
        if object_cache.as_private(SHIPPED, PACKAGE):
            key = self.key(target)
            shipped = object_cache.read(SHIPPED / f"{key}.bin", key)
            if shipped is not None:
                return Found(*_parted(shipped), "shipped", str(SHIPPED / f"{key}.bin"))
        key = self.kept_key(target)
        kept = object_cache.cached(key)
        return None if kept is None else Found(*_parted(kept), "kept", object_cache.place(key))

    def compile(self, target: str) -> Found:
        """Machine code for a target of `PORTABLE`, compiled now and kept where that is possible."""
        with _announced(self.title):
            start = time.perf_counter()
            code = self.code(target)
            seconds = time.perf_counter() - start
        key = self.kept_key(target)
        object_cache.keep(key, struct.pack("<d", seconds) + code)
        return Found(code, seconds, "compiled", object_cache.place(key))

    def code(self, target: str) -> bytes:
        """Machine code for a target of `PORTABLE`, compiled now."""
        text = self.module_text(contract=target_options().contract)
        return object_code(text, PORTABLE[target], optimize=True)

    def ship(self, folder: Path, target: str) -> Path:
        """Compile for a target into a folder that is to become `SHIPPED`; the file."""
        key = self.key(target)
        object_cache.write(folder / f"{key}.bin", key, struct.pack("<d", 0.0) + self.code(target))
        return folder / f"{key}.bin"

    def made(self, *, contract: bool = True, builtin: bool = True) -> dict[str, Callable[..., Any]]:
        """The entries by name as machine code that is made now and kept nowhere: to be compared with.

        Args:
            contract: whether a product and a sum may become one instruction.
            builtin: whether they are builtin functions; otherwise they are called through `ctypes`.
        """
        target = portable()
        engine = link(
            object_code(self.module_text(contract=contract), PORTABLE[target], optimize=True), PORTABLE[target]
        )
        self.kept.append(engine)
        return {each.__name__: self.callable(each, engine, builtin=builtin) for each in self.entries}

    def callable(self, which: Entry, engine: Any, *, builtin: bool) -> Callable[..., Any]:
        """An entry of linked machine code."""
        wrapper = self.wrapper(which)
        slow = direct(engine, wrapper)

        def refuse(*arguments: object) -> Any:
            """Raise for what does not fit; what fits after all, but not at first sight, is called with."""
            examine(which, arguments)
            again = tuple(canonical(x, kind) for x, (_, kind) in zip(arguments, wrapper.parameters, strict=True))
            known = call is refuse or all(x is y for x, y in zip(arguments, again, strict=True))
            return slow(*arguments) if known else call(*again)

        refuse.__doc__ = which.__doc__
        call: Callable[..., Any] = refuse
        if builtin and readable():
            call = connect(engine, wrapper, refuse)
        return call

    def bind(self, which: Entry, records: tuple[Any, ...], call: Callable[..., Any]) -> Callable[..., Any]:
        """As `Entry.bound`; `call` is what the entry is called by."""
        wrapper = self.wrapper(which)
        where = [k for k, (_, kind) in enumerate(wrapper.parameters) if isinstance(kind, RecordKind)]
        examine(which, records, records=True)

        def complete(*others: Any) -> Any:
            """Call with all arguments."""
            arguments = list(others)
            for k, record in zip(where, records, strict=True):
                arguments.insert(k, record)
            return call(*arguments)

        if _interpreting or not readable():
            return complete
        return connect_bound(self._engine, wrapper, complete, records)

    def key(self, target: str) -> str:
        """What the meaning of machine code follows from: any version of llvmlite can link it, so none is named."""
        file = inspect.getfile(self.entries[0].python)
        options = () if target_options().contract else ("contract=off",)
        return f"{KIND}-{object_cache.digest(self.module, fingerprint(Path(file)), target, *options)}"

    def kept_key(self, target: str) -> str:
        """What machine code compiled here follows from: also from what made it."""
        return f"{KIND}-{object_cache.digest(self.key(target), llvm_version())}"

    def wrapper(self, which: Entry) -> Wrapper:
        """How Python calls an entry."""
        signature = signature_of(which)
        assert signature is not None
        parameters, returns = signature
        if returns not in (FLOAT, INT, BOOL, NOTHING):
            refuse(which, 0, f"an entry returns a float, an int, a bool or None, not {returns}")
        for name, kind in parameters:
            if not from_python(kind):
                refuse(which, 0, f"parameter {name!r}: Python cannot hand over {kind}; take numbers, arrays or records")
        return Wrapper(which.__name__, symbol(which), parameters, returns, release=which.release, records=self.records)

    @cached_property
    def records(self) -> list[RecordKind]:
        """All that its entries take, in an order that stays."""
        signatures = [signature_of(each) for each in self.entries]
        return records_in([kind for each in signatures if each is not None for _, kind in each[0]])

    # -- its text ----------------------------------------------------------------------------------------------
    def functions(self) -> list[Function]:
        """All functions of the unit, callees before callers.

        Raises:
            CompileError: one of them cannot be compiled, or calls itself.
        """
        return reachable(self.entries)

    def module_text(self, *, contract: bool = True) -> str:
        """LLVM IR of the whole unit."""

        def callee(target: Any) -> Callee:
            signature = signature_of(target)
            assert signature is not None
            return Callee(symbol(target), tuple(kind for _, kind in signature[0]), signature[1])

        parts = [FunctionWriter(f, callee, contract=contract).text() for f in self.functions()]
        wrappers = [self.wrapper(each) for each in self.entries]
        parts += [wrappers[0].shared_text(), *(each.text() for each in wrappers)]
        text = "\n\n".join([*parts, EPILOGUE]) + "\n"
        return re.sub(r"[^\x00-\x7f]", lambda found: f".u{ord(found[0]):x}", text)  # LLVM's names are ASCII


@contextmanager
def _announced(title: str) -> Iterator[None]:
    """Print a message while something is compiled."""
    if _quiet:
        yield
        return
    start = time.perf_counter()
    print(f"quaddyn: compiling {title} ...", end=" ", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(f"{time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)


def _parted(data: bytes) -> tuple[bytes, float]:
    return data[8:], struct.unpack("<d", data[:8])[0]
