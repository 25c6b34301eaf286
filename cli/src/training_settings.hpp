// A settings file of fine-tuning, opened for a verb.
#pragma once

#include "api.hpp"
#include "output.hpp"
#include "settings.hpp"

#include <string>
#include <vector>

namespace quern::cli {

using Training = Handle<quern_training, quern_training_release>;

struct OpenedTraining {
  Training training;
  quern_training_info info{};  // its strings belong to the training

  const quern_training* get() const noexcept { return training.get(); }
};

/// "312 examples, 41,203 tokens, 9,120 of them count (22.1 %), ..." of a data set's object, behind `what`.
std::string data_line(const std::string& what, const Json& data);

/// Settings as JSON with overrides over them; `places` may be null. The library's notes go to standard error.
OpenedTraining open_settings(const std::string& json, const std::vector<std::string>& overrides, const char* places);

/// Reads the file, puts the overrides over it, and writes the library's notes to standard error. Throws Failure; for a file without
/// base_model too.
OpenedTraining open_training(const std::string& file, const std::vector<std::string>& overrides);

/// What a run has before it, from quern_trainer_json() or quern_training_estimate_json().
std::string plan_page(const Json& plan);

}  // namespace quern::cli
