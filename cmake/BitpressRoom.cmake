# bitpress_room(NAME SOURCES ... TESTS ... ROOMS ... LIBRARIES ...): one static library `bitpress_NAME` per room of src/.
# ROOMS are the rooms it may include (the table in docs/design.md, checked by tests/include_check.py), LIBRARIES the
# third-party targets. TESTS become one GoogleTest program `NAME_test`, run by ctest.
get_filename_component(BITPRESS_SOURCE_DIR ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)
set(BITPRESS_WARNINGS -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow)
if(BITPRESS_WERROR)
  list(APPEND BITPRESS_WARNINGS -Werror)
endif()
# The scalar reference is the specification: no fused multiply-add may change a result behind our back.
set(BITPRESS_NUMERICS -ffp-contract=off)
# ONNX Runtime may let its threads take subnormal floats as zero. Clang must know, because it writes tests of a float's bits as
# comparisons of floats.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-fdenormal-fp-math=dynamic BITPRESS_HAS_DENORMAL_MATH)
if(BITPRESS_HAS_DENORMAL_MATH)
  list(APPEND BITPRESS_NUMERICS -fdenormal-fp-math=dynamic)
endif()

# Release builds are optimized as each part needs it (CMake's own -O3 costs compile time everywhere): kernels and fine-tuning with
# O3, the other rooms with O2, what waits for rooms (the command line, tests, benchmarks) with O1.
set(BITPRESS_O3_ROOMS kernels gradients finetune)

# bitpress_options(TARGET [LEVEL]): what all our targets share, and the optimization level (default: O2).
function(bitpress_options target)
  set(level ${ARGN})
  if(NOT level)
    set(level O2)
  endif()
  set_target_properties(${target} PROPERTIES BITPRESS_LEVEL ${level})
  target_include_directories(${target} PUBLIC ${BITPRESS_SOURCE_DIR}/src ${BITPRESS_SOURCE_DIR}/include)
  target_compile_options(${target} PRIVATE ${BITPRESS_WARNINGS} ${BITPRESS_NUMERICS} $<$<CONFIG:Release>:-${level}>)
  if(WIN32)
    target_compile_definitions(${target} PRIVATE NOMINMAX WIN32_LEAN_AND_MEAN)
  endif()
endfunction()

# bitpress_unity(TARGET COUNT): so many source files are compiled as one, because most of their time goes into headers that they
# share. A name in an anonymous namespace must then be the only one of its kind among them.
option(BITPRESS_UNITY "Compile several source files as one" ON)
function(bitpress_unity target count)
  if(BITPRESS_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${count})
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      # Names of the other files are no names that a block shadows, and these files are no headers.
      target_compile_options(${target} PRIVATE -Wno-shadow -Wshadow=local -Wno-subobject-linkage)
    endif()
  endif()
endfunction()

# bitpress_exports(TARGET MAP): the shared library shows the symbols of this version script and no others. Elsewhere than on Linux it
# shows what is marked in the sources.
function(bitpress_exports target map)
  if(CMAKE_SYSTEM_NAME STREQUAL Linux)
    target_link_options(${target} PRIVATE -Wl,--version-script=${map})
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
  elseif(WIN32)
    set_target_properties(${target} PROPERTIES PREFIX "")
  endif()
endfunction()

# Headers that nearly every file includes are parsed once: bitpress_precompile(TARGET FIRST [HEADER...]) shares those of
# FIRST, or makes them where that is TARGET itself. Libraries and programs need their own (-fPIC, -fPIE), and so does a target that is
# optimized otherwise than FIRST: GCC optimizes what includes precompiled headers as those were. Files still include what
# they use; the sanitizer builds have no precompiled headers and show what is missing.
set(BITPRESS_COMMON_HEADERS <algorithm> <cstdint> <filesystem> <functional> <map> <memory> <optional> <set> <span> <string>
    <string_view> <utility> <vector> <fmt/format.h>)
function(bitpress_precompile target first)
  if(NOT BITPRESS_PCH)
    return()
  endif()
  get_target_property(level ${target} BITPRESS_LEVEL)
  set(level_of_first ${level})
  if(TARGET ${first})
    get_target_property(level_of_first ${first} BITPRESS_LEVEL)
  endif()
  if(target STREQUAL first OR NOT level STREQUAL level_of_first)
    target_precompile_headers(${target} PRIVATE ${BITPRESS_COMMON_HEADERS} ${ARGN})
  elseif(TARGET ${first})
    target_precompile_headers(${target} REUSE_FROM ${first})
  endif()
endfunction()

if(BITPRESS_TESTS)
  add_custom_target(unit_tests)
endif()
function(bitpress_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  bitpress_options(${name} O1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${name} PRIVATE -Wno-maybe-uninitialized)  # false alarms at -O1
  endif()
  bitpress_unity(${name} 6)
  bitpress_precompile(${name} base_test <gmock/gmock.h> <gtest/gtest.h>)
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main)
  # The development data beside the checkout, when there is one; tests that need it skip with a reason otherwise.
  target_compile_definitions(${name} PRIVATE BITPRESS_SHARED_DIR="${BITPRESS_SOURCE_DIR}/../shared"
                             BITPRESS_SOURCE_DIR="${BITPRESS_SOURCE_DIR}" BITPRESS_BUILD_DIR="${CMAKE_BINARY_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS unit)
  add_dependencies(unit_tests ${name})
endfunction()

function(bitpress_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;TESTS;ROOMS;LIBRARIES" ${ARGN})
  set(target bitpress_${name})
  if(ARG_SOURCES)
    add_library(${target} STATIC ${ARG_SOURCES})
    if(name IN_LIST BITPRESS_O3_ROOMS)
      bitpress_options(${target} O3)
    else()
      bitpress_options(${target})
    endif()
    if(NOT name STREQUAL kernels)  # Highway compiles these files once a target by including them
      bitpress_unity(${target} 6)
    endif()
    bitpress_precompile(${target} bitpress_base)
    set(visibility PUBLIC)
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${BITPRESS_SOURCE_DIR}/src ${BITPRESS_SOURCE_DIR}/include)
    set(visibility INTERFACE)
  endif()
  list(TRANSFORM ARG_ROOMS PREPEND bitpress_ OUTPUT_VARIABLE rooms)
  target_link_libraries(${target} ${visibility} ${rooms} ${ARG_LIBRARIES})
  if(ARG_TESTS AND BITPRESS_TESTS)
    bitpress_test(${name}_test SOURCES ${ARG_TESTS} LIBRARIES ${target})
  endif()
endfunction()
