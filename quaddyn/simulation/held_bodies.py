"""`HeldBody`: a rigid body that the hands of a robot hold, in any plant.

The body has six degrees of freedom. Each hand holds it by a compliant grip. Over a step dt the grip impulses lambda
give the hands velocities relative to the body of ``-fraction e / dt``, with the displacement e of the hands along the
body, so that grips are springs and dampers with implicit integration, stable for any masses (Catto 2011, "Soft
constraints"; Todorov 2014 has the same form). With the joints of the robot free and no other contact,

    (A + C) lambda = -(J v* - J_o V* + fraction e / dt),    A = J M^-1 J^T + J_o M_o^-1 J_o^T

with the velocities v* and V* at the end of the step without grips, and the compliance C. Other contacts of the same
step are unknown at this point; the next step compensates for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pinocchio as pin

from ..contact import Contact
from ..contact.contact_set import compute_contact_jacobian, compute_contact_lever, grasp_map
from ..dynamics import Dynamics, State
from ..errors import ArgumentError
from ..robot.arguments import check_positive, check_sequence, check_type, check_vector
from ..robot.robot import Robot
from ..urdf.tree import Array, FrozenArrays, frozen

#: Fraction of the displacement of a hand along the body that is corrected per step.
POSITION_CORRECTION_FRACTION = 0.2
#: Compliance of a grip divided by that of the masses that it couples: about 0.01 mm under 100 N on 1 kg with steps of 1
#: ms.
GRIP_COMPLIANCE_FRACTION = 1e-2


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HeldBody(FrozenArrays):
    """Rigid body and the hands that hold it.

    On a reset of the plant the body is placed in `frame`, and the hands hold it where they are then, regardless of the
    distance. From then on a surface contact constrains all six directions, and a point contact three, pushing or
    pulling.

    Attributes:
        name: key in `Plant.held_bodies`.
        frame: frame of the robot in which the body is placed on a reset.
        contacts: contacts that hold the body, defined by frame, offset and kind.
        mass: mass [kg].
        com: (3,) center of mass in `frame` [m]; default: its origin.
        inertia: (3, 3) inertia about the center of mass, in the axes of `frame` [kg m^2].

    Raises:
        ArgumentError: no contacts, values out of range, or an inertia that is not physical.
    """

    name: str
    frame: str
    contacts: tuple[Contact, ...]
    mass: float
    inertia: Array
    com: Array = field(default_factory=lambda: np.zeros(3))

    def __post_init__(self) -> None:
        contacts = check_sequence("contacts", self.contacts, "contacts")
        for contact in contacts:
            check_type("contacts", contact, Contact, "Contact objects")
        if not contacts or len({contact.name for contact in contacts}) < len(contacts):
            raise ArgumentError(
                f"contacts: expected at least one contact, every name once, got {[c.name for c in contacts]}"
            )
        object.__setattr__(self, "contacts", tuple(contacts))
        object.__setattr__(self, "mass", check_positive("mass", self.mass))
        object.__setattr__(self, "com", frozen(check_vector("com", self.com, (3,), "in the frame")))
        inertia = np.array(self.inertia, dtype=np.float64)
        if inertia.shape != (3, 3) or not np.isfinite(inertia).all() or not np.allclose(inertia, inertia.T):
            raise ArgumentError(f"inertia: expected a symmetric matrix (3, 3), got {self.inertia!r}")
        moments = np.linalg.eigvalsh(inertia)
        if not moments[0] > 0.0 or moments[0] + moments[1] < moments[2] * (1.0 - 1e-9):
            raise ArgumentError(f"inertia: expected principal moments that a rigid body can have, got {moments}")
        object.__setattr__(self, "inertia", frozen(inertia))


@dataclass(frozen=True, slots=True, eq=False)
class HeldState(FrozenArrays):
    """State of a held body, and the forces that hold it.

    Attributes:
        position: (3,) center of mass, world [m].
        rotation: (3, 3) from body axes to the world; body axes are those of `HeldBody.frame` when the body was grasped.
        velocity: (6,) linear velocity of the center of mass and angular velocity, world axes [m/s, rad/s].
        forces: mean force of the last step by contact, (3,) or (6,) on the robot at the contact, world axes [N, N m].
    """

    position: Array
    rotation: Array
    velocity: Array
    forces: Mapping[str, Array]


class HeldBodySystem:
    """Bodies that the robot of a plant holds.

    Args:
        robot: robot that holds the bodies.
        bodies: held bodies.
        dt: time step [s].
        effort: (nu,) maximum motor torques [N m or N].

    Raises:
        ArgumentError: two bodies have the same name.
        UnknownNameError: no frame of a name.
    """

    def __init__(self, robot: Robot, bodies: Iterable[HeldBody], dt: float, effort: Array) -> None:
        self.bodies = check_sequence("held_bodies", bodies, "held bodies")
        for body in self.bodies:
            check_type("held_bodies", body, HeldBody, "HeldBody objects")
            for name in (body.frame, *(contact.frame for contact in body.contacts)):
                robot.frame_id(name)
        if len({body.name for body in self.bodies}) < len(self.bodies):
            raise ArgumentError(f"held_bodies: expected every name once, got {[body.name for body in self.bodies]}")
        self._robot, self._dt, self._effort = robot, dt, effort
        self._dynamics = Dynamics(robot, validate=False) if self.bodies else None
        self._gravity = np.array(robot.model.gravity.linear)
        self.states: dict[str, HeldState] = {}
        self._grips: dict[str, tuple[tuple[Array, Array], ...]] = {}

    def grasp(self, q: Array, v: Array) -> None:
        """Places each body at its frame of the robot in state (q, v), and attaches the hands to it."""
        for body in self.bodies:
            s = self._update_state(q, v)
            T = s.placement(body.frame)
            com_offset = T.rotation @ body.com
            velocity = s.velocity(body.frame).copy()
            velocity[:3] += np.cross(velocity[3:], com_offset)
            position, rotation = T.translation + com_offset, T.rotation.copy()
            zero_forces = {c.name: frozen(np.zeros(c.rows)) for c in body.contacts}
            self.states[body.name] = HeldState(frozen(position), frozen(rotation), frozen(velocity), zero_forces)
            grips = []
            for contact in body.contacts:
                hand_position, hand_rotation = _contact_placement(s, contact)
                grips.append((rotation.T @ (hand_position - position), rotation.T @ hand_rotation))
            self._grips[body.name] = tuple(grips)

    def step(
        self, q: Array, v: Array, tau: Array, wrenches: Mapping[str, Array]
    ) -> tuple[list[tuple[str, Array]], dict[str, HeldState]]:
        """Computes the grip forces on the robot over the next step, and the states of the bodies after it.

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity.
            tau: (nu,) commanded torques [N m or N].
            wrenches: other forces and moments (6,) by frame, world axes [N, N m].

        Returns:
            Frame and (6,) force and moment at its origin for each hand, and the states of the bodies after the step.
        """
        s, dt, robot = self._update_state(q, v), self._dt, self._robot
        force = -s.h - robot.damping * v
        force[robot.actuated_index] += np.clip(tau, -self._effort, self._effort)
        for name, wrench in wrenches.items():
            force += s.jacobian(name).T @ wrench
        hands = [(body, k, contact) for body in self.bodies for k, contact in enumerate(body.contacts)]
        J = np.vstack(
            [compute_contact_jacobian(s, contact, compute_contact_lever(s, contact)) for _, _, contact in hands]
        )
        M_J = np.linalg.solve(s.M, np.column_stack((J.T, force)))
        relative_velocity, A = J @ (v + dt * M_J[:, -1]), J @ M_J[:, :-1]
        rows, n_rows = list[slice](), 0
        for _, _, contact in hands:
            rows.append(slice(n_rows, n_rows + contact.rows))
            n_rows += contact.rows
        G: dict[str, Array] = {body.name: np.zeros((6, n_rows)) for body in self.bodies}
        free, inverse = dict[str, Array](), dict[str, Array]()
        for body in self.bodies:
            state = self.states[body.name]
            inertia = state.rotation @ body.inertia @ state.rotation.T
            omega = state.velocity[3:]
            inverse[body.name] = np.zeros((6, 6))
            inverse[body.name][:3, :3], inverse[body.name][3:, 3:] = np.eye(3) / body.mass, np.linalg.inv(inertia)
            gyroscopic = inverse[body.name][3:, 3:] @ np.cross(omega, inertia @ omega)
            free[body.name] = state.velocity + dt * np.concatenate((self._gravity, -gyroscopic))
        for (body, k, contact), contact_rows in zip(hands, rows, strict=True):
            state, (grip_position, grip_rotation) = self.states[body.name], self._grips[body.name][k]
            hand_position, hand_rotation = _contact_placement(s, contact)
            G[body.name][:, contact_rows] = grasp_map(hand_position - state.position, contact.rows)
            displacement = np.concatenate(
                (
                    hand_position - state.position - state.rotation @ grip_position,
                    pin.log3(hand_rotation @ (state.rotation @ grip_rotation).T),
                )
            )
            relative_velocity[contact_rows] += POSITION_CORRECTION_FRACTION / dt * displacement[: contact.rows]
        for body in self.bodies:
            grasp = G[body.name]
            relative_velocity -= grasp.T @ free[body.name]
            A += grasp.T @ inverse[body.name] @ grasp
        impulse = -np.linalg.solve(A + GRIP_COMPLIANCE_FRACTION * np.diag(A.diagonal()), relative_velocity)
        next_states, wrenches_by_frame = dict[str, HeldState](), []
        for body in self.bodies:
            state = self.states[body.name]
            velocity = free[body.name] - inverse[body.name] @ (G[body.name] @ impulse)
            position = state.position + dt * velocity[:3]
            rotation = pin.exp3(dt * velocity[3:]) @ state.rotation
            forces = {
                contact.name: frozen(impulse[contact_rows] / dt)
                for (holder, _, contact), contact_rows in zip(hands, rows, strict=True)
                if holder is body
            }
            next_states[body.name] = HeldState(frozen(position), frozen(rotation), frozen(velocity), forces)
        for (_, _, contact), contact_rows in zip(hands, rows, strict=True):
            wrench = np.zeros(6)
            wrench[: contact.rows] = impulse[contact_rows] / dt
            wrench[3:] += np.cross(compute_contact_lever(s, contact), wrench[:3])
            wrenches_by_frame.append((contact.frame, wrench))
        return wrenches_by_frame, next_states

    @property
    def persistent_arrays(self) -> tuple[tuple[Array, ...], ...]:
        """Arrays of each body that the next step depends on; may be set."""
        arrays = []
        for body in self.bodies:
            state, grips = self.states[body.name], self._grips[body.name]
            grip_positions, grip_rotations = (np.array([grip[i] for grip in grips]) for i in (0, 1))
            forces = np.concatenate(list(state.forces.values()))
            arrays.append((state.position, state.rotation, state.velocity, forces, grip_positions, grip_rotations))
        return tuple(arrays)

    @persistent_arrays.setter
    def persistent_arrays(self, arrays: tuple[tuple[Array, ...], ...]) -> None:
        for body, (position, rotation, velocity, forces, grip_positions, grip_rotations) in zip(
            self.bodies, arrays, strict=True
        ):
            ends = np.cumsum([contact.rows for contact in body.contacts])[:-1]
            named = zip((contact.name for contact in body.contacts), np.split(forces, ends), strict=True)
            self.states[body.name] = HeldState(position, rotation, velocity, {name: frozen(f) for name, f in named})
            self._grips[body.name] = tuple(zip(grip_positions, grip_rotations, strict=True))

    def accepts(self, arrays: tuple[tuple[Array, ...], ...]) -> bool:
        """Returns whether `persistent_arrays` can be set to `arrays`: those of the same number of bodies and hands."""
        shapes = [[np.shape(array) for array in body_arrays] for body_arrays in (*arrays, *self.persistent_arrays)]
        return len(arrays) == len(self.bodies) and shapes[: len(arrays)] == shapes[len(arrays) :]

    def _update_state(self, q: Array, v: Array) -> State:
        assert self._dynamics is not None
        return self._dynamics.update(q, v)


def _contact_placement(s: State, contact: Contact) -> tuple[Array, Array]:
    """Returns the world position (3,) [m] and rotation (3, 3) of a contact."""
    T = s.placement(contact.frame)
    return T.translation + compute_contact_lever(s, contact), np.array(T.rotation)
