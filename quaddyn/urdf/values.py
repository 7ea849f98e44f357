"""Reader of XML elements: attributes as validated values, and findings about errors and unknown attributes.

Elements and attributes that other tools write into URDF files, and which mean nothing to the dynamics here.

Sources: the documentation of ROS and ROS 2 (urdf, ros2_control, srdf), Gazebo (SDF extensions), MuJoCo, Drake, Bullet
and Isaac Sim, and robot files in common use.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ..errors import ModelError
from .tree import Finding, Where
from .xml import UNDECLARED, XmlElement, shorten

#: Elements that are passed over wherever they stand.
FOREIGN_ELEMENTS = frozenset(
    # ROS: control, sensors, drivers, safety and calibration
    "ros2_control ros_control transmission hardware hardwareInterface command_interface state_interface gpio sensor "
    "plugin param safety_controller calibration safety actuator joint_properties joint_limits compliance "
    "hardware_interface mechanicalReduction mechanical_reduction motorTorqueConstant simulation "
    # SRDF, which some files carry along
    "group group_state chain end_effector virtual_joint passive_joint disable_collisions enable_collisions "
    "disable_default_collisions disable_self_collisions joint_property collision_pair rotor_group "
    # Gazebo and SDF
    "gazebo static self_collide selfCollide gravity turnGravityOff kinematic surface velocity_decay enable_wind "
    "collision_checking self_filter self_collision_checking must_be_base_link preserveFixedJoint "
    "disableFixedJointLumping provideFeedback implicitSpringDamper springStiffness springReference mu1 mu2 kp kd "
    "fdir1 maxVel minDepth maxContacts dampingFactor laserRetro fluid_added_mass camera ray imu light physics ode "
    "bullet projector pose "
    # Bullet, MuJoCo, Isaac Sim, exporters of CAD programs
    "contact contact_coefficients lateral_friction rolling_friction spinning_friction restitution stiffness "
    "audio_source inertia_scaling mujoco default compiler option size equality asset isaac_sim isaac_sim_extension "
    "onshape verbose color texture material density version author description comment capsule_collision "
    "acceleration_limit jerk_limit frame sites site "
    "metadata meta info license units export model world include script motor motors actuators sensors contacts tendon "
    "keyframe force_torque_sensor force_torque noise update_rate always_on topic visualize robotNamespace "
    "namespace controller_gains traits schedule_topic_creator_file collision_filter_group create RefLink webots unity "
    "rviz".split()
)
#: Elements whose children may be those of any tool: an unknown one there is noted, unless it may be misspelled.
OPEN_ELEMENTS = ("robot", "link", "joint")
#: Attributes that are passed over, by element.
FOREIGN_ATTRIBUTES = {
    "joint": frozenset("id axis_id group actuated".split()),
    "limit": frozenset(
        "acceleration deceleration jerk command_effort current gear_velocity stall_effort drive_effort temperature "
        "K_velocity k_velocity k_position soft_lower soft_upper".split()
    ),
    "dynamics": frozenset(
        "D K mu_coulomb mu_viscous spring_stiffness spring_reference rotor_inertia gear_ratio stiffness reference "
        "frictionloss static_friction".split()
    ),
    "mesh": frozenset("convex name material subdivision lod inertia".split()),
    "mimic": frozenset(("name",)),
    "origin": frozenset(("relative_to",)),
}


MAX_NAME = 256
#: The name that Pinocchio gives to the frame of the world.
UNIVERSE = "universe"

#: Each digit has only one possible match; otherwise a long word that is not a number would take quadratic time.
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_SPACE = re.compile(r"[ \t\r\n]+")
#: Numbers of at most this magnitude [SI units] are rounding errors of 0, of either sign.
ROUNDING_TOLERANCE = 1e-12
#: The same of a moment of inertia, as a fraction of the mass [m^2].
ROUNDING_PER_MASS = 1e-15
#: Advice of findings about names that may be misspelled.
SPELLING_ADVICE = "is it misspelled?"
#: Minimum similarity (difflib) of an unknown name and a known one of which it may be a misspelling.
MIN_SIMILARITY = 0.7
#: Foreign elements and attributes that one note lists.
MAX_LISTED_NAMES = 12

# Allowed children and attributes of each element; others are reported, as data under a misspelled name would be lost.
_KNOWN_CHILDREN = {
    "robot": {"link", "joint", "material", "transmission", "gazebo", "loop_joint", "ball_constraint"},
    "link": {"inertial", "visual", "collision", "contact"},  # the last one is Bullet's
    "joint": {"origin", "parent", "child", "axis", "limit", "dynamics", "mimic", "calibration", "safety_controller"},
    "loop_joint": {"link1", "link2", "axis"},
    "inertial": {"origin", "mass", "inertia"},
    "visual": {"origin", "geometry", "material"},
    "collision": {"origin", "geometry"},
    "geometry": {"box", "cylinder", "capsule", "sphere", "mesh"},
}
_KNOWN_ATTRIBUTES = {
    "origin": {"xyz", "rpy"},
    "axis": {"xyz"},
    "mass": {"value"},
    "inertia": {"ixx", "ixy", "ixz", "iyy", "iyz", "izz"},
    "limit": {"lower", "upper", "effort", "velocity"},
    "dynamics": {"damping", "friction", "armature"},
    "mimic": {"joint", "multiplier", "offset"},
    "parent": {"link"},
    "child": {"link"},
    "joint": {"name", "type", "dont_collapse"},  # the last one is a widespread hint to other importers
    "loop_joint": {"name", "type", "dependent"},
    "link1": {"link", "xyz", "rpy"},
    "link2": {"link", "xyz", "rpy"},
    "mesh": {"filename", "scale"},
    "box": {"size"},
    "sphere": {"radius"},
    "cylinder": {"radius", "length"},
    "capsule": {"radius", "length"},
}


class RejectedElementError(ModelError):
    """Error about an element: the file is rejected, but within `ElementReader.read_as_cosmetic` only the element is."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"{finding.where}: {finding.reason}; {finding.advice}")
        self.finding = finding

    def __reduce__(self) -> tuple[object, ...]:
        return ModelError, self.args


class ElementReader:
    """Reads children and attributes of elements; collects `findings`."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.foreign: dict[str, Where] = {}
        self.cosmetic = False

    # -- reporting -------------------------------------------------------------------------------------------
    def warn(self, element: XmlElement, reason: str, advice: str = "") -> None:
        """Adds a warning about `element` to the findings."""
        self.findings.append(Finding("warning", element.where, shorten(reason), advice, self.cosmetic))

    @staticmethod
    def make_error(element: XmlElement, reason: str, advice: str) -> ModelError:
        """Returns the error for `element`; the caller raises it."""
        return RejectedElementError(Finding("warning", element.where, shorten(reason), advice))

    @contextmanager
    def read_as_cosmetic(self, otherwise: str) -> Iterator[None]:
        """Returns a context in which elements only affect drawings: findings are cosmetic, rejections become warnings.

        Args:
            otherwise: consequence for an element that would be rejected, such as "this visual is ignored".
        """
        before, self.cosmetic = self.cosmetic, True
        try:
            yield
        except RejectedElementError as error:
            finding = error.finding
            advice = f"{otherwise}; {finding.advice}"
            self.findings.append(Finding("warning", finding.where, finding.reason, advice, cosmetic=True))
        finally:
            self.cosmetic = before

    def report_unknown(self, element: XmlElement) -> None:
        """Reports children and attributes of `element` that the reader does not use."""
        children = _KNOWN_CHILDREN.get(element.tag)
        for child in element if children is not None else ():
            if "xacro" in child.tag:
                self.warn(
                    child,
                    f"<{child.tag}> is a macro that was not expanded; it is ignored",
                    "expand the file with xacro first",
                )
            elif child.tag not in children and not child.tag.startswith("{"):  # type: ignore[operator]
                self._report_unknown_child(child, element, children or ())
        attributes = _KNOWN_ATTRIBUTES.get(element.tag)
        for name in element.attrib if attributes is not None else ():
            if name in FOREIGN_ATTRIBUTES.get(element.tag, ()):
                self.foreign.setdefault(f"{name}= of <{element.tag}>", element.where)
            elif name not in attributes and not name.startswith("{"):  # type: ignore[operator]
                reason = f"unknown attribute {name}={element.attrib[name]!r} is ignored"
                self.warn(element, reason, _spelling_advice(name, attributes or ()))

    def _report_unknown_child(self, child: XmlElement, element: XmlElement, known: Iterable[str]) -> None:
        """Reports an unknown child: one of other tools, misspelled, or in the wrong element."""
        tag = child.tag
        if tag in FOREIGN_ELEMENTS or (tag == "material" and element.tag != "robot"):  # a color, in any element
            self.foreign.setdefault(f"<{tag}>", child.where)
            return
        reason, advice = f"unknown element <{tag}> in <{element.tag}> is ignored", _spelling_advice(tag, known)
        parents = [f"<{parent}>" for parent, children in _KNOWN_CHILDREN.items() if tag in children]
        if parents and not advice:
            reason, advice = f"<{tag}> in <{element.tag}> is ignored", f"move it into {' or '.join(parents)}"
        if not advice and element.tag in OPEN_ELEMENTS:
            self.foreign.setdefault(f"<{tag}>", child.where)
        else:
            self.warn(child, reason, advice)

    def report_foreign(self, root: XmlElement) -> None:
        """Reports ignored elements of other tools in one note, and each undeclared prefix in one warning."""
        pending, undeclared = [root], dict[str, XmlElement]()
        while pending:
            element = pending.pop()
            for name in (element.tag, *element.attrib):
                if name.startswith(f"{{{UNDECLARED}"):
                    undeclared.setdefault(name[len(UNDECLARED) + 1 :].partition("}")[0], element)
            pending += reversed(element.children)
        with self.read_as_cosmetic(""):
            for prefix, element in undeclared.items():
                reason = f"the prefix {prefix!r} is not declared; elements and attributes with it are ignored"
                self.warn(element, reason, f"declare it by xmlns:{prefix} in <robot>")
        if self.foreign:
            names, where = list(self.foreign), next(iter(self.foreign.values()))
            more = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
            reason = (
                f"these are ignored, because only other tools use them: {', '.join(names[:MAX_LISTED_NAMES])}{more}"
            )
            self.findings.append(Finding("note", where, shorten(reason)))

    def find_unique(self, element: XmlElement, tag: str) -> XmlElement | None:
        """Returns the child with this tag, or None; a second one is reported if it is equal, rejected if it differs."""
        found = element.children_with_tag(tag)
        for other in found[1:]:
            if not found[0].equals(other):
                raise self.make_error(other, f"<{element.tag}> has a second, different <{tag}>", "remove one of them")
            self.warn(other, f"<{tag}> is repeated identically; the first one is used", "remove the second one")
        if found:
            self.report_unknown(found[0])
            return found[0]
        return None

    def find_required(self, element: XmlElement, tag: str) -> XmlElement:
        """Returns the child with this tag; raises a `ModelError` if it is missing."""
        child = self.find_unique(element, tag)
        if child is None:
            raise self.make_error(element, f"<{tag}> is missing", "add it, as the URDF specification requires")
        return child

    # -- values ----------------------------------------------------------------------------------------------
    def read_text(self, element: XmlElement, attribute: str) -> str:
        """Returns a required attribute."""
        value = element.attrib.get(attribute)
        if value is None:
            raise self.make_error(
                element, f"attribute {attribute!r} is missing", "add it, as the URDF specification requires"
            )
        return value

    def read_number(
        self, element: XmlElement, attribute: str, *, default: float | None = None, bound: float = 1e6
    ) -> float:
        """Returns a finite number of magnitude up to `bound`; `default` if the attribute is missing."""
        value = element.attrib.get(attribute)
        if value is None and default is not None:
            return default
        return self._parse_numbers(element, attribute, self.read_text(element, attribute), 1, bound)[0]

    def check_nonnegative(self, element: XmlElement, attribute: str, value: float, reason: str) -> float:
        """Returns `value`, which must not be negative; rounding errors below 0 become 0."""
        if value < -ROUNDING_TOLERANCE:
            raise self.make_error(element, f"{attribute}={value:g}: {reason}", "correct the sign")
        return max(value, 0.0)

    def read_vector(
        self,
        element: XmlElement,
        attribute: str,
        n: int,
        *,
        default: tuple[float, ...] | None = None,
        bound: float = 1e3,
    ) -> tuple[float, ...]:
        """Returns `n` finite numbers of magnitude up to `bound`; `default` if the attribute is missing."""
        value = element.attrib.get(attribute)
        if value is None and default is not None:
            return default
        return self._parse_numbers(element, attribute, self.read_text(element, attribute), n, bound)

    def _parse_numbers(
        self, element: XmlElement, attribute: str, value: str, n: int, bound: float
    ) -> tuple[float, ...]:
        words = _SPACE.split(value.strip(" \t\r\n"))
        if len(words) != n or not words[0]:
            raise self.make_error(
                element,
                f"{attribute}={value!r}: expected {n} number(s), got {len(list(filter(None, words)))}",
                "separate the numbers by blanks, not commas" if "," in value else "correct it",
            )
        out = []
        for word in words:
            if not _NUMBER.fullmatch(word):
                raise self.make_error(
                    element, f"{attribute}={value!r}: {word!r} is not a finite decimal number", "correct it"
                )
            number = float(word)
            if not abs(number) <= bound:
                advice = "check the unit" if math.isfinite(number) else "correct it"
                raise self.make_error(element, f"{attribute}={value!r}: the magnitude exceeds {bound:g}", advice)
            out.append(number)
        return tuple(out)

    def read_name(self, element: XmlElement) -> str:
        """Returns the attribute "name", which must be printable, not empty and not reserved."""
        name = self.read_text(element, "name")
        if not name.strip() or len(name) > MAX_NAME or any(ord(c) < 32 or ord(c) == 127 for c in name):
            raise self.make_error(
                element,
                f"name={name[:40]!r} is empty, is longer than {MAX_NAME} characters or has control characters",
                "rename it",
            )
        if name == UNIVERSE:
            raise self.make_error(element, f"the name {name!r} is reserved for the root of the model", "rename it")
        return name


def _spelling_advice(name: str, known: Iterable[str]) -> str:
    """Returns the advice for an unknown name that is similar to a known one; "" for others."""
    lower = {each.lower() for each in known}
    return SPELLING_ADVICE if difflib.get_close_matches(name.lower(), lower, n=1, cutoff=MIN_SIMILARITY) else ""
