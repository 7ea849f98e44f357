"""Velocity of a robot with contacts at the end of a step; compiled, between rigid-body `terms` and the `integrator`.

`Simulation` describes the method; this module implements it: contact points and frames, their Jacobians, the Delassus
matrix, the contact solver, the new velocity, and the work. Arguments are not validated.

The inertia is factored as ``M + dt D = L^T L`` from the leaves to the root, which keeps the zeros between limbs
(`factorize`). With the rows Y of ``J L^-1`` the Delassus matrix is ``Y Y^T``, and contact impulses lambda change
the joint velocities by ``L^-1 Y^T lambda``.

Rows 3i and 3i + 1 of contact i are tangential, row 3i + 2 is normal. A joint at its stop (`compute_stop_rows`) is a
contact whose normal is the motion of the joint and whose tangents have no effect.
"""

from __future__ import annotations

import math

from ..compiler import Matrix, Vec3, Vector, compiled, cross, local, mat3, matrix, vec3
from ..compiler.small_arrays import transposed
from ..contact.solvers.frictional_core import (
    MAX_MULTIPLICATIONS,
    compute_velocities,
    get_max_rounds,
    solve_contact_problem,
)
from ..dynamics.inertia_factor import factorize, solve_all_transposed, solve_lower, solve_transposed
from ..dynamics.joint_placements import transform_point
from .actuators import close_backlash
from .plant_data import ContactLaw, SphereContacts, StepDynamics, StepModel, StepState, find_joint_stops
from .terms import StepTerms
from .terrain import collide_range, may_be_in_reach

#: Maximum number of repeated computations of joint friction, and the ratio to Coulomb friction above which it repeats.
MAX_FRICTION_ITERATIONS, FRICTION_EXCESS_RATIO = 10, 1.05
#: Penetration that arises within a step and is not corrected, divided by the slop.
NEW_PENETRATION_FRACTION = 1e-3
#: Residual of the contact law up to which a solution is accepted [m/s].
TOLERANCE = 1e-8


@compiled()
def compute_free_velocity(
    model: StepModel, dt: float, terms: StepTerms, state: StepState, corrections: int, motion: StepDynamics
) -> bool:
    """Computes the velocity at the end of a step without contacts, the joint friction, and the factor of the inertia.

    ``(M + dt f)(v_free - v) = dt (S^T tau + external - h - f v)``, with M of the robot and of rotors that are coupled
    to their joints. f is the Coulomb friction divided by an extrapolated velocity, plus damping. If that velocity was
    too low, so that the friction exceeds Coulomb's, the equation is solved again with the resulting velocity, at most
    `corrections` times; 0 where contacts will change the velocity.

    Returns:
        False if M is not positive definite.
    """
    M, h, v, L, f, free = terms.M, terms.h, state.v, motion.L, motion.f, motion.free_velocity
    drives, actuated, parent = state.drives, model.actuated, model.bodies.dof_parent
    damping, friction, rotors = drives.damping, drives.friction, drives.coupled_inertia
    stiction, nv = model.law.stiction_speed, len(v)
    close_backlash(drives, state.tau, v, state.v_previous, dt)
    for i in range(nv):
        f[i] = damping[i] + friction[i] / max(abs(2.0 * v[i] - state.v_previous[i]), stiction)
    for iteration in range(corrections + 1):
        for i in range(nv):
            free[i] = state.external[i] - h[i] - f[i] * v[i]
            for j in range(i):
                L[i, j] = M[j, i]
            L[i, i] = M[i, i] + rotors[i] + dt * f[i]
        for j in range(len(actuated)):
            free[actuated[j]] += drives.torque[j]
        if not factorize(L, parent):
            return False
        for i in range(nv):
            free[i] *= dt
        solve_all_transposed(L, parent, free)
        solve_lower(L, parent, free)
        friction_exceeded = False
        for i in range(nv):
            free[i] += v[i]
            if friction[i] > 0.0 and iteration < corrections:
                speed = max(abs(free[i]), stiction)
                if (f[i] - damping[i]) * speed > FRICTION_EXCESS_RATIO * friction[i]:
                    friction_exceeded = True
                    f[i] = damping[i] + friction[i] / speed
        if not friction_exceeded:
            break
    return True


@compiled()
def compute_contact_frame(n: Vec3, frame: Matrix) -> None:
    """Computes the rows t1, t2, n of a right-handed contact frame; on level ground the world axes."""
    tangent = vec3(0.0, 0.0, 0.0)
    if abs(n[0]) < 0.9:
        length = math.sqrt(n[1] * n[1] + n[2] * n[2])
        tangent = vec3(length, -n[0] * n[1] / length, -n[0] * n[2] / length)  # x less its part along n
    else:
        length = math.sqrt(n[0] * n[0] + n[2] * n[2])
        tangent = vec3(-n[0] * n[1] / length, length, -n[1] * n[2] / length)
    frame[0] = tangent
    frame[1] = cross(n, tangent)
    frame[2] = n


@compiled()
def find_contacts(model: StepModel, poses: Matrix, law: ContactLaw, state: StepState, contacts: SphereContacts) -> int:
    """Finds contacts of spheres with the ground and of joints with their stops.

    Returns:
        The number of contacts, negative if the buffers are too small.
    """
    sphere_centers, cluster_spheres, centers = model.sphere_centers, model.cluster_spheres, contacts.centers
    first_sphere, k, cluster_center, reach = 0, 0, local(3), law.contact_distance
    for c in range(len(cluster_spheres)):
        end_sphere, pose = model.clusters[c], poses[model.joints[first_sphere]]
        transform_point(pose, cluster_spheres[c], cluster_center)
        if end_sphere - first_sphere == 1 or may_be_in_reach(
            vec3(cluster_center), cluster_spheres[c, 3], model.terrain, reach
        ):
            for i in range(first_sphere, end_sphere):
                transform_point(pose, sphere_centers[i], centers[i])
            k = collide_range(
                first_sphere, end_sphere, centers, model.radii, model.terrain, reach, contacts.collisions, k
            )
        first_sphere = end_sphere
    k = find_joint_stops(model.stops, state.q, state.v, reach, law.dt, contacts.collisions, k)
    return k if k <= len(contacts.keys) else -k


@compiled()
def last_moving_dof(model: StepModel, s: int) -> int:
    """Returns the last degree of freedom on the path from the root to a sphere, or of the joint of a stop (s < 0)."""
    last: int = model.last_dofs[s] if s >= 0 else model.stops.v[-1 - s]
    return last


@compiled()
def compute_stop_rows(i: int, model: StepModel, v: Vector, motion: StepDynamics, contacts: SphereContacts) -> None:
    """Computes the rows of a contact that is a joint stop; its tangents have no effect."""
    T, Y, r, j = contacts.T, contacts.Y, 3 * i, -1 - contacts.collisions.spheres[i]
    dof, side = model.stops.v[j], model.stops.sides[j]
    compute_contact_frame(vec3(0.0, 0.0, 1.0), T[r : r + 3])
    for a in range(r, r + 3):
        contacts.g[a], contacts.velocities_before[a], contacts.impulses[a] = 0.0, 0.0, 0.0
        for c in range(len(v)):
            Y[a, c] = 0.0
    contacts.g[r + 2] = side * motion.free_velocity[dof]
    contacts.velocities_before[r + 2] = side * v[dof]
    Y[r + 2, dof] = side
    solve_transposed(motion.L, model.bodies.dof_parent, Y[r + 2], dof)


@compiled()
def compute_contact_rows(
    i: int, model: StepModel, terms: StepTerms, v: Vector, motion: StepDynamics, contacts: SphereContacts
) -> None:
    """Computes frame, Jacobian rows Y, and velocities before the step and without contacts of contact i."""
    parent, collisions, T, Y = model.bodies.dof_parent, contacts.collisions, contacts.T, contacts.Y
    J, o, row_dof, parent_row = terms.joints.J, terms.joints.origin, model.bodies.row_dof, model.bodies.parent_row
    g, velocity_before, free, nv, r = contacts.g, contacts.velocities_before, motion.free_velocity, len(v), 3 * i
    sphere = collisions.spheres[i]
    n, c, radius, last = collisions.normals[i], contacts.centers[sphere], model.radii[sphere], model.last_rows[sphere]
    compute_contact_frame(vec3(n), T[r : r + 3])
    px, py, pz = c[0] - radius * n[0] - o[0], c[1] - radius * n[1] - o[1], c[2] - radius * n[2] - o[2]
    for a in range(r, r + 3):
        g[a], velocity_before[a], contacts.impulses[a] = 0.0, 0.0, 0.0
        for d in range(nv):
            Y[a, d] = 0.0
    d = last
    while d >= 0:  # the material point at o + p moves with v_o + omega x p
        x = J[d, 0] + J[d, 4] * pz - J[d, 5] * py
        y = J[d, 1] + J[d, 5] * px - J[d, 3] * pz
        z = J[d, 2] + J[d, 3] * py - J[d, 4] * px
        for a in range(r, r + 3):
            column_entry = T[a, 0] * x + T[a, 1] * y + T[a, 2] * z
            Y[a, row_dof[d]] += column_entry
            g[a] += column_entry * free[row_dof[d]]
            velocity_before[a] += column_entry * v[row_dof[d]]
        d = parent_row[d]
    for a in range(r, r + 3):
        solve_transposed(motion.L, parent, Y[a], model.last_dofs[sphere])


@compiled()
def set_contact_targets(i: int, k: int, law: ContactLaw, contacts: SphereContacts) -> None:
    """Sets the permitted speeds, the compliance in G and the initial impulses of contact i of k.

    The initial impulses are those of the same contact in the last step. In a substep, whose gaps are those at its
    middle, a contact that closed on the way there has penetrated; this is removed from the positions alone.
    """
    collisions, T = contacts.collisions, contacts.T
    gap, dt, closing_time, r = collisions.gaps[i], law.dt, law.closing_time, 3 * i
    sphere, compliant = collisions.spheres[i], law.stiffness < math.inf and collisions.spheres[i] >= 0
    contacts.depart_speed[i] = 0.0
    if gap > 0.0:
        contacts.offset[i] = gap / closing_time
    elif compliant:
        contacts.offset[i] = law.stiffness * gap / (closing_time * law.stiffness + law.damping)
    else:
        contacts.offset[i] = 0.0
        initial_gap = min(gap - (dt - closing_time) * contacts.velocities_before[r + 2], 0.0)
        if initial_gap - gap > NEW_PENETRATION_FRACTION * law.slop:
            contacts.depart_speed[i] = (initial_gap - gap) / dt
        if initial_gap < -law.slop:
            contacts.depart_speed[i] += min(-law.recovery_fraction * (initial_gap + law.slop) / dt, law.recovery_speed)
    if compliant:
        contacts.G[(r + 2) * (3 * k + 1)] += 1.0 / (dt * (closing_time * law.stiffness + law.damping))
        contacts.G[r * (3 * k + 1)] += law.creep / dt
        contacts.G[(r + 1) * (3 * k + 1)] += law.creep / dt
    if sphere < 0:  # gives the tangents of a stop, which have no effect, an impulse of zero
        normal = contacts.G[(r + 2) * (3 * k + 1)]
        contacts.G[r * (3 * k + 1)], contacts.G[(r + 1) * (3 * k + 1)] = normal, normal
    key = collisions.surfaces[i] * len(contacts.centers) + sphere
    for p in range(contacts.stored.n_contacts):
        if contacts.keys[p] == key:
            contacts.impulses[r : r + 3] = mat3(T[r : r + 3]) @ vec3(contacts.world_impulses[p])


@compiled()
def set_up_contacts(
    model: StepModel,
    law: ContactLaw,
    terms: StepTerms,
    state: StepState,
    motion: StepDynamics,
    contacts: SphereContacts,
) -> int:
    """Finds the contacts and sets up the contact problem.

    Returns:
        The number of contacts, negative if the buffers are too small.
    """
    k: int = find_contacts(model, terms.joints.poses, law, state, contacts)
    if k <= 0:
        return k
    parent, Y = model.bodies.dof_parent, contacts.Y
    G = matrix(contacts.G, 0, 3 * k, 3 * k)
    for i in range(k):
        if contacts.collisions.spheres[i] >= 0:
            compute_contact_rows(i, model, terms, state.v, motion, contacts)
        else:
            compute_stop_rows(i, model, state.v, motion, contacts)
        last: int = last_moving_dof(model, contacts.collisions.spheres[i])
        for a in range(3 * i, 3 * i + 3):
            for b in range(a + 1):
                total = 0.0
                d = last
                while d >= 0:
                    total += Y[a, d] * Y[b, d]
                    d = parent[d]
                G[a, b] = total
                G[b, a] = total
        set_contact_targets(i, k, law, contacts)
    return k


@compiled()
def solve_passive(k: int, tolerance: float, allowed_work: float, contacts: SphereContacts) -> tuple[float, bool]:
    """Solves for impulses of k contacts, each of which does at most `allowed_work` [J] of positive work.

    As `FrictionalSolver`, in compiled code: contacts that would release energy are solved again for the mean of the
    velocities before and after the step. Contacts that must separate (offset < 0) may release energy, since compliant
    contacts return the energy that they stored. The solver iterates to a residual of `tolerance` [m/s].

    Returns:
        The residual [m/s], and whether a contact was solved as rebounding.
    """
    n = 3 * k
    G, g, mu = matrix(contacts.G, 0, n, n), contacts.g[:n], contacts.collisions.friction[:k]
    impulses = contacts.impulses[:n]
    target = contacts.target_velocities[:n]
    velocity_before = contacts.velocities_before
    velocity_after, rebound, offset = contacts.velocities_after[:n], contacts.must_rebound, contacts.offset
    max_iterations: int = get_max_rounds(k)
    target[:n] = g[:n]
    for i in range(k):
        rebound[i] = 0
        target[3 * i + 2] += offset[i]
    residual: float = solve_contact_problem(G, target, mu, impulses, tolerance, max_iterations, contacts.solver)
    if allowed_work == math.inf:
        return residual, False
    for iteration in range(k):
        creates_energy = False
        compute_velocities(G, g, impulses, velocity_after)
        for i in range(k):
            contact_work = 0.0
            for a in range(3 * i, 3 * i + 3):
                contact_work += 0.5 * impulses[a] * (velocity_before[a] + velocity_after[a])
            if contact_work > allowed_work and not (offset[i] < 0.0 or rebound[i]):
                creates_energy = True
                rebound[i] = 1
                target[3 * i] = g[3 * i] + velocity_before[3 * i]
                target[3 * i + 1] = g[3 * i + 1] + velocity_before[3 * i + 1]
                target[3 * i + 2] = g[3 * i + 2] + max(velocity_before[3 * i + 2], offset[i])
        if not creates_energy:
            return residual, iteration > 0
        if contacts.solver.effort.multiplications > MAX_MULTIPLICATIONS:
            return math.inf, True
        residual = solve_contact_problem(G, target, mu, impulses, tolerance, max_iterations, contacts.solver)
    return residual, True


@compiled(inline=False)
def compute_position_correction(
    k: int, model: StepModel, tolerance: float, motion: StepDynamics, contacts: SphereContacts
) -> bool:
    """Computes the velocity that moves k contacts out of penetration, for the positions alone.

    It is the velocity of the robot at rest if the deep contacts had to separate: loaded feet stick, and other contacts
    are not pushed into the ground. Since v does not include it, it does no work.

    Returns:
        Whether there is a correction.
    """
    correction, Y, n = motion.correction, contacts.Y, 3 * k
    is_penetrating = False
    correction[:] = 0.0
    for i in range(k):
        is_penetrating = is_penetrating or contacts.depart_speed[i] > 0.0
    if not is_penetrating:
        return False
    G = matrix(contacts.G, 0, n, n)
    g = contacts.target_velocities[:n]
    correction_impulses = contacts.velocities_after[:n]
    for r in range(n):
        g[r], correction_impulses[r] = 0.0, 0.0
    for i in range(k):
        g[3 * i + 2] = contacts.offset[i] - contacts.depart_speed[i]
    residual: float = solve_contact_problem(
        G, g, contacts.collisions.friction[:k], correction_impulses, tolerance, 1, contacts.solver
    )
    if not residual < math.inf:  # also true of NaN
        return False
    for r in range(n):
        if correction_impulses[r] != 0.0:
            for j in range(len(correction)):
                correction[j] += correction_impulses[r] * Y[r, j]
    solve_lower(motion.L, model.bodies.dof_parent, correction)
    return True


@compiled()
def apply_impulses(k: int, motion: StepDynamics, contacts: SphereContacts, model: StepModel, after: Vector) -> None:
    """Adds the effect of the impulses of k contacts to the velocity `after` (nv,), and their work.

    The impulses are stored, since those of the next step are initialized with them.
    """
    T, Y, impulses, collisions = contacts.T, contacts.Y, contacts.impulses, contacts.collisions
    nv = len(after)
    for r in range(3 * k):
        if impulses[r] != 0.0:
            for j in range(nv):
                after[j] += impulses[r] * Y[r, j]
    for r in range(3 * k):  # of the points on the robot, without the motion of the ground
        velocity_after = contacts.g[r]
        for j in range(nv):
            velocity_after += Y[r, j] * after[j]
        motion.work[2 if collisions.spheres[r // 3] >= 0 else 1] += (
            0.5 * impulses[r] * (contacts.velocities_before[r] + velocity_after)
        )
    solve_lower(motion.L, model.bodies.dof_parent, after)
    for i in range(k):
        contacts.keys[i] = collisions.surfaces[i] * len(contacts.centers) + collisions.spheres[i]
        r = 3 * i
        contacts.world_impulses[i] = transposed(mat3(T[r : r + 3])) @ vec3(impulses[r : r + 3])


@compiled(inline=False)
def complete_step(
    k: int, model: StepModel, dt: float, state: StepState, motion: StepDynamics, contacts: SphereContacts, after: Vector
) -> float:
    """Computes the velocity `after` (nv,) from the impulses of k contacts, and the work of the step.

    Returns:
        The largest speed, NaN if an entry is NaN.
    """
    v, work, actuated, drives = state.v, motion.work, model.actuated, state.drives
    work[:3] = 0.0
    after[: len(v)] = 0.0
    if k > 0:
        apply_impulses(k, motion, contacts, model, after)
    contacts.stored.n_contacts = k
    largest = 0.0
    for j in range(len(v)):
        after[j] += motion.free_velocity[j]
        work[1] -= 0.5 * dt * motion.f[j] * after[j] * (v[j] + after[j])
        if not abs(after[j]) <= largest and largest == largest:  # NaN stays
            largest = abs(after[j])
    for j in range(len(actuated)):
        work[0] += 0.5 * dt * drives.torque[j] * (v[actuated[j]] + after[actuated[j]])
    for k_motor in range(len(drives.backlash_motors)):  # coupled rotors, which are not part of the robot's energy
        i = actuated[drives.backlash_motors[k_motor]]
        work[0] -= 0.5 * drives.coupled_inertia[i] * (after[i] * after[i] - v[i] * v[i])
    return largest


@compiled(inline=False)
def solve_contact_step(
    model: StepModel,
    law: ContactLaw,
    terms: StepTerms,
    state: StepState,
    motion: StepDynamics,
    contacts: SphereContacts,
    after: Vector,
) -> int:
    """Computes `motion`, `contacts` and the velocity `after` (nv,) at the end of a step or substep.

    If the residual exceeds the tolerance, the step is not completed.

    Returns:
        The number of contacts, negative if the buffers are too small.
    """
    report = motion.report
    report.max_speed, report.residual, report.has_rebound = math.nan, math.nan, False
    if not compute_free_velocity(model, law.dt, terms, state, 0, motion):
        return 0
    report.max_speed, report.residual = 0.0, 0.0
    k: int = set_up_contacts(model, law, terms, state, motion, contacts)
    if k < 0:
        return k
    if k == 0:
        compute_free_velocity(model, law.dt, terms, state, MAX_FRICTION_ITERATIONS, motion)
    else:
        if law.tolerance < 0.0:
            report.residual = math.inf
            return k
        residual, rebound = solve_passive(k, 1e-2 * law.tolerance, law.allowed_work, contacts)
        report.residual, report.has_rebound = residual, rebound
        if not residual <= law.tolerance:
            return k
    compute_position_correction(k, model, law.tolerance, motion, contacts)
    report.max_speed = complete_step(k, model, law.dt, state, motion, contacts, after)
    return k
