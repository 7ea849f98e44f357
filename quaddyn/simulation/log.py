"""`Log`: what a run saw, to look at, to keep, and to give to other programs."""

from __future__ import annotations

import csv
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..deprecation import renamed_fields
from ..errors import QuaddynError
from ..robot.joint_positions import JointPositions
from ..robot.robot import Robot
from ..urdf.tree import Array, frozen
from .archive import load, save
from .mcap_file import write
from .records import ActivePush, Checkpoint, ContactPoint


@renamed_fields(
    joints="joint_names",
    lost="level_residuals",
    places="joint_slices",
    ratio="steps_per_tick",
    start="initial_checkpoint",
    units="joint_units",
)
@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """What `Plant.run` saw, at every tick of the controller.

    Attributes:
        initial_checkpoint: where it began.
        steps_per_tick: steps per tick.
        time: (n,) [s].
        q, v: (n, nq), (n, nv) when the controller was asked.
        tau: (n, nu) its answers, before any saturation [N m].
        forces: (n, s, 3) of the ground on the robot over the last step of each tick, world axes [N].
        spheres: (s,) whose forces these are: feet, other named spheres, then links of the body that touched the ground.
        status: (n,) outcome of whole-body control at each tick; the mode, such as "fallen", of a `LocomotionCommand`
            that did without; "" where the controller gave torques alone.
        level_residuals: (n, L) residual of each level of whole-body control [m/s^2], see `quaddyn.wbc.LevelReport`;
            (n, 0) unless `Plant.run` was called with ``record_residuals=True``.
        root: of the robot.
        joint_names: (nu,) names of the actuated joints, in the order of `tau`.
        joint_units: (nu,) of each, "rad" or "m".
        joint_slices: (nu, 3) of each its place in v, in q, and how many entries of q it has.
    """

    initial_checkpoint: Checkpoint
    steps_per_tick: int
    time: Array
    q: Array
    v: Array
    tau: Array
    forces: Array
    spheres: tuple[str, ...]
    status: tuple[str, ...] = ()
    level_residuals: Array = field(default_factory=lambda: np.zeros((0, 0)))
    root: str = "fixed"
    joint_names: tuple[str, ...] = ()
    joint_units: tuple[str, ...] = ()
    joint_slices: Array = field(default_factory=lambda: np.zeros((0, 3)))

    @property
    def positions(self) -> Array:
        """(n, nu) of the actuated joints [rad or m]."""
        _, at, entries = self.joint_slices.astype(np.intp).T
        return JointPositions(at, entries == 2).of(self.q)

    @property
    def velocities(self) -> Array:
        """(n, nu) of the actuated joints [rad/s or m/s]."""
        return self.v[:, self.joint_slices[:, 0].astype(int)]

    @property
    def base(self) -> Array | None:
        """(n, 7) position [m] and quaternion (x, y, z, w) of a free base; None of others."""
        return self.q[:, :7] if self.root == "free" else None

    def __repr__(self) -> str:
        said = "".join(f", {n} {word}" for word, n in Counter(self.status).most_common() if word)
        start = self.initial_checkpoint
        return f"Log({start.robot!r}, {len(self.time)} ticks of {1e3 * start.dt * self.steps_per_tick:g} ms{said})"

    def columns(self) -> dict[str, Array]:
        """Every quantity as (n,) by name with its unit, such as "tau FL_hip_joint [N m]"."""
        out, force = {"time [s]": self.time}, {"rad": "N m", "m": "N"}
        positions, velocities = self.positions, self.velocities
        for i, (joint, unit) in enumerate(zip(self.joint_names, self.joint_units, strict=True)):
            out[f"position {joint} [{unit}]"] = positions[:, i]
            out[f"velocity {joint} [{unit}/s]"] = velocities[:, i]
            out[f"tau {joint} [{force[unit]}]"] = self.tau[:, i]
        if self.base is not None:
            names = ("x [m]", "y [m]", "z [m]", "qx [1]", "qy [1]", "qz [1]", "qw [1]")
            out |= {f"base {name}": self.base[:, i] for i, name in enumerate(names)}
        for s, sphere in enumerate(self.spheres):
            out |= {f"force {sphere} {axis} [N]": self.forces[:, s, i] for i, axis in enumerate("xyz")}
        return out | {f"residual of level {k} [m/s^2]": residual for k, residual in enumerate(self.level_residuals.T)}

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write `columns`, and the status where there is one, as a table with a line of names.

        Raises:
            OSError: the file cannot be written.
        """
        columns, said = self.columns(), self.status if any(self.status) else ()
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*columns, *(["status"] if said else [])])
            table = np.column_stack(list(columns.values()))
            for i, row in enumerate(table.tolist()):
                writer.writerow([*row, *([said[i]] if said else [])])
        return Path(path)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write everything, the checkpoint included, to an archive of arrays that `load` reads, bit for bit.

        Raises:
            OSError: the file cannot be written.
        """
        return save(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Log:
        """A log from a file that `save` wrote; no code in the file is run.

        Raises:
            ArgumentError: the file is none.
            OSError: it cannot be read.
        """
        found: Log = load(path, (Log, Checkpoint, ActivePush, ContactPoint))
        return found

    def to_mcap(self, path: str | os.PathLike[str]) -> Path:
        """Write an MCAP file for Foxglove and PlotJuggler, see `quaddyn.simulation.mcap_file` (extra: mcap).

        Raises:
            QuaddynError: the package mcap is not installed.
            OSError: the file cannot be written.
        """
        return write(self, path)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Joints, torques, vertical contact forces, a free base and lost levels over time (extra: plot).

        Args:
            path: PNG, PDF or SVG file to write, if any.

        Returns:
            The matplotlib ``Figure``, which notebooks show.

        Raises:
            QuaddynError: matplotlib is not installed.
        """
        turns = set(self.joint_units) <= {"rad"}
        panels: list[tuple[str, Array, tuple[str, ...]]] = [
            (f"position [{'rad' if turns else 'rad, m'}]", self.positions, self.joint_names),
            (f"velocity [{'rad/s' if turns else 'rad/s, m/s'}]", self.velocities, self.joint_names),
            (f"torque [{'N m' if turns else 'N m, N'}]", self.tau, self.joint_names),
        ]
        touching = [s for s in range(len(self.spheres)) if self.forces[:, s].any()]
        if touching:
            panels.append(("vertical force [N]", self.forces[:, touching, 2], tuple(self.spheres[s] for s in touching)))
        if self.base is not None:
            panels.append(("base [m]", self.base[:, :3], ("x", "y", "z")))
        if self.level_residuals.size:
            panels.append(
                (
                    "lost [m/s$^2$]",
                    self.level_residuals,
                    tuple(f"level {k}" for k in range(self.level_residuals.shape[1])),
                )
            )
        return draw(self.time, panels, path)


def draw(
    time: Array, panels: list[tuple[str, Array, tuple[str, ...]]], path: str | os.PathLike[str] | None = None
) -> Any:
    """Quantities over time, one panel each: its label, (n, k) values, and the names of these.

    Returns:
        The matplotlib ``Figure``.

    Raises:
        QuaddynError: matplotlib is not installed.
    """
    try:
        from matplotlib import colormaps
        from matplotlib.figure import Figure
    except ImportError:
        raise QuaddynError("matplotlib is not installed; pip install 'quaddyn[plot]' brings it") from None
    panels = [panel for panel in panels if panel[2]]  # a free body has no joints
    figure = Figure(figsize=(9.0, 2.2 * len(panels)), layout="constrained")
    for axes, (label, table, names) in zip(
        np.atleast_1d(figure.subplots(len(panels), 1, sharex=True)), panels, strict=True
    ):
        palette = colormaps["tab10" if len(names) <= 10 else "tab20"]
        axes.set_prop_cycle(color=list(palette(np.arange(len(names)) % palette.N)))
        axes.plot(time, table, linewidth=1.0, label=names)
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=6, ncols=1 + len(names) // 7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.set_xlabel("time [s]")
    if path is not None:
        figure.savefig(path)
    return figure


def recorded_joints(robot: Robot) -> dict[str, Any]:
    """Names, units and places of a robot's joints, as a `Log` keeps them."""
    single, slides = robot.one_dof_joints, {joint.name for joint in robot.tree.joints if joint.type == "prismatic"}
    rows = [(v, *single[v]) for v in map(robot.velocity_index, robot.actuated)]
    units = tuple("m" if name in slides else "rad" for name in robot.actuated)
    return {
        "root": robot.root,
        "joint_names": robot.actuated,
        "joint_units": units,
        "joint_slices": frozen(np.reshape(rows, (-1, 3))),
    }
