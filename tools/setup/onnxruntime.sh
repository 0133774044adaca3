#!/usr/bin/env bash
# onnxruntime.sh DEPS VENV: DEPS/onnxruntime/{include,lib} unless the system has libonnxruntime-dev or ONNXRUNTIME_ROOT is set.
# The library is the one inside the Python wheel of VENV; the headers come from Debian's libonnxruntime-dev of a later
# release, unpacked without being installed. Their API version is older than the library's, which ONNX Runtime supports.
set -euo pipefail
deps=${1:?usage: onnxruntime.sh DEPS VENV}
venv=${2:?usage: onnxruntime.sh DEPS VENV}
[ -n "${ONNXRUNTIME_ROOT:-}" ] && exit 0
[ -f /usr/include/onnxruntime/onnxruntime_cxx_api.h ] && exit 0
dest=$deps/onnxruntime
wheel_lib=$(echo "$venv"/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*)
[ -f "$wheel_lib" ] || { echo "onnxruntime.sh: no libonnxruntime in $venv" >&2; exit 1; }
mkdir -p "$dest/lib"
ln -sfn "$wheel_lib" "$dest/lib/libonnxruntime.so.1"
ln -sfn libonnxruntime.so.1 "$dest/lib/libonnxruntime.so"
[ -f "$dest/include/onnxruntime_cxx_api.h" ] && exit 0

echo "== fetching the ONNX Runtime headers" >&2
suite=trixie
. /etc/os-release
# A private apt state: the machine's own sources, lists, pins and packages stay as they are.
state=$dest/apt
rm -rf "$state" && mkdir -p "$state"/{lists/partial,cache/archives/partial,sources}
for file in /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list /etc/apt/sources.list; do
  [ -f "$file" ] || continue
  case $file in
    *.sources)  # deb822: the first stanza that offers this release, with only suite and components changed
      awk -v RS= -v codename="$VERSION_CODENAME" -v suite="$suite" '
        $0 ~ "(^|\n)Suites:[^\n]*[ \t]" codename "([ \t\n]|$)" {
          gsub(/(^|\n)#[^\n]*/, ""); sub(/^\n/, "")
          sub(/Suites:[^\n]*/, "Suites: " suite); sub(/Components:[^\n]*/, "Components: main"); print; exit }' \
        "$file" >"$state/sources/x.sources" ;;
    *)
      awk -v codename="$VERSION_CODENAME" -v suite="$suite" '
        $1 == "deb" { for (i = 2; i <= NF; i++) if ($i == codename) {
          $i = suite; line = ""; for (j = 1; j <= i; j++) line = line $j " "; print line "main"; exit } }' \
        "$file" >"$state/sources/x.list" ;;
  esac
  grep -qs . "$state"/sources/x.* && break
  rm -f "$state"/sources/x.*
done
grep -qs . "$state"/sources/x.* || { echo "onnxruntime.sh: no apt source for $VERSION_CODENAME found" >&2; exit 1; }
state=$(cd "$state" && pwd)
apt=(apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$state/sources" -o Dir::Etc::preferences=/dev/null
  -o Dir::Etc::preferencesparts=/dev/null -o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache"
  -o Dir::State::status=/dev/null -o Acquire::Languages=none -o "APT::Sandbox::User=$(id -un)"
  -o APT::Update::Post-Invoke-Success::= -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false)
"${apt[@]}" update
(cd "$state" && "${apt[@]}" download libonnxruntime-dev)
dpkg-deb -x "$state"/libonnxruntime-dev_*.deb "$state/unpacked"
rm -rf "$dest/include"
mv "$state/unpacked/usr/include/onnxruntime" "$dest/include"
rm -rf "$state"
