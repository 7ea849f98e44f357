"""Old names work with a warning that says the new one, and signatures show the new names alone."""

import importlib
import inspect
import sys
import types

import pytest

from quaddyn.deprecation import RENAMED, renamed_attributes, renamed_names, renamed_parameters, renamed_values
from quaddyn.strict_attributes import StrictAttributes


@renamed_attributes(speed="velocity", go="walk")
class Walker(StrictAttributes):
    """A class with renamed attributes, parameters and values."""

    @renamed_values("ground", told="known")
    @renamed_parameters(speed="velocity")
    def __init__(self, name: str, *, velocity: float = 1.0, ground: str = "known") -> None:
        self.name, self.velocity, self.ground = name, velocity, ground

    def walk(self, seconds: float) -> float:
        return self.velocity * seconds


def test_old_attributes_read_write_and_call_the_new_ones():
    walker = Walker("a")
    with pytest.warns(DeprecationWarning, match=r"Walker.speed is now Walker.velocity") as caught:
        assert walker.speed == 1.0
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="velocity"):
        walker.speed = 2.0
    with pytest.warns(DeprecationWarning, match=r"Walker.go is now Walker.walk"):
        assert walker.go(3.0) == 6.0


def test_old_keyword_arguments_are_passed_on_under_the_new_name():
    with pytest.warns(DeprecationWarning, match=r"Walker\(speed=\) is now Walker\(velocity=\)") as caught:
        assert Walker("a", speed=4.0).velocity == 4.0
    assert caught[0].filename == __file__
    with pytest.raises(TypeError, match=r"pass velocity= alone"):
        Walker("a", speed=4.0, velocity=3.0)


def test_old_values_of_a_word_are_replaced():
    with pytest.warns(DeprecationWarning, match=r"ground='known'"):
        assert Walker("a", ground="told").ground == "known"
    assert Walker("a", ground="known").ground == "known"


def test_old_names_of_a_module_give_the_new_objects():
    module = types.ModuleType("some_module")
    module.New = int
    sys.modules["some_module"] = module
    module.__getattr__ = renamed_names("some_module", {"Old": "New"})
    with pytest.warns(DeprecationWarning, match=r"some_module.Old is now New"):
        assert module.Old is int
    with pytest.raises(AttributeError, match="no attribute 'Older'"):
        _ = module.Older
    del sys.modules["some_module"]


def test_every_renaming_is_listed():
    assert RENAMED[f"{__name__}.Walker.speed"] == "velocity"
    assert RENAMED[f"{__name__}.Walker(speed)"] == "velocity"
    assert RENAMED["some_module.Old"] == "New"


def test_signatures_show_the_constructors_new_names():
    assert str(inspect.signature(Walker)) == "(name: str, *, velocity: float = 1.0, ground: str = 'known') -> None"


@pytest.mark.parametrize(
    "old, new, name", [("agreement", "verification", "cross_check"), ("compiling", "compiler", "entry")]
)
def test_subpackages_are_served_under_their_old_names(old, new, name):
    module = importlib.import_module(f"quaddyn.{old}")
    with pytest.warns(DeprecationWarning, match=f"quaddyn.{old}.{name} is now quaddyn.{new}.{name}"):
        assert getattr(module, name) is getattr(importlib.import_module(f"quaddyn.{new}"), name)
