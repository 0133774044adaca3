# Puts what ./dev build made into the wheel. For tests of the package: nothing is compiled.
file(GLOB module ${BITPRESS_PREBUILT}/python/bitpress/_native.*.so)
if(NOT module)
  message(FATAL_ERROR "BITPRESS_PREBUILT: there is no Python module in ${BITPRESS_PREBUILT}/python; run ./dev build")
endif()
install(FILES ${module} ${BITPRESS_PREBUILT}/python/bitpress/_native.pyi ${BITPRESS_PREBUILT}/libbitpress_ops.so
  DESTINATION bitpress)
install(PROGRAMS ${BITPRESS_PREBUILT}/bitpress DESTINATION bitpress)
