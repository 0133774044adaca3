#!/usr/bin/env bash
# python.sh VENV: the project's own Python environment (tests and the demo; the programs need none of it).
set -euo pipefail
venv=${1:?usage: python.sh VENV}
requirements=$(dirname "$0")/requirements.txt
stamp=$venv/requirements.stamp
cmp -s "$requirements" "$stamp" 2>/dev/null && exit 0
echo "== setting up Python packages" >&2
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
cp "$requirements" "$stamp"
