"""The textbook algorithms of the dynamics of open chains and trees, in plain NumPy.

**Inverse dynamics** by the recursive Newton-Euler algorithm: motions outward, forces inward.  Sources: source A, items
1, 2 and 6 (open-chain lecture, chapter 9); Lynch and Park 2017, section 8.3; Featherstone, *Rigid Body Dynamics
Algorithms* (RBDA), 2008, section 5.3.

**Joint-space inertia** M by composite bodies, and by definition.

**Forward dynamics** by the articulated-body algorithm, and by solving with M.

**Coriolis matrices**, two: many matrices C have the same product ``C v``; each function states which one it returns.

`coriolis_closed_form` is that of source A.  `coriolis_by_bodies` is consistent with Christoffel's symbols, from body
Jacobians, on every robot; Pinocchio returns the same.  With both ``Mdot = C + C^T``: ``Mdot - 2 C`` is skew-symmetric.

**Quantities of the whole robot**: center of mass, momentum, energy.  Links fixed to the world are not included.

**Joint torque regressor** by unit parameters (source C, 2): column i is the inverse dynamics of delta_i = 1.
Per body ``delta = [Lxx Lxy Lxz Lyy Lyz Lzz lx ly lz m fv fc Ia]``, inertia and first moments about the body's frame.
Friction and rotor inertia of joints that mimic others are included in those of their leaders.

**Frames on bodies**: placement, Jacobian, velocity and drift, in Pinocchio's three reference frames.  Results are
linear before angular, unlike inside this subpackage.  A frame's twist ``V_f = Ad(T_bf^-1) V_b`` in its own axes is
"local"; along world axes it is "local_world_aligned"; ``Ad(T_wf) V_f`` is "world", the spatial twist about the world's
origin (Lynch and Park 2017, sections 3.3.2 and 5.1).

**Recursive forward dynamics on a Lie group** (source D), derived here and stated for any tree.

*Motion.*  Body i hangs below its parent p by ``g_pi = g_pi(0) exp(xi_i q_i)`` with the twist xi_i in the body's own
frame; the same motion is ``exp(Ad(g_pi(0)) xi_i q_i) g_pi(0)``, with the twist in the parent's.  Since
``V_i = (g_i^-1 dg_i/dt)`` for ``g_i = g_p g_pi``,

    V_i = Ad(g_pi^-1) V_p + xi_i dq_i.                                                               (1)

Differentiating, with ``d/dt Ad(g_pi^-1) = -ad(xi_i dq_i) Ad(g_pi^-1)`` and ``ad(x) x = 0``,

    dV_i = Ad(g_pi^-1) dV_p + xi_i ddq_i + eta_i,     eta_i = ad(V_i - xi_i dq_i) xi_i dq_i.          (2)

*Force.*  Let F_i be the wrench through joint i.  Newton and Euler say ``M_i dV_i - ad(V_i)^T M_i V_i = F_i + F_ext,i
- sum_c Ad(g_ic^-1)^T F_c`` over the children c, and the joint adds ``tau_i = xi_i^T F_i + Ia_i ddq_i`` of its rotor.

*Claim*: ``F_i = Mh_i dV_i + B_i``, where Mh and B do not depend on any acceleration.  It holds at the tips.  If it
holds for a child c, put (2) into it and ask for its ddq_c by ``tau_c = xi_c^T F_c + Ia_c ddq_c``:

    ddq_c = Psi_c (tau_c - xi_c^T Mh_c (Ad dV_i + eta_c) - xi_c^T B_c),   Psi_c = (xi_c^T Mh_c xi_c + Ia_c)^-1.  (3)

Back into ``F_c = Mh_c (Ad dV_i + eta_c + xi_c ddq_c) + B_c`` this gives ``F_c = Pi_c Ad dV_i + beta_c`` with

    Pi_c   = Mh_c - Mh_c xi_c Psi_c xi_c^T Mh_c,                                                      (4)
    beta_c = B_c + Mh_c (eta_c + xi_c Psi_c (tau_c - xi_c^T (Mh_c eta_c + B_c))),                     (5)

hence the claim for the parent, with

    Mh_i = M_i + sum_c Ad(g_ic^-1)^T Pi_c Ad(g_ic^-1),                                                (6)
    B_i  = -ad(V_i)^T M_i V_i - F_ext,i + sum_c Ad(g_ic^-1)^T beta_c.                                 (7)

This is what source D computes on a chain.  F_ext acts on the body.  Gravity is the world's acceleration
``dV_0 = (0, -gravity)``.  For joints of several degrees of freedom xi is (6, n) and g_pi the joint's own motion.

**Exact derivatives** by the complex step.  For f analytic, ``f(x + i h) = f(x) + i h f'(x) + O(h^2)``: the imaginary
part divided by h is the derivative without any subtraction, so that h may be tiny and the result is exact to rounding
(Squire and Trapp 1998; Martins, Sturdza and Alonso 2003).  Every function of this subpackage accepts complex numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .algebra import Ad, Array, ad, exp, inverse, mass_properties, rigid_motion, skew, swap
from .kinematics import (
    BodyPlacements,
    accelerations,
    body_jacobian_rates,
    body_jacobians,
    integrate,
    joint_motion,
    place_bodies,
    twists,
)
from .model import Body, Model

Wrenches = Sequence[Array]


def rnea(at: BodyPlacements, v: Array, a: Array, *, wrenches: Wrenches | None = None) -> Array:
    """Returns ``tau = M a + C v + g - sum_i J_i^T F_i`` (nv,).

    Outward ``V_i``, ``A_i``, then ``F_i = I_i A_i + V_i x* I_i V_i - F_ext,i`` with ``V x* = -ad(V)^T``; inward
    ``tau_i = S_i^T F_i`` and ``F_p += X_{i<-p}^T F_i``.  Rotors add ``Ia ddq``.  Gravity is an upward acceleration of
    the world, ``A_0 = -A_G``.

    Args:
        at: the model at q.
        v: (nv,) joint velocities.
        a: (nv,) joint accelerations.
        wrenches: for each body, (6,) wrench on the robot in the body's frame (``F_ext`` in source A's recursion); None
            without external forces.
    """
    model = at.model
    V = twists(at, v)
    A = accelerations(at, V, v, a, -np.concatenate([np.zeros(3), model.gravity]))
    F = []
    for i, body in enumerate(model.bodies):
        F_i = body.G @ A[i] - ad(V[i]).T @ (body.G @ V[i])
        if wrenches is not None:
            F_i = F_i - wrenches[i]
        F.append(F_i)
    tau = np.zeros(model.nv, dtype=np.result_type(at.dtype, v, a))
    for i, body in reversed(list(enumerate(model.bodies))):
        tau[body.v] += body.S.T @ F[i]
        if body.parent >= 0:
            F[body.parent] = F[body.parent] + at.X[i].T @ F[i]
    return np.asarray(tau + model.armature * a)


def nle(at: BodyPlacements, v: Array, *, wrenches: Wrenches | None = None) -> Array:
    """Returns the nonlinear effects ``h = RNEA(q, v, 0, F_ext)`` (nv,) (source A, 6)."""
    return rnea(at, v, np.zeros(at.model.nv), wrenches=wrenches)


def mass_by_jacobians(at: BodyPlacements) -> Array:
    """Returns ``M = sum_i J_i^T I_i J_i`` (nv, nv), with rotor inertia on the diagonal (source A, 4)."""
    bodies = zip(body_jacobians(at), at.model.bodies, strict=True)
    M = sum((J.T @ body.G @ J for J, body in bodies), np.zeros((at.model.nv, at.model.nv)))
    return np.asarray(M + np.diag(at.model.armature))


def crba(at: BodyPlacements) -> Array:
    """Returns M (nv, nv) by composite rigid bodies (source A, 7; Featherstone, RBDA 2008, table 6.2).

    Inward, each body's composite inertia ``I^c_p += X_{i<-p}^T I^c_i X_{i<-p}``.  The force that moves a subtree along
    S_i, ``F = I^c_i S_i``, gives ``M_ii = S_i^T F`` and, transmitted to every ancestor joint j, ``M_ji = S_j^T F``.
    """
    bodies = at.model.bodies
    composite: list[Array] = [body.G for body in bodies]
    M = np.zeros((at.model.nv, at.model.nv), dtype=at.dtype)
    for i, body in reversed(list(enumerate(bodies))):
        F = composite[i] @ body.S
        if body.parent >= 0:
            composite[body.parent] = composite[body.parent] + at.X[i].T @ composite[i] @ at.X[i]
        M[body.v, body.v] += body.S.T @ F
        j = i
        while bodies[j].parent >= 0:
            F = at.X[j].T @ F
            j = bodies[j].parent
            shared = bodies[j].S.T @ F
            M[bodies[j].v, body.v] += shared
            M[body.v, bodies[j].v] += shared.T
    return np.asarray(M + np.diag(at.model.armature))


def aba(at: BodyPlacements, v: Array, tau: Array, *, wrenches: Wrenches | None = None) -> Array:
    """Returns the joint accelerations (nv,) by articulated bodies (source A, 7; Featherstone, RBDA 2008, table 7.1).

    Outward, the twist ``V_i``, the bias ``c_i = V_i x S_i dq_i`` and the bias force ``p_i = V_i x* I_i V_i - F_ext,i``.
    Inward, with ``U = I^A S``, ``D = S^T U`` (plus the rotor) and ``u = tau - S^T p^A``, the parent receives
    ``I^a = I^A - U D^-1 U^T`` and ``p^a = p^A + I^a c + U D^-1 u``.  Outward again, ``a' = X A_p + c``,
    ``ddq = D^-1 (u - U^T a')`` and ``A = a' + S ddq``; the world accelerates with ``-A_G``.

    Args:
        at: the model at q.
        v: (nv,) joint velocities.
        tau: (nv,) generalized forces.
        wrenches: for each body, (6,) wrench on the robot in the body's frame; None without external forces.
    """
    if at.model.coupled:  # mimic joints couple branches, which the recursion from leaves to root cannot represent
        return forward_by_mass(at, v, tau, wrenches=wrenches)
    bodies, n = at.model.bodies, len(at.model.bodies)
    V = twists(at, v)
    c = [ad(V[i]) @ (body.S @ v[body.v]) for i, body in enumerate(bodies)]
    p = [-ad(V[i]).T @ (body.G @ V[i]) for i, body in enumerate(bodies)]
    if wrenches is not None:
        p = [p_i - w for p_i, w in zip(p, wrenches, strict=True)]
    inertia: list[Array] = [body.G for body in bodies]
    U, D, u = [np.zeros(0)] * n, [np.zeros(0)] * n, [np.zeros(0)] * n
    for i, body in reversed(list(enumerate(bodies))):
        U[i] = inertia[i] @ body.S
        D[i] = body.S.T @ U[i] + np.diag(at.model.armature[body.v])
        u[i] = tau[body.v] - body.S.T @ p[i]
        if body.parent >= 0:
            I_a = inertia[i] - U[i] @ np.linalg.solve(D[i], U[i].T)
            p_a = p[i] + I_a @ c[i] + U[i] @ np.linalg.solve(D[i], u[i])
            inertia[body.parent] = inertia[body.parent] + at.X[i].T @ I_a @ at.X[i]
            p[body.parent] = p[body.parent] + at.X[i].T @ p_a
    a = np.zeros(at.model.nv, dtype=np.result_type(at.dtype, v, tau))
    A: list[Array] = []
    for i, body in enumerate(bodies):
        above = A[body.parent] if body.parent >= 0 else np.concatenate([np.zeros(3), -at.model.gravity])
        A_i = at.X[i] @ above + c[i]
        a[body.v] = np.linalg.solve(D[i], u[i] - U[i].T @ A_i)
        A.append(A_i + body.S @ a[body.v])
    return a


def forward_by_mass(at: BodyPlacements, v: Array, tau: Array, *, wrenches: Wrenches | None = None) -> Array:
    """Returns ``ddq = M^-1 (tau - h)`` (nv,), with external forces in h (source A, 6)."""
    return np.asarray(np.linalg.solve(crba(at), tau - nle(at, v, wrenches=wrenches)))


def coriolis_closed_form(at: BodyPlacements, v: Array) -> Array:
    """Returns C (nv, nv) of the closed form (source A, 4), which is not Christoffel's.

    ``C = sum_i J_i^T (I_i Jdot_i + I_i [V_i x] J_i + [V_i x*] I_i J_i)``; the middle term does not contribute to ``C
    v``, as ``V x V = 0``, but makes ``Mdot - 2 C`` skew-symmetric.
    """
    V, J = twists(at, v), body_jacobians(at)
    rates = body_jacobian_rates(at, V, v, J)
    C = np.zeros((at.model.nv, at.model.nv), dtype=np.result_type(at.dtype, v))
    for body, V_i, J_i, rate in zip(at.model.bodies, V, J, rates, strict=True):
        C += J_i.T @ (body.G @ rate + body.G @ ad(V_i) @ J_i - ad(V_i).T @ body.G @ J_i)
    return C


def coriolis_by_bodies(at: BodyPlacements, v: Array) -> Array:
    """Returns the Christoffel-consistent C (nv, nv) of a tree, as Pinocchio does (Echeandia and Wensing 2021).

    ``C = sum_i J_i^T (I_i Jring_i + B_i J_i)`` where ``Jring = Jdot + [V x] J`` is the absolute derivative of the body
    Jacobian, ``B = 1/2 ([V x*] I - I [V x] + [h]~)``, ``h = I V``, and ``[h]~ U = U x* h`` for every twist U.
    """
    V, J = twists(at, v), body_jacobians(at)
    rates = body_jacobian_rates(at, V, v, J)
    C = np.zeros((at.model.nv, at.model.nv), dtype=np.result_type(at.dtype, v))
    for body, V_i, J_i, rate in zip(at.model.bodies, V, J, rates, strict=True):
        B = 0.5 * (-ad(V_i).T @ body.G - body.G @ ad(V_i) + dual_of_momentum(body.G @ V_i))
        C += J_i.T @ (body.G @ (rate + ad(V_i) @ J_i) + B @ J_i)
    return C


def dual_of_momentum(h: Array) -> Array:
    """Returns the matrix (6, 6) that maps a twist U to ``U x* h = -ad(U)^T h``, for a momentum h.

    With h = (n, f), of angular part n and linear part f, the matrix is ``-[[[n], [f]], [[f], 0]]``; it is [h]~ above.
    """
    out = np.zeros((6, 6), dtype=h.dtype)
    out[:3, :3] = -skew(h[:3])
    out[:3, 3:] = out[3:, :3] = -skew(h[3:])
    return out


def mass(at: BodyPlacements) -> float:
    """Returns the total mass of the moving bodies [kg]."""
    return sum(body.mass for body in at.model.bodies)


def center_of_mass(at: BodyPlacements) -> Array:
    """Returns the center of mass (3,) in the world [m]: ``sum_i m_i T_i c_i / sum_i m_i``."""
    bodies = zip(at.model.bodies, at.T_world, strict=True)
    return np.asarray(sum(b.mass * (T[:3, :3] @ b.com + T[:3, 3]) for b, T in bodies) / mass(at))


def com_jacobian(at: BodyPlacements) -> Array:
    """Returns the Jacobian (3, nv) of the center of mass, world axes: the mass-weighted mean of the bodies'."""
    total = np.zeros((3, at.model.nv), dtype=at.dtype)
    for body, T, J in zip(at.model.bodies, at.T_world, body_jacobians(at), strict=True):
        total += body.mass * T[:3, :3] @ (Ad(rigid_motion(np.eye(3), -body.com)) @ J)[3:]
    return total / mass(at)


def com_drift(at: BodyPlacements, v: Array) -> Array:
    """Returns the acceleration (3,) of the center of mass at zero joint acceleration [m/s^2]: ``dJ/dt v``."""
    V = twists(at, v)
    A = accelerations(at, V, v, np.zeros(at.model.nv), np.zeros(6))
    total = np.zeros(3)
    for body, T, V_i, A_i in zip(at.model.bodies, at.T_world, V, A, strict=True):
        X = Ad(rigid_motion(np.eye(3), -body.com))
        V_c, A_c = X @ V_i, X @ A_i
        total = total + body.mass * T[:3, :3] @ (A_c[3:] + np.cross(V_c[:3], V_c[3:]))
    return np.asarray(total / mass(at))


def centroidal_momentum(at: BodyPlacements, v: Array) -> Array:
    """Returns the linear momentum, and the angular momentum about the center of mass, (6,), world axes.

    Each body's momentum ``I_i V_i`` is transformed like a wrench to the center of mass (Orin, Goswami, Lee 2013).
    """
    here = rigid_motion(np.eye(3), center_of_mass(at))
    total = np.zeros(6)
    for body, T, V in zip(at.model.bodies, at.T_world, twists(at, v), strict=True):
        total = total + Ad(inverse(T) @ here).T @ (body.G @ V)
    return np.asarray(swap() @ total)


def kinetic_energy(at: BodyPlacements, v: Array) -> float:
    """Returns the kinetic energy of bodies and rotors, ``sum_i 1/2 V_i^T I_i V_i + 1/2 Ia v^2`` [J]."""
    bodies = zip(at.model.bodies, twists(at, v), strict=True)
    return float(0.5 * (sum(V @ body.G @ V for body, V in bodies) + v @ (at.model.armature * v)))


def potential_energy(at: BodyPlacements) -> float:
    """Returns the potential energy ``- m g . c`` [J], zero with all mass at the world's origin."""
    return float(-mass(at) * at.model.gravity @ center_of_mass(at))


INERTIAL_PARAMETERS = ("Lxx", "Lxy", "Lxz", "Lyy", "Lyz", "Lzz", "lx", "ly", "lz", "m")
N_COLUMNS = 13


def unit_inertia(parameter: str) -> Array:
    """Returns the spatial inertia (6, 6) of a body whose named inertial parameter is 1 and all others 0."""
    G = np.zeros((6, 6))
    axes = ["xyz".index(letter) for letter in parameter[1:]]
    if parameter == "m":
        G[3:, 3:] = np.eye(3)
    elif len(axes) == 2:
        G[axes[0], axes[1]] = G[axes[1], axes[0]] = 1.0
    else:
        first = skew(np.eye(3)[axes[0]])
        G[:3, 3:], G[3:, :3] = first, -first
    return G


def parameters(model: Model) -> Array:
    """Returns delta (13 nb,) of the model in the order of `regressor`'s columns; a base fixed to the world first."""
    rows = [] if model.base is None else [_inertial_parameters(model.base), np.zeros(3)]
    for body in model.bodies:
        if body.name is not None:
            one = not (body.root or body.is_mimic) and body.v.stop - body.v.start == 1
            joint = (x[body.v.start] if one else 0.0 for x in (model.damping, model.friction, model.armature))
            rows += [_inertial_parameters(body.G), np.array([*joint])]
    return np.concatenate(rows)


def _inertial_parameters(G: Array) -> Array:
    """Returns the inertial parameters (10,) of a spatial inertia (6, 6)."""
    mass, com, _ = mass_properties(G)
    return np.array([*G[:3, :3][np.triu_indices(3)], *(mass * com), mass])


def regressor(at: BodyPlacements, v: Array, a: Array) -> Array:
    """Returns H (nv, 13 nb) with ``tau = H delta``; a base fixed to the world comes first, with columns of zeros.

    With a parameter of a single body, all wrenches of the closed form but one vanish (source A, 4), so that its column
    is ``J_k^T (G A_k + V_k x* G V_k)`` with G the unit inertia.  Friction and rotors act on one-dof joints only.
    """
    model = at.model
    V = twists(at, v)
    A = accelerations(at, V, v, a, np.concatenate([np.zeros(3), -model.gravity]))
    J = body_jacobians(at)
    blocks = [] if model.base is None else [np.zeros((model.nv, N_COLUMNS))]
    units = [unit_inertia(parameter) for parameter in INERTIAL_PARAMETERS]
    for i, body in enumerate(model.bodies):
        if body.name is None:
            continue
        H = np.zeros((model.nv, N_COLUMNS))
        wrenches = np.stack([G @ A[i] - ad(V[i]).T @ (G @ V[i]) for G in units], axis=1)
        H[:, : len(INERTIAL_PARAMETERS)] = J[i].T @ wrenches
        if not (body.root or body.is_mimic) and body.v.stop - body.v.start == 1:
            k = body.v.start
            H[k, len(INERTIAL_PARAMETERS) :] = v[k], np.sign(v[k]), a[k]
        blocks.append(H)
    return np.concatenate(blocks, axis=1)


REFERENCES = ("local_world_aligned", "local", "world")


def placement(at: BodyPlacements, frame: tuple[int, Array]) -> Array:
    """Returns the placement (4, 4) in the world of a frame, given by its body and its placement in it."""
    body, T = frame
    return at.T_world[body] @ T if body >= 0 else T


def jacobian(at: BodyPlacements, frame: tuple[int, Array], reference: str) -> Array:
    """Returns the Jacobian J (6, nv) with ``velocity = J v``."""
    body, T = frame
    J = body_jacobians(at)[body] if body >= 0 else np.zeros((6, at.model.nv))
    return np.asarray(swap() @ _frame_map(at, frame, reference) @ Ad(inverse(T)) @ J)


def velocity(at: BodyPlacements, frame: tuple[int, Array], v: Array, reference: str) -> Array:
    """Returns the velocity (6,), computed by the recursion of twists instead of the Jacobian."""
    body, T = frame
    V = twists(at, v)[body] if body >= 0 else np.zeros(6)
    return np.asarray(swap() @ _frame_map(at, frame, reference) @ Ad(inverse(T)) @ V)


def drift(at: BodyPlacements, frame: tuple[int, Array], v: Array, reference: str) -> Array:
    """Returns ``dJ/dt v`` (6,): the derivative of the velocity at zero joint acceleration.

    The components of a body twist, and of the spatial twist about a fixed point, change by the spatial acceleration,
    mapped as twists are.  Along world axes at the frame's moving origin the linear part is the classical acceleration
    ``R (a + omega x v)`` (Featherstone, RBDA 2008, section 2.11).
    """
    body, T = frame
    if body < 0:
        return np.zeros(6)
    V = twists(at, v)
    A = accelerations(at, V, v, np.zeros(at.model.nv), np.zeros(6))
    X = Ad(inverse(T))
    V_f, A_f = X @ V[body], X @ A[body]
    if reference == "local_world_aligned":
        A_f = A_f + np.concatenate([np.zeros(3), np.cross(V_f[:3], V_f[3:])])
    return np.asarray(swap() @ _frame_map(at, frame, reference) @ A_f)


def wrench(at: BodyPlacements, frame: tuple[int, Array], force: Array) -> Array:
    """Returns the wrench (6,) in the body's frame, moment before force, of a force in world axes at a frame's origin.

    Args:
        at: the model at q.
        frame: frame on which the force acts: body and placement in it.
        force: (3,) force [N] or (6,) force and moment [N, N m], on the robot.
    """
    f, n = force[:3], force[3:] if force.size == 6 else np.zeros(3)
    here = rigid_motion(np.eye(3), placement(at, frame)[:3, 3])
    return np.asarray(Ad(inverse(here) @ at.T_world[frame[0]]).T @ np.concatenate([n, f]))


def _frame_map(at: BodyPlacements, frame: tuple[int, Array], reference: str) -> Array:
    """Returns the map (6, 6) of twists from the frame's own coordinates to those of `reference`."""
    T = placement(at, frame)
    if reference == "world":
        return Ad(T)
    if reference == "local":
        return np.eye(6)
    return Ad(rigid_motion(T[:3, :3], np.zeros(3)))


def relative_motion(body: Body, q: Array) -> Array:
    """Returns ``g_pi(q)`` (4, 4): ``exp(Ad(g(0)) xi q) g(0)`` for joints with an exponential coordinate."""
    if body.kind in ("revolute", "continuous", "prismatic"):
        angle = q[0] if body.kind != "continuous" else np.arctan2(q[1], q[0])
        return exp(Ad(body.T) @ body.S[:, 0] * angle) @ body.T
    return body.T @ joint_motion(body, q)


def forward_dynamics(model: Model, q: Array, v: Array, tau: Array, *, wrenches: list[Array] | None = None) -> Array:
    """Returns the joint accelerations (nv,) by equations (1) to (7) of this module (source D).

    Args:
        model: the model.
        q: (nq,) configuration.
        v: (nv,) joint velocities.
        tau: (nv,) generalized forces.
        wrenches: for each body, (6,) wrench on the robot in the body's frame; None without external forces.
    """
    bodies = model.bodies
    world = np.concatenate([np.zeros(3), -model.gravity])
    Ads: list[Array] = []
    V: list[Array] = []
    eta: list[Array] = []
    for body in bodies:
        X, own = Ad(inverse(relative_motion(body, q[body.q]))), body.S @ v[body.v]
        Ads.append(X)
        V.append(X @ V[body.parent] + own if body.parent >= 0 else own)  # (1)
        eta.append(ad(V[-1] - own) @ own)  # (2)
    Mh = [body.G for body in bodies]
    B = [-ad(V_i).T @ body.G @ V_i for body, V_i in zip(bodies, V, strict=True)]
    if wrenches is not None:
        B = [B_i - F for B_i, F in zip(B, wrenches, strict=True)]
    Psi = [np.zeros((0, 0))] * len(bodies)
    for i, body in reversed(list(enumerate(bodies))):
        xi = body.S
        Psi[i] = np.linalg.inv(xi.T @ Mh[i] @ xi + np.diag(model.armature[body.v]))
        if body.parent < 0:
            continue
        Pi = Mh[i] - Mh[i] @ xi @ Psi[i] @ xi.T @ Mh[i]  # (4)
        beta = B[i] + Mh[i] @ (eta[i] + xi @ Psi[i] @ (tau[body.v] - xi.T @ (Mh[i] @ eta[i] + B[i])))  # (5)
        Mh[body.parent] = Mh[body.parent] + Ads[i].T @ Pi @ Ads[i]  # (6)
        B[body.parent] = B[body.parent] + Ads[i].T @ beta  # (7)
    a = np.zeros(model.nv)
    dV: list[Array] = []
    for i, body in enumerate(bodies):
        above = Ads[i] @ (dV[body.parent] if body.parent >= 0 else world) + eta[i]
        a[body.v] = Psi[i] @ (tau[body.v] - body.S.T @ (Mh[i] @ above + B[i]))  # (3)
        dV.append(above + body.S @ a[body.v])
    return a


COMPLEX_STEP = 1e-30


def derivative_along(model: Model, f: Callable[[Array], Array], q: Array, v: Array) -> Array:
    """Returns d/dt f(q(t)) for a motion through `q` (nq,) with velocity `v` (nv,)."""
    return np.asarray(f(integrate(model, q, 1j * COMPLEX_STEP * v)).imag / COMPLEX_STEP)


def derivatives_by_configuration(model: Model, f: Callable[[Array], Array], q: Array) -> Array:
    """Returns the derivatives (..., nv) of f along each tangent direction of `q` (nq,)."""
    return np.stack([derivative_along(model, f, q, e) for e in np.eye(model.nv)], axis=-1)


def derivatives_by_vector(f: Callable[[Array], Array], x: Array) -> Array:
    """Returns the derivatives (..., n) of f with respect to the entries of a vector `x` (n,)."""
    return np.stack([f(x + 1j * COMPLEX_STEP * e).imag / COMPLEX_STEP for e in np.eye(x.size)], axis=-1)


def rnea_derivatives(model: Model, q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
    """Returns the derivatives (nv, nv) of ``tau = rnea(q, v, a)`` with respect to q (tangent), v and a."""
    at = place_bodies(model, q)
    return (
        derivatives_by_configuration(model, lambda x: rnea(place_bodies(model, x), v, a), q),
        derivatives_by_vector(lambda x: rnea(at, x, a), v),
        derivatives_by_vector(lambda x: rnea(at, v, x), a),
    )


def aba_derivatives(model: Model, q: Array, v: Array, tau: Array) -> tuple[Array, Array, Array]:
    """Returns the derivatives (nv, nv) of ``ddq = aba(q, v, tau)`` with respect to q (tangent), v and tau."""
    at = place_bodies(model, q)
    return (
        derivatives_by_configuration(model, lambda x: aba(place_bodies(model, x), v, tau), q),
        derivatives_by_vector(lambda x: aba(at, x, tau), v),
        derivatives_by_vector(lambda x: aba(at, v, x), tau),
    )
