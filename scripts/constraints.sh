#!/bin/bash
# Resolves requirements/constraints.txt anew in a throw-away environment of PYTHON (3.11 unless told otherwise).
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
PIP_CONSTRAINT=requirements/build.txt PIP_BUILD_CONSTRAINT=requirements/build.txt \
  "$work/venv/bin/python" -m pip install -q ".[controller,emulation,training,cluster,kubernetes,dev]"
{
  echo "# Every version that 'make setup' installs: resolved on Python 3.11, checked on 3.13. To renew: make constraints."
  "$work/venv/bin/python" -m pip freeze --all | grep -viE '^(fairspine|pip|setuptools|wheel)[ =]' | sort -f
} > "$work/constraints.txt"
mv "$work/constraints.txt" requirements/constraints.txt
