// The command line as data. Parsing touches no file and no library, and asks the environment that it is given.
#pragma once

#include "bench_report.hpp"
#include "settings.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace quern::cli {

enum class Verb {
  run,
  tokenize,
  eval,
  bench,
  devices,
  doctor,
  show,
  estimate,
  pull,
  list,
  rm,
  monitor,
  ps,
  trace,
  train,
  merge,
  export_adapter,
  convert,
  quantize,
  imatrix
};

/// How a model is loaded: the flags that `run`, `eval`, `bench` and `estimate` share.
struct ModelFlags {
  std::string path;
  std::uint32_t activations = QUERN_ACTIVATIONS_AUTO;
  std::uint32_t kv = QUERN_KV_DEFAULT;
  std::string tokenizer_pre;
  std::optional<std::string> adapter;  // "FOLDER" or "FOLDER:0.5"
};

struct SamplingFlags {
  float temperature = 0.7f;
  float top_p = 0;
  float min_p = 0.1f;
  float repeat_penalty = 0;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::uint32_t penalty_window = 0;
  std::uint32_t top_k = 0;
  std::optional<std::uint64_t> seed;
  std::vector<quern_logit_bias> bias;
};

struct RunFlags {
  ModelFlags model;
  std::optional<std::string> prompt;
  std::vector<std::string> files;  // whose text follows the prompt
  std::optional<std::string> messages_file;
  bool special_in_messages = false;
  std::optional<std::string> system;
  std::optional<std::string> system_file;
  std::string prefill;  // how the answer begins
  bool raw = false;
  bool no_loop_guard = false;
  bool jsonl = false;
  bool plain = false;
  bool no_history = false;
  SamplingFlags sampling;
  std::vector<std::string> stop;
  std::uint64_t max_tokens = 0;
  std::uint64_t context = 0;
  std::uint32_t logprobs = 0;
  std::optional<std::string> trace_file;
  bool explain = false;
};

struct TokenizeFlags {
  std::string path;
  std::optional<std::string> text;
  std::optional<std::string> messages_file;
  bool special_in_messages = false;
  std::string tokenizer_pre;
  bool no_bos = false;
  bool no_eos = false;
  bool no_special = false;
};

struct EvalFlags {
  ModelFlags model;
  std::string file;                    // of text
  std::optional<std::string> data;     // or of examples
  std::vector<std::string> overrides;  // of the settings that say how they are read
  bool positions = false;
  std::optional<std::string> logits_file;
  std::optional<std::string> reference, reference_adapter;  // the model to compare with
};

struct BenchFlags {
  ModelFlags model;
  BenchLists lists{{512}, {128}, {1}, {}, {0}, 5};  // without threads: those of the settings
  BenchFormat format = BenchFormat::page;
  std::optional<std::string> plot_file;
  bool explain = false;
};

struct EstimateFlags {
  ModelFlags model;  // path is empty for a shape
  quern_shape shape{};
  std::uint64_t context = 0;
  std::uint32_t sequences = 1;
  std::optional<std::string> train;    // a settings file of fine-tuning
  std::vector<std::string> overrides;  // of it
};

struct ShowFlags {
  std::string path;
  bool tensors = false;
};

/// pull and rm.
struct HubFlags {
  std::string name;
  std::string sha256;
  std::string memory;
};

/// What one flag has, and from where.
struct FlagState {
  std::string flag;                  // "--top-k"
  std::string variable;              // "QUERN_TOP_K"
  const Setting* setting = nullptr;  // null for a flag that is no setting; for a setting, `given` is what the flag gave
  GivenValue given;
};

struct MonitorFlags {
  double interval = 1;  // seconds
  std::optional<std::uint64_t> count;
};

/// What a flag gave for an argument that has a place: --model for MODEL, --prompt for PROMPT or TEXT.
struct NamedPlaces {
  std::optional<std::string> model, prompt;
  bool pull = false;  // --pull: a model that is not on this machine
};

struct DevicesFlags {
  bool tree = false;
};

struct DoctorFlags {
  bool try_devices = false;
};

struct TraceFlags {
  std::string file;
  std::optional<std::string> html;  // without it the page lies beside the trace
};

struct TrainFlags {
  std::string file;                    // of settings; with init, the model
  std::vector<std::string> overrides;  // "lora_r=16"
  std::optional<std::string> init;     // lora, qlora or full
  std::optional<std::uint64_t> show_data;
  std::optional<std::string> trace_file;
  bool resume = false;  // from the last checkpoint
  bool dry_run = false;
  bool check_gradients = false;
};

/// merge and export.
struct AdapterFlags {
  std::string base, out;
  std::vector<std::string> adapters;  // "FOLDER" or "FOLDER:0.5"
  std::string type;                   // of matrices: "keep", "f16", "q8_0", ...; of an exported adapter "f32", "f16" or "bf16"
  bool gguf = false;
};

struct ConvertFlags {
  std::string from, out;
  std::string type = "auto";
  bool vocabulary_only = false;
  std::optional<std::string> shard_size;  // "2G"
};

struct QuantizeFlags {
  std::string in, out, type;  // type: "" with `to`
  std::optional<std::string> to, imatrix, output_type, embedding_type;
  std::optional<double> target_bits;
  std::vector<std::string> tensor_types;  // "REGEX=TYPE"
  bool pure = false;
  bool allow_requantize = false;
  bool dry_run = false;
};

struct ImatrixFlags {
  std::string model, text, out;
  std::vector<std::string> inputs;  // of the same model, to add to
  std::uint64_t chunks = 0;         // 0: the whole text
};

struct CommandLine {
  Verb verb = Verb::run;
  std::string verb_name;         // "" for --show-config without a verb
  std::vector<FlagState> flags;  // all that the verb has, in the order of its help
  bool show_config = false;
  FlagValues settings;
  NamedPlaces named;
  bool json = false;
  bool verbose = false;
  bool quiet = false;
  RunFlags run;
  TokenizeFlags tokenize;
  EvalFlags eval;
  BenchFlags bench;
  EstimateFlags estimate;
  ShowFlags show;
  HubFlags hub;
  MonitorFlags monitor;
  TraceFlags trace;
  TrainFlags train;
  AdapterFlags adapter;
  ConvertFlags convert;
  QuantizeFlags quantize;
  ImatrixFlags imatrix;
  DoctorFlags doctor;
  DevicesFlags devices;

  /// The MODEL of a verb that takes one; null for another verb.
  std::string* model();
};

/// Thrown by --help, --version and an empty command line: what to print on standard output before leaving with 0.
struct Answered {
  std::string text;
};

/// `arguments` without the program's name. What they do not give is taken from `environment`, where each flag has a variable.
/// `config` is asked for once, after the arguments were read. Throws Answered, or Failure(exit_usage).
CommandLine parse_command_line(const std::vector<std::string>& arguments, const std::string& version, const Environment& environment,
                               const std::function<Config()>& config = {});

/// "--temp was read as --temperature", for each name of another program on a command line: what somebody may want to know whose command
/// failed.
std::vector<std::string> other_names_used(const std::vector<std::string>& arguments);

/// A sentence for each of these names of variables that is near one that a verb reads and is not read itself.
std::vector<std::string> misspelt_variables(const std::vector<std::string>& names);

/// "128=-1.5" is a bias of -1.5 for token 128; "128=-inf" forbids it. Throws Failure(exit_usage).
quern_logit_bias parse_logit_bias(const std::string& text);

}  // namespace quern::cli
