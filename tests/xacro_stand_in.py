"""The package xacro, or a substitute with the functions that the tests need if it is not installed."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from xml.dom import minidom

import pytest


def provide_xacro(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `import xacro` possible for the duration of a test."""
    for name in [n for n in sys.modules if n.split(".")[0] == "xacro"]:  # modules left by another test
        monkeypatch.delitem(sys.modules, name)
    if importlib.util.find_spec("xacro") is None:
        module = types.ModuleType("xacro")
        module.__spec__ = importlib.util.spec_from_loader("xacro", loader=None)
        module.process_file = process_file  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "xacro", module)


def process_file(path: str, mappings: Mapping[str, str] | None = None) -> minidom.Document:
    """Includes files and substitutes ``$(find ...)`` and ``$(arg ...)``; asks ROS for packages, as xacro does."""
    document = minidom.parse(path)
    values = dict(mappings or {})
    for default in document.getElementsByTagName("xacro:arg"):
        values.setdefault(default.getAttribute("name"), default.getAttribute("default"))
    _expand(document, Path(path).parent, values)
    return document


def _expand(document: minidom.Document, folder: Path, values: Mapping[str, str]) -> None:
    root = document.documentElement
    for node in [n for n in root.getElementsByTagName("*")]:
        for name, value in list(node.attributes.items()):
            node.setAttribute(name, _substituted(value, values))
    for node in [n for n in root.childNodes if n.nodeName in ("xacro:include", "xacro:arg")]:
        if node.nodeName == "xacro:include":
            part = minidom.parse(str(folder / node.getAttribute("filename")))
            _expand(part, folder, values)
            for child in list(part.documentElement.childNodes):
                root.insertBefore(document.importNode(child, True), node)
        root.removeChild(node)


def _substituted(text: str, values: Mapping[str, str]) -> str:
    before, opening, rest = text.partition("$(")
    if not opening:
        return text
    command, _, after = rest.partition(")")
    kind, _, name = command.partition(" ")
    if kind == "find":
        from ament_index_python.packages import get_package_share_directory

        value = get_package_share_directory(name)
    elif name in values:
        value = values[name]
    else:
        raise RuntimeError(f"Undefined substitution argument {name}")
    return _substituted(before + value + after, values)
