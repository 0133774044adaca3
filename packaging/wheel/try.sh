#!/usr/bin/env bash
# Installs a wheel of build/wheels/ in a bare Debian, one of Python and nothing else, and runs the tour of the documentation there.
# Needs root and the package debootstrap. For another processor it needs qemu-user-static, and a kernel that knows it:
#   mount -t binfmt_misc none /proc/sys/fs/binfmt_misc; cat /usr/lib/binfmt.d/qemu-aarch64.conf > /proc/sys/fs/binfmt_misc/register
#
# usage: packaging/wheel/try.sh [SUITE[/ARCH]...]     default: bookworm trixie; for example bookworm/arm64
#
# A base is made once, in build/roots/, and each run works on a copy. The packages that pip installs beside Bitpress are downloaded
# here: the base needs no network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly wheels="$PWD/build/wheels" roots="$PWD/build/roots" python="$PWD/.deps/venv/bin/python"

# make_base SUITE ARCH FOLDER
make_base() {
  echo "== making a bare Debian $1 for $2 (once, some minutes)"
  rm -rf "$3"
  mkdir -p "$roots"
  debootstrap --arch="$2" --variant=minbase --include=python3,python3-venv "$1" "$3.part" > "$3.log" 2>&1 || { tail -5 "$3.log" >&2; exit 1; }
  mv "$3.part" "$3"
}

# try_in SUITE/ARCH
try_in() {
  local suite="${1%/*}" arch="${1#*/}"
  [[ "$arch" != "$1" ]] || arch="$(dpkg --print-architecture)"
  local base="$roots/$suite-$arch" root="$roots/$suite-$arch.try" machine version tag wheel
  [[ -d "$base" ]] || make_base "$suite" "$arch" "$base"
  rm -rf "$root"
  cp -a --reflink=auto "$base" "$root"
  if chroot "$root" sh -c 'command -v cc || command -v gcc || command -v clang'; then
    echo "error: $base has a compiler, and so proves nothing" >&2
    exit 1
  fi
  machine="$(chroot "$root" python3 -c 'import platform; print(platform.machine())')"
  version="$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
  [[ "$version" == 3.11 ]] && tag=cp311-cp311 || tag=cp312-abi3
  wheel="$(echo "$wheels"/bitpress-*-"$tag"-*_"$machine".whl)"
  [[ -f "$wheel" ]] || { echo "error: there is no wheel $wheel: run ./dev wheel" >&2; exit 1; }
  echo "== $suite on $machine, Python $version: $(basename "$wheel")"
  mkdir "$root/opt/wheels" "$root/opt/tour"
  "$python" -m pip -q download -d "$root/opt/wheels" --only-binary=:all: --python-version "$version" --implementation cp \
    --abi "cp${version/./}" --abi abi3 --abi none --platform "manylinux_2_28_$machine" --platform "manylinux_2_27_$machine" \
    --platform "manylinux_2_17_$machine" --platform "manylinux2014_$machine" --platform any "$wheel[text]"
  cp "$wheel" "$root/opt/wheels/"
  cp docs/tour.md tests/tour/tour.py "$root/opt/"
  "$python" tests/tour/tour_inputs.py "$root/opt/tour"
  unshare --mount --pid --fork --mount-proc="$root/proc" \
    chroot "$root" env -i PATH=/opt/venv/bin:/usr/bin:/bin HOME=/root LANG=C.UTF-8 sh -euc "
      python3 -m venv /opt/venv
      pip -q install --no-index --find-links /opt/wheels '/opt/wheels/$(basename "$wheel")[text]'
      pip list
      bitpress doctor
      python /opt/tour.py /opt/tour.md /opt/tour"
  rm -rf "$root"
}

if [[ $# -eq 0 ]]; then set -- bookworm trixie; fi
for base in "$@"; do try_in "$base"; done
