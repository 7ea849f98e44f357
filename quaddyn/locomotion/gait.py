"""`Gait`: a periodic footfall pattern; `GaitScheduler`: its timing, with smooth starts, stops and transitions."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ..deprecation import renamed_attributes, renamed_fields
from ..errors import ArgumentError, UnknownNameError
from ..robot.arguments import check_number, check_sequence
from ..urdf.tree import Array
from .gait_timing import (
    FeetTiming,
    GaitParameters,
    advance_phase,
    allocate_feet_timing,
    allocate_gait_state,
    is_transitioning,
    reset_cycle,
    start_stepping,
    stop_stepping,
    write_timing,
)
from .state_fields import StateField
from .vertical_force import VerticalForceProfile, compute_vertical_force_profile

#: Minimum duty factor: contact forces grow as its inverse.
MIN_DUTY_FACTOR = 0.3


@renamed_fields(duty="duty_factor", offsets="phase_offsets", spread="footprint_scale", stride="max_stride")
@renamed_attributes(moves="has_swing_phase", rocks="has_end_support", thrust="vertical_force_profile")
@dataclass(frozen=True, slots=True)
class Gait:
    """Periodic footfall pattern of a quadruped.

    Source: Hildebrand 1965, "Symmetrical gaits of horses".

    Attributes:
        name: name of the gait.
        period: duration of one cycle [sqrt(l/g)]; see `Morphology.time_scale`.
        duty_factor: stance time of each foot divided by the period, in [0.3, 1].
        phase_offsets: (4,) phase of each foot's touchdown [cycles], from 0 to below 1, in the order FL, FR, RL, RR.
        footprint_scale: (2,) ratios of length and width of the footprint to those of the home stance.  In gaits that
            are supported by one side or one end alone, the center of mass accelerates away from the support at ``(c -
            z) g / h``, which friction limits; so their footprints are narrower.
        max_stride: maximum path of a stance foot during one stance [leg lengths]; commanded velocities
            beyond it are clamped.
    """

    name: str
    period: float
    duty_factor: float
    phase_offsets: tuple[float, float, float, float]
    footprint_scale: tuple[float, float] = (1.0, 1.0)
    max_stride: float = 0.6

    def __post_init__(self) -> None:
        if not (np.isfinite(check_number("period", self.period)) and self.period > 0.0):
            raise ArgumentError(
                f"period: expected a positive number, in units of sqrt(l/g) with the leg length l, got {self.period}"
            )
        if not MIN_DUTY_FACTOR <= check_number("duty_factor", self.duty_factor) <= 1.0:
            raise ArgumentError(
                f"duty_factor: expected a fraction of the period in [{MIN_DUTY_FACTOR}, 1], got {self.duty_factor}"
            )
        for field in (
            "phase_offsets",
            "footprint_scale",
        ):  # stored as tuples, so that gaits compare by their numbers
            values = check_sequence(field, getattr(self, field), "numbers")
            object.__setattr__(self, field, tuple(check_number(field, value) for value in values))
        if len(self.phase_offsets) != 4 or not all(0.0 <= o < 1.0 for o in self.phase_offsets):
            raise ArgumentError(f"phase_offsets: expected four phases in [0, 1), FL FR RL RR, got {self.phase_offsets}")
        if len(self.footprint_scale) != 2 or not all(0.0 < s <= 2.0 for s in self.footprint_scale):
            raise ArgumentError(
                f"footprint_scale: expected two factors in (0, 2], of length and width, got {self.footprint_scale}"
            )
        if not 0.0 < check_number("max_stride", self.max_stride) <= 1.0:
            raise ArgumentError(f"max_stride: expected a fraction of the leg length in (0, 1], got {self.max_stride}")

    @property
    def has_swing_phase(self) -> bool:
        """Whether feet ever leave the ground."""
        return self.duty_factor < 1.0

    @property
    def vertical_force_profile(self) -> VerticalForceProfile:
        """Vertical force and vertical motion over a cycle."""
        return compute_vertical_force_profile(self.phase_offsets, self.duty_factor)

    @property
    def has_end_support(self) -> bool:
        """Whether the robot is supported at times by the front feet alone or by the rear feet alone."""
        return has_end_support(self.phase_offsets, self.duty_factor)


#: Time between two contact events below which they count as simultaneous (rounding) [periods].
EVENT_TOLERANCE = 1e-9


@functools.lru_cache(maxsize=64)
def has_end_support(phase_offsets: tuple[float, ...], duty_factor: float) -> bool:
    """Returns whether the front feet alone or the rear feet alone are in stance between two contact events.

    Args:
        phase_offsets: (4,) phase of each foot's touchdown [cycles].
        duty_factor: stance time divided by the period.
    """
    events = sorted([phase % 1.0 for offset in phase_offsets for phase in (offset, offset + duty_factor)])
    for before, after in itertools.pairwise([*events, events[0] + 1.0]):
        fl, fr, rl, rr = ((0.5 * (before + after) - offset) % 1.0 < duty_factor for offset in phase_offsets)
        if after - before > EVENT_TOLERANCE and (fl or fr) != (rl or rr):
            return True
    return False


#: Known gaits.  Their periods keep the swing time at about ``sqrt(l / g)``, the natural swing time of a leg of length
#: l. The walk has diagonal couplets: support by three feet and by diagonal pairs alternate, never a pair of one side.
#: The gallop is the transverse one of horses: left rear, right rear, left front, right front, then all feet gathered in
#: the air (Hildebrand 1977, "Analysis of asymmetrical gaits"; Bertram, Gutmann 2009, "Motions of the running horse and
#: cheetah revisited: fundamental mechanics of the transverse and rotary gallop").  Its strides are short: with longer
#: ones, robots with a long wheelbase for their height fall, ANYmal B above a speed of 0.28 sqrt(g l).
GAITS = MappingProxyType(
    {
        gait.name: gait
        for gait in (
            Gait("stand", 2.2, 1.0, (0.0, 0.0, 0.0, 0.0)),
            Gait("crawl", 6.0, 0.82, (0.25, 0.75, 0.0, 0.5), (1.0, 1.0), 0.32),
            Gait("walk", 3.4, 0.72, (0.35, 0.85, 0.0, 0.5), (1.0, 1.0), 0.5),
            Gait("trot", 2.2, 0.56, (0.0, 0.5, 0.5, 0.0)),
            Gait("pace", 1.8, 0.56, (0.0, 0.5, 0.0, 0.5), (1.0, 0.4), 0.45),
            Gait("bound", 1.8, 0.56, (0.0, 0.0, 0.5, 0.5), (0.35, 1.0), 0.4),
            Gait("running_trot", 1.9, 0.38, (0.0, 0.5, 0.5, 0.0)),
            Gait("pronk", 2.0, 0.5, (0.0, 0.0, 0.0, 0.0)),
            Gait("gallop", 1.8, 0.42, (0.085, 0.235, 0.765, 0.915), (0.6, 1.0), 0.27),
        )
    }
)


def find_gait(gait: str | Gait) -> Gait:
    """Returns the gait of a name, or the `Gait` that was given.

    Raises:
        UnknownNameError: there is no gait of this name.
    """
    if isinstance(gait, Gait):
        return gait
    if not isinstance(gait, str) or gait not in GAITS:
        raise UnknownNameError("gait", gait, GAITS)
    return GAITS[gait]


def write_gait_parameters(parameters: GaitParameters, gait: Gait, time_scale: float) -> None:
    """Writes the parameters of a gait to a record.

    Args:
        parameters: written.
        gait: the gait.
        time_scale: ``sqrt(l / g)`` [s].
    """
    parameters.period, parameters.duty_factor = gait.period * time_scale, gait.duty_factor
    parameters.phase_offsets[:], parameters.footprint_scale[:] = gait.phase_offsets, gait.footprint_scale
    parameters.has_swing_phase = gait.has_swing_phase
    parameters.has_constant_force = gait.vertical_force_profile.is_constant


class GaitScheduler:
    """Phases of the four feet over time, with starts, stops and transitions between gaits.

    The phase phi of the cycle grows by 1 per period and is never wrapped.  The n-th stance of a foot with offset o
    lasts from ``phi = o + n`` to ``o + n + duty_factor``, its n-th swing from there to ``o + n + 1``.

    *Start*: all feet are in stance until phi reaches 0, and perform only swings that begin after that.  The phase
    starts at a negative value, so that the center of mass has time to accelerate.  *Stop*: swing feet land as planned
    and stay.  *Transition*: phase offsets and times move to those of the new gait at limited rates, each offset along
    the shorter direction, while the cycle goes on.  Gaits with a narrower footprint start as a trot and change.  Gaits
    with flight phases start as a trot, too, and stop as one.

    Args:
        gait: gait to start with.
        time_scale: ``sqrt(l / g)`` [s].
        lead_phase: time from the start until the first foot may lift off [cycles].

    Attributes:
        gait: target gait of the transition.
        state: record of the compiled functions, with all of the state.
        phase: phase phi of the cycle [cycles].
        time_scale: ``sqrt(l / g)`` [s].
        lead_phase: as given [cycles].
        is_running: whether any foot may still swing.
        rate_scale: factor by which the cycle is at present faster than that of the gait, see `adapt_step_timing`.
        duty_factor: present duty factor.
        phase_offsets: (4,) present phase offsets, not wrapped [cycles].
        footprint_scale: (2,) present length and width of the footprint, divided by those of the home stance.
        first_swing: (4,) number of the first swing of each foot.
        last_swing: (4,) number of the last swing of each foot; inf while stepping goes on.
    """

    phase = StateField[float]()
    rate_scale = StateField[float]()
    duty_factor = StateField[float]()
    phase_offsets = StateField[Array]()
    footprint_scale = StateField[Array]()
    first_swing = StateField[Array]()
    last_swing = StateField[Array]()
    is_running = StateField[bool]()

    def __init__(self, gait: str | Gait, time_scale: float, *, lead_phase: float = 0.5) -> None:
        self.time_scale, self.lead_phase = time_scale, lead_phase
        self.state = allocate_gait_state()
        self._timing = allocate_feet_timing()
        write_gait_parameters(self.state.trot, GAITS["trot"], time_scale)
        self._set_target(find_gait(gait))
        self.rate_scale = 1.0
        reset_cycle(self.state, -lead_phase)
        self.stop_stepping()

    def _set_target(self, gait: Gait) -> None:
        """Sets the gait that transitions approach."""
        self.gait = gait
        write_gait_parameters(self.state.target, gait, self.time_scale)

    # -- commands ------------------------------------------------------------------------------------------------
    def start(self, *, lead_phase: float | None = None) -> None:
        """Starts to step, or cancels a stop.

        Args:
            lead_phase: time until the first foot may lift off [cycles]; None for that of the scheduler.
        """
        start_stepping(self.state, float(self.lead_phase if lead_phase is None else lead_phase))

    def stop_stepping(self) -> None:
        """Requests a stop: swing feet land, and no other foot lifts off; gaits with flight phases trot first."""
        stop_stepping(self.state)

    def set_gait(self, gait: str | Gait) -> None:
        """Starts the transition to another gait over the next cycles; if not running, from the next start on.

        Raises:
            UnknownNameError: there is no gait of this name.
        """
        self._set_target(find_gait(gait))
        if not self.gait.has_swing_phase:
            self.stop_stepping()

    def advance(self, dt: float) -> None:
        """Advances the phase by `dt` [s]."""
        advance_phase(self.state, float(dt))

    # -- present phases ------------------------------------------------------------------------------------------
    def contact_states(self) -> list[tuple[bool, bool]]:
        """Returns for each foot whether it is in stance, and whether it is to carry load.

        Before lift-off a foot is unloaded for `LOADING_TIME` cycles.
        """
        timing = self._feet_timing()
        return [
            (bool(in_stance), bool(is_loaded))
            for in_stance, is_loaded in zip(timing.in_stance.tolist(), timing.is_loaded.tolist(), strict=True)
        ]

    def _feet_timing(self) -> FeetTiming:
        """Returns the timing of the feet at the present phase, until the next call."""
        write_timing(self.state, self._timing)
        return self._timing

    @property
    def period(self) -> float:
        """Present duration of one cycle [s]."""
        return self.state.nominal_period / self.rate_scale

    @property
    def is_transitioning(self) -> bool:
        """Whether the transition to the target gait is not complete."""
        return bool(is_transitioning(self.state))

    @property
    def has_constant_force(self) -> bool:
        """Whether the present vertical contact force equals the weight at all times."""
        return self.state.force_profile.is_constant

    @property
    def vertical_force_profile(self) -> VerticalForceProfile:
        """Present vertical force and vertical motion over a cycle."""
        return compute_vertical_force_profile(tuple(self.phase_offsets.tolist()), self.duty_factor)

    @property
    def stance_mask(self) -> NDArray[np.bool_]:
        """(4,) whether each foot is in stance."""
        return np.asarray(self._feet_timing().in_stance != 0)

    @property
    def time_to_mid_stance(self) -> Array:
        """(4,) time until the middle of the next stance of each foot, the present one excluded [s]."""
        return self._feet_timing().time_to_mid_stance.copy()

    @property
    def time_to_liftoff(self) -> list[float]:
        """(4,) time until lift-off of each stance foot [s]; 0 for swing feet and for feet that stay in stance."""
        times: list[float] = self._feet_timing().time_to_liftoff.tolist()
        return times

    @property
    def swing_phase(self) -> Array:
        """(4,) fraction of the present swing that each foot has completed, from 0 to 1; 0 in stance."""
        return self._feet_timing().swing_phase.copy()

    @property
    def swing_time(self) -> float:
        """Duration of a swing [s]."""
        return (1.0 - self.duty_factor) * self.period

    @property
    def stance_time(self) -> float:
        """Duration of a stance [s]."""
        return self.duty_factor * self.period
