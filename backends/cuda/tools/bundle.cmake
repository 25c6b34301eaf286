# cmake -DBUNDLE=folder -DPROGRAM=... -DSTANDALONE=... -DLIBRARY=... -DLIBRARY_NAME=... -DSESSION=... -DSESSION_FOLDER=...
#       -DPLUGINS=... -DPLUGIN_FOLDER=... -DSTRIP=... -P bundle.cmake
# Lays out bin/, lib/ and the plugins, stripped, with run paths from $ORIGIN, and packs them as <folder>.tar.gz.
file(REMOVE_RECURSE "${BUNDLE}")
file(MAKE_DIRECTORY "${BUNDLE}/bin" "${BUNDLE}/lib" "${BUNDLE}/${PLUGIN_FOLDER}" "${BUNDLE}/${SESSION_FOLDER}")
macro(add from to)
  file(COPY_FILE "${from}" "${to}")
  execute_process(COMMAND "${STRIP}" --strip-unneeded "${to}" COMMAND_ERROR_IS_FATAL ANY)
endmacro()
foreach(program IN LISTS PROGRAM STANDALONE)
  get_filename_component(name "${program}" NAME)
  add("${program}" "${BUNDLE}/bin/${name}")
endforeach()
get_filename_component(name "${SESSION}" NAME)
add("${SESSION}" "${BUNDLE}/${SESSION_FOLDER}/${name}")  # what quern-conformance audit copies; it opens the library by its path
get_filename_component(name "${PROGRAM}" NAME)
file(RPATH_SET FILE "${BUNDLE}/bin/${name}" NEW_RPATH "$ORIGIN/../lib")  # the others link no library of ours
add("${LIBRARY}" "${BUNDLE}/lib/${LIBRARY_NAME}")
foreach(plugin IN LISTS PLUGINS)
  get_filename_component(name "${plugin}" NAME)
  add("${plugin}" "${BUNDLE}/${PLUGIN_FOLDER}/${name}")
endforeach()
get_filename_component(parent "${BUNDLE}" DIRECTORY)
get_filename_component(name "${BUNDLE}" NAME)
execute_process(COMMAND ${CMAKE_COMMAND} -E tar czf "${BUNDLE}.tar.gz" "${name}" WORKING_DIRECTORY "${parent}" COMMAND_ERROR_IS_FATAL ANY)
