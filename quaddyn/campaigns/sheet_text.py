"""Explanations, units and style sheet of the page of a data sheet."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .datasheet import Bound, RobotFacts

#: Duration of a push, for converting its impulse to a force [s].
PUSH_TIME = 0.1


@dataclass(frozen=True)
class UnitFormat:
    """Format of the values of a bound.

    Attributes:
        factor: factor from the unit of the bound to `unit`.
        unit: displayed unit.
        also: further displayed units, each after its factor from the unit of the bound.
    """

    factor: float
    unit: str
    also: tuple[tuple[float, str], ...] = ()

    def __call__(self, value: float) -> float:
        """Returns a value in `unit`."""
        return self.factor * value

    def format(self, value: float) -> str:
        """Returns a value as text with its units."""
        text = f"{self.factor * value:.3g} {self.unit}".strip()
        also = ", ".join(f"{factor * value:.3g} {unit}" for factor, unit in self.also)
        return f"{text} ({also})" if also else text


def unit_format_of(bound: Bound, facts: RobotFacts) -> UnitFormat:
    """Returns the format of the values of a bound of a robot."""
    if bound.name.startswith("push"):
        return UnitFormat(
            1.0, "m/s", ((1.0 / facts.speed, "sqrt(g l)"), (facts.mass / PUSH_TIME, f"N for {PUSH_TIME:g} s"))
        )
    if bound.name.startswith("slope"):
        return UnitFormat(180.0 / math.pi, "°")
    if bound.name in ("step", "stairs up", "stairs down", "rubble", "relief"):
        return UnitFormat(100.0 * facts.length, "cm", ((100.0, "% of the leg length"),))
    if bound.name == "payload":
        return UnitFormat(facts.mass, "kg", ((100.0, "% of the mass"),))
    if bound.name == "delay":
        return UnitFormat(1e3, "ms")
    if bound.name == "strength":
        return UnitFormat(100.0, "% of the torque limits")
    return UnitFormat(1.0, bound.unit)


#: Explanations of the quantities and of the search, by title.
NOTES = (
    (
        "A trial",
        "The robot starts in its home configuration, trots, and is subject to one disturbance of the given size. Phase "
        "of a push within the gait cycle, direction of travel and of the slope, and distance of the step are random "
        "numbers from the seed of the trial. It succeeds if the robot is upright at the end and reached 70 % of the "
        "commanded speed (90 % in trials of speed).",
    ),
    (
        "Push",
        "A horizontal force on the trunk for 0.1 s at a random phase of the trot, unknown to the controller; the robot "
        "must be upright and walking 14 sqrt(l/g) later. Each direction has a separate bound; the bound for every "
        "direction is the smallest of them.",
    ),
    ("Friction", "Coulomb friction coefficient of the ground; unknown to the controller."),
    (
        "Friction after a sudden drop",
        "The friction coefficient of the ground drops from 0.6 to this value at a random phase of the trot, until the "
        "end or for 1 s; unknown to the controller.",
    ),
    (
        "Slope, step, payload",
        "Slope: a plane that rises in a random direction (friction 0.6), or straight up, down or across the direction "
        "of travel (friction 0.8, with a push of 5 % of sqrt(g l) in a random direction). Step: one step up across the "
        "direction of travel, detected only by foot contacts. Payload: unmodeled mass on the trunk.",
    ),
    (
        "Stairs, rubble, relief",
        "Stairs: four steps with a depth of half a leg length. Rubble: boxes of random size up to the given height on "
        "a third of the ground. Relief: smooth random waves of the given amplitude. Blind: the controller has no "
        "terrain map and estimates contacts from joint torques. A trial ends when the robot has passed the obstacle.",
    ),
    ("Delay", "Delay of the readings of encoders and IMU, from which the base state is estimated."),
    ("Weakest motors", "All torque limits are scaled by this factor; unknown to the controller."),
    ("Speed", "Straight ahead in each gait; each trial has a push of 5 % of sqrt(g l) in a random direction."),
    (
        "The search",
        "Bisection over fixed levels, with common random numbers: trial number k has the same random numbers at "
        "every level. A level passes if a given number of trials in a row succeed.",
    ),
    (
        "The claim",
        "A level easier than the one found by the search is tested with new seeds. The test ends as soon as the lower "
        "Clopper-Pearson bound is high enough, at interim tests that are fixed beforehand and whose risks add up "
        "(Bonferroni). After a failed test, an easier level is tested; attempt number a has 1 / 2^a of the risk. The "
        "confidence therefore holds for any success curve. It is that of one bound, not of all bounds together.",
    ),
    (
        "Monotone",
        "A claim for one level implies nothing about easier levels: some are tested, and worse ones are listed.",
    ),
)

STYLE = """
:root { color-scheme: light dark; --ink: #1b2330; --soft: #5b6675; --rule: #d9dee6; --paper: #ffffff; --panel: #f5f7fa;
  --c0: #1666b8; --c1: #c2410c; --c2: #15803d; --c3: #7e22ce; --c4: #0e7490; --warn: #b91c1c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa6b5; --rule: #323c4a; --paper: #12161c;
  --panel: #1a2029; --c0: #6cb2ff; --c1: #ff9d66; --c2: #6ee79a; --c3: #cfa3ff; --c4: #5fd4ea; --warn: #ff8a8a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 28px; margin: 8px 0; } h2 { font-size: 20px; margin: 36px 0 10px; }
h3 { font-size: 16px; margin: 18px 0 4px; }
.lead { max-width: 70ch; } p, dd, li { max-width: 90ch; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 8px 0; }
th, td { text-align: left; padding: 4px 14px 4px 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
thead th { color: var(--soft); font-weight: 600; } tbody th { font-weight: 500; min-width: 15ch; }
td.value { font-weight: 650; min-width: 17ch; } td.none, .warn { color: var(--warn); }
td.case { color: var(--soft); font-size: 12px; min-width: 36ch; }
code { font: 13px ui-monospace, monospace; white-space: nowrap; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(255px, 1fr)); gap: 12px; }
svg { background: var(--panel); border-radius: 8px; max-width: 100%; height: auto; }
svg text { fill: var(--soft); font: 11px system-ui, sans-serif; } svg .name { fill: var(--ink); font-size: 11.5px; }
.grid { stroke: var(--rule); fill: none; } .axis { stroke: var(--soft); }
.line { fill: none; stroke-width: 2; } .area { fill-opacity: 0.14; stroke-width: 2; stroke-linejoin: round; }
.bar { stroke-width: 1.5; opacity: 0.55; } .claim { stroke-width: 1.5; stroke-dasharray: 4 3; }
.c0 { stroke: var(--c0); } .c1 { stroke: var(--c1); } .c2 { stroke: var(--c2); } .c3 { stroke: var(--c3); }
.c4 { stroke: var(--c4); }
.dot { stroke: none; } .area.c0, .dot.c0 { fill: var(--c0); } .area.c1, .dot.c1 { fill: var(--c1); }
.area.c2, .dot.c2 { fill: var(--c2); } .area.c3, .dot.c3 { fill: var(--c3); } .area.c4, .dot.c4 { fill: var(--c4); }
.key { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin: 0 6px 0 14px; }
.key.c0 { background: var(--c0); } .key.c1 { background: var(--c1); } .key.c2 { background: var(--c2); }
.key.c3 { background: var(--c3); } .key.c4 { background: var(--c4); }
figure { margin: 16px 0; } figcaption { color: var(--soft); max-width: 70ch; }
summary { cursor: pointer; padding: 4px 0; }
dt { font-weight: 600; margin-top: 8px; } dd { margin: 0; }
"""
