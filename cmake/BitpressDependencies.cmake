# Finds every dependency. Those without a package that CMake knows on every system become targets here: bitpress_onnx,
# bitpress_onnxruntime_headers, bitpress_jpeg, bitpress_zip and bitpress_stb.
set(ONNXRUNTIME_ROOT "" CACHE PATH "A folder with ONNX Runtime's include/ and lib/; empty: the system's, then .deps/")
set(BITPRESS_DEPS_DIR ${CMAKE_SOURCE_DIR}/.deps CACHE PATH "Where tools/setup put the dependencies")

if(SKBUILD AND NOT EXISTS ${BITPRESS_DEPS_DIR}/onnx/version)
  message(FATAL_ERROR "The dependencies are missing: run ./dev setup in ${CMAKE_SOURCE_DIR} first")
endif()
find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PNG REQUIRED)
if(BITPRESS_TESTS)
  find_package(GTest REQUIRED)
  if(NOT CMAKE_CROSSCOMPILING)
    find_package(benchmark REQUIRED)
  endif()
endif()

# bitpress_headers(TARGET FOLDER): a target that has headers of another project and nothing else.
function(bitpress_headers target folder)
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE ${folder})
endfunction()

find_path(STB_INCLUDE_DIR stb_image_resize.h PATH_SUFFIXES stb REQUIRED)
bitpress_headers(bitpress_stb ${STB_INCLUDE_DIR})
if(BITPRESS_CONFIG_PACKAGES)
  include(BitpressConfigPackages)
else()
  include(BitpressSystemPackages)
endif()
