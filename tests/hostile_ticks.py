"""Extreme ticks: robots with arms, contacts of all kinds, distant states, zero friction, zero torque limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pinocchio as pin
from wbc_elements import KINDS, everything

import quaddyn as qd
from quaddyn.contact import Contact
from quaddyn.wbc import Command, TorqueLimits, TorqueRate

#: Robots with arms, and the contact frames of their hands.
HANDS = {
    "anymal_b_kinova": "j2s6s200_end_effector",
    "b1_z1": "gripperMover",
    "centauro": "arm1_6",
}


def hostile(name: str, controllers: int, seed: int, *, ticks: int = 5) -> Iterator[Command]:
    """Commands of a number of controllers, with `ticks` ticks each."""
    for k in range(controllers):
        yield from of_controller(name, k, seed, ticks=ticks)


def of_controller(name: str, k: int, seed: int, *, ticks: int = 5) -> Iterator[Command]:
    """Commands of controller k of a seed."""
    robot, hand = qd.load(name), HANDS[name]
    dyn, feet = qd.Dynamics(robot), robot.feet
    rng = np.random.default_rng([seed, k])

    def contact(frame: str, kind: str, **more: Any) -> Contact:
        normal = 0.3 * rng.normal(size=3) + np.array([0.0, 0.0, 1.0])
        return Contact(name=frame, frame=frame, kind=kind, normal=normal, offset=0.03 * rng.normal(size=3), **more)

    contacts = [contact(hand, "surface", half_size=(0.05, 0.03), **KINDS[rng.integers(4)])]
    if rng.random() < 0.5:
        contacts.append(contact(feet[3], "point", radius=0.02, **KINDS[rng.integers(4)]))
    if rng.random() < 0.5:
        contacts.append(contact(feet[2], "point", radius=0.02, stiffness=2e4, damping=50.0))
    level_0, levels = everything(robot, hand)
    if rng.random() < 0.5:
        level_0 = [e for e in level_0 if not isinstance(e, TorqueRate)]
    weak = (0.0, 0.2, 1.0, 1.0, 1.0)[rng.integers(5)]
    for e in level_0:
        if isinstance(e, TorqueLimits):
            e.limits *= weak
    wbc = qd.WholeBodyController(
        robot,
        tasks=levels,
        constraints=level_0,
        contacts=contacts,
        friction=float(rng.choice([0.0, 0.05, 0.3, 0.7])),
        ramp_time=float(rng.choice([0.0, 0.004])),
    )
    if rng.random() < 0.5:
        wbc.contacts[hand].set_normal_force_bounds(2.0, 80.0)
    spread, speed = rng.choice([0.02, 0.1, 0.4, 1.0]), rng.choice([0.0, 0.3, 3.0])
    for i in range(ticks):
        q = pin.integrate(robot.model, robot.q_home, spread * rng.normal(size=robot.nv))
        s = dyn.update(q, speed * rng.normal(size=robot.nv))
        for c in wbc.contacts.values():
            c.surface_height = float(s.placement(c.frame).translation[2]) + 0.01 * rng.normal()
        if i % 2:
            wbc.tasks["forces"].reference({hand: np.arange(6.0)})
        yield wbc.compute(s, [c for c in (*feet, hand) if rng.random() < 0.6])
