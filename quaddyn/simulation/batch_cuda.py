"""`CudaSimulationBatch`: n equal robots on a GPU, a thread for each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiler.kinds import RecordKind, record_kind
from ..compiler.lane_memory import BLOCK_LANES, collect_arrays, place_registers
from ..cuda.arrays import CudaArray, current_stream, stream_handle
from ..cuda.driver import device
from ..cuda.lane_program import DeviceState, LaneProgram, LaneWorkspace, UploadedArrays, to_host, view_rows
from ..deprecation import renamed_attributes
from ..errors import ArgumentError
from ..robot.arguments import Numbers, check_integer
from ..strict_attributes import StrictAttributes
from .batch import STATUS_NAMES, SimulationBatch
from .lanes import INITIAL_CONTACTS, LaneLayout, SteppedPlant, step_lane
from .plant_data import PlantData, StepModel, with_shared_memory


@renamed_attributes(bytes_per_lane_in_progress="bytes_per_thread")
class CudaSimulationBatch(StrictAttributes, fixed=("robot", "dt", "n", "spheres", "links", "device")):
    """Batch of n robots on a GPU; created by `Simulation.batch` with ``device="cuda"``.

    A step computes what `SimulationBatch` computes, with the same code except for sine and cosine.  Commands and states
    are arrays in the memory of the GPU; `q` and the other properties are the arrays that later steps change, and
    ``torch.from_dlpack(batch.q)`` shares their memory.  `reset` and `set_parameters` also take NumPy arrays; each call
    copies the state of all lanes, `bytes_per_lane`, to the host and back.

    A lane with an invalid command, or whose motion diverges, keeps its last valid state and is not stepped until it is
    reset; the other lanes are not affected.  A lane with more contacts than `max_contacts`, or whose contacts need a
    solver in Python, keeps its state; `results` reports it.

    Args:
        worker: simulation; its state is overwritten.
        n: number of lanes.
        index: number of the GPU.
        max_contacts: contacts for which a lane has memory.
        threads: maximum number of threads; None: as many as run on the GPU at the same time.

    Attributes:
        robot: robot of each lane.
        dt: time step [s].
        n: number of lanes.
        spheres: names of the first rows of `contact_forces`: feet, soles and named spheres.
        links: names of the other rows of `contact_forces`.
        device: name of the GPU, such as "cuda:0".
        max_contacts: contacts for which a lane has memory.

    Raises:
        ArgumentError: no such GPU.
        CudaError: there is no driver or GPU that can be used, or the memory of the GPU is exhausted.
    """

    #: Names of the statuses by their number, see `SimulationBatch.status`.
    status_names = STATUS_NAMES

    def __init__(
        self, worker: SteppedPlant, n: int, index: int, max_contacts: int = INITIAL_CONTACTS, threads: int | None = None
    ) -> None:
        self._gpu = gpu = device(index)
        self._state = DeviceState("batch", gpu)
        self._host = host = SimulationBatch([worker], n, exclusive_call=self._state)
        self.robot, self.dt, self.n, self.spheres, self.links = host.robot, host.dt, n, host.spheres, host.links
        self.device, self.max_contacts = f"cuda:{index}", max_contacts
        self._program = LaneProgram(gpu, step_lane)
        kinds = self._program.kinds
        lanes_kind = kinds["lanes"]
        assert isinstance(lanes_kind, RecordKind)
        self._fields = dict(lanes_kind.fields)
        lane_worker = host._first_worker
        worker._contacts, worker._accumulated = worker._make_buffers(max_contacts)
        plant = worker._plant_data()._replace(motors=lane_worker._motors, pushes=worker._no_pushes)
        plant = with_shared_memory(plant)
        layout = lane_worker._layout
        values = {"plant": plant, "layout": layout, "cursor": lane_worker._cursor}
        shared = shared_arrays(plant, layout)
        self._workspace = LaneWorkspace(self._program, values, kinds | self._fields, n, shared=shared, threads=threads)
        self._states = host._states._replace(
            keys=np.zeros((n, max_contacts), np.int64), impulses=np.zeros((n, max_contacts, 3))
        )
        self._results = np.zeros(n, np.int64)
        copies = self._state.copies
        for name, value in (("states", self._states), ("parameters", host._parameters)):
            copies.add(collect_arrays(value, self._fields[name]))
        copies.add([self._results])
        self._registers = {
            **self._workspace.registers,
            "states": place_registers(self._states, self._fields["states"], copies.address),
            "parameters": place_registers(host._parameters, self._fields["parameters"], copies.address),
        }
        self._no_states = [0, 0, 1, self.robot.nq + self.robot.nv]
        self._rows = UploadedArrays(self.device)

    # -- state -----------------------------------------------------------------------------------------------
    @property
    def q(self) -> CudaArray:
        """Configurations (n, nq), which later steps change."""
        return self._state.copies[self._states.q]

    @property
    def v(self) -> CudaArray:
        """Velocities (n, nv), which later steps change [m/s, rad/s]."""
        return self._state.copies[self._states.v]

    @property
    def tau(self) -> CudaArray:
        """Motor torques of the last step (n, nu), after delays and limits [N m or N]."""
        return self._state.copies[self._states.tau]

    @property
    def n_steps(self) -> CudaArray:
        """Steps of each lane since its last reset (n,), int64; its time is ``dt n_steps``."""
        return self._state.copies[self._states.n_steps]

    @property
    def contact_forces(self) -> CudaArray:
        """Mean ground reaction forces of the last step (n, spheres and links, 3), world axes [N]."""
        return self._state.copies[self._states.forces]

    @property
    def status(self) -> CudaArray:
        """Number of the status of the last step of each lane (n,), int8; `status_names` has the names."""
        return self._state.copies[self._states.status]

    @property
    def residual(self) -> CudaArray:
        """Largest violation of the contact law in the last step (n,) [m/s]."""
        return self._state.copies[self._states.residual]

    @property
    def has_diverged(self) -> CudaArray:
        """Whether the motion of each lane has diverged (n,), int8."""
        return self._state.copies[self._states.has_diverged]

    @property
    def results(self) -> CudaArray:
        """Result of the last call of `step` for each lane (n,), int64; 0: the steps were taken, or the lane diverged.

        Otherwise the lane is unchanged: 1 needs a contact solver in Python, 2 or 5 more than `max_contacts` contacts, 3
        a Runge-Kutta step in Python.
        """
        return self._state.copies[self._results]

    @property
    def friction(self) -> CudaArray:
        """Friction coefficient of surfaces without a coefficient (n,), see `set_parameters`."""
        return self._state.copies[self._host._parameters.friction]

    @property
    def bytes_per_lane(self) -> float:
        """Memory of the state and the parameters of a lane [bytes]."""
        return sum(copy.nbytes for _, copy in self._state.copies.values()) / self.n

    @property
    def bytes_per_thread(self) -> int:
        """Memory for a step in progress, which a thread needs once for all its lanes [bytes]."""
        return self._workspace.bytes_per_thread

    @property
    def threads(self) -> int:
        """Number of threads, each of which computes one lane after the other."""
        return BLOCK_LANES * self._workspace.n_blocks

    # -- time ------------------------------------------------------------------------------------------------
    def step(
        self,
        tau: Any = None,
        *,
        position: Any = None,
        velocity: Any = None,
        stiffness: Any = None,
        damping: Any = None,
        steps: int = 1,
        stream: object = None,
    ) -> None:
        """Starts one or several time steps of all lanes and returns at once.

        The arguments are those of `SimulationBatch.step`.  Arrays are in the memory of the GPU, float64, with
        ``__cuda_array_interface__`` or DLPack, and contiguous: (n, nu), or (nu,) for all lanes.  Gains may also be
        numbers, or (nu,) in host memory.  `stream` is a CUDA stream, see `quaddyn.kernels.cuda_kernels.CudaOperation`;
        by default the current one of the library of the first array.

        Raises:
            ArgumentError: a wrong shape, strides or device, gains without positions or positions without gains.
            ArgumentTypeError: an argument is not in the memory of the GPU, or has another dtype.
            ConcurrencyError: another thread is stepping this batch.
            CudaError: the driver reports an error.
        """
        steps = check_integer("steps", steps)
        like = tau if tau is not None else position
        handle = current_stream(like, self._gpu) if stream is None else stream_handle(stream)
        torques, *targets = self._view_commands(tau, position, velocity, stiffness, damping, handle)
        commands = [*torques[:2], 1, torques[2], *(word for words in targets for word in words), steps]
        parts = self._registers | {"commands": commands}
        registers = {
            "plant": parts["plant"],
            "lanes": [word for name in self._fields for word in parts[name]],
            "states": self._no_states,
            "results": [self._state.copies[self._results].address, self.n],
        }
        with self._state.launching("step", handle):
            self._program.launch(self._workspace, self.n, handle, registers)

    def reset(self, mask: Any = None, *, q: Any = None, v: Any = None) -> None:
        """Sets lanes to a state at time 0, as `SimulationBatch.reset`; arrays may be in the memory of the GPU."""
        mask, q, v = (to_host(name, x, self._gpu) for name, x in (("mask", mask), ("q", q), ("v", v)))
        self._host.reset(mask, q=q, v=v)

    def set_parameters(
        self,
        mask: Any = None,
        *,
        friction: Any = None,
        motor_strength: Any = None,
        payload: Any = None,
        payload_position: Numbers = (0.0, 0.0, 0.0),
    ) -> None:
        """Sets parameters of lanes from the next step on, as `SimulationBatch.set_parameters`.

        Arrays may be in the memory of the GPU.
        """
        given = {"mask": mask, "friction": friction, "motor_strength": motor_strength, "payload": payload}
        found = {name: to_host(name, x, self._gpu) for name, x in given.items()}
        self._host.set_parameters(found.pop("mask"), **found, payload_position=payload_position)

    # -- arguments -------------------------------------------------------------------------------------------
    def _view_commands(
        self, tau: Any, position: Any, velocity: Any, stiffness: Any, damping: Any, stream: int
    ) -> list[list[int]]:
        """Returns the registers of torques, desired positions and velocities, and gains."""
        nu, zero = self.robot.nu, self._upload(np.zeros(self.robot.nu))
        torques = zero if tau is None else self._view("tau", tau, stream)
        if position is None:
            given = {"velocity": velocity, "stiffness": stiffness, "damping": damping}
            if names := [name for name, value in given.items() if value is not None]:
                raise ArgumentError(f"position: required with {', '.join(names)}")
            return [torques, *([0, 0, nu] for _ in range(4))]
        gains = []
        for name, gain in (("stiffness", stiffness), ("damping", damping)):
            if gain is None:
                raise ArgumentError(f"{name}: required with position")
            if not isinstance(gain, (int, float, np.ndarray, list, tuple)) or np.ndim(gain) > 1:
                gains.append(self._view(name, gain, stream))
                continue
            row = self._host._check_rows(name, np.full(nu, gain) if np.ndim(gain) == 0 else gain)
            if (row < 0.0).any():
                raise ArgumentError(f"{name}: expected gains of 0 or more, got {row.min():g}")
            gains.append(self._upload(row))
        targets = self._view("position", position, stream)
        return [torques, targets, zero if velocity is None else self._view("velocity", velocity, stream), *gains]

    def _view(self, name: str, value: Any, stream: int) -> list[int]:
        """Returns the registers of a command in the memory of the GPU."""
        view = view_rows(name, value, self.n, self.robot.nu, self._gpu, stream, one_row=True)
        return [view.address, *view.shape]

    def _upload(self, row: NDArray[np.float64]) -> list[int]:
        """Returns the registers of a row for all lanes in host memory, which is copied once."""
        return [self._rows.address(row), 1, self.robot.nu]

    def __repr__(self) -> str:
        return (
            f"<CudaSimulationBatch of {self.n} x {self.robot.name} on {self.device}, "
            f"{self.bytes_per_lane / 1024:.1f} kB a lane, {self.bytes_per_thread / 1024:.1f} kB for each of "
            f"{self.threads} threads>"
        )


def shared_arrays(plant: PlantData, layout: LaneLayout) -> list[NDArray[Any]]:
    """Returns the arrays of a plant and a layout that no step writes, so that all lanes can share them."""
    kind = record_kind(StepModel)
    assert kind is not None
    model, drives, motors = plant.model, plant.memory.drives, plant.motors
    written = [
        model.terrain.planes, model.terrain.boxes, model.terrain.fields, model.bodies.root_inertia, layout.command,
    ]  # fmt: skip
    out = [*collect_arrays(model, kind), *layout, motors.no_load_speed, motors.derating_range, motors.is_speed_limited]
    out = [x for x in out if not any(x is each for each in written)]
    out += [
        drives.actuated, drives.whole_delay_steps, drives.fractional_delay, drives.backlash_motors, drives.half_gap,
        drives.rotor, drives.viscous, drives.coulomb, drives.joint_damping, drives.joint_friction, drives.armature,
        drives.v_previous,
    ]  # fmt: skip
    if not len(drives.backlash_motors):
        out += [
            drives.coupled_inertia, drives.damping, drives.friction, drives.offset, drives.speed, drives.offset_start,
            drives.speed_start, drives.teeth_contact, drives.gap_speed, drives.free_speed,
        ]  # fmt: skip
    return [x for x in out if x.size]
