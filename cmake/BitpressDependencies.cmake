# Finds every dependency. ONNX Runtime and ONNX come from .deps/ (tools/setup), from the system, or from *_ROOT.
set(ONNXRUNTIME_ROOT "" CACHE PATH "A folder with ONNX Runtime's include/ and lib/; empty: the system's, then .deps/")
set(BITPRESS_DEPS_DIR ${CMAKE_SOURCE_DIR}/.deps CACHE PATH "Where tools/setup put the dependencies")

find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED MODULE)
find_package(HWY QUIET CONFIG)
if(NOT TARGET hwy::hwy)
  find_path(HWY_INCLUDE_DIR hwy/highway.h REQUIRED)
  find_library(HWY_LIBRARY hwy REQUIRED)
  add_library(hwy_imported INTERFACE)
  target_include_directories(hwy_imported SYSTEM INTERFACE ${HWY_INCLUDE_DIR})
  target_link_libraries(hwy_imported INTERFACE ${HWY_LIBRARY})
  add_library(hwy::hwy ALIAS hwy_imported)
endif()
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(PNG REQUIRED)
find_path(STB_INCLUDE_DIR stb_image_resize.h PATH_SUFFIXES stb REQUIRED)
find_path(TURBOJPEG_INCLUDE_DIR turbojpeg.h REQUIRED)
find_library(TURBOJPEG_LIBRARY turbojpeg REQUIRED)
find_path(LIBZIP_INCLUDE_DIR zip.h REQUIRED)
find_library(LIBZIP_LIBRARY zip REQUIRED)

# ONNX Runtime: headers only. The library is opened at run time (src/runtime/ort_library.h), because a program linked
# against one release of it refuses every other one.
find_path(ONNXRUNTIME_INCLUDE_DIR onnxruntime_cxx_api.h
  HINTS ${ONNXRUNTIME_ROOT} PATH_SUFFIXES include include/onnxruntime NO_DEFAULT_PATH)
find_path(ONNXRUNTIME_INCLUDE_DIR onnxruntime_cxx_api.h
  PATHS /usr/include/onnxruntime ${BITPRESS_DEPS_DIR}/onnxruntime/include NO_DEFAULT_PATH)
find_library(ONNXRUNTIME_LIBRARY NAMES libonnxruntime.so.1 libonnxruntime.so
  HINTS ${ONNXRUNTIME_ROOT} PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
find_library(ONNXRUNTIME_LIBRARY NAMES libonnxruntime.so.1 onnxruntime)
find_library(ONNXRUNTIME_LIBRARY NAMES libonnxruntime.so.1 PATHS ${BITPRESS_DEPS_DIR}/onnxruntime/lib NO_DEFAULT_PATH)
if(NOT ONNXRUNTIME_INCLUDE_DIR OR NOT ONNXRUNTIME_LIBRARY)
  message(FATAL_ERROR "ONNX Runtime not found: run ./dev setup, install libonnxruntime-dev, or set ONNXRUNTIME_ROOT")
endif()
message(STATUS "ONNX Runtime: ${ONNXRUNTIME_LIBRARY} (headers ${ONNXRUNTIME_INCLUDE_DIR})")
add_library(onnxruntime_headers INTERFACE)
target_include_directories(onnxruntime_headers SYSTEM INTERFACE ${ONNXRUNTIME_INCLUDE_DIR})

find_library(ONNX_LIBRARY onnx PATHS ${BITPRESS_DEPS_DIR}/onnx/lib NO_DEFAULT_PATH REQUIRED)
add_library(onnx_library INTERFACE)
target_include_directories(onnx_library SYSTEM INTERFACE ${BITPRESS_DEPS_DIR}/onnx/include)
target_compile_definitions(onnx_library INTERFACE ONNX_ML=1 ONNX_NAMESPACE=onnx)
target_link_libraries(onnx_library INTERFACE ${ONNX_LIBRARY} protobuf::libprotobuf)
