#!/usr/bin/env bash
# configure.sh DEPS TARGET [--tests]: the build folder build/cross/TARGET for another system, with compilers and libraries of libraries.sh,
# whose arguments these are. `./dev wheel` and `./dev windows` build in the same folder, so that nothing is compiled twice.
set -euo pipefail
cd "$(dirname "$0")/../.."
deps=$(cd "${1:?usage: configure.sh DEPS TARGET [--tests]}" && pwd)
readonly target=${2:?usage: configure.sh DEPS TARGET [--tests]} tests=${3:-}
readonly root=$PWD here=packaging/wheel work=$deps/wheel venv=$deps/wheel-venv
readonly prefix=$work/$target/prefix log=$work/$target-configure.log

onnxruntime_headers() {
  local folder
  for folder in "${ONNXRUNTIME_ROOT:+$ONNXRUNTIME_ROOT/include}" /usr/include/onnxruntime "$deps/onnxruntime/include"; do
    [ -f "$folder/onnxruntime_cxx_api.h" ] && { echo "$folder"; return; }
  done
}

# Python's own libraries for Windows are not to be had here; what their names are is.
import_library() {
  local -r python=$work/python-windows/$1 library=$2
  "$venv/bin/python" $here/python_exports.py "$python" "$library.dll" >"$python/$library.def"
  "$venv/bin/python" -m ziglang dlltool -m i386:x86-64 -d "$python/$library.def" -l "$python/$library.lib"
}

$here/libraries.sh "$deps" "$target" ${tests:+"$tests"}
options=(-DBITPRESS_TESTS=$([ -n "$tests" ] && echo ON || echo OFF))
case $target in
  win_amd64)
    import_library 3.11 python311
    import_library 3.13 python3
    options+=("-DBITPRESS_PYTHON_HEADERS=$work/python-windows")
    ;;
  x86_64 | aarch64) options+=("-DBITPRESS_PYTHON_HEADERS=$work/python/usr/include") ;;
  *) options+=(-DBITPRESS_PYTHON=OFF) ;;
esac
[ "$target" = macosx_arm64 ] && collect=-Wl,-dead_strip || collect=-Wl,--gc-sections

# -s at the link leaves out symbols and what else depends on paths.
readonly flags="-g0 -ffunction-sections -fdata-sections -ffile-prefix-map=$root=. -ffile-prefix-map=$prefix=." link="$collect -s"
cmake -S . -B "build/cross/$target" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_TOOLCHAIN_FILE="$root/cmake/toolchains/zig.cmake" -DBITPRESS_COMPILERS="$work/$target/compilers" \
  -DCMAKE_FIND_ROOT_PATH="$prefix" -DONNX_ROOT="$prefix" -DProtobuf_PROTOC_EXECUTABLE="$(command -v protoc)" \
  -DONNXRUNTIME_INCLUDE_DIR="$(onnxruntime_headers)" -DONNXRUNTIME_LIBRARY="none is built in" -DBITPRESS_RELOCATABLE=ON \
  -DBITPRESS_PCH=OFF -Dnanobind_ROOT="$("$venv/bin/python" -m nanobind --cmake_dir)" "${options[@]}" \
  "-DCMAKE_C_FLAGS=$flags" "-DCMAKE_CXX_FLAGS=$flags" "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG" \
  "-DCMAKE_EXE_LINKER_FLAGS=$link" "-DCMAKE_SHARED_LINKER_FLAGS=$link" "-DCMAKE_MODULE_LINKER_FLAGS=$link" >"$log" 2>&1 ||
  { tail -n 60 "$log" >&2; echo "configure.sh: CMake failed; the whole output: $log" >&2; exit 1; }
