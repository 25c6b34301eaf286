// Calls of an op as its row of OPS.md has them, for tests that try every op: a new op is tried before anybody writes a case for it.
//
// A row gives shapes by letters ("x[t,h] weight[h]?") and dtypes ("f32 f16 bf16, weight f32"). Each letter becomes one size, ".." two dims, and
// an operand without brackets the shape of the first one. The first list of dtypes is of all operands that no other list names.
#pragma once

#include "quern/quern_dtypes.h"
#include "quern/quern_formats.h"

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace quern::test {

struct RowOperand {
  std::string name;
  quern_dtype dtype = QUERN_F32;
  std::vector<std::int64_t> dims;
};
/// One call; optional operands are left out. `required`: attributes without a default.
struct RowCall {
  std::vector<RowOperand> inputs, outputs;
  std::vector<std::string> required;
};

namespace row_parts {

inline std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}
inline std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> list;
  for (std::string word; in >> word;) list.push_back(word);
  return list;
}
inline std::vector<quern_dtype> dtypes_of(const std::vector<std::string>& names) {
  static const std::map<std::string, quern_dtype> plain = {{"f32", QUERN_F32}, {"f16", QUERN_F16}, {"bf16", QUERN_BF16}, {"i32", QUERN_I32},
                                                           {"i64", QUERN_I64}, {"u32", QUERN_U32}, {"u8", QUERN_U8}};
  std::vector<quern_dtype> found;
  for (const std::string& name : names) {
    if (const auto at = plain.find(name); at != plain.end()) found.push_back(at->second);
    else if (name == "all")
      for (const char* one : {"f32", "f16", "bf16", "i32"}) found.push_back(plain.at(one));
    for (const quern_format& format : quern_formats)
      if (name == "all" || name == format.name.data) found.push_back(format.id);
  }
  return found;
}
inline std::vector<std::int64_t> dims_of(const std::string& letters) {
  std::vector<std::int64_t> dims;
  for (const std::string& letter : split(letters, ',')) {
    if (letter == "..") dims.insert(dims.end(), {2, 3});
    else dims.push_back(letter == "h" || letter == "k" ? 256 : letter == "t" ? 3 : letter == "n" ? 5 : 4);
  }
  return dims;
}

}  // namespace row_parts

/// One call for each dtype of the row's first list. Empty for an id without a row.
inline std::vector<RowCall> row_calls(const std::string& ops_md, std::uint32_t op) {
  using namespace row_parts;
  std::ifstream in(ops_md);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("| " + std::to_string(op) + " |", 0) != 0) continue;
    const std::vector<std::string> cells = split(line, '|');  // "", id, op, group, inputs, outputs, attributes, dtypes, ...
    if (cells.size() < 9) return {};
    std::vector<quern_dtype> usual;
    std::map<std::string, quern_dtype> own;
    for (const std::string& list : split(cells[7].substr(0, cells[7].find('(')), ',')) {
      std::vector<std::string> names = words(list);
      const bool named = !names.empty() && dtypes_of({names[0]}).empty();
      const std::string name = named ? names[0] : std::string();
      const std::vector<quern_dtype> dtypes = dtypes_of(names);
      if (dtypes.empty()) continue;
      if (named) own[name] = dtypes[0];
      else if (usual.empty()) usual = dtypes;
    }
    if (usual.empty()) usual = {QUERN_F32};
    std::vector<RowCall> calls;
    for (const quern_dtype dtype : usual) {
      RowCall call;
      std::vector<std::int64_t> first = {3, 256};
      for (const int column : {4, 5})
        for (const std::string& word : words(cells[static_cast<std::size_t>(column)])) {
          if (word.back() == '?') continue;
          RowOperand operand;
          const std::size_t bracket = word.find('[');
          operand.name =
              word.substr(word[0] == '*' ? 1 : 0, bracket == std::string::npos ? std::string::npos : bracket - (word[0] == '*' ? 1 : 0));
          operand.dims = bracket == std::string::npos ? first : dims_of(word.substr(bracket + 1, word.find(']') - bracket - 1));
          operand.dtype = own.count(operand.name) != 0 ? own[operand.name] : dtype;
          if (call.inputs.empty() && column == 4) first = operand.dims;
          (column == 4 ? call.inputs : call.outputs).push_back(operand);
        }
      for (const std::string& attribute : words(cells[6]))
        if (attribute.find('=') == std::string::npos) call.required.push_back(attribute);
      calls.push_back(call);
    }
    return calls;
  }
  return {};
}

/// Whether the row says enough for row_calls: its op has one shape throughout, or letters for each, and needs no attribute.
inline bool row_is_whole(const RowCall& call) { return call.required.empty() && !call.inputs.empty() && !call.outputs.empty(); }

}  // namespace quern::test
