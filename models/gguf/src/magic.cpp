// The first eight bytes: is this a GGUF file that this reader understands, and if not, what is it.
#include "parse.hpp"

#include "quern/base/terminal_text.hpp"

#include <algorithm>
#include <iterator>

namespace quern::gguf {
namespace {

struct Signature {
  std::string_view first;
  std::string_view meaning;
};

// What people hand to a GGUF reader by mistake.
constexpr Signature signatures[] = {
    {"lmgg", "an old GGML file, from before GGUF; convert the original model again"},
    {"fmgg", "an old GGMF file, from before GGUF; convert the original model again"},
    {"tjgg", "an old GGJT file, from before GGUF; convert the original model again"},
    {"FUGG", "a GGUF file of a big-endian machine; convert the original model for little-endian"},
    {"PK\x03\x04", "a zip archive, perhaps a PyTorch checkpoint; convert it to GGUF"},
    {"\x1f\x8b", "a gzip file; unpack it first"},
    {"\x7f"
     "ELF",
     "a program or library"},
    {"vers", "perhaps a Git LFS pointer; fetch the real file with 'git lfs pull'"},
    {"<!", "perhaps a web page; the download has failed"},
    {"<htm", "perhaps a web page; the download has failed"},
    {"{", "perhaps JSON; open the .gguf file itself"},
};

std::string_view meaning_of(std::string_view head) {
  for (const Signature& signature : signatures)
    if (head.starts_with(signature.first)) return signature.meaning;
  if (head.size() > 8 && head[8] == '{') return "perhaps a safetensors file; this reader takes GGUF";
  return {};
}

}  // namespace

std::uint32_t read_magic(Cursor& cursor, std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 16));
  if (!head.starts_with("GGUF")) {
    const std::string_view meaning = meaning_of(head);
    throw Error(QUERN_BAD_MODEL,
                concat(file, ": magic (byte 0) is ", in_quotes(head.substr(0, 4)), ", not 'GGUF'", meaning.empty() ? "" : ": ", meaning));
  }
  cursor.skip(4, "magic");
  const std::uint64_t at = cursor.at();
  const auto version = cursor.read<std::uint32_t>("version");
  if (version == 2 || version == 3) return version;
  if (version != 0 && (version & 0xffffffu) == 0)
    throw cursor.error("version", at, concat("is ", version >> 24, " in big-endian order; convert the model for little-endian"));
  if (version == 1) throw cursor.error("version", at, "is 1; versions 2 and 3 are read: convert the original model again");
  throw cursor.error("version", at, concat("is ", version, "; versions 2 and 3 are read"));
}

}  // namespace quern::gguf
