// The program in which an audit drives a plugin: sessions of libquern, as any program has them.
//
// It links nothing of Quern. It opens libquern.so.1 by dlopen and calls the stable C API of quern.h, so it has no name, symbol, case or
// seed of the suite. `quern-conformance audit` starts a copy of it under another name for each plugin. It computes no reference: what it
// reads from the runtime goes to its parent.
//
// Descriptors: 3 jobs (read, one JSON object a line), 4 replies (written), 6 logits (shared memory). The process that the parent starts
// has a child of the same name, which is the one that loads the plugin, so that no parent of it has the suite's name.
#include "quern.h"

#include <nlohmann/json.hpp>

#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using nlohmann::json;

constexpr int jobs_descriptor = 3, replies_descriptor = 4, logits_descriptor = 6;

/// A failed call of the runtime, with its status.
struct Refusal : std::runtime_error {
  Refusal(quern_status code, const std::string& text) : std::runtime_error(text), status(code) {}
  quern_status status;
};

/// The functions of quern.h that a session needs.
struct Api {
// A list, which clang-format reads as calls.
// clang-format off
#define QUERN_SESSION_FUNCTIONS(X)                                                                                              \
  X(quern_last_error) X(quern_status_name) X(quern_runtime_create) X(quern_runtime_release) X(quern_runtime_ready)              \
  X(quern_runtime_devices) X(quern_device_list_count) X(quern_device_list_entry) X(quern_device_list_release)                   \
  X(quern_model_load) X(quern_model_release) X(quern_model_get_info) X(quern_session_create) X(quern_session_release)           \
  X(quern_evaluate) X(quern_evaluation_get_info) X(quern_evaluation_release) X(quern_generate) X(quern_generation_answer)       \
  X(quern_generation_release)
// clang-format on
#define QUERN_MEMBER(name) decltype(&::name) name = nullptr;
  QUERN_SESSION_FUNCTIONS(QUERN_MEMBER)
#undef QUERN_MEMBER

  void open(const std::string& path) {
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(std::string("the runtime cannot be opened: ") + ::dlerror());
    const auto find = [&](const char* name) {
      void* const found = ::dlsym(library, name);
      if (found == nullptr) throw std::runtime_error(path + " has no function " + name);
      return found;
    };
#define QUERN_FIND(name) name = reinterpret_cast<decltype(name)>(find(#name));
    QUERN_SESSION_FUNCTIONS(QUERN_FIND)
#undef QUERN_FIND
#undef QUERN_SESSION_FUNCTIONS
  }
};

Api api;

void check(quern_status status) {
  if (status != QUERN_OK) throw Refusal(status, std::string(api.quern_status_name(status)) + ": " + api.quern_last_error());
}

/// Releases a handle of the C API.
template <class T, class Release>
class Owner {
 public:
  Owner(T* handle, Release release) : handle_(handle), release_(release) {}
  ~Owner() { release_(handle_); }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  T* get() const { return handle_; }

 private:
  T* handle_;
  Release release_;
};

template <class T>
T sized() {
  T value{};
  value.struct_size = sizeof value;
  return value;
}

double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

void write_all(int descriptor, const void* data, std::size_t bytes) {
  for (std::size_t written = 0; written < bytes;) {
    const ssize_t n = ::write(descriptor, static_cast<const char*>(data) + written, bytes - written);
    if (n <= 0) throw std::runtime_error("the audit's process is gone");
    written += static_cast<std::size_t>(n);
  }
}

/// All logits of the ids, read as a prompt is: they go to the shared memory.
json evaluate(quern_session* session, const json& job) {
  const auto ids = job.at("ids").get<std::vector<std::int32_t>>();
  quern_evaluation* made = nullptr;
  check(api.quern_evaluate(session, 0, ids.data(), ids.size(), QUERN_EVALUATE_ALL_LOGITS, &made));
  const Owner evaluation(made, api.quern_evaluation_release);
  auto info = sized<quern_evaluation_info>();
  check(api.quern_evaluation_get_info(made, &info));
  if (::lseek(logits_descriptor, 0, SEEK_SET) != 0) throw std::runtime_error("the place of the logits cannot be reached");
  write_all(logits_descriptor, info.logits, info.logit_count * sizeof(float));
  return {{"logits", info.logit_count}};
}

/// Answers to several prompts at once, with the logarithm of each token's probability.
json generate(quern_session* session, const json& job) {
  const auto prompts = job.at("prompts").get<std::vector<std::vector<std::int32_t>>>();
  std::vector<quern_request> requests;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    auto request = sized<quern_request>();
    request.prompt = prompts[i].data();
    request.prompt_count = prompts[i].size();
    request.sequence = static_cast<std::uint32_t>(i);
    request.max_tokens = job.at("tokens").get<std::uint64_t>();
    request.logprobs = 1;
    request.ignore_end = 1;
    requests.push_back(request);
  }
  quern_generation* made = nullptr;
  check(api.quern_generate(session, requests.data(), requests.size(), &made));
  const Owner generation(made, api.quern_generation_release);
  json answers = json::array();
  for (std::uint64_t i = 0; i < prompts.size(); ++i) {
    auto answer = sized<quern_answer_info>();
    check(api.quern_generation_answer(made, i, &answer));
    answers.push_back({{"ids", std::vector<std::int32_t>(answer.ids, answer.ids + answer.id_count)},
                       {"logprobs", std::vector<float>(answer.logprobs, answer.logprobs + answer.id_count)}});
  }
  return {{"answers", answers}};
}

/// One model, one session: what the job asks of it.
json run_model(quern_runtime* runtime, const json& job) {
  auto options = sized<quern_model_options>();
  options.context = job.at("context");
  options.sequences = job.at("sequences");
  options.activations = job.at("exact").get<bool>() ? QUERN_ACTIVATIONS_F32 : QUERN_ACTIVATIONS_AUTO;
  options.kv = job.at("exact").get<bool>() ? QUERN_KV_F32 : QUERN_KV_DEFAULT;
  quern_model* loaded = nullptr;
  check(api.quern_model_load(runtime, job.at("model").get<std::string>().c_str(), &options, &loaded));
  const Owner model(loaded, api.quern_model_release);
  auto session_options = sized<quern_session_options>();
  session_options.sequences = options.sequences;
  quern_session* opened = nullptr;
  check(api.quern_session_create(loaded, &session_options, &opened));
  const Owner session(opened, api.quern_session_release);
  auto info = sized<quern_model_info>();
  check(api.quern_model_get_info(loaded, &info));
  if (job.value("twice", false)) evaluate(opened, job);  // what a first run alone needs is made
  const double cpu_before = cpu_seconds();
  json reply = evaluate(opened, job);
  reply["cpu_seconds"] = cpu_seconds() - cpu_before;
  reply.update(generate(opened, job));
  reply["device"] = info.device;
  reply["kernels"] = info.kernels == nullptr ? "" : info.kernels;
  return reply;
}

json devices_of(quern_runtime* runtime) {
  quern_device_list* made = nullptr;
  check(api.quern_runtime_devices(runtime, &made));
  const Owner list(made, api.quern_device_list_release);
  json devices = json::array();
  for (std::uint64_t i = 0; i < api.quern_device_list_count(made); ++i) {
    auto entry = sized<quern_device_entry>();
    check(api.quern_device_list_entry(made, i, &entry));
    devices.push_back({{"name", entry.name},
                       {"backend", entry.backend},
                       {"description", entry.description},
                       {"class", entry.device_class},
                       {"usable", entry.usable != 0},
                       {"reason", entry.reason}});
  }
  return devices;
}

quern_runtime* make_runtime(const json& job) {
  const auto text = [&](const char* key) { return job.value(key, std::string()); };
  const std::string backend = text("backend"), device = text("device"), path = text("backend_path");
  const auto given = [](const std::string& value) { return value.empty() ? nullptr : value.c_str(); };
  auto options = sized<quern_runtime_options>();
  options.backend = given(backend);
  options.device = given(device);
  options.backend_path = given(path);
  options.threads = job.value("threads", 0u);
  quern_runtime* runtime = nullptr;
  check(api.quern_runtime_create(&options, &runtime));
  return runtime;
}

/// Serves jobs until there are no more: first "devices", then models, each on a runtime of its own.
int serve() {
  std::string pending;
  for (;;) {
    const std::size_t end = pending.find('\n');
    if (end == std::string::npos) {
      char buffer[65536];
      const ssize_t n = ::read(jobs_descriptor, buffer, sizeof buffer);
      if (n <= 0) return 0;
      pending.append(buffer, static_cast<std::size_t>(n));
      continue;
    }
    json reply;
    try {
      const json job = json::parse(pending.substr(0, end));
      if (api.quern_runtime_create == nullptr) api.open(job.at("library").get<std::string>());
      const Owner runtime(make_runtime(job), api.quern_runtime_release);
      if (job.contains("model")) {
        check(api.quern_runtime_ready(runtime.get()));
        reply = run_model(runtime.get(), job);
      } else {
        reply = {{"devices", devices_of(runtime.get())}};
      }
    } catch (const Refusal& refusal) {
      reply = {{"status", static_cast<int>(refusal.status)}, {"error", refusal.what()}};
    } catch (const std::exception& error) { reply = {{"error", error.what()}}; }
    pending.erase(0, end + 1);
    const std::string line = reply.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    write_all(replies_descriptor, line.data(), line.size());
  }
}

}  // namespace

int main() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      return serve();
    } catch (const std::exception&) {
      return 70;  // the parent is gone
    }
  }
  ::close(replies_descriptor);  // so that the end of the child shows at once
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) < 0) return 71;
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::signal(WTERMSIG(status), SIG_DFL);
  ::raise(WTERMSIG(status));
  return 71;
}
