// libFuzzer target: any bytes as a file of examples.
//
//   byte   bit 0: a .json file, which may be one list; bit 1: a template with {% generation %}; bit 2: train_on_inputs; bit 3: every end counts
//   rest   the file
//
// Holds: nothing but quern::Error escapes, and of a text that is no list each error leaves the next line readable; labels lie in their
// example, in order, apart, and none is the first token; ids are those of the vocabulary.
#include "models/tokenizer/vocabulary_builder.hpp"

#include "quern/graph/error.hpp"
#include "quern/training/data_files.hpp"
#include "quern/training/examples.hpp"
#include "quern/training/records.hpp"

#include "quern/models/tokenizer.hpp"

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

namespace {

using namespace quern::training;

void require(bool holds) {
  if (!holds) std::abort();
}

constexpr const char* with_generation =
    "{% for m in messages %}{{ '<|start|>' ~ m.role }}{% if m.role == 'assistant' %}{% generation %}{{ m.content ~ '<|end|>' }}{% endgeneration %}"
    "{% else %}{{ m.content ~ '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}";
constexpr const char* without_generation =
    "{% for m in messages %}{{ '<|start|>' ~ m.role ~ (m.content or '')|trim }}{% for c in m.tool_calls or [] %}{{ c|tojson }}{% endfor %}"
    "{{ '<|end|>' }}{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}";

struct Models {
  quern::Tokenizer tokenizer = [] {
    quern::test::VocabularyBuilder vocabulary = quern::test::byte_level();
    vocabulary.add("<|start|>", quern::TokenType::control);
    vocabulary.settings.eos = 0;  // <|end|>
    return vocabulary.build();
  }();
  DataOptions options;
  ExampleEncoder generation{options, {tokenizer, with_generation, "fuzz"}}, plain{options, {tokenizer, without_generation, "fuzz"}};
};

void check(const Example& example, std::int32_t vocabulary) {
  std::uint32_t behind = 1;
  for (const LabelSpan& span : example.labels) {
    require(span.begin >= behind && span.begin < span.end && span.end <= example.ids.size() && span.weight > 0);
    behind = span.end;
  }
  for (const std::int32_t id : example.ids) require(id >= 0 && id < vocabulary);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Models models;
  if (size == 0) return 0;
  const std::uint8_t flags = data[0];
  const DataText text = data_text_of(flags & 1 ? "fuzz.json" : "fuzz.jsonl", {reinterpret_cast<const char*>(data + 1), size - 1});
  DatasetOptions dataset;
  dataset.train_on_inputs = (flags & 4) != 0;
  if (flags & 8) dataset.train_on_eos = TrainOnEos::all;
  ExampleReader reader(text);
  std::uint64_t line = 0;
  while (!reader.is_broken()) {
    try {
      const std::optional<RawExample> raw = reader.next();
      if (!raw) break;
      require(raw->line >= line && !raw->json.empty());
      line = raw->line;
      const std::optional<quern::Json> json = quern::Json::parse(raw->json);
      if (!json) continue;
      const ExampleEncoder& encoder = flags & 2 ? models.generation : models.plain;
      check(encoder.encode(read_record(*json, ExampleType::detect, dataset), dataset).example, models.tokenizer.size());
    } catch (const quern::Error& error) { require(error.what()[0] != '\0'); }
  }
  return 0;
}
