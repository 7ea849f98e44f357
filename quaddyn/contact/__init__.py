"""Contact geometry: where a foot touches the ground and how that point moves."""

from .point import contact_jacobian

__all__ = ["contact_jacobian"]
