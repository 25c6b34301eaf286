// The case file inside the program, so that it runs from anywhere. The assembler reads the files; CMake names them as dependencies.
#include "onnx/vectors.hpp"

#define QUERN_INCLUDE_FILE(symbol, file) \
  asm(".pushsection .rodata\n.balign 16\n.hidden " #symbol "_begin\n.hidden " #symbol "_end\n.global " #symbol \
      "_begin\n" \
      ".global " #symbol "_end\n" #symbol "_begin:\n.incbin \"" QUERN_ONNX_DIRECTORY "/" file "\"\n" #symbol \
      "_end:\n.byte 0\n" \
      ".popsection\n")

QUERN_INCLUDE_FILE(quern_onnx_text, "vectors.txt");
QUERN_INCLUDE_FILE(quern_onnx_data, "vectors.bin");

extern "C" {
extern const char quern_onnx_text_begin[], quern_onnx_text_end[];
extern const std::byte quern_onnx_data_begin[], quern_onnx_data_end[];
}

namespace quern::conformance::onnx {

const std::vector<Vector>& vectors() {
  static const std::vector<Vector> all =
      parse_vectors({quern_onnx_text_begin, quern_onnx_text_end}, {quern_onnx_data_begin, quern_onnx_data_end});
  return all;
}

}  // namespace quern::conformance::onnx
