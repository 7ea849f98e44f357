"""The small inputs of `tests/cases`, each with the answer that its README calls right."""

from __future__ import annotations

from pathlib import Path

import pytest
from xacro_stand_in import provide_xacro

import quaddyn as qd

CASES = Path(__file__).parent / "cases"


def test_mesh_uris() -> None:
    for file in ("parent.urdf", "triple.urdf"):
        robot = qd.load(CASES / "mesh_uris" / "pk" / "urdf" / file)
        assert [leg.foot.radius for leg in robot.legs.values()] == pytest.approx([0.02] * 4)
        assert not any("foot.obj" in finding.reason for finding in robot.report.warnings)
        assert qd.load(CASES / "mesh_uris" / "pk" / "urdf" / file, strict=True).q_home[2] == robot.q_home[2]


def test_xacro_find(monkeypatch: pytest.MonkeyPatch) -> None:
    provide_xacro(monkeypatch)
    file = CASES / "xacro_find" / "pk" / "urdf" / "robot.xacro"
    for packages in ((), (CASES / "xacro_find",), (CASES / "xacro_find" / "pk",)):
        robot = qd.load(file, packages=packages)
        assert robot.tree.joint["j"].child == "b" and robot.mass == 1.0
