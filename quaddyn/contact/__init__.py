"""Contact: where a robot touches, how these points move, what forces they may bear; solvers; ground that yields."""

from .compliant_plane import CompliantPlane, foot_forces
from .contact import Contact, contact_axes
from .contact_events import ContactEvent, ContactEvents
from .contact_set import ContactSet
from .flat_foot import stance_on_soles
from .foot_point import contact_jacobian
from .friction_cones import cone_margin, friction_share, pyramid
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
    "foot_forces",
    "friction_share",
    "inverse_dynamics",
    "pyramid",
    "stance_on_soles",
    "support_margin",
    "support_polygon",
]
