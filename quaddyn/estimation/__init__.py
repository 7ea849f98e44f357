"""Estimation: contact forces, touchdown and slip without foot sensors, base state, payload, and terrain height."""

from .base_estimator import BaseEstimator
from .contact_forces import ContactForceEstimator, ContactForces
from .elevation_map import ElevationMap
from .momentum_observer import MomentumObserver
from .payload import Payload, PayloadEstimator
from .sensor_noise import SensorNoise
from .slip_detector import SlipDetector
from .touchdown_detector import TouchdownDetector

__all__ = [
    "BaseEstimator",
    "ContactForceEstimator",
    "ContactForces",
    "ElevationMap",
    "MomentumObserver",
    "Payload",
    "PayloadEstimator",
    "SensorNoise",
    "SlipDetector",
    "TouchdownDetector",
]
