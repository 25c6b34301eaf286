// The vocabulary and the merges of a tokenizer.json, taken entry by entry while it is read: as a tree they would need many times its bytes.
#pragma once

#include "json_file.hpp"
#include "tokenizer_json.hpp"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace quern::directory {

class ModelEntries {
 public:
  /// `path` names the file in errors.
  explicit ModelEntries(std::string path) : errors_(JsonFile::made_of(std::move(path), Json())) {}

  /// For JsonFile::find(), while this lives. Errors are thrown as the entries come.
  std::array<Json::Taken, 2> taken();
  /// The same of a tree that has the entries.
  void take_all(const JsonFile& file);

  /// Adds a token. One that stands in the vocabulary may come again as an added one. Throws Error(QUERN_BAD_MODEL) naming the field.
  void add(std::string_view field, const std::string& text, const Json* id, std::int32_t type);

  TokenList list;
  std::vector<double> scores;       // of the pieces of a Unigram model; their places are their ids
  std::vector<std::string> merges;  // two texts with a space between them, or NUL where they have spaces

 private:
  void take_token(const std::string* name, const Json& entry);
  void take_merge(const Json& entry);

  JsonFile errors_;
};

}  // namespace quern::directory
