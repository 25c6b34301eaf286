// quern convert IN OUT: a model as a GGUF file or as a directory.
#include "verbs.hpp"

#include "engine.hpp"
#include "numbers.hpp"
#include "output.hpp"

#include <filesystem>

namespace quern::cli {
namespace {

/// What was written: `out`, or the first file of a model that was split, which is the newest of such names.
std::string first_file(const std::string& out) {
  const std::filesystem::path path(out);
  if (std::filesystem::exists(path)) return out;
  const std::string front = path.stem().string() + "-00001-of-";
  const std::filesystem::path folder = path.parent_path();
  std::filesystem::directory_entry newest;
  for (const auto& entry : std::filesystem::directory_iterator(folder.empty() ? "." : folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(front) || !name.ends_with(".gguf")) continue;
    if (newest.path().empty() || entry.last_write_time() > newest.last_write_time()) newest = entry;
  }
  return newest.path().empty() ? out : (folder / newest.path().filename()).string();
}

}  // namespace

int convert_verb(const CommandLine& line, const Settings& settings) {
  const ConvertFlags& flags = line.convert;
  quern_convert_options options{};
  options.struct_size = sizeof options;
  if (flags.type != "auto") options.type = quern_dtype_from_name(flags.type.c_str());
  options.vocabulary_only = flags.vocabulary_only ? 1 : 0;
  if (flags.shard_size) {
    options.shard_bytes = parse_bytes(*flags.shard_size).value_or(0);
    if (options.shard_bytes == 0)
      throw Failure(exit_usage, "convert: --shard-size " + *flags.shard_size + " is no number of bytes above 0; 2G and 500M are some");
  }
  const Runtime runtime = open_runtime(settings);
  check(quern_runtime_ready(runtime.get()));
  check(quern_convert(runtime.get(), flags.from.c_str(), flags.out.c_str(), &options));
  const std::string written = first_file(flags.out);
  if (line.json) write_json(Json{{"input", flags.from}, {"output", written}});
  else write_out(written + "\n");
  return exit_ok;
}

}  // namespace quern::cli
