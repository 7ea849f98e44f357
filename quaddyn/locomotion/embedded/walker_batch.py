"""`LocomotionBatch`: n equal locomotion controllers whose states are arrays, computed by compiled code in threads.

A *lane* is one of n walkers; compiled functions copy lanes to and from the memory of one `EmbeddedWalker`.  It stores
the block of memory in which all records of a walker lie, and the lane of its whole-body controller, see
`quaddyn.wbc.controller_lanes`.
"""

from __future__ import annotations

import enum
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...compiler import ByteMatrix, ByteVector, IntMatrix, Matrix, Record, call_kernel, compiled, entry
from ...dynamics.arguments import EXCESS_FACTOR
from ...errors import ArgumentError, ArgumentTypeError
from ...exclusive_call import ExclusiveCall
from ...kernels import TickTerms
from ...lane_blocks import LaneBlocks, check_lane_rows, check_mask, count_bytes, read_only
from ...robot.arguments import Numbers
from ...robot.units import JointUnits
from ...strict_attributes import StrictAttributes
from ...urdf.tree import Array, FrozenArrays, frozen
from ...wbc.controller_batch import OUTCOME_NAMES
from ...wbc.controller_lanes import ControllerLanes, LaneFriction, load_lane, make_controller_lanes, store_lane
from ...wbc.embedded import validate_state
from ...wbc.tick_data import TickOutcome
from ...wbc.tick_period import StateConvention, describe_inconsistent_motion, make_tick_displacements
from ..command import FALLEN, NO_GROUND
from ..fall_detection import SIGN_TEXTS, FallSign
from ..gait import Gait, find_gait
from ..ground_phase import GroundPhaseController
from ..modes import LocomotionMode, ModeCode
from ..morphology import FEET
from ..state_fields import address, find_layout, place_record
from ..velocity_limits import REASON_TEXTS, GaitLimits, LimitReason, allocate_gait_limits
from .embedded_walker import (
    EmbeddedWalker,
    apply_friction,
    lie_down,
    make_embedded_walker,
    reset_embedded_walker,
    select_gait,
    separate_functions,
    stand_up,
    walker_tick,
)

#: Number of ticks between comparisons of the lanes' motions with their velocities.
MOTION_CHECK_INTERVAL = 16


class LaneRequest(enum.IntEnum):
    """A request that `request_lanes` makes."""

    RESET = 0
    STAND_UP = 1
    LIE_DOWN = 2


class WalkerLanes(NamedTuple):
    """States of m walkers after their last ticks.

    Attributes:
        memory: (m, bytes) records of each walker.
        wbc: states of their whole-body controllers.
        outcome: (m,) `TickOutcome` of the last tick.
    """

    memory: ByteMatrix
    wbc: ControllerLanes
    outcome: ByteVector


class WalkerWorkspace(NamedTuple):
    """Memory in which a thread computes the ticks of lanes.

    Attributes:
        walker: a walker, whose records lie in `memory`.
        memory: (bytes,) the records.
        friction: friction cones of its whole-body controller.
    """

    walker: EmbeddedWalker
    memory: ByteVector
    friction: LaneFriction


@compiled(inline=False)
def load_walker(i: int, lanes: WalkerLanes, work: WalkerWorkspace) -> None:
    """Sets the memory of a walker to the state of lane i."""
    work.memory[:] = lanes.memory[i]
    load_lane(i, lanes.wbc, work.friction, work.walker.wbc)
    apply_friction(work.walker)


@compiled(inline=False)
def store_walker(i: int, lanes: WalkerLanes, work: WalkerWorkspace) -> None:
    """Writes the state of a walker to lane i."""
    lanes.memory[i] = work.memory
    store_lane(i, lanes.wbc, work.walker.wbc)


@entry("walker", release=True, callees=lambda work: separate_functions(work.walker))
def compute_walkers(
    work: WalkerWorkspace,
    lanes: WalkerLanes,
    q: Matrix,
    v: Matrix,
    velocity: Matrix,
    measured_contacts: IntMatrix,
    tau: Matrix,
    kernel: int,
) -> None:
    """Computes one tick of m lanes, one lane after the other, in the memory of one walker; see `walker_tick`.

    Args:
        work: memory of the walker; its state is that of the last lane afterwards.
        lanes: states of the lanes.
        q: (m, nq) configurations.
        v: (m, nv) velocities.
        velocity: (1 or m, 3) requested velocities [m/s, rad/s], heading frame, for all lanes or for each.
        measured_contacts: (m, 4) whether the sensor of each foot measures contact, or (m, 0) without foot sensors.
        tau: (m, nu) written: torques [N m].
        kernel: address of the kernel of the rigid-body terms, see `quaddyn.kernels.TickTerms.address`.
    """
    for i in range(len(lanes.outcome)):
        load_walker(i, lanes, work)
        wbc, row = work.walker.wbc, i if len(velocity) > 1 else 0
        outcome = validate_state(wbc, q[i], v[i])
        if outcome == TickOutcome.SOLVED and call_kernel(kernel, q[i], v[i], wbc.data.terms.values) != 0:
            outcome = TickOutcome.INVALID_STATE
        if outcome == TickOutcome.SOLVED:
            outcome = walker_tick(work.walker, q[i], v[i], velocity[row], measured_contacts[i], tau[i])
            store_walker(i, lanes, work)
        else:
            tau[i] = work.walker.output.tau
        lanes.outcome[i] = outcome


@entry("walker", release=True)
def request_lanes(work: WalkerWorkspace, lanes: WalkerLanes, request: LaneRequest, mask: ByteVector) -> None:
    """Resets lanes or changes their mode.

    Args:
        work: memory of a walker.
        lanes: states of the lanes.
        request: the request, for all of these lanes.
        mask: (m,) lanes that are concerned.
    """
    for i in range(len(mask)):
        if mask[i] != 0:
            load_walker(i, lanes, work)
            if request == LaneRequest.RESET:
                reset_embedded_walker(work.walker)
                lanes.outcome[i] = TickOutcome.SOLVED
            elif request == LaneRequest.STAND_UP:
                stand_up(work.walker)
            else:
                lie_down(work.walker)
            store_walker(i, lanes, work)


@entry("walker", release=True)
def select_lane_gaits(work: WalkerWorkspace, lanes: WalkerLanes, gait: GaitLimits, mask: ByteVector) -> None:
    """Sets the gait of lanes; see `request_lanes`."""
    for i in range(len(mask)):
        if mask[i] != 0:
            load_walker(i, lanes, work)
            select_gait(work.walker, gait)
            store_walker(i, lanes, work)


#: Records begin at multiples of this in the memory of a lane [bytes].
RECORD_ALIGNMENT = 64
#: Values of `LocomotionMode` by their codes.
MODE_NAMES = np.array([LocomotionMode.from_code(code).value for code in ModeCode])
#: Texts of `LimitReason`, then that of a landing, then those of `FallSign`.
NO_GROUND_CODE = len(LimitReason)
REASONS = np.array(
    [*(REASON_TEXTS.get(reason, "") for reason in LimitReason), NO_GROUND, *(SIGN_TEXTS[s] or FALLEN for s in FallSign)]
)


@dataclass(frozen=True, slots=True, eq=False)
class LocomotionBatchCommand(FrozenArrays):
    """Commands of n lanes at one tick; arrays are read-only and finite.

    Attributes:
        tau: (n, nu) torques within the limits of the motors [N m]; those of the last tick for an invalid state.
        contacts: (n, 4) booleans: whether each foot, in the order of `FEET`, is planned to carry load.
        clamped_velocity: (n, 3) velocity within the limits of gait and legs [m/s, rad/s], see `LocomotionCommand`; zero
            in the air, while landing and after a fall.
        friction: (n,) friction coefficient that the contact constraints assume, dimensionless.
        mode_codes: (n,) index of each lane's mode in `LocomotionMode`; `mode` gives the name.
        reason_codes: (n,) index of the reason that `limit_reason` gives.
        outcome_codes: (n,) index of the outcome that `outcome` gives.
    """

    tau: Array
    contacts: NDArray[np.bool_]
    clamped_velocity: Array
    friction: Array
    mode_codes: NDArray[np.int64]
    reason_codes: NDArray[np.int64]
    outcome_codes: NDArray[np.int8]

    @property
    def mode(self) -> NDArray[np.str_]:
        """Mode of each lane (n,), a value of `LocomotionMode`."""
        return MODE_NAMES[self.mode_codes]

    @property
    def limit_reason(self) -> NDArray[np.str_]:
        """Reason for which each lane (n,) does not follow the requested velocity, "" if there is none."""
        return REASONS[self.reason_codes]

    @property
    def outcome(self) -> NDArray[np.str_]:
        """Outcome of whole-body control of each lane (n,), see `BatchCommand.outcome`; "solved" after a fall."""
        return OUTCOME_NAMES[self.outcome_codes]

    @property
    def ok(self) -> NDArray[np.bool_]:
        """Whether each lane (n,) has not fallen, and whole-body control satisfied all its constraints."""
        return np.asarray((self.outcome_codes == TickOutcome.SOLVED) & (self.mode_codes != ModeCode.FALLEN))

    def __repr__(self) -> str:
        names, counts = np.unique(self.mode, return_counts=True)
        modes = (f"{count} {name}" for name, count in zip(names, counts, strict=True))
        return f"<LocomotionBatchCommand: {', '.join(modes)}>"


class LocomotionBatch(StrictAttributes, fixed=("robot", "dt", "n", "threads")):
    """Batch of n locomotion controllers, each like the one that made it; created by `LocomotionController.batch`.

    A controller of a batch is a *lane*.  All lanes have the same robot, gains and nominal friction, and may differ in
    velocity command, gait and mode.  Each lane equals the walker that `quaddyn.runtime.export_walker` writes as C99:
    the controller on unknown terrain, without jumps, righting, payload estimate and the evaluation of the legs' torques
    on slopes.  Lanes do not interact.

    Args:
        walking: the `GroundPhaseController` of the controller that is copied into the lanes.
        n: number of lanes.
        threads: number of threads.

    Attributes:
        robot: robot of each lane.
        dt: control period [s].
        n: number of lanes.
        threads: number of threads.

    Raises:
        ArgumentError: the controller uses a feature that lanes do not have, or no kernel is generated for the robot.
    """

    def __init__(self, walking: GroundPhaseController, n: int, threads: int) -> None:
        quad, solver = walking.quadruped, walking.quadruped.wbc.solver
        if not isinstance(solver.terms, TickTerms):
            raise ArgumentError(
                f"batch: the closed loops of {quad.robot.name!r} have no closed-form solution, so that no kernel "
                "is generated for the robot"
            )
        self.robot, self.dt, self.n, self.threads = quad.robot, quad.dt, n, threads
        self._terms, self._capability = solver.terms, quad.capability
        self._nominal_friction = quad.friction_model.nominal
        friction = np.array([settings.contact.friction for settings in solver.contacts], dtype=np.float64)
        workspaces = [_make_workspace(walking, friction) for _ in range(threads)]
        self._work = workspaces[0]
        self._lanes = WalkerLanes(
            memory=np.tile(self._work.memory, (n, 1)),
            wbc=make_controller_lanes(n, self._work.walker.wbc, friction),
            outcome=np.zeros(n, dtype=np.int8),
        )
        self._blocks: LaneBlocks[WalkerWorkspace] = LaneBlocks(n, workspaces, "locomotion batch")
        self._lanes_of_block = [
            WalkerLanes(
                self._lanes.memory[rows],
                ControllerLanes._make(x[rows] for x in self._lanes.wbc),
                self._lanes.outcome[rows],
            )
            for rows in self._blocks.rows
        ]
        self._tau, self._exclusive_call = np.zeros((n, self.robot.nu)), ExclusiveCall("batch")
        self._ticks, self._has_warned_of_motion = 0, False

    @property
    def bytes_per_lane(self) -> float:
        """Memory of a lane [bytes]."""
        return count_bytes(self._lanes) / self.n

    @property
    def bytes_per_thread(self) -> int:
        """Memory for a tick in progress, which a thread needs once for all its lanes [bytes]."""
        return count_bytes(self._work)

    # -- time ------------------------------------------------------------------------------------------------
    def compute(
        self,
        q: Numbers,
        v: Numbers,
        velocity: Numbers = (0.0, 0.0, 0.0),
        *,
        measured_contacts: NDArray[np.bool_] | None = None,
    ) -> LocomotionBatchCommand:
        """Computes the commands of one tick of all lanes, in one call of compiled code for each block of lanes.

        Args:
            q: (n, nq) configurations.
            v: (n, nv) velocities [m/s, rad/s].
            velocity: (n, 3) or (3,) requested forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; a
                velocity that is not finite is zero.
            measured_contacts: (n, 4) whether the sensor of each foot, in the order of `FEET`, measures contact; None to
                estimate contacts from the torques.

        Raises:
            ArgumentError: an array of a wrong shape.
            ArgumentTypeError: an argument is not an array of numbers, or `measured_contacts` is not one of bools.
            ConcurrencyError: another thread uses this batch.

        Warns:
            RuntimeWarning: once, for one lane, as by `LocomotionController.compute`: its motion between ticks shows
                another period than `dt` or another convention of the state; at the first tick also for joint positions
                that seem to be in degrees.
        """
        q_rows = check_lane_rows("q", q, self.n, self.robot.nq, one_row=False)
        v_rows = check_lane_rows("v", v, self.n, self.robot.nv, one_row=False)
        velocities = check_lane_rows("velocity", velocity, self.n, 3)
        contacts = self._check_contacts(measured_contacts)
        address_of_terms = self._terms.address

        def process(work: WalkerWorkspace, block: int) -> None:
            rows = self._blocks.rows[block]
            own = velocities[rows] if len(velocities) > 1 else velocities
            compute_walkers(
                work, self._lanes_of_block[block], q_rows[rows], v_rows[rows], own, contacts[rows], self._tau[rows],
                address_of_terms,
            )  # fmt: skip

        if not self._ticks:
            units = JointUnits(self.robot, excess_factor=EXCESS_FACTOR)
            units.warn_of_lanes("q", q_rows[:, units.index], np.arange(self.n))
        with self._exclusive_call.acquire("compute"):
            self._blocks.run(process)
            self._ticks += 1
            if not self._has_warned_of_motion and self._ticks % MOTION_CHECK_INTERVAL == 0:
                self._warn_of_motion()
            return self._make_command()

    def _warn_of_motion(self) -> None:
        """Warns about the first lane whose motion between ticks shows another period or another convention."""
        sums = self._work.walker.walker.displacements
        periods, conventions = self._view(sums, "other_period"), self._view(sums, "convention")
        lanes = np.flatnonzero((periods != 0.0) | (conventions != StateConvention.EXPECTED))
        if len(lanes):
            self._has_warned_of_motion, of_lane = True, make_tick_displacements(self.robot, self.dt)
            of_lane.other_period = float(periods[lanes[0]])
            of_lane.convention = StateConvention(int(conventions[lanes[0]]))
            of_lane.scale = float(self._view(sums, "scale")[lanes[0]])
            of_lane.velocity_index = int(self._view(sums, "velocity_index")[lanes[0]])
            of_lane.other_index = int(self._view(sums, "other_index")[lanes[0]])
            warnings.warn(f"lane {lanes[0]}: {describe_inconsistent_motion(of_lane)}", RuntimeWarning, stacklevel=3)

    def _make_command(self) -> LocomotionBatchCommand:
        """Returns the command of the last tick, read from the memories of the lanes."""
        walker, output = self._work.walker.walker, self._work.walker.output
        walk, is_landing = walker.walk, self._view(walker.landing, "is_active") != 0
        modes, signs = self._view(walk.mode, "mode").copy(), self._view(walk.fall, "sign")
        reasons = np.where(is_landing, NO_GROUND_CODE, self._view(walk.report, "reason"))
        reasons[modes == ModeCode.FALLEN] = NO_GROUND_CODE + 1 + signs[modes == ModeCode.FALLEN]
        return LocomotionBatchCommand(
            tau=frozen(self._tau),
            contacts=read_only(self._view(output, "contacts") != 0),
            clamped_velocity=frozen(self._view(walk.report, "velocity")),
            friction=frozen(self._view(walk.friction, "friction")),
            mode_codes=read_only(modes),
            reason_codes=read_only(reasons),
            outcome_codes=read_only(self._lanes.outcome.copy()),
        )

    def _view(self, record: Record, name: str) -> NDArray[Any]:
        """Returns the entries (n, ...) of a field of a record in all lanes, as a view of their memories."""
        field, memory = record[record._fields.index(name)], self._lanes.memory
        offset, strides = address(field) - address(self._work.memory), (memory.strides[0], *field.strides)
        return np.ndarray((self.n, *field.shape), field.dtype, memory, offset, strides)

    # -- requests --------------------------------------------------------------------------------------------
    def reset(self, mask: Any = None) -> None:
        """Resets all estimates and the mode of lanes, as `LocomotionController.reset`.

        Args:
            mask: (n,) bools, which lanes are reset; None: all.

        Raises:
            ArgumentTypeError: `mask` is not an array of bools.
            ArgumentError: a wrong shape.
            ConcurrencyError: another thread uses this batch.
        """
        self._request(LaneRequest.RESET, mask)

    def stand_up(self, mask: Any = None) -> None:
        """Makes lanes rise, as `LocomotionController.stand_up`; arguments and errors of `reset`."""
        self._request(LaneRequest.STAND_UP, mask)

    def lie_down(self, mask: Any = None) -> None:
        """Makes lanes lower the trunk, as `LocomotionController.lie_down`; arguments and errors of `reset`."""
        self._request(LaneRequest.LIE_DOWN, mask)

    def _request(self, request: LaneRequest, mask: Any) -> None:
        """Applies a request to the lanes of a mask."""
        rows = check_mask(mask, self.n).astype(np.int8)
        with self._exclusive_call.acquire(request.name.lower()):
            request_lanes(self._work, self._lanes, request, rows)

    def set_gait(self, gait: str | Gait, mask: Any = None) -> None:
        """Sets the gait of the next steps of lanes; the transition takes some cycles.

        Args:
            gait: name of a gait in `GAITS`, or a `Gait`.
            mask: (n,) bools, which lanes get the gait; None: all.

        Raises:
            UnknownNameError: there is no gait of this name.
            ArgumentError: the motors are too weak or too slow for the gait, or `mask` has a wrong shape.
            ArgumentTypeError: `mask` is not an array of bools.
            ConcurrencyError: another thread uses this batch.
        """
        gait, rows, limits = find_gait(gait), check_mask(mask, self.n).astype(np.int8), allocate_gait_limits()
        self._capability.require_feasible(gait, self._nominal_friction)
        self._capability.velocity_limits.write_gait(limits, gait)
        with self._exclusive_call.acquire("set_gait"):
            select_lane_gaits(self._work, self._lanes, limits, rows)

    def warmup(self) -> None:
        """Compiles or loads the machine code of the ticks, so that a control loop does not have to wait for it."""
        compute_walkers.compile(self._work)
        for each in (request_lanes, select_lane_gaits):
            each.compile()

    def _check_contacts(self, contacts: Any) -> NDArray[np.int64]:
        """Returns (n, 4) 1 for each foot in contact, or (n, 0) without foot sensors."""
        if contacts is None:
            return np.zeros((self.n, 0), dtype=np.int64)
        array = np.asarray(contacts)
        if array.dtype != bool:
            raise ArgumentTypeError(f"measured_contacts: expected bools, got dtype {array.dtype}")
        if array.shape != (self.n, len(FEET)):
            raise ArgumentError(f"measured_contacts: expected shape ({self.n}, {len(FEET)}), got {array.shape}")
        return array.astype(np.int64)

    def __repr__(self) -> str:
        return (
            f"<LocomotionBatch of {self.n} x {self.robot.name}, {self.bytes_per_lane / 1024:.1f} kB a lane, "
            f"{self.bytes_per_thread / 1024:.0f} kB for each of {self.threads} threads>"
        )


def _make_workspace(walking: GroundPhaseController, friction: Array) -> WalkerWorkspace:
    """Returns a workspace whose records, without those of whole-body control, lie in one block of memory."""
    e = make_embedded_walker(walking)
    terms, records = e.walker.terms, list[Record]()
    _collect_records((e.walker, e.output), records)
    starts = np.cumsum([0, *(-(-record.block.nbytes // RECORD_ALIGNMENT) * RECORD_ALIGNMENT for record in records)])
    memory, placed = np.zeros(starts[-1], dtype=np.uint8), dict[int, Record]()
    for record, start in zip(records, starts[:-1].tolist(), strict=True):
        block = memory[start : start + record.block.nbytes]
        block[:] = record.block
        placed[id(record)] = place_record(find_layout(record, address(record.block)), block)
    walker, output = _replace_records((e.walker, e.output), placed)
    contacts = e.wbc.data.contacts
    return WalkerWorkspace(
        walker=e._replace(walker=walker._replace(terms=terms), output=output),
        memory=memory.view(np.int8),
        friction=LaneFriction(friction, contacts.cone.copy(), contacts.cone_row_count.copy(), friction.copy()),
    )


def _collect_records(x: Any, records: list[Record]) -> None:
    """Appends all records of a tree of tuples, without those in records."""
    if isinstance(x, Record):
        records.append(x)
    elif isinstance(x, tuple):
        for each in x:
            _collect_records(each, records)


def _replace_records(x: Any, placed: dict[int, Record]) -> Any:
    """Returns a tree of tuples whose records are replaced, by their ids."""
    if isinstance(x, Record):
        return placed[id(x)]
    if isinstance(x, tuple):
        parts = [_replace_records(each, placed) for each in x]
        return type(x)._make(parts) if hasattr(x, "_make") else tuple(parts)
    return x
