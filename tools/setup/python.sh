#!/usr/bin/env bash
# python.sh VENV [REQUIREMENTS]: a Python environment of the project's own, with these packages besides those that it has (default: what
# the build and the demo need; the programs need none of it).
set -euo pipefail
venv=${1:?usage: python.sh VENV [REQUIREMENTS]}
requirements=${2:-$(dirname "$0")/requirements.txt}
stamp=$venv/$(basename "$requirements" .txt).stamp
cmp -s "$requirements" "$stamp" 2>/dev/null && exit 0
echo "== setting up Python packages" >&2
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
cp "$requirements" "$stamp"
