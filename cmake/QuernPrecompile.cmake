# Precompiled standard headers and joined sources, for builds from nothing (scripts/test, scripts/quickstart): most files are
# small, and parsing the library takes longer than they do. Off by default, so that a developer's build shows a missing include and
# compiles only what changed.
set(std_headers <algorithm> <array> <charconv> <cstring> <filesystem> <functional> <limits> <map> <memory> <optional> <span>
    <sstream> <stdexcept> <string> <string_view> <utility> <variant> <vector>)

# Files whose file-local names meet those of a neighbour are compiled by themselves; so are kernels, all of which have an `accepts`,
# and conformance's ops and graphs, all of which have a `generate`.
set(never_joined_targets "^(backend_|quern_chat_template$|quern_tokenizer$|chat_template_test$|runtime_host_test$|loader_test$|conformance_unit_test$|runtime_api_test$|.*fuzz_seeds_test$)")
set(never_joined_files "^(abi|ops|graphs)/|(^|/)(plugin_parts|op_table|harness|byte_level_bpe|malformed_(tensor|meaning)_test)\\.cpp$")

function(quern_join_sources target)
  if(QUERN_SANITIZE OR target MATCHES "${never_joined_targets}")  # sanitized code of joined files takes the optimizer minutes
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "${never_joined_files}")
  get_target_property(folder ${target} SOURCE_DIR)
  foreach(source IN LISTS sources)
    set_property(SOURCE "${folder}/${source}" TARGET_DIRECTORY ${target} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
endfunction()

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
    quern_join_sources(${target})
  endforeach()
  get_property(folders DIRECTORY "${directory}" PROPERTY SUBDIRECTORIES)
  foreach(folder IN LISTS folders)
    quern_precompile("${folder}")
  endforeach()
endfunction()

quern_precompile("${CMAKE_SOURCE_DIR}")
