# The Python modules of wheels, built with another processor's headers and none of its interpreters, so that CMake's own search for
# Python does not apply. Each lies in modules/ABI/ of the build folder.
set(Python_INTERPRETER_ID Python)
foreach(target Interpreter Module SABIModule)
  add_library(Python::${target} INTERFACE IMPORTED)
endforeach()
# nanobind keeps these names in its cache.
set(Python_SOABI cpython-311-${BITPRESS_ARCH}-linux-gnu)
set(Python_SOSABI abi3)

macro(use_python version)
  set(Python_VERSION ${version})
  set(Python_INCLUDE_DIRS ${BITPRESS_PYTHON_HEADERS}/python${version} ${BITPRESS_PYTHON_HEADERS})
endmacro()

# With the stable ABI, Python's headers do not include <stdio.h>, which nanobind expects of them.
add_compile_options(-include stdio.h)

# 3.11 has no stable ABI with all that nanobind needs.
use_python(3.11)
include(${nanobind_ROOT}/nanobind-config.cmake)
bitpress_python_module(bitpress_python_cp311)
use_python(3.13)
bitpress_python_module(bitpress_python_abi3 STABLE_ABI)
foreach(abi cp311 abi3)
  set_target_properties(bitpress_python_${abi} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/modules/${abi})
endforeach()
