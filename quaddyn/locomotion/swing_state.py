"""Compiled swings of the feet: one row per foot of `SwingStates`; see `SwingTrajectory`."""

from ..compiler import IntVector, Matrix, Record, Tensor, Vec3, Vector, compiled, entry, vec3
from .minimum_jerk import advance_quintic

#: Fraction of the swing after which the target is frozen: later changes would need too large accelerations.
TARGET_FREEZE_PHASE = 0.8
#: Fraction of the swing at which the foot is highest.
APEX_PHASE = 0.45
#: Descent of a foot that touches down late: increase of the touchdown speed per fraction of the swing that it is late,
#: and the maximum, as multiples of the touchdown speed.
LATE_DESCENT_GAIN, MAX_DESCENT_RATIO = 20.0, 8.0
#: Height difference up to which terrain counts as even [l].
EVEN_TERRAIN_TOLERANCE = 0.02


class SwingStates(Record):
    """Swings of n feet, one row per foot.

    The path of a foot is the sum of a *motion* from foothold to foothold and a *lift* along the ground normal.
    """

    is_swinging: IntVector  # (n,)
    liftoff_number: IntVector  # (n,) number of the lift-off with which the present or last swing began
    n_liftoffs: int  # number of all lift-offs so far
    progress: Vector  # (n,) elapsed time divided by the duration; beyond 1 if touchdown is late
    duration: Vector  # (n,) of the whole swing [s]
    clearance: Vector  # (n,) height of the apex over the straight line from start to target [m]
    touchdown_speed: Vector  # (n,) downward speed at touchdown [m/s]
    timing: Matrix  # (n, 4) start and end of the horizontal motion and of the change of height; see `SwingTiming`
    normal: Matrix  # (n, 3) unit normal of the ground, world
    start: Matrix  # (n, 3) position at lift-off, world [m]
    target: Matrix  # (n, 3) position at touchdown, world [m]
    motion: Tensor  # (n, 3, 3) position [m], velocity [m/s] and acceleration [m/s^2] along x, y and z, a row each
    lift: Matrix  # (n, 3) height above that motion, its rate and its acceleration [m, m/s, m/s^2]
    position: Matrix  # (n, 3) of the path, world [m]
    velocity: Matrix  # (n, 3) [m/s]
    acceleration: Matrix  # (n, 3) [m/s^2]


@compiled(inline=False)
def begin_swing(
    s: SwingStates,
    foot: int,
    position: Vec3,
    velocity: Vec3,
    normal: Vec3,
    duration: float,
    clearance: float,
    touchdown_speed: float,
) -> None:
    """Begins the swing of a foot, with its present position as the target.

    Args:
        s: swings of the feet.
        foot: index of the foot.
        position: (3,) present position of the foot, world [m].
        velocity: (3,) present velocity of the foot [m/s].
        normal: (3,) unit normal of the ground, world.
        duration: duration of the swing [s].
        clearance: height of the apex over the straight line from lift-off to target [m].
        touchdown_speed: downward speed of the foot at touchdown [m/s].
    """
    s.n_liftoffs += 1
    s.liftoff_number[foot] = s.n_liftoffs
    s.is_swinging[foot] = 1
    s.progress[foot], s.duration[foot] = 0.0, duration
    s.clearance[foot], s.touchdown_speed[foot] = clearance, touchdown_speed
    set_timing(s, foot, 0.0, 1.0, 0.0, 1.0)
    s.normal[foot] = normal
    s.start[foot] = position
    s.target[foot] = position
    s.position[foot] = position
    s.velocity[foot] = velocity
    s.acceleration[foot] = 0.0
    s.lift[foot] = 0.0
    for i in range(3):
        s.motion[foot, i] = vec3(position[i], velocity[i], 0.0)


@compiled()
def set_timing(
    s: SwingStates,
    foot: int,
    horizontal_start: float,
    horizontal_end: float,
    vertical_start: float,
    vertical_end: float,
) -> None:
    """Sets the timing of a swing, as fractions of the swing; see `SwingTiming`."""
    s.timing[foot, 0], s.timing[foot, 1] = horizontal_start, horizontal_end
    s.timing[foot, 2], s.timing[foot, 3] = vertical_start, vertical_end


@compiled()
def set_target(s: SwingStates, foot: int, target: Vec3) -> None:
    """Sets the position of a foot at touchdown (3,), world [m], unless it is frozen."""
    if s.progress[foot] < TARGET_FREEZE_PHASE:
        s.target[foot] = target


@compiled()
def find_next_swing(s: SwingStates, liftoff_number: int) -> int:
    """Returns the swing foot whose lift-off came next after the one of a number; -1 if there is none.

    With the number 0 it is the swing foot that lifted off first.
    """
    found = -1
    for foot in range(len(s.is_swinging)):
        if s.is_swinging[foot] != 0 and s.liftoff_number[foot] > liftoff_number:
            if found < 0 or s.liftoff_number[foot] < s.liftoff_number[found]:
                found = foot
    return found


@compiled(inline=False)
def advance_swing(s: SwingStates, foot: int, dt: float) -> None:
    """Advances the path of a swing foot by `dt` [s] toward its target.

    The foot remains at rest along an axis whose motion has not begun.
    """
    progress, duration = s.progress[foot], s.duration[foot]
    time_to_touchdown, time_to_apex = (1.0 - progress) * duration, (APEX_PHASE - progress) * duration
    x, v, a = s.lift[foot, 0], s.lift[foot, 1], s.lift[foot, 2]
    if time_to_apex > 0.0:
        x, v, a = advance_quintic(x, v, a, s.clearance[foot], 0.0, time_to_apex, dt)
    else:
        ratio = min(1.0 + LATE_DESCENT_GAIN * max(0.0, progress - 1.0), MAX_DESCENT_RATIO)
        x, v, a = advance_quintic(x, v, a, 0.0, -s.touchdown_speed[foot] * ratio, time_to_touchdown, dt)
    s.lift[foot] = vec3(x, v, a)
    for i in range(3):
        b, c, d = s.motion[foot, i, 0], s.motion[foot, i, 1], s.motion[foot, i, 2]
        begin = s.timing[foot, 0] if i < 2 else s.timing[foot, 2]
        end = s.timing[foot, 1] if i < 2 else s.timing[foot, 3]
        if progress >= begin:
            b, c, d = advance_quintic(b, c, d, s.target[foot, i], 0.0, (end - progress) * duration, dt)
            s.motion[foot, i] = vec3(b, c, d)
        normal = s.normal[foot, i]
        s.position[foot, i] = b + normal * x
        s.velocity[foot, i] = c + normal * v
        s.acceleration[foot, i] = d + normal * a
    s.progress[foot] += dt / duration


# -- entries ---------------------------------------------------------------------------------------------------------
@entry("swing trajectories")
def start_swing(
    s: SwingStates,
    foot: int,
    position: Vector,
    velocity: Vector,
    normal: Vector,
    duration: float,
    clearance: float,
    touchdown_speed: float,
) -> None:
    """Begins the swing of a foot; see `begin_swing`."""
    begin_swing(s, foot, vec3(position), vec3(velocity), vec3(normal), duration, clearance, touchdown_speed)


@entry("swing trajectories")
def move_swing(
    s: SwingStates, foot: int, x: float, y: float, z: float, duration: float, clearance: float, dt: float
) -> None:
    """Advances the path of a swing foot by `dt` [s] toward the target (x, y, z), world [m].

    Args:
        s: swings of the feet.
        foot: index of the foot.
        x: world x of the target [m].
        y: world y of the target [m].
        z: world z of the target [m].
        duration: duration of the whole swing [s].
        clearance: height of the apex over the straight line from lift-off to target [m].
        dt: time step [s].
    """
    s.duration[foot], s.clearance[foot] = duration, clearance
    set_target(s, foot, vec3(x, y, z))
    advance_swing(s, foot, dt)


def swing_shapes(count: int) -> dict[str, int | tuple[int, ...]]:
    """Returns the shapes of the arrays of `SwingStates` for a number of feet."""
    scalars = ("is_swinging", "liftoff_number", "progress", "duration", "clearance", "touchdown_speed")
    vectors = ("normal", "start", "target", "lift", "position", "velocity", "acceleration")
    return {
        **dict.fromkeys(scalars, count),
        **dict.fromkeys(vectors, (count, 3)),
        "timing": (count, 4),
        "motion": (count, 3, 3),
    }


def allocate_swings(count: int = 4) -> SwingStates:
    """Returns the states of a number of feet without swings."""
    return SwingStates.allocate(**swing_shapes(count))
