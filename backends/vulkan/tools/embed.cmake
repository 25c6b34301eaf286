# cmake -DOUT=f.cpp -DMODULES="name;path;..." -DSHADERS=folder -P embed.cmake
# Writes the C++ file that holds SPIR-V modules as data of the library, sorted by name (see src/kernels.hpp), and asserts that each kernel
# looks for its parameters where the host puts them.
set(text "// Made by tools/embed.cmake.\n#include \"kernels.hpp\"\n#include \"launcher.hpp\"\n\n")
set(asserts "")
set(rows "")
set(number 0)
# find_kernel searches by halves.
set(names "")
list(LENGTH MODULES count)
math(EXPR last "${count} - 2")
foreach(i RANGE 0 ${last} 2)
  math(EXPR j "${i} + 1")
  list(GET MODULES ${i} name)
  list(GET MODULES ${j} path_of_${name})
  list(APPEND names ${name})
endforeach()
list(SORT names)
foreach(name IN LISTS names)
  set(path "${path_of_${name}}")
  math(EXPR number "${number} + 1")
  file(STRINGS "${SHADERS}/${name}.comp" place REGEX "^(PUSHED|STORED)[(][A-Za-z0-9]+[)]$")
  if(NOT place MATCHES "^(PUSHED|STORED)[(]([A-Za-z0-9]+)[)]$")
    message(FATAL_ERROR "${name}.comp says in no line of its own where its parameters lie: PUSHED(Params) or STORED(Params)")
  endif()
  set(params ${CMAKE_MATCH_2})
  set(pushed false)
  if(CMAKE_MATCH_1 STREQUAL "PUSHED")
    set(pushed true)
  endif()
  string(APPEND asserts "static_assert(is_pushed<${params}> == ${pushed}, \"${name}.comp: ${place}\");\n")
  string(APPEND text "asm(\".section .rodata\\n.balign 16\\n"
         "quern_vulkan_data_${number}:\\n.incbin \\\"${path}\\\"\\nquern_vulkan_end_${number}:\\n.byte 0\\n.text\\n\");\n"
         "extern \"C\" __attribute__((visibility(\"hidden\"))) "
         "const unsigned char quern_vulkan_data_${number}[], quern_vulkan_end_${number}[];\n")
  string(APPEND rows "    {\"${name}\", quern_vulkan_data_${number}, "
         "static_cast<std::size_t>(quern_vulkan_end_${number} - quern_vulkan_data_${number})},\n")
endforeach()
string(APPEND text "\nnamespace quern::vulkan {\nnamespace {\n\n${asserts}\n"
  "const Kernel kernel_list[] = {\n${rows}};\n}  // namespace\n\n"
  "const Kernel* const built_in_kernels = kernel_list;\n"
  "const std::size_t built_in_kernel_count = sizeof kernel_list / sizeof *kernel_list;\n\n}  // namespace quern::vulkan\n")
file(WRITE "${OUT}" "${text}")
