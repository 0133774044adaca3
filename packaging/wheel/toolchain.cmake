# Clang out of the package `ziglang`, for BITPRESS_ARCH (x86_64 or aarch64) and the glibc that the tag manylinux_2_28 names.
# build.sh makes the compilers in BITPRESS_COMPILERS: CMake wants one file for each.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${BITPRESS_ARCH})
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES BITPRESS_ARCH BITPRESS_COMPILERS)
set(CMAKE_C_COMPILER ${BITPRESS_COMPILERS}/cc)
set(CMAKE_CXX_COMPILER ${BITPRESS_COMPILERS}/c++)
set(CMAKE_AR ${BITPRESS_COMPILERS}/ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${BITPRESS_COMPILERS}/ranlib CACHE FILEPATH "")
# Libraries and headers come from the dependencies' own folder, never from this machine.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
