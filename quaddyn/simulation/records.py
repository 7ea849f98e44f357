"""What plants hand out: a `ContactPoint`, a `ActivePush`, `Work`, and a `Checkpoint` from which a run goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..deprecation import renamed_fields, renamed_names
from ..urdf.tree import Array, FrozenArrays


@dataclass(frozen=True, slots=True, eq=False)
class ContactPoint(FrozenArrays):
    """A contact at the end of the last step.

    Attributes:
        sphere: name of what touches: a foot or sole, one of ``spheres``, or a link's name with a number.
        link: that touches, where it is none of these but a part of the body; else None.
        point: (3,) on the ground, at the start of the step, world axes [m].
        normal: (3,) from the ground towards the robot.
        force: (3,) mean over the step, on the robot, world axes [N].
        friction: Coulomb's coefficient.
    """

    sphere: str
    point: Array
    normal: Array
    force: Array
    friction: float
    link: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ActivePush(FrozenArrays):
    """A force and moment (6,) on a frame [N, N m], world axes, until before step `end`."""

    frame: str
    wrench: Array
    end: float


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint(FrozenArrays):
    """Everything a plant goes on from; opaque, picklable, good for plants made with the same arguments."""

    kind: str
    robot: str
    spheres: tuple[str, ...]
    dt: float
    q: Array
    v: Array
    tau: Array
    steps: int
    pushes: tuple[ActivePush, ...]
    inner: tuple[Any, ...]
    drives: tuple[Any, ...] = ()
    held: tuple[Any, ...] = ()


@renamed_fields(corrections="constraint_corrections", error="integration_error")
@dataclass(frozen=True, slots=True)
class Work:
    """Work done on the robot since the last reset [J], each force times the mean of the velocities around the step.

    Attributes:
        actuators: by the torques that the motors delivered; of gears with backlash, by their teeth on the joints.
        joints: by viscous and Coulomb friction in the joints, and by their stops.
        contacts: by the ground; never positive but for what a compliant ground had stored.
        pushes: by external forces.
        constraint_corrections: what undoing penetrations lifted the robot.
        integration_error: the rest of the change of mechanical energy: what the integrator made (or, negative, lost).
    """

    actuators: float = 0.0
    joints: float = 0.0
    contacts: float = 0.0
    pushes: float = 0.0
    constraint_corrections: float = 0.0
    integration_error: float = 0.0

    @property
    def total(self) -> float:
        """Total work of all forces [J].

        It is the change of mechanical energy without `constraint_corrections` and `integration_error`.
        """
        return self.actuators + self.joints + self.contacts + self.pushes


#: Pickled checkpoints of the last version name these classes.
__getattr__ = renamed_names(__name__, {"Push": "ActivePush", "TouchingPoint": "ContactPoint"})
