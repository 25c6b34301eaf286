// Fuzzes the reader of PEFT folders: the input is adapter_config.json, or behind "TENS" adapter_model.safetensors with a good
// configuration of rank 1. A refusal is an Error(QUERN_BAD_MODEL or QUERN_UNSUPPORTED); anything else that leaves the reader is a bug. An
// adapter that is read is whole, and its scales are numbers.
#include "quern/models/peft.hpp"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace {

constexpr std::string_view good_config = R"({"peft_type":"LORA","r":1,"lora_alpha":2,"target_modules":"all-linear"})";

/// q of layer 0: A [1, 2] and B [2, 1].
std::string good_tensors() {
  const std::string header = R"({"model.layers.0.self_attn.q_proj.lora_A.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                             R"("model.layers.0.self_attn.q_proj.lora_B.weight":{"dtype":"F32","shape":[2,1],"data_offsets":[8,16]}})";
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(16, '\0');
}

void read(std::string_view config, std::string_view tensors) {
  try {
    const quern::peft::Adapter adapter = quern::peft::read_memory(config, std::as_bytes(std::span(tensors)), "memory");
    for (const auto& matrix : adapter.matrices) {
      const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
      if (matrix.a.size() != size(matrix.rank) * size(matrix.inputs) || matrix.b.size() != size(matrix.rank) * size(matrix.outputs))
        std::abort();
      if (std::isnan(adapter.scale(matrix))) std::abort();
    }
  } catch (const quern::Error& error) {
    if (error.code() != QUERN_BAD_MODEL && error.code() != QUERN_UNSUPPORTED) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.starts_with("TENS")) {
    read(good_config, input.substr(4));
    return 0;
  }
  static const std::string tensors = good_tensors();
  read(input, tensors);
  return 0;
}
