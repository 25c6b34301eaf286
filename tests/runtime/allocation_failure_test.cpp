// Every place that allocates, made to fail: in each run of a whole life (runtime, model, session, generate, save, restore, tensors,
// release) one allocation returns null. Nothing may abort, the call must say that memory ran out, nothing may leak, and the same call
// must succeed when it is made once more.
//
// usage: allocation_failure_test MODEL PLUGIN_FOLDER [--readers | --training] [--every | --share N | --only N] [--backend ID]
//   --readers: another life, of the calls that read and write JSON and list folders: a plugin's kept probe result (the probes themselves run
//   in the helper process), the device list, the file of a model, an estimate, a chat whose template has macros, the caches of pulled models.
//   --training: the life of a trainer: create, steps, save, resume, the result. Where the update of a step failed, another trainer resumes.
//   --share N: each N-th place alone. --only N: allocation N of the main thread fails, in this process, for a debugger.
//   --backend: another one than the CPU's, and only allocations on its plugin's behalf fail, none of the driver's: a driver of tests is given
//   by LD_LIBRARY_PATH.
//   Without --every the first allocation of each distinct call stack fails, which is every place on every way to it; with it, each
//   allocation of a run in turn (minutes). Each failure runs in a process of its own, so that an abort is counted, not fatal.
//
// malloc and its kin are replaced for the whole program: libquern, the plugin and libstdc++ take theirs from here.
#include "quern.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
}

namespace {

constexpr int most_frames = 40;
constexpr std::uint64_t never = ~std::uint64_t{0};

struct Stack {
  std::uintptr_t frames[most_frames];
  int depth = 0;
};

std::atomic<bool> counting{false};          // off: allocations pass and are not counted
std::atomic<std::int64_t> live{0};          // bytes, always
std::uint64_t main_count = 0;               // allocations of the main thread since counting began
std::atomic<std::uint64_t> other_count{0};  // of all other threads
std::uint64_t fail_main = never, fail_other = never;
std::vector<Stack>* recorded = nullptr;        // by main_count, where asked for
std::vector<Stack>* recorded_other = nullptr;  // by other_count
std::mutex recording;
Stack failed;  // where the failure was
bool has_failed = false;
thread_local bool inside = false;
thread_local bool is_main = false;

_Unwind_Reason_Code take_frame(_Unwind_Context* context, void* user) {
  Stack& stack = *static_cast<Stack*>(user);
  stack.frames[stack.depth++] = _Unwind_GetIP(context);
  return stack.depth < most_frames ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/// True where this allocation is the one to fail.
bool fails() {
  if (!counting.load(std::memory_order_relaxed) || inside) return false;
  if (!is_main) {
    if (recorded_other != nullptr) {
      inside = true;
      Stack stack;
      _Unwind_Backtrace(take_frame, &stack);
      {
        const std::lock_guard lock(recording);
        recorded_other->push_back(stack);
      }
      inside = false;
    }
    const bool fail = other_count++ == fail_other;
    has_failed |= fail;
    return fail;
  }
  inside = true;
  if (recorded != nullptr) {
    Stack stack;
    _Unwind_Backtrace(take_frame, &stack);
    recorded->push_back(stack);
  }
  const bool fail = main_count++ == fail_main;
  if (fail) {
    has_failed = true;
    _Unwind_Backtrace(take_frame, &failed);
  }
  inside = false;
  return fail;
}

void* counted(void* memory) {
  if (memory != nullptr) live += static_cast<std::int64_t>(malloc_usable_size(memory));
  return memory;
}

void* refused() {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace

extern "C" {
void* malloc(std::size_t size) { return fails() ? refused() : counted(__libc_malloc(size)); }
void* calloc(std::size_t count, std::size_t size) { return fails() ? refused() : counted(__libc_calloc(count, size)); }
void* realloc(void* memory, std::size_t size) {
  if (fails()) return refused();
  const auto before = memory == nullptr ? 0 : static_cast<std::int64_t>(malloc_usable_size(memory));
  void* grown = __libc_realloc(memory, size);
  if (grown != nullptr || size == 0) live -= before;
  return counted(grown);
}
void* memalign(std::size_t alignment, std::size_t size) { return fails() ? refused() : counted(__libc_memalign(alignment, size)); }
void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }
int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  void* memory = memalign(alignment, size);
  if (memory == nullptr) return ENOMEM;
  *out = memory;
  return 0;
}
void free(void* memory) {
  if (memory != nullptr) live -= static_cast<std::int64_t>(malloc_usable_size(memory));
  __libc_free(memory);
}
/// Anonymous memory is an allocation too; what maps a file passes.
void* mmap(void* where, std::size_t size, int protection, int flags, int file, off_t offset) {
  if ((flags & MAP_ANONYMOUS) != 0 && fails()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(syscall(SYS_mmap, where, size, protection, flags, file, offset));
}
}

namespace {

const char* model_path = nullptr;
const char* plugin_folder = nullptr;
const char* backend = "cpu";
bool of_plugin_alone = false;
std::string cache_folder;

bool readers = false, training = false;
std::string hub_folder;
std::string macro_model;  // the model's file with another chat template
constexpr const char* url_model = "https://example.org/m-Q4_0.gguf";

/// What a life made, for comparison.
struct Results {
  std::vector<std::int32_t> ids;
  std::vector<float> embedding, product;
  std::vector<double> losses;  // of a training
  std::vector<char> texts;     // of the readers
  bool operator==(const Results&) const = default;
};

/// One life. Calls that fail are made once more with every allocation granted.
class Life {
 public:
  quern_status first_failure = QUERN_OK;
  std::string trouble;  // what must not be; empty if nothing
  Results results;

  void run() {
    counting = true;
    readers ? read_all() : live_all();
    counting = false;
    if (training) remove_output();
    counting = false;
  }

 private:
  /// True if the call succeeded, now or when made again.
  template <typename Call>
  bool step(const char* name, const Call& call) {
    quern_status status = call();
    if (status == QUERN_OK) return true;
    counting = false;
    // A plugin that had no memory to open its device is refused with its words.
    const bool refused = training && status == QUERN_BACKEND_UNAVAILABLE && std::strstr(quern_last_error(), "out of memory") != nullptr;
    if (status != QUERN_HOST_OUT_OF_MEMORY && status != QUERN_OUT_OF_MEMORY && !refused)
      say(std::string(name) + " gave " + quern_status_name(status) + ": " + quern_last_error());
    if (*quern_last_error() == '\0') say(std::string(name) + " failed without a word");
    if (first_failure == QUERN_OK) first_failure = status;
    status = call();
    counting = true;
    if (status == QUERN_OK) return true;
    say(std::string(name) + " failed again, with enough memory: " + quern_status_name(status) + ": " + quern_last_error());
    return false;
  }
  void say(const std::string& text) {
    if (trouble.empty()) trouble = text;
  }

  /// A call that makes a text, which is kept for comparison if it says the same each time.
  template <typename Call>
  void text_of(const char* name, const Call& call, bool constant = true) {
    quern_text* text = nullptr;
    if (step(name, [&] { return call(&text); }) && constant) {
      counting = false;
      results.texts.insert(results.texts.end(), quern_text_data(text), quern_text_data(text) + quern_text_size(text));
      counting = true;
    }
    quern_text_release(text);
  }

  void read_all() {
    quern_runtime* runtime = nullptr;
    quern_runtime_options options{};
    options.struct_size = sizeof options;
    options.ignore_environment = 1;
    options.backend = "cpu";  // one plugin, one thread that asks for it: the same order each time
    options.backend_path = plugin_folder;
    options.cache_dir = cache_folder.c_str();
    options.threads = 2;
    if (step("quern_runtime_create", [&] { return quern_runtime_create(&options, &runtime); })) {
      quern_device_list* devices = nullptr;
      if (step("quern_runtime_devices", [&] { return quern_runtime_devices(runtime, &devices); }))
        text_of(
            "quern_device_list_json", [&](quern_text** text) { return quern_device_list_json(devices, text); }, false);  // free memory
      quern_device_list_release(devices);
    }
    quern_runtime_release(runtime);
    text_of("quern_show_json", [&](quern_text** text) { return quern_show_json(model_path, text); });
    quern_estimate* estimate = nullptr;
    step("quern_estimate_file", [&] { return quern_estimate_file(nullptr, model_path, nullptr, &estimate); });
    quern_estimate_release(estimate);
    quern_hub_options hub{};
    hub.struct_size = sizeof hub;
    hub.ignore_environment = 1;
    hub.hub_cache = hub_folder.c_str();
    hub.cache_dir = cache_folder.c_str();
    chat();
    text_of("quern_cached_models_json", [&](quern_text** text) { return quern_cached_models_json(&hub, text); });
    text_of("quern_find_model", [&](quern_text** text) { return quern_find_model("owner/name:Q8_0", &hub, text); });
    text_of("quern_find_model", [&](quern_text** text) { return quern_find_model(url_model, &hub, text); });
  }

  /// A template whose macros and blocks make scopes, which are left while memory lacks.
  void chat() {
    quern_vocabulary* words = nullptr;
    const quern_message message = {sizeof message, "user", "hi", 0};
    quern_text* rendered = nullptr;
    std::int32_t ids[256];
    std::uint64_t count = 0;
    if (step("quern_vocabulary_open", [&] { return quern_vocabulary_open(macro_model.c_str(), &words); }) &&
        step("quern_render_chat", [&] { return quern_render_chat(words, &message, 1, 0, &rendered); }) &&
        step("quern_tokenize_rendered", [&] { return quern_tokenize_rendered(words, rendered, 0, ids, 256, &count); })) {
      counting = false;
      results.ids.assign(ids, ids + count);
      counting = true;
    }
    quern_text_release(rendered);
    quern_vocabulary_release(words);
  }

  void live_all() {
    quern_runtime* runtime = nullptr;
    quern_runtime_options options{};
    options.struct_size = sizeof options;
    options.ignore_environment = 1;
    options.backend = backend;
    options.backend_path = plugin_folder;
    options.cache_dir = cache_folder.c_str();
    options.threads = 2;
    options.probe_in_process = 1;  // a process of a process of a test of thousands would take minutes
    const auto create = [&] { return step("quern_runtime_create", [&] { return quern_runtime_create(&options, &runtime); }); };
    if (!create()) return;
    // A plugin that had no memory for its self-test is refused by this runtime, which says so; another runtime asks it again.
    if (quern_runtime_ready(runtime) != QUERN_OK) {
      counting = false;
      if (std::strstr(quern_last_error(), "memory") == nullptr) say(std::string("quern_runtime_ready: ") + quern_last_error());
      first_failure = QUERN_BACKEND_UNAVAILABLE;
      quern_runtime_release(runtime);
      if (!create()) return;
      counting = true;
    }
    with_runtime(runtime);
    quern_runtime_release(runtime);
  }

  std::string output() const { return cache_folder + "/out-" + std::to_string(getpid()); }
  void remove_output() const {
    const std::string remove = "rm -rf '" + output() + "'";
    if (std::system(remove.c_str()) != 0) std::abort();
  }

  void train(quern_runtime* runtime) {
    counting = false;
    const std::string json =
        std::string("{\"base_model\": \"") + model_path +
        "\", \"adapter\": \"lora\", \"lora_r\": 2, \"lora_target_modules\": [\"q_proj\"], \"peft_layers_to_transform\": [1], "
        "\"learning_rate\": 0.01, \"max_steps\": 3, \"save_strategy\": \"no\", \"datasets\": [{\"path\": \"" +
        cache_folder + "/data.jsonl\"}], \"test_datasets\": [{\"path\": \"" + cache_folder +
        "/data.jsonl\"}], \"gradient_accumulation_steps\": 2, \"eval_strategy\": \"no\", \"output_dir\": \"" + output() + "\"}";
    results.losses.assign(3, 0.0);
    counting = true;
    quern_training *settings = nullptr, *resumed = nullptr;
    const char* resume = "resume_from_checkpoint=true";
    quern_training_options again{};
    again.struct_size = sizeof again;
    again.overrides = &resume;
    again.override_count = 1;
    quern_trainer* trainer = nullptr;
    const auto create = [&](quern_training* of) {
      quern_trainer_release(trainer);
      trainer = nullptr;
      return step("quern_trainer_create", [&] { return quern_trainer_create(runtime, of, model_path, nullptr, &trainer); });
    };
    if (step("quern_training_open", [&] { return quern_training_open(json.c_str(), nullptr, &settings); }) &&
        step("quern_training_open", [&] { return quern_training_open(json.c_str(), &again, &resumed); }) && create(settings) &&
        step("quern_trainer_save", [&] { return quern_trainer_save(trainer, nullptr); }) &&
        train_a_step(trainer, [&] { return create(resumed); }) &&
        step("quern_trainer_save", [&] { return quern_trainer_save(trainer, nullptr); }) &&
        train_a_step(trainer, [&] { return create(resumed); }) && create(resumed) &&
        train_a_step(trainer, [&] { return create(resumed); })) {
      quern_training_evaluation evaluation{};
      evaluation.struct_size = sizeof evaluation;
      if (step("quern_trainer_evaluate", [&] { return quern_trainer_evaluate(trainer, &evaluation); })) {
        counting = false;
        results.losses.push_back(evaluation.loss);
        counting = true;
      }
      step("quern_trainer_write_result", [&] { return quern_trainer_write_result(trainer); });
      text_of(
          "quern_trainer_json", [&](quern_text** text) { return quern_trainer_json(trainer, text); }, false);
      text_of("quern_trainer_example_json", [&](quern_text** text) { return quern_trainer_example_json(trainer, 0, text); });
      text_of(
          "quern_training_evaluate_json",
          [&](quern_text** text) { return quern_training_evaluate_json(runtime, settings, model_path, nullptr, nullptr, text); }, false);
    }
    quern_trainer_release(trainer);
    quern_training_release(resumed);
    quern_training_release(settings);
  }

  /// An update that failed cannot be made again: the trainer is then created anew, from its checkpoint.
  template <typename Anew>
  bool train_a_step(quern_trainer*& trainer, const Anew& anew) {
    quern_training_callbacks callbacks{};
    callbacks.struct_size = sizeof callbacks;
    callbacks.user = this;
    callbacks.step = [](void* self, const quern_training_step* done) {
      static_cast<Life*>(self)->results.losses.at(done->step - 1) = done->loss;
      return 0;
    };
    std::uint32_t end = 0;
    const auto run = [&] {
      quern_status status = quern_trainer_run(trainer, 1, &callbacks, &end);
      if (status == QUERN_INVALID_ARGUMENT && std::strstr(quern_last_error(), "last checkpoint") != nullptr && anew())
        status = quern_trainer_run(trainer, 1, &callbacks, &end);
      return status;
    };
    return step("quern_trainer_run", run);
  }

  void with_runtime(quern_runtime* runtime) {
    if (training) return train(runtime);
    quern_load_report* report = nullptr;
    if (step("quern_runtime_load_report", [&] { return quern_runtime_load_report(runtime, &report); })) {
      quern_text* text = nullptr;
      step("quern_load_report_json", [&] { return quern_load_report_json(report, &text); });
      quern_text_release(text);
    }
    quern_load_report_release(report);
    tensors(runtime);
    quern_model* model = nullptr;
    quern_model_options options{};
    options.struct_size = sizeof options;
    options.context = 64;
    options.sequences = 2;
    options.embeddings = 1;
    if (step("quern_model_load", [&] { return quern_model_load(runtime, model_path, &options, &model); })) with_model(model);
    quern_model_release(model);
  }

  void tensors(quern_runtime* runtime) {
    quern_tensor *x = nullptr, *y = nullptr;
    const std::int64_t shape[2] = {2, 2};
    const float numbers[4] = {1, 2, 3, 4};
    if (step("quern_tensor_create", [&] { return quern_tensor_create(runtime, nullptr, QUERN_F32, shape, 2, &x); }) &&
        step("quern_tensor_write", [&] { return quern_tensor_write(x, 0, numbers, sizeof numbers); })) {
      const quern_tensor* inputs[2] = {x, x};
      quern_op_call call{};
      call.struct_size = sizeof call;
      call.op = "matmul";
      call.inputs = inputs;
      call.input_count = 2;
      call.outputs = &y;
      call.output_count = 1;
      counting = false;  // the test's own
      results.product.resize(4);
      counting = true;
      if (step("quern_run_op", [&] { return quern_run_op(&call, nullptr); }))
        step("quern_tensor_read", [&] { return quern_tensor_read(y, 0, results.product.data(), 16); });
    }
    quern_tensor_release(x);
    quern_tensor_release(y);
  }

  void with_model(quern_model* model) {
    quern_session *session = nullptr, *second = nullptr;
    quern_session_options options{};
    options.struct_size = sizeof options;
    options.sequences = 2;
    const quern_vocabulary* words = quern_model_vocabulary(model);
    quern_text* chat = nullptr;
    const quern_message message = {sizeof message, "user", "hi", 0};
    std::int32_t ids[256];
    std::uint64_t count = 0;
    if (step("quern_render_chat", [&] { return quern_render_chat(words, &message, 1, 0, &chat); }) &&
        step("quern_tokenize_chat",
             [&] { return quern_tokenize_chat(words, quern_text_data(chat), quern_text_size(chat), 0, ids, 256, &count); }) &&
        step("quern_tokenize_rendered", [&] { return quern_tokenize_rendered(words, chat, 0, ids, 256, &count); }) &&
        step("quern_session_create", [&] { return quern_session_create(model, &options, &session); }) &&
        step("quern_session_create", [&] { return quern_session_create(model, nullptr, &second); })) {
      with_sessions(session, second, ids, std::min<std::uint64_t>(count, 32));
    }
    quern_text_release(chat);
    quern_session_release(session);
    quern_session_release(second);
  }

  void with_sessions(quern_session* session, quern_session* second, const std::int32_t* ids, std::uint64_t count) {
    const quern_logit_bias bias = {5, -1};
    quern_sampling sampling{};
    sampling.struct_size = sizeof sampling;
    sampling.temperature = 0.8f;
    sampling.top_p = 0.9f;
    sampling.repeat_penalty = 1.1f;
    sampling.seed = 7;
    sampling.bias = &bias;
    sampling.bias_count = 1;
    const char* stop = "no such text";
    quern_request requests[2] = {};
    for (std::uint32_t s = 0; s < 2; ++s) {
      requests[s].struct_size = sizeof requests[s];
      requests[s].prompt = ids;
      requests[s].prompt_count = count;
      requests[s].sequence = s;
      requests[s].sampling = s == 0 ? nullptr : &sampling;
      requests[s].max_tokens = 6;
      requests[s].stop = &stop;
      requests[s].stop_count = 1;
      requests[s].logprobs = 3;
      requests[s].ignore_end = 1;
    }
    quern_generation* generation = nullptr;
    if (step("quern_generate", [&] { return quern_generate(session, requests, 2, &generation); })) {
      for (std::uint32_t s = 0; s < 2; ++s) {
        quern_answer_info info{};
        info.struct_size = sizeof info;
        step("quern_generation_answer", [&] { return quern_generation_answer(generation, s, &info); });
        counting = false;  // what follows is the test's own
        results.ids.insert(results.ids.end(), info.ids, info.ids + info.id_count);
        counting = true;
      }
    }
    quern_generation_release(generation);
    std::uint64_t needed = 0;
    if (step("quern_session_save", [&] { return quern_session_save(session, nullptr, 0, &needed); })) {
      counting = false;
      std::vector<char> state(needed);
      counting = true;
      if (step("quern_session_save", [&] { return quern_session_save(session, state.data(), state.size(), &needed); }))
        step("quern_session_restore", [&] { return quern_session_restore(session, state.data(), state.size()); });
    }
    counting = false;
    results.embedding.resize(4096);
    counting = true;
    step("quern_embed", [&] {
      return quern_embed(second, 0, ids, count, QUERN_POOL_MEAN, 0, results.embedding.data(), results.embedding.size(), nullptr);
    });
    quern_statistics* statistics = nullptr;
    if (step("quern_session_statistics", [&] { return quern_session_statistics(session, &statistics); })) {
      quern_text* text = nullptr;
      step("quern_statistics_json", [&] { return quern_statistics_json(statistics, &text); });
      quern_text_release(text);
    }
    quern_statistics_release(statistics);
  }
};

bool write_file(const std::string& path, const std::string& text) {
  const std::string folder = path.substr(0, path.rfind('/'));
  const std::string make = "mkdir -p '" + folder + "'";
  std::FILE* file = std::system(make.c_str()) == 0 ? std::fopen(path.c_str(), "w") : nullptr;
  if (file == nullptr) return false;
  std::fwrite(text.data(), 1, text.size(), file);
  return std::fclose(file) == 0;
}

/// One model as the hub's clients lay it, and one of another URL.
bool fill_caches() {
  hub_folder = cache_folder + "/hub";
  const std::string commit(40, 'a'), repository = hub_folder + "/models--owner--name", stored = cache_folder + "/models/41d34d1074dc3a05";
  return write_file(cache_folder + "/data.jsonl", "{\"input_ids\": [1, 2, 3, 4]}\n{\"input_ids\": [5, 6, 7]}\n") &&
         write_file(repository + "/refs/main", commit) && write_file(repository + "/snapshots/" + commit + "/name-Q8_0.gguf", "GGUF") &&
         write_file(repository + "/snapshots/" + commit + "/more/README.md", "words") && write_file(stored + "/m-Q4_0.gguf", "GGUF") &&
         write_file(stored + "/source.json", std::string("{\"url\": \"") + url_model +
                                                 "\", \"files\": [{\"name\": \"m-Q4_0.gguf\", \"bytes\": 4, \"sha256\": \"" +
                                                 std::string(64, '0') + "\"}]}");
}

std::string words_of(const Stack& stack) {
  std::string text;
  for (int i = 0; i < stack.depth; ++i) {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(stack.frames[i]), &info);
    char line[400];
    const char* slash = info.dli_fname == nullptr ? nullptr : std::strrchr(info.dli_fname, '/');
    std::snprintf(line, sizeof line, "    %s+0x%zx %s\n", slash == nullptr ? "?" : slash + 1,
                  static_cast<std::size_t>(stack.frames[i] - reinterpret_cast<std::uintptr_t>(info.dli_fbase)),
                  info.dli_sname == nullptr ? "" : info.dli_sname);
    text += line;
  }
  return text;
}

/// Where an allocation is made for the plugin that is under test, by itself or what it calls, but not by its driver.
bool is_of_plugin(const Stack& stack) {
  static std::map<std::uintptr_t, std::string> files;
  const std::string plugin = std::string("libbackend_") + backend;
  bool its = false;
  for (int i = 0; i < stack.depth; ++i) {
    const auto [file, is_new] = files.try_emplace(stack.frames[i]);
    if (Dl_info info{}; is_new && dladdr(reinterpret_cast<void*>(stack.frames[i]), &info) != 0 && info.dli_fname != nullptr)
      file->second = std::string(info.dli_fname).substr(std::string(info.dli_fname).rfind('/') + 1);
    if (file->second.starts_with("libcuda")) return false;
    its |= file->second.starts_with(plugin);
  }
  return its;
}

enum : int { child_ok = 0, child_trouble = 1, child_no_failure = 3, child_absorbed = 4 };

/// Bytes that a library beyond Quern keeps of each life (cuBLASLt of a handle that was destroyed); a call that is made once more has two.
std::int64_t kept_by_others = 0;

/// In a process of its own. A failure that no call noticed is fine where all results are right.
int child(std::uint64_t main_index, std::uint64_t other_index, const Results& expected) {
  std::int64_t grown[2] = {};
  bool noticed = false;
  for (int round = 0; round < 2; ++round) {
    Life life;
    const std::int64_t before = live;
    main_count = 0;
    other_count = 0;
    has_failed = false;
    failed.depth = 0;
    fail_main = main_index;
    fail_other = other_index;
    life.run();
    fail_main = fail_other = never;
    if (!has_failed) return round == 0 ? child_no_failure : child_ok;
    noticed |= life.first_failure != QUERN_OK;
    if (life.trouble.empty() && life.results != expected) life.trouble = "other results than without a failure";
    if (!life.trouble.empty()) {
      std::fprintf(stderr, "allocation %lld: %s\n%s", static_cast<long long>(main_index == never ? other_index : main_index),
                   life.trouble.c_str(), words_of(failed).c_str());
      return child_trouble;
    }
    life.results = {};
    life.trouble.clear();
    life.trouble.shrink_to_fit();
    grown[round] = live - before;
    if (grown[0] <= 2 * kept_by_others) return noticed ? child_ok : child_absorbed;  // what is kept for the process is made once
  }
  if (grown[1] <= 2 * kept_by_others) return noticed ? child_ok : child_absorbed;
  std::fprintf(stderr, "allocation %lld: %lld bytes are not freed\n%s",
               static_cast<long long>(main_index == never ? other_index : main_index), static_cast<long long>(grown[1]),
               words_of(failed).c_str());
  return child_trouble;
}

/// Puts another template in place of the model's, which must be no shorter.
bool make_macro_model() {
  constexpr std::string_view key = "tokenizer.chat_template";
  constexpr std::string_view macros =
      "{% for i in range(3) %}{% macro m(a) %}{{ a }}{% endmacro %}{{ m(i) }}{% set x %}{{ m('a') }}{% endset %}{% endfor %}"
      "{{ messages[0].content|upper }}";  // the text is not found, so more renders look for it
  std::FILE* file = std::fopen(model_path, "rb");
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
  macro_model = cache_folder + "/macros.gguf";
  return write_file(macro_model, bytes);
}

}  // namespace

int main(int argc, char** argv) {
  is_main = true;
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s MODEL PLUGIN_FOLDER [--readers | --training] [--every]\n", argv[0]);
    return 2;
  }
  model_path = argv[1];
  plugin_folder = argv[2];
  bool every = false;
  std::uint64_t share = 1, only = never;
  for (int i = 3; i < argc; ++i) {
    every |= std::strcmp(argv[i], "--every") == 0;
    readers |= std::strcmp(argv[i], "--readers") == 0;
    if (std::strcmp(argv[i], "--share") == 0 && i + 1 < argc) share = std::strtoull(argv[++i], nullptr, 10);
    if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) only = std::strtoull(argv[++i], nullptr, 10);
    training |= std::strcmp(argv[i], "--training") == 0;
    if (std::strcmp(argv[i], "--backend") == 0 && i + 1 < argc) {
      backend = argv[++i];
      of_plugin_alone = true;
    }
  }
  char folder[] = "/tmp/quern-allocations-XXXXXX";
  if (mkdtemp(folder) == nullptr) return 2;
  cache_folder = folder;
  if (!fill_caches() || !make_macro_model()) return 2;

  Results expected;
  for (int warm = 0; warm < 3; ++warm) {  // what is made once a process is made here
    Life life;
    const std::int64_t before = live;
    life.run();
    if (!life.trouble.empty() || life.first_failure != QUERN_OK) {
      std::fprintf(stderr, "without any failure: %s\n", life.trouble.c_str());
      return 1;
    }
    expected = life.results;
    life.results = {};
    if (of_plugin_alone) kept_by_others = std::max<std::int64_t>(0, live - before);
    if (kept_by_others > 256 && warm == 2) {
      std::fprintf(stderr, "without any failure %lld bytes are not freed\n", static_cast<long long>(kept_by_others));
      return 1;
    }
  }
  if (only != never) return child(only, never, expected);
  std::vector<Stack> stacks, other_stacks;
  stacks.reserve(4 << 20);
  other_stacks.reserve(1 << 20);
  main_count = 0;
  other_count = 0;
  recorded = &stacks;
  recorded_other = &other_stacks;
  Life().run();
  recorded = nullptr;
  recorded_other = nullptr;
  const std::uint64_t allocations = main_count, elsewhere = other_stacks.size();
  const auto choose = [every, share](const std::vector<Stack>& all) {
    std::map<std::vector<std::uintptr_t>, std::uint64_t> places;  // of each stack, its first allocation
    std::vector<std::uint64_t> chosen;
    for (std::uint64_t i = 0; i < all.size(); ++i)
      if ((!of_plugin_alone || is_of_plugin(all[i])) &&
          (places.emplace(std::vector<std::uintptr_t>(all[i].frames, all[i].frames + all[i].depth), i).second || every))
        chosen.push_back(i);
    std::uint64_t place = 0;
    std::erase_if(chosen, [&](std::uint64_t) { return place++ % share != 0; });
    return chosen;
  };
  const std::vector<std::uint64_t> chosen = choose(stacks), chosen_other = choose(other_stacks);
  std::fprintf(stderr, "%llu allocations, and %llu on other threads; %zu runs\n", static_cast<unsigned long long>(allocations),
               static_cast<unsigned long long>(elsewhere), chosen.size() + chosen_other.size());

  const long parallel = std::max(1l, sysconf(_SC_NPROCESSORS_ONLN));
  std::map<pid_t, std::pair<std::uint64_t, bool>> running;
  std::uint64_t noticed = 0, absorbed = 0, missed = 0, bad = 0;
  const auto reap = [&] {
    int status = 0;
    const pid_t ended = wait(&status);
    const auto [index, main] = running.at(ended);
    running.erase(ended);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code == child_ok) ++noticed;
    else if (code == child_absorbed) ++absorbed;
    else if (code == child_no_failure) ++missed;
    else ++bad;
    if (WIFSIGNALED(status) || (code > 4)) {
      std::fprintf(stderr, "allocation %llu%s ended the process: %s\n", static_cast<unsigned long long>(index),
                   main ? "" : " of the other threads", WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit");
      std::fputs(words_of(main ? stacks[index] : other_stacks[index]).c_str(), stderr);
    }
  };
  const auto start = [&](std::uint64_t index, bool main) {
    while (static_cast<long>(running.size()) >= parallel) reap();
    const pid_t process = fork();
    if (process == 0) {
      alarm(60);  // a hang is a failure
      _exit(child(main ? index : never, main ? never : index, expected));
    }
    running[process] = {index, main};
  };
  for (const std::uint64_t index : chosen) start(index, true);
  for (const std::uint64_t index : chosen_other) start(index, false);
  while (!running.empty()) reap();
  std::fprintf(stderr, "%llu said so, %llu were absorbed with the right results, %llu did not happen, %llu went wrong\n",
               static_cast<unsigned long long>(noticed), static_cast<unsigned long long>(absorbed), static_cast<unsigned long long>(missed),
               static_cast<unsigned long long>(bad));
  const std::string remove = "rm -rf " + cache_folder;
  if (std::system(remove.c_str()) != 0) return 2;
  // Threads may take turns otherwise than in the recorded run, so that a last allocation of theirs may not come.
  if (missed > elsewhere / 2 + 2 || noticed < 100) {
    std::fprintf(stderr, "too few failures happened for this to prove anything\n");
    return 1;
  }
  return bad == 0 ? 0 : 1;
}
