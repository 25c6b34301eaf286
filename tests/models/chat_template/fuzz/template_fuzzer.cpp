// libFuzzer target: any bytes as a template, rendered over a fixed chat under small limits.
//
// Holds: nothing but quern::Error with a known code escapes; a render gives the same answer twice; what is
// rendered is within its limit. Start it with the golden templates and the dictionary:
//   template_fuzzer -dict=tests/models/chat_template/fuzz/jinja.dict CORPUS
//   tests/models/chat_template/fuzz/seeds
//                   tests/data/chat_template
#include "quern/models/chat_template.hpp"

#include "quern/graph/error.hpp"

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

namespace {

bool is_expected(quern_status code) {
  return code == QUERN_BAD_MODEL || code == QUERN_UNSUPPORTED || code == QUERN_INVALID_ARGUMENT;
}

std::optional<std::string> render(const quern::ChatTemplate& parsed, const quern::TemplateOptions& options) {
  const std::vector<quern::Message> messages = {{"system", " Be kind.\n"},
                                                {"user", "h\u00e9llo <b>{{ x }}</b> \u65e5\u672c"},
                                                {"assistant", "<think>\na\n</think>\n\nb"},
                                                {"user", ""}};
  try {
    return parsed.render(messages, options);
  } catch (const quern::Error& error) {
    if (!is_expected(error.code())) std::abort();
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quern::TemplateOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  options.variables["enable_thinking"] = false;
  options.now.emplace();
  options.now->tm_year = 124;
  options.now->tm_mday = 1;
  options.limits.steps = 50'000;
  options.limits.output_bytes = 1 << 20;
  options.limits.memory_bytes = 4 << 20;
  try {
    const auto parsed = quern::ChatTemplate::parse({reinterpret_cast<const char*>(data), size}, "fuzz");
    const auto first = render(parsed, options);
    if (first != render(parsed, options)) std::abort();
    if (first && first->size() > options.limits.output_bytes) std::abort();
  } catch (const quern::Error& error) {
    if (error.code() != QUERN_BAD_MODEL && error.code() != QUERN_UNSUPPORTED) std::abort();
  }
  return 0;
}
