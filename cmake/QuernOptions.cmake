# What a build may choose, and the compiler flags that follow.
option(QUERN_BUILD_TESTS "build the tests" ON)
option(QUERN_BUILD_FUZZERS "build the libFuzzer targets (needs clang)" OFF)
option(QUERN_ABI_RELEASE "tagged plugin headers: no header hash, plugins are negotiated by minor" OFF)
option(QUERN_WARNINGS_AS_ERRORS "treat warnings as errors" OFF)
option(QUERN_PRECOMPILE "precompile the standard headers: a faster build from nothing" OFF)
set(QUERN_ABI_LATER 0 CACHE STRING "tests only: build against headers that many plugin ABI minors later than the present ones")
option(QUERN_PARTIAL "skip the tests that need every component" OFF)
set(QUERN_BASH_COMPLETIONS_DIR share/bash-completion/completions CACHE STRING "folder of bash's completions below the prefix")
set(QUERN_ZSH_COMPLETIONS_DIR share/zsh/site-functions CACHE STRING "folder of zsh's completions below the prefix")
set(QUERN_FISH_COMPLETIONS_DIR share/fish/vendor_completions.d CACHE STRING "folder of fish's completions below the prefix")
set(QUERN_SANITIZE "" CACHE STRING "empty, address (with undefined) or thread")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1")

set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)  # an installed program keeps the room of its run path, which may not be as long as the build folder's name
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(QUERN_PLUGIN_SUBDIR "quern/backends-1")  # the 1 is the ABI epoch
set(QUERN_PLUGIN_OUTPUT_DIRECTORY "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${QUERN_PLUGIN_SUBDIR}")
set(QUERN_PLUGIN_INSTALL_DIR "${CMAKE_INSTALL_LIBDIR}/${QUERN_PLUGIN_SUBDIR}")

set(QUERN_PLUGIN_API_INCLUDE "${PROJECT_SOURCE_DIR}/plugin-api/include")
if(QUERN_ABI_LATER)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(QUERN_PLUGIN_API_INCLUDE "${CMAKE_BINARY_DIR}/later")
  execute_process(COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/plugin-api/tools/next_minor.py" ${QUERN_ABI_LATER} "${QUERN_PLUGIN_API_INCLUDE}"
                  COMMAND_ERROR_IS_FATAL ANY)
endif()

add_library(quern_warnings INTERFACE)
add_library(quern::warnings ALIAS quern_warnings)
target_compile_options(quern_warnings INTERFACE -Wall -Wextra $<$<NOT:$<BOOL:${QUERN_PRECOMPILE}>>:-Wshadow> -Wconversion -Wno-sign-conversion
                       $<$<BOOL:${QUERN_WARNINGS_AS_ERRORS}>:-Werror>)

if(QUERN_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(QUERN_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(QUERN_SANITIZE)
  message(FATAL_ERROR "QUERN_SANITIZE is '${QUERN_SANITIZE}'; it takes address, thread or nothing")
endif()
if(QUERN_BUILD_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)  # libFuzzer is blind without the coverage of the libraries it drives
endif()
