#!/usr/bin/env bash
# wine.sh PROGRAM.exe [ARGUMENT...]: runs a program for Windows with Wine, in the folder build/wine as its C: drive. What lies on this
# machine is its Z: drive, so that a path from the root means the same file for the program, and keeps its name in messages.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# Without winedbg.exe a program that crashes ends at once, with the code of its exception.
export WINEPREFIX=${here%/tests/windows}/build/wine WINEDEBUG=${WINEDEBUG:--all} WINEDLLOVERRIDES="mscoree,mshtml,winedbg.exe="

setup() {
  wineboot --init
  # Wine 8 is Windows 7 unless told otherwise, which neither Bitpress nor Python runs on.
  wine reg add 'HKCU\Software\Wine' /v Version /d win10 /f
  wineserver --wait
  cc -O2 -shared -fPIC -o "$WINEPREFIX/tiles.so" "$here/tiles.c"
}

if ! [ "$WINEPREFIX/ready" -nt "$here/tiles.c" ]; then
  mkdir -p "$WINEPREFIX"
  exec 9>"$WINEPREFIX/lock"
  flock 9  # tests run side by side
  if ! [ "$WINEPREFIX/ready" -nt "$here/tiles.c" ]; then
    setup >"$WINEPREFIX/setup.log" 2>&1 </dev/null 9>&-
    touch "$WINEPREFIX/ready"
  fi
  exec 9>&-
fi
LD_PRELOAD=$WINEPREFIX/tiles.so exec wine "$@"
