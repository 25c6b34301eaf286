// A model that was trained as a whole, as files: by Hugging Face's names in a checkpoint, and as a GGUF file that runs.
#pragma once

#include "quern/models/gguf.hpp"
#include "quern/models/peft.hpp"
#include "quern/models/training_graph.hpp"

#include <functional>
#include <span>
#include <string>

namespace quern::runtime {

/// "model.layers.3.self_attn.q_proj.weight" of "blk.3.attn_q.weight". Throws Error(QUERN_UNSUPPORTED) for a tensor without such a name.
std::string hugging_face_name(const std::string& tensor);

using ReadNumbers = std::function<void(std::uint64_t first, std::span<float> numbers)>;
using WriteNumbers = std::function<void(std::uint64_t first, std::span<const float> numbers)>;

/// FOLDER/model.safetensors, f32, rows of q and k in Hugging Face's order. `read` reads the flat state.
void write_tuned_safetensors(const std::string& folder, const gguf::File& base, const peft::BaseShape& shape,
                             const models::TrainedLayout& layout, const ReadNumbers& read);
/// The inverse. Throws Error(QUERN_BAD_MODEL) for a file that lacks a tensor or has it in another shape.
void read_tuned_safetensors(const std::string& folder, const gguf::File& base, const peft::BaseShape& shape,
                            const models::TrainedLayout& layout, const WriteNumbers& write);

/// The base's file with its trained tensors: matrices as `matrices` (f32, f16 or bf16), vectors as f32. All other tensors keep their bytes.
void write_tuned_gguf(const std::string& path, const gguf::File& base, const models::TrainedLayout& layout, quern_dtype matrices,
                      const ReadNumbers& read);

}  // namespace quern::runtime
