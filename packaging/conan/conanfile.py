"""The Conan recipe: `conan create packaging/conan --build=missing` packages the checkout that it lies in (docs/install.md)."""

import pathlib
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, rmdir

ROOT = pathlib.Path(__file__).parent.parent.parent


class BitpressConan(ConanFile):
    name = "bitpress"
    description = "Post-training quantizer for ONNX models: integers, FP16, BF16, FP8, block floating point and OCP Microscaling"
    license = "Apache-2.0"
    topics = ("onnx", "quantization", "microscaling", "block-floating-point")
    package_type = "shared-library"
    settings = "os", "arch", "compiler", "build_type"

    def set_version(self):
        text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        self.version = re.search(r"project\(bitpress VERSION (\S+)", text)[1]

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "apps/*", "cmake/*", "include/*", "src/*"):
            copy(self, pattern, ROOT, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("cli11/[>=2.3 <3]")
        self.requires("eigen/[>=3.4 <4]")
        self.requires("fmt/[>=9]")
        self.requires("highway/[>=1.0.3 <2]")
        self.requires("libjpeg-turbo/[>=2.1 <4]")
        self.requires("libpng/[>=1.6 <2]")
        self.requires("libzip/[>=1.9 <2]")
        self.requires("nlohmann_json/[>=3.11 <4]")
        self.requires("onnx/[>=1.18 <2]")
        # Its headers are compiled in; the library is opened at run time.
        self.requires("onnxruntime/[>=1.21 <2]", libs=False, run=False)
        self.requires("protobuf/[>=3.21.12]")
        # The last release with stb_image_resize.h in its place: photos are resized as everywhere else, to the same bits.
        self.requires("stb/cci.20230920")

    def build_requirements(self):
        self.tool_requires("cmake/[>=3.25 <5]")

    def validate(self):
        check_min_cppstd(self, 20)
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration(f"bitpress is for Linux on x86_64 and armv8, not {self.settings.os} on {self.settings.arch}")

    def generate(self):
        toolchain = CMakeToolchain(self)
        for option in ("CONFIG_PACKAGES", "RELOCATABLE"):
            toolchain.cache_variables[f"BITPRESS_{option}"] = True
        for option in ("TESTS", "PYTHON"):
            toolchain.cache_variables[f"BITPRESS_{option}"] = False
        toolchain.cache_variables["CMAKE_INSTALL_LIBDIR"] = "lib"
        toolchain.generate()
        dependencies = CMakeDeps(self)
        # cmake/BitpressDependencies.cmake asks for these by the names of their own projects.
        dependencies.set_property("highway", "cmake_file_name", "HWY")
        dependencies.set_property("highway", "cmake_target_name", "hwy::hwy")
        dependencies.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, str(pathlib.Path(self.package_folder) / "licenses"))
        rmdir(self, str(pathlib.Path(self.package_folder) / "lib" / "cmake"))
        rmdir(self, str(pathlib.Path(self.package_folder) / "lib" / "pkgconfig"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "bitpress")
        library = self.cpp_info.components["library"]
        library.libs = ["bitpress"]
        library.set_property("cmake_target_name", "bitpress::bitpress")
        library.set_property("pkg_config_name", "bitpress")
        library.requires = [
            "cli11::cli11", "eigen::eigen", "fmt::fmt", "highway::highway", "libjpeg-turbo::libjpeg-turbo", "libpng::libpng",
            "libzip::libzip", "nlohmann_json::nlohmann_json", "onnx::onnx", "onnxruntime::onnxruntime", "protobuf::protobuf", "stb::stb"]
        operators = self.cpp_info.components["operators"]
        operators.libs = ["bitpress_ops"]
        operators.set_property("cmake_target_name", "bitpress::operators")
