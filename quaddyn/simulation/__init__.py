"""Plants behind one small interface: the embedded one (Pinocchio's contacts) and MuJoCo."""

from .actuators import Actuators
from .depth_camera import DepthCamera, looking
from .held_bodies import HeldBody, HeldState
from .log import Log
from .mujoco_contact import MujocoContact
from .mujoco_plant import MujocoPlant
from .plant import Plant
from .records import Checkpoint, TouchingPoint, Work
from .rollouts import Rollout, rollout
from .sensors import Encoders, FootSensors, Imu, Measurement, Observable, Sensors
from .simulation import Simulation
from .spheres import ContactSphere, body_spheres, collision_spheres
from .terrain import Box, HeightField, Plane, Terrain, stairs

__all__ = [
    "Actuators",
    "Box",
    "Checkpoint",
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
    "Terrain",
    "TouchingPoint",
    "Work",
    "body_spheres",
    "collision_spheres",
    "looking",
    "rollout",
    "stairs",
]
