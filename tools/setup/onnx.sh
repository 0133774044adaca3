#!/usr/bin/env bash
# onnx.sh DEPS VENV: DEPS/onnx/{include,lib}: ONNX's C++ library, built once from the sources inside the Python wheel.
set -euo pipefail
deps=${1:?usage: onnx.sh DEPS VENV}
venv=${2:?usage: onnx.sh DEPS VENV}
dest=$deps/onnx
version=$("$venv/bin/python" -c 'from importlib.metadata import version; print(version("onnx"))')
recipe=$(dirname "$0")/../../cmake/onnx
[ -f "$dest/version" ] && [ "$(cat "$dest/version")" = "$version" ] && exit 0
echo "== building the ONNX $version library (once, about a minute)" >&2
site=$(echo "$venv"/lib/python3*/site-packages/onnx)
[ -f "$site/checker.cc" ] || { echo "onnx.sh: the onnx wheel in $venv holds no C++ sources" >&2; exit 1; }
rm -rf "$dest" && mkdir -p "$dest"
if ! { cmake -S "$recipe" -B "$dest/build" -G Ninja -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG" "-DONNX_SOURCE_DIR=$(dirname "$site")" "-DCMAKE_INSTALL_PREFIX=$dest" &&
  cmake --build "$dest/build" --target install; } >"$deps/onnx.log" 2>&1; then
  tail -n 40 "$deps/onnx.log" >&2
  exit 1
fi
rm -rf "$dest/build"
echo "$version" >"$dest/version"
