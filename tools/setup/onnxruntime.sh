#!/usr/bin/env bash
# onnxruntime.sh DEPS VENV: DEPS/onnxruntime/{include,lib} unless the system has libonnxruntime-dev or ONNXRUNTIME_ROOT is set.
# The library is the one inside the Python wheel of VENV; the headers come from Debian's libonnxruntime-dev of a later
# release, unpacked without being installed. Their API version is older than the library's, which ONNX Runtime supports.
set -euo pipefail
deps=${1:?usage: onnxruntime.sh DEPS VENV}
venv=${2:?usage: onnxruntime.sh DEPS VENV}
[ -n "${ONNXRUNTIME_ROOT:-}" ] && exit 0
[ -f /usr/include/onnxruntime/onnxruntime_cxx_api.h ] && exit 0
dest=$deps/onnxruntime
wheel_lib=$(echo "$venv"/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*)
[ -f "$wheel_lib" ] || { echo "onnxruntime.sh: no libonnxruntime in $venv" >&2; exit 1; }
mkdir -p "$dest/lib"
ln -sfn "$wheel_lib" "$dest/lib/libonnxruntime.so.1"
ln -sfn libonnxruntime.so.1 "$dest/lib/libonnxruntime.so"
[ -f "$dest/include/onnxruntime_cxx_api.h" ] && exit 0

echo "== fetching the ONNX Runtime headers" >&2
state=$dest/apt
"$(dirname "$0")/private_apt.sh" "$state" deb trixie
state=$(cd "$state" && pwd)
(cd "$state" && APT_CONFIG=$state/apt.conf apt-get -qq download libonnxruntime-dev)
dpkg-deb -x "$state"/libonnxruntime-dev_*.deb "$state/unpacked"
rm -rf "$dest/include"
mv "$state/unpacked/usr/include/onnxruntime" "$dest/include"
rm -rf "$state"
