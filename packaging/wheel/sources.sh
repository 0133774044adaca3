#!/usr/bin/env bash
# sources.sh DEPS [--windows]: what wheels are linked from, in DEPS: sources/ (Debian's source packages with their patches) and python/
# (headers of CPython). --windows: CPython for Windows, too, in python-windows/VERSION/. All are fetched once.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
deps=${1:?usage: sources.sh DEPS [--windows]}
with_windows=${2:-}
readonly private_apt=$here/../../tools/setup/private_apt.sh suite=bookworm
readonly packages=(zlib libpng1.6 libjpeg-turbo libzip highway fmtlib protobuf nlohmann-json3 cli11 eigen3 libstb)
mkdir -p "$deps"
cd "$deps"

# fetch PACKAGE: its newest version that is to be had. A mirror may lag behind its own list.
fetch() {
  local version
  for version in $(apt-cache showsrc "$1" | sed -n 's/^Version: //p' | sort -rVu); do
    # Debian's libraries are called by names with a version; the folder is called by the package alone.
    if apt-get -qq source --download-only "$1=$version" >"$1.log" 2>&1; then
      rm -rf "$1"-[0-9]*
      dpkg-source --no-check -x "$1"_*.dsc "$1-${version#*:}" >>"$1.log" 2>&1
      echo "$version" >"$1-${version#*:}/DEBIAN_VERSION"
      rm -f "$1"_*
      return
    fi
    echo "sources.sh: $1 $version is listed but cannot be fetched: taking an older one" >&2
    rm -f "$1"_*
  done
  cat "$1.log" >&2
  return 1
}

if ! [ -f sources/complete ]; then
  echo "== fetching the sources of the libraries in a wheel" >&2
  "$private_apt" apt deb-src $suite $suite-updates $suite-security
  export APT_CONFIG=$PWD/apt/apt.conf
  rm -rf sources && mkdir sources
  cd sources
  for package in "${packages[@]}"; do fetch "$package"; done
  rm -f ./*.log
  cd ..
  touch sources/complete
fi

# python_headers SUITE VERSION: they are the same for every processor but for pyconfig.h, whose parts for each lie side by side.
python_headers() {
  "$private_apt" apt deb "$1"
  local -r apt=(env "APT_CONFIG=$PWD/apt/apt.conf" apt-get -qq -o APT::Architectures::=amd64 -o APT::Architectures::=arm64)
  "${apt[@]}" update
  local architecture
  for architecture in amd64 arm64; do
    (cd python && "${apt[@]}" download "libpython$2-dev:$architecture" && dpkg-deb -x "libpython$2-dev"_*.deb . && rm ./*.deb)
  done
}
if ! [ -f python/complete ]; then
  echo "== fetching the headers of Python" >&2
  rm -rf python && mkdir python
  python_headers bookworm 3.11  # of its own, as the last one without the stable ABI that nanobind needs
  python_headers trixie 3.13    # for the stable ABI of 3.12 and later
  touch python/complete
fi

# python_for_windows SUITE VERSION: headers, the names that the library of the stable ABI exports, and the modules in Python. Debian has no
# Python for Windows, but the whole sources of its own.
python_for_windows() {
  local -r to=$PWD/python-windows/$2
  mkdir -p "$to/sources"
  "$private_apt" apt deb-src "$1"
  (export APT_CONFIG=$PWD/apt/apt.conf; cd "$to/sources" && fetch "python$2")
  cp -r "$to"/sources/*/Include "$to/include"
  cp "$to"/sources/*/PC/pyconfig.h* "$to/include/pyconfig.h"
  cp -r "$to"/sources/*/PC/python3dll.c "$to"/sources/*/Lib "$to/"
  rm -rf "$to/sources" "$to/Lib/test" "$to/Lib/idlelib"
}
if [ "$with_windows" = --windows ] && ! [ -f python-windows/complete ]; then
  echo "== fetching the sources of Python" >&2
  rm -rf python-windows && mkdir python-windows
  python_for_windows bookworm 3.11
  python_for_windows trixie 3.13
  touch python-windows/complete
fi
rm -rf apt
