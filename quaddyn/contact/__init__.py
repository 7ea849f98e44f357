"""Contacts: their kinematics and force constraints, contact solvers, and compliant ground."""

from ..deprecation import renamed_modules, renamed_names
from .compliant_plane import CompliantPlane, foot_forces
from .contact import Contact, cone_margin, contact_axes, flat_foot_stance, friction_pyramid, pyramid_friction_ratio
from .contact_events import ContactEvent, ContactEvents
from .contact_set import ContactSet, contact_jacobian
from .inverse_dynamics import InverseDynamics, inverse_dynamics
from .solvers.problem import NOMINAL_FRICTION
from .support import support_margin, support_polygon

__all__ = [
    "NOMINAL_FRICTION",
    "CompliantPlane",
    "Contact",
    "ContactEvent",
    "ContactEvents",
    "ContactSet",
    "InverseDynamics",
    "cone_margin",
    "contact_axes",
    "contact_jacobian",
    "flat_foot_stance",
    "foot_forces",
    "friction_pyramid",
    "inverse_dynamics",
    "pyramid_friction_ratio",
    "support_margin",
    "support_polygon",
]

renamed_modules(__name__, {"foot_point": "contact_set", "force_distribution": "inverse_dynamics"})
__getattr__ = renamed_names(
    __name__,
    {
        "friction_share": "pyramid_friction_ratio",
        "pyramid": "friction_pyramid",
        "stance_on_soles": "flat_foot_stance",
    },
)
