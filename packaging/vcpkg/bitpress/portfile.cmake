# An overlay port: it builds the checkout that it lies in (docs/install.md).
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)
vcpkg_check_linkage(ONLY_DYNAMIC_LIBRARY)
set(VCPKG_BUILD_TYPE release)  # the kernels are of no use without optimization

# Photos are resized by stb_image_resize.h, as everywhere else, so that results are the same; the port `stb` has only its successor.
vcpkg_from_github(OUT_SOURCE_PATH STB_PATH
  REPO nothings/stb
  REF 5736b15f7ea0ffb08dd38af21067c314d6a3aae9
  SHA512 55bc75284cf8a092c527d1ae18c461c9d0ab6aacdcf3b873abde54c06d9b8a0ae249ce47c7ad25809e075bfbb58e9c879d43e1df2708083860c07ac3bbb30d60)

vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS
  -DBITPRESS_CONFIG_PACKAGES=ON -DBITPRESS_RELOCATABLE=ON -DBITPRESS_TESTS=OFF -DBITPRESS_PYTHON=OFF
  "-DSTB_INCLUDE_DIR=${STB_PATH}" "-DCMAKE_INSTALL_BINDIR=tools/${PORT}")
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/bitpress)
vcpkg_fixup_pkgconfig()
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE" "${STB_PATH}/LICENSE")
file(INSTALL "${CURRENT_PORT_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
