"""`CollisionLimits`: links keep their distance from each other and from obstacles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from ...deprecation import renamed_attributes, renamed_parameters
from ...errors import ArgumentTypeError, UnknownNameError
from ...kinematics.capsule_model import CapsuleModel
from ...kinematics.obstacles import Obstacle
from ...robot.arguments import check_vector
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..block import Scalar
from ..codes import COLLISION_LIMITS
from ..element import Layout, ReferenceResolver, RowCounts
from .barrier import largest_speed
from .collision_blocks import PARTS
from .collision_pairs import choose_pairs, listed_pairs, placed_ends, placed_obstacles
from .collision_rows import LISTED
from .constraint import Constraint
from .pair_gaps import gaps_of
from .placed_capsules import HEAD, RADIUS, SPEED, WIDTH

#: Depth [m] beyond which a pair counts as outside.
DEPTH = 1e-4


@renamed_attributes(most="max_acceleration", rate="barrier_rate", place="set_obstacle_pose", gaps="distance_margins")
class CollisionLimits(Constraint, fixed=("model", "obstacles", "pairs", "left_out")):
    r"""Links keep a distance from each other, and from planes, boxes, spheres and capsules.

    For every near pair with distance d, room :math:`h = d - d_{min}`, rate p and largest acceleration b, the speed of
    approach may be

    .. math::

        k(h) = \begin{cases} p\,h & h \le b / p^2 \\ \sqrt{2 b\,(h - b / (2 p^2))} & \text{beyond} \end{cases}

    (slower than what b stops in time, and slowly at the end), and the row keeps it there, with n between the points of
    the two capsules that are the first to approach too fast:

    .. math::

        \ddot h = n^T (J_2 - J_1)\, a + \dots \ge -k'(h)\, \dot h - p\,(\dot h + k(h))

    This is an exponential barrier with a double pole near the limit.  *Viable* are the states with :math:`h \ge 0` and
    :math:`\dot h + k(h) \ge 0`; a viable pair is never asked for :math:`\ddot h > b`.  Drifts that would ask its joints
    for more than b may use up what is left of the speed, by nine tenths in a period.

    **What is promised, and under which assumptions.** From a viable state the distance of capsules stays above
    `margin`, whatever the tasks ask for, and that of the links with it, as capsules contain them.  This assumes that
    level 0 can be met, that accelerations are those that were asked for and constant over a control period dt,
    :math:`p\,dt \le 1/2`, and that obstacles keep the velocity that was given.  Level 0 may be infeasible where joint
    and torque limits leave less than b: commands say so.

    **Within a period** the row changes, and so it holds for its mean over dt: for the Jacobian as it will be, to first
    order in dt; for the lesser of the drifts now and after dt; and with a reserve for the jerk of both points, bounded
    by the rates of the joints between them (no derivative of a point by joint angles is longer than a joint's lever).
    What is of second order in dt is left to 0.01 mm of room that is kept besides.

    **Outside.** `Command.nonviable` names pairs that are not viable by more than 0.1 mm (times p for speeds).  They are
    driven apart along the same law, by no more than `most`.

    **Rows only for near pairs.** A pair has none while it could accelerate towards its limit by twice `most`.  The
    bound of a row that comes rises from far below that, within the speed that is left, so that torques do not jump.
    Each end of a capsule has a row of its own; that of points between the ends comes and goes in this way, too, within
    ten periods of where they slide to an end, as where segments turn past each other in parallel.

    Source: Nguyen, Sreenath 2016, "Exponential control barrier functions for enforcing high relative-degree
    safety-critical constraints", section III, for rate p; Danskin 1966, "The theory of max-min, with applications",
    for the points; `quaddyn.kinematics.CapsuleModel`.  Ours are k beyond that and the bound within a period.

    Args:
        model: capsules and pairs; or the robot, for a `CapsuleModel` of it.
        obstacles: by name; `place` moves them.  Until then they are at the origin of the world.  In an exported
            controller they stay where they were when it was exported, with their velocities as given.
        placed: by name of an obstacle, where its origin is, (3,) [m].
        links: that keep away from obstacles; all by default.
        self_collision: whether pairs of the robot's own links count.
        margin: d_min [m].
        rate: p [1/s].
        most: b, largest acceleration that is asked of a pair and counted on [m/s^2].
        name: by which the controller knows it.

    Attributes:
        model: as given or made.
        obstacles: as given.
        margin, rate, most: as given; may be set at any time.
        pairs: names of all pairs, once for each two capsules.
        left_out: names of pairs that are nearer than `margin` at home, such as feet and their ground: level 0 could not
            be met from there on.

    Raises:
        ArgumentError: no pair is left.
        UnknownNameError: no such link or obstacle.
    """

    code = COLLISION_LIMITS
    unit = "m/s^2"
    margin, barrier_rate, max_acceleration = Scalar(0), Scalar(1, zero=False), Scalar(2, zero=False)

    @renamed_parameters(most="max_acceleration", rate="barrier_rate", placed="obstacle_positions")
    def __init__(
        self,
        model: CapsuleModel | Robot,
        *,
        obstacles: Mapping[str, Obstacle] | None = None,
        obstacle_positions: Mapping[str, ArrayLike] | None = None,
        links: tuple[str, ...] | None = None,
        self_collision: bool = True,
        margin: float = 0.01,
        barrier_rate: float = 50.0,
        max_acceleration: float = 100.0,
        name: str = "collisions",
    ) -> None:
        self.model = CapsuleModel(model) if isinstance(model, Robot) else model
        if not isinstance(self.model, CapsuleModel):
            raise ArgumentTypeError(f"model: expected a CapsuleModel or a Robot, got {type(model).__name__}")
        self.obstacles = dict(obstacles or {})
        robot = self.model.robot
        robot.reject_coupled_joints("CollisionLimits")
        where = placed_obstacles(self.obstacles, obstacle_positions or {})
        chosen = choose_pairs(self.model, self.obstacles, where, links, self_collision, margin)
        super().__init__(name, HEAD + WIDTH * len(chosen.capsules), robot=robot)
        self.pairs, self.left_out, self.labels = chosen.names, chosen.left_out, chosen.labels
        self._bodies, self._pairs, self._of = chosen.bodies, chosen.pairs, chosen.of
        self.margin, self.barrier_rate, self.max_acceleration = margin, barrier_rate, max_acceleration
        self.block[3] = float(robot.root == "free")
        self._capsules()[:] = chosen.capsules
        for key, point in where.items():
            self.set_obstacle_pose(key, point)

    def set_obstacle_pose(
        self, obstacle: str, position: ArrayLike, *, rotation: ArrayLike | None = None, velocity: ArrayLike = (0, 0, 0)
    ) -> None:
        """Say where an obstacle is from now on.

        Args:
            obstacle: name.
            position: (3,) of its origin [m].
            rotation: (3, 3) from its axes to the world's; none by default.
            velocity: (3,) [m/s].

        Raises:
            UnknownNameError: no such obstacle.
            ArgumentError: not numbers of these shapes, or no rotation.
        """
        if obstacle not in self.obstacles:
            raise UnknownNameError("obstacle", obstacle, self.obstacles)
        p = check_vector("position", position, (3,), "a point")
        v = check_vector("velocity", velocity, (3,), "a velocity")
        rows = self._capsules()[self._of[obstacle]]
        rows[:, :RADIUS] = placed_ends(self.obstacles[obstacle], p, rotation)
        rows[:, SPEED:] = v

    def _capsules(self) -> Array:
        return self.block[HEAD:].reshape(-1, WIDTH)

    def distance_margins(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Room of every pair above `margin`, and its rate of change.

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity.

        Returns:
            (pairs,) [m] and (pairs,) [m/s], in the order of `pairs`.
        """
        rooms, rates = self._gaps(self.block, q, v)
        nearest = np.argmin(rooms, axis=1)[:, None]
        return np.take_along_axis(rooms, nearest, 1)[:, 0], np.take_along_axis(rates, nearest, 1)[:, 0]

    def _gaps(self, numbers: Array, q: Array, v: Array, p: float = 0.0) -> tuple[Array, Array]:
        """(pairs, PARTS) each, infinite and 0 where a pair has no such part."""
        return gaps_of(self.model.robot, self._bodies, self._pairs, numbers, q, v, p)

    def find_nonviable(self, numbers: Array, q: Array, v: Array) -> tuple[str, ...]:
        """Names of the pairs that are nearer than `margin`, or too fast to stay beyond it."""
        p, most = float(numbers[1]), float(numbers[2])
        nearest, (rooms, speeds) = self._gaps(numbers, q, v)[0], self._gaps(numbers, q, v, p)
        allowed = np.array([largest_speed(each, p, most) for each in rooms.ravel().tolist()]).reshape(rooms.shape)
        wrong = (nearest < -DEPTH) | (speeds + allowed < -DEPTH * p)
        return tuple(dict.fromkeys(self.pairs[i] for i in np.flatnonzero(wrong.any(axis=1)).tolist()))

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """The list of its capsules' frames, -1 for obstacles; and `listed_pairs`, behind their number."""
        frames = references.add_index_list(references.add_frame(body) if body else -1 for body in self._bodies)
        return frames, references.add_index_list([len(self._pairs), *listed_pairs(self._pairs, self._capsules())])

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Four numbers, and `WIDTH` and a frame for each capsule; rows for every pair and its ends at most."""
        n, most = counts.rows, max(0, (counts.entries - counts.rows - 1) // LISTED)
        lists = range(counts.entries - n + 1), range(counts.entries)
        return Layout(n, HEAD + WIDTH * n, first=lists[0], second=lists[1], limits=PARTS * most, capsules=n)

    def row_name(self, contact: str, row: int) -> str:
        """Name of a row, for explanations."""
        return f"{self.pairs[row // PARTS]} distance"
