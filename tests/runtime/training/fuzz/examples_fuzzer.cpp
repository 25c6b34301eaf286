// libFuzzer target: any bytes as a file of examples.
//
//   byte   bit 0: a .json file, which may be one list; bit 1: a template with {% generation %}; bit 2: train_on_inputs; bit 3: every end counts;
//          bit 4: the file lies in a folder; bit 5: it is gzip's there; bit 6: so is a second one, and both fit; bit 7: the next byte has settings
//   byte   with bit 7 alone. Bits 0 to 2: the template; bit 3: mask_template_text; bits 4 and 5: train_on_eos; bit 6: prompt_style alpaca, and
//          no special tokens in messages; bit 7: users count too
//   rest   the file
//
// Holds: nothing but quern::Error escapes, and of a text that is no list each error leaves the next line readable; labels lie in their
// example, in order, apart, and none is the first token; ids are those of the vocabulary. What a folder has is read as it is in memory.
#include "models/tokenizer/vocabulary_builder.hpp"
#include "support/scratch_folder.hpp"

#include "quern/graph/error.hpp"
#include "quern/training/data_files.hpp"
#include "quern/training/examples.hpp"
#include "quern/training/records.hpp"

#include "quern/models/tokenizer.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

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

constexpr const char* behind_thoughts =  // writes what stands behind a thought, and an empty one in front of it
    "{% for m in messages %}<|start|>{{ m.role }} {% if m.role == 'assistant' %}<think></think>{{ m.content.split('</think>')[-1].lstrip() }}"
    "{% else %}{{ m.content }}{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant {% endif %}";
constexpr const char* with_thoughts =  // and with parts, and without the prompt that an answer follows
    "{% for m in messages %}{{ '<|start|>' ~ m.role ~ ' ' ~ (m.reasoning_content or '') }}{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for part in m.content or [] %}{{ part.text }}{% endfor %}{% endif %}{{ ' <|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant ' if messages[0].content == 'a question' else raise_exception('none') }}{% endif %}";
constexpr const char* twice = "{% for m in messages %}{{ m.content ~ m.content }}<|end|>{% endfor %}";
constexpr const char* by_letter =  // another text in front of what begins with a letter, and behind a user's
    "{% for m in messages %}{% set odd = m.content[0:1] == 'z' %}{{ 'letter ' if odd else '' }}{{ m.content }}"
    "{{ ' letter' if odd and m.role == 'user' else '' }}{% endfor %}{% if add_generation_prompt %}:{% endif %}";
constexpr const char* without_ends =  // and with calls that have their names behind their arguments
    "{% for m in messages %}[{{ m.content or '' }}{% for c in m.tool_calls or [] %}{{ c.arguments }}{{ c.name }}{{ '!' if c.name == 'f' }}{% endfor %}]"
    "{% endfor %}";

quern::Tokenizer tokenizer_of(bool adds_bos) {
  quern::test::VocabularyBuilder vocabulary = quern::test::byte_level();
  const std::int32_t start = vocabulary.add("<|start|>", quern::TokenType::control);
  vocabulary.settings.eos = 0;  // <|end|>
  if (adds_bos) vocabulary.settings.bos = static_cast<std::uint64_t>(start);
  vocabulary.settings.add_bos = adds_bos;
  return vocabulary.build();
}

struct Models {
  quern::Tokenizer tokenizer = tokenizer_of(false), with_bos = tokenizer_of(true);
  DataOptions options;
  std::vector<ExampleEncoder> encoders;

  Models() {
    for (const char* text : {without_generation, with_generation, behind_thoughts, with_thoughts, twice, by_letter, without_ends})
      encoders.emplace_back(options, TextModel{text == behind_thoughts || text == twice ? with_bos : tokenizer, text, "fuzz"});
    encoders.emplace_back(options, TextModel{with_bos, std::nullopt, "fuzz"});
  }
};

void check(const Example& example, std::int32_t vocabulary) {
  std::uint32_t behind = 1;
  for (const LabelSpan& span : example.labels) {
    require(span.begin >= behind && span.begin < span.end && span.end <= example.ids.size() && span.weight > 0);
    behind = span.end;
  }
  for (const std::int32_t id : example.ids) require(id >= 0 && id < vocabulary);
  std::vector<float> weights(example.ids.size());
  example.fill_weights(weights);
  require(static_cast<std::uint64_t>(std::ranges::count_if(weights, [](float weight) { return weight > 0; })) == example.labelled());
  require((example.weight() > 0) == !example.labels.empty());
}

void write(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(bytes.data(), std::ssize(bytes));
}

/// The file as a folder has it; what is plain there is the same in memory.
DataText from_folder(std::string_view bytes, bool is_list, bool is_gzip, bool is_doubled) {
  static const quern::test::ScratchFolder scratch;
  constexpr std::uint64_t most = 1 << 20;
  const std::string folder = scratch.path("."), name = folder + (is_list ? "/train.json" : "/train.jsonl") + (is_gzip ? ".gz" : "");
  const std::string second = folder + "/train.json" + (is_gzip ? "" : ".gz");
  const auto remove = [&] {
    std::filesystem::remove(name);
    std::filesystem::remove(second);
  };
  write(name, bytes);
  if (is_doubled) write(second, bytes);
  try {
    require(!file_in_folder(folder, FolderPart::test) && !file_in_folder(folder, FolderPart::validation));
    const std::optional<std::string> found = file_in_folder(folder, FolderPart::train);
    require(!is_doubled && found == name);
    DataText text = read_data_file(name, most);
    require(is_gzip || text.text == data_text_of(name, std::string(bytes)).text);
    remove();
    return text;
  } catch (const quern::Error&) {
    remove();
    throw;
  }
}

struct Case {
  DataText text;
  DatasetOptions dataset;
  std::size_t encoder = 0;
};

Case case_of(std::string_view bytes) {
  const auto take = [&] {
    const auto taken = static_cast<std::uint8_t>(bytes.empty() ? 0 : bytes.front());
    bytes.remove_prefix(std::min<std::size_t>(1, bytes.size()));
    return taken;
  };
  const std::uint8_t flags = take();
  Case made;
  made.encoder = flags & 2 ? 1 : 0;
  made.dataset.train_on_inputs = (flags & 4) != 0;
  if (flags & 128) {
    const std::uint8_t settings = take();
    made.encoder = settings & 7u;
    made.dataset.mask_template_text = (settings & 8) != 0;
    made.dataset.train_on_eos = static_cast<TrainOnEos>(settings >> 4 & 3);
    if (settings & 64) {
      made.dataset.prompt_style = PromptStyle::alpaca;
      made.dataset.special_tokens_in_content = SpecialTokensInContent::refuse;
    }
    if (settings & 128) made.dataset.roles_to_train.push_back("user");
  }
  if (flags & 8) made.dataset.train_on_eos = TrainOnEos::all;
  if (flags & 16) made.text = from_folder(bytes, flags & 1, flags & 32, flags & 64);
  else made.text = data_text_of(flags & 1 ? "fuzz.json" : "fuzz.jsonl", std::string(bytes));
  return made;
}

void read_all(const Models& models, const Case& input) {
  ExampleReader reader(input.text);
  std::uint64_t line = 0;
  while (!reader.is_broken()) {
    try {
      const std::optional<RawExample> raw = reader.next();
      if (!raw) break;
      require(raw->line >= line && !raw->json.empty());
      line = raw->line;
      const std::optional<quern::Json> json = quern::Json::parse(raw->json);
      if (!json) continue;
      const ExampleEncoder::Encoded encoded =
          models.encoders[input.encoder].encode(read_record(*json, ExampleType::detect, input.dataset), input.dataset);
      check(encoded.example, models.tokenizer.size());
    } catch (const quern::Error& error) { require(error.what()[0] != '\0'); }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Models models;
  if (size == 0) return 0;
  try {
    read_all(models, case_of({reinterpret_cast<const char*>(data), size}));
  } catch (const quern::Error& error) { require(error.what()[0] != '\0'); }
  return 0;
}
