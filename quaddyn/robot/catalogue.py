"""Catalog of robots by name: legged robots, legs and arms of example-robot-data, and those of this package."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import sys
from dataclasses import dataclass
from pathlib import Path

from ..deprecation import renamed_names
from ..errors import ModelError, UnknownNameError

#: What pip installs; the files of the catalogue are the same in versions 5 and 6.
REQUIREMENT = "example-robot-data>=5,<7"


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """Catalog entry: `kind` of robot, `file` inside its collection, `root` if it is given, `own` for own files."""

    kind: str
    file: str
    root: str | None = None
    own: bool = False

    @property
    def path(self) -> Path:
        """Path of the file on this machine."""
        return (own_robot_folder() if self.own else example_robot_folder()) / self.file

    @property
    def packages(self) -> tuple[Path, ...]:
        """Package roots of its meshes."""
        return (self.path.parent,) if self.own else (example_robot_folder().parent.parent,)


#: Robots by name; `quaddyn robots` lists them.
CATALOGUE: dict[str, CatalogueEntry] = {
    "a1": CatalogueEntry("quadruped", "a1_description/urdf/a1.urdf"),
    "anymal_b": CatalogueEntry("quadruped", "anymal_b_simple_description/robots/anymal.urdf"),
    "anymal_b_kinova": CatalogueEntry("quadruped", "anymal_b_simple_description/robots/anymal-kinova.urdf"),
    "anymal_c": CatalogueEntry("quadruped", "anymal_c_simple_description/urdf/anymal.urdf"),
    "b1": CatalogueEntry("quadruped", "b1_description/urdf/b1.urdf"),
    "b1_z1": CatalogueEntry("quadruped", "b1_description/urdf/b1-z1.urdf"),
    "centauro": CatalogueEntry("quadruped", "centauro_description/urdf/centauro.urdf"),
    "go1": CatalogueEntry("quadruped", "go1_description/urdf/go1.urdf"),
    "go2": CatalogueEntry("quadruped", "go2_description/urdf/go2.urdf"),
    "hyq": CatalogueEntry("quadruped", "hyq_description/robots/hyq_no_sensors.urdf"),
    "laikago": CatalogueEntry("quadruped", "laikago_description/urdf/laikago.urdf"),
    "quadruped": CatalogueEntry("quadruped", "quadruped_description/urdf/quadruped.urdf"),
    "solo8": CatalogueEntry("quadruped", "solo_description/robots/solo.urdf"),
    "solo12": CatalogueEntry("quadruped", "solo_description/robots/solo12.urdf"),
    "small_quadruped": CatalogueEntry("quadruped", "small_quadruped.urdf", own=True),
    "bolt": CatalogueEntry("biped", "bolt_description/robots/bolt.urdf"),
    "g1": CatalogueEntry("biped", "g1_description/urdf/g1_29dof_rev_1_0.urdf"),
    "talos": CatalogueEntry("biped", "talos_data/robots/talos_reduced.urdf"),
    "closed_leg_biped": CatalogueEntry("biped", "special/closed_leg_biped.urdf", own=True),
    "wheeled_biped": CatalogueEntry("wheeled", "special/wheeled_biped.urdf", own=True),
    "wheeled_quadruped": CatalogueEntry("wheeled", "special/wheeled_quadruped.urdf", own=True),
    "asr_twodof": CatalogueEntry("arm", "asr_twodof_description/urdf/TwoDofs.urdf", "fixed"),
    "double_pendulum": CatalogueEntry("chain", "double_pendulum_description/urdf/double_pendulum.urdf", "fixed"),
    "double_pendulum_continuous": CatalogueEntry(
        "chain", "double_pendulum_description/urdf/double_pendulum_continuous.urdf", "fixed"
    ),
    "double_pendulum_simple": CatalogueEntry(
        "chain", "double_pendulum_description/urdf/double_pendulum_simple.urdf", "fixed"
    ),
    "finger_edu": CatalogueEntry("arm", "finger_edu_description/robots/finger_edu.urdf", "fixed"),
    "two_link_leg": CatalogueEntry("leg", "two_link_leg.urdf", "fixed", own=True),
    "three_link_leg": CatalogueEntry("leg", "three_link_leg.urdf", "fixed", own=True),
    "four_link_leg": CatalogueEntry("leg", "four_link_leg.urdf", "fixed", own=True),
    "planar_3r": CatalogueEntry("arm", "planar_3r.urdf", "fixed", own=True),
    "rx90": CatalogueEntry("arm", "rx90.urdf", "fixed", own=True),
    "chain_4": CatalogueEntry("chain", "chain_4.urdf", "fixed", own=True),
    "chain_10": CatalogueEntry("chain", "chain_10.urdf", "fixed", own=True),
    "kinova": CatalogueEntry("arm", "kinova_description/robots/kinova.urdf", "fixed"),
    "panda": CatalogueEntry("arm", "panda_description/urdf/panda.urdf", "fixed"),
    "ur3": CatalogueEntry("arm", "ur_description/urdf/ur3_robot.urdf", "fixed"),
    "ur5": CatalogueEntry("arm", "ur_description/urdf/ur5_robot.urdf", "fixed"),
    "ur10": CatalogueEntry("arm", "ur_description/urdf/ur10_robot.urdf", "fixed"),
    "xarm7": CatalogueEntry("arm", "xarm_description/urdf/xarm7.urdf", "fixed"),
    "z1": CatalogueEntry("arm", "z1_description/urdf/z1.urdf", "fixed"),
}


def find_entry(name: str) -> CatalogueEntry:
    """Returns the entry of this name.

    Raises:
        UnknownNameError: no such robot; near matches are listed.
    """
    if name not in CATALOGUE:
        raise UnknownNameError("robot", name, CATALOGUE)
    return CATALOGUE[name]


@functools.lru_cache(maxsize=1)
def example_robot_folder() -> Path:
    """Returns the ``robots`` folder of the installed package example-robot-data, which contains data only.

    It is that of the package of pip, or else that of the environment, where conda installs it.

    Raises:
        ModelError: the package is not installed, or its folder is elsewhere.
    """
    folders = [Path(sys.prefix) / part / "share" / "example-robot-data" / "robots" for part in ("", "Library")]
    found = "is not installed"
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        distribution = importlib.metadata.distribution("example-robot-data")
        folders.insert(0, Path(str(distribution.locate_file("cmeel.prefix/share/example-robot-data/robots"))))
        found = f"{distribution.version} has no folder {folders[0]}"
    for folder in folders:
        if folder.is_dir():
            return folder
    raise ModelError(
        f"the package example-robot-data, which contains the robots of the catalogue, {found}; install it with: "
        f"pip install '{REQUIREMENT}'"
    )


def own_robot_folder() -> Path:
    """Returns the folder of the URDFs of this package: inside the installed package, or at the top of a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "_robots"
    return installed if installed.is_dir() else package.parent / "robots"


__getattr__ = renamed_names(
    __name__,
    {
        "Entry": "CatalogueEntry",
        "example_robots": "example_robot_folder",
        "find": "find_entry",
        "own_robots": "own_robot_folder",
    },
)
