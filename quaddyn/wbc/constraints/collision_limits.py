"""`CollisionLimits`: links keep a minimum distance from each other and from obstacles."""

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
from ..collision_data import N_PARTS
from ..element import Layout, ReferenceResolver, RowCounts
from ..element_kind import ElementKind
from ..parameter_block import ScalarParameter
from .capsule_parameters import CAPSULE_SIZE, HEADER_SIZE, PAIR_ENTRIES, capsule_parameters, collision_parameters
from .collision_pairs import choose_pairs, find_obstacle_origins, make_pair_list, transform_obstacle_ends
from .collision_rows import write_collision_rows
from .constraint import Constraint
from .distance_barrier import max_approach_speed
from .pair_distances import compute_part_distances

#: Depth below the margin [m] beyond which a pair is reported as not viable.
MAX_PENETRATION = 1e-4


@renamed_attributes(most="max_acceleration", rate="barrier_rate", place="set_obstacle_pose", gaps="distance_margins")
class CollisionLimits(Constraint, fixed=("model", "obstacles", "pairs", "left_out")):
    r"""Minimum distance between links, and from planes, boxes, spheres and capsules.

    For every near pair with distance d, margin :math:`h = d - d_{min}`, barrier rate p and largest acceleration b, the
    speed of approach may be

    .. math::

        k(h) = \begin{cases} p\,h & h \le b / p^2 \\ \sqrt{2 b\,(h - b / (2 p^2))} & \text{beyond} \end{cases}

    (below the speed that b can stop in time, and decreasing exponentially near the margin).  The row keeps the speed
    of approach below k, with n the direction between the two points of the capsules where this limit is reached first:

    .. math::

        \ddot h = n^T (J_2 - J_1)\, a + \dots \ge -k'(h)\, \dot h - p\,(\dot h + k(h))

    This is an exponential control barrier function with a double pole near the limit.  *Viable* are the states with
    :math:`h \ge 0` and :math:`\dot h + k(h) \ge 0`; a viable pair never requires :math:`\ddot h > b`.  Where the drift
    would require more than b, the row may use up to nine tenths of the remaining speed of approach within a period.

    **Guarantee and assumptions.** From a viable state the distance of the capsules stays above `margin`, for any
    tasks, and so does that of the links, as capsules contain them.  This assumes that level 0 is feasible, that the
    robot realizes the commanded accelerations and that they are constant over a control period dt, :math:`p\,dt \le
    1/2`, and that obstacles keep their given velocity.  Level 0 may be infeasible where joint and torque limits allow
    less than b; the status of the command reports it.

    **Within a period** the row changes, so it holds for its mean over dt: for the Jacobian at the middle of the period,
    to first order in dt; for the smaller of the drifts now and after dt; and with a margin for the jerk of both
    points, bounded by the rates of the joints between them (no derivative of a point by joint angles is longer than the
    lever of a joint).  The terms of second order in dt are covered by an additional margin of 0.01 mm.

    **Outside the viable set.** `Command.nonviable` names pairs that are not viable by more than 0.1 mm (times p for
    speeds). They are driven apart by the same law, with at most `max_acceleration`.

    **Rows of near pairs only.** A pair has no row while it could accelerate toward its limit by twice
    `max_acceleration`. The bound of a new row rises from far below that, within the remaining speed, so that torques do
    not jump.  Each end of a capsule has its own row.  The row of points between the ends appears and disappears in
    the same way, within ten periods of the points sliding to an end, as where segments rotate past each other in
    parallel.

    Use it on level 0 of robots whose limbs can reach each other or obstacles.

    Source: Nguyen, Sreenath 2016, "Exponential control barrier functions for enforcing high relative-degree
    safety-critical constraints", section III, for rate p; Danskin 1966, "The theory of max-min, with applications", for
    the points; `quaddyn.kinematics.CapsuleModel`.  The square-root part of k and the bound within a period are
    additions.

    Args:
        model: capsules and pairs; or the robot, for a `CapsuleModel` of it.
        obstacles: obstacles by name; no obstacles if None.  `set_obstacle_pose` moves them; until then they are at the
            origin of the world.  In an exported controller they keep the position and velocity of the
            time of export.
        obstacle_positions: (3,) position of the origin by name of an obstacle [m]; the origin of the world if None.
        links: names of links that keep away from obstacles; all if None.
        self_collision: whether to include pairs of the robot's own links.
        margin: d_min, minimum distance [m].
        barrier_rate: p [1/s].
        max_acceleration: b, largest acceleration that is required of a pair and assumed available [m/s^2].
        name: name of the constraint in the controller.

    Attributes:
        model: as given or made.
        obstacles: obstacles by name; empty if None was given.
        margin: minimum distance [m]; may be set at any time.
        barrier_rate: p [1/s]; may be set at any time.
        max_acceleration: b [m/s^2]; may be set at any time.
        pairs: names of all pairs, one entry for each two capsules.
        left_out: names of pairs that are nearer than `margin` in the home configuration, such as feet and their ground,
            and therefore excluded: level 0 could not be satisfied from there.

    Raises:
        ArgumentError: no pair remains.
        UnknownNameError: a link or obstacle does not exist.
    """

    unit = "m/s^2"
    margin, barrier_rate, max_acceleration = (
        ScalarParameter(0),
        ScalarParameter(1, zero=False),
        ScalarParameter(2, zero=False),
    )

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
        obstacle_origins = find_obstacle_origins(self.obstacles, obstacle_positions or {})
        chosen = choose_pairs(self.model, self.obstacles, obstacle_origins, links, self_collision, margin)
        super().__init__(name, HEADER_SIZE + CAPSULE_SIZE * len(chosen.capsules), robot=robot)
        self.pairs, self.left_out, self.labels = chosen.names, chosen.left_out, chosen.labels
        self._bodies, self._pairs, self._capsules_of_obstacle = chosen.bodies, chosen.pairs, chosen.capsules_of_obstacle
        self.margin, self.barrier_rate, self.max_acceleration = margin, barrier_rate, max_acceleration
        self.block[3] = float(robot.root == "free")
        self._capsules()[:] = chosen.capsules
        for key, point in obstacle_origins.items():
            self.set_obstacle_pose(key, point)

    def set_obstacle_pose(
        self, obstacle: str, position: ArrayLike, *, rotation: ArrayLike | None = None, velocity: ArrayLike = (0, 0, 0)
    ) -> None:
        """Sets the pose and velocity of an obstacle.

        Args:
            obstacle: name of the obstacle.
            position: (3,) position of its origin [m].
            rotation: (3, 3) rotation from its axes to the world's; the identity if None.
            velocity: (3,) linear velocity [m/s].

        Raises:
            UnknownNameError: the obstacle does not exist.
            ArgumentError: another shape, a number that is not finite, or a matrix that is not a rotation.
        """
        if obstacle not in self.obstacles:
            raise UnknownNameError("obstacle", obstacle, self.obstacles)
        p = check_vector("position", position, (3,), "a point")
        v = check_vector("velocity", velocity, (3,), "a velocity")
        capsules = self._capsules()[self._capsules_of_obstacle[obstacle]]
        ends = transform_obstacle_ends(self.obstacles[obstacle], p, rotation)
        for row, (start, end) in zip(capsules, ends, strict=True):
            capsule = capsule_parameters(row, 0)
            capsule.start[:], capsule.end[:], capsule.velocity[:] = start, end, v

    def _capsules(self) -> Array:
        """Returns the parameters of the capsules, (capsules, CAPSULE_SIZE), as a view of the block."""
        return self.block[HEADER_SIZE:].reshape(-1, CAPSULE_SIZE)

    def distance_margins(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Computes the distance of every pair above `margin`, and its rate of change.

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity.

        Returns:
            (pairs,) [m] and (pairs,) [m/s], in the order of `pairs`.
        """
        margins, rates = self._margins_of_parts(self.block, q, v)
        nearest = np.argmin(margins, axis=1)[:, None]
        return np.take_along_axis(margins, nearest, 1)[:, 0], np.take_along_axis(rates, nearest, 1)[:, 0]

    def _margins_of_parts(self, parameters: Array, q: Array, v: Array, p: float = 0.0) -> tuple[Array, Array]:
        """Returns (pairs, PARTS) margins and rates; infinite and 0 where a pair has no such part."""
        return compute_part_distances(self.model.robot, self._bodies, self._pairs, parameters, q, v, p)

    def find_nonviable(self, parameters: Array, q: Array, v: Array) -> tuple[str, ...]:
        """Returns the names of the pairs that are nearer than `margin`, or too fast to keep it."""
        shared = collision_parameters(parameters)
        p, max_acceleration = float(shared.barrier_rate), float(shared.max_acceleration)
        nearest, (margins, speeds) = (
            self._margins_of_parts(parameters, q, v)[0],
            self._margins_of_parts(parameters, q, v, p),
        )
        allowed_speeds = np.array(
            [max_approach_speed(margin, p, max_acceleration) for margin in margins.ravel().tolist()]
        ).reshape(margins.shape)
        is_nonviable = (nearest < -MAX_PENETRATION) | (speeds + allowed_speeds < -MAX_PENETRATION * p)
        return tuple(dict.fromkeys(self.pairs[i] for i in np.flatnonzero(is_nonviable.any(axis=1)).tolist()))

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """Returns the positions of two lists: capsules' frames (-1 for obstacles), and pairs behind their number."""
        frames = references.add_index_list(references.add_frame(body) if body else -1 for body in self._bodies)
        return frames, references.add_index_list([len(self._pairs), *make_pair_list(self._pairs, self._capsules())])

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns a layout of four scalars, `CAPSULE_SIZE` parameters per capsule, and rows of all parts of pairs."""
        n, max_pairs = counts.rows, max(0, (counts.entries - counts.rows - 1) // PAIR_ENTRIES)
        lists = range(counts.entries - n + 1), range(counts.entries)
        return Layout(
            n, HEADER_SIZE + CAPSULE_SIZE * n, first=lists[0], second=lists[1], limits=N_PARTS * max_pairs, capsules=n
        )

    def row_name(self, contact: str, row: int) -> str:
        """Returns the name of a row for explanations; `contact` is not used."""
        return f"{self.pairs[row // N_PARTS]} distance"


CollisionLimits.kind = ElementKind(109, write_collision_rows)
