"""contents.py VERSION SOURCES BUILD_SITE ONNX_SITE TO: what a wheel says of the libraries inside, in the folder TO of its metadata.

licenses/third_party/ gets their licence texts, sboms/bitpress.cdx.json a list of them (CycloneDX, where PEP 770 looks for it).
SOURCES holds Debian's source packages; the SITE folders are site-packages with nanobind and ziglang, and with onnx and
onnxruntime. The same versions give the same bytes.
"""

import json
import pathlib
import re
import sys
import uuid
from importlib import metadata

# Source package: licence. The texts that say "or" leave the choice to us.
DEBIAN = {
    "cli11": ("BSD-3-Clause", "LICENSE"),
    "eigen3": ("MPL-2.0", "COPYING.MPL2"),
    "fmtlib": ("MIT", "LICENSE.rst"),
    "highway": ("Apache-2.0", "LICENSE"),
    "libjpeg-turbo": ("IJG AND BSD-3-Clause AND Zlib", "LICENSE.md"),
    "libpng1.6": ("libpng-2.0", "LICENSE"),
    "libstb": ("MIT OR Unlicense", "LICENSE"),
    "libzip": ("BSD-3-Clause", "LICENSE"),
    "nlohmann-json3": ("MIT", "LICENSE.MIT"),
    "protobuf": ("BSD-3-Clause", "LICENSE"),
    "zlib": ("Zlib", "LICENSE"),
}
# Package, where it lies: licence, text below site-packages. Of ziglang the C++ library and its run-time parts are linked in.
PYPI = {
    ("onnx", "onnx"): ("Apache-2.0", "onnx-{version}.dist-info/licenses/LICENSE"),
    ("onnxruntime", "onnx"): ("MIT", "onnxruntime/LICENSE"),
    ("nanobind", "build"): ("BSD-3-Clause", "nanobind-{version}.dist-info/licenses/LICENSE"),
    ("ziglang", "build"): ("MIT AND Apache-2.0 WITH LLVM-exception", "ziglang/lib/libcxx/LICENSE.TXT"),
}


def debian_parts(sources: pathlib.Path):
    for name, (licence, file) in DEBIAN.items():
        (folder,) = sources.glob(f"{name}-[0-9]*")
        version = (folder / "DEBIAN_VERSION").read_text().strip()
        yield name, version, licence, f"pkg:deb/debian/{name}@{version}?arch=source", (folder / file).read_text(encoding="utf-8")


def pypi_parts(sites: dict):
    for (name, site), (licence, file) in PYPI.items():
        (found,) = metadata.distributions(name=name, path=[str(sites[site])])
        text = (sites[site] / file.format(version=found.version)).read_text(encoding="utf-8")
        yield name, found.version, licence, f"pkg:pypi/{name}@{found.version}", text
        if name == "nanobind":
            header = (sites[site] / "nanobind/ext/robin_map/include/tsl/robin_map.h").read_text(encoding="utf-8")
            text = re.match(r"/\*\*(.*?)\*/", header, re.DOTALL)[1]
            yield "robin-map", found.version, "MIT", f"pkg:pypi/{name}@{found.version}#ext/robin_map", re.sub(r"(?m)^ \* ?", "", text)


def main() -> None:
    version, sources, build_site, onnx_site, to = sys.argv[1], *map(pathlib.Path, sys.argv[2:])
    licences = to / "licenses" / "third_party"
    licences.mkdir(parents=True)
    components = []
    for name, part_version, licence, purl, text in (*debian_parts(sources), *pypi_parts({"build": build_site, "onnx": onnx_site})):
        (licences / f"{name}.txt").write_text(text, encoding="utf-8")
        components.append({"type": "library", "bom-ref": purl, "name": name, "version": part_version,
                           "licenses": [{"expression": licence}], "purl": purl})
    components.sort(key=lambda component: component["name"])
    product = f"pkg:pypi/bitpress@{version}"
    bill = {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([product, components]))}",
        "metadata": {"component": {"type": "application", "bom-ref": product, "name": "bitpress", "version": version,
                                   "licenses": [{"expression": "Apache-2.0"}], "purl": product}},
        "components": components,
        "dependencies": [{"ref": product, "dependsOn": [component["bom-ref"] for component in components]}],
    }
    (to / "sboms").mkdir()
    (to / "sboms" / "bitpress.cdx.json").write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
