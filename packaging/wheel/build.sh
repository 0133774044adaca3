#!/usr/bin/env bash
# build.sh DEPS ARCH...: wheels for x86_64 or aarch64 in build/wheels/: one for Python 3.11, one for 3.12 and later. `./dev wheel` calls
# it. DEPS is the folder .deps/ that ./dev setup filled; what wheels need besides goes to DEPS/wheel.
set -euo pipefail
cd "$(dirname "$0")/../.."
deps=$(cd "${1:?usage: build.sh DEPS ARCH...}" && pwd)
shift
readonly root=$PWD here=packaging/wheel work=$deps/wheel glibc=2.28
readonly venv=$deps/wheel-venv onnx_site=$(echo "$deps"/venv/lib/python3*/site-packages)
readonly version=$(sed -n 's/^project(bitpress VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
say() { printf '== %s\n' "$*" >&2; }

# The time of the newest commit stands for the time of the build, so that the same sources give the same bytes.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

# logged NAME COMMAND...: shows the output only if it fails.
logged() {
  local -r log=$work/$1.log
  shift
  "$@" >"$log" 2>&1 || { tail -n 60 "$log" >&2; say "failed; the whole output: $log"; exit 1; }
}

compilers() {
  local -r folder=$work/$1/compilers zig="$venv/bin/python -m ziglang"
  mkdir -p "$folder"
  # Zig adds checks and a cache of its own to Clang; -s at the link leaves out symbols and what else depends on paths.
  printf '#!/bin/sh\nexec %s cc -target %s-linux-gnu.%s "$@"\n' "$zig" "$1" "$glibc" >"$folder/cc"
  printf '#!/bin/sh\nexec %s c++ -target %s-linux-gnu.%s "$@"\n' "$zig" "$1" "$glibc" >"$folder/c++"
  printf '#!/bin/sh\nexec %s ar "$@"\n' "$zig" >"$folder/ar"
  printf '#!/bin/sh\nexec %s ranlib "$@"\n' "$zig" >"$folder/ranlib"
  chmod +x "$folder"/*
}

dependencies() {
  local -r arch=$1 prefix=$work/$1/prefix
  local -r key=$(cat $here/requirements.txt $here/toolchain.cmake $here/dependencies/CMakeLists.txt cmake/onnx/CMakeLists.txt \
    "$deps/onnx/version" "$work"/sources/*/DEBIAN_VERSION | sha256sum)
  [ "$(cat "$prefix/key" 2>/dev/null)" = "$key" ] && return
  say "building the libraries in a wheel for $arch (once, some minutes)"
  rm -rf "$prefix" "$work/$arch/dependencies"
  logged "$arch-dependencies-configure" cmake -S $here/dependencies -B "$work/$arch/dependencies" -G Ninja \
    -DCMAKE_TOOLCHAIN_FILE="$root/$here/toolchain.cmake" -DBITPRESS_ARCH="$arch" -DBITPRESS_COMPILERS="$work/$arch/compilers" \
    -DCMAKE_INSTALL_PREFIX="$prefix" -DSOURCES="$work/sources" -DONNX_SOURCE_DIR="$onnx_site" -DPROTOC="$(command -v protoc)"
  logged "$arch-dependencies" cmake --build "$work/$arch/dependencies"
  mkdir -p "$prefix/include/stb"
  cp "$work"/sources/libstb-*/stb_image_resize.h "$prefix/include/stb/"
  rm -rf "$work/$arch/dependencies"
  echo "$key" >"$prefix/key"
}

# programs ARCH: the program, the operator library and the two modules, in WORK/ARCH/build.
programs() {
  local -r arch=$1 prefix=$work/$1/prefix
  local -r flags="-g0 -ffunction-sections -fdata-sections -ffile-prefix-map=$root=. -ffile-prefix-map=$prefix=."
  say "building Bitpress for $arch"
  logged "$arch-configure" cmake -S . -B "$work/$arch/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_TOOLCHAIN_FILE="$root/$here/toolchain.cmake" -DBITPRESS_ARCH="$arch" -DBITPRESS_COMPILERS="$work/$arch/compilers" \
    -DCMAKE_FIND_ROOT_PATH="$prefix" -DONNX_ROOT="$prefix" -DProtobuf_PROTOC_EXECUTABLE="$(command -v protoc)" \
    -DONNXRUNTIME_INCLUDE_DIR="$(onnxruntime_headers)" -DBITPRESS_RELOCATABLE=ON -DBITPRESS_TESTS=OFF \
    -DBITPRESS_PCH=OFF -DBITPRESS_PYTHON_HEADERS="$work/python/usr/include" -Dnanobind_ROOT="$("$venv/bin/python" -m nanobind --cmake_dir)" \
    "-DCMAKE_C_FLAGS=$flags" "-DCMAKE_CXX_FLAGS=$flags" "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG" \
    "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--gc-sections -s" "-DCMAKE_SHARED_LINKER_FLAGS=-Wl,--gc-sections -s" "-DCMAKE_MODULE_LINKER_FLAGS=-Wl,--gc-sections -s"
  logged "$arch-build" cmake --build "$work/$arch/build" \
    --target bitpress bitpress_operator_library bitpress_python_cp311 bitpress_python_abi3
}

# The description of the module for type checkers and the functions with its options are the same for all wheels. They are written by importing the module, so that one of
# this machine's processor and Python is taken.
stub() {
  local -r modules=$work/$(uname -m)/build/modules raw=$work/stub
  local module=$modules/abi3
  if ! [ -d "$modules" ]; then
    compilers "$(uname -m)"
    dependencies "$(uname -m)"
    programs "$(uname -m)"
  fi
  "$deps/venv/bin/python" -c 'import sys; sys.exit(sys.version_info >= (3, 12))' && module=$modules/cp311
  rm -rf "$raw" && mkdir "$raw"
  logged stub "$deps/venv/bin/python" -m nanobind.stubgen -q -i "$module" -m _native -O "$raw"
  cmake -DFROM="$raw/_native.pyi" -DTO="$work/_native.pyi" -P python/strict_stub.cmake
  "$deps/venv/bin/python" python/make_functions.py python/quantize.py.in "$work/_quantize.py" --modules "$module"
}

# wheel ARCH ABI TAGS: packs what was built.
wheel() {
  local -r arch=$1 abi=$2 tags=$3 stage=$work/$1/stage-$2
  rm -rf "$stage" && mkdir -p "$stage/python/bitpress" "$stage/dist-info"
  cp "$work/$arch/build/bitpress" "$work/$arch/build/libbitpress_ops.so" "$stage"
  cp "$work/$arch/build/modules/$abi"/_native.*.so "$work/_native.pyi" "$work/_quantize.py" "$stage/python/bitpress"
  "$venv/bin/python" $here/contents.py "$version" "$work/sources" "$(echo "$venv"/lib/python3*/site-packages)" "$onnx_site" "$stage/dist-info"
  # Its tags come afterwards: they are those of the compilers, not of this machine.
  logged "$arch-$abi-wheel" "$venv/bin/python" -m pip wheel --no-build-isolation --no-deps --no-index --wheel-dir "$stage/plain" \
    --config-settings "cmake.define.BITPRESS_PREBUILT=$stage" --config-settings "build-dir=$stage/build" .
  rm -f build/wheels/bitpress-*-"$tags"-*"$arch".whl
  logged "$arch-$abi-tags" "$venv/bin/python" -m wheel tags --python-tag "${tags%-*}" --abi-tag "${tags#*-}" \
    --platform-tag "manylinux_${glibc/./_}_$arch" "$stage"/plain/*.whl
  mv "$stage"/plain/*manylinux*.whl build/wheels/
}

onnxruntime_headers() {
  local folder
  for folder in "${ONNXRUNTIME_ROOT:+$ONNXRUNTIME_ROOT/include}" /usr/include/onnxruntime "$deps/onnxruntime/include"; do
    [ -f "$folder/onnxruntime_cxx_api.h" ] && { echo "$folder"; return; }
  done
}

tools/setup/python.sh "$venv" $here/requirements.txt
$here/sources.sh "$work"
for arch in "$@"; do
  compilers "$arch"
  dependencies "$arch"
  programs "$arch"
done
stub
mkdir -p build/wheels
for arch in "$@"; do
  wheel "$arch" cp311 cp311-cp311
  wheel "$arch" abi3 cp312-abi3
done
for file in build/wheels/*.whl; do
  # auditwheel finds the oldest glibc that has all symbols, or names no manylinux if a library is missing in it.
  "$venv/bin/auditwheel" show "$file" >"$work/auditwheel.txt" || { cat "$work/auditwheel.txt" >&2; exit 1; }
  needed=$(grep -o '"manylinux_2_[0-9]*_' "$work/auditwheel.txt" | head -n 1 | tr -dc '0-9 _' | cut -d_ -f3)
  if [ -z "$needed" ] || [ "$needed" -gt "${glibc#2.}" ]; then
    cat "$work/auditwheel.txt" >&2
    say "${file##*/} needs more than its name says"
    exit 1
  fi
  (cd build/wheels && sha256sum "${file##*/}")
done
