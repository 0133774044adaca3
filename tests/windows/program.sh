#!/usr/bin/env bash
# program.sh ARGUMENT...: bitpress.exe under Wine, as the program of the end-to-end tests (BITPRESS_PROGRAM). A line of ONNX Runtime for
# Windows goes: it looks for graphics cards, of which Wine has none without a screen.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=${BITPRESS_WINDOWS_DIR:-$here/../../build/cross/win_amd64}/bitpress.exe
{
  "$here/wine.sh" "$program" "$@" 2>&1 >&3 3>&- | sed '/^Failed to create DXGI factory\.\r\?$/d' >&2
  exit "${PIPESTATUS[0]}"
} 3>&1
