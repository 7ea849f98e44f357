"""Machine code is cached, found again, and compiled again if the cached file is damaged or not private."""

import importlib
import os
import stat
import struct
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from raising import raises
from slow_parameters import others_slow

import quaddyn
from quaddyn.compiler import compilation_units, machine, object_cache
from quaddyn.compiler.c99 import c_source
from quaddyn.compiler.compilation_units import CompilationUnit
from quaddyn.compiler.object_cache import fingerprint, sources
from quaddyn.errors import ArgumentError, ArgumentTypeError, CompileError

ROOT = str(Path(quaddyn.__file__).parents[1])

PROGRAM = """
    from quaddyn.compiler import Vector, compiled, entry

    @compiled()
    def weight(x: float) -> float:
        return FACTOR * x

    @entry("a little program")
    def total(x: Vector) -> float:
        s = 0.0
        for i in range(len(x)):
            s += weight(x[i])
        return s
"""

RUN = """
    import json, sys, time
    start = time.perf_counter()
    import numpy as np
    import little
    from quaddyn.compiler.compilation_units import CompilationUnit
    began = time.perf_counter()
    out = little.total(np.arange(5.0))
    origin = CompilationUnit.of_module("little").origin
    print(json.dumps([out, origin.source, origin.path, time.perf_counter() - began,
                      "quaddyn.compiler.function_translator" in sys.modules]))
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A folder with a program, and an empty cache folder."""
    write(tmp_path, 2.0)
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    return tmp_path, cache


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Name and content of the program's file in the cache."""
    folder = tmp_path_factory.mktemp("made")
    write(folder, 2.0)
    (folder / "cache").mkdir(mode=0o700)
    assert run(folder, folder / "cache")[:2] == [20.0, "compiled"]
    (path,) = cached_files(folder / "cache")
    return path.name, path.read_bytes()


@pytest.fixture
def filled(program, made):
    """A folder with a program, and a cache folder with its machine code."""
    path = program[1] / made[0]
    path.write_bytes(made[1])
    path.chmod(0o600)
    return program


def write(folder, factor):
    source = textwrap.dedent(PROGRAM).replace("FACTOR", repr(factor))
    (folder / "little.py").write_text(source, encoding="utf-8")


def command(folder, cache):
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{folder}", "QUADDYN_CACHE": str(cache)}
    return [sys.executable, "-c", textwrap.dedent(RUN)], environment


def run(folder, cache):
    """Result, origin of the code, its file, seconds until the result, and whether the translator was imported."""
    arguments, environment = command(folder, cache)
    out = subprocess.run(arguments, env=environment, capture_output=True, encoding="utf-8", check=True)
    return __import__("json").loads(out.stdout)


def cached_files(cache):
    return [each for each in cache.iterdir() if each.suffix == ".bin"]


def test_machine_code_is_cached_for_other_processes(program):
    folder, cache = program
    out, source, place, _, _ = run(folder, cache)
    assert (out, source) == (20.0, "compiled") and [str(each) for each in cached_files(cache)] == [place]
    assert stat.S_IMODE(Path(place).stat().st_mode) & 0o077 == 0
    before = Path(place).stat().st_mtime_ns
    out, source, again, _, _ = run(folder, cache)
    assert (out, source, again) == (20.0, "cached", place)
    assert Path(place).stat().st_mtime_ns == before
    assert not [each for each in cache.iterdir() if each not in cached_files(cache)]


def test_code_of_another_key_is_not_used(filled):
    folder, cache = filled
    (path,) = cached_files(cache)
    write(folder, 3.0)
    assert run(folder, cache)[:2] == [30.0, "compiled"]
    (other,) = (each for each in cached_files(cache) if each != path)
    other.write_bytes(path.read_bytes())  # intact, but of another program
    assert run(folder, cache)[:2] == [30.0, "compiled"]
    assert len(cached_files(cache)) == 2


@pytest.mark.parametrize("mode", others_slow([0o770, 0o707, 0o777], [0o770, 0o707]))
def test_folder_writable_by_others_is_not_used(filled, mode):
    folder, cache = filled
    cache.chmod(mode)
    assert run(folder, cache)[:3] == [20.0, "compiled", ""]


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give a folder away")
def test_folder_of_another_user_is_not_used(program):
    folder, cache = program
    os.chown(cache, 12345, 12345)
    assert run(folder, cache)[:3] == [20.0, "compiled", ""]
    assert not list(cache.iterdir())


def test_package_works_without_a_cache_folder(program):
    folder, _ = program
    (folder / "file").write_text("", encoding="utf-8")
    for place in (folder / "file", folder / "file" / "below", ""):
        assert run(folder, place)[:3] == [20.0, "compiled", ""]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_failed_writes_leave_no_file(program, monkeypatch):
    _, cache = program
    monkeypatch.setattr(object_cache.os, "fdopen", lambda handle, mode: Path("/dev/full").open(mode))
    object_cache.write_object(cache / "x.bin", "key", b"code" * 1000)
    assert not list(cache.iterdir())
    monkeypatch.undo()

    def refuse(**_):
        raise PermissionError

    monkeypatch.setattr(object_cache.tempfile, "mkstemp", refuse)
    object_cache.write_object(cache / "x.bin", "key", b"code")
    assert not list(cache.iterdir())


def test_read_only_cache_folder_is_read(filled):
    folder, cache = filled
    cache.chmod(0o500)
    assert run(folder, cache)[1] == "cached"
    write(folder, 5.0)
    assert run(folder, cache)[0] == 50.0
    cache.chmod(0o700)


def test_concurrent_processes_write_one_file(program):
    folder, cache = program
    arguments, environment = command(folder, cache)
    several = [
        subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
        for _ in range(3)
    ]
    found = [__import__("json").loads(each.communicate(timeout=60)[0]) for each in several]
    assert [each[0] for each in found] == [20.0] * 3
    assert len(cached_files(cache)) == 1 and len(list(cache.iterdir())) == 1
    assert run(folder, cache)[:2] == [20.0, "cached"]


def test_cached_object_with_any_changed_byte_is_rejected(tmp_path):
    path = tmp_path / "x.bin"
    object_cache.write_object(path, "a key", b"code")
    assert object_cache.read_object(path, "a key") == b"code"
    assert (
        object_cache.read_object(path, "another") is None
        and object_cache.read_object(tmp_path / "none", "a key") is None
    )
    data = path.read_bytes()
    for k in range(len(data)):
        path.write_bytes(data[:k] + bytes([data[k] ^ 4]) + data[k + 1 :])
        assert object_cache.read_object(path, "a key") is None
        path.write_bytes(data[:k])
        assert object_cache.read_object(path, "a key") is None


# -- fingerprints ----------------------------------------------------------------------------------------------------
CACHED = ("_content", "_digest", "_imported", "_outermost", "_modules")


def clear():
    from quaddyn.compiler import object_cache

    for each in (fingerprint, *(getattr(object_cache, name) for name in CACHED)):
        each.cache_clear()


def test_changed_source_has_another_fingerprint(tmp_path):
    package = tmp_path / "package" / "room"
    package.mkdir(parents=True)
    for name, text in {
        "one": "from .two import (\n    f,  # why\n    g,\n)\n",
        "two": "from ..room import three\n",
        "three": "x = 1\n",
        "other": "y = 1\n",
    }.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    (package / "__init__.py").write_text("", encoding="utf-8")
    first = package / "one.py"
    clear()
    assert {each.name for each in sources(first)} == {"one.py", "two.py", "three.py", "__init__.py"}
    before = fingerprint(first)
    for name, changes in (("other", False), ("three", True), ("two", True), ("one", True)):
        path = package / f"{name}.py"
        text = path.read_text(encoding="utf-8")
        path.write_text(text + "z = 2\n", encoding="utf-8")
        clear()
        assert (fingerprint(first) != before) == changes
        path.write_text(text, encoding="utf-8")
    clear()
    assert fingerprint(first) == before
    clear()


def test_fingerprint_follows_absolute_imports(tmp_path):
    """Imports of quaddyn, of the module's own package and of modules in the same folder, in every form."""
    path, package = tmp_path / "little.py", tmp_path / "package"
    package.mkdir()
    for name in ("__init__", "numbers", "tables", "more"):
        (package / f"{name}.py").write_text("", encoding="utf-8")
    (package / "more.py").write_text("from package import (  # two (of them)\n    tables,\n)\n", encoding="utf-8")
    (tmp_path / "beside.py").write_text("import json, package.numbers as n\n", encoding="utf-8")
    path.write_text(
        "from quaddyn.compiler.lanes import axpy\nfrom quaddyn.errors import ArgumentError\nimport numpy as np\n"
        "def f():\n    from beside import x\n    import package.more\n",
        encoding="utf-8",
    )
    clear()
    found = sources(path)
    assert {"lanes.py", "errors.py"} <= {each.name for each in found}
    beside = {str(each.relative_to(tmp_path)) for each in found if tmp_path in each.parents}
    assert beside == {"little.py", "beside.py", "package/numbers.py", "package/more.py", "package/tables.py"} | {
        "package/__init__.py"
    }
    assert {each.parts[len(Path(ROOT).parts)] for each in found if Path(ROOT) in each.parents} == {"quaddyn"}
    clear()


@pytest.mark.parametrize("module", ["quaddyn.hierarchy.core", "quaddyn.wbc.tick_core", "quaddyn.simulation.integrator"])
def test_fingerprint_covers_every_function_of_a_unit(module):
    __import__(module)
    unit = CompilationUnit.of_module(module)
    files = sources(Path(sys.modules[module].__file__))
    assert {Path(f.source.__code__.co_filename) for f in unit.functions()} <= files


PACKAGE_MODULES = {
    "__init__.py": "__compilation_unit__ = 'rules'",
    "shared.py": """
        from quaddyn.compiler import compiled

        @compiled()
        def double(x: float) -> float:
            return 2.0 * x
    """,
    "first.py": """
        from quaddyn.compiler import entry
        from .shared import double

        @entry("first")
        def apply(x: float) -> float:
            return double(x) + 1.0
    """,
    "second.py": """
        from quaddyn.compiler import entry
        from .shared import double

        @entry("second")
        def apply(x: float) -> float:
            return double(x) + 3.0
    """,
    "third.py": """
        from quaddyn.compiler import entry
        from .shared import double
        __compilation_unit__ = ""

        @entry("third")
        def apply(x: float) -> float:
            return double(x) + 5.0
    """,
}


def test_entries_of_a_package_with_a_title_are_one_unit(tmp_path, monkeypatch):
    """It is complete although one of its modules is imported; entries of equal names are distinguished.

    A module that sets ``__compilation_unit__`` to "" is not part of it.
    """
    folder = tmp_path / "rules_package"
    folder.mkdir()
    for name, text in PACKAGE_MODULES.items():
        (folder / name).write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("QUADDYN_CACHE", "")
    first = importlib.import_module("rules_package.first")
    unit = CompilationUnit.of_module("rules_package.second")
    assert unit is CompilationUnit.of_module("rules_package.first") and len(unit.entries) == 1
    assert first.apply(4.0) == 9.0
    assert sys.modules["rules_package.second"].apply(4.0) == 11.0
    assert unit.title == "rules" and [each.title for each in unit.entries] == ["first", "second"]
    assert [f.source.__name__ for f in unit.functions()].count("double") == 1
    third = importlib.import_module("rules_package.third")
    separate = CompilationUnit.of_module("rules_package.third")
    assert third.apply(4.0) == 13.0 and separate.title == "third" and len(separate.entries) == 1
    (folder / "second.py").write_text((folder / "second.py").read_text().replace("3.0", "4.0"))
    key = unit.source_key("x86-64")
    for function in (fingerprint, object_cache._content, object_cache._digest):
        function.cache_clear()
    assert unit.source_key("x86-64") != key
    for name in [name for name in sys.modules if name.startswith("rules_package")]:
        monkeypatch.delitem(sys.modules, name)
    CompilationUnit.registry.pop("rules_package")


SEPARATE_MODULES = {
    "rare.py": """
        from quaddyn.compiler import Vec3, Vector, compiled, entry, vec3

        @compiled(separate="rare rules")
        def square(x: Vector, factor: float) -> Vec3:
            return vec3(factor * x[0] * x[0], 0.0, 0.0)

        @compiled(separate="rare rules")
        def clear_all(x: Vector) -> None:
            x[:] = 0.0

        @entry("rare rules", separate=True)
        def total(x: Vector) -> float:
            return x[0] + x[1] + x[2]
    """,
    "rules.py": """
        from typing import NamedTuple
        from quaddyn.compiler import Vector, compiled, entry
        from separate_rare import clear_all, square, total

        class Rule(NamedTuple):
            values: Vector
            code: Vector

        @compiled()
        def double(x: Vector) -> None:
            x[0] = 2.0 * x[0]

        def callees(rule):
            return [double, square, clear_all, total][: 1 + int(rule.code[0])]

        @entry("rules", callees=callees)
        def apply(rule: Rule, factor: float) -> float:
            if rule.code[0] == 0.0:
                double(rule.values)
            else:
                rule.values[:3] = square(rule.values, factor)
                if rule.code[0] == 2.0:
                    clear_all(rule.values)
                if rule.code[0] == 3.0:
                    return total(rule.values)
            return rule.values[0]

        @entry("rules")
        def first(x: Vector) -> float:
            return x[0]

        @entry("rules")
        def apply_to_vector(x: Vector) -> float:
            clear_all(x)
            return x[0]
    """,
}


@pytest.fixture
def rules(tmp_path, monkeypatch):
    """Module with entries that call functions of another unit."""
    for name, text in SEPARATE_MODULES.items():
        (tmp_path / f"separate_{name}").write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("QUADDYN_CACHE", "")
    yield importlib.import_module("separate_rules")
    for name in ("separate_rare", "separate_rules"):
        CompilationUnit.registry.pop(name)
        del sys.modules[name]


def linked(name):
    """Returns whether the machine code of a unit has been linked."""
    return CompilationUnit.of_module(name).origin is not None


def test_separate_functions_are_linked_when_a_call_or_bound_record_needs_them(rules):
    one, x = rules.Rule(np.array([3.0, 1.0, 1.0]), np.zeros(1)), np.array([5.0, 1.0])
    assert rules.first(x) == 5.0 and rules.apply(one, 7.0) == 6.0 and rules.apply.bind(one)(7.0) == 12.0
    assert linked("separate_rules") and not linked("separate_rare")
    two = one._replace(code=np.ones(1))
    assert rules.apply.bind(two)(0.5) == 72.0 and linked("separate_rare")
    assert CompilationUnit.of_module("separate_rare").title == "rare rules"
    assert rules.apply(one, 7.0) == 144.0
    assert rules.apply(one._replace(code=np.full(1, 2.0)), 1.0) == 0.0
    three = rules.Rule(np.array([3.0, 1.0, 1.0]), np.full(1, 3.0))
    assert rules.apply(three, 2.0) == sys.modules["separate_rare"].total(three.values) == 18.0


@pytest.mark.parametrize("call", [lambda r: r.apply_to_vector(np.ones(1)), lambda r: r.apply.compile()])
def test_all_separate_functions_are_linked_without_records(rules, call):
    call(rules)
    assert linked("separate_rare")
    assert rules.apply(rules.Rule(np.array([3.0, 1.0, 1.0]), np.ones(1)), 2.0) == 18.0


def test_separate_functions_do_not_call_separate_functions_of_other_units(rules, tmp_path, monkeypatch):
    text = """
        from quaddyn.compiler import Vector, compiled, entry
        from separate_rare import clear_all

        @compiled(separate="nested")
        def clear_twice(x: Vector) -> None:
            clear_all(x)
    """
    (tmp_path / "separate_nested.py").write_text(textwrap.dedent(text))
    importlib.import_module("separate_nested")
    monkeypatch.delitem(sys.modules, "separate_nested")
    with pytest.raises(CompileError, match="clear_twice: the function is compiled separately, and calls another"):
        CompilationUnit.registry.pop("separate_nested").module_text()


def test_invalid_arguments_of_entries_with_separate_callees_are_rejected(rules):
    for arguments in ((None, 1.0), (), (rules.Rule(np.zeros(3), [0.0]), 1.0)):
        with pytest.raises(ArgumentTypeError, match="apply"):
            rules.apply(*arguments)


def test_separate_functions_are_the_same_in_python_c_and_uncached_machine_code(rules):
    unit = CompilationUnit.of_module("separate_rules")
    for apply in (rules.apply.python, unit.compile_uncached()["apply"]):
        assert apply(rules.Rule(np.array([3.0, 1.0, 1.0]), np.ones(1)), 2.0) == 18.0
    assert "square" in c_source([rules.apply], "rules").source
    assert [f.source.__name__ for f in unit.functions()] == ["double", "apply", "first", "apply_to_vector"]


def test_prebuilt_code_is_loaded_only_from_a_private_folder(tmp_path, monkeypatch):
    unit, shipped = CompilationUnit.of_module("quaddyn.contact.nothing"), tmp_path / "shipped"
    monkeypatch.setattr(compilation_units, "PREBUILT_FOLDER", shipped)
    monkeypatch.setattr(compilation_units, "PACKAGE", tmp_path)
    monkeypatch.setattr(CompilationUnit, "source_key", lambda self, target: f"code-of-{target}")
    CompilationUnit.registry.pop("quaddyn.contact.nothing")
    shipped.mkdir(mode=0o700)
    object_cache.write_object(shipped / "code-of-here.bin", "code-of-here", struct.pack("<d", 1.5) + b"code")
    found = unit.load_machine_code("here")
    assert (found.code, found.seconds, found.source) == (b"code", 1.5, "prebuilt")
    assert found.path == str(shipped / "code-of-here.bin")
    shipped.chmod(0o777)
    assert unit.load_machine_code("here") is None


@pytest.mark.parametrize(
    ("mode", "owner", "package_mode", "private"),
    [
        (0o755, 1, 0o755, True), (0o775, 1, 0o755, False), (0o757, 1, 0o755, False), (0o775, 1, 0o757, False),
        (0o775, 1, 0o775, True), (0o755, 1, 0o777, True), (0o755, 2, 0o755, False), (0o755, 0, 0o755, False),
    ],
)  # fmt: skip
def test_folder_is_as_private_as_the_package_if_nobody_else_may_write(mode, owner, package_mode, private):
    folder, package = (
        SimpleNamespace(stat=lambda uid=uid, bits=bits: SimpleNamespace(st_uid=uid, st_mode=stat.S_IFDIR | bits))
        for uid, bits in ((owner, mode), (1, package_mode))
    )
    assert object_cache.is_as_private(folder, package) is private


def test_environment_variable_selects_the_target(monkeypatch):
    unit = CompilationUnit.of_module(importlib.import_module("quaddyn.estimation.touchdown_detector").__name__)
    monkeypatch.delenv("QUADDYN_TARGET", raising=False)
    best, usual, this = machine.portable_target(), unit.cache_key(machine.portable_target()), machine.kernel_machine()
    for text in ("native", f" {best} ", f"{best},contract=on"):
        monkeypatch.setenv("QUADDYN_TARGET", text)
        assert machine.portable_target() == best and unit.cache_key(best) == usual
    monkeypatch.setenv("QUADDYN_TARGET", "contract=off")
    assert unit.cache_key(best) != usual and unit.code(best) != b""
    for lanes in (2, 4, 8):
        monkeypatch.setenv("QUADDYN_TARGET", f"lanes={lanes}")
        assert machine.kernel_machine() == replace(this, bits=64 * lanes)
    monkeypatch.setenv("QUADDYN_TARGET", best)
    assert machine.kernel_machine() == machine.PORTABLE[best]
    other = "aarch64" if best.startswith("x86") else "x86-64-v3"
    monkeypatch.setenv("QUADDYN_TARGET", other)
    with pytest.raises(
        machine.UnsupportedMachineError,
        match=f"QUADDYN_TARGET: this processor supports machine code for {best}, not for {other}",
    ):
        machine.portable_target()
    for wrong in ("avx", "lanes=3", "contract", "x86-64;lanes=2"):
        monkeypatch.setenv("QUADDYN_TARGET", wrong)
        raises(ArgumentError, f"QUADDYN_TARGET: '{wrong}' in '{wrong}' is neither a processor", machine.portable_target)
