"""`ControllerBatch`: n equal controllers whose states are arrays and whose ticks compiled code computes in threads."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dynamics.arguments import EXCESS_FACTOR
from ..errors import ArgumentError, ArgumentTypeError
from ..exclusive_call import ExclusiveCall
from ..kernels import TickTerms
from ..lane_blocks import LaneBlocks, check_lane_rows, check_mask, count_bytes, read_only
from ..robot.arguments import Numbers
from ..robot.units import JointUnits
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, FrozenArrays, frozen
from .batch_references import ForceReferences, MotionGains, MotionReferences
from .controller_lanes import (
    ControllerLanes,
    LaneFriction,
    compute_lanes,
    make_controller_lanes,
    reset_lanes,
    set_lane_references,
)
from .controller_structure import ControllerStructure
from .elements import NamedItems, check_contact_names
from .embedded import MAX_FRICTION, EmbeddedController, make_embedded_controller
from .tasks import ForceTask, Task
from .tick_data import TickOutcome
from .tick_period import LaneMotionCheck

#: Names of the outcomes of a tick by their number.
OUTCOME_NAMES = np.array([outcome.name.lower() for outcome in TickOutcome])


@dataclass(frozen=True, slots=True, eq=False)
class BatchCommand(FrozenArrays):
    """Commands of n lanes at one tick; arrays are read-only.

    All numbers but `violation` and `kkt` are finite.

    Attributes:
        tau: (n, nu) torques [N m or N]; those of the last tick of a lane without new ones, zero before its first tick.
        accelerations: (n, nv) accelerations due to these torques [m/s^2, rad/s^2].
        forces: (n, contacts, 3) contact forces on the robot, world axes [N]; (n, contacts, 6) with moments [N m] if a
            contact is a surface.
        violation: (n,) largest violation of level 0, see `Status` [m/s^2]; infinite for a lane without a solution.
        kkt: (n,) largest residual of the optimality conditions, see `Status`, dimensionless; infinite likewise.
        codes: (n,) number of each outcome, of which `outcome` gives the name.
    """

    tau: Array
    accelerations: Array
    forces: Array
    violation: Array
    kkt: Array
    codes: NDArray[np.int8]

    @property
    def outcome(self) -> NDArray[np.str_]:
        """Outcome of each lane (n,): those of `Status`, or why the tick of a lane was not computed.

        These reasons are "not_a_number" and "invalid_state" for a state that `Dynamics.update` rejects, and "overflow".
        """
        return OUTCOME_NAMES[self.codes]

    @property
    def ok(self) -> NDArray[np.bool_]:
        """Whether the command of each lane (n,) is the strict optimum and satisfies level 0."""
        return np.asarray(self.codes == TickOutcome.SOLVED)

    def __repr__(self) -> str:
        names, counts = np.unique(self.outcome, return_counts=True)
        return f"<BatchCommand: {', '.join(f'{count} {name}' for name, count in zip(names, counts, strict=True))}>"


class _Workspace:
    """Memory of one controller, in which a thread computes the ticks of its lanes.

    Attributes:
        controller: the controller.
        friction: friction cones of the controller, and those in its memory.
    """

    __slots__ = ("controller", "friction")

    def __init__(self, controller: EmbeddedController, friction: Array) -> None:
        contacts = controller.data.contacts
        self.controller = controller
        self.friction = LaneFriction(friction, contacts.cone.copy(), contacts.cone_row_count.copy(), friction.copy())


class ControllerBatch(StrictAttributes, fixed=("robot", "dt", "n", "threads", "contacts", "references", "gains")):
    """Batch of n controllers, each like the `WholeBodyController` that made it; created by `WholeBodyController.batch`.

    A controller of a batch is a *lane*.  All lanes have the same robot, elements, contacts and limits, and may differ
    in references, gains and friction.  Lanes do not interact.  Each lane equals a single `WholeBodyController` bit for
    bit, for any number of lanes and threads.

    A state that a single `Dynamics.update` would reject, such as one with NaN, gives its lane an outcome other than
    "solved" and the torques of its last tick.  The state of the lane does not change: contacts are not ramped.

    Args:
        structure: elements and contacts of the controller.
        n: number of lanes.
        threads: number of threads.
        dt: control period [s].
        ramp_time: time over which contacts are made and broken [s].
        exclusive_call: lock of the batch; None: a new one.

    Attributes:
        robot: robot of each lane.
        dt: control period [s].
        n: number of lanes.
        threads: number of threads.
        contacts: names of all contacts, in the order of `BatchCommand.forces`.
        references: references of the tasks by name: `MotionReferences`, and `ForceReferences` of force tasks.
        gains: `MotionGains` of the motion tasks by name.

    Raises:
        ArgumentError: the controller has custom elements, or no kernel is generated for the robot.
    """

    def __init__(
        self,
        structure: ControllerStructure,
        n: int,
        threads: int,
        *,
        dt: float,
        ramp_time: float,
        exclusive_call: ExclusiveCall | None = None,
    ) -> None:
        solver = structure.solver
        names = [element.name for _, element in solver.tables.custom_elements]
        if names:
            raise ArgumentError(
                f"batch: the elements {', '.join(map(repr, names))} are not supported, because their rows are computed "
                "in Python; remove them"
            )
        if not isinstance(solver.terms, TickTerms):
            raise ArgumentError(
                f"batch: the closed loops of {solver.robot.name!r} have no closed-form solution, so that no kernel is "
                "generated for the robot; compute one controller after the other"
            )
        structure.levels.validate_parameters()
        self.robot, self.dt, self.n, self.threads, self.contacts = solver.robot, dt, n, threads, solver.names
        self._terms, self._sizes = solver.terms, {s.name: s.size for s in solver.contacts}
        friction = np.array([settings.contact.friction for settings in solver.contacts], dtype=np.float64)
        self._workspaces = [
            _Workspace(make_embedded_controller(structure, dt, ramp_time), friction) for _ in range(threads)
        ]
        first = self._workspaces[0].controller
        self._has_pyramid = (first.data.contacts.is_unilateral != 0) & (first.data.contacts.is_surface == 0)
        self._has_pyramid &= first.data.model.faces > 0
        self._lanes = make_controller_lanes(n, first, friction)
        self._blocks: LaneBlocks[_Workspace] = LaneBlocks(n, self._workspaces, "controller batch")
        self._lanes_of_block = [ControllerLanes._make(x[rows] for x in self._lanes) for rows in self._blocks.rows]
        self._default_request = self._request_mask(structure.default_contacts)
        self._exclusive_call = exclusive_call or ExclusiveCall("batch")
        self._levels, self._motion_check, self._has_ticked = structure.levels, LaneMotionCheck(self.robot, dt), False
        references, gains = dict[str, MotionReferences | ForceReferences](), dict[str, MotionGains]()
        for i, e in enumerate(e for level in structure.levels.elements for e in level):
            if isinstance(e, Task):
                references[e.name] = MotionReferences(e, i, self._lanes, first, self._exclusive_call)
                start = int(first.data.model.elements.first_parameter[i])
                gains[e.name] = MotionGains(e, self._lanes.parameters[:, start:], self._exclusive_call)
            elif isinstance(e, ForceTask):
                rows = self._lanes.force_references[:, first.data.model.elements.first[i]]
                references[e.name] = ForceReferences(e, self._sizes, rows, self._exclusive_call)
        self.references: Mapping[str, Any] = NamedItems("task", references)
        self.gains: Mapping[str, MotionGains] = NamedItems("motion task", gains)

    # -- state -----------------------------------------------------------------------------------------------
    @property
    def contact_activations(self) -> Array:
        """Activation of each contact (n, contacts), a read-only view: 0 inactive, 1 made, in between during a ramp."""
        return read_only(self._lanes.activation)

    @property
    def friction(self) -> Array:
        """Coulomb friction coefficients (n, contacts), a read-only view, dimensionless; see `set_parameters`."""
        return read_only(self._lanes.friction)

    @property
    def bytes_per_lane(self) -> float:
        """Memory of a lane [bytes]."""
        return count_bytes(self._lanes) / self.n

    @property
    def bytes_per_thread(self) -> int:
        """Memory for a tick in progress, which a thread needs once for all its lanes [bytes]."""
        return count_bytes(self._workspaces[0].controller) + count_bytes(self._workspaces[0].friction)

    # -- time ------------------------------------------------------------------------------------------------
    def compute(
        self, q: Numbers, v: Numbers, contacts: Iterable[str] | NDArray[np.bool_] | None = None
    ) -> BatchCommand:
        """Computes the commands of one tick of all lanes, in one call of compiled code for each block of lanes.

        Args:
            q: (n, nq) configurations.
            v: (n, nv) velocities [m/s, rad/s].
            contacts: names of the contacts that should be closed in all lanes, or (n, contacts) bools in the order of
                `contacts`; all feet if None (no contact if the root is fixed).  Contacts that appear or disappear from
                one call to the next are ramped.

        Returns: The `BatchCommand`.

        Raises:
            ArgumentError: an array of a wrong shape.
            ArgumentTypeError: an argument is not an array of numbers, or an array of contacts is not one of bools.
            UnknownNameError: no contact has this name.
            ConcurrencyError: another thread uses this batch.

        Warns:
            RuntimeWarning: once, for one lane, as by `WholeBodyController.compute`: its motion between ticks shows
                another period than `dt` or another convention of the state; at the first tick also for unstable gains,
                and for joint positions that seem to be in degrees.
        """
        q_rows = check_lane_rows("q", q, self.n, self.robot.nq, one_row=False)
        v_rows = check_lane_rows("v", v, self.n, self.robot.nv, one_row=False)
        requested = self._check_contacts(contacts)
        self._warn_of_inputs(q_rows, v_rows)
        address = self._terms.address

        def process(workspace: _Workspace, block: int) -> None:
            rows = self._blocks.rows[block]
            own = requested[rows] if len(requested) > 1 else requested
            compute_lanes(
                workspace.controller, self._lanes_of_block[block], workspace.friction, q_rows[rows], v_rows[rows], own,
                address,
            )  # fmt: skip

        with self._exclusive_call.acquire("compute"):
            self._blocks.run(process)
            lanes = self._lanes
            n_components = max(self._sizes.values(), default=3)
            tau, accelerations, forces, violation, kkt = (
                frozen(array)
                for array in (
                    lanes.tau, lanes.accelerations, lanes.forces[:, :, :n_components], lanes.violation, lanes.kkt,
                )
            )  # fmt: skip
            codes = lanes.outcome.copy()
            codes.flags.writeable = False
        return BatchCommand(tau, accelerations, forces, violation, kkt, codes)

    def _warn_of_inputs(self, q: Array, v: Array) -> None:
        """Warns of states and gains that contradict the period, or are in another convention or unit."""
        reason = self._motion_check.update(q, v) if self._motion_check.is_active else ""
        if not self._has_ticked:
            self._has_ticked = True
            units = JointUnits(self.robot, excess_factor=EXCESS_FACTOR)
            units.warn_of_lanes("q", q[:, units.index], np.arange(self.n), stacklevel=4)
            found = (self._levels.describe_unstable_gains(self.dt, row) for row in self._lanes.parameters)
            lane, gains = next(((i, each) for i, each in enumerate(found) if each), (0, ""))
            reason = f"lane {lane}: {gains}" if gains else reason
        if reason:
            warnings.warn(reason, RuntimeWarning, stacklevel=3)

    def reset(self, mask: Any = None) -> None:
        """Clears contacts, references and the last torques of lanes, as `WholeBodyController.reset`.

        The next tick of these lanes is a first one.  Friction and gains are unchanged.

        Args:
            mask: (n,) bools, which lanes are reset; None: all.

        Raises:
            ArgumentTypeError: `mask` is not an array of bools.
            ArgumentError: a wrong shape.
            ConcurrencyError: another thread uses this batch.
        """
        rows, workspace = check_mask(mask, self.n), self._workspaces[0]
        with self._exclusive_call.acquire("reset"):
            reset_lanes(workspace.controller, self._lanes, workspace.friction, rows.astype(np.int8))

    def set_parameters(self, mask: Any = None, *, friction: Numbers | float) -> None:
        """Sets parameters of lanes from the next tick on.

        Args:
            mask: (n,) bools, which lanes get the parameters; None: all.
            friction: Coulomb friction coefficients in [0, 10], dimensionless: a number or (n,) for all point contacts
                with a friction pyramid, or (n, contacts), of which the rows in `mask` are used.

        Raises:
            ArgumentError: a wrong shape or a value out of range; or another friction for a contact without a friction
                pyramid, such as a surface; nothing has changed.
            ArgumentTypeError: not numbers, or `mask` is not an array of bools.
            ConcurrencyError: another thread uses this batch.
        """
        rows, present = check_mask(mask, self.n), self._lanes.friction
        if np.ndim(friction) == 2:
            values = check_lane_rows("friction", friction, self.n, len(self.contacts), one_row=False)
        else:
            column = np.full((1, self.n), friction) if np.ndim(friction) == 0 else np.array(friction, ndmin=2)
            column = check_lane_rows("friction", column, 1, self.n)
            values = np.where(self._has_pyramid, column.T, present)
        values = values[rows]
        if not ((values >= 0.0) & (values <= MAX_FRICTION)).all():
            raise ArgumentError(f"friction: expected numbers from 0 to {MAX_FRICTION:g}, got {friction}")
        changed = (values != present[rows]).any(axis=0) & ~self._has_pyramid
        if changed.any():
            names = [name for name, is_changed in zip(self.contacts, changed, strict=True) if is_changed]
            raise ArgumentError(f"friction: {', '.join(names)} has no friction pyramid, so that its value is fixed")
        with self._exclusive_call.acquire("set_parameters"):
            present[rows] = values

    def warmup(self) -> None:
        """Compiles or loads the machine code of the ticks, so that a control loop does not have to wait for it."""
        compute_lanes.compile(self._workspaces[0].controller)
        for each in (reset_lanes, set_lane_references):
            each.compile()

    # -- arguments -------------------------------------------------------------------------------------------
    def _request_mask(self, names: Sequence[str]) -> NDArray[np.int8]:
        """Returns (1, contacts) 1 for each contact in `names`, else 0."""
        return np.array([[name in names for name in self.contacts]], dtype=np.int8).reshape(1, -1)

    def _check_contacts(self, contacts: Any) -> NDArray[np.int8]:
        """Returns (1, contacts) or (n, contacts) 1 for each requested contact, else 0."""
        if contacts is None:
            return self._default_request
        if not isinstance(contacts, np.ndarray):
            return self._request_mask(check_contact_names(contacts, self.contacts))
        shape = (self.n, len(self.contacts))
        if contacts.dtype != bool:
            raise ArgumentTypeError(f"contacts: expected names or bools of shape {shape}, got dtype {contacts.dtype}")
        if contacts.shape != shape:
            raise ArgumentError(f"contacts: expected bools of shape {shape}, got shape {contacts.shape}")
        return np.ascontiguousarray(contacts).view(np.int8)

    def __repr__(self) -> str:
        return (
            f"<ControllerBatch of {self.n} x {self.robot.name}, {self.bytes_per_lane / 1024:.1f} kB a lane, "
            f"{self.bytes_per_thread / 1024:.0f} kB for each of {self.threads} threads>"
        )
