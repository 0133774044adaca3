# Clang out of the PyPI package `ziglang`, which has the headers and libraries of other systems. packaging/wheel/libraries.sh makes the
# compilers in BITPRESS_COMPILERS, and says in a file `triple` there what they compile for: ARCHITECTURE-SYSTEM-ABI.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES BITPRESS_COMPILERS)
file(STRINGS ${BITPRESS_COMPILERS}/triple triple)
string(REGEX MATCH "^([a-z0-9_]+)-([a-z]+)" matched "${triple}")
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_MATCH_1})
set(systems_linux Linux)
set(systems_windows Windows)
set(systems_macos Darwin)
set(CMAKE_SYSTEM_NAME ${systems_${CMAKE_MATCH_2}})
set(CMAKE_C_COMPILER ${BITPRESS_COMPILERS}/cc)
set(CMAKE_CXX_COMPILER ${BITPRESS_COMPILERS}/c++)
set(CMAKE_RC_COMPILER ${BITPRESS_COMPILERS}/rc)
set(CMAKE_AR ${BITPRESS_COMPILERS}/ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${BITPRESS_COMPILERS}/ranlib CACHE FILEPATH "")
# Libraries and headers come from the dependencies' own folder, never from this machine.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# Bitpress asks for nothing on other systems that a linker would have to answer, and Zig builds a C library for each variant of flags that
# such a question has. The libraries do ask (packaging/wheel/dependencies).
if(NOT CMAKE_SYSTEM_NAME STREQUAL Linux AND NOT BITPRESS_LINK_CHECKS)
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
endif()
