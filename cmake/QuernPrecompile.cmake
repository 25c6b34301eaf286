# Precompiled standard headers, for builds from nothing (scripts/test, scripts/quickstart): most files are small, and
# parsing the library takes longer than they do. Off by default, so that a developer's build shows a missing include.
set(std_headers <algorithm> <array> <charconv> <cstring> <filesystem> <functional> <limits> <map> <memory> <optional> <span>
    <sstream> <stdexcept> <string> <string_view> <utility> <variant> <vector>)

function(quern_precompile directory)
  get_property(targets DIRECTORY "${directory}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "\\.cpp$")
    list(LENGTH sources count)
    if(NOT type MATCHES "LIBRARY|EXECUTABLE" OR count LESS 4)
      continue()
    endif()
    set(headers ${std_headers})
    if(target MATCHES "_tests?$")
      list(APPEND headers <gtest/gtest.h>)
    endif()
    target_precompile_headers(${target} PRIVATE ${headers})
  endforeach()
  get_property(folders DIRECTORY "${directory}" PROPERTY SUBDIRECTORIES)
  foreach(folder IN LISTS folders)
    quern_precompile("${folder}")
  endforeach()
endfunction()

quern_precompile("${CMAKE_SOURCE_DIR}")
