"""`PathReference`: the commanded path of the robot; `ComPreview`: the center-of-mass motion that follows from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import ArgumentError
from ..robot.arguments import check_number
from ..urdf.tree import Array
from .com_preview_kernel import N_SAMPLES, ComReferenceState, PreviewParameters, update_com_reference
from .gait import GaitScheduler
from .morphology import Morphology
from .path_motion import PathState, advance_path_reference, write_footholds
from .state_fields import StateField

#: Horizon of the preview, in time constants ``1 / omega`` of the divergent dynamics; later samples have a weight below
#: e^-5.
HORIZON_TIME_CONSTANTS = 5.0

#: Offset of the center of mass from the center of the feet along x and y: position [m], velocity [m/s] and
#: acceleration [m/s^2] each.
OffsetMotion = tuple[tuple[float, float, float], tuple[float, float, float]]


def as_velocity_command(velocity: Sequence[float] | Array) -> Array:
    """Returns a velocity command as an array of floats.

    Args:
        velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s].

    Raises:
        ArgumentError: `velocity` does not have three entries, or one is not finite.
        ArgumentTypeError: an entry is not a number.
    """
    if type(velocity) is tuple and len(velocity) == 3:  # the usual case, at every tick
        x, y, yaw_rate = velocity
        if type(x) is type(y) is type(yaw_rate) is float and math.isfinite(x + y + yaw_rate):
            return np.array(velocity)
    values = np.array(velocity, dtype=object)
    if values.shape == (3,):
        command = np.array([check_number("velocity", x) for x in values])
        if np.isfinite(command).all():
            return command
    raise ArgumentError(f"velocity: expected three finite numbers (forward, leftward, yaw rate), got {velocity}")


class PathReference:
    """Reference point that moves at the commanded velocity: the center of the nominal footholds, with its heading.

    Its velocity is given in the *heading frame*, whose x axis is the robot's forward direction projected on the
    horizontal: forward and leftward speed [m/s] and yaw rate [rad/s].

    Args:
        position: (2,) or (3,) start position, world [m].
        yaw: yaw angle of the heading frame at the start [rad].

    Attributes:
        position: (2,) position, world [m].
        yaw: yaw angle of the heading frame, not wrapped [rad].
        velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s].
    """

    __slots__ = ("state",)

    position = StateField[Array]()
    yaw = StateField[float]()
    velocity = StateField[Array]()

    def __init__(self, position: Array, yaw: float) -> None:
        self.state = PathState.allocate(position=2, velocity=3)
        self.position, self.yaw = np.array(position[:2]), float(yaw)

    def advance(self, dt: float) -> None:
        """Moves the reference by its velocity for `dt` [s]."""
        advance_path_reference(self.state, float(dt))

    def predict(self, times: Array) -> tuple[Array, Array]:
        """Returns position (..., 2) [m] and yaw (...) [rad] after `times` (...) [s] at the present velocity.

        The path is an arc of a circle.  The chord of an arc over the angle a has the direction of the arc's middle and
        ``sinc(a / 2)`` of its length.
        """
        x, y, rate = self.velocity.tolist()
        angle = rate * times
        middle = self.yaw + 0.5 * angle
        chord = times * np.sinc(angle * (0.5 / np.pi))
        c, s = np.cos(middle) * chord, np.sin(middle) * chord
        displacement = np.stack((x * c - y * s, x * s + y * c), axis=-1)
        return self.position + displacement, self.yaw + angle

    def world_velocity(self, time: float = 0.0) -> Array:
        """Returns the velocity (2,) of the reference after `time` [s], world axes [m/s]."""
        yaw = self.yaw + time * float(self.velocity[2])
        c, s = math.cos(yaw), math.sin(yaw)
        x, y = self.velocity[:2].tolist()
        return np.array([x * c - y * s, x * s + y * c])


@dataclass(frozen=True, slots=True, eq=False)
class ComReference:
    """Reference of the center of mass at one tick.

    Attributes:
        cop: (2,) desired center of pressure, world [m].
        dcm: (2,) desired divergent component of motion ``c + cdot / omega``, world [m].
        load_fractions: (4,) fraction of the weight on each foot; 0 in flight.
        foothold_gain: derivative of `dcm` with respect to a common shift of all coming footholds: the weight of the
            future pressure, in (0, 1], that does not rest on the present stance feet; 0 for a robot that stays
            standing.
        frequency: present omega [1/s].
        vertical_force: present vertical contact force, divided by the weight.
        height_motion: present height minus its mean [m], and its rate [m/s].
    """

    cop: Array
    dcm: Array
    load_fractions: Array
    foothold_gain: float
    frequency: float
    vertical_force: float = 1.0
    height_motion: tuple[float, float] = (0.0, 0.0)

    def dcm_error(self, position: tuple[float, float], velocity: tuple[float, float]) -> tuple[float, float]:
        """Returns the divergent component minus its reference, world x and y [m].

        Args:
            position: (2,) position of the center of mass, world x and y [m].
            velocity: (2,) velocity of the center of mass [m/s].
        """
        (x, y), (u, v), (desired_x, desired_y) = position, velocity, self.dcm.tolist()
        return x + u / self.frequency - desired_x, y + v / self.frequency - desired_y


class ComPreview:
    """Planner of the center-of-mass motion from the coming footfalls.

    At constant height over the ground, level or not, the center of mass c obeys ``cddot = omega^2 (c - z)`` in the
    horizontal projection, with the center of pressure z.  Its divergent component ``xi = c + cdot / omega`` diverges
    from z, ``xidot = omega (xi - z)``, and c converges to xi.  Only one xi stays bounded under the coming pressure,

        xi(t) = omega int_0^inf e^(-omega s) z(t + s) ds,

    (Englsberger, Ott, Albu-Schaeffer 2015, "Three-dimensional bipedal walking control based on divergent component of
    motion"; Lanari, Hutchinson 2014 call it the stable inversion).  The coming pressure is the mean of the footholds,
    weighted with the load that the gait gives to each foot; present stance feet stay, later footholds follow the path
    reference.  The lean of a crawl away from the next swing leg, the sway of a pace and the pitching of a bound all
    follow from this formula.

    *With flight phases* (`VerticalForceProfile`) the vertical contact force is ``m (g + zddot)``, hence ``cddot =
    lambda (c - z)`` with ``lambda = (g + zddot) / (h + height)``, zero in flight.  With the solution of ``omegadot =
    omega^2 - lambda`` that stays positive, the divergent component is still decoupled, ``xidot = (lambda / omega) (xi -
    z)`` (Hopkins, Hong, Leonessa 2014, "Humanoid locomotion on uneven terrain using the time-varying divergent
    component of motion"), and the same boundedness condition determines it.

    The coming pressure is interpolated linearly between `N_SAMPLES` samples; beyond them it follows the path reference.

    Args:
        morphology: lengths and units of the robot.
    """

    def __init__(self, morphology: Morphology) -> None:
        p, self.omega = morphology, morphology.natural_frequency
        step = HORIZON_TIME_CONSTANTS / self.omega / (N_SAMPLES - 1)
        self.parameters = PreviewParameters.from_values(
            gravity=p.gravity, height=p.height, frequency=self.omega, step=step
        )
        self.state = ComReferenceState.allocate(cop=2, dcm=2, load_fractions=4)

    def reference(
        self,
        scheduler: GaitScheduler,
        path: PathReference,
        feet: Array,
        stance: Array,
        offset: OffsetMotion | None = None,
    ) -> ComReference:
        """Computes the reference of the center of mass at this tick.

        Args:
            scheduler: phases of the gait.
            path: path reference.
            feet: (4, 2) positions of the feet, of swing feet those at lift-off, world [m].
            stance: (4, 2) nominal positions of the feet about the path reference, heading axes [m].
            offset: offset of the center of mass from the center of the feet, for a standing robot; None for zero.
        """
        out, points = self.state, np.zeros((4, 3))
        points[:, :2] = feet
        update_com_reference(
            self.parameters,
            scheduler.state,
            path.state,
            np.ascontiguousarray(stance),
            points,
            np.zeros((2, 3)) if offset is None else np.array(offset),
            out,
        )
        return ComReference(
            out.cop.copy(),
            out.dcm.copy(),
            out.load_fractions.copy(),
            out.foothold_gain,
            out.frequency,
            out.vertical_force,
            (out.height, out.height_rate),
        )


def compute_footholds(path: PathReference, times: Array, stance: Array) -> Array:
    """Returns the nominal footholds (4, 2) of feet that are in mid-stance at `times` (4,) from now, world [m].

    At mid-stance a foot is at its nominal position under the robot: the neutral point of Raibert (1986, *Legged Robots
    That Balance*, ch. 2), half a stance ahead of the hip at touchdown.

    Args:
        path: path reference.
        times: (4,) time until mid-stance of each foot [s].
        stance: (4, 2) nominal positions of the feet about the path reference, heading axes [m].
    """
    footholds = np.empty((4, 2))
    write_footholds(path.state, np.ascontiguousarray(stance), times, footholds)
    return footholds
