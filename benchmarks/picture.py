"""Makes the README's picture: Go2 standing, with contact forces and centre of mass, by a headless Chromium.

``python benchmarks/picture.py [--output docs/go2.png]``
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

import quaddyn as qd
from quaddyn.viewer import Viewer

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from browser import chromium  # noqa: E402

WIDTH, HEIGHT = 1280, 640


def foot_positions(robot: qd.Robot) -> np.ndarray:
    """The feet in `q_home`, one a row [m]."""
    dynamics = qd.Dynamics(robot)
    return np.array([dynamics.frame_placement(robot.q_home, name).translation for name in robot.feet])


def stance_length(robot: qd.Robot) -> float:
    """Distance between front and hind feet [m]."""
    return float(np.ptp(foot_positions(robot)[:, 0]))


def standing_forces(robot: qd.Robot) -> dict[str, np.ndarray]:
    """Vertical forces at the feet that hold the robot in `q_home`: the smallest that balance force and moment."""
    feet, center = foot_positions(robot), qd.Dynamics(robot).center_of_mass(robot.q_home)
    balance = np.vstack([np.ones(len(feet)), feet[:, 0] - center[0], feet[:, 1] - center[1]])
    weight = robot.mass * np.linalg.norm(robot.model.gravity.linear)
    vertical = np.linalg.lstsq(balance, np.array([weight, 0.0, 0.0]), rcond=None)[0]
    return {name: np.array([0.0, 0.0, f]) for name, f in zip(robot.feet, vertical, strict=True)}


def main() -> None:
    """Records one frame and takes a screenshot of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robot", default="go2")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "go2.png")
    parser.add_argument("--browser", default="chromium")
    options = parser.parse_args()
    robot = qd.load(options.robot)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, Viewer(robot, serve=False) as viewer:
        viewer.look(azimuth=48, elevation=14, fov=17, distance=6.5 * stance_length(robot))
        viewer.show(robot.q_home, forces=standing_forces(robot), cones=True)
        page = viewer.record(Path(folder) / "page.html")
        with chromium(options.browser, WIDTH, HEIGHT) as new_page:
            tab = new_page()
            tab.open(page.as_uri() + "#bare&t=0")
            options.output.write_bytes(tab.png())
    print(f"{options.output}: {WIDTH} x {HEIGHT}, {options.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
