"""Old names work with a warning that names the new one, and signatures show only the new names."""

import importlib
import inspect
import sys
import types
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import pytest
from raising import raises

from quaddyn.deprecation import (
    RENAMED,
    renamed_attributes,
    renamed_fields,
    renamed_names,
    renamed_overrides,
    renamed_parameters,
    renamed_values,
)
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
    raises(TypeError, r"pass only velocity=", Walker, "a", speed=4.0, velocity=3.0)


def test_old_values_of_an_argument_are_replaced():
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


def test_old_modules_give_the_objects_of_the_new_ones():
    """The stores and programs of earlier versions name these modules."""
    from quaddyn.campaigns import obstacles, walking_campaigns

    with pytest.warns(DeprecationWarning, match=r"campaigns.obstacles.ObstacleCampaign is now quaddyn") as caught:
        assert obstacles.ObstacleCampaign is walking_campaigns.ObstacleCampaign
    assert caught[0].filename == __file__
    assert importlib.import_module("quaddyn.control.impedance").__doc__.startswith("Deprecated")
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = obstacles.no_such_name


@renamed_fields(slow="speed")
@dataclass(frozen=True, slots=True)
class Limits:
    """A dataclass with a renamed field."""

    speed: float = 1.0


def test_old_fields_of_a_dataclass_are_accepted_and_forwarded():
    with pytest.warns(DeprecationWarning, match=r"Limits\(slow=\) is now Limits\(speed=\)"):
        limits = Limits(slow=2.0)
    assert replace(limits, speed=3.0) == Limits(3.0)
    with pytest.warns(DeprecationWarning, match=r"Limits.slow is now Limits.speed"):
        assert limits.slow == 2.0


@renamed_overrides(listen="read_device")
@renamed_attributes(of="from_number")
class Device(ABC):
    """An abstract class for users."""

    @abstractmethod
    def read_device(self) -> int:
        """The abstract method under its new name."""

    @classmethod
    def from_number(cls, number: int) -> tuple[type, int]:
        return cls, number


def test_old_class_methods_are_called_on_the_class():
    with pytest.warns(DeprecationWarning, match=r"Device.of is now Device.from_number"):
        assert Device.of(3) == (Device, 3)


def test_overrides_of_old_names_define_the_new_ones():
    with pytest.warns(DeprecationWarning, match=r"Device.listen is now Device.read_device") as caught:

        class Old(Device):
            def listen(self):
                return 4

    assert caught[0].filename == __file__
    assert Old().read_device() == 4


def test_every_renaming_is_registered():
    assert RENAMED[f"{__name__}.Walker.speed"] == "velocity"
    assert RENAMED[f"{__name__}.Walker(speed)"] == "velocity"
    renamed_names("some_module", {"Old": "New"})
    assert RENAMED["some_module.Old"] == "New"


def test_constructor_signature_shows_the_new_names():
    assert str(inspect.signature(Walker)) == "(name: str, *, velocity: float = 1.0, ground: str = 'known') -> None"


@pytest.mark.parametrize(
    "old, new, name", [("agreement", "verification", "cross_check"), ("compiling", "compiler", "entry")]
)
def test_subpackages_can_be_imported_under_their_old_names(old, new, name):
    module = importlib.import_module(f"quaddyn.{old}")
    with pytest.warns(DeprecationWarning, match=f"quaddyn.{old}.{name} is now quaddyn.{new}.{name}"):
        assert getattr(module, name) is getattr(importlib.import_module(f"quaddyn.{new}"), name)
