#!/usr/bin/env bash
# Renews packaging/requirements.lock: the newest versions of the dependencies of the default installation, with hashes,
# for all platforms and Python versions.
set -euo pipefail
cd "$(dirname "$0")/.."
python3 -m venv build/lock
build/lock/bin/python -m pip install --quiet 'uv>=0.5,<1'
build/lock/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
    --custom-compile-command 'bash packaging/lock.sh' --output-file packaging/requirements.lock pyproject.toml
rm -r build/lock
