"""`FallDetector`: detection of falls, also before the trunk reaches the ground."""

from __future__ import annotations

import math
from types import MappingProxyType

from .centroidal_state import CentroidalState
from .fall_detection import (
    FallDetectorState,
    FallSign,
    compute_capture_margin,
    detect_fall,
    detect_trunk_on_ground,
    update_fall_detection,
)
from .ground_plane import GroundPlane
from .modes import LocomotionMode
from .morphology import Morphology, make_body_parameters
from .path_reference import PathReference

#: Signs of a fall, as `LocomotionCommand.limit_reason` reports them.
BEYOND_REACH = "fallen: capture point beyond the reach of all feet"
TRUNK_TIPPING = "fallen: trunk tips over"
TRUNK_TILTED = "fallen: trunk tilted beyond recovery"
TRUNK_SINKING = "fallen: trunk sinks faster than legs can stop it"
TRUNK_LOW = "fallen: trunk near the ground"
SIGN_TEXTS = MappingProxyType(
    {
        FallSign.NONE: "",
        FallSign.BEYOND_REACH: BEYOND_REACH,
        FallSign.TRUNK_TIPPING: TRUNK_TIPPING,
        FallSign.TRUNK_TILTED: TRUNK_TILTED,
        FallSign.TRUNK_SINKING: TRUNK_SINKING,
        FallSign.TRUNK_LOW: TRUNK_LOW,
    }
)


class FallDetector:
    """Detector of falls, relative to the commanded height and the plane of the feet.

    *Capture point* (Pratt et al. 2006): the point ``c + (cdot - cdot*) / omega`` on the ground, with the commanded
    velocity cdot*, is where a robot would have to put its weight at once to lose its excess speed.  Feet are within
    ``sqrt(l^2 - z^2)`` of their hips in the horizontal projection, with the height z of the hips.  A capture point
    beyond the rectangle of the hips by more than that is beyond the support polygon of any placement of the feet.
    Further steps can correct a little more (Koolen et al. 2012, N-step capturability), hence the margin of ``0.2 l``.

    *Tilt*: the trunk is tilted by more than 60 deg against the ground normal, or will be within ``0.5 sqrt(l/g)`` at
    its present rate.

    *Height*: the trunk is below 0.45 of the commanded height, or sinks so fast that it would come to rest below that
    with the deceleration of the legs.  The commanded height includes the lowering on slopes and for low footholds and
    the vertical motion of the gait.

    Args:
        morphology: lengths and units of the robot.
        dt: control period [s].
    """

    __slots__ = ("_body", "_height", "state")

    def __init__(self, morphology: Morphology, dt: float) -> None:
        p = morphology
        self._body, self._height = make_body_parameters(p), p.height
        hip_height = p.height + float(p.hips[:, 2].mean())
        hip_x, hip_y = (float(abs(p.hips[:, i]).max()) for i in (0, 1))
        radius = math.sqrt(max(p.length**2 - hip_height**2, 0.0))
        self.state = FallDetectorState.from_values(dt=dt, radius=radius, hip_x=hip_x, hip_y=hip_y, duration=0.0)

    def reset(self) -> None:
        """Resets the detection."""
        self.state.duration = 0.0

    def trunk_on_ground(
        self, mode: LocomotionMode, motion: CentroidalState, ground: GroundPlane, desired_height: float | None = None
    ) -> str:
        """Returns the text of the reason if the trunk is on the ground or tilted beyond recovery; "" if it is not.

        Args:
            mode: present mode; the height is checked only where the trunk is at its commanded height.
            motion: present state of center of mass and trunk.
            ground: plane of the feet.
            desired_height: commanded height of the center of mass over that plane [m]; None for its height at home.
        """
        height = self._height if desired_height is None else float(desired_height)
        return SIGN_TEXTS[detect_trunk_on_ground(motion.state, ground.state, mode.is_upright, height)]

    def capture_margin(self, motion: CentroidalState, path: PathReference) -> float:
        """Computes the distance of the capture point from the border of the reachable area [m]; negative outside.

        Args:
            motion: present state of center of mass and trunk.
            path: path reference.
        """
        return float(compute_capture_margin(self.state, self._body, motion.state, path.state))

    def detect(
        self,
        motion: CentroidalState,
        ground: GroundPlane,
        path: PathReference,
        desired: tuple[float, float] | None = None,
    ) -> str:
        """Updates the detector by one tick and returns the reason for a predicted fall as a text; "" if there is none.

        Args:
            motion: present state of center of mass and trunk.
            ground: plane of the feet.
            path: path reference.
            desired: height of the center of mass over the ground [m], and its rate [m/s].  None: the height at
                home, at rest.
        """
        height, rate = (self._height, 0.0) if desired is None else desired
        return SIGN_TEXTS[
            detect_fall(self.state, self._body, motion.state, ground.state, path.state, float(height), float(rate))
        ]

    def update(
        self,
        mode: LocomotionMode,
        motion: CentroidalState,
        ground: GroundPlane,
        path: PathReference,
        desired: tuple[float, float],
    ) -> str:
        """Updates the detector by one tick of any mode; returns the text of `trunk_on_ground` or else of `detect`.

        Falls are predicted only in modes in which the trunk is at its commanded height.

        Args:
            mode: present mode.
            motion: present state of center of mass and trunk.
            ground: plane of the feet.
            path: path reference.
            desired: commanded height of the center of mass over the ground [m], and its rate [m/s].
        """
        height, rate = desired
        sign = update_fall_detection(
            self.state, self._body, motion.state, ground.state, path.state, mode.is_upright, float(height), float(rate)
        )
        return SIGN_TEXTS[sign]
