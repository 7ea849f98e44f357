"""The URDFs in robots/ agree with their comments and README, and all readers agree on them."""

from __future__ import annotations

import functools
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_algorithms import two_body_torque

import quaddyn as qd
from quaddyn.reference import Reference

ROBOTS = Path(__file__).parents[1] / "robots"
FILES = sorted(ROBOTS.glob("*.urdf"))
NAMES = [f.stem for f in FILES]
LEGS = {"two_link_leg": (1.0, 1.0), "three_link_leg": (0.25, 0.25, 0.15), "four_link_leg": (0.25, 0.25, 0.15, 0.08)}
MADE_UP = {"two_link_leg", "rx90"}  # their inertias are not those of their visual shapes

# Elements of the URDF specification that rigid robots without meshes need: (required, optional) attributes, children.
SPECIFICATION: dict[str, tuple[set[str], set[str], set[str]]] = {
    "robot": ({"name"}, set(), {"link", "joint", "material"}),
    "link": ({"name"}, set(), {"inertial", "visual", "collision"}),
    "joint": ({"name", "type"}, set(), {"parent", "child", "origin", "axis", "limit", "dynamics"}),
    "material": ({"name"}, set(), {"color"}),
    "color": ({"rgba"}, set(), set()),
    "inertial": (set(), set(), {"origin", "mass", "inertia"}),
    "visual": (set(), {"name"}, {"origin", "geometry", "material"}),
    "collision": (set(), {"name"}, {"origin", "geometry"}),
    "geometry": (set(), set(), {"box", "cylinder", "sphere"}),
    "origin": (set(), {"xyz", "rpy"}, set()),
    "mass": ({"value"}, set(), set()),
    "inertia": ({"ixx", "ixy", "ixz", "iyy", "iyz", "izz"}, set(), set()),
    "box": ({"size"}, set(), set()),
    "cylinder": ({"radius", "length"}, set(), set()),
    "sphere": ({"radius"}, set(), set()),
    "parent": ({"link"}, set(), set()),
    "child": ({"link"}, set(), set()),
    "axis": ({"xyz"}, set(), set()),
    "limit": ({"effort", "velocity"}, {"lower", "upper"}, set()),
    "dynamics": (set(), {"damping", "friction"}, set()),
}


def model_of(name: str, root: pin.JointModel | None = None) -> pin.Model:
    path = str(ROBOTS / f"{name}.urdf")
    return pin.buildModelFromUrdf(path) if root is None else pin.buildModelFromUrdf(path, root)


def xml_of(name: str) -> ElementTree.Element:
    return ElementTree.parse(ROBOTS / f"{name}.urdf").getroot()


def below(element: ElementTree.Element, path: str) -> ElementTree.Element:
    found = element.find(path)
    assert found is not None, f"<{element.tag}> has no {path}"
    return found


def numbers(text: str) -> np.ndarray:
    return np.array([float(x) for x in text.split()])


def pose_of(element: ElementTree.Element) -> pin.SE3:
    origin = below(element, "origin")
    return pin.SE3(pin.rpy.rpyToMatrix(*numbers(origin.attrib["rpy"])), numbers(origin.attrib["xyz"]))


def inertia_of(link: ElementTree.Element) -> pin.Inertia:
    """Mass properties of the file, about the center of mass, in the axes of the link."""
    inertial = below(link, "inertial")
    i = {k: float(x) for k, x in below(inertial, "inertia").attrib.items()}
    matrix = np.array([[i["ixx"], i["ixy"], i["ixz"]], [i["ixy"], i["iyy"], i["iyz"]], [i["ixz"], i["iyz"], i["izz"]]])
    return pose_of(inertial).act(pin.Inertia(float(below(inertial, "mass").attrib["value"]), np.zeros(3), matrix))


def solid_of(visual: ElementTree.Element) -> pin.Inertia:
    """Mass properties of a drawn shape of density 1, in the link's axes."""
    shape = below(visual, "geometry")[0]
    if shape.tag == "box":
        x, y, z = numbers(shape.attrib["size"])
        out = pin.Inertia.FromBox(x * y * z, x, y, z)
    elif shape.tag == "cylinder":
        r, h = float(shape.attrib["radius"]), float(shape.attrib["length"])
        out = pin.Inertia.FromCylinder(math.pi * r * r * h, r, h)
    else:
        r = float(shape.attrib["radius"])
        out = pin.Inertia.FromSphere(4 / 3 * math.pi * r**3, r)
    return pose_of(visual).act(out)


def frame_position(model: pin.Model, q: np.ndarray, frame: str) -> np.ndarray:
    data = model.createData()
    pin.framesForwardKinematics(model, data, q)
    return np.array(data.oMf[model.getFrameId(frame)].translation)


# -- the files as files -----------------------------------------------------------------------------------------
def test_readme_table_agrees_with_the_files() -> None:
    rows: dict[str, tuple[int, float, int]] = {}
    for line in (ROBOTS / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            file, what, n, kilograms, count, source = (c.strip() for c in line.strip("|").split("|"))
            rows[file.strip("`")] = (int(n), float(kilograms), int(count))
            assert what
            assert source
    assert sorted(rows) == [f.name for f in FILES]
    for name in NAMES:
        model, xml = model_of(name, pin.JointModelFreeFlyer()), xml_of(name)
        dof, mass, links = rows[f"{name}.urdf"]
        assert (dof, links) == (model.nv - 6, len(xml.findall("link")))
        assert mass == pytest.approx(pin.computeTotalMass(model), rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_file_conforms_to_the_urdf_specification(name: str) -> None:
    xml = xml_of(name)
    assert xml.attrib["name"] == name
    for element in xml.iter():
        required, optional, allowed = SPECIFICATION[element.tag]
        if element.tag == "material" and element not in xml.findall("material"):
            allowed = set()  # a material is defined once at the top and referred to by name below
        assert required <= set(element.attrib) <= required | optional, element.tag
        assert {c.tag for c in element} <= allowed, element.tag
        if element.tag not in ("robot", "link"):
            assert len({c.tag for c in element}) == len(element), element.tag

    links = [x.attrib["name"] for x in xml.findall("link")]
    joints = xml.findall("joint")
    assert len(set(links)) == len(links)
    assert len({j.attrib["name"] for j in joints}) == len(joints)
    children = [below(j, "child").attrib["link"] for j in joints]
    assert links[0] == "base"
    assert sorted(children) == sorted(links[1:])  # one parent each, one root
    for joint in joints:
        above = below(joint, "parent").attrib["link"]
        assert links.index(above) < links.index(below(joint, "child").attrib["link"])  # hence no cycle
    assert {m.attrib["name"] for m in xml.iter("material")} == {m.attrib["name"] for m in xml.findall("material")}


@pytest.mark.parametrize("name", NAMES)
def test_effort_limits_hold_every_fixed_base_robot_against_gravity(name: str) -> None:
    # Hanging robots, any pose within the limits: the effort limits must hold the robot against gravity.
    model, rng = model_of(name), np.random.default_rng(0)
    data = model.createData()
    for _ in range(200):
        q = rng.uniform(model.lowerPositionLimit, model.upperPositionLimit)
        assert np.all(np.abs(pin.computeGeneralizedGravity(model, data, q)) < model.upperEffortLimit)


@pytest.mark.parametrize("name", sorted(set(NAMES) - MADE_UP))
def test_inertia_of_every_link_is_that_of_its_visual_solid(name: str) -> None:
    for link in xml_of(name).findall("link"):
        if link.find("inertial") is None:
            continue
        written, shown = inertia_of(link), sum((solid_of(v) for v in link.findall("visual")), pin.Inertia.Zero())
        matrix = shown.matrix() * (written.mass / shown.mass)
        np.testing.assert_allclose(written.matrix(), matrix, rtol=0, atol=1e-9 * np.abs(matrix).max())
        np.testing.assert_allclose(
            written.inertia, shown.inertia * (written.mass / shown.mass), rtol=0, atol=1e-8 * np.trace(written.inertia)
        )


@pytest.mark.parametrize("name", ["three_link_leg", "four_link_leg"])
def test_mid_range_leg_stands_with_knee_forward_and_ankle_back(name: str) -> None:
    model = model_of(name)
    q = (model.lowerPositionLimit + model.upperPositionLimit) / 2
    knee, ankle, foot = (frame_position(model, q, n) for n in ("shank", "metatarsus", "foot"))
    assert 0 > knee[2] > ankle[2] > foot[2]
    assert knee[0] > 0 > ankle[0]
    assert abs(foot[0]) < 0.1  # about below the hip


# -- the six-joint arm ------------------------------------------------------------------------------------------
def test_rx90_follows_its_denavit_hartenberg_table() -> None:
    model, rng = model_of("rx90"), np.random.default_rng(5)
    data, half = model.createData(), np.pi / 2
    table = [(0, 0, 0), (half, 0, 0), (0, 0.45, 0), (-half, 0, 0.45), (half, 0, 0), (-half, 0, 0)]
    for q in rng.uniform(-np.pi, np.pi, (10, 6)):
        pin.forwardKinematics(model, data, q)
        T = np.eye(4)
        for i, ((alpha, d, r), theta) in enumerate(zip(table, q, strict=True), start=1):
            ca, sa, ct, st = np.cos(alpha), np.sin(alpha), np.cos(theta), np.sin(theta)
            T = T @ np.array(
                [[ct, -st, 0, d], [ca * st, ca * ct, -sa, -r * sa], [sa * st, sa * ct, ca, r * ca], [0, 0, 0, 1]]
            )
            np.testing.assert_allclose(data.oMi[i].homogeneous, T, rtol=0, atol=1e-14)
    upright = np.array([0, half, -half, 0, 0, 0])
    np.testing.assert_allclose(frame_position(model, upright, "flange"), [0, 0, 0.985], rtol=0, atol=1e-14)


def test_rx90_has_dense_inertias() -> None:
    for link in xml_of("rx90").findall("link"):
        if link.find("inertial") is not None:
            body = inertia_of(link)
            assert np.abs(body.inertia).min() > 1e-3 * np.abs(body.inertia).max()
            assert np.all(body.lever)


# -- the dog ----------------------------------------------------------------------------------------------------
def mirrored(model: pin.Model, x: np.ndarray) -> np.ndarray:
    """Joint quantities of the motion mirrored by y -> -y: legs change sides, abductions change sign."""
    swap = {"FL": "FR", "FR": "FL", "RL": "RR", "RR": "RL"}
    out, offset = np.empty_like(x), len(x) - 12
    names = [n for n in model.names if n[:2] in swap]
    for i, n in enumerate(names):
        out[offset + i] = x[offset + names.index(swap[n[:2]] + n[2:])] * (-1 if "hip" in n else 1)
    if offset:
        out[:6] = x[:6] * [1, -1, 1, -1, 1, -1]  # linear, angular
    return out


def test_quadruped_dynamics_are_mirror_symmetric() -> None:
    model, rng = model_of("small_quadruped", pin.JointModelFreeFlyer()), np.random.default_rng(7)
    data, base = model.createData(), np.array([0, 0, 0, 0, 0, 0, 1.0])
    for _ in range(10):
        q, v, a = rng.uniform(-1, 1, 12), rng.uniform(-1, 1, 18), rng.uniform(-1, 1, 18)
        tau = pin.rnea(model, data, np.r_[base, q], v, a)
        image = pin.rnea(model, data, np.r_[base, mirrored(model, q)], mirrored(model, v), mirrored(model, a))
        np.testing.assert_allclose(image, mirrored(model, tau), rtol=0, atol=1e-13)
    lower, upper = model.lowerPositionLimit[7:], model.upperPositionLimit[7:]
    turned = mirrored(model, lower), mirrored(model, upper)
    np.testing.assert_array_equal(np.minimum(*turned), lower)
    np.testing.assert_array_equal(np.maximum(*turned), upper)
    effort = model.upperEffortLimit[6:]
    np.testing.assert_array_equal(np.abs(mirrored(model, effort)), effort)


def test_quadruped_stands_on_four_spheres_at_its_corners() -> None:
    model = model_of("small_quadruped")
    path = str(ROBOTS / "small_quadruped.urdf")
    q = np.tile([0, 0.8, -1.6], 4)  # thigh and calf of one length: feet below the hips
    assert [n.removesuffix("_joint") for n in list(model.names)[1::3]] == ["FL_hip", "FR_hip", "RL_hip", "RR_hip"]
    assert np.all((model.lowerPositionLimit < q) & (q < model.upperPositionLimit))
    for foot, x, y in (("FL", 1, 1), ("FR", 1, -1), ("RL", -1, 1), ("RR", -1, -1)):
        where = frame_position(model, q, f"{foot}_foot")
        np.testing.assert_allclose(where, [0.15 * x, 0.095 * y, -0.26 * np.cos(0.8)], rtol=0, atol=1e-15)
    geometry = pin.buildGeomFromUrdf(model, path, pin.GeometryType.COLLISION)
    data, placed = model.createData(), geometry.createData()
    pin.updateGeometryPlacements(model, data, geometry, placed, q)
    lowest: dict[str, float] = {}
    for shape, T in zip(geometry.geometryObjects, placed.oMg, strict=True):
        shape.geometry.computeLocalAABB()
        lowest[shape.name] = T.translation[2] - shape.geometry.aabb_radius
    assert {n[:7] for n in sorted(lowest, key=lambda n: lowest[n])[:4]} == {"FL_foot", "FR_foot", "RL_foot", "RR_foot"}


def test_quadruped_knees_cannot_be_straight() -> None:
    model = model_of("small_quadruped")
    for leg in ("FL", "FR", "RL", "RR"):
        knee = model.joints[model.getJointId(f"{leg}_calf_joint")].idx_q
        assert model.upperPositionLimit[knee] < -0.1


# -- source b's two-link leg ------------------------------------------------------------------------------------------
L1, L2, M1, M2, G = 0.5, 0.5, 2.0, 1.0, 9.81  # of robots/two_link_leg.urdf: half the rods [m], masses [kg], [m/s^2]

l1, l2, m1, m2, g = sp.symbols("L1 L2 m1 m2 g", positive=True)
t1, t2, v1, v2, a1, a2 = sp.symbols("t1 t2 v1 v2 a1 a2", real=True)
NUMBERS = {l1: L1, l2: L2, m1: M1, m2: M2, g: G}
T = sp.Symbol("t")
ANGLES = [sp.Function("theta1")(T), sp.Function("theta2")(T)]

states = st.lists(st.floats(-np.pi, np.pi), min_size=2, max_size=2).map(np.array)
rates = st.lists(st.floats(-10.0, 10.0), min_size=2, max_size=2).map(np.array)
torques = st.lists(st.floats(-50.0, 50.0), min_size=2, max_size=2).map(np.array)


@dataclass(frozen=True, eq=False)
class Lagrangian:
    """Derived once: torques, inertia and energies as expressions in the symbols above."""

    tau: sp.ImmutableMatrix
    M: sp.ImmutableMatrix
    kinetic: sp.Expr
    potential: sp.Expr
    foot: sp.ImmutableMatrix


@functools.cache
def derive_lagrangian() -> Lagrangian:
    """``d/dt dL/dv - dL/dq = tau`` for ``L = T - U`` of two point masses, one at the middle of each rod."""
    q1, q2 = ANGLES
    first = l1 * sp.ImmutableMatrix([sp.cos(q1), sp.sin(q1)])
    second = 2 * first + l2 * sp.ImmutableMatrix([sp.cos(q1 + q2), sp.sin(q1 + q2)])
    foot = 2 * second - 2 * first  # twice as far along each rod
    kinetic = (m1 * first.diff(T).dot(first.diff(T)) + m2 * second.diff(T).dot(second.diff(T))) / 2
    potential = g * (m1 * first[1] + m2 * second[1])
    L = kinetic - potential
    tau = sp.ImmutableMatrix([L.diff(q.diff(T)).diff(T) - L.diff(q) for q in ANGLES])
    tau, kinetic, potential, foot = (substitute_symbols(x) for x in (tau, kinetic, potential, foot))
    tau = tau.applyfunc(sp.expand)
    return Lagrangian(tau, tau.jacobian([a1, a2]), kinetic, potential, foot)


def substitute_symbols(expression: sp.Basic) -> sp.Basic:
    """Replaces functions of time and their derivatives, highest first, by symbols."""
    for order, symbols in ((2, (a1, a2)), (1, (v1, v2)), (0, (t1, t2))):
        for angle, symbol in zip(ANGLES, symbols, strict=True):
            expression = expression.subs(angle.diff(T, order) if order else angle, symbol)
    return expression


def closed_form_symbols() -> sp.ImmutableMatrix:
    """The torques as source B prints them."""
    c1, c2, s2, c12 = sp.cos(t1), sp.cos(t2), sp.sin(t2), sp.cos(t1 + t2)
    tau1 = (
        (m1 * l1**2 + 4 * m2 * l1**2 + m2 * l2**2 + 4 * m2 * l1 * l2 * c2) * a1
        + (m2 * l2**2 + 2 * m2 * l1 * l2 * c2) * a2
        - 2 * m2 * l1 * l2 * s2 * v2**2
        - 4 * m2 * l1 * l2 * s2 * v1 * v2
        + g * (m1 * l1 * c1 + 2 * m2 * l1 * c1 + m2 * l2 * c12)
    )
    tau2 = m2 * l2 * (2 * l1 * s2 * v1**2 + l2 * a1 + l2 * a2 + g * c12 + 2 * l1 * c2 * a1)
    return sp.ImmutableMatrix([tau1, tau2])


def closed_form(q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """(2,) source B's torques in numbers."""
    return numeric(closed_form_symbols())(*q, *v, *a)[:, 0]


@functools.cache
def numeric(matrix: sp.ImmutableMatrix) -> Callable[..., np.ndarray]:
    """The matrix as a function of (t1, t2, v1, v2, a1, a2)."""
    compiled: Callable[..., np.ndarray] = sp.lambdify((t1, t2, v1, v2, a1, a2), matrix.subs(NUMBERS), "numpy")
    return compiled


@functools.cache
def numeric_forward() -> Callable[..., np.ndarray]:
    """Source B's accelerations as a function of (t1, t2, v1, v2, tau1, tau2); the source omits the torques."""
    u1, u2 = sp.symbols("tau1 tau2", real=True)
    tau = closed_form_symbols()
    M, h = tau.jacobian([a1, a2]), tau.subs({a1: 0, a2: 0})
    solved = M.adjugate() * (sp.ImmutableMatrix([u1, u2]) - h) / M.det()
    compiled: Callable[..., np.ndarray] = sp.lambdify((t1, t2, v1, v2, u1, u2), solved.subs(NUMBERS), "numpy")
    return compiled


@functools.cache
def leg() -> tuple[qd.Dynamics, Reference]:
    robot = qd.load("two_link_leg")
    return qd.Dynamics(robot), Reference(robot.source, root="fixed")


def close(actual: object, expected: np.ndarray, terms: float = 0.0) -> None:
    """Asserts equality to 1e-12 of the largest of the entries, `terms` (which cancel) and 1."""
    scale = max(1.0, float(np.abs(expected).max()), terms)
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=0.0, atol=1e-12 * scale)


# -- the derivation ---------------------------------------------------------------------------------------------------
# -- the numbers ------------------------------------------------------------------------------------------------------
def test_file_has_the_parameters_of_the_closed_form() -> None:
    dynamics, _ = leg()
    thigh, shank = dynamics.robot.bodies[1:]
    assert (thigh.inertial.mass, shank.inertial.mass) == (M1, M2)
    assert not thigh.inertial.inertia.any() and not shank.inertial.inertia.any()
    np.testing.assert_array_equal([thigh.inertial.com[0], shank.inertial.com[0]], [L1, L2])


@settings(max_examples=40, deadline=None)
@given(q=states, v=rates, a=torques)
def test_torques_of_pinocchio_and_reference_equal_those_of_source_b(
    q: np.ndarray, v: np.ndarray, a: np.ndarray
) -> None:
    dynamics, oracle = leg()
    expected = closed_form(q, v, a)
    close(numeric(derive_lagrangian().tau)(*q, *v, *a).ravel(), expected)
    close(dynamics.rnea(q, v, a), expected)
    close(oracle.rnea(q, v, a), expected)
    close(two_body_torque(oracle.forward_kinematics(q), v, a), expected)


@settings(max_examples=40, deadline=None)
@given(q=states, v=rates, tau=torques)
def test_accelerations_of_pinocchio_and_reference_equal_those_of_source_b_with_torque(
    q: np.ndarray, v: np.ndarray, tau: np.ndarray
) -> None:
    dynamics, oracle = leg()
    for u in (tau, np.zeros(2)):  # the source gives the solution without torque
        expected = numeric_forward()(*q, *v, *u).ravel()
        terms = float(np.linalg.norm(dynamics.mass_inverse(q), 2) * np.abs([u, dynamics.nle(q, v)]).max())
        close(dynamics.aba(q, v, u), expected, terms)
        close(oracle.aba(q, v, u), expected, terms)
        close(oracle.lie_group(q, v, u), expected, terms)


@settings(max_examples=20, deadline=None)
@given(q=states, v=rates)
def test_energies_inertia_and_foot_position_agree_with_the_lagrangian(q: np.ndarray, v: np.ndarray) -> None:
    dynamics, oracle = leg()
    here = (*q, *v, 0.0, 0.0)
    kinetic, potential = (
        float(numeric(sp.ImmutableMatrix([e]))(*here)[0, 0])
        for e in (derive_lagrangian().kinetic, derive_lagrangian().potential)
    )
    for side in (dynamics, oracle):
        energy = side.energy(q, v)
        close([energy.kinetic, energy.potential], np.array([kinetic, potential]))
        close(side.crba(q), numeric(derive_lagrangian().M)(*here))
    x, z = numeric(derive_lagrangian().foot)(*here).ravel()
    close(dynamics.frame_placement(q, "foot").translation, np.array([x, 0.0, z]))
    close(oracle.frame_placement(q, "foot")[:3, 3], np.array([x, 0.0, z]))


@pytest.mark.parametrize("q", [(0.0, 0.0), (np.pi / 2, 0.0), (0.3, np.pi / 2), (-2.0, np.pi)])
def test_static_torque_is_weight_times_lever_arm(q: tuple[float, float]) -> None:
    dynamics, _ = leg()
    x1 = L1 * np.cos(q[0])
    x2 = 2 * x1 + L2 * np.cos(q[0] + q[1])
    levers = np.array([M1 * x1 + M2 * x2, M2 * (x2 - 2 * x1)])
    close(dynamics.gravity(np.array(q)), G * levers)
