"""Recordings of the viewer for the site: a robot on stairs, ramps and ice, in a jump and in a righting motion."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pinocchio as pin

import quaddyn as qd
from quaddyn.locomotion import LocomotionCommand, LocomotionController, LocomotionMode, Morphology
from quaddyn.simulation import Simulation
from quaddyn.simulation.terrain import Box, Plane, Terrain, stairs
from quaddyn.viewer import Viewer

DT, FRAMES_PER_SECOND = 2e-3, 25
SPEED = 0.25  # commanded [sqrt(g l)]


class Run(NamedTuple):
    """Controller, plant and commands of one recording.

    Attributes:
        seconds: duration [s].
        controller: controller of the robot.
        plant: plant with the terrain.
        ask: function of the time [s] that returns the velocity command (3,) [m/s, m/s, rad/s] and may change the plant.
    """

    seconds: float
    controller: LocomotionController
    plant: Simulation
    ask: Callable[[float], np.ndarray]


def climb(robot: qd.Robot, *, told: bool) -> Run:
    """Returns a run up stairs, with a terrain map if `told`, otherwise blind."""
    p = Morphology.from_robot(robot)
    rise, tread, count = (0.25 if told else 0.1) * p.length, 0.6 * p.length, 4
    start = float(p.nominal_stance[:, 0].max()) + 0.5 * p.length
    end = start + count * tread
    top = Box([end + 2.0, 0.0, 0.5 * count * rise], [4.0, 3.0, count * rise])
    ground = Terrain.from_surfaces([Plane.floor(), *stairs(count, rise=rise, tread=tread, distance=start), top])
    controller = LocomotionController(robot, dt=DT, friction=0.6, terrain=ground if told else None)
    return Run(7.0, controller, Simulation(robot, dt=DT, friction=0.8, terrain=ground), ahead(p))


def slope(robot: qd.Robot) -> Run:
    """Returns a blind run up a ramp of 15 degrees."""
    p = Morphology.from_robot(robot)
    angle, start, length = np.radians(15.0), float(p.nominal_stance[:, 0].max()) + 0.5 * p.length, 3.0
    R = pin.exp3(np.array([0.0, -angle, 0.0]))
    thick = 0.1
    middle = np.array([start, 0.0, 0.0]) + R @ (0.5 * length, 0.0, -0.5 * thick)
    ground = Terrain.from_surfaces([Plane.floor(), Box(middle, [length, 3.0, thick], R)])
    controller = LocomotionController(robot, dt=DT)
    return Run(7.0, controller, Simulation(robot, dt=DT, friction=0.8, terrain=ground), ahead(p))


def ice(robot: qd.Robot) -> Run:
    """Returns a run in which the friction coefficient falls to 0.1 for a second, without notice."""
    p = Morphology.from_robot(robot)
    controller = LocomotionController(robot, dt=DT)
    plant, velocity = Simulation(robot, dt=DT, friction=0.8), np.array([SPEED * p.speed_scale, 0.0, 0.0])

    def ask(t: float) -> np.ndarray:
        plant.friction = 0.1 if 2.0 <= t < 3.0 else 0.8
        return velocity * (t > 0.3)

    return Run(6.0, controller, plant, ask)


def jump(robot: qd.Robot) -> Run:
    """Returns a run with a jump forward and a turn in flight."""
    controller, asked = LocomotionController(robot, dt=DT, friction=0.8), []

    def ask(t: float) -> np.ndarray:
        if t > 0.5 and not asked:
            asked.append(controller.jump(height=0.15, distance=(0.3, 0.0), turn=np.radians(45.0)))
        return np.zeros(3)

    return Run(4.0, controller, Simulation(robot, dt=DT, friction=0.8), ask)


def get_up(robot: qd.Robot) -> Run:
    """Returns a run from the back onto the feet, with a plan of `quaddyn.planning.plan_righting`."""
    from quaddyn.planning import plan_righting

    controller = LocomotionController(robot, dt=DT, righting_plan=plan_righting(robot))
    p, plant = controller.morphology, Simulation(robot, dt=DT)
    q = np.array(robot.q_home)
    q[3:7] = pin.Quaternion(pin.exp3(np.array([3.0, 0.0, 0.0])) @ p.heading.T).coeffs()
    q[2] += 0.1 * p.length
    plant.reset(q)

    def ask(t: float) -> np.ndarray:
        if t > 1.0 and controller.mode is LocomotionMode.FALLEN:
            controller.stand_up()
        return np.array([SPEED * p.speed_scale if t > 10.0 else 0.0, 0.0, 0.0])

    return Run(13.0, controller, plant, ask)


def ahead(p: Morphology) -> Callable[[float], np.ndarray]:
    """Returns velocity commands: zero at first, then straight ahead."""
    return lambda t: np.array([SPEED * p.speed_scale if t > 0.3 else 0.0, 0.0, 0.0])


#: Function, title and text of each recording, by name.
RECORDINGS: dict[str, tuple[Callable[[qd.Robot], Run], str, str]] = {
    "stairs": (
        lambda r: climb(r, told=True),
        "Stairs",
        "Steps of a quarter of the leg length, with a terrain map. Dots are foothold candidates, from "
        "green to red by their cost, discs the selected footholds, blue arrows the terrain normals of the stance feet.",
    ),
    "blind_stairs": (
        lambda r: climb(r, told=False),
        "Stairs without a terrain map",
        "Steps of a tenth of the leg length: a foot that stumbles is lifted over the edge, and then all feet higher.",
    ),
    "slope": (
        slope,
        "A ramp",
        "A ramp of 15 degrees, walked blind: friction cones follow the plane of the stance feet.",
    ),
    "ice": (
        ice,
        "Ice",
        "The friction coefficient is 0.1 for a second; slips reveal it, and contact forces stay within it.",
    ),
    "jump": (
        jump,
        "A jump",
        "A jump of 0.15 m, 0.3 m forward, with a turn of 45 degrees, planned and checked before it begins.",
    ),
    "get_up": (get_up, "Getting up", "From the back, by a motion that was found by search and cached."),
}


def record(name: str, robot: qd.Robot, path: Path) -> LocomotionCommand:
    """Simulates one run, writes its page, and returns the last command."""
    run = RECORDINGS[name][0](robot)
    dynamics, shown = qd.Dynamics(robot), -1
    with Viewer(robot, serve=False, fps=FRAMES_PER_SECOND) as viewer:
        viewer.show_terrain(run.plant.terrain)
        for k in range(round(run.seconds / DT)):
            t = k * DT
            velocity = run.ask(t)
            command = run.controller.compute(dynamics.update(run.plant.q, run.plant.v), velocity)
            if int(t * FRAMES_PER_SECOND) != shown:
                shown = int(t * FRAMES_PER_SECOND)
                viewer.show_plant(
                    run.plant,
                    show_support_polygon=True,
                    friction=run.plant.friction,
                    show_friction_cones=True,
                    footholds=command.footholds,
                    normals=command.contact_normals,
                    curves={f"{foot} swings": swing.ahead() for foot, swing in command.swings.items()},
                    caption=f"{RECORDINGS[name][1]}: {command.mode.value}",
                )
            run.plant.step(command.tau)
        viewer.record(path, title=RECORDINGS[name][1])
    return command


def write_recordings(docs: Path) -> set[Path]:
    """Writes a page of each recording that is missing or older than this file, and the page that shows all of them."""
    folder = docs / "_static" / "recordings"
    folder.mkdir(parents=True, exist_ok=True)
    robot, parts = None, []
    for name, (_, title, text) in RECORDINGS.items():
        page = folder / f"{name}.html"
        if not page.exists() or page.stat().st_mtime < Path(__file__).stat().st_mtime:
            robot = qd.load("go2") if robot is None else robot
            record(name, robot, page)
        source = f"../_static/recordings/{name}.html"
        parts.append(
            f"## {title}\n\n{text}\n\n```{{raw}} html\n"
            f'<iframe src="{source}" title="{title}" loading="lazy" width="100%" height="420"></iframe>\n'
            f'<p><a href="{source}">Open on a separate page</a></p>\n```\n'
        )
    path = docs / "recordings" / "index.md"
    path.parent.mkdir(exist_ok=True)
    lead = (
        "A Go2 in the embedded plant, recorded by the viewer. Drag to rotate the view; the bar below sets the time.\n"
    )
    path.write_text(f"# Recordings\n\n{lead}\n" + "\n".join(parts), encoding="utf-8")
    for page in folder.glob("*.html"):
        if page.stem not in RECORDINGS:
            page.unlink()
    return {path}
