#include "legacy_tokenizer.hpp"

#include "config.hpp"
#include "made_json.hpp"
#include "pre_tokenizer_steps.hpp"

#include "quern/base/files.hpp"
#include "quern/base/terminal_text.hpp"
#include "quern/graph/file_error.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace quern::directory {
namespace {

Json merges_of(std::string_view text) {
  Json::List merges;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !line.starts_with("#version")) merges.push_back(json_text(line));
  }
  return Json(std::move(merges));
}

}  // namespace

Json added_tokens_of(const JsonFile& config) {
  constexpr std::string_view field = "added_tokens_decoder";
  Json::List added;
  const Json* const table = config.json().find(field);
  if (table == nullptr || table->is_null()) return Json(std::move(added));
  if (table->members() == nullptr) throw config.bad(field, "is not an object");
  for (const Json::Member& token : *table->members()) {
    std::uint64_t id = 0;
    const char* const end = token.name.data() + token.name.size();
    if (std::from_chars(token.name.data(), end, id).ptr != end || token.value.members() == nullptr)
      throw config.bad(field, concat("has the entry ", in_quotes(token.name, 32), ", which is no id with a token"));
    Json::Members members = *token.value.members();
    members.push_back({"id", Json(id)});
    added.emplace_back(std::move(members));
  }
  return Json(std::move(added));
}

std::optional<JsonFile> read_vocabulary_and_merges(const std::string& folder, std::uint64_t most_bytes) {
  const auto vocabulary = JsonFile::find(path_in(folder, "vocab.json"), most_bytes);
  std::string merges;
  const base::FileProblem problem = base::read_file(path_in(folder, "merges.txt"), merges, {.most = most_bytes});
  if (!vocabulary || problem.fault == base::FileFault::not_found) return std::nullopt;
  if (problem.fault == base::FileFault::too_large) throw Error(QUERN_BAD_MODEL, problem.text);
  check_read(problem);
  const auto config = JsonFile::find(path_in(folder, "tokenizer_config.json"));
  const std::string name = config ? text_of(*config, "tokenizer_class", config->json().find("tokenizer_class")).value_or("") : "";
  const bool is_qwen2 = name == "Qwen2Tokenizer" || name == "Qwen2TokenizerFast";
  if (!is_qwen2 && name != "GPT2Tokenizer" && name != "GPT2TokenizerFast")
    throw Error(QUERN_UNSUPPORTED,
                concat(folder, ": has vocab.json and merges.txt without tokenizer.json, and 'tokenizer_class' is ", in_quotes(name, 48),
                       "; GPT2Tokenizer and Qwen2Tokenizer are read so, save others with transformers"));
  Json pre_tokenizer = is_qwen2 ? byte_level_matches(qwen2_expression) : byte_level(true);
  Json whole =
      json_object({{"added_tokens", added_tokens_of(*config)},
                   {"normalizer", is_qwen2 ? json_object({{"type", json_text("NFC")}}) : Json()},
                   {"pre_tokenizer", std::move(pre_tokenizer)},
                   {"decoder", byte_level(true)},
                   {"model", json_object({{"type", json_text("BPE")}, {"vocab", vocabulary->json()}, {"merges", merges_of(merges)}})}});
  return JsonFile::made_of(path_in(folder, "vocab.json"), std::move(whole));
}

}  // namespace quern::directory
