// Folders and files that the lives read.
#include "life.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace quern::test::allocations {
namespace {

bool write_file(const std::string& path, const std::string& text) {
  const std::string folder = path.substr(0, path.rfind('/'));
  const std::string make = "mkdir -p '" + folder + "'";
  std::FILE* file = std::system(make.c_str()) == 0 ? std::fopen(path.c_str(), "w") : nullptr;
  if (file == nullptr) return false;
  std::fwrite(text.data(), 1, text.size(), file);
  return std::fclose(file) == 0;
}

/// One model as the hub's clients lay it, and one of another URL.
bool fill_caches(Subject& subject) {
  subject.hub = subject.cache + "/hub";
  const std::string commit(40, 'a'), repository = subject.hub + "/models--owner--name", stored = subject.cache + "/models/41d34d1074dc3a05";
  std::string source = R"({"files": [{"name": "m-Q4_0.gguf", "bytes": 4, "sha256": ")";
  source.append(64, '0').append(R"("}], "url": ")").append(url_model).append("\"}");
  return write_file(subject.cache + "/data.jsonl", "{\"input_ids\": [1, 2, 3, 4]}\n{\"input_ids\": [5, 6, 7]}\n") &&
         write_file(repository + "/refs/main", commit) && write_file(repository + "/snapshots/" + commit + "/name-Q8_0.gguf", "GGUF") &&
         write_file(repository + "/snapshots/" + commit + "/more/README.md", "words") && write_file(stored + "/m-Q4_0.gguf", "GGUF") &&
         write_file(stored + "/source.json", source);
}

/// Puts another template in place of the model's, which must be no shorter.
bool make_macro_model(Subject& subject) {
  constexpr std::string_view key = "tokenizer.chat_template";
  constexpr std::string_view macros =
      "{% for i in range(3) %}{% macro m(a) %}{{ a }}{% endmacro %}{{ m(i) }}{% set x %}{{ m('a') }}{% endset %}{% endfor %}"
      "{{ messages[0].content|upper }}";  // the text is not found, so more renders look for it
  std::FILE* file = std::fopen(subject.model.c_str(), "rb");
  if (file == nullptr) return false;
  std::string bytes;
  for (char block[4096]; const std::size_t got = std::fread(block, 1, sizeof block, file);) bytes.append(block, got);
  std::fclose(file);
  const std::size_t length_at = bytes.find(key) + key.size() + 4, text_at = length_at + 8;  // behind the key a u32 type and a u64 length
  std::uint64_t length = 0;
  if (text_at > bytes.size()) return false;
  std::memcpy(&length, bytes.data() + length_at, sizeof length);
  if (length < macros.size()) return false;
  bytes.replace(text_at, length, std::string(macros) + std::string(length - macros.size(), ' '));
  subject.macro_model = subject.cache + "/macros.gguf";
  return write_file(subject.macro_model, bytes);
}

}  // namespace

bool make_subject(Subject& subject) { return fill_caches(subject) && make_macro_model(subject); }

}  // namespace quern::test::allocations
