"""Builds examples/cpp/ against the package, and runs what needs no ONNX Runtime."""

import pathlib

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake

EXAMPLE = pathlib.Path(__file__).parent.parent.parent.parent / "examples" / "cpp"


class BitpressTestConan(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain", "VirtualRunEnv"
    test_type = "explicit"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        self.folders.build = "build"
        self.folders.generators = "build/generators"

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder=str(EXAMPLE))
        cmake.build()

    def test(self):
        if can_run(self):
            self.run("bitpress --version", env="conanrun")
            # A missing model is an error that comes from the library.
            self.run("build/press missing.onnx output.onnx 1x3 2>&1 | grep missing.onnx", env="conanrun", cwd=self.recipe_folder)
