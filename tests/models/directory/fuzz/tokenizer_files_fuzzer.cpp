// Fuzzes the tokenizer files of a directory.
//
//   byte 0   which file: tokenizer.model, tekken.json, words.tiktoken, tokenizer.json, or vocab.json with merges.txt behind a NUL;
//            with the bit of 8, tokenizer_config.json and a NUL stand before it; with the bit of 16, added_tokens.json and a NUL; with the bit
//            of 32 the embeddings have 300 rows
//   byte 1   how many of the last bytes are a text
//   rest     the file, then the text
//
// A refusal is an Error with QUERN_BAD_MODEL or QUERN_UNSUPPORTED. Of a vocabulary that is read, every id of the text is in range, and the
// places lie in it.
#include "../tokenizer_folder.hpp"

#include "support/scratch_folder.hpp"

#include "quern/graph/error.hpp"

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace {

using namespace quern;

constexpr std::string_view names[] = {"tokenizer.model", "tekken.json", "words.tiktoken", "tokenizer.json", "vocab.json"};

constexpr std::string_view config = R"({"tokenizer_class": "GPT2Tokenizer", "pat_str": "\\p{L}+|\\s+|[^\\p{L}\\s]+"})";

/// Takes what stands before a NUL, and the NUL, or all.
std::string_view front(std::string_view& text) {
  const std::string_view part = text.substr(0, text.find('\0'));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

void require(bool holds) {
  if (!holds) std::abort();
}

void write(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
}

void check(const Tokenizer& tokenizer, std::string_view text) {
  const EncodeOptions plain{.add_bos = false, .add_eos = false};
  const PlacedIds placed = tokenizer.encode_placed(text, {}, plain);
  require(placed.ids == tokenizer.encode(text, plain) && placed.ids.size() == placed.places.size());
  for (const std::int32_t id : placed.ids) require(id >= 0 && id < tokenizer.size());
  for (const std::size_t place : placed.places) require(place <= text.size());
  for (const std::int32_t id : placed.ids) tokenizer.token_bytes(id);
  tokenizer.decode(placed.ids);
  const TextRange middle{text.size() / 4, text.size() / 2};
  for (const std::int32_t id : tokenizer.encode(text, {&middle, 1}, plain)) require(id >= 0 && id < tokenizer.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  static const test::ScratchFolder scratch;
  const std::string folder = scratch.path(".");
  std::string_view file(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::string_view text = file.substr(file.size() - std::min<std::size_t>(data[1], file.size()));
  file.remove_suffix(text.size());
  const std::string name(names[(data[0] & 7u) % std::size(names)]);
  write(scratch.path("tokenizer_config.json"), (data[0] & 8u) != 0 ? front(file) : config);
  const bool has_added = (data[0] & 16u) != 0;
  if (has_added) write(scratch.path("added_tokens.json"), front(file));
  if (name == "vocab.json") {
    write(scratch.path(name), front(file));
    write(scratch.path("merges.txt"), file);
  } else {
    write(scratch.path(name), file);
  }
  try {
    check(*test::tokenizer_of_folder(folder, (data[0] & 32u) != 0 ? 300 : 0), text);
  } catch (const Error& error) { require(error.code() == QUERN_BAD_MODEL || error.code() == QUERN_UNSUPPORTED); }
  std::filesystem::remove(scratch.path(name));
  if (has_added) std::filesystem::remove(scratch.path("added_tokens.json"));
  return 0;
}
