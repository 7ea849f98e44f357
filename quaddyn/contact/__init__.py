"""Contact: where a robot touches, how these points move, what forces they may bear; solvers; ground that yields."""

from .compliant import CompliantPlane, foot_forces
from .cones import cone_margin, friction_share, pyramid
from .contact import Contact, contact_axes
from .contact_set import ContactSet
from .events import ContactEvent, ContactEvents
from .inverse_dynamics import InverseDynamics, inverse_dynamics
from .point import contact_jacobian
from .sole_stance import stance_on_soles
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
    "foot_forces",
    "friction_share",
    "inverse_dynamics",
    "pyramid",
    "stance_on_soles",
    "support_margin",
    "support_polygon",
]
