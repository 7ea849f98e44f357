"""`compiled` and `entry`: functions of restricted Python that are compiled to machine code when they are first called.

A function with ``@compiled`` remains an ordinary function for Python; compiled functions call it as machine code.  A
function with ``@entry`` is called from Python as machine code, and its `Entry.python` is the original function.  The
entries of one module, and all functions that they call, form one compilation unit: one object file, which is compiled
once and cached (`object_cache`), or shipped prebuilt with the package.  A package whose ``__init__`` sets
``__compilation_unit__``, a title, is one unit with the entries of all its modules, so that functions which several of
them call are compiled once; a module of the package with ``__compilation_unit__ = ""`` is compiled separately.

A function with ``@compiled(separate="title")`` is not part of the units that call it.  The functions of its module with
this option form a unit of their own, which is compiled or loaded when an entry that needs one of them is first called
or bound to records.  Callers call such a function through a pointer, which is set at that time.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import inspect
import re
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..deprecation import renamed_attributes
from . import object_cache
from .kinds import BOOL, EPILOGUE, FLOAT, INT, NOTHING, Callee, RecordKind, argument_types, return_type
from .machine import PORTABLE, compile_ir, link_object, llvm_version, lock, portable_target, target_options
from .object_cache import CachedObject, fingerprint
from .python_calls import EntryWrapper, has_expected_layout, make_builtin, make_ctypes_call, shared_text
from .signatures import (
    DecoratorOptions,
    can_pass_from_python,
    check_arguments,
    is_separate,
    options_of,
    raise_compile_error,
    signature_of,
    symbol_name,
    with_exact_types,
)

if TYPE_CHECKING:
    from .llvm_functions import LlvmFunctionWriter
    from .typed_tree import Function

F = TypeVar("F", bound=Callable[..., Any])
#: Type of functions that return compiled functions for the first record of a call.
Callees = Callable[[Any], Sequence[Callable[..., Any]]]

#: Folder of the package, and the folder of prebuilt objects in it.
PACKAGE = Path(__file__).resolve().parents[1]
PREBUILT_FOLDER = PACKAGE / "_objects"
#: Maximum number of instructions, before optimization, of a function that is inlined into several others.
MAX_INLINED_INSTRUCTIONS = 100
#: Prefix of the file names of compiled units.
CACHE_KIND = "unit"
#: Decorator of a function that Python or other units call as machine code, at the beginning of a line.
ENTRY_DECORATOR = re.compile(r"^@(entry|compiled\(.*separate=)", re.MULTILINE)
#: Assignment by which a module is compiled separately from the other modules of its package.
SEPARATE_UNIT = re.compile(r'^__compilation_unit__ = ""', re.MULTILINE)


def defines_entries(file: Path) -> bool:
    """Returns whether a Python file defines entries or functions that are compiled separately."""
    return ENTRY_DECORATOR.search(file.read_text(encoding="utf-8")) is not None


def _is_separate(file: Path) -> bool:
    """Returns whether a Python file is compiled separately from the other modules of its package."""
    return SEPARATE_UNIT.search(file.read_text(encoding="utf-8")) is not None


def compiled(*, inline: bool | None = None, separate: str = "") -> Callable[[F], F]:
    """Returns a decorator that makes a function callable from compiled functions.

    Args:
        inline: whether to inline the function into its callers; by default functions with few instructions or one
            caller are.
        separate: title of the function's own compilation unit; "" to compile it with its callers; see the docstring
            of the module.
    """

    def mark(function: F) -> F:
        function.__compiled__ = DecoratorOptions(inline, separate)  # type: ignore[attr-defined]
        if separate:
            CompilationUnit.of_module(function.__module__).separate_functions.append(function)
        return function

    return mark


@renamed_attributes(ready="compile", bound="bind")
class Entry:
    """Function that Python calls as machine code; made by the decorator `entry`.

    Args:
        function: the function in restricted Python.
        title: name for messages, such as "whole-body control".
        release: whether to release the global interpreter lock during the call.
        separate: as for `entry`.
        callees: as for `entry`; None: all separate functions that it can reach are linked before the first call.

    Attributes:
        python: the original function, run by the Python interpreter.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        title: str,
        *,
        release: bool,
        separate: bool = False,
        callees: Callees | None = None,
    ) -> None:
        self.python, self.release, self.title, self.callees = function, release, title, callees
        self.__wrapped__, self.__doc__, self.__name__ = function, function.__doc__, function.__name__
        self.__compiled__ = DecoratorOptions(False, title if separate else "")
        self._call: Callable[..., Any] | None = None
        self._linked: set[Callable[..., Any]] | None = set()  # separate functions that are linked; None for all
        self._latest_callees: Sequence[Callable[..., Any]] | None = None  # result of `callees`, which are linked
        unit = CompilationUnit.of_module(function.__module__)
        unit.entries.append(self)
        if separate:
            unit.separate_functions.append(self)

    def __call__(self, *arguments: Any) -> Any:
        """Calls the machine code, which is compiled first if necessary."""
        call = self._call
        if call is None or _interpreting or (self._linked is not None and self._needs_linking(arguments)):
            call = self.compile() if self.callees is None or _interpreting else self.compile(self._record(arguments))
        return call(*arguments)

    def compile(self, record: Any = None) -> Callable[..., Any]:
        """Compiles the entry if necessary and returns its machine code as a builtin function, for use in loops.

        Args:
            record: the first record that the entry takes, for calls with it alone; functions that are compiled
                separately and that such calls do not need are not compiled.  None: all are.
        """
        if _interpreting:
            return self.python
        callees = None if self.callees is None or record is None else self.callees(record)
        is_linked = self._linked is None or (callees is not None and self._linked.issuperset(callees))
        if self._call is None or not is_linked:
            self._call = CompilationUnit.of_module(self.python.__module__).link_entry(self, callees, self._call)
            self._linked = None if callees is None or self._linked is None else self._linked.union(callees)
        self._latest_callees = callees
        return self._call

    def _needs_linking(self, arguments: tuple[Any, ...]) -> bool:
        """Returns whether a call can reach other separate functions than the latest call."""
        assert self.callees is not None
        return self.callees(self._record(arguments)) != self._latest_callees

    def _record(self, arguments: tuple[Any, ...]) -> Any:
        """Returns the first record among the arguments of a call."""
        position, cls = self._first_record
        if len(arguments) <= position or type(arguments[position]) is not cls:
            check_arguments(self, arguments)
        return arguments[position]

    @cached_property
    def _first_record(self) -> tuple[int, type]:
        """Position and class of the first record among the parameters."""
        signature = signature_of(self)
        assert signature is not None
        return next((k, kind.cls) for k, (_, kind) in enumerate(signature[0]) if isinstance(kind, RecordKind))

    def bind(self, *records: tuple[Any, ...]) -> Callable[..., Any]:
        """Like `compile`, for calls with the same records: the returned function takes the other arguments alone.

        The addresses of the records' arrays are looked up once, here.  The returned function keeps the records alive.

        Args:
            records: all records that the entry takes, in the order of its parameters.

        Raises:
            ArgumentTypeError: a record does not fit its parameter.
        """
        check_arguments(self, records, records=True)
        return CompilationUnit.of_module(self.python.__module__).bind(self, records, self.compile(*records[:1]))


def entry(
    title: str, *, release: bool = False, separate: bool = False, callees: Callees | None = None
) -> Callable[[Callable[..., Any]], Entry]:
    """Returns a decorator that makes a function callable from Python as machine code.

    Args:
        title: name for messages, such as "whole-body control".
        release: whether to release the global interpreter lock during the call.
        separate: whether other units, too, call the machine code of the entry's unit; see `compiled`.
        callees: function that returns the separately compiled functions that a call can reach, from the first record
            among its arguments; other functions in the result are ignored.  None: all that the entry can reach are
            linked before the first call.
    """
    return lambda function: Entry(function, title, release=release, separate=separate, callees=callees)


_interpreting: list[bool] = []
_quiet: list[bool] = []


@contextmanager
def interpret() -> Iterator[None]:
    """Runs entries as plain Python within this context: slow, with every index checked, and open to a debugger."""
    _interpreting.append(True)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _interpreting.pop()


@contextmanager
def silence_messages() -> Iterator[None]:
    """Suppresses the messages about compiling within this context, for callers that print their own."""
    _quiet.append(True)
    try:
        yield
    finally:
        _quiet.pop()


@contextmanager
def _paused_garbage_collection() -> Iterator[None]:
    """Pauses the garbage collector: typed trees hold no cycles, and searching them takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True, slots=True)
class MachineCodeOrigin:
    """Record of how the machine code of a unit was obtained.

    Attributes:
        title: name of the unit.
        source: "compiled", "cached" (read from the cache) or "prebuilt" (shipped with the package).
        path: file of the machine code, or "" if it is not on disk.
        seconds: time to compile or load it [s].
    """

    title: str
    source: str
    path: str
    seconds: float


class CompilationUnit:
    """Compilation unit: the entries of one module or package, and all functions that they call.

    `CompilationUnit.of_module` returns the only instance.

    Args:
        module: name of the module or package.
        title: name for messages; "" for the title of the first entry.

    Attributes:
        module: name of the module or package.
        entries: the entries in the order of their definition; those of a package are complete after `import_entries`.
        separate_functions: functions that are compiled separately from their callers, in the order of their definition.
        origin: how the machine code was obtained; None before the first call.
    """

    registry: dict[str, CompilationUnit] = {}  # noqa: RUF012  # by module or package

    def __init__(self, module: str, title: str = "") -> None:
        self.module, self._title, self.entries = module, title, list[Entry]()
        self.separate_functions = list[Callable[..., Any]]()
        self.origin: MachineCodeOrigin | None = None
        self._is_complete = False
        self._engine: Any = None
        self.live_engines: list[object] = []

    @classmethod
    def of_module(cls, module: str) -> CompilationUnit:
        """Returns the unit of a module, given by its ``__name__``."""
        package = sys.modules.get(module.rpartition(".")[0])
        is_separate = getattr(sys.modules.get(module), "__compilation_unit__", None) == ""
        title = "" if is_separate else getattr(package, "__compilation_unit__", "")
        name = package.__name__ if package is not None and title else module
        return cls.registry.setdefault(name, cls(name, title))

    def import_entries(self) -> None:
        """Imports all modules of a package that define entries, and sorts these by module."""
        if self._title and not self._is_complete:
            for file in self.files:
                importlib.import_module(f"{self.module}.{file.stem}")
            self.entries.sort(key=lambda each: each.python.__module__)
            self._is_complete = True

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """Files that define the entries of the unit."""
        if not self._title:
            return (Path(inspect.getfile(self._first_function)),)
        folder = Path(str(sys.modules[self.module].__file__)).parent
        return tuple(sorted(file for file in folder.glob("*.py") if defines_entries(file) and not _is_separate(file)))

    @property
    def _first_function(self) -> Callable[..., Any]:
        return self.entries[0].python if self.entries else self.separate_functions[0]

    @property
    def title(self) -> str:
        """Name of the unit for messages."""
        options = options_of(self._first_function)
        return self._title or (self.entries[0].title if self.entries else options.separate if options else "")

    # -- machine code ------------------------------------------------------------------------------------------
    def link_entry(
        self, which: Entry, callees: Iterable[Callable[..., Any]] | None, call: Callable[..., Any] | None
    ) -> Callable[..., Any]:
        """Returns an entry as a builtin function, loading or compiling the machine code of the unit if necessary.

        Args:
            which: the entry.
            callees: functions that are linked, if they are compiled separately and called by the unit; None for all
                that the entry can reach.
            call: the builtin function, if it has been made before.
        """
        with lock:
            engine = self._link()
            if callees is None and engine.get_global_value_address(_reach_name(which)):
                callees = self.all_separate_functions()
            for each in callees or ():
                self._link_separate_function(each)
            return call or self.callable(which, engine, builtin=True)

    def _link(self) -> Any:
        """Loads or compiles the machine code of the unit, if this has not been done, and returns its engine."""
        if self._engine is None:
            start = time.perf_counter()
            self.import_entries()
            target = portable_target()
            found = self.load_machine_code(target) or self.compile(target)
            self._engine = link_object(found.code, PORTABLE[target])
            self.origin = MachineCodeOrigin(self.title, found.source, found.path, time.perf_counter() - start)
        return self._engine

    @classmethod
    def all_separate_functions(cls) -> list[Callable[..., Any]]:
        """Returns all functions that are compiled separately from their callers, of the modules imported so far."""
        return [each for unit in cls.registry.values() for each in unit.separate_functions]

    def _link_separate_function(self, function: Callable[..., Any]) -> None:
        """Sets the pointer through which the unit calls a separate function, if it has one that is not set yet."""
        pointer = _pointer_to(function, self._engine)
        if pointer is not None and not pointer.value:
            engine = CompilationUnit.of_module(inspect.unwrap(function).__module__)._link()
            pointer.value = engine.get_function_address(_exported_name(function))

    def load_machine_code(self, target: str) -> CachedObject | None:
        """Returns prebuilt or cached machine code for a processor (a key of `PORTABLE`), or None if there is none."""
        if object_cache.is_as_private(PREBUILT_FOLDER, PACKAGE):
            key = self.source_key(target)
            prebuilt = object_cache.read_object(PREBUILT_FOLDER / f"{key}.bin", key)
            if prebuilt is not None:
                return CachedObject(*_split_object(prebuilt), "prebuilt", str(PREBUILT_FOLDER / f"{key}.bin"))
        key = self.cache_key(target)
        cached = object_cache.load_object(key)
        return None if cached is None else CachedObject(*_split_object(cached), "cached", object_cache.cache_path(key))

    def compile(self, target: str) -> CachedObject:
        """Compiles the unit for a processor (a key of `PORTABLE`), and stores the code in the cache if there is one."""
        with _report_compilation(self.title):
            start = time.perf_counter()
            code = self.code(target)
            seconds = time.perf_counter() - start
        key = self.cache_key(target)
        object_cache.store_object(key, struct.pack("<d", seconds) + code)
        return CachedObject(code, seconds, "compiled", object_cache.cache_path(key))

    def code(self, target: str) -> bytes:
        """Compiles the unit for a processor (a key of `PORTABLE`) and returns the machine code."""
        text = self.module_text(contract=target_options().contract)
        return compile_ir(text, PORTABLE[target], optimize=True)

    def export_object(self, folder: Path, target: str) -> Path:
        """Compiles for a processor and writes the object into a folder of prebuilt ones; returns its path."""
        key = self.source_key(target)
        object_cache.write_object(folder / f"{key}.bin", key, struct.pack("<d", 0.0) + self.code(target))
        return folder / f"{key}.bin"

    def compile_uncached(self, *, contract: bool = True, builtin: bool = True) -> dict[str, Callable[..., Any]]:
        """Compiles the unit without any cache and returns its entries by name, as references in tests.

        Args:
            contract: whether a product and a sum may become one instruction.
            builtin: whether the entries are builtin functions; otherwise they are called through `ctypes`.
        """
        engine = self._compile_uncached(contract)
        for each in self.all_separate_functions():
            if (pointer := _pointer_to(each, engine)) is not None:
                other = CompilationUnit.of_module(inspect.unwrap(each).__module__)._compile_uncached(contract)
                pointer.value = other.get_function_address(_exported_name(each))
        return {each.__name__: self.callable(each, engine, builtin=builtin) for each in self.entries}

    def _compile_uncached(self, contract: bool) -> Any:
        """Compiles and links the unit without any cache and returns its engine."""
        machine = PORTABLE[portable_target()]
        engine = link_object(compile_ir(self.module_text(contract=contract), machine, optimize=True), machine)
        self.live_engines.append(engine)
        return engine

    def callable(self, which: Entry, engine: Any, *, builtin: bool) -> Callable[..., Any]:
        """Returns a Python function that calls an entry of linked machine code."""
        wrapper = self.wrapper(which)
        slow = make_ctypes_call(engine, wrapper)

        def reject_or_call(*arguments: object) -> Any:
            """Raises for invalid arguments; calls with valid ones that the machine code did not recognize."""
            check_arguments(which, arguments)
            again = tuple(with_exact_types(x, kind) for x, (_, kind) in zip(arguments, wrapper.parameters, strict=True))
            known = call is reject_or_call or all(x is y for x, y in zip(arguments, again, strict=True))
            return slow(*arguments) if known else call(*again)

        reject_or_call.__doc__ = which.__doc__
        call: Callable[..., Any] = reject_or_call
        if builtin and has_expected_layout():
            call = make_builtin(engine, wrapper, reject_or_call)
        return call

    def bind(self, which: Entry, records: tuple[Any, ...], call: Callable[..., Any]) -> Callable[..., Any]:
        """Implements `Entry.bind`; `call` is the function that calls the entry."""
        wrapper = self.wrapper(which)
        where = [k for k, (_, kind) in enumerate(wrapper.parameters) if isinstance(kind, RecordKind)]

        def complete(*others: Any) -> Any:
            """Calls the entry with the given arguments and the bound records."""
            arguments = list(others)
            for k, record in zip(where, records, strict=True):
                arguments.insert(k, record)
            return call(*arguments)

        if _interpreting or not has_expected_layout():
            return complete
        return make_builtin(self._engine, wrapper, complete, records)

    def source_key(self, target: str) -> str:
        """Key of the unit's sources and target.

        It does not depend on llvmlite, any version of which can link the object.
        """
        options = () if target_options().contract else ("contract=off",)
        machine = PORTABLE[target]
        return f"{CACHE_KIND}-{object_cache.hash_parts(self.module, fingerprint(*self.files), machine, *options)}"

    def cache_key(self, target: str) -> str:
        """Key under which machine code compiled here is cached.

        Unlike `source_key` it depends on the version of llvmlite.
        """
        return f"{CACHE_KIND}-{object_cache.hash_parts(self.source_key(target), llvm_version())}"

    def wrapper(self, which: Entry) -> EntryWrapper:
        """Returns the writer of an entry's calling code for Python."""
        signature = signature_of(which)
        assert signature is not None
        parameters, returns = signature
        if returns not in (FLOAT, INT, BOOL, NOTHING):
            raise_compile_error(
                which, 0, f"a function called from Python must return a float, an int, a bool or None, not {returns}"
            )
        for name, kind in parameters:
            if not can_pass_from_python(kind):
                raise_compile_error(
                    which, 0, f"parameter {name!r}: Python cannot pass {kind}; use numbers, arrays or records"
                )
        return EntryWrapper(which.__name__, symbol_name(which), parameters, returns, which.release)

    # -- its text ----------------------------------------------------------------------------------------------
    def functions(self) -> list[Function]:
        """Returns all functions of the unit, callees before callers.

        Raises:
            CompileError: one of them cannot be compiled, or calls itself.
        """
        from .function_translator import collect_functions  # not imported where the machine code is cached

        self.import_entries()
        return collect_functions([*self.entries, *self.separate_functions], include_separate=False)

    @_paused_garbage_collection()
    def module_text(self, *, contract: bool = True) -> str:
        """Returns the LLVM IR of the whole unit, in which small functions and those called once are to be inlined."""
        from .llvm_functions import LlvmFunctionWriter  # not imported where the machine code is cached

        calls, separate = Counter[str](), dict[Callable[..., Any], None]()

        def callee(target: Any) -> Callee:
            signature = signature_of(target)
            assert signature is not None
            calls[symbol_name(target)] += 1
            if is_separate(target) and target not in self.separate_functions:
                separate[target] = None
            return Callee(symbol_name(target), tuple(kind for _, kind in signature[0]), signature[1])

        def define(writer: LlvmFunctionWriter, body: str) -> str:
            """Returns the definition of a function after all calls are counted."""
            f = writer.function
            is_small = len(writer.lines) <= MAX_INLINED_INSTRUCTIONS or calls[f.symbol] == 1
            return writer.definition(is_small if f.inline is None else f.inline, body)

        functions = self.functions()
        writers = [LlvmFunctionWriter(f, callee, contract=contract) for f in functions]
        bodies = [writer.body() for writer in writers]
        parts = [define(writer, body) for writer, body in zip(writers, bodies, strict=True)]
        parts += [_separate_call_text(each) for each in separate]
        parts += [_exported_text(each) for each in self.separate_functions]
        if self.entries:
            parts += [shared_text(), *(self.wrapper(each).text() for each in self.entries)]
        reaching = set[str]()  # functions that can reach a separate one
        for f in functions:
            if any(symbol_name(each) in reaching or each in separate for each in f.calls):
                reaching.add(f.symbol)
        for each in self.separate_functions:
            if symbol_name(each) in reaching:
                raise_compile_error(each, 0, "the function is compiled separately, and calls another one that is")
        parts += [f"@{_reach_name(each)} = constant i8 1" for each in self.entries if symbol_name(each) in reaching]
        text = "\n\n".join([*parts, EPILOGUE]) + "\n"
        return re.sub(r"[^\x00-\x7f]", lambda found: f".u{ord(found[0]):x}", text)  # LLVM's names are ASCII


def _exported_name(function: Callable[..., Any]) -> str:
    """Returns the symbol by which other units find a separately compiled function."""
    return f"{symbol_name(function)}.exported"


def _pointer_name(function: Callable[..., Any]) -> str:
    """Returns the symbol of a unit's pointer to a separately compiled function, null until it is linked."""
    return f"{symbol_name(function)}.pointer"


def _reach_name(which: Entry) -> str:
    """Returns the symbol that a unit has if one of its entries can reach a separately compiled function."""
    return f"{symbol_name(which)}.reaches"


def _pointer_to(function: Callable[..., Any], engine: Any) -> ctypes.c_void_p | None:
    """Returns the pointer to a separate function in linked machine code, None if this does not call the function."""
    address = engine.get_global_value_address(_pointer_name(function))
    return ctypes.c_void_p.from_address(address) if address else None


def _forwarding_text(head: str, function: Callable[..., Any], callee: str, first: str = "") -> str:
    """Returns the definition of a function that calls another one with its own arguments.

    Args:
        head: the definition up to the name; "%s" is the type of the result.
        function: compiled function with the same signature.
        callee: the called function.
        first: instruction before the call.
    """
    signature = signature_of(function)
    assert signature is not None
    result = return_type(signature[1])
    types = ["ptr"] if isinstance(signature[1], RecordKind) else []
    types += [t for _, kind in signature[0] for t in argument_types(kind)]
    arguments = ", ".join(f"{t} %a{k}" for k, t in enumerate(types))
    call = f"call {result} {callee}({arguments})"
    end = [f"  {call}", "  ret void"] if result == "void" else [f"  %result = {call}", f"  ret {result} %result"]
    return "\n".join([f"{head % result}({arguments}) alwaysinline nounwind {{", *([first] if first else []), *end, "}"])


def _exported_text(function: Callable[..., Any]) -> str:
    """Returns the definition by which other units call a separately compiled function."""
    return _forwarding_text(f"define %s @{_exported_name(function)}", function, f"@{symbol_name(function)}")


def _separate_call_text(function: Callable[..., Any]) -> str:
    """Returns a function's pointer, and the definition of the function that calls what the pointer is set to."""
    pointer = f"@{_pointer_name(function)}"
    head = f"{pointer} = global ptr null\n\ndefine internal %s @{symbol_name(function)}"
    return _forwarding_text(head, function, "%callee", f"  %callee = load ptr, ptr {pointer}")


@contextmanager
def _report_compilation(title: str) -> Iterator[None]:
    """Prints a message with the elapsed time while something is compiled."""
    if _quiet:
        yield
        return
    start = time.perf_counter()
    print(f"quaddyn: compiling {title} ...", end=" ", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(f"{time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)


def _split_object(data: bytes) -> tuple[bytes, float]:
    """Splits the content of a cached object into machine code and compile time [s]."""
    return data[8:], struct.unpack("<d", data[:8])[0]
