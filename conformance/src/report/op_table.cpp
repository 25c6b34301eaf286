// See op_table.hpp.
#include "report/op_table.hpp"

#include <algorithm>
#include <cmath>

namespace quern::conformance {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == at) parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

bool is_plain(const std::string& word) {
  static const std::vector<std::string> words = {"f32", "f16", "bf16", "f64", "i8",  "i16",  "i32",
                                                 "i64", "u8",  "u16",  "u32", "u64", "bool", "none"};
  return std::ranges::find(words, word) != words.end();
}
bool is_format(const std::string& word) {
  return std::ranges::any_of(quern_formats, [&](const quern_format& format) { return format.name.data == word; });
}

}  // namespace

OpKey op_key(const std::string& name) {
  const std::vector<std::string> parts = split(name, '.');
  OpKey key{parts[0], parts.size() > 1 ? parts[1] : "-", "-", "-"};
  if (parts.size() < 3) return key;
  std::vector<std::string> dtypes, formats;
  for (const std::string& word : split(parts[2], '-')) {
    if (!is_plain(word) && !is_format(word)) return key;  // the third part is no list of dtypes: a script
    std::vector<std::string>& list = is_format(word) ? formats : dtypes;
    if (word != "none" && std::ranges::find(list, word) == list.end()) list.push_back(word);
  }
  const auto joined = [](const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
    return text.empty() ? "-" : text;
  };
  key.dtypes = joined(dtypes);
  key.format = joined(formats);
  return key;
}

std::map<OpKey, std::vector<OpCell>> op_table(const Record& record) {
  std::map<OpKey, std::vector<OpCell>> table;
  for (const RecordedResult& r : record.results) {
    std::vector<OpCell>& row = table[op_key(r.case_name)];
    row.resize(record.header.targets.size());
    OpCell& cell = row[r.target];
    const Verdict& v = r.result.verdict;
    ++cell.cases;
    cell.waived += v.status == Status::waived || v.status == Status::unsupported;
    if (v.status != Status::pass) continue;
    ++cell.passed;
    cell.tier = std::max(cell.tier, v.tier);  // T1 < T2 < T3 < none
    cell.worst = std::fmax(cell.worst, v.worst);
  }
  return table;
}

}  // namespace quern::conformance
