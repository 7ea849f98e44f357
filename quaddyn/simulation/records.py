"""Results of plants: `ContactPoint`, `Work`, and `Checkpoint`, from which a simulation can be continued."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..deprecation import renamed_fields, renamed_names
from ..urdf.tree import Array, FrozenArrays


@dataclass(frozen=True, slots=True, eq=False)
class ContactPoint(FrozenArrays):
    """Contact at the end of the last step.

    Attributes:
        sphere: name of the contact sphere: a foot or sole, a sphere of ``spheres``, or a link's name with a number.
        link: link of a default contact sphere of the body; None for feet, soles and named spheres.
        point: (3,) contact point on the ground, at the start of the step, world [m].
        normal: (3,) unit normal from the ground to the robot; if a sphere moves around an edge during
            a step of several substeps, the mean of their normals, weighted by the normal forces.
        force: (3,) mean force over the step, on the robot, world axes [N].
        friction: friction coefficient.
    """

    sphere: str
    point: Array
    normal: Array
    force: Array
    friction: float
    link: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ActivePush(FrozenArrays):
    """Push on a frame."""

    frame: str  # name of the frame
    wrench: Array  # (6,) force and moment, world axes [N, N m]
    end: float  # number of the first step without the push


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint(FrozenArrays):
    """Complete state of a plant; opaque, picklable, valid for plants made with the same arguments.

    Attributes:
        kind: class name of the plant.
        robot: name of the robot.
        spheres: names of the contact spheres.
        dt: time step [s].
        q: (nq,) configuration.
        v: (nv,) velocity [m/s, rad/s].
        tau: (nu,) motor torques of the last step [N m or N].
        steps: number of steps since the last reset.
        pushes: pushes that are active.
        inner: internal state of the simulator.
        drives: arrays of the motors with delay or backlash.
        held: arrays of the held bodies.
        settings: names and values of friction, terrain and contact law; () in logs of earlier versions.
    """

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
    settings: tuple[tuple[str, Any], ...] = ()


@renamed_fields(corrections="constraint_corrections", error="integration_error")
@dataclass(frozen=True, slots=True)
class Work:
    """Work done on the robot since the last reset [J], from the mean velocity of each step.

    Attributes:
        actuators: work of the motor torques on the joints; with backlash, of the torques that the gears transmit [J].
        joints: work of viscous and Coulomb friction in the joints, and of the joint stops [J].
        contacts: work of ground contacts; it can be positive only where compliant ground returns stored energy [J].
        pushes: work of external forces [J].
        constraint_corrections: work of the position corrections that remove penetrations by lifting the robot [J].
        integration_error: change of mechanical energy minus all work above: energy created by the integrator [J].
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
