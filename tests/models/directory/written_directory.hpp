// A GGUF model written as the Hugging Face directory that transformers would have saved it as, by names and rules of its own: what the reader
// is compared with.
#pragma once

#include "quern/models/gguf.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <functional>
#include <string>

namespace quern::test {

enum class Spelling : std::uint8_t { transformers4, transformers5 };

struct DirectoryForm {
  std::uint32_t files = 1;
  Spelling spelling = Spelling::transformers5;
  /// The type of each tensor, by its name in the GGUF file; norms and biases too. Without it matrices keep theirs, and the rest is f32.
  std::function<quern_dtype(const gguf::TensorInfo&)> dtype;
};

/// Makes the folder. Norms, biases and matrices are F32, F16 or BF16 in the file.
void write_directory(const gguf::File& model, const std::filesystem::path& folder, const DirectoryForm& form = {});

/// Changes one JSON file in it.
void edit_json(const std::filesystem::path& path, const std::function<void(nlohmann::json&)>& change);
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace quern::test
