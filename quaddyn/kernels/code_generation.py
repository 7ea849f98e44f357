"""`compile` and `generate_c`: operations of a robot, given by name, as machine code or as C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..cuda.driver import parse_device
from ..deprecation import renamed_parameters
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import check_sequence
from ..robot.robot import Robot
from .c_source import CSource, c_source
from .kernels import Kernels
from .operations import OPERATIONS, KernelOptions, trace_operation
from .ptx_module import LAYOUTS


@renamed_parameters(what="operations")
def compile(
    robot: Robot,
    operations: str | Sequence[str] = ("rnea",),
    *,
    dtype: DTypeLike = np.float64,
    parameters: str = "folded",
    friction: bool = False,
    frames: Sequence[str] = (),
    forces: Sequence[str] = (),
    device: str = "cpu",
    layout: str = "rows",
) -> Kernels:
    """Compiles operations of a robot.

    Args:
        robot: a loaded robot with at least one degree of freedom.
        operations: name or names of operations, as in `Dynamics`: "rnea", "nle", "gravity", "crba", "aba", "regressor"
            (13 columns a body), "rnea_derivatives", "aba_derivatives", "center_of_mass", "com_jacobian",
            "centroidal_momentum", "frame_jacobian", "frame_drift"; and "base_regressor", whose columns belong to the
            first of the parameters of ``parameters="runtime"``, those that are mass properties.  The operations on the
            center of mass use the robot's own masses.
        dtype: float64 or float32.
        parameters: "folded" (the robot's mass properties are constants of the code) or "runtime" (base parameters are
            a last argument, by default the robot's own; see `Kernels.parameter_map`).
        friction: whether joint friction (viscous and Coulomb) is part of the dynamics; `Dynamics` leaves it out.
        frames: names for "frame_jacobian" and "frame_drift" ("local_world_aligned"); by default the robot's feet.
        forces: frames at which external forces act: "rnea" and "aba" then take ``fext``, by name as in `Dynamics` or
            stacked, (6 k,) force [N] and torque [N m] in world axes in this order.
        device: "cpu", or a GPU with NVIDIA's driver: "cuda" (the first) or "cuda:N".  Operations then take arrays in
            the memory of the GPU; see `quaddyn.kernels.cuda_kernels.CudaOperation`.
        layout: memory layout of batches on a GPU: "rows", (N, n), or "columns", (n, N).

    Returns:
        The compiled operations.

    Raises:
        UnknownNameError: an operation that cannot be compiled, or a frame that does not exist.
        ArgumentError: an option out of range.
        UnsupportedMachineError: machine code cannot be made or run here.
        CudaError: there is no driver or GPU that can be used.
    """
    on_gpu = parse_device(device) is not None
    if layout not in LAYOUTS or (layout == "columns" and not on_gpu):
        allowed = " or ".join(map(repr, LAYOUTS)) if on_gpu else "'rows' for device='cpu'"
        raise ArgumentError(f"layout={layout!r}: expected {allowed}")
    return Kernels(*check_options(robot, operations, dtype, parameters, friction, frames, forces), device, layout)


@renamed_parameters(what="operation")
def generate_c(
    robot: Robot,
    operation: str = "rnea",
    *,
    dtype: DTypeLike = np.float64,
    parameters: str = "folded",
    friction: bool = False,
    frame: str | None = None,
    forces: Sequence[str] = (),
) -> str:
    """Returns C99 source of one operation: ``void go2_rnea(const double q[19], ..., double tau[18])``.

    The text is self-contained (it includes math.h only), allocates nothing and has no branches; its banner describes
    what it computes, in what order, and with how many operations.  Unlike compiled kernels it does not validate its
    arguments.

    Args:
        robot: a loaded robot.
        operation: name of the operation, see `compile`.
        dtype: float64 or float32.
        parameters: "folded" or "runtime", see `compile`.
        friction: whether joint friction is part of the dynamics.
        frame: name of the frame of "frame_jacobian" and "frame_drift"; None for other operations.
        forces: names of frames at which external forces act.

    Raises:
        UnknownNameError: an operation or a frame that does not exist.
        ArgumentError: an option out of range.
    """
    return c_files(
        robot, operation, dtype=dtype, parameters=parameters, friction=friction, frame=frame, forces=forces
    ).source


@renamed_parameters(what="operation")
def c_files(
    robot: Robot,
    operation: str = "rnea",
    *,
    dtype: DTypeLike = np.float64,
    parameters: str = "folded",
    friction: bool = False,
    frame: str | None = None,
    forces: Sequence[str] = (),
) -> CSource:
    """Returns the C99 source and header of one operation.

    Args:
        robot: see `generate_c`.
        operation: see `generate_c`.
        dtype: see `generate_c`.
        parameters: see `generate_c`.
        friction: see `generate_c`.
        frame: see `generate_c`.
        forces: see `generate_c`.

    Raises:
        UnknownNameError: an operation or a frame that does not exist.
        ArgumentError: an option out of range.
    """
    frames = () if frame is None else (frame,)
    _, (name,), options, kind, _ = check_options(
        robot, (operation,), dtype, parameters, friction, frames, forces, explicit_frames=True
    )
    needs_frame = OPERATIONS[name].needs_frame
    if needs_frame != (frame is not None):
        raise ArgumentError(
            f"frame={frame!r}: {name} "
            + ("requires a frame; pass its name" if needs_frame else "does not use a frame; remove it")
        )
    return c_source(robot, trace_operation(name, robot, options, frame), "double" if kind == np.float64 else "float")


def check_options(
    robot: Robot,
    operations: str | Sequence[str],
    dtype: DTypeLike,
    parameters: str,
    friction: bool,
    frames: Sequence[str],
    forces: Sequence[str],
    *,
    explicit_frames: bool = False,
) -> tuple[Robot, tuple[str, ...], KernelOptions, np.dtype[Any], tuple[str, ...]]:
    """Validates the options of `compile` and returns the arguments of `Kernels`: names are unique, defaults filled in.

    Args:
        robot: as in `compile`, like all that follow.
        operations: names of operations.
        dtype: float64 or float32.
        parameters: "folded" or "runtime".
        friction: whether joint friction is part of the dynamics.
        frames: by default the feet.
        forces: frames at which forces act.
        explicit_frames: whether `frames` has no default, so that a missing frame is not an error here.
    """
    if not isinstance(robot, Robot):
        raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
    try:
        kind = np.dtype(dtype)
    except TypeError as error:
        raise ArgumentTypeError(f"dtype: expected float64 or float32; {error}") from None
    if kind not in (np.float64, np.float32):
        raise ArgumentTypeError(f"dtype: expected float64 or float32, got {kind}")
    names = check_sequence("operations", (operations,) if isinstance(operations, str) else operations, "operations")
    for name in names:
        if name not in OPERATIONS:
            raise UnknownNameError("operation", name, OPERATIONS)
    if not names:
        raise ArgumentError(f"operations: expected at least one operation, got none; known: {', '.join(OPERATIONS)}")
    if robot.nv == 0:
        raise ArgumentError(f"robot: {robot.name!r} has no degree of freedom, so there is nothing to compile")
    if parameters not in ("folded", "runtime"):
        raise ArgumentError(f"parameters={parameters!r}: expected 'folded' or 'runtime'")
    if type(friction) is not bool:
        raise ArgumentTypeError(f"friction: expected a bool, got {type(friction).__name__}")
    forces, frames = check_sequence("forces", forces, "names"), check_sequence("frames", frames, "names")
    for name in (*forces, *frames):
        robot.frame_id(name)  # raises for an unknown name
    if len(set(forces)) < len(forces):
        raise ArgumentError(f"forces={forces!r}: expected each frame once; add up several forces at one frame")
    if not explicit_frames and any(OPERATIONS[name].needs_frame for name in names) and not (frames or robot.feet):
        raise ArgumentError(
            f"frames: required for operations about a frame, because {robot.name!r} has no feet, which are the "
            "default; pass the names of frames"
        )
    options = KernelOptions(parameters == "runtime", friction, forces)
    return robot, tuple(dict.fromkeys(names)), options, kind, tuple(dict.fromkeys(frames or robot.feet))
