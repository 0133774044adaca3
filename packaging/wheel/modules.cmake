# The Python modules of wheels, built with another processor's headers and none of its interpreters, so that CMake's own search for
# Python does not apply. Each lies in modules/ABI/ of the build folder.
set(Python_INTERPRETER_ID Python)
foreach(target Interpreter Module SABIModule)
  add_library(Python::${target} INTERFACE IMPORTED)
endforeach()
# nanobind keeps these names in its cache.
if(WIN32)
  set(NB_SUFFIX .cp311-win_amd64.pyd)
  set(NB_SUFFIX_S .pyd)
else()
  set(Python_SOABI cpython-311-${CMAKE_SYSTEM_PROCESSOR}-linux-gnu)
  set(Python_SOSABI abi3)
endif()

macro(use_python version)
  set(Python_VERSION ${version})
  if(WIN32)
    set(Python_INCLUDE_DIRS ${BITPRESS_PYTHON_HEADERS}/${version}/include)
  else()
    set(Python_INCLUDE_DIRS ${BITPRESS_PYTHON_HEADERS}/python${version} ${BITPRESS_PYTHON_HEADERS})
  endif()
endmacro()

# With the stable ABI, Python's headers do not include <stdio.h>, which nanobind expects of them.
add_compile_options(-include stdio.h)

# 3.11 has no stable ABI with all that nanobind needs.
use_python(3.11)
include(${nanobind_ROOT}/nanobind-config.cmake)
bitpress_python_module(bitpress_python_cp311)
use_python(3.13)
bitpress_python_module(bitpress_python_abi3 STABLE_ABI)
# On Windows a module names the library that it takes each name from. build.sh makes those for linking.
if(WIN32)
  target_link_libraries(bitpress_python_cp311 PRIVATE ${BITPRESS_PYTHON_HEADERS}/3.11/python311.lib)
  target_link_libraries(bitpress_python_abi3 PRIVATE ${BITPRESS_PYTHON_HEADERS}/3.13/python3.lib)
  foreach(abi cp311 abi3)
    target_compile_definitions(bitpress_python_${abi} PRIVATE MS_WIN64 Py_ENABLE_SHARED)
  endforeach()
endif()
foreach(abi cp311 abi3)
  set_target_properties(bitpress_python_${abi} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/modules/${abi})
endforeach()
