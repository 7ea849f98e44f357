"""Plants behind one small interface: the embedded one (Pinocchio's contacts) and MuJoCo."""

from .mujoco_plant import MujocoPlant
from .plant import Plant
from .simulation import Simulation, Work

__all__ = ["MujocoPlant", "Plant", "Simulation", "Work"]
