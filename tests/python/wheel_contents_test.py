"""packaging/wheel/contents.py: what a wheel says of the libraries inside. Building a wheel takes too long for a test."""

import json
import subprocess
import sys

from locations import ROOT

SCRIPT = ROOT / "packaging" / "wheel" / "contents.py"
# The libraries of Debian whose licences the script knows, with the file that holds each text.
SOURCES = {"cli11": "LICENSE", "eigen3": "COPYING.MPL2", "fmtlib": "LICENSE.rst", "highway": "LICENSE", "libjpeg-turbo": "LICENSE.md",
           "libpng1.6": "LICENSE", "libstb": "LICENSE", "libzip": "LICENSE", "nlohmann-json3": "LICENSE.MIT", "protobuf": "LICENSE",
           "zlib": "LICENSE"}


def make_site(folder, packages):
    for name, version, texts in packages:
        info = folder / f"{name}-{version}.dist-info"
        (info / "licenses").mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "licenses" / "LICENSE").write_text(f"licence of {name}\n")
        for path, text in texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
    return folder


def make_inputs(folder):
    sources = folder / "sources"
    for name, file in SOURCES.items():
        (sources / f"{name}-1.2-3").mkdir(parents=True)
        (sources / f"{name}-1.2-3" / "DEBIAN_VERSION").write_text("1.2-3+deb12u1\n")
        (sources / f"{name}-1.2-3" / file).write_text(f"licence of {name}\n")
    build = make_site(folder / "build", [
        ("nanobind", "3.1.0", {"nanobind/ext/robin_map/include/tsl/robin_map.h": "/**\n * MIT License\n */\n#ifndef A\n"}),
        ("ziglang", "0.17.1", {"ziglang/lib/libcxx/LICENSE.TXT": "licence of libc++\n"})])
    onnx = make_site(folder / "onnx", [("onnx", "1.23.2", {}), ("onnxruntime", "1.31.1", {"onnxruntime/LICENSE": "licence of ort\n"})])
    return sources, build, onnx


def write(inputs, to):
    to.mkdir()
    subprocess.run([sys.executable, "-B", str(SCRIPT), "1.2.3", *map(str, inputs), str(to)], check=True)
    return {path.relative_to(to).as_posix(): path.read_text() for path in to.rglob("*") if path.is_file()}


def test_every_part_has_a_licence_and_a_line_in_the_bill(tmp_path):
    files = write(make_inputs(tmp_path), tmp_path / "out")
    bill = json.loads(files["sboms/bitpress.cdx.json"])
    parts = {component["name"]: component for component in bill["components"]}
    assert set(parts) == {*SOURCES, "nanobind", "robin-map", "ziglang", "onnx", "onnxruntime"}
    assert {f"licenses/third_party/{name}.txt" for name in parts} == set(files) - {"sboms/bitpress.cdx.json"}
    assert files["licenses/third_party/zlib.txt"] == "licence of zlib\n" and "MIT License" in files["licenses/third_party/robin-map.txt"]
    assert parts["zlib"]["version"] == "1.2-3+deb12u1" and parts["zlib"]["purl"].startswith("pkg:deb/debian/zlib@")
    assert all(component["licenses"][0]["expression"] for component in parts.values())
    assert bill["metadata"]["component"]["version"] == "1.2.3" and bill["bomFormat"] == "CycloneDX"
    assert set(bill["dependencies"][0]["dependsOn"]) == {component["bom-ref"] for component in parts.values()}


def test_the_same_versions_give_the_same_bytes(tmp_path):
    inputs = make_inputs(tmp_path)
    assert write(inputs, tmp_path / "one") == write(inputs, tmp_path / "two")
