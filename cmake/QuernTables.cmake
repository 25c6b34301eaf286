# Lists that follow from the sources: which op files there are, and which tables they define.
#
# quern_op_sources(<variable> <folder>): every <folder>/*.cpp, sorted. A new file is found by the next build.
# quern_list_tables(<target> <file> <MACRO> <regex> <sources...>): <file> gets a row MACRO(name) for each table that the sources define, before
# the target is compiled and again when one of them changes.
set(QUERN_LIST_TABLES "${CMAKE_CURRENT_LIST_DIR}/list_tables.cmake")

function(quern_op_sources variable folder)
  file(GLOB found CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp")
  list(SORT found)
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()

function(quern_list_tables target file macro pattern)
  list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/" OUTPUT_VARIABLE sources)
  list(JOIN sources "|" joined)
  add_custom_command(OUTPUT "${file}"
    COMMAND ${CMAKE_COMMAND} "-DOUT=${file}" "-DROW=${macro}" "-DPATTERN=${pattern}" "-DSOURCES=${joined}" -P "${QUERN_LIST_TABLES}"
    DEPENDS ${sources} "${QUERN_LIST_TABLES}" COMMENT "tables of ${macro}" VERBATIM)
  add_custom_target(${target}_tables DEPENDS "${file}")  # not a source of it: then its objects would wait for all that it links
  add_dependencies(${target} ${target}_tables)
endfunction()
