#!/usr/bin/env bash
# wine.sh PROGRAM.exe [ARGUMENT...]: runs a program for Windows with Wine, in the folder build/wine as its C: drive. What lies on this
# machine is its Z: drive, so that a path from the root means the same file for the program, and keeps its name in messages.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export WINEPREFIX=$root/build/wine WINEDEBUG=${WINEDEBUG:--all} WINEDLLOVERRIDES="mscoree,mshtml="
if ! [ -f "$WINEPREFIX/ready" ]; then
  mkdir -p "$WINEPREFIX"
  {
    wineboot --init
    # Wine 8 is Windows 7 unless told otherwise, which neither Bitpress nor Python runs on.
    wine reg add 'HKCU\Software\Wine' /v Version /d win10 /f
    wineserver --wait
  } >"$WINEPREFIX/setup.log" 2>&1 </dev/null
  touch "$WINEPREFIX/ready"
fi
exec wine "$@"
