#include "flag_words.hpp"

#include <algorithm>
#include <array>

namespace quern::cli {
namespace {

using enum Shown;

// A short name may mean another flag in another verb: -n is --max-tokens of run and --decode-tokens of bench.
constexpr FlagWords flag_table[] = {
    {"--model", "-m,--hf-repo", in_help_all},
    {"--prompt", "-p", in_help_all},
    {"--max-tokens", "-n,--n-predict,--predict,--num-predict", always, InFile::yes},
    {"--context", "-c,--ctx-size,--num-ctx", always, InFile::yes},
    {"--threads", "-t,--num-thread"},
    {"--system", "--system-prompt", always, InFile::yes},
    {"--file", "-f"},
    {"--prefill", "", in_help_all},
    {"--jsonl", "", in_help_all},
    {"--plain", "", in_help_all},
    {"--no-history", "", in_help_all},
    {"--stop", "-r,--reverse-prompt"},
    {"--temperature", "--temp", always, InFile::yes},
    {"--top-k", "", always, InFile::yes},
    {"--top-p", "", always, InFile::yes},
    {"--min-p", "", always, InFile::yes},
    {"--repeat-penalty", "", always, InFile::yes},
    {"--presence-penalty", "", in_help_all, InFile::yes},
    {"--frequency-penalty", "", in_help_all, InFile::yes},
    {"--penalty-window", "--repeat-last-n", in_help_all, InFile::yes},
    {"--seed", "-s", always, InFile::yes},
    {"--logit-bias", "-l", in_help_all},
    {"--special-in-messages", "", in_help_all},
    {"--tokenizer-pre", "", in_help_all},
    {"--logprobs", "", in_help_all},
    {"--trace", "", in_help_all},
    {"--explain", "", in_help_all},
    {"--activations", "", in_help_all},
    {"--kv", "", in_help_all},
    {"--prompt-tokens", "-p,--n-prompt"},
    {"--decode-tokens", "-n,--n-gen"},
    {"--repetitions", "-r"},
    {"--batch", "-b"},
    {"--depth", "-d,--n-depth"},
    {"--shard-size", "--split-max-size"},
    {"--backend-disable", "", in_help_all},
    {"--fallback", "", in_help_all},
    {"--deterministic", "", in_help_all},
    {"--force-kernel", "", in_help_all},
    {"--backend-path", "", in_help_all},
    {"--backend-extra-path", "", in_help_all},
    {"--allow-dev-plugins", "", in_help_all},
    {"--probe-in-process", "", in_help_all},
    {"--cache-dir", "", in_help_all},
    {"--weights-cache-limit", "", in_help_all},
    {"--template-seconds", "", in_help_all},
    {"--log", "", in_help_all},
    {"--hub-cache", "", in_help_all},
    {"--hub-endpoint", "", in_help_all},
    {"--hub-tries", "", in_help_all},
    {"--hub-timeout", "", in_help_all},
    {"--hub-rate", "", in_help_all},
    {"--hub-limit", "", in_help_all},
    {"--verbose", "-v"},
    {"--quiet", "-q"},
};

struct Other {
  std::string_view word, meaning;
};

constexpr Other long_names[] = {{"-hf", "--model"}, {"-hfr", "--model"}, {"-sys", "--system"}};

constexpr std::string_view layers_go =
    "layers go to the best device by themselves; --memory cuda:0=8G limits one, --backend cpu leaves cards out";
constexpr std::string_view chat_starts = "a chat starts where no prompt is given on a terminal";
constexpr Other in_place[] = {
    {"-ngl", layers_go},
    {"--gpu-layers", layers_go},
    {"--n-gpu-layers", layers_go},
    {"--num-gpu", layers_go},
    {"-fa", "attention is always fused where the device can"},
    {"--flash-attn", "attention is always fused where the device can"},
    {"--mlock", "weights are copied to the device and do not leave it"},
    {"--no-mmap", "weights are copied to the device, and the file is closed"},
    {"-cnv", chat_starts},
    {"--conversation", chat_starts},
    {"-i", chat_starts},
    {"--interactive", chat_starts},
    {"-no-cnv", "a prompt in the arguments gets one answer; --raw leaves out the chat template"},
    {"--no-conversation", "a prompt in the arguments gets one answer; --raw leaves out the chat template"},
    {"-ub", "the size of a step is chosen for the device"},
    {"--ubatch-size", "the size of a step is chosen for the device"},
    {"--batch-size", "the size of a step is chosen for the device"},
    {"-ctk", "--kv f32 or f16 is the type of keys and values"},
    {"--cache-type-k", "--kv f32 or f16 is the type of keys and values"},
    {"-ctv", "--kv f32 or f16 is the type of keys and values"},
    {"--cache-type-v", "--kv f32 or f16 is the type of keys and values"},
    {"--keepalive", "a model is in memory for as long as its command runs"},
};

const FlagWords* row_of(const std::string& flag) {
  const auto found = std::ranges::find(flag_table, flag, [](const FlagWords& row) { return std::string(row.flag); });
  return found == std::end(flag_table) ? nullptr : &*found;
}

template <std::size_t N>
std::string_view meaning_of(const Other (&table)[N], std::string_view word) {
  const auto found = std::ranges::find(table, word, &Other::word);
  return found == std::end(table) ? std::string_view() : found->meaning;
}

}  // namespace

std::span<const FlagWords> all_flag_words() { return flag_table; }

std::string flag_names(const std::string& flag) {
  const FlagWords* row = row_of(flag);
  return row == nullptr || *row->also == '\0' ? flag : flag + "," + row->also;
}

bool shown_always(const std::string& flag) {
  const FlagWords* row = row_of(flag);
  return row == nullptr || row->shown == Shown::always;
}

bool in_file(const std::string& flag) {
  const FlagWords* row = row_of(flag);
  return row != nullptr && row->in_file == InFile::yes;
}

std::string file_key(const std::string& flag) {
  std::string key = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  std::ranges::replace(key, '-', '_');
  return key;
}

std::string_view long_name_of(std::string_view word) { return meaning_of(long_names, word); }

std::string_view in_place_of(std::string_view flag) { return meaning_of(in_place, flag); }

}  // namespace quern::cli
