"""`DepthCamera`: a simulated depth camera on the robot, which measures the terrain as a point cloud."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..deprecation import renamed_parameters
from ..dynamics import Dynamics
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number, check_type, check_vector
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.mjcf import import_mujoco
from ..urdf.tree import Array, Pose
from .mujoco_model import add_terrain
from .plant import Plant

#: Maximum number of pixels.
MAX_PIXELS = 1_000_000


class DepthCamera(StrictAttributes, fixed=("robot", "frame", "placement", "resolution")):
    """Depth camera fixed to a link; it measures the terrain of the plant, and the robot does not occlude it.

    Camera axes are the optical ones: z forward, x right, y down. Rays are cast by MuJoCo for any plant. A camera has
    mutable buffers; use one per thread.

    Args:
        robot: robot that carries the camera.
        rng: random generator of the noise.
        frame: frame to which the camera is fixed; None: the root link.
        placement: placement of the camera axes in that frame; None: ``camera_pose(0.5)``, ahead and down.
        resolution: number of pixel columns and rows.
        field_of_view: horizontal field of view [rad].
        depth_range: minimum and maximum measurable distance [m].
        noise: standard deviation of a distance as a fraction of the distance.

    Raises:
        ArgumentTypeError: `robot`, `rng` or `placement` has a wrong type.
        ArgumentError: an argument is out of range.
        UnknownNameError: no frame of that name.
        QuaddynError: MuJoCo is not installed.
    """

    @renamed_parameters(range="depth_range", view="field_of_view")
    def __init__(
        self,
        robot: Robot,
        rng: np.random.Generator,
        *,
        frame: str | None = None,
        placement: Pose | None = None,
        resolution: tuple[int, int] = (106, 60),
        field_of_view: float = 1.5,
        depth_range: tuple[float, float] = (0.1, 4.0),
        noise: float = 0.01,
    ) -> None:
        check_type("robot", robot, Robot, "a Robot from quaddyn.load")
        check_type("rng", rng, np.random.Generator, "a numpy.random.Generator")
        self.robot, self.frame = robot, frame or robot.bodies[0].name
        robot.frame_id(self.frame)
        self.placement = camera_pose(0.5) if placement is None else placement
        if not isinstance(self.placement, Pose):
            raise ArgumentTypeError(f"placement: expected a Pose, got {type(placement).__name__}")
        columns, rows = (int(n) for n in check_vector("resolution", resolution, (2,), "columns and rows"))
        if not (columns > 0 and rows > 0 and columns * rows <= MAX_PIXELS):
            raise ArgumentError(f"resolution: expected 1 to {MAX_PIXELS:,} pixels, got {resolution}")
        self.resolution = (columns, rows)
        if not 0.0 < check_number("field_of_view", field_of_view) < np.pi:
            raise ArgumentError(f"field_of_view: expected an angle between 0 and pi [rad], got {field_of_view}")
        self._near, self._far = check_vector("depth_range", depth_range, (2,), "minimum and maximum").tolist()
        if not 0.0 <= self._near < self._far:
            raise ArgumentError(f"depth_range: expected 0 <= minimum < maximum [m], got {depth_range}")
        self._noise = check_number("noise", noise)
        if not 0.0 <= self._noise < np.inf:
            raise ArgumentError(f"noise: expected a fraction, 0 or more, got {noise}")
        self._rng, self._dynamics = rng, Dynamics(robot)
        half = np.tan(0.5 * field_of_view)
        x, y = np.meshgrid(np.linspace(-half, half, columns), np.linspace(-half, half, rows) * rows / columns)
        rays = np.stack((x, y, np.ones(x.shape)), axis=-1).reshape(-1, 3)
        self._rays = rays / np.linalg.norm(rays, axis=1, keepdims=True)
        self._scene: Any = None
        self._terrain: object = None
        import_mujoco()

    def pose(self, plant: Plant) -> Pose:
        """Returns the true pose of the camera axes in the world."""
        return self._dynamics.update(plant.q, plant.v).placement(self.frame) @ self.placement

    def read(self, plant: Plant) -> Array:
        """Measures the distance to the terrain along the ray of each pixel.

        Args:
            plant: plant of the camera's robot.

        Returns:
            (rows * columns, 3) points in camera axes [m], row by row; NaN where nothing is within range.

        Raises:
            ArgumentError: a plant of a different robot.
        """
        check_type("plant", plant, Plant, "a plant")
        if plant.robot is not self.robot:
            raise ArgumentError(
                f"plant: expected a plant of the camera's robot {self.robot.name!r}, got one of {plant.robot.name!r}"
            )
        mujoco = import_mujoco()
        if self._terrain is not plant.terrain:
            spec = mujoco.MjSpec()
            add_terrain(spec, plant.terrain, 1.0)
            model = spec.compile()
            self._scene, self._terrain = (model, mujoco.MjData(model)), plant.terrain
            mujoco.mj_forward(*self._scene)
        pose, n = self.pose(plant), len(self._rays)
        distances, hit = np.full(n, -1.0), np.full(n, -1, dtype=np.int32)
        rays = np.ascontiguousarray(self._rays @ pose.rotation.T)
        model, data = self._scene
        arguments: dict[str, Any] = {
            "m": model, "d": data, "pnt": pose.translation, "vec": rays.ravel(), "geomgroup": None, "flg_static": True,
            "bodyexclude": -1, "geomid": hit, "dist": distances, "nray": n, "cutoff": self._far,
        }  # fmt: skip
        if "normal" in (mujoco.mj_multiRay.__doc__ or ""):  # a further argument since MuJoCo 3.4
            arguments["normal"] = None
        mujoco.mj_multiRay(**arguments)
        distances = np.where((distances >= self._near) & (distances <= self._far), distances, np.nan)
        if self._noise:
            distances *= 1.0 + self._noise * self._rng.standard_normal(n)
        return np.asarray(self._rays * distances[:, None])


@renamed_parameters(at="position", down="pitch")
def camera_pose(pitch: float, *, position: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Pose:
    """Returns the placement of a camera that looks along x, pitched down, in a frame with x ahead and z up.

    Args:
        pitch: angle of the optical axis below the x axis [rad].
        position: (3,) position of the camera in the frame [m].
    """
    s, c = np.sin(check_number("pitch", pitch)), np.cos(pitch)
    ahead, right = np.array([c, 0.0, -s]), np.array([0.0, -1.0, 0.0])
    return Pose.of(
        np.column_stack((right, np.cross(ahead, right), ahead)), check_vector("position", position, (3,), "a position")
    )
