// The life of a trainer: create, steps, save, resume, the result. Where the update of a step failed, another trainer resumes.
// It trains two adapters, or all weights in rounded copies over packed examples.
#include "life.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace quern::test::allocations {
namespace {

class LifeOfTraining final : public Life {
 public:
  LifeOfTraining(const Subject& subject, const char* settings) : Life(subject), settings_(settings) {}

 private:
  std::string output() const { return subject_.cache + "/out-" + std::to_string(getpid()); }
  void clean_up() override {
    const std::string remove = "rm -rf '" + output() + "'";
    if (std::system(remove.c_str()) != 0) std::abort();
  }

  /// A plugin that had no memory to open its device is refused with its words.
  bool is_of_memory(quern_status status) const override {
    return status == QUERN_BACKEND_UNAVAILABLE && std::strstr(quern_last_error(), "out of memory") != nullptr;
  }

  void live_all() override {
    quern_runtime* const runtime = ready_runtime();
    if (runtime != nullptr) train(runtime);
    quern_runtime_release(runtime);
  }

  void train(quern_runtime* runtime) {
    counting = false;
    const std::string data = "[{\"path\": \"" + subject_.cache + "/data.jsonl\"}]";
    const std::string json = "{\"base_model\": \"" + subject_.model + "\", " + settings_ +
                             ", \"learning_rate\": 0.01, \"max_steps\": 3, \"save_strategy\": \"no\", \"datasets\": " + data +
                             ", \"test_datasets\": " + data +
                             ", \"gradient_accumulation_steps\": 2, \"eval_strategy\": \"no\", \"output_dir\": \"" + output() + "\"}";
    results.losses.assign(3, 0.0);
    counting = true;
    quern_training *settings = nullptr, *resumed = nullptr;
    const char* resume = "resume_from_checkpoint=true";
    quern_training_options again{};
    again.struct_size = sizeof again;
    again.overrides = &resume;
    again.override_count = 1;
    quern_trainer* trainer = nullptr;
    const auto create = [&](quern_training* of) {
      quern_trainer_release(trainer);
      trainer = nullptr;
      return step("quern_trainer_create", [&] { return quern_trainer_create(runtime, of, subject_.model.c_str(), nullptr, &trainer); });
    };
    if (step("quern_training_open", [&] { return quern_training_open(json.c_str(), nullptr, &settings); }) &&
        step("quern_training_open", [&] { return quern_training_open(json.c_str(), &again, &resumed); }) && create(settings) &&
        step("quern_trainer_save", [&] { return quern_trainer_save(trainer, nullptr); }) &&
        train_a_step(trainer, [&] { return create(resumed); }) &&
        step("quern_trainer_save", [&] { return quern_trainer_save(trainer, nullptr); }) &&
        train_a_step(trainer, [&] { return create(resumed); }) && create(resumed) &&
        train_a_step(trainer, [&] { return create(resumed); })) {
      quern_training_evaluation evaluation{};
      evaluation.struct_size = sizeof evaluation;
      if (step("quern_trainer_evaluate", [&] { return quern_trainer_evaluate(trainer, &evaluation); })) {
        counting = false;
        results.losses.push_back(evaluation.loss);
        counting = true;
      }
      step("quern_trainer_write_result", [&] { return quern_trainer_write_result(trainer); });
      text_of(
          "quern_trainer_json", [&](quern_text** text) { return quern_trainer_json(trainer, text); }, false);
      text_of("quern_trainer_example_json", [&](quern_text** text) { return quern_trainer_example_json(trainer, 0, text); });
      text_of(
          "quern_training_evaluate_json",
          [&](quern_text** text) {
            return quern_training_evaluate_json(runtime, settings, subject_.model.c_str(), nullptr, nullptr, text);
          },
          false);
    }
    quern_trainer_release(trainer);
    quern_training_release(resumed);
    quern_training_release(settings);
  }

  /// An update that failed cannot be made again: the trainer is then created anew, from its checkpoint.
  template <typename Anew>
  bool train_a_step(quern_trainer*& trainer, const Anew& anew) {
    quern_training_callbacks callbacks{};
    callbacks.struct_size = sizeof callbacks;
    callbacks.user = this;
    callbacks.step = [](void* self, const quern_training_step* done) {
      static_cast<LifeOfTraining*>(self)->results.losses.at(done->step - 1) = done->loss;
      return 0;
    };
    std::uint32_t end = 0;
    const auto run = [&] {
      quern_status status = quern_trainer_run(trainer, 1, &callbacks, &end);
      if (status == QUERN_INVALID_ARGUMENT && std::strstr(quern_last_error(), "last checkpoint") != nullptr && anew())
        status = quern_trainer_run(trainer, 1, &callbacks, &end);
      return status;
    };
    return step("quern_trainer_run", run);
  }

  const char* settings_;
};

constexpr const char* few_adapters =
    R"("adapter": "lora", "lora_r": 2, "lora_target_modules": ["q_proj"], "peft_layers_to_transform": [1])";
constexpr const char* all_weights =
    R"("bf16": true, "gradient_checkpointing": true, "sample_packing": true, "optimizer": "adamw_torch", "lr_scheduler": "cosine")";

}  // namespace

std::unique_ptr<Life> life_of_training(const Subject& subject) { return std::make_unique<LifeOfTraining>(subject, few_adapters); }
std::unique_ptr<Life> life_of_full_training(const Subject& subject) { return std::make_unique<LifeOfTraining>(subject, all_weights); }

}  // namespace quern::test::allocations
