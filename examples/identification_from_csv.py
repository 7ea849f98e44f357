"""Identification from a CSV file.

A simulated arm with joint friction executes an exciting motion. The noisy measurements are written to a CSV file and
read again. The parameters are fitted to 80 % of the samples and validated with the rest.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import quaddyn as qd
from quaddyn.identification import (
    Samples,
    base_parameters,
    exciting_trajectory,
    identify,
    save_samples,
    split_samples,
    stream_samples,
)

VISCOUS = np.array([3.0, 2.0, 1.0, 0.3, 0.2, 0.1])  # [N m s/rad]


def main(picture: str | None = None) -> dict[str, float]:
    """Returns the largest errors of the friction [N m s/rad] and of the validation torques [N m]."""
    robot = qd.load("ur5")
    base = base_parameters(robot)
    motion = exciting_trajectory(base, iterations=10)
    q, v, a = motion.sample(np.arange(0.0, motion.period, 0.02))
    dyn, rng = qd.Dynamics(robot), np.random.default_rng(0)
    tau = np.array([dyn.rnea(*state) for state in zip(q, v, a, strict=True)])
    tau += VISCOUS * v + 0.05 * rng.standard_normal(v.shape)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "motion.csv"
        save_samples(file, robot, Samples(q, v, a, tau))
        (samples,) = stream_samples(file, robot)  # a short file has one chunk
    fit, validation = split_samples(samples, 0.2)
    found = identify(base, fit, torque_noise=0.05)
    friction = np.array([found.delta[base.names.index(f"fv {joint}")] for joint in robot.actuated])
    if picture:
        from matplotlib.figure import Figure

        axes = (figure := Figure(figsize=(7, 4), layout="constrained")).subplots(2, 1, sharex=True)
        for i, ax in enumerate(axes):
            ax.plot(validation.tau[:, i], label="measured, validation")
            ax.plot(found.predict(validation.q, validation.v, validation.a)[:, i], "--", label="predicted")
            ax.set(ylabel=f"{robot.actuated[i][:-6]} [N m]")
        axes[0].legend(frameon=False)
        figure.savefig(picture, dpi=100)
    return {"friction": np.abs(friction - VISCOUS).max(), "torque": found.validate(validation).error.max()}


if __name__ == "__main__":
    found = main(*sys.argv[2:])  # --picture FILE
    print(f"errors: friction {found['friction']:.2f} N m s/rad, torque {found['torque']:.2f} N m")
