"""Contact: where a foot touches the ground, how that point moves, and floors and walls that yield."""

from .compliant import CompliantPlane, foot_forces
from .point import contact_jacobian

__all__ = ["CompliantPlane", "contact_jacobian", "foot_forces"]
