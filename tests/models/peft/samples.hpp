// Committed adapters, shapes of their bases, and small adapters to make wrong.
#pragma once

#include "quern/models/peft.hpp"
#include "support/gguf_writer.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace quern::test {

/// Of a committed file or folder.
std::string data_path(const std::string& name);
std::string text_of(const std::string& path);

/// Of tiny-llama and tiny-qwen3: 2 layers, 64 wide, 4 heads, 2 of keys, FFN 160; heads of 16 or 32.
peft::BaseShape tiny_llama();
peft::BaseShape tiny_qwen3();

/// q and down of layers 0 and 1 of tiny_llama(), rank 2; element i of each matrix is i / 8 or its negative.
peft::Adapter small_adapter();

/// The two files of small_adapter(). `rename` gets the name of a tensor as peft 0.21 writes it and gives another one; empty takes the
/// tensor out.
std::string small_config();
std::vector<std::byte> small_tensors(const std::function<std::string(std::string)>& rename = nullptr);

/// The same as a GGUF adapter for tiny_llama().
GgufWriter small_gguf();

/// The text of the error that `action` ends with, whose code must be `code`.
std::string refusal(quern_status code, const std::function<void()>& action);

/// Equal in every member, to the bit.
void expect_equal(const peft::Adapter& one, const peft::Adapter& other);

}  // namespace quern::test
