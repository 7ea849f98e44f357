"""Words, units and looks of a data sheet's page."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .datasheet import Bound, RobotFacts

#: Duration of a push, of which its force is told [s].
PUSH = 0.1


@dataclass(frozen=True)
class UnitFormat:
    """How the values of a bound are read.

    Attributes:
        factor: from the bound's own unit.
        unit: that is shown.
        also: further units, each after its factor.
    """

    factor: float
    unit: str
    also: tuple[tuple[float, str], ...] = ()

    def __call__(self, value: float) -> float:
        """A value in `unit`."""
        return self.factor * value

    def words(self, value: float) -> str:
        """A value with its units."""
        text = f"{self.factor * value:.3g} {self.unit}".strip()
        also = ", ".join(f"{factor * value:.3g} {unit}" for factor, unit in self.also)
        return f"{text} ({also})" if also else text


def reading(bound: Bound, facts: RobotFacts) -> UnitFormat:
    """How a bound of a robot is read."""
    if bound.name.startswith("push"):
        return UnitFormat(1.0, "m/s", ((1.0 / facts.speed, "sqrt(g l)"), (facts.mass / PUSH, f"N for {PUSH:g} s")))
    if bound.name.startswith("slope"):
        return UnitFormat(180.0 / math.pi, "°")
    if bound.name in ("step", "stairs up", "stairs down", "rubble", "relief"):
        return UnitFormat(100.0 * facts.length, "cm", ((100.0, "% of the leg"),))
    if bound.name == "payload":
        return UnitFormat(facts.mass, "kg", ((100.0, "% of its mass"),))
    if bound.name == "delay":
        return UnitFormat(1e3, "ms")
    if bound.name == "strength":
        return UnitFormat(100.0, "% of the torque limits")
    return UnitFormat(1.0, bound.unit)


#: What the quantities mean, and how bounds are found.
NOTES = (
    (
        "A trial",
        "The robot starts at home, trots off, and meets one disturbance of the given size; everything else about it "
        "(moment of a push within the gait's period, direction of travel and of the slope, distance of the step) is "
        "drawn from the trial's seed. It succeeds if the robot is upright at the end and went at 70 % of the commanded "
        "speed (90 % in trials of speed).",
    ),
    (
        "Push",
        "A horizontal force on the trunk for 0.1 s, unannounced, at some moment of one period of the trot; the robot "
        "must be upright and under way 14 sqrt(l/g) later. Every direction is a bound of its own; what holds in every "
        "direction is the least of them.",
    ),
    ("Friction", "Coulomb's coefficient of the whole ground; the controller is not told."),
    (
        "Friction, unannounced",
        "The friction of the ground falls from 0.6 to this at some moment of the trot, for good or for a second; the "
        "controller is not told.",
    ),
    (
        "Slope, step, payload",
        "Slope: a plane that rises in any direction from the robot's (friction 0.6), or straight up, down or across "
        "its way (friction 0.8, with a push of 5 % of sqrt(g l) from anywhere). Step: one step up across the way, felt "
        "by the feet only. Payload: extra mass on the trunk, of which the controller knows nothing.",
    ),
    (
        "Stairs, rubble, relief",
        "Four steps of half a leg's length each; boxes of random size up to the given height on a third of the ground; "
        "smooth random waves of the given amplitude. Told: the controller is given the heights. Blind: it feels its "
        "feet by its torques. A trial ends when the robot has passed.",
    ),
    ("Delay", "Encoders and IMU are late by this; the base's state is estimated from them."),
    ("Weakest motors", "All torque limits scaled down; the controller knows nothing of it."),
    ("Speed", "Straight ahead in each gait; in every trial a push of 5 % of sqrt(g l) comes from somewhere."),
    (
        "The search",
        "Bisection over fixed levels, with common random numbers: trial number k is the same luck at every level. A "
        "level passes if so many trials in a row succeed.",
    ),
    (
        "The claim",
        "Tested afresh at an easier level than the search found, with seeds that had no part in choosing it. The test "
        "ends as soon as the lower Clopper-Pearson bound is high enough, at looks fixed beforehand whose risks add up "
        "(Bonferroni); a failed test moves to an easier level, the a-th attempt with 1 / 2^a of the risk. So the "
        "confidence holds for each bound whatever the curve looks like. It is that of one bound, not of all at once.",
    ),
    (
        "Monotone",
        "That a level holds does not say that easier ones do: some are tried, and the sheet says where they do worse.",
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
