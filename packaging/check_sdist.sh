#!/usr/bin/env bash
# Builds a wheel from the source distribution of a folder, away from git, and compares its version.
set -euo pipefail
archive=$(realpath "$1"/*.tar.gz)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m pip wheel --quiet --no-deps --wheel-dir wheels "$archive"
version=$(basename "$archive" .tar.gz)
version=${version#quaddyn-}
ls wheels/quaddyn-"$version"-py3-none-any.whl
