"""`Elements`: the tasks and constraints of a controller by name, typed where the name says what they are."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from ..deprecation import renamed_attributes
from ..errors import ArgumentTypeError, UnknownAttributeError
from .constraints import ContactMotion, FrictionPyramid, JointBounds, JointFriction, NormalForce, TorqueLimits
from .element import Element
from .named import Named
from .tasks import ComTask, FootTask, ForceTask, FrameOrientationTask, PostureTask

Kind = TypeVar("Kind", bound=Element)


@renamed_attributes(of="get_typed")
class Elements(Named[Any]):
    """Tasks and constraints by name.

    ``tasks["com"]`` and ``tasks.com`` are the same object; the attributes are for the elements that a controller has by
    default, and a type checker knows their kinds, as an editor does that completes them.  Others, and those whose
    name another kind has taken, are ``tasks.of("wrist", FrameTask)``.
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
            if name in self:  # one of its kind, which no type checker could know by attribute
                raise AttributeError(
                    f"{name!r} is no attribute of {type(self).__name__}; it is found by tasks[{name!r}]"
                )
            raise UnknownAttributeError(type(self).__name__, name, [n for n in dir(type(self)) if n[0] != "_"])

    def get_typed(self, name: str, kind: type[Kind]) -> Kind:
        """An element, of which the caller knows the kind.

        Args:
            name: of the element.
            kind: its class, or one of that class's bases.

        Raises:
            UnknownNameError: no such element.
            ArgumentTypeError: it is of another kind.
        """
        found = self[name]
        if not isinstance(found, kind):
            raise ArgumentTypeError(f"tasks: {name!r} is a {type(found).__name__}, not a {kind.__name__}")
        return found

    @property
    def com(self) -> ComTask:
        """The centre of mass."""
        return self.get_typed("com", ComTask)

    @property
    def base(self) -> FrameOrientationTask:
        """Orientation of the base."""
        return self.get_typed("base", FrameOrientationTask)

    @property
    def feet(self) -> Mapping[str, FootTask]:
        """Feet in the air, by name."""
        feet = {name: task for name, task in self.items() if isinstance(task, FootTask)}
        return MappingProxyType(Named("foot", feet))

    @property
    def posture(self) -> PostureTask:
        """Joint positions."""
        return self.get_typed("posture", PostureTask)

    @property
    def forces(self) -> ForceTask:
        """Contact forces."""
        return self.get_typed("forces", ForceTask)

    @property
    def contact(self) -> ContactMotion:
        """Contacts that hold do not move."""
        return self.get_typed("contact", ContactMotion)

    @property
    def friction(self) -> FrictionPyramid:
        """Friction of the contacts."""
        return self.get_typed("friction", FrictionPyramid)

    @property
    def normal_force(self) -> NormalForce:
        """Bounds of the normal forces."""
        return self.get_typed("normal force", NormalForce)

    @property
    def torque(self) -> TorqueLimits:
        """Limits of the torques."""
        return self.get_typed("torque", TorqueLimits)

    @property
    def joint_bounds(self) -> JointBounds:
        """Limits of joint positions, velocities and accelerations."""
        return self.get_typed("joint bounds", JointBounds)

    @property
    def joint_friction(self) -> JointFriction:
        """Friction of the joints, as motors overcome it."""
        return self.get_typed("joint friction", JointFriction)
