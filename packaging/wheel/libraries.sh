#!/usr/bin/env bash
# libraries.sh DEPS TARGET [--tests]: compilers for a target and the libraries that Bitpress links there, in DEPS/wheel/TARGET/compilers and
# DEPS/wheel/TARGET/prefix. DEPS is the folder .deps/ that ./dev setup filled. Targets have the names of Python's platforms; nothing
# is shipped for win_arm64 and macosx_arm64, which can be compiled for, but not run here. --tests: GoogleTest, too.
set -euo pipefail
cd "$(dirname "$0")/../.."
deps=$(cd "${1:?usage: libraries.sh DEPS TARGET [--tests]}" && pwd)
readonly target=${2:?usage: libraries.sh DEPS TARGET [--tests]} tests=${3:-}
readonly root=$PWD here=packaging/wheel work=$deps/wheel venv=$deps/wheel-venv
readonly folder=$work/$target prefix=$work/$target/prefix
say() { printf '== %s\n' "$*" >&2; }

case $target in
  x86_64 | aarch64) triple=$target-linux-gnu.2.28 ;;  # the glibc that the tag manylinux_2_28 names
  win_amd64) triple=x86_64-windows-gnu ;;
  win_arm64) triple=aarch64-windows-gnu ;;
  macosx_arm64) triple=aarch64-macos ;;
  *) say "libraries.sh: the targets are x86_64, aarch64, win_amd64, win_arm64 and macosx_arm64, not '$target'"; exit 2 ;;
esac

# logged NAME COMMAND...: shows the output only if it fails.
logged() {
  local -r log=$work/$target-$1.log
  shift
  "$@" >"$log" 2>&1 || { tail -n 60 "$log" >&2; say "failed; the whole output: $log"; exit 1; }
}

# CMake wants one file for each compiler. Zig adds checks and a cache of its own to Clang.
compilers() {
  local tool
  mkdir -p "$folder/compilers"
  echo "$triple" >"$folder/compilers/triple"
  for tool in cc c++; do
    printf '#!/bin/sh\nexec %s/bin/python -m ziglang %s -target %s "$@"\n' "$venv" "$tool" "$triple" >"$folder/compilers/$tool"
  done
  for tool in ar ranlib dlltool; do
    printf '#!/bin/sh\nexec %s/bin/python -m ziglang %s "$@"\n' "$venv" "$tool" >"$folder/compilers/$tool"
  done
  # libpng and others have a resource that names their version; Clang's compiler of resources takes the names of GNU's arguments.
  printf '#!/bin/sh\nexec %s/bin/python -m ziglang rc "$@"\n' "$venv" >"$folder/compilers/rc"
  chmod +x "$folder"/compilers/*
}

# The sources that are newer than the libraries make them anew.
libraries() {
  local -r onnx_site=$(echo "$deps"/venv/lib/python3*/site-packages)
  local -r key=$(cat $here/requirements.txt $here/libraries.sh cmake/toolchains/zig.cmake $here/dependencies/CMakeLists.txt \
    cmake/onnx/CMakeLists.txt "$deps/onnx/version" "$work"/sources/*/DEBIAN_VERSION | sha256sum)
  [ "$(cat "$prefix/key" 2>/dev/null)" = "$key$tests" ] && return
  [ -z "$tests" ] && [ "$(cat "$prefix/key" 2>/dev/null)" = "$key--tests" ] && return
  say "building the libraries for $target (once, some minutes)"
  rm -rf "$prefix"
  logged dependencies-configure cmake -S $here/dependencies -B "$folder/dependencies" -G Ninja \
    -DCMAKE_TOOLCHAIN_FILE="$root/cmake/toolchains/zig.cmake" -DBITPRESS_COMPILERS="$folder/compilers" -DTESTS="$tests" \
    -DCMAKE_INSTALL_PREFIX="$prefix" -DSOURCES="$work/sources" -DONNX_SOURCE_DIR="$onnx_site" -DPROTOC="$(command -v protoc)"
  logged dependencies cmake --build "$folder/dependencies" -j "${JOBS:-$(nproc)}"
  mkdir -p "$prefix/include/stb"
  cp "$work"/sources/libstb-*/stb_image_resize.h "$prefix/include/stb/"
  rm -rf "$folder/dependencies"
  echo "$key$tests" >"$prefix/key"
}

tools/setup/python.sh "$venv" $here/requirements.txt
$here/sources.sh "$work" $([ "$target" != win_amd64 ] || echo --windows)
compilers
libraries
