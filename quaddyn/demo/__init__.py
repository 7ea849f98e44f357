"""Demonstrations: a robot trots or squats on torques computed by this package, and each measured figure is checked."""

from ..deprecation import renamed_names
from .locomotion_demo import Push, check_plant, crouched_configuration, run_locomotion_demo, supports_locomotion
from .locomotion_run import JumpRequest
from .report import DemoCheck, DemoReport, RequestedValue, TorqueRange, check_output, check_plot
from .squat_demo import run_squat_demo

__all__ = [
    "DemoCheck",
    "DemoReport",
    "JumpRequest",
    "Push",
    "RequestedValue",
    "TorqueRange",
    "check_output",
    "check_plant",
    "check_plot",
    "crouched_configuration",
    "run_locomotion_demo",
    "run_squat_demo",
    "supports_locomotion",
]

__getattr__ = renamed_names(
    __name__,
    {
        "Check": "DemoCheck",
        "Leap": "JumpRequest",
        "can_travel": "supports_locomotion",
        "crouched": "crouched_configuration",
        "run": "run_squat_demo",
        "travel": "run_locomotion_demo",
    },
)
