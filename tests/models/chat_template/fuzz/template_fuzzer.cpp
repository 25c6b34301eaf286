// libFuzzer target: any bytes as a template, rendered over a chat under small limits.
//
//   the template, up to the first zero byte (or the end: then the chat and the options below are fixed)
//   byte     flags, see below
//   2 bytes  the limits: of the output, of the memory (0: the usual; otherwise that many times 16 bytes)
//   rest     the messages: role, zero byte, content, zero byte
//
// Holds: nothing but quern::Error with a known code escapes; a render gives the same answer twice, the text
// of a refusal too; what is rendered is within its limit. Start it with the golden templates and the
// dictionary:
//   template_fuzzer -dict=tests/models/chat_template/fuzz/jinja.dict CORPUS
//                   tests/models/chat_template/fuzz/seeds tests/data/chat_template
#include "quern/models/chat_template.hpp"

#include "quern/graph/error.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

enum Flag : std::uint8_t {
  no_prompt = 1,
  no_bos = 2,
  no_eos = 4,
  no_time = 8,
  with_tools = 16,
  replace_messages = 32,
  few_steps = 64,
  afternoon = 128,  // of the last day of a leap year
};

struct Case {
  std::string_view source;
  std::vector<quern::Message> messages;
  quern::TemplateOptions options;
};

/// Up to the next zero byte, which goes too.
std::string_view take_text(std::string_view& left) {
  const std::size_t end = std::min(left.find('\0'), left.size());
  const std::string_view taken = left.substr(0, end);
  left.remove_prefix(std::min(end + 1, left.size()));
  return taken;
}

std::uint8_t take_byte(std::string_view& left) {
  const std::string_view taken = left.substr(0, 1);
  left.remove_prefix(taken.size());
  return taken.empty() ? 0 : static_cast<std::uint8_t>(taken[0]);
}

quern::TemplateOptions read_options(std::string_view& left) {
  quern::TemplateOptions options;
  const std::uint8_t flags = take_byte(left);
  options.add_generation_prompt = !(flags & no_prompt);
  if (!(flags & no_bos)) options.bos_token = "<s>";
  if (!(flags & no_eos)) options.eos_token = "</s>";
  options.variables["enable_thinking"] = false;
  options.variables["answer"] = std::int64_t{41};
  options.variables["ratio"] = 0.5;
  options.variables["label"] = "tag";
  if (flags & with_tools) options.variables["tools"] = "[{\"name\": \"f\"}]";
  if (flags & replace_messages) options.variables["messages"] = "mine";
  if (!(flags & no_time)) {
    options.now.emplace();
    options.now->tm_year = 124;
    options.now->tm_mday = 1;
    if (flags & afternoon) {
      options.now->tm_mon = 11;
      options.now->tm_mday = 31;
      options.now->tm_hour = 23;
    }
  }
  options.limits.steps = flags & few_steps ? 100 : 50'000;
  const std::uint64_t output = take_byte(left), memory = take_byte(left);
  options.limits.output_bytes = output ? 16 * output : 1 << 20;
  options.limits.memory_bytes = memory ? 16 * memory : 4 << 20;
  return options;
}

Case read_case(std::string_view left) {
  Case read{take_text(left), {}, read_options(left)};
  while (!left.empty()) {
    const std::string_view role = take_text(left);
    read.messages.push_back({std::string(role), std::string(take_text(left))});
  }
  if (read.messages.empty())
    read.messages = {{"system", " Be kind.\n"},
                     {"user", "h\u00e9llo <b>{{ x }}</b> \u65e5\u672c"},
                     {"assistant", "<think>\na\n</think>\n\nb"},
                     {"user", ""}};
  return read;
}

struct Outcome {
  quern_status code = QUERN_OK;
  std::string text;  // what was rendered, or why not
  bool operator==(const Outcome&) const = default;
};

Outcome render(const quern::ChatTemplate& parsed, const Case& input) {
  try {
    return {QUERN_OK, parsed.render(input.messages, input.options)};
  } catch (const quern::Error& error) {
    return {error.code(), error.what()};
  }
}

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Case input = read_case({reinterpret_cast<const char*>(data), size});
  try {
    const auto parsed = quern::ChatTemplate::parse(input.source, "fuzz");
    const Outcome first = render(parsed, input);
    require(first == render(parsed, input));
    if (first.code == QUERN_OK) {
      require(first.text.size() <= input.options.limits.output_bytes);
    } else {
      require(first.code == QUERN_BAD_MODEL || first.code == QUERN_UNSUPPORTED ||
              first.code == QUERN_INVALID_ARGUMENT);
      require(first.text.starts_with("fuzz"));
    }
  } catch (const quern::Error& error) {
    require(error.code() == QUERN_BAD_MODEL || error.code() == QUERN_UNSUPPORTED);
    require(std::string_view(error.what()).starts_with("fuzz"));
  }
  return 0;
}
