"""Estimation: external forces from torques and motion, contact forces and touchdown without foot sensors, the base."""

from .base_state import BaseEstimator
from .contact_forces import ContactForceEstimator, ContactForces
from .momentum_observer import MomentumObserver
from .touchdown import TouchdownDetector

__all__ = ["BaseEstimator", "ContactForceEstimator", "ContactForces", "MomentumObserver", "TouchdownDetector"]
