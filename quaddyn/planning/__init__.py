"""Planning of motions by search in a plant, once per robot: righting motions."""

from .righting import plan_righting

__all__ = ["plan_righting"]
