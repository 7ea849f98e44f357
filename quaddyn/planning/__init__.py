"""Motions found by search in a plant, once per robot: how it gets up."""

from .righting import plan_righting

__all__ = ["plan_righting"]
