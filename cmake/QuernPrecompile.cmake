# Precompiled standard headers and joined sources, for builds from nothing (scripts/test, scripts/quickstart): most files are
# small, and parsing the library takes longer than they do. Off by default, so that a developer's build shows a missing include and
# compiles only what changed.
set(std_headers <algorithm> <array> <charconv> <cstring> <filesystem> <functional> <limits> <map> <memory> <optional> <span>
    <sstream> <stdexcept> <string> <string_view> <utility> <variant> <vector>)

# Files whose file-local names meet those of a neighbour are compiled by themselves; so are kernels of one instruction set,
# and conformance's ops and graphs, all of which have a `generate`.
set(never_joined_targets "^(backend_cpu_(portable|avx|packed)|chat_template_test$|runtime_host_test$|loader_test$|conformance_unit_test$|runtime_api_test$|.*fuzz_seeds_test$)")
set(never_joined_files "^(abi|ops|graphs)/|(^|/)(plugin_parts|op_table|harness|bpe|malformed_(tensor|meaning)_test|experts_test|fusion_test)\\.cpp$")
set(never_joined_files_of_backend_cpu_objects "/(attention|attention_dense|attention_ragged|attention_ragged_backward|glu_backward|lora_matmul|lora_matmul_backward|matmul_id|matmul_id_backward|matmul_id_packed|rope|sample)\\.cpp$|thread_pool\\.cpp$")
set(never_joined_files_of_backend_cuda "^src/[a-z_]+\\.cpp$|embedded\\.cpp$|/(attention|attention_batch|attention_dense|expert_matrices|expert_pairs|experts_kquants|lora_matmul|matmul|matmul_any|matmul_dense|matmul_id|mixed|norms|norms_backward|paged|rings|strided|tiles)\\.cpp$")
set(never_joined_files_of_backend_vulkan "embedded\\.cpp$")

# Targets of scripts/quickstart, whose files have names that no neighbour has: the fewest units that keep two cores busy. What files share is
# then parsed, and its templates made, once. Other targets have more names in common, and are joined six by six. Warnings of shadowed names
# (QuernOptions.cmake) are a developer's, whose build goes file by file: here a name may be that of another file.
set(widely_joined_targets "^(quern_(architecture|base|chat_template|cli|cli_support|files|gguf|graph|hub|loader|runtime_objects|tokenizer)|backend_cpu_objects|backend_cuda|backend_vulkan)$")

function(quern_join_sources target)
  if(QUERN_SANITIZE OR target MATCHES "${never_joined_targets}")  # sanitized code of joined files takes the optimizer minutes
    return()
  endif()
  set(joined_files 6)
  if(target MATCHES "${widely_joined_targets}")
    set(joined_files 20)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${joined_files})
  get_target_property(sources ${target} SOURCES)
  set(alone ${sources})
  list(FILTER alone INCLUDE REGEX "${never_joined_files}")
  if(DEFINED never_joined_files_of_${target})
    set(own ${sources})
    list(FILTER own INCLUDE REGEX "${never_joined_files_of_${target}}")
    list(APPEND alone ${own})
  endif()
  get_target_property(folder ${target} SOURCE_DIR)
  foreach(source IN LISTS alone)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${folder}")
    set_property(SOURCE "${source}" TARGET_DIRECTORY ${target} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
  list(LENGTH sources count)
  list(LENGTH alone left)
  math(EXPR units "${left} + (${count} - ${left} + ${joined_files} - 1) / ${joined_files}")
  set(units ${units} PARENT_SCOPE)
endfunction()

function(quern_precompile directory)
  get_property(targets DIRECTORY "${directory}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "\\.cpp$")
    list(LENGTH sources units)
    if(NOT type MATCHES "LIBRARY|EXECUTABLE" OR units LESS 4)
      continue()
    endif()
    quern_join_sources(${target})
    if(units LESS 8 AND target MATCHES "${widely_joined_targets}|^backend_cpu_")  # precompiling takes as long as parsing five times
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
