#!/usr/bin/env bash
# python.sh VENV [REQUIREMENTS]: a Python environment of the project's own (default: that of the tests and the demo; the programs need
# none of it).
set -euo pipefail
venv=${1:?usage: python.sh VENV [REQUIREMENTS]}
requirements=${2:-$(dirname "$0")/requirements.txt}
stamp=$venv/requirements.stamp
cmp -s "$requirements" "$stamp" 2>/dev/null && exit 0
echo "== setting up Python packages" >&2
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
cp "$requirements" "$stamp"
