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
# O3, rooms that read every value of a tensor or a sample with O2, rooms that look at nodes and plans and what waits for rooms (the
# command line, tests, benchmarks) with O1.
set(BITPRESS_O3_ROOMS kernels gradients finetune)
set(BITPRESS_O2_ROOMS base formats cuda calibrate custom_ops data evaluate weights)

# GCC collects its garbage when the heap has grown to a small part of the memory. A file ends before that pays.
set(BITPRESS_COMPILER_HEAP $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-expand=400;--param=ggc-min-heapsize=1000000>)

# bitpress_options(TARGET [LEVEL]): what all our targets share, and the optimization level (default: O1).
function(bitpress_options target)
  set(level ${ARGN})
  if(NOT level)
    set(level O1)
  endif()
  set_target_properties(${target} PROPERTIES BITPRESS_LEVEL ${level})
  target_include_directories(${target} PUBLIC ${BITPRESS_SOURCE_DIR}/src ${BITPRESS_SOURCE_DIR}/include)
  target_compile_options(${target} PRIVATE ${BITPRESS_WARNINGS} ${BITPRESS_NUMERICS} ${BITPRESS_COMPILER_HEAP} $<$<CONFIG:Release>:-${level}>)
  if(level STREQUAL O1 AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)  # false alarms at -O1
  endif()
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

# Headers that nearly every file includes are parsed once: bitpress_precompile(TARGET KIND [HEADER...]). Targets of one kind have the
# same compiler flags (libraries -fPIC, programs -fPIE) and headers; among them, the first one of each level of optimization makes
# them, because GCC optimizes what includes precompiled headers as those were. It must define no macro that a later one lacks. Files
# still include what they use; the sanitizer builds have no precompiled headers and show what is missing.
set(BITPRESS_COMMON_HEADERS <algorithm> <cstdint> <filesystem> <functional> <map> <memory> <optional> <set> <span> <string>
    <string_view> <utility> <vector> <fmt/format.h>)
function(bitpress_precompile target kind)
  if(NOT BITPRESS_PCH)
    return()
  endif()
  get_target_property(level ${target} BITPRESS_LEVEL)
  get_property(first GLOBAL PROPERTY BITPRESS_PRECOMPILED_${kind}_${level})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${BITPRESS_COMMON_HEADERS} ${ARGN})
    set_property(GLOBAL PROPERTY BITPRESS_PRECOMPILED_${kind}_${level} ${target})
  endif()
endfunction()

if(BITPRESS_TESTS)
  add_custom_target(unit_tests)
endif()
function(bitpress_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  bitpress_options(${name})
  bitpress_unity(${name} 6)
  bitpress_precompile(${name} test <gmock/gmock.h> <gtest/gtest.h>)
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
    set(level O1)
    if(name IN_LIST BITPRESS_O3_ROOMS)
      set(level O3)
    elseif(name IN_LIST BITPRESS_O2_ROOMS)
      set(level O2)
    endif()
    bitpress_options(${target} ${level})
    if(NOT name STREQUAL kernels)  # Highway compiles these files once a target by including them
      bitpress_unity(${target} 6)
    endif()
    bitpress_precompile(${target} room)
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
