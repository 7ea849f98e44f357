"""`LocomotionCommand`: what `LocomotionController` asks of the motors, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..urdf.tree import Array
from ..wbc import Command
from ..wbc.explanation import LINES
from .foothold import Foothold
from .jump_plan import JumpPlan
from .modes import Mode
from .swing import Swing

#: How a command says that it was cut, and what cuts it beside what `LocomotionController.reach` computes.
LIMIT = "limit of the gait on these legs"
FALLEN, NO_GROUND, JUMPS = "fallen", "no ground under the feet", "the robot jumps"


@dataclass(frozen=True, slots=True, eq=False)
class LocomotionCommand:
    """What is asked of the motors, and why.

    Attributes:
        tau: (nu,) torques of the actuated joints, cut at the motors' limits [N m]; dampers that fold the legs when
            fallen, see `Curl`, and dampers in the air or landing where whole-body control is not `ok`.
        mode: what the robot is doing.
        contacts: the feet that are to carry.
        whole_body: the whole-body controller's command with its certificate; None when fallen or righting.
        pressure: (2,) wanted centre of pressure, world [m].
        asked: (3,) forward, leftward [m/s] and yaw rate [rad/s] as `compute` was given them, heading frame.
        commanded: (3,) what of it the gait can do on these legs, see `LocomotionController.reach`.
        velocity: (3,) that is steered for at this tick, on the way to `commanded`; seen from above.
        limit: what cut `asked` down to `commanded`, such as "stride of the gait"; "" where nothing did.  Of a robot
            that falls, how that was seen, such as "capture point beyond the reach of all feet", or why it was not
            righted.
        swings: by foot in the air, its `Swing`.
        felt: the feet that touch the ground, as given to `compute` or estimated; None where the schedule is trusted.
        load: that the robot is taken to carry beside its own mass [kg]; 0 where the controller does not look for one.
        slipping: the feet that slip; none where the controller does not look for it.
        friction: Coulomb's coefficient that was counted on; 0 when fallen.
        jump: the plan of the jump that is under way, from the crouch until feet touch the ground again; None otherwise.
        footholds: by foot in the air, where it is to stand, what that costs and what else there was.
        normals: by foot that is to carry, of the ground under it as far as it is known or felt, unit, world.
        model_mismatch: whether estimated forces at feet in the middle of their swings show that the model does not
            explain the motion, because masses, damping or rotor inertias are not those of the robot.  Contacts then
            need larger forces to count, and follow the gait's schedule on level ground.
        timing: that ticks come at another period than the controller was made for, in words; "" while none is seen.
    """

    tau: Array
    mode: Mode
    contacts: tuple[str, ...]
    whole_body: Command | None
    pressure: Array
    asked: Array
    commanded: Array
    velocity: Array
    limit: str
    swings: Mapping[str, Swing]
    felt: tuple[str, ...] | None = None
    load: float = 0.0
    slipping: tuple[str, ...] = ()
    friction: float = 0.0
    jump: JumpPlan | None = None
    footholds: Mapping[str, Foothold] = field(default_factory=dict)
    normals: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    model_mismatch: bool = False
    timing: str = ""

    @property
    def dt(self) -> float | None:
        """Control period of the controller [s]; None when fallen or righting."""
        return getattr(self.whole_body, "dt", None)

    @property
    def limited(self) -> bool:
        """Whether more was asked for than the gait can do on these legs."""
        return self.limit != ""

    @property
    def forces(self) -> Mapping[str, Array]:
        """Contact forces that are counted on, (3,) by foot, on the robot, world axes [N]."""
        return {} if self.whole_body is None else self.whole_body.forces

    @property
    def ok(self) -> bool:
        """Whether the whole-body controller got all it must have; False when fallen, and where `timing` is wrong."""
        return self.whole_body is not None and self.whole_body.ok and not self.timing

    @property
    def solved(self) -> bool:
        """The same as `ok`."""
        return self.ok

    def explain(self, *, threshold: float = 1e-3, last: bool = False, lines: int | None = LINES) -> str:
        """In words: what it does, where each foot in the air is to stand and why, and what was lost to what.

        Args:
            threshold: of losses, as are the others; see `quaddyn.wbc.Command.explain`.
            last: as there.
            lines: as there.
        """
        said = [str(self), *([self.timing] if self.timing else []), *map(str, self.footholds.values())]
        if self.model_mismatch:
            said.append("the model does not explain the forces at feet in the air: see model_mismatch")
        if self.whole_body is not None:
            said.append(self.whole_body.explain(threshold=threshold, include_last_level=last, max_lines=lines))
        return "\n".join(said)

    def __str__(self) -> str:
        """One line: what it does, and what of the velocity that was asked for."""
        said = "{:+.3f}, {:+.3f} m/s, {:+.3f} rad/s"
        if self.jump is not None:
            return f"{self.mode.value}; {self.jump}"
        cut = f"; asked {said.format(*self.asked)} ({LIMIT}: {self.limit})" if self.limited else ""
        return f"{self.mode.value}; commanded {said.format(*self.commanded)}{cut}"
