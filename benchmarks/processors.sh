#!/usr/bin/env bash
# Runs the test suite with the settings of other processors, libraries and environments, and prints a table of failures.
#
#   bash benchmarks/processors.sh                         # one run per setting; takes hours
#   bash benchmarks/processors.sh --covering              # all settings, distributed over six runs; takes an hour
#   bash benchmarks/processors.sh --list                  # prints the runs
#   bash benchmarks/processors.sh --only openblas-haswell,lanes-2 -- tests/test_soles.py
#
# If a run of --covering fails, runs of its single settings show which setting causes the failure.  Arguments after "--"
# are passed to pytest.  Reports are written to build/processors.  The exit code is 1 if a test fails in any run.
# PYTHON selects the interpreter (default: that of .venv), which needs the extras "test" and "nightly".
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath -s "${PYTHON:-.venv/bin/python}")
reports=build/processors
only=""
group=single
while [ $# -gt 0 ]; do
    case "$1" in
        --list) only=--list; shift ;;
        --covering) group=covering; shift ;;
        --only) only="$2"; shift 2 ;;
        --) shift; break ;;
        *) sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
pytest_arguments=("$@")
names=()
failed=0

# combination NAME PYTHON [VARIABLE=VALUE ...] -- [pytest argument ...]: runs the suite once.
combination() {
    local name=$1 interpreter=$2
    shift 2
    local variables=()
    while [ "$1" != -- ]; do variables+=("$1"); shift; done
    shift
    [ "$only" = --list ] && { echo "$name: ${variables[*]:-}${*:+ pytest $*}"; return 0; }
    case ",$only," in ,,|*",$name,"*) ;; *) return 0 ;; esac
    # Environments with other versions are created only when they are needed.
    case "$interpreter" in environment_*) interpreter=$("$interpreter") ;; esac
    names+=("$name")
    echo "== $name: ${variables[*]:-}${*:+ pytest $*}"
    local status=0
    env "${variables[@]}" "$interpreter" -m pytest -p no:randomly -n auto "$@" \
        --junitxml="$reports/$name.xml" "${pytest_arguments[@]}" >"$reports/$name.log" 2>&1 || status=$?
    tail -n 1 "$reports/$name.log"
    [ "$status" -eq 0 ] || failed=1
}

# environment NAME [uv option ...]: creates an environment with the extra "test" and prints its interpreter.
environment() {
    local folder=$reports/environment-$1
    shift
    rm -rf "$folder"
    # --seed installs pip, which tests/test_wheel.py calls.
    "$python" -m uv venv -q --seed --python "$python" "$folder" >&2
    "$python" -m uv pip install -q --python "$folder/bin/python" "$@" -e '.[test]' >&2
    realpath -s "$folder/bin/python"
}
environment_lowest() { environment lowest --resolution lowest-direct; }
environment_highest() { environment highest --resolution highest --upgrade; }
environment_bare() {
    local interpreter
    interpreter=$(environment bare)
    "$python" -m uv pip uninstall -q --python "$interpreter" mujoco mujoco-core mujoco-studio imageio-ffmpeg >&2
    echo "$interpreter"
}

# numpy_loops WORD ...: prints the names of those NumPy loops for this processor that contain one of the words.
numpy_loops() {
    "$python" - "$@" <<'P'
import sys
import numpy._core._multiarray_umath as m
wanted = sys.argv[1:]
print(" ".join(name for name in m.__cpu_dispatch__ if any(word in name for word in wanted)))
P
}

# Prints a PATH that contains all programs except Chromium, Chrome and ffmpeg.
path_without_chromium() {
    local folder=$reports/programs each
    rm -rf "$folder"; mkdir -p "$folder"
    IFS=: read -ra places <<<"$PATH"
    for each in "${places[@]}"; do
        for program in "$each"/*; do
            case "$(basename "$program")" in chromium*|chrome*|google-chrome*|ffmpeg) continue ;; esac
            [ -x "$program" ] && [ ! -e "$folder/$(basename "$program")" ] && ln -s "$program" "$folder/" 2>/dev/null
        done
    done
    realpath "$folder"
}

mkdir -p "$reports"
without_avx512=NPY_DISABLE_CPU_FEATURES="$(numpy_loops AVX512 V4)"
without_avx2=NPY_DISABLE_CPU_FEATURES="$(numpy_loops AVX512 V4 AVX2 FMA3 V3)"
locale_c=(LC_ALL=C PYTHONCOERCECLOCALE=0 PYTHONUTF8=0)
without_chromium=PATH="$([ "$only" = --list ] || path_without_chromium)"

single_settings() {
    # 1. BLAS kernels of NumPy.
    for core in Prescott Nehalem SandyBridge Haswell Zen; do
        combination "openblas-${core,,}" "$python" OPENBLAS_CORETYPE=$core --
    done
    if grep -q avx512f /proc/cpuinfo; then
        combination openblas-skylakex "$python" OPENBLAS_CORETYPE=SkylakeX --
    fi
    # 2. SIMD loops of NumPy.
    combination numpy-without-avx512 "$python" "$without_avx512" --
    combination numpy-without-avx2 "$python" "$without_avx2" --
    # 3. Machine code of quaddyn (docs/compiling.md).
    combination target-x86-64-v3 "$python" QUADDYN_TARGET=x86-64-v3 --
    combination target-x86-64 "$python" QUADDYN_TARGET=x86-64 --
    combination uncontracted "$python" QUADDYN_TARGET=contract=off --
    for lanes in 2 4 8; do
        combination "lanes-$lanes" "$python" QUADDYN_TARGET=lanes=$lanes --
    done
    # 4. Versions of the dependencies.
    combination versions-lowest environment_lowest --
    combination versions-highest environment_highest --
    # 5. Order of the tests, number of workers, locale.
    combination shuffled "$python" PYTHONHASHSEED=random -- -p randomly
    combination workers-1 "$python" -- -n 1
    combination workers-4 "$python" -- -n 4
    combination locale-c "$python" "${locale_c[@]}" --
    combination locale-utf-8 "$python" LC_ALL=C.UTF-8 --
    # 6. Without optional programs, whose tests are skipped.
    combination without-tools environment_bare "$without_chromium" --
}

# All settings of single_settings, distributed over six runs.
covering_settings() {
    combination cover-1 "$python" OPENBLAS_CORETYPE=Prescott "$without_avx512" QUADDYN_TARGET=x86-64 "${locale_c[@]}" --
    combination cover-2 environment_lowest OPENBLAS_CORETYPE=Nehalem QUADDYN_TARGET=lanes=2 -- -n 4
    combination cover-3 "$python" OPENBLAS_CORETYPE=SandyBridge "$without_avx2" QUADDYN_TARGET=x86-64-v3 LC_ALL=C.UTF-8 -- -n 1
    combination cover-4 environment_highest OPENBLAS_CORETYPE=Haswell QUADDYN_TARGET=lanes=4 --
    combination cover-5 "$python" OPENBLAS_CORETYPE=Zen QUADDYN_TARGET=contract=off,lanes=8 PYTHONHASHSEED=random \
        -- -p randomly
    local core=()
    if grep -q avx512f /proc/cpuinfo; then core=(OPENBLAS_CORETYPE=SkylakeX); fi
    combination cover-6 environment_bare "${core[@]}" "$without_chromium" --
}

"${group}_settings"

[ "$only" = --list ] && exit 0
"$python" - "$reports" "${names[@]}" <<'P'
"""Prints a table of the runs, then each failed test with its runs and the first line of its message."""
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

folder, *names = sys.argv[1:]
console, table = Console(width=160), Table("combination", "passed", "failed", "skipped", "seconds")
broken = defaultdict(dict)
for name in names:
    file = Path(folder) / f"{name}.xml"
    if not file.exists():
        table.add_row(name, "-", "did not run", "-", "-")
        continue
    (suite,) = ET.parse(file).getroot()
    cases = suite.findall("testcase")
    bad = [(c, f) for c in cases for f in (*c.findall("failure"), *c.findall("error"))]
    skipped = sum(c.find("skipped") is not None for c in cases)
    for case, found in bad:
        broken[f"{case.get('classname')}::{case.get('name')}"][name] = (found.get("message") or "").splitlines()[:1]
    table.add_row(name, str(len(cases) - len(bad) - skipped), str(len(bad)), str(skipped), f"{float(suite.get('time')):.0f}")
console.print(table)
for test, where in sorted(broken.items()):
    console.print(f"[red]{test}[/red]: {', '.join(where)}: {next(iter(where.values()))}", soft_wrap=True, highlight=False)
P
exit "$failed"
