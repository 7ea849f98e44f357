"""Symmetry of compiled functions: rotated and mirrored inputs give rotated and mirrored results."""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
from test_simulation_compiled import as_python, assert_close

from quaddyn.compiler import Entry

#: Kinds of quantities by field, as "Class.field" or "field", or by argument.  P: world point, of which two or three
#: coordinates are given; V: world vector; A: axial world vector; H: forward and leftward component (and upward one);
#: C: the same with a yaw rate; R: rotation from the trunk's axes to the world; B: rotation from heading axes to the
#: trunk's; Y: yaw angle; Z: height in the world; N: leftward component or yaw rate; L: radii in each direction about a
#: foot; D: derivatives of a world point, or of an offset, along the last axis.  Others are scalars, also by foot.
KINDS = {
    name: kind
    for kind, names in {
        "P": "com feet cop dcm points next_footholds map_center last_feet requested nominal start target "
        "lowered_position touchdown_position point position positions",
        "V": "Motion.velocity payload_shift normals normal forces slope slope_rate com_displacement lift_direction "
        "SwingStates.velocity SwingStates.acceleration BalanceState.velocity BalanceState.error dcm_error com_velocity "
        "com_acceleration contact_forces target_offset velocities foot_velocities start_swing.velocity "
        "LandingState.acceleration",
        "A": "angular_velocity base_velocity tilt_trim",
        "H": "nominal_stance hips stance uphill evaluated_uphill mean_lag FootholdRequest.velocity "
        "SelectionStates.velocity",
        "C": "velocity command ProgressState.command PathState.velocity evaluated_velocity",
        "R": "R_base axes TrunkReferences.base",
        "B": "heading",
        "Y": "yaw jump_yaw",
        "Z": "map_height",
        "N": "yaw_rate",
        "L": "reach",
        "D": "SwingStates.motion com_offset",
    }.items()
    for name in names.split()
}
KINDS |= dict.fromkeys(("LandingState.reach", "FrictionState.nominal", "TickDisplacements.base_velocity"), "S")
#: Arguments that are the coordinates of one vector, or of one point.
COORDINATES = {
    ("error_x", "error_y"): "V", ("offset_x", "offset_y"): "V", ("u", "v"): "V", ("com_x", "com_y"): "P",
    ("x", "y", "z"): "P",
}  # fmt: skip
#: Index of the foot on the other side, by foot.
OTHER_SIDE = np.array([1, 0, 3, 2])
#: Functions that return a foot, or -1.
FINDS_FOOT = ("begin_selections", "finish_selection")
#: Functions whose results depend on the order of the feet that touch down at the same tick.
IN_ORDER_OF_FEET = ("update_contacts",)


@dataclass(frozen=True)
class Symmetry:
    """Reflection at the x-z plane if `is_mirrored`, then rotation by `angle` [rad] and translation by `shift` [m]."""

    is_mirrored: bool
    angle: float
    shift: tuple[float, float, float]

    @property
    def E(self) -> np.ndarray:
        """(3, 3) orthogonal matrix of world vectors."""
        c, s = np.cos(self.angle), np.sin(self.angle)
        return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]) @ self.S

    @property
    def sign(self) -> float:
        """Determinant of `E`."""
        return -1.0 if self.is_mirrored else 1.0

    @property
    def S(self) -> np.ndarray:
        """(3, 3) reflection of heading axes."""
        return np.diag([1.0, self.sign, 1.0])

    def vector(self, x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        """Returns vectors of two or three components along the last axis, multiplied by a matrix (3, 3)."""
        n = x.shape[-1]
        return np.asarray(x @ matrix[:n, :n].T)

    def array(self, x: np.ndarray, kind: str) -> np.ndarray:
        """Returns a transformed array of a kind; in arrays by foot, a reflection exchanges left and right feet."""
        if self.is_mirrored and x.ndim and len(x) == 4:
            x = x[OTHER_SIDE]
        if kind in "PVAH":
            x = self.vector(x, {"A": self.sign * self.E, "H": self.S}.get(kind, self.E))
            return np.asarray(x + np.array(self.shift)[: x.shape[-1]]) if kind == "P" else x
        if kind == "C":
            return np.asarray(x * (1.0, self.sign, self.sign))
        if kind in "RB":
            left = self.E if kind == "R" else self.S
            return np.asarray(left @ x.reshape(3, 3) @ self.S).reshape(x.shape)
        if kind == "L" and self.is_mirrored:
            return np.asarray(x[:, ::-1])
        if kind == "D":
            x = self.vector(x.swapaxes(-1, -2), self.E).swapaxes(-1, -2).copy()
            if x.ndim == 3:  # positions of feet, not offsets
                x[..., 0] += self.shift
            return x
        if kind in "YNZ":
            return np.asarray(self.number(float(x), kind))
        return x

    def foot(self, index: int) -> int:
        """Returns the index of the foot to which a foot is transformed; -1 for none."""
        return int(OTHER_SIDE[index]) if self.is_mirrored and index >= 0 else index

    def number(self, x: float, kind: str) -> float:
        """Returns a transformed number of a kind."""
        if kind == "Y":
            return self.angle + self.sign * x
        if kind == "N":
            return self.sign * x
        return x + self.shift[2] if kind == "Z" else x

    def __call__(self, value: Any, name: str = "", owner: str = "") -> Any:
        """Returns a transformed copy of a quantity or of a record."""
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            owner = type(value).__name__
            return type(value)(*(self(x, field, owner) for field, x in zip(value._fields, value, strict=True)))
        kind = KINDS.get(f"{owner}.{name}") or KINDS.get(name, "S")
        if isinstance(value, np.ndarray):
            if kind == "Y" and value.ndim:  # by foot
                value = value[OTHER_SIDE] if self.is_mirrored else value
                return np.asarray(self.angle + self.sign * value)
            return np.ascontiguousarray(self.array(value, kind)).astype(value.dtype, copy=True).reshape(value.shape)
        if name == "foot":
            return self.foot(value)
        return self.number(value, kind) if isinstance(value, float) else copy.deepcopy(value)

    def arguments(self, entry: Entry, values: tuple[Any, ...]) -> list[Any]:
        """Returns the transformed arguments of a function."""
        names = list(inspect.signature(entry.python).parameters)
        out = [self(x, name, entry.__name__) for name, x in zip(names, values, strict=True)]
        for group, kind in COORDINATES.items():
            if set(group) <= set(names):
                i, n = names.index(group[0]), len(group)
                out[i : i + n] = self.array(np.array(values[i : i + n]), kind).tolist()
        return out


#: A rotation with a translation, and a reflection with both.
SYMMETRIES = Symmetry(False, 0.7, (0.3, -0.2, 0.1)), Symmetry(True, -2.1, (-0.4, 0.1, -0.3))


def assert_symmetric(entry: Entry, *arguments: Any) -> None:
    """Asserts that transformed arguments of a function give transformed results, for all `SYMMETRIES`.

    Args:
        entry: the function; its result is a foot or a number that the transformations do not change.
        arguments: its arguments.
    """
    mine = copy.deepcopy(arguments)
    with as_python():
        expected = entry.python(*mine)
        for symmetry in SYMMETRIES:
            if symmetry.is_mirrored and entry.__name__ in IN_ORDER_OF_FEET:
                continue
            what = f"{entry.__name__}, {'mirrored' if symmetry.is_mirrored else 'rotated'}"
            other = symmetry.arguments(entry, copy.deepcopy(arguments))
            result = entry.python(*other)
            assert_close(result, symmetry.foot(expected) if entry.__name__ in FINDS_FOOT else expected, what)
            assert_close(tuple(other), tuple(symmetry.arguments(entry, mine)), what)
