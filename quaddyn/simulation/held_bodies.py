"""`HeldBody`: a rigid body that hands of a robot hold, in any plant.

The body has six degrees of freedom of its own.  Each hand holds it by a grip that gives way a little, as pads of
fingers do: over a step dt the impulses of all grips are to bring the hands' velocities relative to the body to
``-share e / dt``, e being how far they have moved along it, so that grips are springs and dampers taken implicitly,
stable for any masses (Catto 2011, "Soft constraints"; Todorov 2014 has the same form).  With the robot's joints free
and nothing else touching,

    (A + C) lambda = -(J v* - J_o V* + share e / dt),    A = J M^-1 J^T + J_o M_o^-1 J_o^T

with v* and V* the velocities at the end of the step without grips.  What else touches the robot in this step is not
known yet; the next one makes up for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pinocchio as pin

from ..contact import Contact
from ..contact.contact_kinematics import grasp_map, jacobian, lever
from ..dynamics import Dynamics, State
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_vector, positive, several
from ..robot.robot import Robot
from ..urdf.tree import Array, FrozenArrays, frozen

#: Share of what hands have moved along a body that is taken back in a step.
SHARE = 0.2
#: How much grips give way, as a share of how much the masses that they couple do: by some
#: 0.01 mm under 100 N on 1 kg with steps of 1 ms.
SOFTNESS = 1e-2


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HeldBody(FrozenArrays):
    """A rigid body, and the hands that hold it.

    When a plant is reset, the body is where `frame` has it, and hands hold it where they are then, whatever is between
    them; from then on a surface holds it in all six directions, and a point in three, pushing or pulling.

    Attributes:
        name: what it is called in `Plant.held_bodies`.
        frame: of the robot, in which the body is placed.
        contacts: that hold it; their frames, offsets and kinds count.
        mass: [kg].
        com: (3,) its centre of mass in the frame [m].
        inertia: (3, 3) about its centre of mass, in the frame's axes [kg m^2].

    Raises:
        ArgumentError: no contacts, numbers out of range, or an inertia that no body has.
    """

    name: str
    frame: str
    contacts: tuple[Contact, ...]
    mass: float
    inertia: Array
    com: Array = field(default_factory=lambda: np.zeros(3))

    def __post_init__(self) -> None:
        contacts = several("contacts", self.contacts, "contacts")
        for each in contacts:
            if not isinstance(each, Contact):
                raise ArgumentTypeError(f"contacts: expected contacts, got {type(each).__name__}")
        if not contacts or len({each.name for each in contacts}) < len(contacts):
            raise ArgumentError(f"contacts: expected one at least, every name once, got {[c.name for c in contacts]}")
        object.__setattr__(self, "contacts", tuple(contacts))
        object.__setattr__(self, "mass", positive("mass", self.mass))
        object.__setattr__(self, "com", frozen(check_vector("com", self.com, (3,), "in the frame")))
        given = np.array(self.inertia, dtype=np.float64)
        if given.shape != (3, 3) or not np.isfinite(given).all() or not np.allclose(given, given.T):
            raise ArgumentError(f"inertia: expected a symmetric matrix (3, 3), got {self.inertia!r}")
        moments = np.linalg.eigvalsh(given)
        if not moments[0] > 0.0 or moments[0] + moments[1] < moments[2] * (1.0 - 1e-9):
            raise ArgumentError(f"inertia: no body has the principal moments {moments}")
        object.__setattr__(self, "inertia", frozen(given))


@dataclass(frozen=True, slots=True, eq=False)
class HeldState(FrozenArrays):
    """Where a held body is, and what holds it.

    Attributes:
        position: (3,) of its centre of mass, world axes [m].
        rotation: (3, 3) its axes in the world: those of `HeldBody.frame` when it was taken.
        velocity: (6,) linear of the centre of mass, angular, world axes [m/s, rad/s].
        forces: mean of the last step by contact, (3,) or (6,) on the robot at the contact, world axes [N, N m].
    """

    position: Array
    rotation: Array
    velocity: Array
    forces: Mapping[str, Array]


class Holding:
    """The bodies that a plant's robot holds.

    Args:
        robot: the robot.
        bodies: that it holds.
        dt: time step [s].
        effort: (nu,) largest torques of the motors [N m].

    Raises:
        ArgumentError: two of one name.
        UnknownNameError: no such frame.
    """

    def __init__(self, robot: Robot, bodies: Iterable[HeldBody], dt: float, effort: Array) -> None:
        self.bodies = several("held_bodies", bodies, "held bodies")
        for body in self.bodies:
            if not isinstance(body, HeldBody):
                raise ArgumentTypeError(f"held_bodies: expected HeldBody, got {type(body).__name__}")
            for name in (body.frame, *(contact.frame for contact in body.contacts)):
                robot.frame_id(name)
        if len({body.name for body in self.bodies}) < len(self.bodies):
            raise ArgumentError(f"held_bodies: every name once, got {[body.name for body in self.bodies]}")
        self._robot, self._dt, self._effort = robot, dt, effort
        self._dynamics = Dynamics(robot, validate=False) if self.bodies else None
        self._gravity = np.array(robot.model.gravity.linear)
        self.states: dict[str, HeldState] = {}
        self._grips: dict[str, tuple[tuple[Array, Array], ...]] = {}

    def take(self, q: Array, v: Array) -> None:
        """The hands take the bodies where they are at (q, v)."""
        for body in self.bodies:
            s = self._state(q, v)
            T = s.placement(body.frame)
            arm = T.rotation @ body.com
            velocity = s.velocity(body.frame).copy()
            velocity[:3] += np.cross(velocity[3:], arm)
            position, rotation = T.translation + arm, T.rotation.copy()
            none = {c.name: frozen(np.zeros(c.rows)) for c in body.contacts}
            self.states[body.name] = HeldState(frozen(position), frozen(rotation), frozen(velocity), none)
            grips = []
            for contact in body.contacts:
                point, turn = _hand(s, contact)
                grips.append((rotation.T @ (point - position), rotation.T @ turn))
            self._grips[body.name] = tuple(grips)

    def step(
        self, q: Array, v: Array, tau: Array, wrenches: Mapping[str, Array]
    ) -> tuple[list[tuple[str, Array]], dict[str, HeldState]]:
        """What the grips do to the robot over the next step, and where the bodies are after it.

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity.
            tau: (nu,) torques that are asked for.
            wrenches: other forces and moments, by frame.

        Returns:
            (frame, (6,) force and moment at its origin) of each hand, and the states after the step.
        """
        s, dt, robot = self._state(q, v), self._dt, self._robot
        force = -s.h - robot.damping * v
        force[robot.actuated_index] += np.clip(tau, -self._effort, self._effort)
        for name, wrench in wrenches.items():
            force += s.jacobian(name).T @ wrench
        hands = [(body, k, contact) for body in self.bodies for k, contact in enumerate(body.contacts)]
        J = np.vstack([jacobian(s, contact, lever(s, contact)) for _, _, contact in hands])
        M_J = np.linalg.solve(s.M, np.column_stack((J.T, force)))
        ahead, A = J @ (v + dt * M_J[:, -1]), J @ M_J[:, :-1]
        rows, start = list[slice](), 0
        for _, _, contact in hands:
            rows.append(slice(start, start + contact.rows))
            start += contact.rows
        G: dict[str, Array] = {body.name: np.zeros((6, start)) for body in self.bodies}
        free, inverse = dict[str, Array](), dict[str, Array]()
        for body in self.bodies:
            now = self.states[body.name]
            inertia = now.rotation @ body.inertia @ now.rotation.T
            omega = now.velocity[3:]
            inverse[body.name] = np.zeros((6, 6))
            inverse[body.name][:3, :3], inverse[body.name][3:, 3:] = np.eye(3) / body.mass, np.linalg.inv(inertia)
            turning = inverse[body.name][3:, 3:] @ np.cross(omega, inertia @ omega)
            free[body.name] = now.velocity + dt * np.concatenate((self._gravity, -turning))
        for (body, k, contact), part in zip(hands, rows, strict=True):
            now, (place, turn) = self.states[body.name], self._grips[body.name][k]
            point, R = _hand(s, contact)
            G[body.name][:, part] = grasp_map(point - now.position, contact.rows)
            apart = np.concatenate((point - now.position - now.rotation @ place, pin.log3(R @ (now.rotation @ turn).T)))
            ahead[part] += SHARE / dt * apart[: contact.rows]
        for body in self.bodies:
            own = G[body.name]
            ahead -= own.T @ free[body.name]
            A += own.T @ inverse[body.name] @ own
        impulse = -np.linalg.solve(A + SOFTNESS * np.diag(A.diagonal()), ahead)
        after, out = dict[str, HeldState](), []
        for body in self.bodies:
            now = self.states[body.name]
            velocity = free[body.name] - inverse[body.name] @ (G[body.name] @ impulse)
            position = now.position + dt * velocity[:3]
            rotation = pin.exp3(dt * velocity[3:]) @ now.rotation
            forces = {
                contact.name: frozen(impulse[part] / dt)
                for (holder, _, contact), part in zip(hands, rows, strict=True)
                if holder is body
            }
            after[body.name] = HeldState(frozen(position), frozen(rotation), frozen(velocity), forces)
        for (_, _, contact), part in zip(hands, rows, strict=True):
            wrench = np.zeros(6)
            wrench[: contact.rows] = impulse[part] / dt
            wrench[3:] += np.cross(lever(s, contact), wrench[:3])
            out.append((contact.frame, wrench))
        return out, after

    @property
    def memory(self) -> tuple[tuple[Array, ...], ...]:
        """What the next step depends on, arrays of each body; may be set."""
        out = []
        for body in self.bodies:
            now, grips = self.states[body.name], self._grips[body.name]
            places, turns = (np.array([grip[i] for grip in grips]) for i in (0, 1))
            forces = np.concatenate(list(now.forces.values()))
            out.append((now.position, now.rotation, now.velocity, forces, places, turns))
        return tuple(out)

    @memory.setter
    def memory(self, kept: tuple[tuple[Array, ...], ...]) -> None:
        for body, (position, rotation, velocity, forces, places, turns) in zip(self.bodies, kept, strict=True):
            ends = np.cumsum([contact.rows for contact in body.contacts])[:-1]
            named = zip((contact.name for contact in body.contacts), np.split(forces, ends), strict=True)
            self.states[body.name] = HeldState(position, rotation, velocity, {name: frozen(f) for name, f in named})
            self._grips[body.name] = tuple(zip(places, turns, strict=True))

    def fits(self, kept: tuple[tuple[Array, ...], ...]) -> bool:
        """Whether `memory` can be set to this."""
        shapes = [[np.shape(part) for part in each] for each in (*kept, *self.memory)]
        return len(kept) == len(self.bodies) and shapes[: len(kept)] == shapes[len(kept) :]

    def _state(self, q: Array, v: Array) -> State:
        assert self._dynamics is not None
        return self._dynamics.update(q, v)


def _hand(s: State, contact: Contact) -> tuple[Array, Array]:
    """(3,) where a contact is, and (3, 3) how its frame is turned."""
    T = s.placement(contact.frame)
    return T.translation + lever(s, contact), np.array(T.rotation)
