#!/usr/bin/env bash
# Imports the wheel for Windows of Python 3.11 in Python for Windows, under Wine, and compares the bytes of a model that it writes, and the
# outputs of a session with our operators, with Linux'. Python for Windows comes in parts: the interpreter's DLL from the package panda3d,
# which ships it for programs that it freezes, and the standard library, which is the same for all systems, from this machine's 3.11.
# NumPy 1.26 is the last one that Wine 8 has all functions for. Needs ./dev windows, ./dev wheel win_amd64 and Python 3.11 here.
#
# usage: packaging/wheel/try_windows.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly python=$PWD/.deps/venv/bin/python home=$PWD/build/windows_python version=3.11
readonly wheel=$(echo build/wheels/bitpress-*-cp311-cp311-win_amd64.whl)
[ -f "$wheel" ] || { echo "error: there is no wheel $wheel: run ./dev wheel win_amd64" >&2; exit 1; }
readonly library=$("$python" -c 'import sys, sysconfig; print(sysconfig.get_path("stdlib") if sys.version_info[:2] == (3, 11) else "")')
[ -n "$library" ] || { echo "error: the standard library of Python $version is not on this machine" >&2; exit 1; }

if ! [ -f "$home/complete" ]; then
  echo "== making a Python for Windows in $home (once)"
  rm -rf "$home" && mkdir -p "$home"
  onnxruntime=$(sed -n 's/^onnxruntime==//p' tools/setup/requirements.txt)
  "$python" -m pip -q download -d "$home/wheels" --no-deps --only-binary=:all: --platform win_amd64 --python-version "$version" \
    panda3d==1.10.16 numpy==1.26.4 "onnxruntime==$onnxruntime"
  unzip -qoj "$home"/wheels/panda3d-*.whl 'deploy_libs/python311.dll' 'deploy_libs/VCRUNTIME140*.dll' -d "$home"
  unzip -qoj "$home"/wheels/panda3d-*.whl 'deploy_libs/*.pyd' 'deploy_libs/lib*.dll' -d "$home/DLLs"
  for name in numpy onnxruntime; do unzip -qo "$home/wheels/$name"-*.whl -d "$home/site"; done
  mkdir "$home/Lib" && (cd "$library" && tar -c --exclude=site-packages --exclude=test --exclude=__pycache__ .) | tar -x -C "$home/Lib"
  cat >"$home/python.c" <<'C'
#include <stdio.h>
#include <windows.h>
int main(int argc, char** argv) {
  HMODULE python = LoadLibraryA("python311.dll");
  if (python == NULL) return fprintf(stderr, "python311.dll: error %lu\n", GetLastError()), 1;
  return ((int (*)(int, char**))(void*)GetProcAddress(python, "Py_BytesMain"))(argc, argv);
}
C
  .deps/wheel/win_amd64/compilers/cc -O2 -g0 "$home/python.c" -o "$home/python.exe"
  touch "$home/complete"
fi

rm -rf "$home"/site/bitpress* && unzip -qo "$wheel" -d "$home/site"
# What is common to both systems runs here first.
"$python" packaging/wheel/try_windows.py make "$home"
export PYTHONHOME="Z:${home//\//\\}"
PYTHONPATH="$PYTHONHOME\\Lib;$PYTHONHOME\\DLLs;$PYTHONHOME\\site" tests/windows/wine.sh "$home/python.exe" -S -B \
  packaging/wheel/try_windows.py run "$home" </dev/null 2>&1 | grep -v "^Failed to create DXGI factory"
env -u PYTHONHOME "$python" packaging/wheel/try_windows.py compare "$home"
