# Puts what ./dev build made into the wheel. For tests of the package: nothing is compiled.
file(GLOB module ${BITPRESS_PREBUILT}/python/bitpress/_native.*.so)
if(NOT module)
  message(FATAL_ERROR "BITPRESS_PREBUILT: there is no Python module in ${BITPRESS_PREBUILT}/python; run ./dev build")
endif()
install(FILES ${module} ${BITPRESS_PREBUILT}/python/bitpress/_native.pyi ${BITPRESS_PREBUILT}/python/bitpress/_quantize.py
  ${BITPRESS_PREBUILT}/libbitpress_ops.so
  DESTINATION bitpress)
install(PROGRAMS ${BITPRESS_PREBUILT}/bitpress DESTINATION bitpress)
# A wheel that holds other libraries brings their licences and a list of them.
if(EXISTS ${BITPRESS_PREBUILT}/dist-info)
  install(DIRECTORY ${BITPRESS_PREBUILT}/dist-info/ DESTINATION ${SKBUILD_METADATA_DIR})
endif()
