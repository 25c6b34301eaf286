// See checkpoint.hpp.
#include "checkpoint.hpp"

#include "quern/base/files.hpp"
#include "quern/graph/file_error.hpp"
#include "quern/graph/folder.hpp"
#include "quern/graph/json.hpp"
#include "quern/graph/json_writer.hpp"
#include "quern/graph/sha256.hpp"
#include "quern/models/safetensors.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cerrno>

namespace quern::runtime {
namespace {

constexpr std::string_view prefix = "checkpoint-";
constexpr const char* state_file = "trainer_state.json";
constexpr const char* optimizer_file = "optimizer.safetensors";

// A later version may write what this one does not understand.
constexpr std::uint64_t format_version = 1;

std::uint64_t size_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) check_read(base::file_problem(path, "examined", errno));
  return static_cast<std::uint64_t>(info.st_size);
}

void remove_whole(const std::string& folder) {
  if (!remove_tree(folder)) check_written(base::file_problem(folder, "removed", errno));
}

std::string state_text(const RunState& state, const std::string& folder) {
  JsonWriter json;
  json.begin_object();
  json.member("format_version", format_version);
  json.member("step", state.step);
  json.member("updates", state.updates);
  json.member("micro_batches", state.micro_batches);
  json.member("skipped_in_row", state.skipped_in_row);
  json.member("loss_scale", state.loss_scale);
  json.member("updates_at_scale", state.updates_at_scale);
  json.member("tokens", state.tokens);
  json.member("labels", state.labels);
  json.member("best_loss", state.best_loss);
  json.member("best_step", state.best_step);
  json.member("evaluations_without_gain", state.evaluations_without_gain);
  json.member("losses_above_watchdog", state.losses_above_watchdog);
  json.member("base", state.base);
  json.member("data", state.data);
  json.member("settings", state.settings);
  json.member("device", state.device);
  json.key("files");
  json.begin_array();
  for (const std::string& name : names_in(folder)) {
    if (name == state_file) continue;
    const std::string path = folder + "/" + name;
    json.begin_object();
    json.member("name", name);
    json.member("bytes", size_of(path));
    json.member("sha256", sha256_of_file(path));
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.take() + "\n";
}

/// The members of a trainer_state.json, each of which has to be there.
class StateReader {
 public:
  StateReader(const Json& json, const std::string& path) : json_(json), path_(path) {}

  std::uint64_t count(const char* name) const {
    const Json* member = json_.find(name);
    if (member == nullptr || member->count() == nullptr) fail(name, "a whole number");
    return *member->count();
  }
  std::string text(const char* name) const {
    const Json* member = json_.find(name);
    if (member == nullptr || member->text() == nullptr) fail(name, "a text");
    return *member->text();
  }
  std::optional<double> number(const char* name) const {
    const Json* member = json_.find(name);
    if (member == nullptr || member->is_null()) return std::nullopt;
    if (!member->number()) fail(name, "a number");
    return member->number();
  }

 private:
  [[noreturn]] void fail(const char* name, const char* what) const {
    throw Error(QUERN_BAD_MODEL, concat(path_, ": '", name, "' should be ", what));
  }
  const Json& json_;
  const std::string& path_;
};

/// What trainer_state.json has of the folder's other files.
void check_files(const Json& json, const std::string& folder, const std::string& path) {
  const Json* files = json.find("files");
  if (files == nullptr || files->list() == nullptr || files->list()->empty())
    throw Error(QUERN_BAD_MODEL, concat(path, ": names no files"));
  for (const Json& file : *files->list()) {
    const StateReader reader(file, path);
    const std::string name = reader.text("name"), named = folder + "/" + name;
    if (name.empty() || name.find('/') != name.npos) throw Error(QUERN_BAD_MODEL, concat(path, ": names a file outside the folder"));
    const std::uint64_t bytes = reader.count("bytes");
    if (const std::uint64_t found = size_of(named); found != bytes)
      throw Error(QUERN_BAD_MODEL, concat(named, " has ", found, " bytes, and ", bytes, " were written; the checkpoint is not whole"));
    if (sha256_of_file(named) != reader.text("sha256"))
      throw Error(QUERN_BAD_MODEL, concat(named, " is not what was written: its SHA-256 differs; the checkpoint is not whole"));
  }
}

}  // namespace

std::string checkpoint_folder(const std::string& output, std::uint64_t step) { return concat(output, "/", prefix, step); }

std::string write_checkpoint(const std::string& output, const RunState& state, const Moments& moments,
                             const std::function<void(const std::string& folder)>& write_trained) {
  const std::string folder = checkpoint_folder(output, state.step);
  const std::string partial = concat(output, "/.", prefix, state.step, ".partial"), old = concat(output, "/.", prefix, state.step, ".old");
  check_written(base::make_folders(output));
  for (const std::string& left : {partial, old})
    if (::access(left.c_str(), F_OK) == 0) remove_whole(left);  // of a save that did not end
  check_written(base::make_folders(partial));
  write_trained(partial);
  std::vector<safetensors::NewTensor> tensors;
  const auto add = [&](const char* name, const std::vector<float>& numbers) {
    if (!numbers.empty()) tensors.push_back({name, safetensors::Dtype::f32, {numbers.size()}, std::as_bytes(std::span(numbers))});
  };
  add("first_moment", moments.first);
  add("second_moment", moments.second);
  safetensors::write(concat(partial, "/", optimizer_file), tensors);
  check_written(base::write_file(concat(partial, "/", state_file), state_text(state, partial)));
  const bool replaces = ::access(folder.c_str(), F_OK) == 0;
  if (replaces) check_written(base::move_file(folder, old));
  check_written(base::move_file(partial, folder));  // syncs the folder above
  if (replaces) remove_whole(old);
  return folder;
}

std::vector<std::uint64_t> checkpoint_steps(const std::string& output) {
  std::vector<std::uint64_t> steps;
  for (const std::string& name : names_in(output, SIZE_MAX)) {
    if (!name.starts_with(prefix)) continue;
    std::uint64_t step = 0;
    const char *first = name.data() + prefix.size(), *end = name.data() + name.size();
    if (const auto [at, error] = std::from_chars(first, end, step); error == std::errc() && at == end) steps.push_back(step);
  }
  std::ranges::sort(steps);
  return steps;
}

Checkpoint read_checkpoint(const std::string& folder) {
  const std::string path = concat(folder, "/", state_file);
  std::string text, why;
  const base::FileProblem problem = base::read_file(path, text, {.most = 1 << 20});
  if (problem.fault == base::FileFault::not_found)
    throw Error(QUERN_BAD_MODEL, concat(folder, " has no ", state_file, ", which is written last; the checkpoint is not whole"));
  check_read(problem);
  const std::optional<Json> json = Json::parse(text, 10000, &why);
  if (!json || !json->is_object()) throw Error(QUERN_BAD_MODEL, concat(path, " is no JSON object", why.empty() ? "" : ": ", why));
  const StateReader reader(*json, path);
  if (const std::uint64_t version = reader.count("format_version"); version != format_version)
    throw Error(QUERN_UNSUPPORTED, concat(path, " has the format version ", version, "; this version of Quern reads ", format_version));
  check_files(*json, folder, path);
  Checkpoint checkpoint;
  checkpoint.folder = folder;
  RunState& state = checkpoint.state;
  state.step = reader.count("step");
  state.updates = reader.count("updates");
  state.micro_batches = reader.count("micro_batches");
  state.skipped_in_row = reader.count("skipped_in_row");
  state.loss_scale = std::max<std::uint64_t>(1, reader.count("loss_scale"));
  state.updates_at_scale = reader.count("updates_at_scale");
  state.tokens = reader.count("tokens");
  state.labels = reader.count("labels");
  state.best_loss = reader.number("best_loss");
  state.best_step = reader.count("best_step");
  state.evaluations_without_gain = reader.count("evaluations_without_gain");
  state.losses_above_watchdog = reader.count("losses_above_watchdog");
  state.base = reader.text("base");
  state.data = reader.text("data");
  state.settings = reader.text("settings");
  state.device = reader.text("device");
  const safetensors::File optimizer = safetensors::File::open(concat(folder, "/", optimizer_file));
  for (const auto& [name, numbers] : {std::pair("first_moment", &checkpoint.moments.first), {"second_moment", &checkpoint.moments.second}})
    if (optimizer.find(name) != nullptr) *numbers = optimizer.read_f32(name);
  return checkpoint;
}

std::optional<Checkpoint> last_checkpoint(const std::string& output, std::vector<std::string>& refused) {
  const std::vector<std::uint64_t> steps = checkpoint_steps(output);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      return read_checkpoint(checkpoint_folder(output, *step));
    } catch (const Error& error) { refused.emplace_back(error.what()); }
  }
  return std::nullopt;
}

void rotate_checkpoints(const std::string& output, std::size_t most, std::optional<std::uint64_t> kept) {
  std::vector<std::uint64_t> steps = checkpoint_steps(output);
  if (kept) std::erase(steps, *kept);
  const std::size_t allowed = most > 0 && kept ? most - 1 : most;
  for (std::size_t i = 0; i + allowed < steps.size(); ++i) remove_whole(checkpoint_folder(output, steps[i]));
}

}  // namespace quern::runtime
