"""`CudaControllerBatch`: n equal controllers on a GPU, a thread for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiler.kinds import record_kind
from ..compiler.lane_kernels import ENTRY_BYTES
from ..compiler.lane_memory import BLOCK_LANES, collect_arrays, place_registers, share_memory
from ..cuda.arrays import CudaArray, convert_result, current_stream, stream_handle, view_array
from ..cuda.driver import LoadedKernel, device
from ..cuda.lane_program import (
    DeviceState,
    LaneProgram,
    LaneWorkspace,
    UploadedArrays,
    lane_words,
    to_host,
    view_rows,
)
from ..deprecation import renamed_attributes
from ..errors import ArgumentError
from ..kernels.cuda_kernels import KERNEL_NAME
from ..lane_blocks import check_mask
from ..robot.arguments import Numbers
from ..strict_attributes import StrictAttributes
from .batch_references import MotionGains
from .collision_data import CollisionScratch
from .controller_batch import OUTCOME_NAMES, ControllerBatch
from .controller_lanes import LaneFriction, compute_lane
from .controller_model import ControllerTables, make_solver_workspace
from .controller_structure import ControllerStructure
from .elements import check_contact_names
from .embedded import EmbeddedController


class DeviceCommand(NamedTuple):
    """Commands of n lanes at one tick in the memory of a GPU, arrays of the library of `q`; the next tick changes them.

    Attributes:
        tau: (n, nu) torques [N m or N], see `BatchCommand`.
        accelerations: (n, nv) accelerations due to these torques [m/s^2, rad/s^2].
        forces: (n, contacts, 6) contact forces on the robot and moments, zero for points, world axes [N, N m].
        violation: (n,) largest violation of level 0 [m/s^2]; infinite for a lane without a solution.
        kkt: (n,) largest residual of the optimality conditions, dimensionless; infinite likewise.
        codes: (n,) int8, number of each outcome; `CudaControllerBatch.outcome_names` has the names.
    """

    tau: Any
    accelerations: Any
    forces: Any
    violation: Any
    kkt: Any
    codes: Any


@renamed_attributes(bytes_per_lane_in_progress="bytes_per_thread")
class CudaControllerBatch(StrictAttributes, fixed=("robot", "dt", "n", "contacts", "device")):
    """Batch of n controllers on a GPU; created by `WholeBodyController.batch` with ``device="cuda"``.

    A tick computes what `ControllerBatch` computes, with the same code.  States, contacts and commands are arrays in
    the memory of the GPU.  The methods that set references, gains and friction take NumPy arrays; each call copies the
    states of all lanes to the host and back.

    Args:
        structure: elements and contacts of the controller.
        n: number of lanes.
        index: number of the GPU.
        dt: control period [s].
        ramp_time: time over which contacts are made and broken [s].
        threads: maximum number of threads; None: as many as run on the GPU at the same time.

    Attributes:
        robot: robot of each lane.
        dt: control period [s].
        n: number of lanes.
        contacts: names of all contacts, in the order of `DeviceCommand.forces`.
        device: name of the GPU, such as "cuda:0".

    Raises:
        ArgumentError: the controller has custom elements, no kernel is generated for the robot, or no such GPU.
        CudaError: there is no driver or GPU that can be used, or the memory of the GPU is exhausted.
    """

    #: Names of the outcomes by their number, see `BatchCommand.outcome`.
    outcome_names = OUTCOME_NAMES

    def __init__(
        self,
        structure: ControllerStructure,
        n: int,
        index: int,
        *,
        dt: float,
        ramp_time: float,
        threads: int | None = None,
    ) -> None:
        self._gpu = gpu = device(index)
        self._state = DeviceState("batch", gpu)
        self._host = host = ControllerBatch(structure, n, 1, dt=dt, ramp_time=ramp_time, exclusive_call=self._state)
        self.robot, self.dt, self.n, self.contacts, self.device = host.robot, dt, n, host.contacts, f"cuda:{index}"
        self._tick = LaneProgram(gpu, compute_lane)
        self._terms_kernel = LoadedKernel(gpu, host._terms.ptx(), KERNEL_NAME)
        kinds, friction = self._tick.kinds, host._workspaces[0].friction
        e = with_shared_memory(host._workspaces[0].controller, structure.solver.tables)
        values, shared = {"e": e, "friction": friction}, shared_arrays(e, friction)
        self._workspace = LaneWorkspace(self._tick, values, kinds, n, shared=shared, threads=threads)
        self._term_values = e.data.terms.values
        self._terms = lane_words(n, self._term_values.size, gpu)
        self._state.copies.add(collect_arrays(host._lanes, kinds["lanes"]))
        self._registers = {
            **self._workspace.registers,
            "lanes": place_registers(host._lanes, kinds["lanes"], self._state.copies.address),
            "kernel": [0],
        }
        self._requests = UploadedArrays(self.device)

    # -- state -----------------------------------------------------------------------------------------------
    @property
    def references(self) -> Mapping[str, Any]:
        """References of the tasks by name, as `ControllerBatch.references`, with the present values as NumPy arrays."""
        self._state.update_host("references")
        return self._host.references

    @property
    def gains(self) -> Mapping[str, MotionGains]:
        """Gains of the motion tasks by name, as `ControllerBatch.gains`."""
        return self._host.gains

    @property
    def contact_activations(self) -> CudaArray:
        """Activation of each contact (n, contacts), which later ticks change: 0 inactive, 1 made, in between a ramp."""
        return self._state.copies[self._host._lanes.activation]

    @property
    def friction(self) -> CudaArray:
        """Coulomb friction coefficients (n, contacts), dimensionless; see `set_parameters`."""
        return self._state.copies[self._host._lanes.friction]

    @property
    def bytes_per_lane(self) -> float:
        """Memory of a lane [bytes]: its state, and the rigid-body terms of its next tick."""
        return self._host.bytes_per_lane + self._term_values.nbytes

    @property
    def bytes_per_thread(self) -> int:
        """Memory for a tick in progress, which a thread needs once for all its lanes [bytes]."""
        return self._workspace.bytes_per_thread

    @property
    def threads(self) -> int:
        """Number of threads, each of which computes one lane after the other."""
        return BLOCK_LANES * self._workspace.n_blocks

    # -- time ------------------------------------------------------------------------------------------------
    def compute(
        self, q: Any, v: Any, contacts: Iterable[str] | Any | None = None, *, stream: object = None
    ) -> DeviceCommand:
        """Starts one tick of all lanes and returns at once.

        A lane with an invalid state has an outcome other than "solved" and the torques of its last tick; the others are
        not affected.

        Args:
            q: (n, nq) configurations in the memory of the GPU, float64, with ``__cuda_array_interface__`` or DLPack.
            v: (n, nv) velocities [m/s, rad/s], likewise.
            contacts: names of the contacts that should be closed in all lanes, or (n, contacts) bools in the memory of
                the GPU; all feet if None (no contact if the root is fixed).
            stream: CUDA stream, see `quaddyn.kernels.cuda_kernels.CudaOperation`; by default the current one of the
                library of `q`.

        Returns: The `DeviceCommand`.

        Raises:
            ArgumentError: a wrong shape, strides or device.
            ArgumentTypeError: an argument is not in the memory of the GPU, or has another dtype.
            UnknownNameError: no contact has this name.
            ConcurrencyError: another thread uses this batch.
            CudaError: the driver reports an error.
        """
        gpu, n, nq, nv = self._gpu, self.n, self.robot.nq, self.robot.nv
        handle = current_stream(q, gpu) if stream is None else stream_handle(stream)
        q_rows, v_rows = view_rows("q", q, n, nq, gpu, handle), view_rows("v", v, n, nv, gpu, handle)
        requested = self._view_contacts(contacts, handle)
        registers = self._registers | {
            "q": [q_rows.address, n, nq], "v": [v_rows.address, n, nv], "requested": requested,
        }  # fmt: skip
        with self._state.launching("compute", handle):
            arguments = [n, q_rows.address, 8 * nq, 8, v_rows.address, 8 * nv, 8]
            arguments += [self._terms.address, ENTRY_BYTES * self._term_values.size, ENTRY_BYTES]
            self._terms_kernel.launch(-(-n // BLOCK_LANES), BLOCK_LANES, handle, arguments)
            inputs = self._terms, self._term_values
            self._tick.launch(self._workspace, n, handle, registers, inputs)
            copies, state = self._state.copies, self._host._lanes
            results = (state.tau, state.accelerations, state.forces, state.violation, state.kkt, state.outcome)
            return DeviceCommand(*(convert_result(q, copies[x]) for x in results))

    def reset(self, mask: Any = None) -> None:
        """Clears contacts, references and the last torques of lanes, as `ControllerBatch.reset`.

        Args:
            mask: (n,) bools in host memory or in that of the GPU, which lanes are reset; None: all.

        Raises:
            ArgumentTypeError: `mask` is not an array of bools.
            ArgumentError: a wrong shape.
            ConcurrencyError: another thread uses this batch.
        """
        self._host.reset(check_mask(to_host("mask", mask, self._gpu), self.n))

    def set_parameters(self, mask: Any = None, *, friction: Numbers | float) -> None:
        """Sets parameters of lanes from the next tick on; arguments and errors as for `ControllerBatch`."""
        self._host.set_parameters(to_host("mask", mask, self._gpu), friction=to_host("friction", friction, self._gpu))

    # -- arguments -------------------------------------------------------------------------------------------
    def _view_contacts(self, contacts: Any, stream: int) -> list[int]:
        """Returns the registers of (1, contacts) or (n, contacts) bytes, 1 for each requested contact, else 0."""
        count = len(self.contacts)
        if contacts is None:
            mask: NDArray[np.int8] = self._host._default_request
        elif hasattr(contacts, "__cuda_array_interface__") or hasattr(contacts, "__dlpack__"):
            view = view_array("contacts", contacts, np.dtype(np.bool_), self._gpu, stream)
            if view.shape != (self.n, count) or (self.n > 1 and view.strides != (count, 1)):
                raise ArgumentError(
                    f"contacts: expected a contiguous array of shape ({self.n}, {count}), got {view.shape} with "
                    f"strides {view.strides}"
                )
            return [view.address, self.n, count]
        else:
            mask = self._host._request_mask(check_contact_names(contacts, self.contacts))
        return [self._requests.address(mask), 1, count]

    def __repr__(self) -> str:
        return (
            f"<CudaControllerBatch of {self.n} x {self.robot.name} on {self.device}, "
            f"{self.bytes_per_lane / 1024:.1f} kB a lane, {self.bytes_per_thread / 1024:.0f} kB for each of "
            f"{self.threads} threads>"
        )


def shared_arrays(e: EmbeddedController, friction: LaneFriction) -> list[NDArray[Any]]:
    """Returns the arrays of a controller that no tick writes, so that all lanes can share them."""
    model = [x for part in (e.data.model, e.data.model.elements) for x in part if isinstance(x, np.ndarray)]
    others = [e.home, e.unit_norm_parts, e.frictionless_pyramids, e.data.work.all_velocities]
    return [*model, *others, friction.nominal, friction.cones, friction.cone_row_count]


def with_shared_memory(e: EmbeddedController, tables: ControllerTables) -> EmbeddedController:
    """Returns a controller with little memory for a lane on a GPU: what only a solve needs shares memory with the rest.

    The rest is what only the elimination of equations, the writing of rows and the result need.  Sources and weights of
    rows are only for Python.
    """
    data, rows, work = e.data, e.data.rows, e.data.work
    solver = make_solver_workspace(tables, len(work.solver.basis) - 1, len(data.inputs.custom_rows), is_compact=True)
    kind = record_kind(CollisionScratch)
    assert kind is not None
    outside = [
        work.passive_matrix, work.passive_rhs, work.limb_map, work.limb_redundancy, work.limb_inverse,
        work.limb_scratch, work.leftover_columns, work.leftover_targets, work.reflectors, work.scratch_rows, work.J,
        work.J_other, work.task_state, work.matrix3, work.vectors, work.row_values, rows.A_weight, rows.C_weight,
        rows.A_source, rows.C_source, *(x for x in collect_arrays(work.collisions, kind) if x.dtype == np.float64),
    ]  # fmt: skip
    e = e._replace(data=data._replace(work=work._replace(solver=solver)))
    return share_memory(e, [solver.J_z, solver.R, solver.C_z, solver.factor.triangle], outside)
