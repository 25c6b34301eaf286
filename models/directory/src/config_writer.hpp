// config.json of a model: what model_keys.hpp reads, the other way round.
#pragma once

#include "families.hpp"
#include "model_keys.hpp"

#include "quern/graph/json_writer.hpp"
#include "quern/models/architecture.hpp"
#include "quern/models/tokenizer.hpp"

#include <functional>
#include <string>

namespace quern::directory {

/// The numbers that the tables of tensors take. Throws Error(QUERN_UNSUPPORTED) for a model that is none of its family's class.
Shape shape_of(const gguf::File& model, const models::Hyperparameters& numbers, const Family& family);

/// The text, for transformers 4 and 5. `quantisation` writes the field quantization_config, if there is one. Throws Error(QUERN_UNSUPPORTED) for a rotation that config.json cannot state.
std::string config_text(const gguf::File& model, const models::Hyperparameters& numbers, const Family& family, const Tokenizer& tokenizer,
                        quern_dtype dtype, const std::function<void(JsonWriter&)>& quantisation = {});

}  // namespace quern::directory
