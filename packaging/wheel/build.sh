#!/usr/bin/env bash
# build.sh DEPS TARGET...: wheels for x86_64 or aarch64 (Linux) or win_amd64 in build/wheels/: one for Python 3.11, one for 3.12 and later.
# `./dev wheel` calls it after a build for this machine, whose descriptions of the module all of them hold. DEPS is the folder .deps/ that
# ./dev setup filled; what wheels need besides goes to DEPS/wheel.
set -euo pipefail
cd "$(dirname "$0")/../.."
deps=$(cd "${1:?usage: build.sh DEPS TARGET...}" && pwd)
shift
readonly here=packaging/wheel work=$deps/wheel glibc=2.28  # libraries.sh names it, too
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

# programs TARGET: the program, the operator library and the two modules, in build/cross/TARGET.
programs() {
  $here/configure.sh "$deps" "$1"
  say "building Bitpress for $1"
  logged "$1-build" cmake --build "build/cross/$1" -j "${JOBS:-$(nproc)}" \
    --target bitpress bitpress_operator_library bitpress_python_cp311 bitpress_python_abi3
}

# wheel TARGET ABI TAGS: packs what was built.
wheel() {
  local -r target=$1 abi=$2 tags=$3 stage=$work/$1/stage-$2 build=build/cross/$1
  local platform=manylinux_${glibc/./_}_$1 files=(bitpress libbitpress_ops.so)
  [ "$target" != win_amd64 ] || { platform=win_amd64; files=(bitpress.exe bitpress_ops.dll); }
  rm -rf "$stage" && mkdir -p "$stage/python/bitpress" "$stage/dist-info"
  cp "${files[@]/#/$build/}" "$stage"
  cp "$build/modules/$abi"/_native.* build/python/bitpress/{_native.pyi,_quantize.py} "$stage/python/bitpress"
  "$venv/bin/python" $here/contents.py "$version" "$work/sources" "$(echo "$venv"/lib/python3*/site-packages)" "$onnx_site" "$stage/dist-info"
  # Its tags come afterwards: they are those of the compilers, not of this machine.
  logged "$target-$abi-wheel" "$venv/bin/python" -m pip wheel --no-build-isolation --no-deps --no-index --wheel-dir "$stage/plain" \
    --config-settings "cmake.define.BITPRESS_PREBUILT=$stage" --config-settings "build-dir=$stage/build" .
  rm -f build/wheels/bitpress-*-"$tags"-*"$target".whl
  logged "$target-$abi-tags" "$venv/bin/python" -m wheel tags --python-tag "${tags%-*}" --abi-tag "${tags#*-}" \
    --platform-tag "$platform" "$stage"/plain/*.whl
  mv "$stage"/plain/*"$platform".whl build/wheels/
}

# check_linux FILE: auditwheel finds the oldest glibc that has all symbols, or names no manylinux if a library is missing in it.
check_linux() {
  "$venv/bin/auditwheel" show "$1" >"$work/auditwheel.txt" || { cat "$work/auditwheel.txt" >&2; exit 1; }
  local -r needed=$(grep -o '"manylinux_2_[0-9]*_' "$work/auditwheel.txt" | head -n 1 | tr -dc '0-9 _' | cut -d_ -f3)
  if [ -z "$needed" ] || [ "$needed" -gt "${glibc#2.}" ]; then
    cat "$work/auditwheel.txt" >&2
    say "${1##*/} needs more than its name says"
    exit 1
  fi
}

for target in "$@"; do programs "$target"; done
mkdir -p build/wheels
for target in "$@"; do
  wheel "$target" cp311 cp311-cp311
  wheel "$target" abi3 cp312-abi3
done
for file in build/wheels/*.whl; do
  case $file in
    *win_amd64.whl) "$venv/bin/python" $here/windows_imports.py "$file" ;;
    *) check_linux "$file" ;;
  esac
  (cd build/wheels && sha256sum "${file##*/}")
done
