#!/usr/bin/env bash
# source_package.sh DEPS: Debian's source package of the newest commit, in build/deb/. `./dev deb` calls it and builds the packages.
# DEPS is the folder .deps/ that ./dev setup filled: ONNX's sources and ONNX Runtime's headers become tarballs of their own.
set -euo pipefail
cd "$(dirname "$0")/../.."
deps=$(cd "${1:?usage: source_package.sh DEPS}" && pwd)
readonly version=$(sed -n 's/^project(bitpress VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
readonly site=$(echo "$deps"/venv/lib/python3*/site-packages) to=$PWD/build/deb
# The time of the newest commit stands for the time of the build, so that the same sources give the same bytes.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

[ "$(sed -n '1s/^bitpress (\(.*\)-.*/\1/p' packaging/debian/changelog)" = "$version" ] ||
  { echo "source_package.sh: packaging/debian/changelog does not begin with version $version" >&2; exit 1; }
headers=/usr/include/onnxruntime
[ -f "$headers/onnxruntime_cxx_api.h" ] || headers=$deps/onnxruntime/include

rm -rf "$to"
mkdir -p "$to/onnx-parts" "$to/onnxruntime-parts/include"
# packed NAME FOLDER: the folder as one of the package's tarballs.
packed() {
  tar --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw --mtime="@$SOURCE_DATE_EPOCH" -C "$to" -cf - "$2" | gzip -9n >"$to/bitpress_$version.orig$1.tar.gz"
  rm -rf "${to:?}/$2"
}
(cd "$site" && find onnx '(' -name '*.cc' -o -name '*.h' -o -name '*.proto' ')' -not -path '*/test/*' -exec cp --parents -t "$to/onnx-parts" {} +)
cp "$site"/onnx-*.dist-info/licenses/LICENSE "$to/onnx-parts"
packed -onnx onnx-parts
cp -L "$headers"/*.h "$to/onnxruntime-parts/include"
cp "$site/onnxruntime/LICENSE" "$to/onnxruntime-parts"
packed -onnxruntime onnxruntime-parts
git archive --prefix="bitpress-$version/" HEAD | gzip -9n >"$to/bitpress_$version.orig.tar.gz"

tree=$to/bitpress-$version
tar -C "$to" -xf "$to/bitpress_$version.orig.tar.gz"
for part in onnx onnxruntime; do
  mkdir "$tree/$part"
  tar -C "$tree/$part" --strip-components=1 -xf "$to/bitpress_$version.orig-$part.tar.gz"
done
cp -r "$tree/packaging/debian" "$tree/debian"
rm "$tree/debian/source_package.sh"
(cd "$to" && dpkg-source -b "bitpress-$version")
