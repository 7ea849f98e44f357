"""Renders the pictures of the documentation with a headless Chromium.

``python benchmarks/picture.py`` renders that of the README, Go2 standing, with contact forces and center of mass.
``--footholds`` renders that of the tour, Go2 on stairs with a terrain map, with footholds and their costs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

import quaddyn as qd
from quaddyn.simulation.terrain import Box, Plane, Terrain, stairs
from quaddyn.viewer import Viewer

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from browser import chromium  # noqa: E402

WIDTH, HEIGHT = 1280, 640


def foot_positions(robot: qd.Robot) -> np.ndarray:
    """Returns the positions of the feet in `q_home`, one per row [m]."""
    dynamics = qd.Dynamics(robot)
    return np.array([dynamics.frame_placement(robot.q_home, name).translation for name in robot.feet])


def stance_length(robot: qd.Robot) -> float:
    """Returns the distance between front and hind feet [m]."""
    return float(np.ptp(foot_positions(robot)[:, 0]))


def standing_forces(robot: qd.Robot) -> dict[str, np.ndarray]:
    """Returns the smallest vertical foot forces [N] that balance force and moment in `q_home`."""
    feet, center = foot_positions(robot), qd.Dynamics(robot).center_of_mass(robot.q_home)
    balance = np.vstack([np.ones(len(feet)), feet[:, 0] - center[0], feet[:, 1] - center[1]])
    weight = robot.mass * np.linalg.norm(robot.model.gravity.linear)
    vertical = np.linalg.lstsq(balance, np.array([weight, 0.0, 0.0]), rcond=None)[0]
    return {name: np.array([0.0, 0.0, f]) for name, f in zip(robot.feet, vertical, strict=True)}


def show_standing(robot: qd.Robot, viewer: Viewer) -> None:
    """Shows the robot in `q_home` with contact forces."""
    viewer.set_camera(azimuth=48, elevation=14, fov=17, distance=6.5 * stance_length(robot))
    viewer.show(robot.q_home, forces=standing_forces(robot), show_friction_cones=True)


def show_climbing(robot: qd.Robot, viewer: Viewer) -> None:
    """Shows the robot on stairs at a moment at which the foothold of a front foot differs from the nominal one."""
    dt, controller = 2e-3, qd.LocomotionController(robot, dt=2e-3)
    p = controller.morphology
    rise, run, start = 0.2 * p.length, 0.6 * p.length, float(p.nominal_stance[:, 0].max()) + 0.4 * p.length
    top = Box([start + 3.0 * run + 2.0, 0.0, 1.5 * rise], [4.0, 3.0, 3.0 * rise])
    controller.terrain = ground = Terrain.from_surfaces(
        [Plane.floor(), *stairs(3, rise=rise, tread=run, distance=start), top]
    )
    plant, dynamics = qd.Simulation(robot, dt=dt, friction=0.8, terrain=ground), qd.Dynamics(robot)
    for _ in range(2000):
        command = controller.compute(dynamics.update(plant.q, plant.v), (0.25 * p.speed_scale, 0.0, 0.0))
        deviating_feet = {foot for foot, foothold in command.footholds.items() if foothold.deviation > 0.1 * p.length}
        if "FL" in deviating_feet and command.swings["FL"].progress > 0.35:
            break
        plant.step(command.tau)
    print(command.explain())
    viewer.show_plant(
        plant,
        show_com=False,
        footholds=command.footholds,
        normals=command.contact_normals,
        curves={f"{foot} swings": swing.remaining_path() for foot, swing in command.swings.items()},
    )
    x, y, z = plant.q[:3].tolist()
    viewer.set_camera((x + 0.1, y, z - 0.22), azimuth=48, elevation=24, fov=30, distance=3.4 * stance_length(robot))


def main() -> None:
    """Records one frame and takes a screenshot of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robot", default="go2")
    parser.add_argument("--output", type=Path, help="default: docs/go2.png or docs/footholds.png")
    parser.add_argument("--footholds", action="store_true", help="render the robot on stairs instead of standing")
    parser.add_argument("--browser", default="chromium")
    options = parser.parse_args()
    robot = qd.load(options.robot)
    output = options.output or ROOT / "docs" / ("footholds.png" if options.footholds else "go2.png")
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, Viewer(robot, serve=False) as viewer:
        (show_climbing if options.footholds else show_standing)(robot, viewer)
        page = viewer.record(Path(folder) / "page.html")
        with chromium(options.browser, WIDTH, HEIGHT) as new_page:
            tab = new_page()
            tab.open(page.as_uri() + "#bare&t=0")
            output.write_bytes(tab.png())
    print(f"{output}: {WIDTH} x {HEIGHT}, {output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
