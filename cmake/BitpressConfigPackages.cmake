# Dependencies that describe themselves to CMake, as those of vcpkg and Conan do (packaging/). Their libraries are often static, so
# that only the descriptions know what else is to be linked.
if(NOT BITPRESS_RELOCATABLE)
  message(FATAL_ERROR "BITPRESS_CONFIG_PACKAGES needs BITPRESS_RELOCATABLE: no ONNX Runtime of theirs is built in")
endif()
find_package(protobuf CONFIG REQUIRED)
set(Protobuf_VERSION ${protobuf_VERSION})
find_package(HWY CONFIG REQUIRED)
find_package(libjpeg-turbo CONFIG REQUIRED)
find_package(libzip CONFIG REQUIRED)
find_package(ONNX CONFIG REQUIRED)

# bitpress_alias(TARGET NAME...): a target that links the first of these that exists; packages name theirs differently.
function(bitpress_alias target)
  foreach(name ${ARGN})
    if(TARGET ${name})
      add_library(${target} INTERFACE)
      target_link_libraries(${target} INTERFACE ${name})
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "None of these targets exists: ${ARGN}")
endfunction()
bitpress_alias(bitpress_jpeg libjpeg-turbo::turbojpeg libjpeg-turbo::turbojpeg-static)
bitpress_alias(bitpress_zip libzip::zip)
bitpress_alias(bitpress_onnx ONNX::onnx onnx)

find_path(ONNXRUNTIME_INCLUDE_DIR onnxruntime_cxx_api.h PATH_SUFFIXES onnxruntime onnxruntime/core/session REQUIRED)
bitpress_headers(bitpress_onnxruntime_headers ${ONNXRUNTIME_INCLUDE_DIR})
