"""Plants behind one small interface: the embedded one (Pinocchio's contacts)."""

from .simulation import Simulation, Work

__all__ = ["Simulation", "Work"]
