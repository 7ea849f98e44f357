"""Lengths, mass and natural units of a quadruped, as compiled functions read them; see `Morphology`."""

from ..compiler import Mat3, Matrix, Record, Vector


class BodyParameters(Record):
    """The parameters of `Morphology`."""

    length: float  # l [m]
    height: float  # of the center of mass at home [m]
    gravity: float  # [m/s^2]
    mass: float  # [kg]
    time_scale: float  # sqrt(l / g) [s]
    speed_scale: float  # sqrt(g l) [m/s]
    natural_frequency: float  # sqrt(g / h) [1/s]
    nominal_stance: Matrix  # (4, 2) feet at home relative to their center, heading axes [m]
    radii: Vector  # (4,) of the foot spheres [m]
    hips: Matrix  # (4, 3) first leg joints relative to the center of mass at home, heading axes [m]
    heading: Mat3  # rotation from heading axes to the base frame
