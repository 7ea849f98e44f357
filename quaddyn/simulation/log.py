"""`Log`: recorded run of a plant, for plots, files and other programs."""

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
from .mcap_file import write_log
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
    """Recorded run of `Plant.run`, at each of its n ticks.

    Attributes:
        initial_checkpoint: state at the start.
        steps_per_tick: time steps per tick.
        time: (n,) time [s].
        q, v: (n, nq), (n, nv) configuration and velocity when the controller was called.
        tau: (n, nu) torques that the controller returned, before delays and limits [N m or N].
        forces: (n, s, 3) mean ground reaction force over the last step of each tick, on the robot, world axes [N].
        spheres: (s,) names for `forces`: feet, other named spheres, then links of the body that were in contact.
        status: (n,) outcome of whole-body control; the mode, such as "fallen", of a `LocomotionCommand` without
            whole-body control; "" if the controller returned torques only.
        level_residuals: (n, L) residual of each level of whole-body control [m/s^2], see `quaddyn.wbc.LevelReport`; (n,
            0) unless `Plant.run` was called with ``record_residuals=True``.
        root: "free", "planar" or "fixed".
        joint_names: (nu,) names of the actuated joints, in the order of `tau`.
        joint_units: (nu,) unit of each joint, "rad" or "m".
        joint_slices: (nu, 3) for each joint its entry in v, its first entry in q, and its number of entries in q.
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
        """Positions of the actuated joints (n, nu) [rad or m]."""
        _, first_entry, entries = self.joint_slices.astype(np.intp).T
        return JointPositions(first_entry, entries == 2).of(self.q)

    @property
    def velocities(self) -> Array:
        """Velocities of the actuated joints (n, nu) [rad/s or m/s]."""
        return self.v[:, self.joint_slices[:, 0].astype(int)]

    @property
    def base(self) -> Array | None:
        """Position [m] and quaternion (x, y, z, w) of a free base (n, 7); None for other roots."""
        return self.q[:, :7] if self.root == "free" else None

    def __repr__(self) -> str:
        outcomes = "".join(f", {n} {outcome}" for outcome, n in Counter(self.status).most_common() if outcome)
        start = self.initial_checkpoint
        return f"Log({start.robot!r}, {len(self.time)} ticks of {1e3 * start.dt * self.steps_per_tick:g} ms{outcomes})"

    def columns(self) -> dict[str, Array]:
        """Returns each quantity as an array (n,) by name and unit, such as "tau FL_hip_joint [N m]"."""
        columns, torque_unit = {"time [s]": self.time}, {"rad": "N m", "m": "N"}
        positions, velocities = self.positions, self.velocities
        for i, (joint, unit) in enumerate(zip(self.joint_names, self.joint_units, strict=True)):
            columns[f"position {joint} [{unit}]"] = positions[:, i]
            columns[f"velocity {joint} [{unit}/s]"] = velocities[:, i]
            columns[f"tau {joint} [{torque_unit[unit]}]"] = self.tau[:, i]
        if self.base is not None:
            names = ("x [m]", "y [m]", "z [m]", "qx [1]", "qy [1]", "qz [1]", "qw [1]")
            columns |= {f"base {name}": self.base[:, i] for i, name in enumerate(names)}
        for s, sphere in enumerate(self.spheres):
            columns |= {f"force {sphere} {axis} [N]": self.forces[:, s, i] for i, axis in enumerate("xyz")}
        return columns | {
            f"residual of level {k} [m/s^2]": residual for k, residual in enumerate(self.level_residuals.T)
        }

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Writes `columns`, and the status if there is one, as a table with a header line.

        Args:
            path: file to write.

        Returns:
            The path of the file.

        Raises:
            OSError: the file cannot be written.
        """
        columns, outcomes = self.columns(), self.status if any(self.status) else ()
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*columns, *(["status"] if outcomes else [])])
            table = np.column_stack(list(columns.values()))
            for i, row in enumerate(table.tolist()):
                writer.writerow([*row, *([outcomes[i]] if outcomes else [])])
        return Path(path)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the complete log, including the checkpoint, to an archive that `load` reads bit for bit.

        Args:
            path: file to write.

        Returns:
            The path of the file.

        Raises:
            OSError: the file cannot be written.
        """
        return save(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Log:
        """Reads a log from a file of `save`; no code in the file is executed.

        Args:
            path: file to read.

        Raises:
            ArgumentError: the file is not a saved log.
            OSError: the file cannot be read.
        """
        log: Log = load(path, (Log, Checkpoint, ActivePush, ContactPoint))
        return log

    def to_mcap(self, path: str | os.PathLike[str]) -> Path:
        """Writes an MCAP file for Foxglove and PlotJuggler, see `quaddyn.simulation.mcap_file` (extra: mcap).

        Args:
            path: file to write.

        Returns:
            The path of the file.

        Raises:
            QuaddynError: the package mcap is not installed.
            OSError: the file cannot be written.
        """
        return write_log(self, path)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Plots joints, torques, vertical contact forces, a free base and level residuals over time (extra: plot).

        Args:
            path: PNG, PDF or SVG file to write; None for none.

        Returns:
            The matplotlib ``Figure``, which notebooks display.

        Raises:
            QuaddynError: matplotlib is not installed.
        """
        all_revolute = set(self.joint_units) <= {"rad"}
        panels: list[tuple[str, Array, tuple[str, ...]]] = [
            (f"position [{'rad' if all_revolute else 'rad, m'}]", self.positions, self.joint_names),
            (f"velocity [{'rad/s' if all_revolute else 'rad/s, m/s'}]", self.velocities, self.joint_names),
            (f"torque [{'N m' if all_revolute else 'N m, N'}]", self.tau, self.joint_names),
        ]
        loaded = [s for s in range(len(self.spheres)) if self.forces[:, s].any()]
        if loaded:
            panels.append(("vertical force [N]", self.forces[:, loaded, 2], tuple(self.spheres[s] for s in loaded)))
        if self.base is not None:
            panels.append(("base [m]", self.base[:, :3], ("x", "y", "z")))
        if self.level_residuals.size:
            panels.append(
                (
                    "residual [m/s$^2$]",
                    self.level_residuals,
                    tuple(f"level {k}" for k in range(self.level_residuals.shape[1])),
                )
            )
        return plot_panels(self.time, panels, path)


def plot_panels(
    time: Array, panels: list[tuple[str, Array, tuple[str, ...]]], path: str | os.PathLike[str] | None = None
) -> Any:
    """Plots quantities over time in one panel each.

    Args:
        time: (n,) time [s].
        panels: label of the axis, values (n, k), and names of the k lines of each panel.
        path: PNG, PDF or SVG file to write; None for none.

    Returns:
        The matplotlib ``Figure``.

    Raises:
        QuaddynError: matplotlib is not installed.
    """
    try:
        from matplotlib import colormaps
        from matplotlib.figure import Figure
    except ImportError:
        raise QuaddynError("matplotlib is not installed; install it with: pip install 'quaddyn[plot]'") from None
    panels = [panel for panel in panels if panel[2]]  # a free body has no joints
    figure = Figure(figsize=(9.0, 2.2 * len(panels)), layout="constrained")
    for axes, (label, values, names) in zip(
        np.atleast_1d(figure.subplots(len(panels), 1, sharex=True)), panels, strict=True
    ):
        palette = colormaps["tab10" if len(names) <= 10 else "tab20"]
        axes.set_prop_cycle(color=list(palette(np.arange(len(names)) % palette.N)))
        axes.plot(time, values, linewidth=1.0, label=names)
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=6, ncols=1 + len(names) // 7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.set_xlabel("time [s]")
    if path is not None:
        figure.savefig(path)
    return figure


def make_joint_fields(robot: Robot) -> dict[str, Any]:
    """Returns the fields of a `Log` that describe the joints of a robot."""
    one_dof, prismatic = robot.one_dof_joints, {joint.name for joint in robot.tree.joints if joint.type == "prismatic"}
    rows = [(v, *one_dof[v]) for v in map(robot.velocity_index, robot.actuated)]
    units = tuple("m" if name in prismatic else "rad" for name in robot.actuated)
    return {
        "root": robot.root,
        "joint_names": robot.actuated,
        "joint_units": units,
        "joint_slices": frozen(np.reshape(rows, (-1, 3))),
    }
