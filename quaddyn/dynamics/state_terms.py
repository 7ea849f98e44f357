"""The terms of a control tick from a `State`, for robots that no kernel is generated for: those with loops in space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import ArgumentError
from ..kernels.kinematics import frame_placement
from ..kernels.operations import kernel_mechanism
from ..kernels.tick_terms import TermsLayout, TickTerms, terms_layout
from ..kernels.tick_trace import moving_velocity_indices
from ..robot.loops import LoopCoupling
from ..robot.robot import Robot
from ..urdf.tree import Array
from .dynamics import Dynamics


class StateTerms:
    """Substitute of `TickTerms` that computes the same terms in the same layout, far more slowly.

    Args:
        robot: robot with closed loops, not all of which have a closed-form solution.
        frames: names out of ``robot.frame_names``, each once.
        momentum: whether the terms include centroidal momentum.

    Attributes:
        robot, frames, layout, size: see `TickTerms`.

    Raises:
        UnknownNameError: no such frame.
    """

    def __init__(self, robot: Robot, frames: Sequence[str], momentum: bool = False) -> None:
        mechanism, coupling = kernel_mechanism(robot), robot.coupling
        assert coupling is not None
        chains = {
            name: coupling.chain(moving_velocity_indices(mechanism, frame_placement(robot, mechanism, name).link))
            for name in frames
        }
        self.robot, self.frames, self.momentum = robot, tuple(frames), momentum
        self.layout: TermsLayout = terms_layout(mechanism, robot.nv, chains, momentum=momentum)
        self.size = self.layout.size
        self._dynamics, self._data = Dynamics(robot, validate=False), robot.model.createData()
        self._chains = {name: np.array(at.chain, dtype=np.intp) for name, at in self.layout.frames.items()}
        self._values = np.zeros(0)
        self._views: dict[str, Array] = {}

    def compute(self, q: Array, v: Array, out: Array) -> Array:
        """Fill `out` (size,) with the terms at q (nq,) and v (nv,).

        Raises:
            ArgumentError: q is not finite, or no loop closes there.
        """
        assert self.robot.coupling is not None
        if not (np.isfinite(q).all() and np.isfinite(v).all()):
            raise ArgumentError("q, v: expected finite numbers, got NaN or infinity")
        self.robot.coupling.check(q)
        if self._values is not out:
            self._values, self._views = out, self.layout.views(out)
        views, s = self._views, self._dynamics.update(q, v)
        views["M"][:], views["h"][:], views["com"][:], views["com_velocity"][:] = s.M, s.h, s.com, s.com_velocity
        if "com_jacobian" in views:
            views["com_jacobian"][:], views["com_drift"][:] = s.com_jacobian, s.com_drift
        if "momentum" in views:
            use, model, rest = self.robot.algorithms, self.robot.model, np.zeros(self.robot.nv)
            views["momentum"][:] = use.computeCentroidalMomentum(model, self._data, q, v).vector
            views["momentum_matrix"][:] = use.computeCentroidalMap(model, self._data, q)
            change = use.computeCentroidalMomentumTimeVariation(model, self._data, q, v, rest)
            views["momentum_drift"][:] = change.vector
        for name, moving in self._chains.items():
            pose, J = s.placement(name), s.jacobian(name)
            views[f"{name}.rotation"][:], views[f"{name}.origin"][:] = pose.rotation, pose.translation
            views[f"{name}.velocity"][:], views[f"{name}.drift"][:] = s.velocity(name), s.drift(name)
            views[f"{name}.jacobian"][:] = J[:, moving]
        return out


#: The terms of a tick.
AnyTerms = TickTerms | StateTerms


def make_tick_terms(robot: Robot, frames: Sequence[str], momentum: bool = False) -> AnyTerms:
    """Returns a kernel of the terms of a tick; `StateTerms` for loops without a closed-form solution."""
    spatial = isinstance(robot.coupling, LoopCoupling) and robot.coupling.spatial is not None
    return StateTerms(robot, frames, momentum) if spatial else TickTerms(robot, frames, momentum)
