"""Plants, which execute motor torques: the simulator of this package and MuJoCo behind one interface, `Plant`."""

from ..deprecation import renamed_names
from .actuators import Actuators
from .batch import SimulationBatch
from .held_bodies import HeldBody, HeldState
from .log import Log
from .mujoco_model import MujocoContact
from .mujoco_plant import MujocoPlant
from .plant import Plant
from .records import Checkpoint, ContactPoint, Work
from .rollouts import Rollout, rollout
from .sensors import DepthCamera, Encoders, FootSensors, Imu, Measurement, Observable, Sensors, camera_pose
from .simulation import Simulation
from .spheres import ContactSphere, body_spheres, collision_spheres
from .terrain import Box, HeightField, Plane, Terrain, stairs

__all__ = [
    "Actuators",
    "Box",
    "Checkpoint",
    "ContactPoint",
    "ContactSphere",
    "DepthCamera",
    "Encoders",
    "FootSensors",
    "HeightField",
    "HeldBody",
    "HeldState",
    "Imu",
    "Log",
    "Measurement",
    "MujocoContact",
    "MujocoPlant",
    "Observable",
    "Plane",
    "Plant",
    "Rollout",
    "Sensors",
    "Simulation",
    "SimulationBatch",
    "Terrain",
    "Work",
    "body_spheres",
    "camera_pose",
    "collision_spheres",
    "rollout",
    "stairs",
]

__getattr__ = renamed_names(__name__, {"TouchingPoint": "ContactPoint", "looking": "camera_pose"})
