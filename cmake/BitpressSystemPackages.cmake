# Dependencies as Debian has them, and out of .deps/: ONNX Runtime and ONNX come from there (tools/setup), from the system, or from
# *_ROOT.
find_package(Protobuf REQUIRED MODULE)
find_package(HWY QUIET CONFIG)
if(NOT TARGET hwy::hwy)
  find_path(HWY_INCLUDE_DIR hwy/highway.h REQUIRED)
  find_library(HWY_LIBRARY hwy REQUIRED)
  bitpress_headers(hwy_imported ${HWY_INCLUDE_DIR})
  target_link_libraries(hwy_imported INTERFACE ${HWY_LIBRARY})
  add_library(hwy::hwy ALIAS hwy_imported)
endif()
find_path(TURBOJPEG_INCLUDE_DIR turbojpeg.h REQUIRED)
find_library(TURBOJPEG_LIBRARY turbojpeg REQUIRED)
bitpress_headers(bitpress_jpeg ${TURBOJPEG_INCLUDE_DIR})
target_link_libraries(bitpress_jpeg INTERFACE ${TURBOJPEG_LIBRARY})
find_path(LIBZIP_INCLUDE_DIR zip.h REQUIRED)
find_library(LIBZIP_LIBRARY zip REQUIRED)
bitpress_headers(bitpress_zip ${LIBZIP_INCLUDE_DIR})
target_link_libraries(bitpress_zip INTERFACE ${LIBZIP_LIBRARY})

# ONNX Runtime is opened at run time (src/runtime/ort_library.h), because a program linked against one release of it refuses every
# other one. The build needs its headers, and the library's path where that is built in as the one to open.
find_path(ONNXRUNTIME_INCLUDE_DIR onnxruntime_cxx_api.h
  HINTS ${ONNXRUNTIME_ROOT} PATH_SUFFIXES include include/onnxruntime NO_DEFAULT_PATH)
find_path(ONNXRUNTIME_INCLUDE_DIR onnxruntime_cxx_api.h
  PATHS /usr/include/onnxruntime ${BITPRESS_DEPS_DIR}/onnxruntime/include NO_DEFAULT_PATH)
if(BITPRESS_RELOCATABLE AND NOT BITPRESS_TESTS)
  set(ONNXRUNTIME_LIBRARY "none is built in")
else()
  find_library(ONNXRUNTIME_LIBRARY NAMES libonnxruntime.so.1 libonnxruntime.so
    HINTS ${ONNXRUNTIME_ROOT} PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
  find_library(ONNXRUNTIME_LIBRARY NAMES libonnxruntime.so.1 onnxruntime)
  find_library(ONNXRUNTIME_LIBRARY NAMES libonnxruntime.so.1 PATHS ${BITPRESS_DEPS_DIR}/onnxruntime/lib NO_DEFAULT_PATH)
endif()
if(NOT ONNXRUNTIME_INCLUDE_DIR OR NOT ONNXRUNTIME_LIBRARY)
  message(FATAL_ERROR "ONNX Runtime not found: run ./dev setup, install libonnxruntime-dev, or set ONNXRUNTIME_ROOT")
endif()
message(STATUS "ONNX Runtime: ${ONNXRUNTIME_LIBRARY} (headers ${ONNXRUNTIME_INCLUDE_DIR})")
bitpress_headers(bitpress_onnxruntime_headers ${ONNXRUNTIME_INCLUDE_DIR})
if(MINGW)
  # Annotations of Microsoft's compiler that its headers lack there.
  target_compile_options(bitpress_onnxruntime_headers INTERFACE "-D_Frees_ptr_opt_=" "-D_Return_type_success_(x)=")
endif()

set(ONNX_ROOT ${BITPRESS_DEPS_DIR}/onnx CACHE PATH "A folder with the include/ and lib/ of ONNX's C++ library")
find_library(ONNX_LIBRARY onnx HINTS ${ONNX_ROOT}/lib NO_DEFAULT_PATH REQUIRED NO_CMAKE_FIND_ROOT_PATH)
bitpress_headers(bitpress_onnx ${ONNX_ROOT}/include)
target_compile_definitions(bitpress_onnx INTERFACE ONNX_ML=1 ONNX_NAMESPACE=onnx)
target_link_libraries(bitpress_onnx INTERFACE ${ONNX_LIBRARY} protobuf::libprotobuf)
