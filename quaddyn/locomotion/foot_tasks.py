"""Compiled references of the tasks of the feet: swing feet follow their paths, stance feet hold their positions."""

from ..compiler import Matrix, Vector, compiled, entry
from ..wbc.tasks.motion_parameters import motion_parameters
from .swing import SwingStates


@compiled()
def set_foot_reference(s: SwingStates, feet: Matrix, foot: int, parameters: Vector) -> None:
    """Sets the reference of the task of a foot.

    Args:
        s: swings of the feet.
        feet: (4, 3) centers of the foot spheres, world [m].
        foot: index of the foot.
        parameters: parameters of the task, `FootTask.block`; position, velocity and acceleration are written.
    """
    p = motion_parameters(parameters, 3)
    p.has_reference[0] = 1.0
    if s.is_swinging[foot] != 0:
        p.position[:] = s.position[foot]
        p.velocity[:] = s.velocity[foot]
        p.acceleration[:] = s.acceleration[foot]
    else:
        p.position[:] = feet[foot]
        p.velocity[:] = 0.0
        p.acceleration[:] = 0.0


@entry("references of the feet")
def set_foot_references(s: SwingStates, feet: Matrix, fl: Vector, fr: Vector, rl: Vector, rr: Vector) -> None:
    """Sets the references of the tasks of all feet; see `set_foot_reference`."""
    set_foot_reference(s, feet, 0, fl)
    set_foot_reference(s, feet, 1, fr)
    set_foot_reference(s, feet, 2, rl)
    set_foot_reference(s, feet, 3, rr)
