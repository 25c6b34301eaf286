// quern convert IN OUT: a model as a GGUF file or as a directory.
#include "verbs.hpp"

#include "engine.hpp"
#include "numbers.hpp"
#include "output.hpp"

namespace quern::cli {

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
  if (line.json) write_json(Json{{"input", flags.from}, {"output", flags.out}});
  else write_out(flags.out + "\n");
  return exit_ok;
}

}  // namespace quern::cli
