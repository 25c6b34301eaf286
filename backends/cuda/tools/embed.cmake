# cmake -DOUT=f.cpp -DIMAGES="unit;arch;path;..." -DSOURCES="path;..." -P embed.cmake
# Writes the C++ file that holds cubins and kernel sources as data of the library (see src/images.hpp).
set(text "// Made by tools/embed.cmake.\n#include \"images.hpp\"\n\n")
set(images "")
set(sources "")
set(number 0)
macro(embed path)
  math(EXPR number "${number} + 1")
  string(APPEND text "asm(\".section .rodata\\n.balign 16\\n"
         "quern_cuda_data_${number}:\\n.incbin \\\"${path}\\\"\\nquern_cuda_end_${number}:\\n.byte 0\\n.text\\n\");\n"
         "extern \"C\" __attribute__((visibility(\"hidden\"))) "
         "const unsigned char quern_cuda_data_${number}[], quern_cuda_end_${number}[];\n")
endmacro()
list(LENGTH IMAGES count)
math(EXPR last "${count} - 3")
if(count GREATER 0)
  foreach(i RANGE 0 ${last} 3)
    math(EXPR j "${i} + 1")
    math(EXPR k "${i} + 2")
    list(GET IMAGES ${i} unit)
    list(GET IMAGES ${j} architecture)
    list(GET IMAGES ${k} path)
    embed("${path}")
    string(APPEND images "    {\"${unit}\", \"${architecture}\", quern_cuda_data_${number}, "
           "static_cast<std::size_t>(quern_cuda_end_${number} - quern_cuda_data_${number})},\n")
  endforeach()
endif()
foreach(path IN LISTS SOURCES)
  embed("${path}")
  get_filename_component(name "${path}" NAME)
  string(APPEND sources "    {\"${name}\", reinterpret_cast<const char*>(quern_cuda_data_${number}), "
         "static_cast<std::size_t>(quern_cuda_end_${number} - quern_cuda_data_${number})},\n")
endforeach()
string(APPEND text "\nnamespace quern::cuda {\nnamespace {\n"
  "const Image image_list[] = {\n${images}    {}};\n"
  "const Source source_list[] = {\n${sources}    {}};\n}  // namespace\n\n"
  "const Image* const built_in_images = image_list;\n"
  "const std::size_t built_in_image_count = sizeof image_list / sizeof *image_list - 1;\n"
  "const Source* const kernel_sources = source_list;\n"
  "const std::size_t kernel_source_count = sizeof source_list / sizeof *source_list - 1;\n\n}  // namespace quern::cuda\n")
file(WRITE "${OUT}" "${text}")
