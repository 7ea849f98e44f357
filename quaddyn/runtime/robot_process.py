"""`RobotProcess`: a simulated robot in a process of its own, at real time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..deprecation import renamed_parameters, renamed_values
from ..errors import ArgumentError, ArgumentTypeError, QuaddynError
from ..robot.loader import load
from ..robot.robot import Robot
from ..safe_files import remove_same
from ..simulation import Actuators, MujocoPlant, Plant, Simulation
from ..strict_attributes import StrictAttributes
from .packet_channel import LinkQuality
from .realtime import RealTimeOptions
from .server import COMMANDS, FAULT, LATE, SILENCES, SILENT, TICKS, TIME, RobotServer
from .shared_memory import SharedMemory, SharedMemoryInterface
from .simulated_interface import PlantInterface, make_noisy_sensors

#: Plants by name.
PLANTS = ("embedded", "mujoco")
#: What the process runs; the package imports this module itself, so that ``-m`` would run it twice.
PROGRAM = f"import json, sys; from {__name__} import main; main(json.loads(sys.argv[1]))"
#: How long a process may take to load its robot and compile [s].
PATIENCE = 120.0


class RobotProcess(StrictAttributes, fixed=("robot", "path")):
    """Starts a process that plays a robot, and ends it with the context.

    Args:
        source: a catalogue name or a URDF file.
        plant: "mujoco" or "embedded"; by default "mujoco" where it is installed.  A robot that lies on the ground, as
            it does until it gets commands, touches it in dozens of places, for which "embedded" needs many times
            longer than real time.
        dt: period of readings and commands, and step of the plant [s].
        actuators: the motors, of a robot with the same joints, such as `ActuatorFit.actuators` of the real one's log;
            by default they are perfect within the robot's effort limits.
        watchdog, resume_timeout: as of `RobotServer`.
        quality: of the link.
        noise: whether sensors are noisy.
        seed: of all noise and of the link.
        priority: of ``SCHED_FIFO`` that the process asks for, since motor boards keep time whatever else runs.

    Attributes:
        robot: loaded here, too.
        path: of the shared memory.

    Raises:
        ArgumentError: an option out of range.
        QuaddynError: the process did not start; what it said is in the message.
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
            plant = "mujoco" if find_spec("mujoco") else "embedded"
        if plant not in PLANTS:
            raise ArgumentError(f"plant: expected one of {', '.join(PLANTS)}, got {plant!r}")
        if actuators is not None and not isinstance(actuators, Actuators):
            raise ArgumentTypeError(f"actuators: expected Actuators, got {type(actuators).__name__}")
        self.robot: Robot = load(source, root="free")
        if actuators is not None and actuators.robot.actuated != self.robot.actuated:
            raise ArgumentError(f"actuators: of {actuators.robot.name!r}, with other joints than {self.robot.name!r}")
        motors = None if actuators is None else actuators.constructor_arguments
        link_quality = LinkQuality() if link_quality is None else link_quality
        folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        link = {part: getattr(link_quality, part) for part in link_quality.__slots__}
        options = {"source": source, "plant": plant, "dt": dt, "watchdog": watchdog, "noise": noise, "seed": seed}
        options |= {"resume_timeout": resume_timeout, "priority": priority, "motors": motors, "quality": link}
        handle, name = tempfile.mkstemp(prefix="quaddyn-", suffix=".ring", dir=folder)
        self.path, self._file = Path(name), os.fstat(handle)
        os.close(handle)
        try:
            command = [sys.executable, "-c", PROGRAM, json.dumps({**options, "path": name})]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="utf-8"
            )
        except BaseException:
            remove_same(self.path, self._file)
            raise
        try:
            self._await()
        except BaseException:
            self.close()
            raise

    def _await(self) -> None:
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if said.strip() != "ready":
            raise QuaddynError(f"robot process: it ended before it was ready, exit code {self._process.wait(PATIENCE)}")

    def interface(self) -> SharedMemoryInterface:
        """The robot as the controller's side sees it."""
        return SharedMemoryInterface(self.robot, self.path)

    def status(self) -> dict[str, float]:
        """What the process says of itself, by name.

        ``ticks`` it has run, ``late`` ones among them, ``time`` of the robot [s], ``commands`` taken, periods that it
        has been ``silent`` for since, how many ``silences`` its watchdog has noticed, and the code of the ``fault`` for
        which motors are damped: that of a lost link also while a silence has not become a fault yet.
        """
        memory = SharedMemory(self.path, self.robot.nu, len(self.robot.feet))
        names = {"ticks": TICKS, "commands": COMMANDS, "silent": SILENT, "silences": SILENCES, "late": LATE}
        names |= {"time": TIME, "fault": FAULT}
        found = {name: float(memory.status[at]) for name, at in names.items()}
        memory.close()
        return found

    def close(self) -> None:
        """End the process, and remove the shared memory."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        remove_same(self.path, self._file)

    def __enter__(self) -> RobotProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def plant_of(robot: Robot, name: str, dt: float, motors: Mapping[str, Any] | None = None) -> Plant:
    """One of `PLANTS`; with joint stops, since without commands a robot sinks until its joints are at theirs."""
    kind = Simulation if name == "embedded" else MujocoPlant
    return kind(robot, dt=dt, actuators=Actuators(robot, **(motors or {})))


def main(options: dict[str, Any]) -> None:
    """What runs in the process."""
    robot, dt, seed = load(options["source"], root="free"), float(options["dt"]), int(options["seed"])
    plant = plant_of(robot, options["plant"], dt, options["motors"])
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
        server.tick()  # compiled before anybody counts on it
    ending: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(1))
    parent = os.getppid()
    print("ready", flush=True)
    with RealTimeOptions(priority=options["priority"]).applied():
        server.serve(keep_running=lambda: not ending and os.getppid() == parent)
    memory.remove()  # of a parent that was killed, too
