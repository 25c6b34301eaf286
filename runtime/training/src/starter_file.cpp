// The file that a user begins with. Everything of the model comes from its file, so only comments depend on it.
#include "quern/training/settings_file.hpp"

#include "yaml_text.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace quern::training {
namespace {

struct Family {
  std::string_view part;  // of the model's name, in small letters
  std::string_view comment;
};

// Parameters of adapters of rank 16 on all seven matrices, with f32 weights, moments, gradients and a bf16 copy: 18 bytes each.
constexpr Family families[] = {
    {"smollm2", "SmolLM2-135M: an adapter of rank 16 has 4.9 million parameters and 0.09 GB of state; all weights have 2.4 GB."},
    {"tinyllama", "TinyLlama-1.1B: an adapter of rank 16 has 12.6 million parameters and 0.23 GB of state; all weights have 20 GB."},
    {"mistral", "Mistral-7B: an adapter of rank 16 has 42 million parameters and 0.75 GB of state."},
    {"qwen3", "Qwen3-0.6B: an adapter of rank 16 has 10 million parameters and 0.18 GB of state; all weights have 11 GB."},
    {"qwen2", "Qwen2.5-7B: an adapter of rank 16 has 40 million parameters and 0.73 GB of state; all weights have 137 GB."},
    {"llama", "LLaMA-7B: an adapter of rank 16 has 40 million parameters and 0.72 GB of state; all weights have 121 GB."},
};

std::string family_comment(std::string_view model) {
  std::string lower(model);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto* family = std::ranges::find_if(families, [&](const Family& one) { return lower.find(one.part) != std::string::npos; });
  return family == std::end(families) ? std::string() : concat("# ", family->comment, "\n");
}

constexpr std::string_view adapter_keys = R"(
# The adapter has two small matrices beside each matrix that is named: A with lora_r rows, B with lora_r columns.
lora_r: 16
lora_alpha: 32                # what B A adds is scaled by lora_alpha / lora_r
lora_dropout: 0
lora_target_modules: [q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj]
)";

constexpr std::string_view data_keys = R"(
# One example a line. Formats: chat_template, sharegpt, alpaca, prompt_completion, completion, input_output, tokenized.
datasets:
  - path: train.jsonl
    type: chat_template
val_set_size: 0.05            # a share of the examples, or from 1 on their count; or a list test_datasets
sequence_len: 2048            # longer examples are dropped and counted
sample_packing: true          # short examples share the rows of a micro-batch; none sees another
train_on_inputs: false        # true: the loss counts prompts too

# A step sees micro_batch_size * gradient_accumulation_steps examples, or as many rows of sequence_len where they are packed.
micro_batch_size: 1
gradient_accumulation_steps: 8
num_epochs: 1                 # or max_steps
)";

constexpr std::string_view step_keys = R"(lr_scheduler: cosine
warmup_ratio: 0.05
optimizer: adamw
weight_decay: 0
max_grad_norm: 1

bf16: auto                    # on graphics cards; float32: true for exact results
gradient_checkpointing: true  # less memory, and a third more time; selective lies between
seed: 42

evals_per_epoch: 4
save_strategy: epoch
logging_steps: 10
output_dir: ./outputs
)";

}  // namespace

std::string starter_file(Adapter adapter, std::string_view model) {
  const bool full = adapter == Adapter::none;
  std::string out = "# Settings of quern train. Keys are those of axolotl; keys that are not known are refused.\n";
  out += family_comment(model);
  out += concat("base_model: ", yaml_text(model), "\n");
  out += full                        ? "adapter: none                 # all weights are trained\n"
         : adapter == Adapter::qlora ? "adapter: qlora                # the base stays as its file has it, which has to be quantised\n"
                                     : "adapter: lora                 # the base stays as it is\n";
  if (!full) out += adapter_keys;
  out += data_keys;
  out += full ? "\nlearning_rate: 1e-5           # the first thing to tune\n"
              : "\nlearning_rate: 2e-4           # the first thing to tune\n";
  return out + std::string(step_keys);
}

}  // namespace quern::training
