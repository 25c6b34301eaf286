// quern merge BASE ADAPTER[:SCALE].. -o OUT: a model with its adapters in its weights.
#include "verbs.hpp"

#include "engine.hpp"
#include "numbers.hpp"
#include "output.hpp"

#include "quern/base/files.hpp"

namespace quern::cli {
int merge_verb(const CommandLine& line, const Settings& settings) {
  const AdapterFlags& flags = line.adapter;
  quern_merge_options options{};
  options.struct_size = sizeof options;
  options.keep = flags.type == "keep" ? 1 : 0;
  if (!flags.type.empty() && options.keep == 0) {
    options.type = quern_dtype_from_name(flags.type.c_str());
    if (options.type == QUERN_DTYPE_NONE)
      throw Failure(exit_usage,
                    "merge: --type " + flags.type + " is no format of weights; f32, f16, bf16, q8_0 and q4_k are some, and keep");
  }
  std::vector<ScaledAdapter> adapters;
  for (const std::string& text : flags.adapters) adapters.push_back(scaled_adapter("merge", text));
  std::vector<quern_merge_adapter> given;
  for (const ScaledAdapter& adapter : adapters) given.push_back({sizeof(quern_merge_adapter), adapter.path.c_str(), adapter.scale});
  const Runtime runtime = open_runtime(settings);
  check(quern_runtime_ready(runtime.get()));
  check(quern_merge(runtime.get(), flags.base.c_str(), given.data(), given.size(), &options, flags.out.c_str()));
  if (line.json) write_json(Json{{"output", flags.out}, {"adapters", flags.adapters}});
  else write_out(flags.out + "\n");
  return exit_ok;
}

}  // namespace quern::cli
