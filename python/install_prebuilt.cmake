# Puts what ./dev build made into the wheel. For tests of the package: nothing is compiled.
# Its own system's, or Windows' (packaging/wheel/build.sh).
file(GLOB module ${BITPRESS_PREBUILT}/python/bitpress/_native.*so ${BITPRESS_PREBUILT}/python/bitpress/_native.*pyd)
file(GLOB library ${BITPRESS_PREBUILT}/libbitpress_ops.so ${BITPRESS_PREBUILT}/bitpress_ops.dll)
file(GLOB program ${BITPRESS_PREBUILT}/bitpress ${BITPRESS_PREBUILT}/bitpress.exe)
if(NOT module)
  message(FATAL_ERROR "BITPRESS_PREBUILT: there is no Python module in ${BITPRESS_PREBUILT}/python; run ./dev build")
endif()
install(FILES ${module} ${BITPRESS_PREBUILT}/python/bitpress/_native.pyi ${BITPRESS_PREBUILT}/python/bitpress/_quantize.py
  ${library}
  DESTINATION bitpress)
install(PROGRAMS ${program} DESTINATION bitpress)
# A wheel that holds other libraries brings their licences and a list of them.
if(EXISTS ${BITPRESS_PREBUILT}/dist-info)
  install(DIRECTORY ${BITPRESS_PREBUILT}/dist-info/ DESTINATION ${SKBUILD_METADATA_DIR})
endif()
