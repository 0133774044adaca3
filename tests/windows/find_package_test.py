"""`cmake --install` of the build for Windows: a program that is cross-built against it finds the library, and runs."""

import install_test
import models
import pytest
import rig
from locations import DEPS, ROOT

pytestmark = pytest.mark.windows


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefix")
    install_test.run("cmake", "--install", rig.BUILD, "--prefix", folder)
    return folder


def test_the_example_builds_with_find_package(prefix, tmp_path):
    build, compilers = tmp_path / "build", DEPS / "wheel" / "win_amd64" / "compilers"
    install_test.run("cmake", "-S", ROOT / "examples" / "cpp", "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                     f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/toolchains/zig.cmake", f"-DBITPRESS_COMPILERS={compilers}",
                     f"-DCMAKE_FIND_ROOT_PATH={prefix}", "-DCMAKE_CXX_FLAGS=-g0", "-DCMAKE_EXE_LINKER_FLAGS=-s")
    install_test.run("cmake", "--build", build)
    for library in [*(prefix / "bin").glob("*.dll"), rig.BUILD / "onnxruntime.dll"]:
        (build / library.name).symlink_to(library)
    press = build / "press"
    press.write_text(f'#!/bin/sh\nexec "{rig.WINE}" "{build}/press.exe" "$@"\n')
    press.chmod(0o755)
    model = models.save(models.conv_model(), tmp_path / "conv.onnx")
    text = install_test.check_example(press, model, tmp_path)
    assert text.rstrip().endswith("bitpress_ops.dll")
