#!/usr/bin/env bash
# The Debian packages Bitpress builds and tests with; `--missing` prints only those that are not installed.
set -euo pipefail
# The sources follow version 14 of clang-format, which these releases have beside others or as their own.
format=clang-format
[ -f /etc/os-release ] && case $(. /etc/os-release; echo "${ID:-}-${VERSION_CODENAME:-}") in
  debian-bookworm | ubuntu-jammy | ubuntu-noble) format=clang-format-14 ;;
esac
packages=(
  g++ cmake ninja-build python3 python3-venv python3-dev unzip ca-certificates git
  "$format"         # ./dev format, and the formatting test
  binutils          # objdump, for the tests without VNNI
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
