// quern quantize MODEL OUT TYPE: a model's weights in other types, as a GGUF file or a directory.
#include "verbs.hpp"

#include "engine.hpp"
#include "numbers.hpp"
#include "output.hpp"
#include "progress.hpp"

#include "quern/base/byte_sizes.hpp"

#include <map>

namespace quern::cli {
namespace {

/// One line for each type that tensors have now: how many of them, and their bytes.
std::string words_of(const Json& report, const QuantizeFlags& flags) {
  struct Share {
    std::uint64_t tensors = 0, fallen_back = 0, bytes = 0;
  };
  std::map<std::string, Share> shares;
  for (const Json& tensor : report.at("tensors")) {
    Share& share = shares[tensor.at("to").get<std::string>()];
    ++share.tensors;
    share.bytes += tensor.at("bytes").get<std::uint64_t>();
    if (tensor.contains("instead_of")) ++share.fallen_back;
  }
  std::string out;
  for (const auto& [type, share] : shares) {
    out += type + std::string(type.size() < 6 ? 6 - type.size() : 1, ' ') + std::to_string(share.tensors) + " tensors, " +
           byte_words(share.bytes);
    if (share.fallen_back > 0)
      out += ", " + std::to_string(share.fallen_back) + " of them in place of a type whose blocks do not fill a row";
    out += "\n";
  }
  return out + (flags.dry_run ? "would be " : flags.out + ": ") + byte_words(report.at("bytes").get<std::uint64_t>()) + ", " +
         fixed(report.at("bits_per_weight").get<double>(), 2) + " bits a weight, from " +
         byte_words(report.at("bytes_before").get<std::uint64_t>()) + "\n";
}

}  // namespace

int quantize_verb(const CommandLine& line, const Settings& settings) {
  const QuantizeFlags& flags = line.quantize;
  std::vector<const char*> rules;
  for (const std::string& rule : flags.tensor_types) rules.push_back(rule.c_str());
  quern_quantize_options options{};
  options.struct_size = sizeof options;
  if (!flags.type.empty() + flags.to.has_value() + flags.target_bits.has_value() != 1)
    throw Failure(exit_usage,
                  "quantize: give the type of a GGUF file, such as Q4_K_M, or a directory's form, such as --to awq, or --target-bits");
  options.type = flags.type.empty() ? nullptr : flags.type.c_str();
  options.target_bits = flags.target_bits.value_or(0);
  if (flags.target_bits && !(*flags.target_bits > 0 && *flags.target_bits <= 32))
    throw Failure(exit_usage, "quantize: --target-bits takes a number above 0, 32 at most");
  options.to = flags.to ? flags.to->c_str() : nullptr;
  options.imatrix = flags.imatrix ? flags.imatrix->c_str() : nullptr;
  options.tensor_types = rules.data();
  options.tensor_type_count = rules.size();
  options.output_type = flags.output_type ? flags.output_type->c_str() : nullptr;
  options.embedding_type = flags.embedding_type ? flags.embedding_type->c_str() : nullptr;
  options.pure = flags.pure ? 1 : 0;
  options.allow_requantize = flags.allow_requantize ? 1 : 0;
  options.dry_run = flags.dry_run ? 1 : 0;
  Progress progress("quantising", flags.in, nullptr, line.quiet);
  options.progress = [](void* bar, std::uint64_t done, std::uint64_t total) {
    static_cast<Progress*>(bar)->show(done, total);
    return 0;
  };
  options.progress_user = &progress;
  const Runtime runtime = open_runtime(settings);
  const quern_quantize_options* chosen = &options;
  const auto report = make<Text>(quern_quantize, runtime.get(), flags.in.c_str(), flags.out.c_str(), chosen);
  progress.end();
  const Json result = Json::parse(view(report));
  if (line.json) write_json(result);
  else write_out(words_of(result, flags));
  return exit_ok;
}

}  // namespace quern::cli
