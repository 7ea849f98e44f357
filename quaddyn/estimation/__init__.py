"""Estimation: external forces from torques and motion, contact forces and touchdown without foot sensors."""

from .contact_forces import ContactForceEstimator, ContactForces
from .momentum_observer import MomentumObserver
from .touchdown import TouchdownDetector

__all__ = ["ContactForceEstimator", "ContactForces", "MomentumObserver", "TouchdownDetector"]
