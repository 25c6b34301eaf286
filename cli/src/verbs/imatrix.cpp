// quern imatrix MODEL TEXT -o FILE: how large the inputs of a model's weights are over a text.
#include "verbs.hpp"

#include "engine.hpp"
#include "numbers.hpp"
#include "output.hpp"
#include "progress.hpp"

namespace quern::cli {

int imatrix_verb(const CommandLine& line, const Settings& settings) {
  const ImatrixFlags& flags = line.imatrix;
  const std::string text = read_file(flags.text);
  std::vector<const char*> inputs;
  for (const std::string& input : flags.inputs) inputs.push_back(input.c_str());
  quern_imatrix_options options{};
  options.struct_size = sizeof options;
  options.dataset = flags.text.c_str();
  options.inputs = inputs.data();
  options.input_count = inputs.size();
  options.most_chunks = flags.chunks;
  Progress progress("measuring", flags.model, "tokens", line.quiet);
  options.progress = [](void* bar, std::uint64_t done, std::uint64_t total) {
    static_cast<Progress*>(bar)->show(done, total);
    return 0;
  };
  options.progress_user = &progress;
  const Runtime runtime = open_runtime(settings);
  check(quern_runtime_ready(runtime.get()));
  check_architecture(flags.model);
  const quern_imatrix_options* chosen = &options;
  const char* bytes = text.data();
  const auto report =
      make<Text>(quern_imatrix, runtime.get(), flags.model.c_str(), bytes, std::uint64_t{text.size()}, chosen, flags.out.c_str());
  progress.end();
  const Json result = Json::parse(view(report));
  if (line.json) {
    write_json(result);
  } else {
    const auto count = [&](const char* name) { return std::to_string(result.at(name).get<std::uint64_t>()); };
    write_out(flags.out + ": " + count("entries") + " weights, " + count("tokens") + " tokens of this text, " + count("chunks") +
              " chunks of " + count("chunk_tokens") + " in all\n");
  }
  return exit_ok;
}

}  // namespace quern::cli
