#!/usr/bin/env bash
# Installs the wheel of a folder in a new environment and computes torques with it; with machine code in the wheel,
# nothing may be compiled.
set -euo pipefail
wheel=$(realpath "$1"/*.whl)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/environment"
"$folder/environment/bin/python" -m pip install --quiet "$wheel"
cd "$folder"
export QUADDYN_CACHE="$folder/cache"
environment/bin/quaddyn --version
environment/bin/python - <<'PROGRAM'
import os
import numpy as np
import quaddyn as qd
from quaddyn.compiler.compilation_units import CompilationUnit

robot = qd.load("go2")
dynamics, controller = qd.Dynamics(robot), qd.WholeBodyController(robot)
command = controller.compute(dynamics.update(robot.q_home, np.zeros(robot.nv)))
assert command.status.ok, command.status
weight = sum(force[2] for force in command.forces.values())
assert abs(weight - 9.81 * robot.mass) < 1e-6 * weight, weight
origins = {unit.origin.source for unit in CompilationUnit.registry.values() if unit.origin is not None}
expected = "compiled" if os.environ.get("QUADDYN_BUILD_OBJECTS", "0") == "0" else "prebuilt"
assert origins == {expected}, origins
print("torques computed by", *origins, "machine code")
PROGRAM
