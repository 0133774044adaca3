# `cmake --install`: the program, both libraries, the public headers, and what find_package, pkg-config and man look for.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/bitpress)

install(TARGETS bitpress RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
# On Windows libraries lie beside programs, and what is linked is a small one that stands for each (ARCHIVE).
install(TARGETS bitpress_library
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libraries NAMELINK_COMPONENT development
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT libraries
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
# ONNX Runtime opens it by its name, which therefore has no version.
install(TARGETS bitpress_operator_library
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libraries
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT libraries
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY include/bitpress DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)

# The targets are written by hand: an exported one would name the private rooms behind it.
if(WIN32)
  set(library_folder ${CMAKE_INSTALL_BINDIR})
  set(BITPRESS_LIBRARY_PREFIX "")
else()
  set(library_folder ${CMAKE_INSTALL_LIBDIR})
  set(BITPRESS_LIBRARY_PREFIX lib)
endif()
configure_package_config_file(cmake/bitpress-config.cmake.in ${CMAKE_BINARY_DIR}/install/bitpress-config.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR library_folder)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/install/bitpress-config-version.cmake COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" to_prefix "${to_prefix}")
configure_file(cmake/bitpress.pc.in ${CMAKE_BINARY_DIR}/install/bitpress.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/install/bitpress-config.cmake ${CMAKE_BINARY_DIR}/install/bitpress-config-version.cmake
  DESTINATION ${package_dir} COMPONENT development)
install(FILES ${CMAKE_BINARY_DIR}/install/bitpress.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# Manual pages and completions come from the program's own descriptions of its options.
if(NOT CMAKE_CROSSCOMPILING)
  set(texts ${CMAKE_BINARY_DIR}/install/texts)
  add_custom_command(OUTPUT ${texts}/man/bitpress.1 ${texts}/bash ${texts}/zsh ${texts}/fish
    COMMAND ${CMAKE_COMMAND} -E make_directory ${texts}/man
    COMMAND $<TARGET_FILE:bitpress> manual --pages ${texts}/man
    COMMAND $<TARGET_FILE:bitpress> completion bash > ${texts}/bash
    COMMAND $<TARGET_FILE:bitpress> completion zsh > ${texts}/zsh
    COMMAND $<TARGET_FILE:bitpress> completion fish > ${texts}/fish
    DEPENDS bitpress)
  add_custom_target(bitpress_texts ALL DEPENDS ${texts}/man/bitpress.1)
  install(DIRECTORY ${texts}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT programs)
  install(FILES ${texts}/bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME bitpress COMPONENT programs)
  install(FILES ${texts}/zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _bitpress COMPONENT programs)
  install(FILES ${texts}/fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME bitpress.fish COMPONENT programs)
endif()
