# cuda_bundle: the relocatable folder of programs, library and plugins with the CUDA backend, and the Vulkan one where it was built.
#
# A folder that runs on another machine: programs, library, plugins, each finding the next from where it lies. The loader looks beside
# the library. What is left to the other machine: libc and libstdc++ as new as here, and NVIDIA's driver.
if(TARGET backend_cuda AND TARGET quern_cli AND TARGET quern_runtime AND TARGET quern-conformance)
  set(bundle "${CMAKE_BINARY_DIR}/quern-cuda-bundle")
  set(bundled backend_cuda backend_cpu)
  if(TARGET backend_vulkan)
    list(APPEND bundled backend_vulkan)
  endif()
  list(TRANSFORM bundled REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE bundled_files)
  string(JOIN "$<SEMICOLON>" bundled_files ${bundled_files})
  add_custom_target(cuda_bundle
    COMMAND ${CMAKE_COMMAND} "-DBUNDLE=${bundle}" "-DPROGRAM=$<TARGET_FILE:quern_cli>"
            "-DSTANDALONE=$<TARGET_FILE:quern-probe>$<SEMICOLON>$<TARGET_FILE:quern-conformance>"
            "-DLIBRARY=$<TARGET_FILE:quern_runtime>" "-DLIBRARY_NAME=$<TARGET_SONAME_FILE_NAME:quern_runtime>"
            "-DSESSION=$<TARGET_FILE:quern-session>" "-DSESSION_FOLDER=lib/quern/conformance"
            "-DPLUGINS=${bundled_files}" "-DPLUGIN_FOLDER=lib/${QUERN_PLUGIN_SUBDIR}"
            "-DSTRIP=${CMAKE_STRIP}"
            -P "${CMAKE_SOURCE_DIR}/backends/cuda/tools/bundle.cmake"
    DEPENDS quern_cli quern-probe quern-conformance quern-session quern_runtime ${bundled} VERBATIM)
endif()
