"""`Elements`: the tasks and constraints of a controller by name; names of default elements have typed attributes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from ..deprecation import renamed_attributes
from ..errors import ArgumentTypeError, UnknownAttributeError
from .constraints import ContactMotion, FrictionPyramid, JointBounds, JointFriction, NormalForce, TorqueLimits
from .element import Element
from .named_items import NamedItems
from .tasks import ComTask, FootTask, ForceTask, FrameOrientationTask, PostureTask

Kind = TypeVar("Kind", bound=Element)


@renamed_attributes(of="get_typed")
class Elements(NamedItems[Any]):
    """Mapping of names to tasks and constraints.

    Args:
        kind: name of the kind of items, for errors, such as "task".
        items: elements by name.

    ``tasks["com"]`` and ``tasks.com`` are the same object.  The attributes exist for the elements that a controller has
    by default; type checkers and editors know their classes.  For other elements use ``tasks["wrist"]``, or
    ``tasks.get_typed("wrist", FrameTask)`` for a checked type.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, name: Literal["com"]) -> ComTask: ...
        @overload
        def __getitem__(self, name: Literal["base"]) -> FrameOrientationTask: ...
        @overload
        def __getitem__(self, name: Literal["posture"]) -> PostureTask: ...
        @overload
        def __getitem__(self, name: Literal["forces"]) -> ForceTask: ...
        @overload
        def __getitem__(self, name: Literal["contact"]) -> ContactMotion: ...
        @overload
        def __getitem__(self, name: Literal["friction"]) -> FrictionPyramid: ...
        @overload
        def __getitem__(self, name: Literal["normal force"]) -> NormalForce: ...
        @overload
        def __getitem__(self, name: Literal["torque"]) -> TorqueLimits: ...
        @overload
        def __getitem__(self, name: Literal["joint bounds"]) -> JointBounds: ...
        @overload
        def __getitem__(self, name: Literal["joint friction"]) -> JointFriction: ...
        @overload
        def __getitem__(self, name: Literal["FL", "FR", "RL", "RR", "L", "R"]) -> FootTask: ...
        @overload
        def __getitem__(self, name: str) -> Any: ...
        def __getitem__(self, name: str) -> Any: ...

    else:

        def __getattr__(self, name):
            if name in self:  # exists, but is not one of the default elements, which have attributes
                raise AttributeError(f"{name!r} is not an attribute of {type(self).__name__}; use tasks[{name!r}]")
            raise UnknownAttributeError(type(self).__name__, name, [n for n in dir(type(self)) if n[0] != "_"])

    def get_typed(self, name: str, kind: type[Kind]) -> Kind:
        """Returns an element and checks its class.

        Args:
            name: name of the element.
            kind: expected class, or a base class of it.

        Raises:
            UnknownNameError: no element has this name.
            ArgumentTypeError: the element is of another class.
        """
        element = self[name]
        if not isinstance(element, kind):
            raise ArgumentTypeError(f"kind: {name!r} is of class {type(element).__name__}, not {kind.__name__}")
        return element

    @property
    def com(self) -> ComTask:
        """Task of the center of mass."""
        return self.get_typed("com", ComTask)

    @property
    def base(self) -> FrameOrientationTask:
        """Task of the orientation of the base."""
        return self.get_typed("base", FrameOrientationTask)

    @property
    def feet(self) -> Mapping[str, FootTask]:
        """Tasks of the swing feet by name of the foot."""
        feet = {name: task for name, task in self.items() if isinstance(task, FootTask)}
        return MappingProxyType(NamedItems("foot", feet))

    @property
    def posture(self) -> PostureTask:
        """Task of the joint positions."""
        return self.get_typed("posture", PostureTask)

    @property
    def forces(self) -> ForceTask:
        """Task of the contact forces."""
        return self.get_typed("forces", ForceTask)

    @property
    def contact(self) -> ContactMotion:
        """Constraint that keeps closed contacts at rest."""
        return self.get_typed("contact", ContactMotion)

    @property
    def friction(self) -> FrictionPyramid:
        """Friction pyramids of the contacts."""
        return self.get_typed("friction", FrictionPyramid)

    @property
    def normal_force(self) -> NormalForce:
        """Bounds of the normal forces."""
        return self.get_typed("normal force", NormalForce)

    @property
    def torque(self) -> TorqueLimits:
        """Limits of the joint torques."""
        return self.get_typed("torque", TorqueLimits)

    @property
    def joint_bounds(self) -> JointBounds:
        """Limits of joint positions, velocities and accelerations."""
        return self.get_typed("joint bounds", JointBounds)

    @property
    def joint_friction(self) -> JointFriction:
        """Compensation of joint friction."""
        return self.get_typed("joint friction", JointFriction)
