// quern export BASE ADAPTER -o OUT: an adapter as a file of the other kind.
#include "verbs.hpp"

#include "api.hpp"
#include "output.hpp"

namespace quern::cli {

int export_verb(const CommandLine& line) {
  const AdapterFlags& flags = line.adapter;
  const quern_dtype dtype = flags.type.empty() ? quern_dtype{QUERN_F32} : quern_dtype_from_name(flags.type.c_str());
  check(quern_export_adapter(flags.adapters.front().c_str(), flags.base.c_str(), flags.gguf ? QUERN_ADAPTER_GGUF : QUERN_ADAPTER_PEFT,
                             dtype, flags.out.c_str()));
  if (line.json) write_json(Json{{"output", flags.out}, {"format", flags.gguf ? "gguf" : "peft"}});
  else write_out(flags.out + "\n");
  return exit_ok;
}

}  // namespace quern::cli
