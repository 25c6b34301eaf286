// See audit.hpp.
#include "audit/audit.hpp"

#include "audit/model_reference.hpp"
#include "quern/base/files.hpp"
#include "quern/quern_status.h"
#include "worker/child_process.hpp"
#include "worker/loader_settings.hpp"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

extern char** environ;

namespace quern::conformance {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr double job_seconds = 300;
constexpr std::uint32_t sequences = 3, drawn_tokens = 8;

/// A folder of its own; it goes with all that lies in it.
class WorkFolder {
 public:
  WorkFolder() {
    const char* temporary = std::getenv("TMPDIR");
    path_ = std::string(temporary != nullptr && *temporary == '/' ? temporary : "/tmp") + "/XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr)
      throw UsageError("audit: a folder in " + fs::path(path_).parent_path().string() + " cannot be made: " + std::strerror(errno) +
                       "; set TMPDIR to a folder that may be written");
  }
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A name that a program with sessions may have.
std::string draw_name(Draws& draws) {
  if (draws.one_in(2)) return draws.of(std::array{"quern", "python3", "server", "chat", "worker", "assistant"});
  std::string name;
  for (std::uint32_t n = draws.between(4, 9); n > 0; --n) name += static_cast<char>('a' + draws.below(26));
  return name;
}

/// What this process has, without what shells and the suite add.
std::vector<std::string> session_environment(const std::string& folder, const std::vector<std::string>& more) {
  std::vector<std::string> list;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto is = [&](std::string_view name) { return text.starts_with(name); };
    if (!is("QUERN_CONFORMANCE_") && !is("_=") && !is("PWD=") && !is("OLDPWD=")) list.emplace_back(text);
  }
  list.push_back("PWD=" + folder);
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

/// The process with the sessions: started when it is first needed, and anew after it died.
class Sessions {
 public:
  Sessions(const AuditPlan& plan, Draws& draws) : library_(plan.library) {
    name_ = draw_name(draws);
    program_ = {folder_.path() + "/" + name_, name_, folder_.path(), session_environment(folder_.path(), plan.environment)};
    fs::copy_file(plan.program, program_.path);
    fs::permissions(program_.path, fs::perms::owner_all);
  }

  const std::string& name() const { return name_; }
  /// Writes a file into the folder that the sessions work in; its path.
  std::string put(const std::string& name, const std::string& content) const {
    const std::string path = folder_.path() + "/" + name;
    if (const base::FileProblem problem = base::write_file(path, content))
      throw UsageError("audit: the model cannot be written: " + problem.text);
    return path;
  }

  /// The reply, or {"died": why}.
  json ask(json job) {
    job["library"] = library_;
    if (!process_) process_ = std::make_unique<ChildProcess>(program_);
    if (!process_->send(job.dump())) return gone("it ended before its work");
    const ChildProcess::Answer answer = process_->receive(job_seconds);
    if (answer.end != ChildProcess::End::answered) return gone(answer.cause, answer.end == ChildProcess::End::timed_out);
    return json::parse(answer.line);
  }
  ChildProcess& process() { return *process_; }

 private:
  json gone(const std::string& why, bool timed_out = false) {
    process_.reset();
    return {{"died", why}, {"timed_out", timed_out}};
  }

  WorkFolder folder_;
  std::string library_, name_;
  OtherProgram program_;
  std::unique_ptr<ChildProcess> process_;
};

/// What of a job says which plugins and devices there are.
json selection_job(const Selection& selection) {
  json job{{"threads", selection.threads}, {"device", selection.device}, {"backend", selection.backend}};
  std::string ids, folders;
  for (const std::string& file : selection.plugins) {
    const fs::path path = fs::absolute(file);
    if (!fs::exists(path)) throw UsageError("--plugin " + file + ": there is no such file");
    ids += (ids.empty() ? "" : ",") + plugin_id(path);
    folders += (folders.empty() ? "" : ":") + fs::canonical(path.parent_path()).string();
  }
  if (!ids.empty() && selection.backend.empty()) job["backend"] = ids;
  if (!folders.empty()) job["backend_path"] = folders;
  return job;
}

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", x);
  return text;
}

double logarithm_of_sum(const std::vector<double>& logits) {
  const double most = std::ranges::max(logits);
  double sum = 0;
  for (const double x : logits) sum += std::exp(x - most);
  return most + std::log(sum);
}

/// Judges what a session computed of one model in one kind of numerics.
class Judge {
 public:
  Judge(const RandomModel& model, bool exact, const CounterRandom& random)
      : model_(model), rounding_(exact ? Rounding::exact : Rounding::fast), random_(random) {}

  void prompt(const std::vector<std::int32_t>& ids, const std::vector<float>& found) {
    const ExpectedLogits expected = expected_logits(model_, ids, rounding_, random_.stream(1));
    const std::size_t width = model_.shape().vocabulary;
    if (found.size() != ids.size() * width)
      return complain("the prompt gave " + std::to_string(found.size()) + " logits, expected " + std::to_string(ids.size() * width));
    double errors = 0, deviations = 0;
    for (std::size_t t = 0; t < ids.size(); ++t)
      for (std::size_t i = 0; i < width; ++i) {
        const double r = expected.logits[t][i], y = found[t * width + i];
        compare("the logit " + std::to_string(i) + " at position " + std::to_string(t), y, r, most_deviations * expected.deviation[t]);
        errors += (y - r) * (y - r);
        deviations += expected.deviation[t] * expected.deviation[t];
      }
    if (rounding_ != Rounding::fast) return;
    const double share = std::sqrt(errors / deviations) / most_fast_mean;
    verdict_.worst = std::fmax(verdict_.worst, std::isnan(share) ? INFINITY : share);
    if (!(share <= 1))
      complain("all logits together are " + number(share * most_fast_mean) +
               " of the deviations away that int8 activations may cause, expected at most " + number(most_fast_mean));
  }

  void answer(const std::vector<std::int32_t>& prompt, const json& found) {
    const auto drawn = found.at("ids").get<std::vector<std::int32_t>>();
    if (drawn.size() != drawn_tokens || found.at("logprobs").size() != drawn.size())
      return complain("an answer has " + std::to_string(drawn.size()) + " tokens, expected " + std::to_string(drawn_tokens));
    std::vector<std::int32_t> ids = prompt;
    for (const std::int32_t id : drawn) {
      if (id < 0 || static_cast<std::uint32_t>(id) >= model_.shape().vocabulary)
        return complain("an answer has the token " + std::to_string(id) + ", expected one below " +
                        std::to_string(model_.shape().vocabulary));
      ids.push_back(id);
    }
    ids.pop_back();  // nothing was computed behind it
    const ExpectedLogits expected = expected_logits(model_, ids, rounding_, random_.stream(2));
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      const std::size_t t = prompt.size() - 1 + i;
      const std::vector<double>& row = expected.logits[t];
      // Both the logit and the sum of all may be off by the whole bound, and so may the two that a choice compares. The runtime makes the
      // logarithm of a probability in f32.
      const double bound = 2 * most_deviations * expected.deviation[t] + 0x1p-20;
      const double best = std::ranges::max(row), chosen = row[static_cast<std::size_t>(drawn[i])];
      const std::string at = " at position " + std::to_string(t);
      const json& logprob = found.at("logprobs")[i];
      compare("the logarithm of a token's probability" + at, logprob.is_number() ? logprob.get<double>() : NAN,
              chosen - logarithm_of_sum(row), bound);
      compare("the logit of the token that was chosen as the best" + at, chosen, best, bound);
    }
  }

  Verdict take() { return std::move(verdict_); }
  void complain(const std::string& text) { verdict_.merge({Status::fail, text, 0, 0, {}}); }

 private:
  void compare(const std::string& what, double y, double r, double bound) {
    ++verdict_.compared;
    const double share = std::abs(y - r) / bound;
    if (!(share <= 1) && verdict_.status == Status::pass)
      complain(what + " is " + number(y) + ", expected " + number(r) + " within " + number(bound));
    verdict_.worst = std::fmax(verdict_.worst, std::isnan(share) ? INFINITY : share);
  }

  const RandomModel& model_;
  Rounding rounding_;
  CounterRandom random_;
  Verdict verdict_{Status::pass, {}, 0, 0, {}};
};

std::vector<std::int32_t> draw_ids(Draws& draws, std::uint32_t count, std::uint32_t vocabulary) {
  std::vector<std::int32_t> ids;
  while (ids.size() < count) ids.push_back(static_cast<std::int32_t>(3 + draws.below(vocabulary - 3)));
  return ids;
}

/// Why there is nothing to judge; empty: there is.
std::optional<Verdict> refusal(const json& reply) {
  if (reply.contains("died"))
    return Verdict{reply.at("timed_out").get<bool>() ? Status::timeout : Status::crash,
                   "the session's process: " + reply.at("died").get<std::string>(),
                   0,
                   0,
                   {}};
  if (!reply.contains("error")) return {};
  const bool lacks = reply.value("status", 0) == QUERN_UNSUPPORTED;
  return Verdict{lacks ? Status::unsupported : Status::fail, reply.at("error"), 0, 0, {}};
}

/// The model as a session of the device computes it, in one kind of numerics.
Verdict run_model(Sessions& sessions, const json& device, const RandomModel& model, const std::string& path, bool exact, Draws& draws,
                  const CounterRandom& random) {
  const std::vector<std::int32_t> ids = draw_ids(draws, draws.between(33, 70), model.shape().vocabulary);
  std::vector<std::vector<std::int32_t>> prompts;
  for (std::uint32_t i = 0; i < sequences; ++i) prompts.push_back(draw_ids(draws, draws.between(1, 24), model.shape().vocabulary));
  json job = device;
  job.update({{"model", path},
              {"exact", exact},
              {"context", 128},
              {"sequences", sequences},
              {"ids", ids},
              {"prompts", prompts},
              {"tokens", drawn_tokens}});
  const json reply = sessions.ask(job);
  if (auto verdict = refusal(reply)) return *std::move(verdict);
  Judge judge(model, exact, random);
  if (reply.at("device") != device.at("device"))
    judge.complain("the model ran on " + reply.at("device").get<std::string>() + ", expected " + device.at("device").get<std::string>());
  const std::string bytes = read_from(sessions.process().outputs().fd(), 0, reply.at("logits").get<std::uint64_t>() * sizeof(float));
  std::vector<float> logits(bytes.size() / sizeof(float));
  std::memcpy(logits.data(), bytes.data(), logits.size() * sizeof(float));
  judge.prompt(ids, logits);
  for (std::uint32_t i = 0; i < sequences; ++i) judge.answer(prompts[i], reply.at("answers").at(i));
  return judge.take();
}

/// How it shows that the host's processors did the work of a device that is none of them; empty where it does not.
///
/// A model of 6.3 million weights reads 256 tokens in exact numerics, twice; the second time no kernel is made any more. That is 3.2e9
/// operations. A processor's core does at most some 2e11 a second in f32 (two units of 16 lanes, 3 GHz), so the host needs 16 ms of CPU time
/// at least. A device with memory of its own takes less than 3 ms, even if a thread waits for it in a loop.
std::string host_work(Sessions& sessions, const json& device, const CounterRandom& random) {
  Draws draws(random);
  const RandomModel model(busy_shape(draws), random.stream(1));
  const std::string path = sessions.put("model.gguf", model.gguf());
  const std::vector<std::int32_t> ids = draw_ids(draws, 256, model.shape().vocabulary);
  json job = device;
  job.update({{"model", path},
              {"exact", true},
              {"context", 512},
              {"sequences", 1},
              {"ids", ids},
              {"twice", true},
              {"prompts", json::array({draw_ids(draws, 2, model.shape().vocabulary)})},
              {"tokens", 1}});
  const json reply = sessions.ask(job);
  if (refusal(reply)) return {};
  const double operations = 2 * model.products() * 256, seconds = reply.at("cpu_seconds");
  if (seconds < operations / 2e11) return {};
  return "its process took " + number(seconds) + " s of CPU time for " + number(operations) +
         " operations, which a device of its own does without";
}

AuditedDevice audit_device(const AuditPlan& plan, Sessions& sessions, const json& entry, json job,
                           const std::function<void(const AuditedDevice&, const AuditedModel&)>& told) {
  AuditedDevice device{entry.at("name"), entry.at("description"), entry.at("class"), {}, {}};
  job["backend"] = entry.at("backend");
  job["device"] = device.name;
  const CounterRandom random(plan.seed);
  for (std::uint32_t n = 0; n < plan.models; ++n) {
    const CounterRandom own = random.stream(n);
    Draws draws(own);
    const RandomModel model(draw_shape(n, draws), own.stream(1));
    const std::string path = sessions.put("model.gguf", model.gguf());
    AuditedModel audited{model.shape().words(), {}, {}};
    audited.exact = run_model(sessions, job, model, path, true, draws, own.stream(2));
    audited.fast = run_model(sessions, job, model, path, false, draws, own.stream(3));
    device.models.push_back(audited);
    told(device, audited);
    if (audited.exact.status == Status::unsupported && audited.fast.status == Status::unsupported) return device;  // nor any other
    if (plan.stop_at_failure && !device.green()) return device;
  }
  const bool of_the_host = device.device_class == "cpu" || device.device_class == "software";
  if (!of_the_host) device.host_work = host_work(sessions, job, random.stream(plan.models));
  return device;
}

}  // namespace

bool AuditedDevice::green() const {
  return !models.empty() &&
         std::ranges::all_of(models, [](const AuditedModel& m) { return m.exact.status == Status::pass && m.fast.status == Status::pass; });
}

AuditResult audit(const AuditPlan& plan, const std::function<void(const AuditedDevice&, const AuditedModel&)>& told) {
  if (!plan.selection.plugin_options.empty()) throw UsageError("audit: a session has no options for plugins; leave --option out");
  AuditResult result;
  const json job = selection_job(plan.selection);
  Draws draws(CounterRandom(plan.seed).stream(1 << 20));
  Sessions sessions(plan, draws);
  result.program = sessions.name();
  json reply = sessions.ask(job);
  if (auto verdict = refusal(reply)) {
    result.exit_code = reply.value("status", 0) == QUERN_INVALID_ARGUMENT ? 2 : 3;
    result.error = verdict->text;
    return result;
  }
  for (const json& entry : reply.at("devices")) {
    const std::string name = entry.at("name"), device_class = entry.at("class");
    const std::string what = name + " (" + entry.at("description").get<std::string>() + "): ";
    const bool asked = plan.selection.device == name;
    if (!plan.selection.device.empty() && !asked) continue;
    if (!entry.at("usable").get<bool>()) result.left_out.push_back(what + entry.at("reason").get<std::string>());
    else if (device_class == "software" && !asked) result.left_out.push_back(what + "a software device; name it with --device " + name);
    else result.devices.push_back(audit_device(plan, sessions, entry, job, told));
  }
  if (!result.devices.empty()) return result;
  result.exit_code = 3;
  result.error = "no device can be audited";
  for (const std::string& device : result.left_out) result.error += "; " + device;
  return result;
}

void find_session_program(AuditPlan& plan) {
  const fs::path prefix = fs::read_symlink("/proc/self/exe").parent_path().parent_path();
  for (const char* lib : {"lib", QUERN_INSTALL_LIBDIR}) {
    if (const fs::path file = prefix / lib / "quern/conformance/quern-session"; plan.program.empty() && fs::exists(file))
      plan.program = file.string();
    if (const fs::path file = prefix / lib / "libquern.so.1"; plan.library.empty() && fs::exists(file)) plan.library = file.string();
  }
  if (plan.program.empty()) throw UsageError("audit: quern/conformance/quern-session is not in a library folder below " + prefix.string());
  if (plan.library.empty()) plan.library = "libquern.so.1";  // where the system has it
}

}  // namespace quern::conformance
