// See variants.hpp.
#include "variants.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>
#include <charconv>
#include <map>

namespace quern::hub {
namespace {

constexpr std::string_view ending = ".gguf";

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

std::string upper(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return upper(c); });
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// "Q4_K_M", "IQ2_XXS", "TQ1_0", "BF16", "MXFP4_MOE": how file names say a format.
bool is_quantisation(std::string_view word) {
  if (word == "F32" || word == "F16" || word == "BF16" || word == "F64" || word.starts_with("MXFP4")) return true;
  if (word.starts_with("I") || word.starts_with("T")) word.remove_prefix(1);
  return word.size() >= 2 && word[0] == 'Q' && is_digit(word[1]) && (word.size() == 2 || word[2] == '_');
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_model(std::string_view path) {
  const std::string name = upper(file_name(path));
  return name.ends_with(upper(ending)) && name.size() > ending.size() && !name.starts_with("MMPROJ") && !name.starts_with("IMATRIX");
}

std::string listed(const std::vector<Variant>& variants) {
  std::string text;
  constexpr std::size_t most = 40;
  for (std::size_t i = 0; i < variants.size() && i < most; ++i) text += (i == 0 ? "" : ", ") + selector_of(variants, variants[i]);
  if (variants.size() > most) text += concat(" and ", variants.size() - most, " more");
  return text;
}

}  // namespace

Part part_of(std::string_view path) {
  constexpr std::size_t digits = 5, tail = 1 + digits + 4 + digits;  // -00001-of-00002
  Part part;
  part.stem = path.substr(0, path.size() - std::min(path.size(), ending.size()));
  if (part.stem.size() <= tail) return part;
  const std::string_view text = part.stem.substr(part.stem.size() - tail);
  const auto number = [](std::string_view word, std::uint32_t& value) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    return error == std::errc{} && end == word.data() + word.size();
  };
  std::uint32_t at = 0, count = 0;
  if (text.front() != '-' || text.substr(1 + digits, 4) != "-of-" || !number(text.substr(1, digits), at) ||
      !number(text.substr(5 + digits), count) || at == 0 || at > count) {
    return part;
  }
  return {at, count, part.stem.substr(0, part.stem.size() - tail)};
}

std::string quantisation_of(std::string_view path) {
  std::string_view stem = file_name(part_of(path).stem);
  const auto last_word = [&] {
    const std::size_t mark = stem.find_last_of("-.");
    const std::string_view word = stem.substr(mark == stem.npos ? 0 : mark + 1);
    stem = stem.substr(0, mark == stem.npos ? 0 : mark);
    return upper(word);
  };
  const std::string word = last_word();
  if (!is_quantisation(word)) return {};
  return last_word() == "UD" ? "UD-" + word : word;  // mixes of one publisher
}

std::vector<Variant> variants_of(const std::vector<std::string>& paths) {
  std::map<std::string, std::map<std::uint32_t, std::size_t>> groups;  // "stem/count" -> part -> index
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!is_model(paths[i])) continue;
    const Part part = part_of(paths[i]);
    groups[concat(part.stem, "/", part.count)].emplace(part.number, i);
  }
  std::vector<Variant> variants;
  for (const auto& [key, parts] : groups) {
    Variant variant;
    for (const auto& [number, index] : parts) variant.files.push_back(index);
    variant.first = paths[variant.files.front()];
    if (part_of(variant.first).count != parts.size()) continue;
    variant.quantisation = quantisation_of(variant.first);
    variants.push_back(std::move(variant));
  }
  std::ranges::sort(variants, {}, &Variant::first);
  return variants;
}

std::string selector_of(const std::vector<Variant>& variants, const Variant& variant) {
  const bool alone = std::ranges::count(variants, variant.quantisation, &Variant::quantisation) == 1;
  return alone && !variant.quantisation.empty() ? variant.quantisation : variant.first;
}

const Variant& choose_variant(const std::vector<Variant>& variants, const ModelName& name) {
  if (variants.empty()) throw Error(QUERN_NOT_FOUND, concat(name.text, ": there is no whole GGUF model in ", name.repository));
  const std::string asked = name.selector.empty() && variants.size() > 1 ? "Q4_K_M" : upper(name.selector);
  if (asked.empty()) return variants.front();
  if (const auto file = std::ranges::find(variants, name.selector, &Variant::first); file != variants.end()) return *file;
  const auto matches = [&](const Variant& v) { return v.quantisation == asked; };
  const auto found = std::ranges::count_if(variants, matches);
  if (found == 1) return *std::ranges::find_if(variants, matches);
  if (name.selector.empty()) {
    throw Error(QUERN_UNSUPPORTED, concat(name.text, " has ", variants.size(), " models; name one as ", name.repository, ":",
                                          selector_of(variants, variants.front()), ": ", listed(variants)));
  }
  if (found > 1) throw Error(QUERN_UNSUPPORTED, concat(name.text, " means ", found, " files; name one of: ", listed(variants)));
  throw Error(QUERN_NOT_FOUND,
              concat(name.text, ": ", name.repository, " has no ", in_quotes(name.selector, 200), "; it has ", listed(variants)));
}

}  // namespace quern::hub
