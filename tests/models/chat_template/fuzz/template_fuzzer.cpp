// libFuzzer target: any bytes as a template of up to 100 KB, rendered over a chat under the default limits.
//
//   the template, up to the first zero byte (or the end: then the chat and the options below are fixed)
//   byte     flags, see below
//   2 bytes  the limits: of the output, of the memory (0: the default; otherwise that many times 16 bytes)
//   rest     the messages: role, zero byte, content, zero byte; of one with the role "json", the content is the chat, as parse_chat() reads it
//
// Holds: nothing but quern::Error with a known code escapes, its text is UTF-8; what is rendered is within its limit;
// no CPU time beyond the limit passes; where neither render was cut off by the clock, both give the same answer, the text
// of a refusal too. Start it with the golden templates, the dictionary and the length:
//   template_fuzzer -max_len=102400 -dict=tests/models/chat_template/fuzz/jinja.dict CORPUS
//                   tests/models/chat_template/fuzz/seeds tests/data/chat_template
#include "quern/models/chat.hpp"
#include "quern/models/chat_template.hpp"

#include "quern/graph/error.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <optional>
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
  std::optional<quern::Chat> chat = std::nullopt;  // in place of the messages
};

void require(bool holds) {
  if (!holds) std::abort();
}

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
#ifdef QUERN_FUZZ_SEEDS  // replayed by every test run: seeds of shapes that only the clock ends take a moment each
  options.limits.cpu_seconds = 0.02;
#endif
  if (flags & few_steps) options.limits.steps = 100;
  const std::uint64_t output = take_byte(left), memory = take_byte(left);
  if (output) options.limits.output_bytes = 16 * output;
  if (memory) options.limits.memory_bytes = 16 * memory;
  return options;
}

Case read_case(std::string_view left) {
  Case read{take_text(left), {}, read_options(left)};
  while (!left.empty()) {
    const std::string_view role = take_text(left);
    read.messages.push_back({std::string(role), std::string(take_text(left))});
  }
  if (read.messages.size() == 1 && read.messages[0].role == "json") {
    try {
      read.chat = quern::parse_chat(read.messages[0].content);
    } catch (const quern::Error& error) { require(error.what()[0] != '\0'); }
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
  bool by_the_clock() const { return text.find("seconds of CPU time") != std::string::npos; }
};

double cpu_seconds() {
  std::timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// A sanitizer makes one indivisible piece of work (a move of 64 MiB, giving a million values back) ten times as long.
constexpr double slack_seconds = 3;

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(at < text.size() ? text[at] : 0); };
    const std::size_t size = byte(i) < 0x80 ? 1 : byte(i) < 0xc2 ? 0 : byte(i) < 0xe0 ? 2 : byte(i) < 0xf0 ? 3 : 4;
    if (size == 0) return false;
    for (std::size_t k = 1; k < size; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
    }
    i += size;
  }
  return true;
}

void check_refusal(const quern::Error& error) {
  require(error.code() == QUERN_BAD_MODEL || error.code() == QUERN_UNSUPPORTED || error.code() == QUERN_INVALID_ARGUMENT);
  require(std::string_view(error.what()).starts_with("fuzz"));
  require(is_utf8(error.what()));
}

Outcome render(const quern::ChatTemplate& parsed, const Case& input) {
  const double start = cpu_seconds();
  Outcome outcome;
  try {
    outcome = {QUERN_OK,
               input.chat ? quern::render_chat(parsed, *input.chat, input.options).text : parsed.render(input.messages, input.options)};
    require(outcome.text.size() <= input.options.limits.output_bytes);
  } catch (const quern::Error& error) {
    check_refusal(error);
    outcome = {error.code(), error.what()};
  }
  require(cpu_seconds() - start <= input.options.limits.cpu_seconds + slack_seconds);
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Case input = read_case({reinterpret_cast<const char*>(data), size});
  try {
    const auto parsed = quern::ChatTemplate::parse(input.source, "fuzz");
    const double start = cpu_seconds();
    const Outcome first = render(parsed, input);
    if (first.by_the_clock() || cpu_seconds() - start > 0.01) return 0;  // a second time would only cost more
    require(first == render(parsed, input));
  } catch (const quern::Error& error) {
    check_refusal(error);
    require(error.code() != QUERN_INVALID_ARGUMENT);
  }
  return 0;
}
