"""Squat, jump, land.

A robot jumps by whole-body control without a jump plan. The reference of the center of mass moves down and then
up. During flight no contact is active, and tasks keep the feet below the trunk until touchdown.
"""

import sys

import numpy as np

import quaddyn as qd

PUSH, SPEED = 0.18, 1.4  # duration of the push [s], lift-off speed [m/s]


def main(picture: str | None = None) -> dict[str, float]:
    """Returns the jump height [m], the flight time [s] and the final height relative to the initial one."""
    robot = qd.load("go2")
    dyn, sim, wbc = qd.Dynamics(robot), qd.Simulation(robot), qd.WholeBodyController(robot, ramp_time=0.01)
    com, start = wbc.tasks.com, dyn.center_of_mass(sim.q)
    low, phase, since, log = start - [0.0, 0.0, 0.09], "squat", 0.0, []
    for _ in range(2200):
        s, t = dyn.update(sim.q, sim.v), sim.time - since
        if phase == "squat":
            com.reference(start + min(t / 0.5, 1.0) * (low - start))
            if t > 0.7:
                phase, since = "push", sim.time
        elif phase == "push":
            a = SPEED / PUSH
            com.reference(low + [0, 0, a * t * t / 2], np.array([0, 0, a * t]), np.array([0, 0, a]))
            if t > PUSH:
                phase, since = "fly", sim.time
                for foot in robot.feet:  # the default reference is below the trunk
                    wbc.tasks[foot].clear_references()
        elif phase == "fly" and t > 0.08 and sum(f[2] for f in sim.contact_forces.values()) > 20.0:
            phase, since, down = "land", sim.time, s.com.copy()
            speed = s.com_velocity.copy()
        if phase == "land":
            decay = np.exp(-8.0 * t)
            com.reference(start + decay * (down - start) + t * decay * speed)
        command = wbc.compute(s, () if phase == "fly" else robot.feet)
        log.append((sim.time, s.com[2], sum(f[2] for f in sim.contact_forces.values()), phase))
        sim.step(command.tau)
    times, heights, forces, phases = (np.array(column) for column in zip(*log, strict=True))
    if picture:
        from matplotlib.figure import Figure

        above, below = (figure := Figure(figsize=(6, 4), layout="constrained")).subplots(2, sharex=True)
        above.plot(times, heights)
        below.plot(times, forces)
        above.set(ylabel="height of the CoM [m]")
        below.set(xlabel="t [s]", ylabel="force of the ground [N]")
        figure.savefig(picture, dpi=100)
    flight = 1e-3 * np.count_nonzero((forces < 1.0) & (phases == "fly"))
    return {"jump": heights.max() - heights[0], "flight": flight, "end": heights[-1] / heights[0]}


if __name__ == "__main__":
    found = main(*sys.argv[2:])  # --picture FILE
    print(f"{100 * found['jump']:.0f} cm high, {found['flight']:.2f} s in the air, final height {found['end']:.0%}")
