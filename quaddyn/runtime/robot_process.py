"""`RobotProcess`: a simulated robot in a separate process, in real time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..deprecation import renamed_parameters, renamed_values
from ..errors import ArgumentError, ArgumentTypeError, QuaddynError
from ..operating_system import parent_process, shared_memory_folder
from ..robot.loader import load
from ..robot.robot import Robot
from ..safe_files import remove_if_same
from ..simulation import Actuators, MujocoPlant, Plant, Simulation
from ..strict_attributes import StrictAttributes
from ..urdf.mjcf import has_mujoco
from .faults import fault_name
from .packet_channel import LinkQuality
from .realtime import RealTimeOptions
from .server import RobotServer
from .shared_memory import SharedMemory, SharedMemoryInterface, StatusEntry
from .simulated_interface import PlantInterface, make_noisy_sensors

#: Names of the plants.
PLANTS = ("embedded", "mujoco")
#: Program of the child process; ``-m`` would execute this module twice, since the package imports it.
CHILD_PROGRAM = f"import json, sys; from {__name__} import main; main(json.loads(sys.argv[1]))"
#: Longest time for loading the robot and compiling [s].
STARTUP_TIMEOUT = 120.0


class RobotProcess(StrictAttributes, fixed=("robot", "path")):
    """Separate process that simulates a robot in real time; it ends with the context.

    Args:
        source: a catalogue name or a URDF file.
        plant: "mujoco" or "embedded"; None: "mujoco" where it is installed.  A robot without commands lies on the
            ground with dozens of contacts, for which "embedded" is many times slower than real time.
        dt: period of readings and commands, and step of the plant [s].
        actuators: motors of a robot with the same joints, such as `ActuatorFit.actuators` of the real robot's log;
            None: perfect motors within the robot's effort limits.
        watchdog: number of periods without a command before the motors are damped, see `RobotServer`.
        resume_timeout: longest time without commands that is not a fault [s], see `RobotServer`.
        link_quality: quality of the link; None: perfect.
        noise: whether sensors are noisy.
        seed: seed of all noise and of the link.
        priority: ``SCHED_FIFO`` priority level that the process requests, so that it keeps its period under load; None:
            no real-time priority.

    Attributes:
        robot: the robot, loaded in this process.
        path: path of the shared memory.

    Raises:
        ArgumentError: an option out of range.
        QuaddynError: the process did not start; the message has its output.
    """

    @renamed_values("plant", simulation="embedded")
    @renamed_parameters(resume="resume_timeout", quality="link_quality")
    def __init__(
        self,
        source: str,
        *,
        plant: str | None = None,
        dt: float = 2e-3,
        actuators: Actuators | None = None,
        watchdog: int = 2,
        resume_timeout: float = 0.03,
        link_quality: LinkQuality | None = None,
        noise: bool = True,
        seed: int = 0,
        priority: int | None = None,
    ) -> None:
        if plant is None:
            plant = "mujoco" if has_mujoco() else "embedded"
        if plant not in PLANTS:
            raise ArgumentError(f"plant: expected one of {', '.join(PLANTS)}, got {plant!r}")
        if actuators is not None and not isinstance(actuators, Actuators):
            raise ArgumentTypeError(f"actuators: expected Actuators, got {type(actuators).__name__}")
        self.robot: Robot = load(source, root="free")
        if actuators is not None and actuators.robot.actuated != self.robot.actuated:
            raise ArgumentError(
                f"actuators: expected the joints of {self.robot.name!r}, got actuators of {actuators.robot.name!r}"
            )
        motors = None if actuators is None else actuators.constructor_arguments
        link_quality = LinkQuality() if link_quality is None else link_quality
        link = {part: getattr(link_quality, part) for part in link_quality.__slots__}
        options = {"source": source, "plant": plant, "dt": dt, "watchdog": watchdog, "noise": noise, "seed": seed}
        options |= {"resume_timeout": resume_timeout, "priority": priority, "motors": motors, "quality": link}
        handle, name = tempfile.mkstemp(prefix="quaddyn-", suffix=".ring", dir=shared_memory_folder())
        self.path, self._file = Path(name), os.fstat(handle)
        os.close(handle)
        try:
            command = [sys.executable, "-c", CHILD_PROGRAM, json.dumps({**options, "path": name})]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="utf-8"
            )
        except BaseException:
            remove_if_same(self.path, self._file)
            raise
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def _wait_until_ready(self) -> None:
        """Waits until the process reports that it is ready.

        Raises:
            QuaddynError: the process ended before.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line.strip() != "ready":
            raise QuaddynError(
                "robot process: the process ended before it was ready, with exit code "
                f"{self._process.wait(STARTUP_TIMEOUT)}"
            )

    def interface(self) -> SharedMemoryInterface:
        """Returns an interface to the robot for the controller's process."""
        return SharedMemoryInterface(self.robot, self.path)

    def status(self) -> dict[str, Any]:
        """Returns status values of the process by name.

        ``ticks``: periods so far; ``late``: late ones among them; ``time`` of the robot [s]; ``commands`` taken;
        ``silent``: periods since the last one; ``silences``: silences that the watchdog has detected; ``fault``: name
        of the fault for which motors are damped, such as "link lost", which is also that of a silence that is no fault
        yet; "" without a fault.
        """
        memory = SharedMemory(self.path, self.robot.nu, len(self.robot.feet))
        values: dict[str, Any] = {entry.name.lower(): int(memory.status[entry]) for entry in StatusEntry}
        values |= {"time": float(memory.status[StatusEntry.TIME]), "fault": fault_name(values["fault"])}
        memory.close()
        return values

    def close(self) -> None:
        """Ends the process and removes the shared memory."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        remove_if_same(self.path, self._file)

    def __enter__(self) -> RobotProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make_plant(robot: Robot, name: str, dt: float, motors: Mapping[str, Any] | None = None) -> Plant:
    """Returns one of `PLANTS` with joint stops, which a robot without commands reaches when it sinks."""
    kind = Simulation if name == "embedded" else MujocoPlant
    return kind(robot, dt=dt, actuators=Actuators(robot, **(motors or {})))


def main(options: dict[str, Any]) -> None:
    """Runs in the child process: serves the robot until its parent ends it."""
    robot, dt, seed = load(options["source"], root="free"), float(options["dt"]), int(options["seed"])
    plant = make_plant(robot, options["plant"], dt, options["motors"])
    sensors = make_noisy_sensors(robot, seed) if options["noise"] else None
    memory = SharedMemory(options["path"], robot.nu, len(robot.feet), create=True)
    server = RobotServer(
        PlantInterface(plant, sensors=sensors),
        memory,
        dt=dt,
        watchdog=int(options["watchdog"]),
        resume_timeout=float(options["resume_timeout"]),
        link_quality=LinkQuality(**options["quality"]),
        seed=seed,
    )
    for _ in range(3):
        server.tick()  # compiles before the first command
    end_signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: end_signals.append(1))
    parent = parent_process()
    print("ready", flush=True)
    with RealTimeOptions(priority=options["priority"]).applied():
        server.serve(keep_running=lambda: not end_signals and parent_process() == parent)
    memory.remove()  # also if the parent was killed
