"""Compiled step on a minimum-jerk path, a polynomial of degree 5."""

from ..compiler import compiled


@compiled()
def advance_quintic(
    x: float, v: float, a: float, goal: float, speed: float, time: float, dt: float
) -> tuple[float, float, float]:
    """Returns position, velocity and acceleration after `dt` on the minimum-jerk path to a goal.

    The path x(t) from the present state to `goal` and `speed`, with zero acceleration, at t = `time` is a polynomial of
    degree 5; after that it continues at constant speed.

    Args:
        x: present position [m].
        v: present velocity [m/s].
        a: present acceleration [m/s^2].
        goal: position at the end [m].
        speed: velocity at the end [m/s].
        time: time until the end [s]; 0 or less after it.
        dt: time step [s].
    """
    if dt >= time:
        return goal + speed * (dt - max(time, 0.0)) if time > 0.0 else x + speed * dt, speed, 0.0
    # Remainders of x + v t + a t^2 / 2 at the end, in position, velocity and acceleration.
    d = goal - x - time * (v + 0.5 * time * a)
    e = (speed - v - time * a) * time
    f = -a * time * time
    c3, c4, c5 = 10.0 * d - 4.0 * e + 0.5 * f, -15.0 * d + 7.0 * e - f, 6.0 * d - 3.0 * e + 0.5 * f
    u = dt / time
    u2 = u * u
    return (
        x + v * dt + 0.5 * a * dt * dt + u2 * u * (c3 + u * (c4 + u * c5)),
        v + a * dt + u2 / time * (3.0 * c3 + u * (4.0 * c4 + u * 5.0 * c5)),
        a + u / (time * time) * (6.0 * c3 + u * (12.0 * c4 + u * 20.0 * c5)),
    )
