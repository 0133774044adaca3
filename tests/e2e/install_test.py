"""`cmake --install`: the C++ library as its users find it, with find_package and with pkg-config.

One example is built each time. What else compiles much has the marker `wheel`, like the installed Python package.
"""

import os
import re
import shutil
import subprocess

import models
import onnx
import pytest
from locations import BUILD, ROOT


def run(*command, **keywords):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=300, **keywords)
    assert result.returncode == 0, f"{command}:\n{result.stdout}\n{result.stderr}"
    return result.stdout


def needs(program):
    return shutil.which(program) or pytest.skip(f"{program} is not installed")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefix")
    run(needs("cmake"), "--install", BUILD, "--prefix", folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "conv.onnx"
    return models.save(models.conv_model(), path)


def shape_of(model):
    dims = onnx.load(model).graph.input[0].type.tensor_type.shape.dim
    return "x".join(str(dim.dim_value or 1) for dim in dims)


def check_example(press, model, folder):
    output = folder / "int8.onnx"
    text = run(press, model, output, shape_of(model))
    assert "int8 weight" in text and "uint8 activation" in text
    assert float(re.search(r"SQNR (\S+) dB", text)[1]) > 15
    assert any(node.op_type == "DequantizeLinear" for node in onnx.load(output).graph.node)
    failed = subprocess.run([press, folder / "missing.onnx", output, "1x3"], capture_output=True, text=True, check=False)
    assert failed.returncode == 1 and "missing.onnx" in failed.stderr and len(failed.stderr.strip().splitlines()) == 1
    return text


@pytest.mark.wheel
def test_the_example_builds_with_find_package(prefix, model, tmp_path):
    run("cmake", "-S", ROOT / "examples" / "cpp", "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    text = check_example(tmp_path / "build" / "press", model, tmp_path)
    assert f"for sessions: {prefix}/lib" in text and text.rstrip().endswith("libbitpress_ops.so")


def test_another_minor_version_is_not_taken(prefix, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.20)\nproject(p NONE)\nfind_package(bitpress 99.0 REQUIRED)\n")
    result = subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"],
                            capture_output=True, text=True, check=False)
    assert result.returncode != 0 and "99.0" in result.stderr


def test_the_example_builds_with_pkg_config(prefix, model, tmp_path):
    folder = next(prefix.rglob("bitpress.pc")).parent
    environment = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
    flags = run(needs("pkg-config"), "--cflags", "--libs", "bitpress", env=environment).split()
    assert run("pkg-config", "--libs", "bitpress", env=environment).split()[-1] == "-lbitpress"
    library = next(prefix.rglob("libbitpress.so")).parent
    run(needs("c++"), "-std=c++17", ROOT / "examples" / "cpp" / "press.cc", "-o", tmp_path / "press", *flags, f"-Wl,-rpath,{library}")
    check_example(tmp_path / "press", model, tmp_path)


@pytest.fixture(scope="module")
def headers(prefix):
    found = sorted((prefix / "include" / "bitpress").glob("*.h"))
    assert len(found) >= 10
    return found


def compile_header_users(prefix, *sources):
    run(needs("c++"), "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{prefix / 'include'}", *sources)


def test_headers_name_no_other_library(prefix, headers, tmp_path):
    allowed = re.compile(r'#include (<[a-z_0-9]+>|"bitpress/[a-z_]+\.(h|inc)")')
    for header in headers:
        includes = re.findall(r"^#include.*", header.read_text(encoding="utf-8"), re.MULTILINE)
        assert all(allowed.fullmatch(line) for line in includes), header
    source = tmp_path / "all.cc"
    source.write_text("".join(f'#include "bitpress/{header.name}"\n' for header in headers))
    compile_header_users(prefix, source)
    source = tmp_path / "alone.c"
    source.write_text('#include "bitpress/operators.h"\nstruct OrtStatus* f(void) { return RegisterCustomOps(0, 0); }\n')
    run(needs("cc"), "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{prefix / 'include'}", source)


@pytest.mark.wheel
def test_headers_stand_alone(prefix, headers, tmp_path):
    for header in headers:
        (tmp_path / f"{header.stem}.cc").write_text(f'#include "bitpress/{header.name}"\n')
    compile_header_users(prefix, *tmp_path.glob("*.cc"))


@pytest.mark.parametrize("name", ["libbitpress.so", "libbitpress_ops.so"])
def test_libraries_show_the_listed_symbols_and_no_others(prefix, name):
    """Who changes the list changes what programs are linked with: see docs/versions.md."""
    library = next(prefix.rglob(name))
    shown = run(needs("nm"), "-DC", "--defined-only", library).splitlines()
    symbols = sorted({line.split(maxsplit=2)[2] for line in shown})
    listed = (ROOT / "tests" / "data" / "library_symbols" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    assert symbols == listed


def test_the_library_names_its_version(prefix, bitpress):
    version = bitpress.ok("--version").split()[1]
    library = next(prefix.rglob("libbitpress.so")).resolve()
    assert library.name == f"libbitpress.so.{version}"
    head = run(needs("objdump"), "-p", library)
    assert re.search(r"SONAME\s+libbitpress\.so\.0\.1\b", head)
    assert not re.search(r"NEEDED\s+libonnxruntime", head)


def test_installed_program_finds_its_operators(prefix, model, tmp_path):
    output = tmp_path / "mx6.onnx"
    text = run(prefix / "bin" / "bitpress", "quantize", model, "-o", output, "--config", "MX6")
    assert "loads and runs" in text and output.is_file()
    report = run(prefix / "bin" / "bitpress", "doctor")
    assert str(next(prefix.rglob("libbitpress_ops.so"))) in report


def test_manual_pages_and_completions_are_installed(prefix, bitpress):
    pages = {path.name for path in (prefix / "share" / "man" / "man1").iterdir()}
    commands = re.findall(r"^  ([a-z]+)  +\S", bitpress.ok("--help").split("Subcommands:")[1], re.MULTILINE)
    assert pages == {"bitpress.1", *(f"bitpress-{command}.1" for command in commands)}
    for place in ("bash-completion/completions/bitpress", "zsh/site-functions/_bitpress", "fish/vendor_completions.d/bitpress.fish"):
        assert "bitpress" in (prefix / "share" / place).read_text(encoding="utf-8")
