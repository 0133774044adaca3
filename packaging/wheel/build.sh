#!/usr/bin/env bash
# build.sh DEPS TARGET...: wheels for x86_64 or aarch64 (Linux) or win_amd64 in build/wheels/: one for Python 3.11, one for 3.12 and later.
# `./dev wheel` calls it after a build for this machine, whose descriptions of the module all of them hold. DEPS is the folder .deps/ that
# ./dev setup filled; what wheels need besides goes to DEPS/wheel.
set -euo pipefail
cd "$(dirname "$0")/../.."
deps=$(cd "${1:?usage: build.sh DEPS TARGET...}" && pwd)
shift
readonly root=$PWD here=packaging/wheel work=$deps/wheel glibc=2.28  # libraries.sh names it, too
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

# Python's own libraries for Windows are not to be had here; what their names are is.
import_library() {
  local -r python=$work/python-windows/$1 library=$2
  "$venv/bin/python" $here/python_exports.py "$python" "$library.dll" >"$python/$library.def"
  "$venv/bin/python" -m ziglang dlltool -m i386:x86-64 -d "$python/$library.def" -l "$python/$library.lib"
}

# programs TARGET: the program, the operator library and the two modules, in WORK/TARGET/build.
programs() {
  local -r target=$1 prefix=$work/$1/prefix
  local headers=$work/python/usr/include
  $here/libraries.sh "$deps" "$target"
  if [ "$target" = win_amd64 ]; then
    headers=$work/python-windows
    import_library 3.11 python311
    import_library 3.13 python3
  fi
  local -r flags="-g0 -ffunction-sections -fdata-sections -ffile-prefix-map=$root=. -ffile-prefix-map=$prefix=." link="-Wl,--gc-sections -s"
  say "building Bitpress for $target"
  # -s at the link leaves out symbols and what else depends on paths.
  logged "$target-configure" cmake -S . -B "$work/$target/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_TOOLCHAIN_FILE="$root/cmake/toolchains/zig.cmake" -DBITPRESS_COMPILERS="$work/$target/compilers" \
    -DCMAKE_FIND_ROOT_PATH="$prefix" -DONNX_ROOT="$prefix" -DProtobuf_PROTOC_EXECUTABLE="$(command -v protoc)" \
    -DONNXRUNTIME_INCLUDE_DIR="$(onnxruntime_headers)" -DBITPRESS_RELOCATABLE=ON -DBITPRESS_TESTS=OFF \
    -DBITPRESS_PCH=OFF -DBITPRESS_PYTHON_HEADERS="$headers" -Dnanobind_ROOT="$("$venv/bin/python" -m nanobind --cmake_dir)" \
    "-DCMAKE_C_FLAGS=$flags" "-DCMAKE_CXX_FLAGS=$flags" "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG" \
    "-DCMAKE_EXE_LINKER_FLAGS=$link" "-DCMAKE_SHARED_LINKER_FLAGS=$link" "-DCMAKE_MODULE_LINKER_FLAGS=$link"
  logged "$target-build" cmake --build "$work/$target/build" -j "${JOBS:-$(nproc)}" \
    --target bitpress bitpress_operator_library bitpress_python_cp311 bitpress_python_abi3
}

# wheel TARGET ABI TAGS: packs what was built.
wheel() {
  local -r target=$1 abi=$2 tags=$3 stage=$work/$1/stage-$2
  local platform=manylinux_${glibc/./_}_$1 files=(bitpress libbitpress_ops.so)
  [ "$target" != win_amd64 ] || { platform=win_amd64; files=(bitpress.exe bitpress_ops.dll); }
  rm -rf "$stage" && mkdir -p "$stage/python/bitpress" "$stage/dist-info"
  cp "${files[@]/#/$work/$target/build/}" "$stage"
  cp "$work/$target/build/modules/$abi"/_native.* build/python/bitpress/{_native.pyi,_quantize.py} "$stage/python/bitpress"
  "$venv/bin/python" $here/contents.py "$version" "$work/sources" "$(echo "$venv"/lib/python3*/site-packages)" "$onnx_site" "$stage/dist-info"
  # Its tags come afterwards: they are those of the compilers, not of this machine.
  logged "$target-$abi-wheel" "$venv/bin/python" -m pip wheel --no-build-isolation --no-deps --no-index --wheel-dir "$stage/plain" \
    --config-settings "cmake.define.BITPRESS_PREBUILT=$stage" --config-settings "build-dir=$stage/build" .
  rm -f build/wheels/bitpress-*-"$tags"-*"$target".whl
  logged "$target-$abi-tags" "$venv/bin/python" -m wheel tags --python-tag "${tags%-*}" --abi-tag "${tags#*-}" \
    --platform-tag "$platform" "$stage"/plain/*.whl
  mv "$stage"/plain/*"$platform".whl build/wheels/
}

onnxruntime_headers() {
  local folder
  for folder in "${ONNXRUNTIME_ROOT:+$ONNXRUNTIME_ROOT/include}" /usr/include/onnxruntime "$deps/onnxruntime/include"; do
    [ -f "$folder/onnxruntime_cxx_api.h" ] && { echo "$folder"; return; }
  done
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
