"""Walks quadrupeds in PyBullet and in Drake, with the estimates of the locomotion controller enabled and disabled.

Neither simulator is used anywhere else in this project, and both have contact models other than those of its plants.
Each simulated robot has the bodies and joints of the loaded one, a sphere at each foot and a box as trunk.  The terrain
consists of the simulator's own planes and boxes; the controller has no terrain map.  The cells are

- "flat-1", "flat-0.6" and "flat-0.2": a trot on level ground with that friction coefficient, and "fast", a faster one;
- "slope-10" and "slope-15": up a slope, in degrees;
- "stairs" (steps of 0.15 l), "boxes" (0.08 l, turned and tilted) and "relief" (columns of up to 0.15 l, also below the
  feet at the start), with l the height of the trunk;
- "pace" and "bound", other gaits;
- "push": four changes of velocity by 0.05 g s, in four directions;
- "wrong-model": the mass of each body differs from the controller's by a random factor between 0.8 and 1.25.

A run passes if the robot neither falls nor stops during 12 s, and covers at least half of the distance that the
controller's reference covers.  ``--check`` exits with 1 if the default settings pass fewer runs than those without
estimates, by more than 1/40 of the runs and by more than one.

Requires ``pip install pybullet drake``; ``--simulators`` selects one of them.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike, NDArray

import quaddyn as qd
from quaddyn.campaigns import process_pool
from quaddyn.campaigns.executors import WorkerDied
from quaddyn.errors import ArgumentError

Array = NDArray[np.float64]
DT, SUBSTEPS = 2e-3, 4  # control period [s], simulation steps in it
SECONDS, START, SETTLED = 12.0, 1.0, 3.0  # duration, start of the motion, start of the measurement [s]
GRAVITY = 9.81
SETTINGS: dict[str, dict[str, Any]] = {
    "estimated": {},
    "neither": {"friction": "nominal", "contact_detection": "scheduled"},
}
#: Friction of the feet, gait and requested speed [sqrt(g l)] by cell.
CELLS = {
    "flat-1": (1.0, "trot", 0.3), "flat-0.6": (0.6, "trot", 0.3), "flat-0.2": (0.2, "trot", 0.2),
    "fast": (0.8, "trot", 0.6), "slope-10": (1.0, "trot", 0.25), "slope-15": (1.0, "trot", 0.25),
    "stairs": (1.0, "trot", 0.25), "boxes": (1.0, "trot", 0.25), "relief": (1.0, "trot", 0.25),
    "pace": (0.8, "pace", 0.25), "bound": (0.8, "bound", 0.25), "push": (0.8, "trot", 0.3),
    "wrong-model": (0.8, "trot", 0.3),
}  # fmt: skip
PUSH_VELOCITY = 0.05 * GRAVITY  # [m/s]
PUSHES = {4.0: (0.0, 1.0), 6.0: (1.0, 0.0), 8.0: (-1.0, 0.0), 10.0: (0.0, -1.0)}  # directions by time [s]
MASS_FACTORS = (0.8, 1.25)
MIN_DISTANCE_FRACTION = 0.5
MIN_TILT_COSINE = 0.3
MAX_WORSE_FRACTION = 1.0 / 40.0


@dataclass(frozen=True)
class StaticBox:
    """Fixed box in the world: center [m], half of its edges [m], and orientation (3, 3)."""

    center: Array
    half_size: Array
    rotation: Array


@dataclass(frozen=True)
class Scene:
    """Terrain of a run.

    Attributes:
        boxes: fixed boxes.
        has_floor: whether the plane z = 0 is solid.
        start_height: height of the ground below the robot at the start [m].
        friction: friction coefficient of the feet on everything.
    """

    boxes: tuple[StaticBox, ...]
    has_floor: bool
    start_height: float
    friction: float


def make_box(center: ArrayLike, half_size: ArrayLike, *rpy: float) -> StaticBox:
    """Returns a box, turned by roll, pitch and yaw [rad]."""
    return StaticBox(np.array(center), np.array(half_size), pin.rpy.rpyToMatrix(*(rpy or (0.0, 0.0, 0.0))))


def make_scene(cell: str, height: float, rng: np.random.Generator) -> Scene:
    """Returns the scene of a cell for a robot whose trunk is at `height` [m]."""
    kind, _, size = cell.partition("-")
    friction, boxes, start = CELLS[cell][0], [], 0.0
    if kind == "slope":
        angle, edge = math.radians(float(size)), 3.0 * height
        up = np.array([-math.sin(angle), 0.0, math.cos(angle)])
        middle = np.array([edge + 20.0 * math.cos(angle), 0.0, 20.0 * math.sin(angle)]) - 0.5 * up
        boxes = [
            make_box((edge - 20.0, 0.0, -0.5), (20.0, 20.0, 0.5)),
            make_box(middle, (20.0, 20.0, 0.5), 0, -angle, 0),
        ]
    elif kind == "stairs":
        rise, tread = 0.15 * height, 1.2 * height
        boxes = [
            make_box((3.0 * height + k * tread + 10.0, 0.0, (k + 0.5) * rise), (10.0, 10.0, 0.5 * rise))
            for k in range(12)
        ]
    elif kind == "boxes":
        thickness = 0.08 * height
        for _ in range(60):
            center = (2.0 * height + rng.uniform(0.0, 12.0) * height, rng.uniform(-4.0, 4.0) * height, 0.5 * thickness)
            half_size = (*(height * rng.uniform(0.3, 1.0, 2)), 0.5 * thickness)
            boxes.append(make_box(center, half_size, *rng.uniform(-0.1, 0.1, 2), rng.uniform(0.0, 2.0 * math.pi)))
    elif kind == "relief":
        start, side = 0.15 * height, 0.3 * height
        for x in range(-4, 30):
            for y in range(-4, 5):
                top = rng.uniform(0.05, 1.0) * start
                center = (side * (x + rng.uniform(-0.1, 0.1)), side * (y + rng.uniform(-0.1, 0.1)), 0.5 * top)
                boxes.append(make_box(center, (0.6 * side, 0.6 * side, 0.5 * top)))
    return Scene(tuple(boxes), kind != "slope", start, friction)


def write_urdf(robot: qd.Robot, mass_factors: Array) -> str:
    """Returns a URDF with a link for each body of a robot: its inertia, spheres at feet, and a box as trunk.

    Args:
        robot: quadruped with a free root and joints of one degree of freedom about or along an axis of their frame.
        mass_factors: (njoints,) factor of mass and inertia of each joint body.
    """
    model, lines = robot.model, ['<?xml version="1.0"?>', '<robot name="robot">']
    for j in range(1, model.njoints):
        inertia, name = model.inertias[j], model.names[j]
        factor, matrix = mass_factors[j], mass_factors[j] * inertia.inertia
        shapes = []
        for leg in robot.legs.values():
            frame = model.frames[robot.frame_id(leg.foot.name)]
            if frame.parentJoint == j:
                shapes.append((frame.placement.translation, f'<sphere radius="{max(leg.foot.radius, 0.005)}"/>'))
        if j == 1:
            moments = np.diag(inertia.inertia) / inertia.mass
            edges = 0.8 * np.sqrt(np.maximum(6.0 * (moments.sum() - 2.0 * moments), 1e-4))
            shapes.append((inertia.lever, f'<box size="{format_numbers(edges)}"/>'))
        entries = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}
        moments_text = " ".join(f'{key}="{matrix[index]:.17g}"' for key, index in entries.items())
        lines.append(
            f'<link name="{name}"><inertial><origin xyz="{format_numbers(inertia.lever)}"/>'
            f'<mass value="{factor * inertia.mass:.17g}"/><inertia {moments_text}/></inertial>'
        )
        for center, shape in shapes:
            origin = f'<origin xyz="{format_numbers(center)}"/>'
            lines.append(f"<collision>{origin}<geometry>{shape}</geometry></collision>")
        lines.append("</link>")
    for j in range(2, model.njoints):
        joint, placement = model.joints[j], model.jointPlacements[j]
        name = joint.shortname().removeprefix("JointModel")
        if name.startswith(("RevoluteUnaligned", "PrismaticUnaligned")):
            axis = joint.extract().axis
        elif name in ("RX", "RY", "RZ", "PX", "PY", "PZ"):
            axis = np.eye(3)["XYZ".index(name[1])]
        else:
            raise SystemExit(f"{robot.name}: joint {model.names[j]!r} is a {joint.shortname()}, which is not supported")
        lines.append(
            f'<joint name="{model.names[j]}" type="{"revolute" if name.startswith("R") else "prismatic"}">'
            f'<origin xyz="{format_numbers(placement.translation)}" '
            f'rpy="{format_numbers(pin.rpy.matrixToRpy(placement.rotation))}"/>'
            f'<parent link="{model.names[model.parents[j]]}"/><child link="{model.names[j]}"/>'
            f'<axis xyz="{format_numbers(axis)}"/>'
            f'<limit lower="{max(robot.lower[joint.idx_q], -6.0)}" upper="{min(robot.upper[joint.idx_q], 6.0)}" '
            'effort="1e4" velocity="1e4"/></joint>'
        )
    return "\n".join([*lines, "</robot>"])


def format_numbers(values: Array) -> str:
    """Returns numbers as an attribute of a URDF."""
    return " ".join(f"{value:.17g}" for value in values)


class ExternalSimulator(Protocol):
    """A robot in a simulator."""

    def __init__(self, robot: qd.Robot, scene: Scene, mass_factors: Array) -> None: ...

    def state(self) -> tuple[Array, Array]:
        """Returns q and v in the order of `Robot`."""

    def step(self, tau: Array) -> None:
        """Advances the simulation by a control period under torques (nu,) [N m]."""

    def kick(self, change: Array) -> None:
        """Changes the velocity of the trunk by (3,) [m/s]."""

    def close(self) -> None:
        """Ends the simulation."""


class PybulletSimulator:
    """A robot in PyBullet, with its default solver."""

    def __init__(self, robot: qd.Robot, scene: Scene, mass_factors: Array) -> None:
        import pybullet

        self._bullet, names = pybullet, list(robot.model.names[2:])
        self._world = {"physicsClientId": pybullet.connect(pybullet.DIRECT)}
        pybullet.setGravity(0.0, 0.0, -GRAVITY, **self._world)
        pybullet.setTimeStep(DT / SUBSTEPS, **self._world)
        shapes = [(pybullet.createCollisionShape(pybullet.GEOM_PLANE, **self._world), np.zeros(3), np.eye(3))]
        shapes = shapes if scene.has_floor else []
        for box in scene.boxes:
            shape = pybullet.createCollisionShape(pybullet.GEOM_BOX, halfExtents=box.half_size.tolist(), **self._world)
            shapes.append((shape, box.center, box.rotation))
        for shape, center, rotation in shapes:
            orientation = pin.Quaternion(rotation).coeffs()
            body = pybullet.createMultiBody(0.0, shape, -1, center, orientation, **self._world)
            pybullet.changeDynamics(body, -1, lateralFriction=1.0, **self._world)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "robot.urdf")
            path.write_text(write_urdf(robot, mass_factors))
            flags = pybullet.URDF_USE_INERTIA_FROM_FILE
            self._robot = pybullet.loadURDF(str(path), flags=flags, **self._world)
        info = pybullet.getDynamicsInfo(self._robot, -1, **self._world)
        # PyBullet's base frame has its origin at the center of mass and principal axes of inertia.
        self._base = pin.SE3(pin.Quaternion(*np.array(info[4])[[3, 0, 1, 2]]).matrix(), np.array(info[3]))
        count = pybullet.getNumJoints(self._robot, **self._world)
        numbers = {pybullet.getJointInfo(self._robot, i, **self._world)[1].decode(): i for i in range(count)}
        self._joints = [numbers[name] for name in names]
        self._order = [names.index(name) for name in robot.actuated]
        for i in range(-1, count):
            options = {"lateralFriction": scene.friction, "linearDamping": 0.0, "angularDamping": 0.0}
            pybullet.changeDynamics(self._robot, i, **options, **self._world)
        for i, position in zip(self._joints, robot.q_home[7:], strict=True):
            pybullet.setJointMotorControl2(self._robot, i, pybullet.VELOCITY_CONTROL, force=0.0, **self._world)
            pybullet.resetJointState(self._robot, i, position, 0.0, **self._world)
        start = pin.SE3(np.eye(3), robot.q_home[:3] + np.array([0.0, 0.0, scene.start_height])) * self._base
        orientation = pin.Quaternion(start.rotation).coeffs()
        pybullet.resetBasePositionAndOrientation(self._robot, start.translation, orientation, **self._world)

    def state(self) -> tuple[Array, Array]:
        """Returns q and v in the order of `Robot`."""
        position, coeffs = self._bullet.getBasePositionAndOrientation(self._robot, **self._world)
        linear, angular = map(np.array, self._bullet.getBaseVelocity(self._robot, **self._world))
        inertial = pin.SE3(pin.Quaternion(coeffs[3], *coeffs[:3]).matrix(), np.array(position))
        base = inertial * self._base.inverse()
        states = self._bullet.getJointStates(self._robot, self._joints, **self._world)
        linear = linear + np.cross(angular, base.translation - inertial.translation)
        return join_state(base.rotation, base.translation, linear, angular, np.array([state[:2] for state in states]).T)

    def step(self, tau: Array) -> None:
        """Advances the simulation by a control period."""
        forces = np.zeros(len(self._joints))
        forces[self._order] = tau
        for _ in range(SUBSTEPS):
            self._bullet.setJointMotorControlArray(
                self._robot, self._joints, self._bullet.TORQUE_CONTROL, forces=forces, **self._world
            )
            self._bullet.stepSimulation(**self._world)

    def kick(self, change: Array) -> None:
        """Changes the velocity of the trunk by (3,) [m/s]."""
        linear, angular = self._bullet.getBaseVelocity(self._robot, **self._world)
        self._bullet.resetBaseVelocity(self._robot, np.array(linear) + change, angular, **self._world)

    def close(self) -> None:
        """Ends the simulation."""
        self._bullet.disconnect(**self._world)


class DrakeSimulator:
    """A robot in Drake's discrete multibody plant, with point contacts and the SAP solver."""

    def __init__(self, robot: qd.Robot, scene: Scene, mass_factors: Array) -> None:
        from pydrake.geometry import Box, HalfSpace, ProximityProperties, RoleAssign
        from pydrake.math import RigidTransform, RotationMatrix
        from pydrake.multibody.parsing import Parser
        from pydrake.multibody.plant import (
            AddMultibodyPlantSceneGraph,
            CoulombFriction,
            DiscreteContactApproximation,
        )
        from pydrake.systems.analysis import Simulator
        from pydrake.systems.framework import DiagramBuilder

        names, builder = list(robot.model.names[2:]), DiagramBuilder()
        self._plant, geometry = plant, _ = AddMultibodyPlantSceneGraph(builder, DT / SUBSTEPS)
        plant.set_discrete_contact_approximation(DiscreteContactApproximation.kSap)
        (instance,) = Parser(plant).AddModelsFromString(write_urdf(robot, mass_factors), "urdf")
        friction = CoulombFriction(scene.friction, scene.friction)
        shapes = [(HalfSpace(), RigidTransform())] if scene.has_floor else []
        for box in scene.boxes:
            shapes.append((Box(*(2.0 * box.half_size)), RigidTransform(RotationMatrix(box.rotation), box.center)))
        for i, (shape, pose) in enumerate(shapes):
            plant.RegisterCollisionGeometry(plant.world_body(), pose, shape, f"terrain {i}", friction)
        for name in names:
            plant.AddJointActuator(name, plant.GetJointByName(name))
        plant.Finalize()
        for index in plant.GetBodyIndices(instance):
            for shape_id in plant.GetCollisionGeometriesForBody(plant.get_body(index)):
                properties = ProximityProperties(geometry.model_inspector().GetProximityProperties(shape_id))
                properties.UpdateProperty("material", "coulomb_friction", friction)
                geometry.AssignRole(plant.get_source_id(), shape_id, properties, RoleAssign.kReplace)
        self._simulator = Simulator(builder.Build())
        self._context = plant.GetMyMutableContextFromRoot(self._simulator.get_mutable_context())
        self._base, self._time = plant.GetBodyByName(robot.model.names[1]), 0.0
        start = RigidTransform(robot.q_home[:3] + np.array([0.0, 0.0, scene.start_height]))
        plant.SetFreeBodyPose(self._context, self._base, start)
        joints = [plant.GetJointByName(name) for name in names]
        self._positions = [joint.position_start() for joint in joints]
        self._velocities = [joint.velocity_start() for joint in joints]
        self._inputs = [plant.GetJointActuatorByName(name).input_start() for name in robot.actuated]
        configuration = plant.GetPositions(self._context)
        configuration[self._positions] = robot.q_home[7:]
        plant.SetPositions(self._context, configuration)
        self._apply_torques(np.zeros(robot.nu))
        self._simulator.Initialize()

    def _apply_torques(self, tau: Array) -> None:
        """Sets the torques of the actuators, (nu,) [N m]."""
        values = np.zeros(len(self._inputs))
        values[self._inputs] = tau
        self._plant.get_actuation_input_port().FixValue(self._context, values)

    def state(self) -> tuple[Array, Array]:
        """Returns q and v in the order of `Robot`."""
        pose = self._plant.EvalBodyPoseInWorld(self._context, self._base)
        velocity = self._plant.EvalBodySpatialVelocityInWorld(self._context, self._base)
        joints = np.array([
            self._plant.GetPositions(self._context)[self._positions],
            self._plant.GetVelocities(self._context)[self._velocities],
        ])  # fmt: skip
        rotation = pose.rotation().matrix()
        return join_state(rotation, pose.translation(), velocity.translational(), velocity.rotational(), joints)

    def step(self, tau: Array) -> None:
        """Advances the simulation by a control period."""
        self._apply_torques(tau)
        self._time += DT
        self._simulator.AdvanceTo(self._time)

    def kick(self, change: Array) -> None:
        """Changes the velocity of the trunk by (3,) [m/s]."""
        from pydrake.multibody.math import SpatialVelocity

        velocity = self._plant.EvalBodySpatialVelocityInWorld(self._context, self._base)
        changed = SpatialVelocity(velocity.rotational(), velocity.translational() + change)
        self._plant.SetFreeBodySpatialVelocity(self._context, self._base, changed)

    def close(self) -> None:
        """Ends the simulation."""


SIMULATORS: dict[str, type[ExternalSimulator]] = {"pybullet": PybulletSimulator, "drake": DrakeSimulator}


def join_state(rotation: Array, position: Array, linear: Array, angular: Array, joints: Array) -> tuple[Array, Array]:
    """Returns q and v of `Robot`: the velocity of the base is in its own axes.

    Args:
        rotation: (3, 3) orientation of the base.
        position: (3,) its origin [m].
        linear: (3,) velocity of its origin in world axes [m/s].
        angular: (3,) angular velocity in world axes [rad/s].
        joints: (2, n) positions and velocities of the joints.
    """
    coeffs = pin.Quaternion(rotation).normalized().coeffs()
    return (
        np.concatenate([position, coeffs, joints[0]]),
        np.concatenate([rotation.T @ linear, rotation.T @ angular, joints[1]]),
    )


@dataclass(frozen=True)
class Run:
    """One run: names of simulator, robot, cell and setting of the controller, and the seed."""

    simulator: str
    robot: str
    cell: str
    setting: str
    seed: int


def walk(run: Run) -> str:
    """Simulates a run; returns the cause of its failure, "" if it passes."""
    robot = qd.load(run.robot)
    _, gait, speed = CELLS[run.cell]
    height, rng = float(robot.q_home[2]), np.random.default_rng(run.seed)
    try:
        controller = qd.LocomotionController(robot, dt=DT, gait=gait, **SETTINGS[run.setting])
    except ArgumentError:
        return ""  # the robot refuses the gait
    velocity = (speed * math.sqrt(GRAVITY * height), 0.0, 0.0)
    is_wrong = run.cell == "wrong-model"
    factors = rng.uniform(*MASS_FACTORS, robot.model.njoints) if is_wrong else np.ones(robot.model.njoints)
    simulator = SIMULATORS[run.simulator](robot, make_scene(run.cell, height, rng), factors)
    dynamics, start, end = qd.Dynamics(robot), np.zeros(3), np.zeros(3)
    reference = 0.0
    try:
        for tick in range(round(SECONDS / DT)):
            time = tick * DT
            q, v = simulator.state()
            command = controller.compute(dynamics.update(q, v), velocity if time >= START else (0.0, 0.0, 0.0))
            tilt_cosine = 1.0 - 2.0 * float(q[3] ** 2 + q[4] ** 2)
            if command.mode.value == "fallen" or tilt_cosine < MIN_TILT_COSINE:
                return f"{time:.1f} s: {command.limit_reason or command.mode.value}"
            if math.isclose(time, SETTLED):
                start = q[:3].copy()
            if time >= SETTLED:
                reference += DT * float(command.reference_velocity[0])
            if run.cell == "push" and round(time, 9) in PUSHES:
                simulator.kick(PUSH_VELOCITY * np.array([*PUSHES[round(time, 9)], 0.0]))
            simulator.step(command.tau)
            end = q[:3]
    finally:
        simulator.close()
    distance = float(np.hypot(*(end - start)[:2]))
    if distance < MIN_DISTANCE_FRACTION * reference or reference <= 0.0:
        return f"walked {distance:.2f} m of {reference:.2f} m"
    return ""


def main() -> int:
    """Prints the table; returns 1 if the requirement of `--check` is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", default="go2,solo12", help="comma-separated quadrupeds or files")
    parser.add_argument("--simulators", default=",".join(SIMULATORS), help="comma-separated")
    parser.add_argument("--cells", default="all", help=f"comma-separated: {', '.join(CELLS)}")
    parser.add_argument("--seeds", default="0", help="comma-separated")
    parser.add_argument("--workers", type=int, default=None, help="number of processes; default: one per core")
    parser.add_argument("--check", action="store_true", help="exit code 1 if the requirement is not met")
    options = parser.parse_args()
    cells = list(CELLS) if options.cells == "all" else options.cells.split(",")
    runs = [
        Run(simulator, robot, cell, setting, int(seed))
        for simulator in options.simulators.split(",")
        for robot in options.robots.split(",")
        for cell in cells
        for seed in options.seeds.split(",")
        for setting in SETTINGS
    ]
    passed: dict[tuple[str, str, str], list[bool]] = defaultdict(list)
    with process_pool(options.workers) as pool:
        for run, future in [(run, pool.submit(walk, run)) for run in runs]:
            name = f"{run.simulator:9s} {run.robot:12s} {run.cell:12s} {run.setting:9s} {run.seed}"
            try:
                failure = future.result()
            except WorkerDied as error:  # Drake ends with a segmentation fault for some sets of boxes
                print(f"{name}: not counted, {error}", flush=True)
                continue
            passed[run.simulator, run.setting, run.cell].append(not failure)
            if failure:
                print(f"{name}: {failure}", flush=True)
    print(f"{'':20s}" + "".join(f"{cell:>12s}" for cell in cells))
    missed = []
    for simulator in options.simulators.split(","):
        totals = {}
        for setting in SETTINGS:
            rows = [passed[simulator, setting, cell] for cell in cells]
            totals[setting] = sum(map(sum, rows))
            counts = "".join(f"{f'{sum(row)}/{len(row)}':>12s}" for row in rows)
            print(f"{simulator:10s}{setting:10s}{counts}  all {totals[setting]}/{sum(map(len, rows))}")
        n_worse = totals["neither"] - totals["estimated"]
        if n_worse > max(1.0, MAX_WORSE_FRACTION * sum(map(len, rows))):
            missed.append(f"{simulator}: the default passes {n_worse} runs fewer")
    if missed:
        print("missed:", "; ".join(missed))
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
