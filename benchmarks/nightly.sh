#!/usr/bin/env bash
# Runs the tests and benchmarks that take too long to run after every change.  Several of them measure times: run it on an
# otherwise idle machine.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
QUADDYN_SLOW=1 "$python" -m pytest -n auto -m "slow or not slow" --cov
# Compiled functions as plain Python, where array indices are checked; takes hours.
QUADDYN_INTERPRET=1 "$python" -m pytest -n auto tests/test_hierarchy*.py tests/test_contact*.py tests/test_wbc*.py \
    tests/test_simulation.py tests/test_estimation*.py tests/test_locomotion*.py
"$python" benchmarks/fuzz.py --cases 40000
"$python" benchmarks/fuzz.py --loader bodies --cases 10000
"$python" benchmarks/fuzz_files.py --cases 40000
"$python" benchmarks/simulation_energy.py --check
"$python" benchmarks/versions.py --check
"$python" benchmarks/mutation.py --sample 30
"$python" benchmarks/boundary.py --check
"$python" benchmarks/contacts.py --check
"$python" benchmarks/identification.py --robots ur5 go2 --samples 1000000 --check
"$python" benchmarks/whole_body.py --check
"$python" benchmarks/hostile_ticks.py --check
"$python" tests/tick_mutants.py --runs 10000
"$python" benchmarks/soak.py --ticks 1000000 --check
"$python" benchmarks/plants.py --check
"$python" benchmarks/runtime.py --check
"$python" benchmarks/under_fire.py --ticks 1000000 --check
"$python" benchmarks/hierarchy.py --check
"$python" benchmarks/bench_wbc.py
"$python" benchmarks/walker.py
"$python" benchmarks/call_costs.py
"$python" benchmarks/ticks.py --robots slow --tail 1000000 --infeasible
"$python" benchmarks/hierarchy.py --rivals
"$python" benchmarks/cold_start.py
"$python" benchmarks/footprint.py --check
"$python" benchmarks/bench_kernels.py --check
"$python" benchmarks/kernel_stress.py --check
"$python" benchmarks/gradients.py --check
"$python" benchmarks/locomotion.py --fleet --check
"$python" benchmarks/locomotion.py --fleet --gait running_trot --speed 0.4 --check
"$python" benchmarks/locomotion.py --fleet --gait pronk --speed 0.15 --check
"$python" benchmarks/slips.py --check
"$python" benchmarks/unknown_load.py --check
"$python" benchmarks/pushes.py --gaits trot --sizes 0.3,0.5 --check
"$python" benchmarks/reach.py --trials 3
"$python" benchmarks/slippery.py --trials 2 --check
"$python" benchmarks/terrain.py --trials 2 --seconds 8 --check
"$python" benchmarks/loops.py --check
"$python" benchmarks/collisions.py --ticks 20000 --check
"$python" benchmarks/parameter_bands.py --ticks 30000 --check
"$python" benchmarks/airborne.py --check
"$python" benchmarks/airborne.py --felt --check
"$python" benchmarks/jumps.py --check
"$python" benchmarks/righting.py --check
"$python" benchmarks/locomotion.py --trials 100 --check
"$python" benchmarks/locomotion.py --endurance 600 --check
"$python" benchmarks/locomotion.py --cost --check
"$python" -m pip install -q --only-binary :all: pybullet drake
"$python" benchmarks/other_simulators.py --robots go2,solo12,anymal_c --check
"$python" benchmarks/campaigns.py --check
"$python" benchmarks/campaigns.py --equal 200
PYTHON="$python" bash benchmarks/processors.sh --covering
