# quern_add_plugin(TARGET ID id SOURCES file... [LIBRARIES target...]): a backend plugin, libbackend_<id>.so.
#
# One exported symbol, nothing unique or interposable, no undefined symbols: what rule C1 of CONTRACT.md asks of the file.
# Used by this tree and installed for plugin authors with find_package(quern-plugin-api).
function(quern_add_plugin target)
  cmake_parse_arguments(P "" "ID" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT P_ID OR NOT P_SOURCES)
    message(FATAL_ERROR "quern_add_plugin(${target}): needs ID and SOURCES")
  endif()
  set(version_script "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/quern_plugin.map")
  add_library(${target} MODULE ${P_SOURCES})
  target_link_libraries(${target} PRIVATE quern::plugin_api ${P_LIBRARIES})
  set_target_properties(${target} PROPERTIES PREFIX lib OUTPUT_NAME backend_${P_ID} SUFFIX .so
                        C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                        POSITION_INDEPENDENT_CODE ON LINK_DEPENDS "${version_script}")
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  target_link_options(${target} PRIVATE "LINKER:--version-script=${version_script}" LINKER:-Bsymbolic
                      LINKER:-z,now LINKER:--exclude-libs,ALL)
  # A sanitizer's runtime lies in the program, so a plugin built with one has undefined symbols.
  if(NOT QUERN_SANITIZE)
    target_link_options(${target} PRIVATE LINKER:-z,defs)
  endif()
endfunction()
