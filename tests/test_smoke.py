"""The quick check ``pytest -m smoke`` covers every subpackage; parts of it that no other file tests."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

import pytest
from smoke_tests import SMOKE_TESTS

import quaddyn as qd


def test_quick_check_has_an_existing_test_of_every_subpackage() -> None:
    assert set(SMOKE_TESTS) == {info.name for info in pkgutil.iter_modules(qd.__path__) if info.ispkg}
    for where in SMOKE_TESTS.values():
        file, test = where.split("::")
        assert f"def {test}(" in (Path(__file__).with_name(f"{file}.py")).read_text(encoding="utf-8"), where


@pytest.mark.parametrize(("extra", "name", "what"), [("torch", "PyTorch", "Torch"), ("jax", "JAX", "Jax")])
def test_missing_extra_is_named(extra: str, name: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, extra, None)  # as if it were not installed
    with pytest.raises(qd.QuaddynError, match=rf"{name} is not installed; .* 'quaddyn\[{extra}\]'"):
        getattr(importlib.import_module(f"quaddyn.{extra}"), f"{what}Dynamics")(qd.load("go2"))


def test_righting_search_returns_a_motion_or_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    from quaddyn.planning import plan_righting, righting_search

    monkeypatch.setattr(righting_search, "FIRST_GENERATION_SIZE", 1)  # tries of the first generation
    plan = plan_righting(qd.load("go2"), max_trials=1, use_cache=False, progress=[].append)
    assert "back" in {*plan.motions, *plan.infeasible} and all("deg" in reason for reason in plan.infeasible.values())
