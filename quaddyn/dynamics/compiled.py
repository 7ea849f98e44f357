"""`compile`: generated kernels where this machine can run them, and Pinocchio behind the same calls where it cannot."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import kernels
from ..deprecation import renamed_parameters
from ..kernels import Kernels, OperationCounts, UnsupportedMachineError
from ..kernels.kernel_cache import KernelSignature
from ..kernels.kernels import DERIVATIVES, FrameOperation, NotCompiledError, Operation, check_options
from ..kernels.operations import OPERATIONS
from ..robot.robot import Robot
from .dynamics import Dynamics

_warned_reasons: set[str] = set()


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
) -> Kernels | PinocchioKernels:
    """Compiles operations of a robot, as `quaddyn.kernels.compile`; falls back on Pinocchio.

    Where machine code cannot be made or run (no llvmlite, an unknown processor, no executable memory) a
    `RuntimeWarning` is issued once, and the same calls are computed by Pinocchio, state by state.

    Args:
        robot: a loaded robot.
        operations: names of the operations to compile, such as "rnea".
        dtype: number type of arguments and results: float64 or float32.
        parameters: "folded" to compile the robot's parameters into the code, "runtime" to pass them in each call.
        friction: whether the operations include joint friction.
        frames: names of the frames of "frame_jacobian" and "frame_drift".
        forces: names of the frames at which external forces act.
        device: "cpu", "cuda" (the first GPU) or "cuda:N"; arguments and results are then in the memory of the GPU.
        layout: memory layout of batches on a GPU: "rows", (N, n), or "columns", (n, N).

    Raises:
        UnknownNameError: an operation that cannot be compiled, or a frame that does not exist.
        ArgumentError: a bad option.
        UnsupportedMachineError: machine code cannot be made, and Pinocchio offers no substitute ("base_regressor",
            run-time parameters, joint friction, a GPU).
        CudaError: there is no driver or GPU that can be used.
    """
    operations = (
        tuple(operations) if isinstance(operations, Iterable) and not isinstance(operations, str) else operations
    )
    options: dict[str, Any] = {"parameters": parameters, "friction": friction, "frames": frames, "forces": forces}
    try:
        return kernels.compile(robot, operations, dtype=dtype, device=device, layout=layout, **options)
    except UnsupportedMachineError as error:
        _, names, _, kind, chosen = check_options(robot, operations, dtype, parameters, friction, frames, forces)
        if device != "cpu" or parameters == "runtime" or friction or "base_regressor" in names:
            raise
        if str(error) not in _warned_reasons:
            _warned_reasons.add(str(error))
            warnings.warn(
                f"compiled kernels are not available ({error}); Pinocchio computes the same operations, more slowly",
                RuntimeWarning,
                stacklevel=2,
            )
        return PinocchioKernels(robot, names, kind, chosen, tuple(forces))


class PinocchioKernels:
    """Slow substitute of `Kernels` that computes the same operations, with the same arguments, by `Dynamics`.

    It can be shared between threads, which wait for each other.

    Attributes:
        robot: the robot.
        names: names of the operations.
        frames: names of the frames for which operations about a frame are available.
        forces: names of the frames at which external forces act.
        operations: operation counts of the generated code; empty, as there is none.
        dtype: type of results.
    """

    def __init__(
        self,
        robot: Robot,
        names: Sequence[str],
        dtype: np.dtype[Any],
        frames: Sequence[str] = (),
        forces: Sequence[str] = (),
    ) -> None:
        self.robot, self.names, self.dtype = robot, tuple(names), dtype
        self.frames, self.forces = tuple(frames), tuple(forces)
        self.operations: Mapping[str, OperationCounts] = MappingProxyType({})
        dynamics, lock = Dynamics(robot), threading.Lock()
        for name in self.names:
            if OPERATIONS[name].needs_frame:
                calls = {x: PinocchioOperation(name, dynamics, lock, dtype, x, self.forces) for x in self.frames}
                setattr(self, name, FrameOperation(name, calls))
            else:
                setattr(self, name, PinocchioOperation(name, dynamics, lock, dtype, None, self.forces))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Raises an error: Python calls it only for an attribute that does not exist."""
        if name in OPERATIONS:
            raise NotCompiledError("compiled operation", name, self.__dict__.get("names", ()))
        raise AttributeError(f"PinocchioKernels has no attribute {name!r}; it has one for each name in its `names`")

    def __reduce__(self) -> tuple[object, ...]:
        return PinocchioKernels, (self.robot, self.names, self.dtype, self.frames, self.forces)

    def __repr__(self) -> str:
        return f"PinocchioKernels({self.robot.name!r}, {', '.join(self.names)}, {self.dtype})"


class PinocchioOperation(Operation):
    """One operation: checks arguments as a kernel does, then calls `Dynamics` for one state at a time."""

    def __init__(
        self,
        name: str,
        dynamics: Dynamics,
        lock: threading.Lock,
        dtype: np.dtype[Any],
        frame: str | None,
        forces: tuple[str, ...],
    ) -> None:
        robot, recipe = dynamics.robot, OPERATIONS[name]
        n = robot.nv
        inputs = [(x, robot.nq if x == "q" else n) for x in recipe.arguments]
        if recipe.has_external_forces and forces:
            inputs.append(("fext", 6 * len(forces)))
        shape = {
            "crba": (n, n),
            "regressor": (n, 13 * len(robot.bodies)),
            "frame_jacobian": (6, n),
            "frame_drift": (6,),
            "center_of_mass": (3,),
            "com_jacobian": (3, n),
            "centroidal_momentum": (6,),
            "rnea_derivatives": (n, n),
            "aba_derivatives": (n, n),
        }.get(name, (n,))
        outputs = ((name, shape),) * (3 if name in DERIVATIVES else 1)
        interface = KernelSignature(tuple(inputs), outputs, (), (), OperationCounts(0, 0, 0, 0, 0, 0, 0))
        super().__init__(name, robot.name, interface, dtype)
        self.__doc__ = f"{name}({', '.join(x for x, _ in inputs)}): see `Dynamics.{name}`; rows of a batch one by one."
        self.dynamics, self.lock, self.frame, self.forces = dynamics, lock, frame, forces
        self.defaults["fext"] = np.zeros(6 * len(forces))

    def _run(self, arrays: list[NDArray[Any]], results: list[NDArray[Any]], n: int, single: bool, threads: int) -> None:
        self._raise_if_invalid(arrays, ())
        method = getattr(self.dynamics, self.name)
        plain = len(OPERATIONS[self.name].arguments)
        with self.lock:
            for k in range(n):
                row = [np.ascontiguousarray(x if single else x[k], dtype=np.float64) for x in arrays]
                named: dict[str, Any] = {} if self.frame is None else {"name": self.frame}
                if len(row) > plain:
                    named["fext"] = dict(zip(self.forces, row[plain].reshape(-1, 6), strict=True))
                answer = method(*row[:plain], **named)
                for result, x in zip(results, answer if isinstance(answer, tuple) else (answer,), strict=True):
                    result[... if single else k] = x
