"""`DifferentiableDynamics`: operations of a robot with gradients, for libraries of automatic differentiation."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError
from ..robot.robot import Robot
from ..urdf.tree import Array
from .code_generation import check_options
from .gradients import DifferentiableOperation
from .kernels import Kernels

#: Array type of the library.
T = TypeVar("T")


class DifferentiableDynamics(abc.ABC, Generic[T]):
    """Compiled operations of one robot with gradients by all their arguments, on one state or a batch.

    Names, argument order and conventions are those of `Dynamics`.  Every argument has any number of leading axes, (...,
    n), which are broadcast against each other; all arguments have the same dtype, float64 or float32.  An operation is
    compiled, or loaded from the cache, at its first call and its first gradient with a dtype.

    Quaternions and (cos, sin) pairs of q are divided by their norm, which must be between 0.1 and 1.41.  The gradient
    by q is that of this function of all nq coordinates: at unit norm it has no component along a quaternion or pair.

    Gradients are computed in reverse mode, without Jacobians.  There are no second derivatives and no forward mode.

    Args:
        robot: a loaded robot with at least one degree of freedom.
        parameters: "folded" (the robot's mass properties are constants of the code) or "runtime" (base parameters are
            an argument, with gradient, by default the robot's own; see `Kernels.parameter_map`).
        friction: whether joint friction (viscous and Coulomb) is part of the dynamics.
        forces: frames at which external forces act: `rnea` and `aba` then accept ``fext``, (..., 6 k), force [N] and
            torque [N m] in world axes in this order.
        threads: number of threads over which a batch is distributed.

    Attributes:
        robot: the robot.
        forces: names of the frames at which external forces act.
        threads: number of threads over which a batch is distributed.
        parameter_names: names of the run-time parameters; empty without run-time parameters.
        parameters: (k,) the robot's own run-time parameters; empty without run-time parameters.
        parameter_map: (k, 13 nb) matrix that converts ``Dynamics.parameters()`` to run-time parameters.

    Raises:
        UnknownNameError: a frame that does not exist.
        ArgumentError: an option out of range.
        UnsupportedMachineError: machine code cannot be made or run here; at the first call of an operation.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        parameters: str = "folded",
        friction: bool = False,
        forces: Sequence[str] = (),
        threads: int = 1,
    ) -> None:
        _, _, options, dtype, _ = check_options(robot, ("rnea",), np.float64, parameters, friction, (), forces)
        if type(threads) is not int or threads < 1:
            raise ArgumentError(f"threads: expected a positive int, got {threads!r}")
        base = Kernels(robot, (), options, dtype)
        self.robot, self.forces, self.threads = robot, options.forces, threads
        self.parameter_names: tuple[str, ...] = base.parameter_names
        self.parameters: Array = base.parameters
        self.parameter_map: Array = base.parameter_map
        self._options = dataclasses.replace(options, normalized=True)
        self._operations: dict[tuple[str, str | None], DifferentiableOperation] = {}

    # -- operations ----------------------------------------------------------------------------------------------
    def rnea(self, q: T, v: T, a: T, *, fext: T | None = None, parameters: T | None = None) -> T:
        """Returns tau (..., nv) = M(q) a + h(q, v) - J^T fext [N, N m].

        Args:
            q: (..., nq) configurations.
            v: (..., nv) velocities.
            a: (..., nv) accelerations.
            fext: (..., 6 k) external forces at the frames of `forces`; by default zero.
            parameters: (..., k) base parameters for ``parameters="runtime"``; by default the robot's own.
        """
        return self._call("rnea", {"q": q, "v": v, "a": a}, fext=fext, parameters=parameters)

    def aba(self, q: T, v: T, tau: T, *, fext: T | None = None, parameters: T | None = None) -> T:
        """Returns the accelerations (..., nv) that tau and fext cause; arguments as in `rnea`."""
        return self._call("aba", {"q": q, "v": v, "tau": tau}, fext=fext, parameters=parameters)

    def nle(self, q: T, v: T, *, parameters: T | None = None) -> T:
        """Returns the bias forces h (..., nv) [N, N m]."""
        return self._call("nle", {"q": q, "v": v}, parameters=parameters)

    def gravity(self, q: T, *, parameters: T | None = None) -> T:
        """Returns the generalized gravity forces (..., nv) [N, N m]."""
        return self._call("gravity", {"q": q}, parameters=parameters)

    def crba(self, q: T, *, parameters: T | None = None) -> T:
        """Returns the joint-space inertia matrices (..., nv, nv)."""
        return self._call("crba", {"q": q}, parameters=parameters)

    def center_of_mass(self, q: T) -> T:
        """Returns the centers of mass (..., 3) in world axes [m], for the robot's own masses."""
        return self._call("center_of_mass", {"q": q})

    def com_jacobian(self, q: T) -> T:
        """Returns the Jacobians (..., 3, nv) of the center of mass, world axes."""
        return self._call("com_jacobian", {"q": q})

    def centroidal_momentum(self, q: T, v: T) -> T:
        """Returns the momenta (..., 6) about the center of mass, linear before angular, world axes."""
        return self._call("centroidal_momentum", {"q": q, "v": v})

    def frame_position(self, q: T, name: str) -> T:
        """Returns the origins (..., 3) of a frame in the world [m]."""
        return self._call("frame_position", {"q": q}, frame=name)

    def frame_rotation(self, q: T, name: str) -> T:
        """Returns the rotation matrices (..., 3, 3) of a frame in the world."""
        return self._call("frame_rotation", {"q": q}, frame=name)

    def frame_jacobian(self, q: T, name: str) -> T:
        """Returns the Jacobians (..., 6, nv) of a frame, linear before angular, "local_world_aligned"."""
        return self._call("frame_jacobian", {"q": q}, frame=name)

    def frame_drift(self, q: T, v: T, name: str) -> T:
        """Returns the accelerations (..., 6) of a frame at ``a = 0``, "local_world_aligned"."""
        return self._call("frame_drift", {"q": q, "v": v}, frame=name)

    # -- calls ---------------------------------------------------------------------------------------------------
    def _call(self, name: str, given: dict[str, T], *, frame: str | None = None, **optional: T | None) -> T:
        """Runs an operation on arguments by name; those that are None have a default."""
        if frame is not None:
            if not isinstance(frame, str):
                raise ArgumentTypeError(f"name: expected the name of a frame, got {type(frame).__name__}")
            self.robot.frame_id(frame)  # raises for an unknown name
        operation = self._operation(name, frame)
        arguments: dict[str, Any] = {**given, **{key: x for key, x in optional.items() if x is not None}}
        accepted = dict(operation.arguments)
        for key in arguments.keys() - accepted.keys():
            option = "forces=" if key == "fext" else 'parameters="runtime"'
            raise ArgumentError(f"{key}: not accepted, because {type(self).__name__} was created without {option}")
        defaults = {"fext": np.zeros(6 * len(self.forces)), "parameters": self.parameters}
        return self._apply(operation, [(key, arguments.get(key), defaults.get(key)) for key in accepted])

    def _operation(self, name: str, frame: str | None) -> DifferentiableOperation:
        """Returns an operation, made at its first use."""
        key = (name, frame)
        if key not in self._operations:
            made = DifferentiableOperation(self.robot, name, self._options, frame, self.threads)
            self._operations.setdefault(key, made)
        return self._operations[key]

    @abc.abstractmethod
    def _apply(self, operation: DifferentiableOperation, arguments: Sequence[tuple[str, Any, Array | None]]) -> T:
        """Runs an operation on (name, value or None, default) of its arguments."""

    def __reduce__(self) -> tuple[object, ...]:
        options: dict[str, Any] = {
            "parameters": "runtime" if self._options.runtime else "folded",
            "friction": self._options.friction,
            "forces": self.forces,
            "threads": self.threads,
        }
        return functools.partial(type(self), **options), (self.robot,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.robot.name!r})"
