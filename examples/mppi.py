"""Balance and walking by sampling.

Model-predictive path integral control (MPPI; Williams et al., 2017, "Model predictive path integral control: from
theory to parallel computation"): random sequences of joint targets are simulated in a batch, and their mean with the
weights exp(-cost / T) is applied until the next sampling. A quadruped lands tilted, is pushed to the left and then
walks. The controller is given the exact state, but not the push. PD control of the home configuration is compared.
"""

import argparse
import time

import numpy as np

import quaddyn as qd

PERIOD, HORIZON, HOLD = 0.02, 20, 4  # of control [s]; periods of a sequence and of each of its random numbers
DEVIATION, TEMPERATURE = 0.25, 0.05  # standard deviation of the joint targets [rad], T
PUSH, PUSH_TICK = 1.0, 40  # force during 0.1 s divided by the weight
SPEED, WALK_TICK, END_TICK = 0.2, 100, 200  # commanded speed [sqrt(g l)] from 2 s on
G = 9.81  # gravity [m/s^2]


def simulate(batch: "qd.simulation.SimulationBatch", targets: np.ndarray, gains: dict, tick: int) -> np.ndarray:
    """Returns the mean costs (n,) of sequences of joint targets (n, HORIZON, nu) from the present states on."""
    home, length, cost = batch.robot.q_home, batch.robot.q_home[2], np.zeros(batch.n)
    speed, step_time = SPEED * np.sqrt(G * length) * (tick >= WALK_TICK), np.sqrt(1.6 * length / G)
    for k in range(HORIZON):
        batch.step(position=targets[:, k], **gains, steps=round(PERIOD / batch.dt))
        q, v, forces = batch.q, batch.v, batch.contact_forces[:, :, 2] / (batch.robot.mass * G)
        cost += 20.0 * (q[:, 2] / length - 1.0) ** 2 + 20.0 * (q[:, 3:6] ** 2).sum(axis=1)
        cost += 10.0 * ((v[:, 0] - speed) ** 2 + v[:, 1] ** 2) / (G * length)
        cost += 0.1 * length / G * (v[:, 3:6] ** 2).sum(axis=1) + 0.1 * ((targets[:, k] - home[7:]) ** 2).sum(axis=1)
        if speed:  # a trot: FL and RR, or FR and RL, should bear no force
            swing = [[0, 3], [1, 2]][int((tick + k) * PERIOD / step_time) % 2]
            cost += 0.3 * np.minimum(forces[:, swing], 1.0).sum(axis=1)
    return cost / HORIZON + 1e6 * batch.has_diverged


def main(picture: str | None = None, robot: str = "go2", samples: int = 64, seed: int = 0) -> dict[str, float]:
    """Returns the largest tilts [deg], the speed relative to the command, and the rate of control [Hz]."""
    model, logs, times = qd.load(robot), {"MPPI": [], "PD": []}, []
    if len(model.legs) != 4 or model.nq != 7 + model.nu:
        raise SystemExit(f"--robot: expected four legs, a free root and no continuous joints; {robot} has others")
    length, weight, home = model.q_home[2], model.mass * G, model.q_home[7:]
    gains = {"stiffness": weight * length, "damping": 0.1 * weight * length * np.sqrt(length / G)}
    batch = qd.Simulation(model, dt=0.004, spheres={}, integrator="euler").batch(samples)
    for method, log in logs.items():
        rng, plant, plan = np.random.default_rng(seed), qd.Simulation(model, dt=0.002), np.tile(home, (HORIZON, 1))
        joints = home + rng.uniform(-0.2, 0.2, model.nu)
        plant.reset(np.concatenate([[0.0, 0.0, 1.1 * length, np.sin(0.1), 0.0, 0.0, np.cos(0.1)], joints]))
        for tick in range(END_TICK):
            if tick == PUSH_TICK:
                plant.push(model.bodies[0].name, np.array([0.0, PUSH * weight, 0.0]), duration=0.1)
            if method == "MPPI":
                begin, plan = time.perf_counter(), np.concatenate([plan[1:], plan[-1:]])
                noise = rng.normal(scale=DEVIATION, size=(samples, HORIZON // HOLD, model.nu))
                targets = plan + np.repeat(noise, HOLD, axis=1)
                targets[0], targets[1:2] = plan, home
                batch.reset(q=plant.q, v=plant.v)
                cost = simulate(batch, targets, gains, tick)
                weights = np.exp((cost.min() - cost) / TEMPERATURE)
                plan = np.tensordot(weights / weights.sum(), targets, 1)
                times.append(time.perf_counter() - begin)
            for _ in range(round(PERIOD / plant.dt)):
                plant.step(gains["stiffness"] * (plan[0] - plant.q[7:]) - gains["damping"] * plant.v[6:])
            log.append([plant.q[0], np.degrees(np.arccos(np.clip(1.0 - 2.0 * (plant.q[3:5] ** 2).sum(), -1.0, 1.0)))])
    results = {method: np.array(log) for method, log in logs.items()}
    if picture:
        from matplotlib.figure import Figure

        axes = (figure := Figure(figsize=(6, 4), layout="constrained")).subplots(2, sharex=True)
        for method, log in results.items():
            for ax, values in zip(axes, log.T, strict=True):
                ax.plot(PERIOD * np.arange(1, END_TICK + 1), values, label=method)
        axes[0].set(ylabel="x of the trunk [m]")
        axes[1].set(xlabel="t [s]", ylabel="tilt of the trunk [deg]")
        axes[0].legend(frameon=False)
        figure.savefig(picture, dpi=100)
    distance = results["MPPI"][-1, 0] - results["MPPI"][WALK_TICK, 0]
    speed = distance / (PERIOD * (END_TICK - WALK_TICK)) / (SPEED * np.sqrt(G * length))
    tilts = {method: float(log[:, 1].max()) for method, log in results.items()}
    return {**tilts, "speed": float(speed), "rate": len(times) / sum(times)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", metavar="FILE", help="file of a plot")
    parser.add_argument("--robot", default="go2", help="quadruped of the catalogue without an arm")
    parser.add_argument("--samples", type=int, default=64, help="number of sequences")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    found = main(**vars(options := parser.parse_args()))
    print(f"{options.samples} samples of {HORIZON * PERIOD:g} s; control rate {found['rate']:.0f} Hz, simulated 50 Hz")
    print(
        f"largest tilt {found['MPPI']:.0f} deg (PD: {found['PD']:.0f} deg); {found['speed']:.0%} of the commanded speed"
    )
    if found["MPPI"] > 30.0 or found["speed"] < 0.5:
        raise SystemExit("mppi: the robot has lost its balance or does not walk")
