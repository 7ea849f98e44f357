"""`compile`: from a robot and the names of operations to `Kernels`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import several
from ..robot.robot import Robot
from .kernels import Kernels
from .recipes import RECIPES, Options


def compile(
    robot: Robot,
    what: str | Sequence[str] = ("rnea",),
    *,
    dtype: DTypeLike = np.float64,
    parameters: str = "folded",
    friction: bool = False,
    frames: Sequence[str] = (),
    forces: Sequence[str] = (),
) -> Kernels:
    """Compile operations of a robot.

    Args:
        robot: a loaded robot with at least one degree of freedom.
        what: names of operations, those of `Dynamics`: "rnea", "nle", "gravity", "crba", "aba", "regressor" (13 columns
            a body), "rnea_derivatives", "frame_jacobian", "frame_drift"; and "base_regressor", whose columns belong to
            the parameters of ``parameters="runtime"``.
        dtype: float64 or float32.
        parameters: "folded" (the robot's mass properties are constants of the code) or "runtime" (base parameters are
            a last argument, by default the robot's own; see `Kernels.parameter_map`).
        friction: whether joint friction (viscous and Coulomb) is part of the dynamics; `Dynamics` leaves it out.
        frames: names for "frame_jacobian" and "frame_drift" ("local_world_aligned"); by default the robot's feet.
        forces: frames at which external forces act: "rnea" and "aba" then take ``fext``, by name as in `Dynamics` or
            stacked, (6 k,) force and torque in world axes in this order.

    Returns:
        The compiled operations.

    Raises:
        UnknownNameError: an operation that cannot be compiled, or a frame that does not exist.
        ArgumentError: a bad option.
        Unsupported: machine code cannot be made or run here.
    """
    if not isinstance(robot, Robot):
        raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
    names = several("what", (what,) if isinstance(what, str) else what, "operations")
    for name in names:
        if name not in RECIPES:
            raise UnknownNameError("operation", name, RECIPES)
    if not names:
        raise ArgumentError(f"what: no operation named; known: {', '.join(RECIPES)}")
    if robot.nv == 0:
        raise ArgumentError(f"robot: {robot.name!r} has no degree of freedom, so there is nothing to compile")
    kind = np.dtype(dtype)
    if kind not in (np.float64, np.float32):
        raise ArgumentTypeError(f"dtype: expected float64 or float32, got {kind}")
    if parameters not in ("folded", "runtime"):
        raise ArgumentError(f"parameters={parameters!r}: expected 'folded' or 'runtime'")
    if type(friction) is not bool:
        raise ArgumentTypeError(f"friction: expected a bool, got {type(friction).__name__}")
    frames, forces = several("frames", frames, "names"), several("forces", forces, "names")
    for name in (*frames, *forces):
        robot.frame_id(name)  # raises for an unknown name
    if any(RECIPES[name].framed for name in names) and not (frames or robot.feet):
        raise ArgumentError(f"frames: {robot.name!r} has no feet, so operations about a frame need names")
    options = Options(parameters == "runtime", friction, forces)
    return Kernels(robot, tuple(dict.fromkeys(names)), options, kind, frames or robot.feet)
