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

constexpr std::string_view prefix = "checkpoint-", hidden_prefix = ".checkpoint-";
constexpr const char* state_file = "trainer_state.json";
constexpr const char* optimizer_file = "optimizer.safetensors";
constexpr const char* moment_names[] = {"first_moment", "second_moment"};

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

constexpr std::string_view partial_suffix = ".partial", old_suffix = ".old";

std::string hidden_folder(const std::string& output, std::uint64_t step, std::string_view suffix) {
  return concat(output, "/.", prefix, step, suffix);
}

/// The step of ".checkpoint-60.old" and its like.
std::optional<std::uint64_t> step_in(std::string_view name, std::string_view before, std::string_view behind) {
  if (name.size() <= before.size() + behind.size() || !name.starts_with(before) || !name.ends_with(behind)) return std::nullopt;
  std::uint64_t step = 0;
  const char *first = name.data() + before.size(), *end = name.data() + name.size() - behind.size();
  const auto [at, error] = std::from_chars(first, end, step);
  return error == std::errc() && at == end ? std::optional(step) : std::nullopt;
}

std::vector<std::uint64_t> steps_of(const std::string& output, std::string_view before, std::string_view behind) {
  std::vector<std::uint64_t> steps;
  for (const std::string& name : names_in(output, SIZE_MAX))
    if (const std::optional<std::uint64_t> step = step_in(name, before, behind)) steps.push_back(*step);
  std::ranges::sort(steps);
  return steps;
}

bool is_there(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

/// A save that was to replace a checkpoint and ended between its two renames has left none under the name: the one before comes back.
void put_back(const std::string& output) {
  for (const std::uint64_t step : steps_of(output, hidden_prefix, old_suffix))
    if (const std::string folder = checkpoint_folder(output, step); !is_there(folder))
      check_written(base::move_file(hidden_folder(output, step, old_suffix), folder));
}

/// What saves have left that did not end.
void remove_left(const std::string& output) {
  put_back(output);
  for (const std::string_view suffix : {partial_suffix, old_suffix})
    for (const std::uint64_t step : steps_of(output, hidden_prefix, suffix)) remove_whole(hidden_folder(output, step, suffix));
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

void write_moments(const std::string& path, const Moments& moments) {
  safetensors::Writer writer;
  for (int which = 0; which < moments.count; ++which) writer.tensor(moment_names[which], safetensors::Dtype::f32, {moments.elements});
  writer.begin(path, safetensors::Writer::Order::as_declared);
  std::vector<float> part(std::min<std::uint64_t>(moments.elements, 1 << 20));
  for (int which = 0; which < moments.count; ++which) {
    for (std::uint64_t at = 0; at < moments.elements; at += part.size()) {
      const std::span<float> numbers = std::span(part).first(std::min<std::uint64_t>(part.size(), moments.elements - at));
      moments.read(which, at, numbers);
      writer.append(std::as_bytes(numbers));
    }
  }
  writer.commit();
}

void write_files(const std::string& folder, const RunState& state, const Moments& moments,
                 const std::function<void(const std::string& folder)>& write_trained) {
  check_written(base::make_folders(folder));
  write_trained(folder);
  write_moments(concat(folder, "/", optimizer_file), moments);
  check_written(base::write_file(concat(folder, "/", state_file), state_text(state, folder)));
}

}  // namespace

std::string checkpoint_folder(const std::string& output, std::uint64_t step) { return concat(output, "/", prefix, step); }

std::string write_checkpoint(const std::string& output, const RunState& state, const Moments& moments,
                             const std::function<void(const std::string& folder)>& write_trained) {
  const std::string folder = checkpoint_folder(output, state.step);
  const std::string partial = hidden_folder(output, state.step, partial_suffix);
  const auto try_to_remove_left = [&] {
    try {
      remove_left(output);
    } catch (...) {}  // the next save tries again, and names what stays
  };
  check_written(base::make_folders(output));
  remove_left(output);
  try {
    write_files(partial, state, moments, write_trained);
    if (is_there(folder)) check_written(base::move_file(folder, hidden_folder(output, state.step, old_suffix)));
    check_written(base::move_file(partial, folder));  // syncs the folder above
  } catch (...) {
    try_to_remove_left();  // on a full disk it would take what the next save needs
    throw;
  }
  try_to_remove_left();
  return folder;
}

std::vector<std::uint64_t> checkpoint_steps(const std::string& output) { return steps_of(output, prefix, ""); }

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
  return checkpoint;
}

std::vector<float> read_moment(const Checkpoint& checkpoint, int which, std::uint64_t elements) {
  const safetensors::File file = safetensors::File::open(concat(checkpoint.folder, "/", optimizer_file));
  const safetensors::TensorInfo* found = file.find(moment_names[which]);
  if (found == nullptr || found->elements() != elements)
    throw Error(QUERN_BAD_MODEL, concat(file.name(), " has ", found == nullptr ? 0 : found->elements(), " numbers in ", moment_names[which],
                                        ", and the settings ask for ", elements));
  return file.read_f32(*found);
}

std::optional<Checkpoint> last_checkpoint(const std::string& output, std::vector<std::string>& refused) {
  put_back(output);
  const std::vector<std::uint64_t> steps = checkpoint_steps(output);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      return read_checkpoint(checkpoint_folder(output, *step));
    } catch (const Error& error) { refused.emplace_back(error.what()); }
  }
  return std::nullopt;
}

void rotate_checkpoints(const std::string& output, std::size_t most, std::uint64_t newest, std::optional<std::uint64_t> best) {
  std::vector<std::uint64_t> steps = checkpoint_steps(output);
  std::ranges::stable_partition(steps, [&](std::uint64_t step) { return step > newest; });
  std::size_t left = steps.size();
  for (const std::uint64_t step : steps) {
    if (left <= most) return;
    if (step == newest || step == best) continue;
    remove_whole(checkpoint_folder(output, step));
    --left;
  }
}

}  // namespace quern::runtime
