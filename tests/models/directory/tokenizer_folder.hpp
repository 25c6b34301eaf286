// The tokenizer of a directory without the rest of the directory.
#pragma once

#include "special_tokens.hpp"
#include "tokenizer_json.hpp"

#include "quern/models/gguf.hpp"
#include "quern/models/tokenizer.hpp"

#include <memory>
#include <string>
#include <utility>

namespace quern::test {

/// What a GGUF file of the tokenizer's files would have.
inline gguf::File keys_of_folder(const std::string& folder, std::uint64_t rows = 0) {
  gguf::Writer keys;
  const directory::TokenList list = directory::write_tokenizer_keys(folder, rows, keys);
  const directory::Config empty(directory::JsonFile::made_of("config.json", Json(Json::Members())));
  directory::write_special_tokens(folder, empty, list, keys);
  gguf::Assembly parts;
  parts.name = "directory";
  parts.keys = keys.bytes_of_keys();
  return gguf::File::assemble(std::move(parts));
}

inline std::unique_ptr<Tokenizer> tokenizer_of_folder(const std::string& folder, std::uint64_t rows = 0) {
  return tokenizer_from_gguf(keys_of_folder(folder, rows));
}

}  // namespace quern::test
