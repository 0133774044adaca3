#!/usr/bin/env bash
# The Debian packages Bitpress builds and tests with; `--missing` prints only those that are not installed.
set -euo pipefail
packages=(
  g++ cmake ninja-build python3 python3-venv python3-dev unzip ca-certificates git
  clang-format      # ./dev format, and the formatting test
  libprotobuf-dev protobuf-compiler   # ONNX files
  libhwy-dev        # SIMD with dynamic dispatch
  nlohmann-json3-dev libcli11-dev libfmt-dev
  libeigen3-dev     # factorizations in fine-tuning
  libturbojpeg0-dev libpng-dev libstb-dev libzip-dev   # photos and .npz in `evaluate`
  libgtest-dev libgmock-dev libbenchmark-dev
)
if [ "${1:-}" = --missing ]; then
  command -v dpkg-query >/dev/null || { printf '%s\n' "${packages[@]}"; exit 0; }
  for package in "${packages[@]}"; do
    [ "$package" = python3 ] || [ "$package" = python3-venv ] && python3 -c 'import venv, ensurepip' 2>/dev/null && continue
    [ "$package" = python3-dev ] && python3 -c 'import pathlib, sysconfig; pathlib.Path(sysconfig.get_path("include"), "Python.h").stat()' 2>/dev/null && continue
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || echo "$package"
  done
else
  printf '%s\n' "${packages[@]}"
fi
