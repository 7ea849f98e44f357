"""`LocomotionCommand`: the output of one tick of `LocomotionController`, with its diagnostics.

`WalkDetails`: what a command shows of a tick on the ground, computed when it is read.

Masks of feet, in which compiled functions hold what Python code holds as names.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..deprecation import renamed_attributes
from ..urdf.tree import Array
from ..wbc import Command
from ..wbc.explanation import DEFAULT_MAX_LINES
from .foothold import Foothold
from .footwork import Footwork, FootworkState, make_selections
from .jump_plan import JumpPlan
from .leg_margins import LegMargins
from .modes import LocomotionMode
from .morphology import FEET
from .state_fields import RecordSnapshot
from .swing import SwingTrajectory, list_swings
from .velocity_limits import REASON_TEXTS, LimitReason
from .walking import TickReport

_NAMES = {
    np.array(mask, dtype=np.int64).tobytes(): tuple(itertools.compress(FEET, mask))
    for mask in itertools.product((0, 1), repeat=len(FEET))
}


@lru_cache(256)
def make_mask(names: tuple[str, ...] | None) -> NDArray[np.int64]:
    """Returns the mask (4,) of feet, read-only; empty for None."""
    mask = np.array([] if names is None else [foot in names for foot in FEET], dtype=np.int64)
    mask.flags.writeable = False
    return mask


def find_feet(mask: NDArray[np.int64]) -> tuple[str, ...]:
    """Returns the names of the feet whose entry of a mask (4,) is 1."""
    return _NAMES[mask.tobytes()]


class WalkDetails:
    """Attributes of a `LocomotionCommand` that are read seldom.

    Args:
        reports: source of copies of the report of a tick.
        footwork: swings and footholds.
        margins: reach and shank margins of the robot's legs.
        reason: text of the reason for a limit of the velocity that depends on robot or terrain.
        carrying: names of the feet that are to carry load.
        measured: names of the feet in contact; None without foot sensors.
    """

    __slots__ = (
        "_carrying",
        "_footwork",
        "_footwork_memory",
        "_margins",
        "_measured",
        "_reason",
        "_report",
        "_report_memory",
        "_reports",
        "_windows",
    )

    def __init__(
        self,
        reports: RecordSnapshot[TickReport],
        footwork: Footwork,
        margins: LegMargins,
        reason: str,
        carrying: tuple[str, ...],
        measured: tuple[str, ...] | None,
    ) -> None:
        self._reports, self._report_memory = reports, reports.take()
        self._footwork, self._footwork_memory = footwork, footwork.snapshots.take()
        self._windows, self._margins = tuple(footwork.windows), margins
        self._reason, self._carrying, self._measured = reason, carrying, measured
        self._report: TickReport | None = None

    def read(self, name: str) -> Any:
        """Returns an attribute of the command."""
        report = self._report
        if report is None:
            report = self._report = self._reports.restore(self._report_memory)
        match name:
            case "desired_cop":
                return report.cop
            case "clamped_velocity":
                return report.velocity
            case "reference_velocity":
                return report.reference_velocity
            case "limit_reason":
                depends = report.reason in (LimitReason.LEGS_ON_SLOPE, LimitReason.TERRAIN_STEP)
                return self._reason if depends else REASON_TEXTS[report.reason]
            case "swings":
                swings = list_swings(self._restore_footwork().swings)
                return {FEET[i]: swing for i, swing in swings.items()}
            case "footholds":
                selections = make_selections(self._restore_footwork(), self._windows)
                return {FEET[i]: Foothold(selection, self._margins) for i, selection in selections.items()}
            case "detected_contacts":
                if self._measured is not None:
                    return self._measured
                return find_feet(report.in_contact) if report.follows_contacts else None
            case "slipping_feet":
                return find_feet(report.is_slipping)
            case "friction":
                return report.friction
            case "contact_normals":
                normals = zip(FEET, report.normals.tolist(), strict=True)
                return {foot: tuple(normal) for foot, normal in normals if foot in self._carrying}
            case "model_mismatch":
                return report.has_model_mismatch
        raise AttributeError(name)

    def _restore_footwork(self) -> FootworkState:
        """Returns the record of the footwork as it was at the tick."""
        return self._footwork.snapshots.restore(self._footwork_memory)


#: Beginning of the text of a clamped command, and reasons for a limit besides those of
#: `LocomotionController.velocity_limit_reason`.
LIMIT_MESSAGE = "limited"
FALLEN, NO_GROUND, JUMPS = "fallen", "no ground under the feet", "the robot jumps"


@renamed_attributes(
    asked="requested_velocity",
    commanded="clamped_velocity",
    velocity="reference_velocity",
    limit="limit_reason",
    limited="is_limited",
    felt="detected_contacts",
    slipping="slipping_feet",
    pressure="desired_cop",
    load="estimated_payload_mass",
    jump="jump_plan",
    normals="contact_normals",
    forces="desired_forces",
    whole_body="wbc_command",
    solved="ok",
)
@dataclass(frozen=True, slots=True, eq=False)
class LocomotionCommand:
    """Motor torques of one tick, with the contact state, the references and the reasons for limits.

    Attributes:
        tau: (nu,) torques of the actuated joints [N m], clamped to the motor limits.  After a fall, and in flight or
            landing where the whole-body controller has no solution, joint damping only, see `LegFolding`.
        mode: mode of the controller.
        contacts: names of the feet that carry load.
        wbc_command: command of the whole-body controller with its certificate; None while the robot is fallen or is
            being righted.
        desired_cop: (2,) desired center of pressure, world [m].
        requested_velocity: (3,) velocity as passed to `LocomotionController.compute`: forward and leftward speed [m/s]
            and yaw rate [rad/s], heading frame.
        clamped_velocity: (3,) `requested_velocity` within the limits of gait, legs and ground, in the same frame
            [m/s, rad/s]; see `LocomotionController.clamp_velocity`.
        reference_velocity: (3,) velocity of the path reference at this tick, which approaches `clamped_velocity` at
            limited acceleration; horizontal heading frame [m/s, rad/s].
        limit_reason: reason for the difference between `requested_velocity` and `clamped_velocity`, such as "stride of
            the gait", or "torque of the joints" of a robot that does not follow `clamped_velocity`; "" without a limit.
            After a fall, the sign by which the fall was detected, such as "fallen: capture point beyond the reach of
            all feet", or why the robot could not be righted.
        swings: `SwingTrajectory` of each swing foot, by name of the foot.
        detected_contacts: names of the feet in contact, as measured or estimated; None where the gait schedule is used.
        estimated_payload_mass: estimated mass that the robot carries beyond its model [kg]; 0 without an estimate.
        slipping_feet: names of the feet that slip; empty without slip detection.
        friction: friction coefficient that the contact constraints assume, dimensionless; 0 after a fall.
        jump_plan: plan of the jump in progress, from the crouch to touchdown; None otherwise.
        footholds: next foothold of each swing foot with its costs and candidates, by name of the foot.
        contact_normals: (3,) unit normal of the ground under each foot in `contacts`, world, by name of the foot.
        model_mismatch: whether the forces estimated at mid-swing feet, which should be zero, show that masses, damping
            or rotor inertias of the model are wrong.  Contact detection then needs larger forces, and on level ground
            follows the gait schedule.
        timing: warning that the robot moves as if ticks came at another period than `dt`, or as if the state had
            another convention; "" while they agree.
    """

    tau: Array
    mode: LocomotionMode
    contacts: tuple[str, ...]
    wbc_command: Command | None
    desired_cop: Array
    requested_velocity: Array
    clamped_velocity: Array
    reference_velocity: Array
    limit_reason: str
    swings: Mapping[str, SwingTrajectory]
    detected_contacts: tuple[str, ...] | None = None
    estimated_payload_mass: float = 0.0
    slipping_feet: tuple[str, ...] = ()
    friction: float = 0.0
    jump_plan: JumpPlan | None = None
    footholds: Mapping[str, Foothold] = field(default_factory=dict)
    contact_normals: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    model_mismatch: bool = False
    timing: str = ""
    _details: WalkDetails | None = field(default=None, init=False, repr=False)

    @classmethod
    def from_tick(
        cls,
        details: WalkDetails,
        *,
        tau: Array,
        mode: LocomotionMode,
        contacts: tuple[str, ...],
        wbc_command: Command,
        requested_velocity: Array,
        estimated_payload_mass: float,
        jump_plan: JumpPlan | None,
    ) -> LocomotionCommand:
        """Returns the command of a tick on the ground, whose other attributes are computed when they are read.

        Args:
            details: source of the other attributes.
            tau: see the class; so are the following.
            mode: mode of the controller.
            contacts: names of the feet that carry load.
            wbc_command: command of the whole-body controller.
            requested_velocity: (3,) velocity as passed to the controller [m/s, rad/s].
            estimated_payload_mass: mass beyond the robot's model [kg].
            jump_plan: plan of the jump in progress.
        """
        out = cls.__new__(cls)
        _set_details(out, details)
        _set_tau(out, tau)
        _set_mode(out, mode)
        _set_contacts(out, contacts)
        _set_wbc_command(out, wbc_command)
        _set_requested_velocity(out, requested_velocity)
        _set_payload_mass(out, estimated_payload_mass)
        _set_jump_plan(out, jump_plan)
        _set_timing(out, "")
        return out

    def __getattr__(self, name: str) -> Any:
        """Computes an attribute at its first access; Python calls this for slots without a value."""
        details = None if name == "_details" else self._details
        if details is None:
            raise AttributeError(f"LocomotionCommand has no attribute {name!r}")
        value = details.read(name)
        object.__setattr__(self, name, value)
        return value

    @property
    def dt(self) -> float | None:
        """Control period of the whole-body controller [s]; None while the robot is fallen or is being righted."""
        return getattr(self.wbc_command, "dt", None)

    @property
    def is_limited(self) -> bool:
        """Whether there is a `limit_reason`: the requested velocity was clamped, or the robot does not follow it."""
        return self.limit_reason != ""

    @property
    def desired_forces(self) -> Mapping[str, Array]:
        """Desired contact forces on the robot, (3,) by name of the foot, world axes [N]."""
        return {} if self.wbc_command is None else self.wbc_command.forces

    @property
    def ok(self) -> bool:
        """Whether the whole-body controller satisfied all its constraints and the tick period agrees with `dt`.

        False after a fall.
        """
        return self.wbc_command is not None and self.wbc_command.ok and not self.timing

    @property
    def solved(self) -> bool:
        """Alias of `ok`."""
        return self.ok

    def explain(
        self, *, threshold: float = 1e-3, include_last_level: bool = False, max_lines: int | None = DEFAULT_MAX_LINES
    ) -> str:
        """Returns a report as text: mode and velocity, the reason for each foothold, and the tasks that were not met.

        Args:
            threshold: minimum relative loss of a task that is reported, see `quaddyn.wbc.Command.explain`.
            include_last_level: whether losses of the last priority level are reported, too.
            max_lines: maximum number of lines about losses; None for all.
        """
        lines = [str(self), *([self.timing] if self.timing else []), *map(str, self.footholds.values())]
        if self.model_mismatch:
            lines.append("the model does not explain the forces estimated at feet in the air; see model_mismatch")
        if self.wbc_command is not None:
            lines.append(
                self.wbc_command.explain(
                    threshold=threshold, include_last_level=include_last_level, max_lines=max_lines
                )
            )
        return "\n".join(lines)

    def __str__(self) -> str:
        """Returns one line with mode and clamped velocity, and with requested velocity and reason if limited."""
        speeds = "{:+.3f}, {:+.3f} m/s, {:+.3f} rad/s"
        if self.jump_plan is not None:
            return f"{self.mode.value}; {self.jump_plan}"
        limit_text = (
            f"; requested {speeds.format(*self.requested_velocity)} ({LIMIT_MESSAGE}: {self.limit_reason})"
            if self.is_limited
            else ""
        )
        return f"{self.mode.value}; commanded {speeds.format(*self.clamped_velocity)}{limit_text}"


#: Assignments of the attributes that `LocomotionCommand.from_tick` sets; faster than ``object.__setattr__``.
(
    _set_details,
    _set_tau,
    _set_mode,
    _set_contacts,
    _set_wbc_command,
    _set_requested_velocity,
    _set_payload_mass,
    _set_jump_plan,
    _set_timing,
) = (
    getattr(LocomotionCommand, name).__set__
    for name in (
        "_details",
        "tau",
        "mode",
        "contacts",
        "wbc_command",
        "requested_velocity",
        "estimated_payload_mass",
        "jump_plan",
        "timing",
    )
)
