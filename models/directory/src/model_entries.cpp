#include "model_entries.hpp"

#include "quern/base/terminal_text.hpp"

namespace quern::directory {
namespace {

constexpr std::string_view vocabulary_field = "model.vocab", merges_field = "model.merges";

/// A pair of texts; null for anything else.
const Json::List* pair_of_texts(const Json& entry) noexcept {
  const Json::List* const pair = entry.list();
  return pair != nullptr && pair->size() == 2 && (*pair)[0].text() != nullptr && (*pair)[1].text() != nullptr ? pair : nullptr;
}

std::string joined(const std::string& left, const std::string& right) {
  const bool spaces = left.find(' ') != left.npos || right.find(' ') != right.npos;
  std::string merge;
  merge.reserve(left.size() + 1 + right.size());
  merge += left;
  merge += spaces ? '\0' : ' ';
  merge += right;
  return merge;
}

}  // namespace

std::array<Json::Taken, 2> ModelEntries::taken() {
  return {{{"model", "vocab", [this](const std::string* name, const Json& entry) { take_token(name, entry); }},
           {"model", "merges", [this](const std::string* name, const Json& entry) {
              if (name == nullptr) take_merge(entry);  // an object is refused as a whole
            }}}};
}

void ModelEntries::take_all(const JsonFile& file) {
  const Json* const model = file.json().find("model");
  const Json* const vocabulary = model == nullptr ? nullptr : model->find("vocab");
  const Json* const all_merges = model == nullptr ? nullptr : model->find("merges");
  if (vocabulary != nullptr && vocabulary->members() != nullptr)
    for (const Json::Member& token : *vocabulary->members()) take_token(&token.name, token.value);
  if (all_merges != nullptr && all_merges->list() != nullptr)
    for (const Json& merge : *all_merges->list()) take_merge(merge);
}

void ModelEntries::add(std::string_view field, const std::string& text, const Json* id, std::int32_t type) {
  if (id == nullptr || id->count() == nullptr) throw errors_.bad(field, concat("has no whole number as the id of ", in_quotes(text, 48)));
  if (*id->count() >= most_tokens)
    throw errors_.bad(field, concat("has the id ", *id->count(), " for ", in_quotes(text, 48), "; ids below ", most_tokens, " are read"));
  const auto at = static_cast<std::size_t>(*id->count());
  if (at >= list.tokens.size()) {
    list.tokens.resize(at + 1);
    list.types.resize(at + 1);
  }
  const bool again = type != token_type::normal && list.types[at] == token_type::normal &&
                     list.tokens[at] == text;  // added tokens may stand in the vocabulary
  if (list.types[at] != 0 && !again)
    throw errors_.bad(field, concat("has the id ", at, " twice, for ", in_quotes(list.tokens[at], 48), " and for ", in_quotes(text, 48)));
  list.tokens[at] = text;
  list.types[at] = type;
}

void ModelEntries::take_token(const std::string* name, const Json& entry) {
  if (name != nullptr) return add(vocabulary_field, *name, &entry, token_type::normal);
  const Json::List* const pair = entry.list();
  if (pair == nullptr || pair->size() != 2 || (*pair)[0].text() == nullptr || !(*pair)[1].number())
    throw errors_.bad(vocabulary_field, concat("has entry ", scores.size(), ", which is no pair of a text and a score"));
  const Json id(static_cast<std::uint64_t>(scores.size()));
  add(vocabulary_field, *(*pair)[0].text(), &id, token_type::normal);
  scores.push_back(*(*pair)[1].number());
}

void ModelEntries::take_merge(const Json& entry) {
  if (merges.size() == most_merges)
    throw errors_.bad(merges_field, concat("has more entries than are read; at most ", most_merges, " are read"));
  if (entry.text() != nullptr) return merges.push_back(*entry.text());
  const Json::List* const pair = pair_of_texts(entry);
  if (pair == nullptr) throw errors_.bad(merges_field, concat("has entry ", merges.size(), ", which is neither text nor a pair of texts"));
  merges.push_back(joined(*(*pair)[0].text(), *(*pair)[1].text()));
}

}  // namespace quern::directory
