# Helpers that keep the component files short.
include(GoogleTest)
find_package(Threads REQUIRED)

# quern_compile_quickly(TARGET...): code that runs once a command, or in a test. In release builds -Og takes half of the time that -O2 takes to
# compile it. Kernels, and what runs for each token, keep -O2.
function(quern_compile_quickly)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Og>)
  endforeach()
endfunction()

# quern_test(NAME SOURCES... [LIBRARIES ...]): a GoogleTest program whose cases ctest lists one by one.
function(quern_test name)
  cmake_parse_arguments(T "" "" "SOURCES;LIBRARIES;LABELS;DEFINITIONS" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE ${T_LIBRARIES} GTest::gtest GTest::gmock GTest::gtest_main Threads::Threads)
  quern_compile_quickly(${name})
  target_compile_definitions(${name} PRIVATE QUERN_SOURCE_DIR="${CMAKE_SOURCE_DIR}" QUERN_BINARY_DIR="${CMAKE_BINARY_DIR}"
                             ${T_DEFINITIONS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS "${T_LABELS}" TIMEOUT 120)
endfunction()

# quern_allocations_test(NAME LABEL SHARE ARGUMENTS...): allocation_failure_test with these arguments: each SHARE-th place that allocates, and with
# scripts/test --full every one, as NAME_all.
function(quern_allocations_test name label share)
  add_test(NAME ${name} COMMAND allocation_failure_test ${ARGN} --share ${share})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 600)
  add_test(NAME ${name}_all COMMAND allocation_failure_test ${ARGN} CONFIGURATIONS full)
  set_tests_properties(${name}_all PROPERTIES LABELS "${label};full" TIMEOUT 3000)
endfunction()

# quern_fuzzer(NAME SOURCES... LIBRARIES ...): a libFuzzer program; nothing without QUERN_BUILD_FUZZERS.
function(quern_fuzzer name)
  if(NOT QUERN_BUILD_FUZZERS)
    return()
  endif()
  cmake_parse_arguments(F "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${F_SOURCES})
  target_link_libraries(${name} PRIVATE ${F_LIBRARIES})
  target_compile_definitions(${name} PRIVATE QUERN_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/fuzz")
endfunction()
