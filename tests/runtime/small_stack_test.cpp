// Threads of 128 KiB and less, as some systems and hosts make them: a result or a sentence, never the end of the process. And what the limits
// of call.cpp stand on: how much stack calls were seen to take, with inputs that go as deep as they may.
#include "every_call.hpp"

#include "quern/quern_sanitizer.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <pthread.h>

namespace quern::test {
namespace {

constexpr std::size_t scale = QUERN_SANITIZER != 0 ? 4 : 1;  // frame_scale of the library
constexpr std::size_t kib = 1024;

/// Runs `body` on a thread of that much stack. The most bytes of it that were ever written, found by what the stack was filled with before.
template <typename Body>
std::size_t on_stack_of(std::size_t bytes, Body body) {
  constexpr std::byte unwritten{0xA5};
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto* const whole = static_cast<std::byte*>(mmap(nullptr, bytes + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::byte* const stack = whole + page;  // what goes beyond its end meets the guard page
  EXPECT_EQ(mprotect(stack, bytes, PROT_READ | PROT_WRITE), 0);
  std::fill_n(stack, bytes, unwritten);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  EXPECT_EQ(pthread_attr_setstack(&attributes, stack, bytes), 0);
  pthread_t thread{};
  EXPECT_EQ(pthread_create(
                &thread, &attributes,
                [](void* given) -> void* {
                  (*static_cast<Body*>(given))();
                  return nullptr;
                },
                &body),
            0);
  pthread_attr_destroy(&attributes);
  pthread_join(thread, nullptr);
  std::size_t untouched = 0;
  while (untouched < bytes && stack[untouched] == unwritten) ++untouched;
  munmap(whole, bytes + page);
  return bytes - untouched;
}

/// The model file with another chat template, filled up by line ends so that all behind it keeps its alignment.
std::string with_template(const World& w, std::string text) {
  std::ifstream in(w.model_file, std::ios::binary);
  std::string file((std::istreambuf_iterator<char>(in)), {});
  const std::string key = "tokenizer.chat_template";
  const std::size_t at = file.find(key) + key.size() + 4;  // its type
  std::uint64_t size = 0;
  std::memcpy(&size, file.data() + at, sizeof size);
  while (text.size() % 32 != size % 32) text += '\n';
  const std::uint64_t now = text.size();
  file.replace(at + sizeof size, size, text);
  std::memcpy(file.data() + at, &now, sizeof now);
  const std::string path = w.folder + "/template.gguf";
  std::ofstream(path, std::ios::binary) << file;
  return path;
}

std::string repeated(std::size_t times, const std::string& text) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

/// Templates that go as deep as the limits of depth allow, and deeper.
std::vector<std::pair<const char*, std::string>> deep_templates() {
  std::vector<std::pair<const char*, std::string>> templates;
  for (const std::size_t depth : {190, 1000}) {
    templates.emplace_back("parentheses", "{{ " + repeated(depth, "(") + "1" + repeated(depth, ")") + " }}");
    templates.emplace_back("lists", "{{ " + repeated(depth, "[") + "1" + repeated(depth, "]") + " }}");
    templates.emplace_back("lists as JSON", "{{ " + repeated(depth, "[") + "1" + repeated(depth, "]") + " | tojson }}");
    templates.emplace_back("signs", "{{ " + repeated(depth, "- ") + "1 }}");
    templates.emplace_back("negations", "{{ " + repeated(depth, "not ") + "1 }}");
    templates.emplace_back("sums", "{{ 1" + repeated(depth, " + 1") + " }}");
    templates.emplace_back("conditions", "{{ " + repeated(depth, "1 if 1 else ") + "2 }}");
    templates.emplace_back("indices", "{{ x" + repeated(depth, "[0]") + " }}");
    templates.emplace_back("branches", repeated(depth, "{% if 1 %}") + "x" + repeated(depth, "{% endif %}"));
    templates.emplace_back("loops", repeated(depth, "{% for i in [1] %}") + "x" + repeated(depth, "{% endfor %}"));
    templates.emplace_back("filters", "{{ 'x'" + repeated(depth, " | upper") + " }}");
    templates.emplace_back("calls", "{{ " + repeated(depth, "range(") + "1" + repeated(depth, ") | length") + " }}");
  }
  templates.emplace_back("a macro that calls itself", "{% macro m(a) %}{{ m(a + 1) }}{% endmacro %}{{ m(1) }}");
  templates.emplace_back("a macro in a macro's default", "{% macro m(a=m()) %}{{ a }}{% endmacro %}{{ m() }}");
  templates.emplace_back(
      "a macro in blocks",
      "{% macro m(a) %}{% set x %}{% for i in [a] if i %}{{ m(i)|upper }}{% endfor %}{% endset %}{{ x }}{% endmacro %}{{ m(1) }}");
  templates.emplace_back(
      "a list that grows",
      "{% set n = namespace(l=[]) %}{% for i in range(500) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l == n.l }}{{ n.l }}");
  templates.emplace_back(
      "a list compared and sorted",
      "{% set n = namespace(l=[1], k=[1]) %}{% for i in range(190) %}{% set n.l = [n.l] %}{% set n.k = [n.k] %}{% endfor %}"
      "{{ n.l == n.k }}{{ [n.l, n.k] | sort }}{{ n.l | tojson }}{{ n.l | string }}{{ [n.l] | unique | list }}");
  templates.emplace_back("map of map", "{{ [[1]]" + repeated(150, " | map('list')") + " | list }}");
  return templates;
}

quern_status render(const quern_vocabulary* vocabulary) {
  const quern_message message{sizeof message, "user", "hi", 0};
  return text_made([&](auto** out) { return quern_render_chat(vocabulary, &message, 1, 0, out); });
}

/// Runs `body` in a child, so that a stack that overflows is a number here: 0, or the signal.
template <typename Body>
int signal_of(const Body& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    body();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << "exit " << WEXITSTATUS(status);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(SmallStack, EveryCallOnAnyThreadGivesAResultOrASentenceThatNamesTheStack) {
  ASSERT_EQ(calls_that_lack(), std::vector<std::string>{});
  for (const std::size_t size : {24 * kib, 32 * kib, 48 * kib, 64 * kib, 96 * kib, 128 * kib, 160 * kib, 256 * kib}) {
    const int signal = signal_of([&] {
      OwnedWorld w;
      bool right = true;
      std::size_t refused = 0;
      on_stack_of(scale * size, [&] {
        for (const ApiCall& call : every_call()) {
          const quern_status status = call.call(w);
          if (status == QUERN_OK) continue;
          ++refused;
          const bool said = status == QUERN_HOST_OUT_OF_MEMORY && std::strstr(quern_last_error(), "KiB of stack") != nullptr;
          if (!said && std::strcmp(call.name, "quern_session_trace_json") != 0)  // no trace is begun where that was refused
            std::fprintf(stderr, "%zu KiB: %s: %s\n", size / kib, call.name, quern_last_error());
          right &= said || std::strcmp(call.name, "quern_session_trace_json") == 0;
        }
      });
      if (size >= 128 * kib && refused > 0) right = false;  // the CPU computes on 128 KiB
      if (!right) _exit(1);
    });
    EXPECT_EQ(signal, 0) << "a stack of " << size / kib << " KiB";
  }
}

TEST(SmallStack, ADeviceWithADriverAsksForMoreThanTheCpu) {
  quern_runtime_options options{};
  options.threads = 1;
  options.backend = "buffered";
  options.backend_extra_path = QUERN_BUFFERED_DIRECTORY;
  const auto runtime = make_runtime(options);
  const std::string file = model_path("micro-llama-q8_0.gguf");
  const quern_model_options small = small_model();
  quern_model* model = nullptr;
  const auto refused = [&](quern_status status) {
    EXPECT_EQ(status, QUERN_HOST_OUT_OF_MEMORY);
    EXPECT_NE(std::strstr(quern_last_error(), "KiB of stack"), nullptr) << quern_last_error();
  };
  on_stack_of(scale * 128 * kib, [&] { refused(quern_model_load(runtime.get(), file.c_str(), &small, &model)); });
  ASSERT_EQ(quern_model_load(runtime.get(), file.c_str(), &small, &model), QUERN_OK) << quern_last_error();
  const Handle<quern_model> owner(model);
  const auto session = make_session(model);
  on_stack_of(scale * 128 * kib, [&] {
    quern_session* second = nullptr;
    refused(quern_session_create(model, nullptr, &second));
    const quern_request one = request(some_ids(), 0, 2);
    refused(quern_generate(session.get(), &one, 1, nullptr));
  });
  on_stack_of(scale * 512 * kib, [&] { EXPECT_EQ(draw(session.get(), request(some_ids(), 0, 2)).size(), 2u); });
}

TEST(SmallStack, ReleasesWorkOnTheSmallestThread) {
  EXPECT_EQ(signal_of([] {
              OwnedWorld w;
              on_stack_of(scale * 32 * kib, [&] { release_world(w); });
            }),
            0);
}

TEST(SmallStack, ADeepTemplateIsRenderedOrRefusedOnAnyThread) {
  for (const auto& [name, text] : deep_templates()) {
    EXPECT_EQ(signal_of([&] {
                OwnedWorld w;
                const std::string path = with_template(w, text);
                for (const std::size_t size : {96 * kib, 128 * kib, 160 * kib, 256 * kib, 512 * kib, 8192 * kib}) {
                  quern_vocabulary* vocabulary = nullptr;
                  if (quern_vocabulary_open(path.c_str(), &vocabulary) != QUERN_OK) _exit(1);
                  on_stack_of(scale * size, [&] { (void)render(vocabulary); });
                  quern_vocabulary_release(vocabulary);
                }
              }),
              0)
        << name << ": " << text.substr(0, 60);
  }
}

// The limits of call.cpp. A call that works on a device may take what its driver takes; of ours, the CPU's is measured.
TEST(SmallStack, NoCallTakesMoreThanItAsksFor) {
  OwnedWorld w;
  const std::set<std::string> little{"quern_load_report_entry",   "quern_device_list_entry",   "quern_model_get_info",
                                     "quern_sequence_length",     "quern_generation_answer",   "quern_generation_top",
                                     "quern_evaluation_get_info", "quern_statistics_get_info", "quern_statistics_get_device",
                                     "quern_statistics_get_cut",  "quern_tensor_get_info",     "quern_estimate_get_info",
                                     "quern_estimate_dtype"};
  const std::set<std::string> text{
      "quern_load_report_words", "quern_load_report_json",    "quern_device_list_json",      "quern_vocabulary_open",
      "quern_tokenize",          "quern_detokenize",          "quern_token_bytes",           "quern_render_chat",
      "quern_tokenize_chat",     "quern_show_json",           "quern_model_placement_words", "quern_model_placement_json",
      "quern_statistics_json",   "quern_session_trace_start", "quern_session_trace_json",    "quern_estimate_shape",
      "quern_find_model",        "quern_cached_models_json",  "quern_remove_model",          "quern_session_statistics"};
  const std::size_t base = on_stack_of(1024 * kib, [] {});  // of the thread itself
  std::size_t most_work = 0, most_text = 0, most_little = 0;
  for (const ApiCall& call : every_call()) {
    quern_status status = QUERN_OK;
    const std::size_t all = on_stack_of(scale * 1024 * kib, [&] { status = call.call(w); });
    const std::size_t used = all - std::min(all, base);
    EXPECT_TRUE(status == QUERN_OK) << call.name << ": " << quern_last_error();
    std::size_t& most = little.contains(call.name) ? most_little : text.contains(call.name) ? most_text : most_work;
    most = std::max(most, used);
    const std::size_t limit = scale * (little.contains(call.name) ? 8 : text.contains(call.name) ? 64 : 96) * kib;
    EXPECT_LE(used, limit) << call.name;
  }
  std::printf("the most of work %zu, of text %zu, of little %zu bytes; a thread itself %zu\n", most_work, most_text, most_little, base);
}

}  // namespace
}  // namespace quern::test
