#include "flags.hpp"

#include "failure.hpp"
#include "numbers.hpp"

#include "quern/base/terminal_text.hpp"

#include <charconv>
#include <cmath>
#include <limits>

namespace quern::cli {

quern_logit_bias parse_logit_bias(const std::string& text) {
  const std::size_t equals = text.find('=');
  const auto token = parse_count(std::string_view(text).substr(0, equals), std::numeric_limits<std::int32_t>::max());
  float bias = 0;
  bool read = false;
  if (equals != std::string::npos) {
    const char* first = text.data() + equals + 1;
    const char* last = text.data() + text.size();
    if (first != last && *first == '+') ++first;
    const auto [end, error] = std::from_chars(first, last, bias);
    read = error == std::errc{} && end == last && first != last && !std::isnan(bias);
  }
  if (!token || !read)
    throw Failure(exit_usage, "run: --logit-bias: '" + text + "' is not of the form TOKEN=BIAS, such as 128=-1.5");
  return {static_cast<std::int32_t>(*token), bias};
}

CLI::Option* add_model_flags(CLI::App& app, ModelFlags& flags) {
  app.add_option_function<std::string>(
         "--activations",
         [&flags](const std::string& word) {
           flags.activations = word == "f32" ? QUERN_ACTIVATIONS_F32 : QUERN_ACTIVATIONS_AUTO;
         },
         "f32 computes in exact numerics")
      ->check(CLI::IsMember({"auto", "f32"}).description(""))
      ->type_name("auto|f32")
      ->default_str("auto");
  app.add_option_function<std::string>(
         "--kv", [&flags](const std::string& word) { flags.kv = word == "f32" ? QUERN_KV_F32 : QUERN_KV_F16; },
         "type of the key/value cache")
      ->check(CLI::IsMember({"f16", "f32"}).description(""))
      ->type_name("f16|f32")
      ->default_str("f16");
  return app.add_option("MODEL", flags.path, "the model: a file, or a name as quern list prints it")->required();
}

void add_tokenizer_flag(CLI::App& app, std::string& rule) {
  app.add_option("--tokenizer-pre", rule, "cut text by this rule instead of the file's tokenizer.ggml.pre: qwen2, llama-bpe ...")
      ->type_name("NAME")
      ->default_str("the file's");
}

void add_sampling_flags(CLI::App& app, SamplingFlags& flags) {
  constexpr const char* group = "Sampling";
  const auto real = [&](const char* flag, float& value, float least, float most, const char* standard, const char* help) {
    const std::string name = flag;
    app.add_option_function<std::string>(
           flag,
           [&value, name, least, most](const std::string& text) {
             const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
             if (error != std::errc{} || end != text.data() + text.size() || !(value >= least && value <= most))
               throw CLI::ValidationError(name, in_quotes(text, 200) + " is not a number from " + fixed(least, 0) + " to " +
                                                    fixed(most, 0));
           },
           help)
        ->type_name("X")
        ->default_str(standard)
        ->group(group);
  };
  real("--temperature", flags.temperature, 0, 100, "0.7", "0 takes the best token every time");
  add_number_option(app, "--top-k", [&flags](std::uint64_t k) { flags.top_k = static_cast<std::uint32_t>(k); },
                    "only the K best tokens; 0 is all", 0, std::numeric_limits<std::uint32_t>::max())
      ->default_str("0")
      ->group(group);
  real("--top-p", flags.top_p, 0, 1, "off", "only the best tokens that together have this probability");
  real("--min-p", flags.min_p, 0, 1, "off", "only tokens with this share of the best one's probability");
  real("--repeat-penalty", flags.repeat_penalty, 0, 100, "1", "divide the logits of tokens seen; 1 is none");
  real("--presence-penalty", flags.presence_penalty, -100, 100, "0", "subtract from the logits of tokens seen");
  real("--frequency-penalty", flags.frequency_penalty, -100, 100, "0", "subtract once for each time a token was seen");
  app.add_option_function<std::string>(
         "--penalty-window",
         [&flags](const std::string& text) {
           const auto window = parse_count(text, std::numeric_limits<std::uint32_t>::max());
           if (text != "all" && (!window || *window == 0))
             throw CLI::ValidationError("--penalty-window", in_quotes(text, 200) + " is not a number of tokens or all");
           flags.penalty_window = text == "all" ? QUERN_WINDOW_ALL : static_cast<std::uint32_t>(*window);
         },
         "how many last tokens count as seen: a number or all")
      ->type_name("N")
      ->default_str("64")
      ->group(group);
  add_number_option(app, "--seed", [&flags](std::uint64_t seed) { flags.seed = seed; },
                    "the same seed gives the same answer")
      ->default_str("a random one")
      ->group(group);
  app.add_option_function<std::vector<std::string>>(
         "--logit-bias",
         [&flags](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) flags.bias.push_back(parse_logit_bias(text));
         },
         "add to a token's logit: 128=-1.5, or 128=-inf; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->type_name("TOKEN=BIAS")
      ->default_str("none")
      ->group(group);
}

void add_answer_flags(CLI::App& app, RunFlags& flags) {
  app.add_option("--prefill", flags.prefill, "how the answer begins; the model goes on from there")->type_name("TEXT")
      ->default_str("none");
  add_number_option(app, "--max-tokens", flags.max_tokens, "the most tokens to generate")->default_str("to the end");
  add_sampling_flags(app, flags.sampling);
}

void add_setting_flags(CLI::App& app, FlagValues& values, unsigned uses, const char* threads_alias) {
  for (const Setting& setting : all_settings()) {
    if ((setting.uses & uses) == 0) continue;
    const std::string key = setting.key;
    std::string names = setting.flag;
    if (threads_alias != nullptr && key == "threads") names = std::string(threads_alias) + "," + names;
    const char* group = (setting.uses & for_backends) != 0 ? "Backend and device" : "Getting models";
    if (setting.placeholder == nullptr) {
      app.add_flag_function(names, [&values, key](std::int64_t) { values[key] = "1"; }, setting.help)->group(group);
      continue;
    }
    CLI::Option* option = app.add_option_function<std::vector<std::string>>(
        names,
        [&values, key](const std::vector<std::string>& given) {
          std::string& value = values[key];
          for (const std::string& part : given) value += (value.empty() ? "" : ",") + part;
        },
        setting.help);
    // Limits may be given one by one; every other setting once.
    option->expected(1)->allow_extra_args(false)->type_name(setting.placeholder)->default_str(setting.standard)->group(group);
    option->multi_option_policy(setting.kind == SettingKind::memory ? CLI::MultiOptionPolicy::TakeAll
                                                                    : CLI::MultiOptionPolicy::Throw);
  }
}

void add_manner_flags(CLI::App& app, bool& verbose, bool& quiet) {
  app.add_flag("-v,--verbose", verbose, "log what happens, on standard error (as --log debug)");
  app.add_flag("-q,--quiet", quiet, "no progress bar and no closing line");
}

void add_list_option(CLI::App& app, const char* flag, std::vector<std::string>& values, const char* placeholder,
                     const char* help) {
  app.add_option(flag, values, help)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->type_name(placeholder)
      ->default_str("none");
}

CLI::Option* add_number_option(CLI::App& app, const char* flag, std::function<void(std::uint64_t)> take,
                               const char* help, std::uint64_t least, std::uint64_t most) {
  const std::string name = std::string(flag).substr(std::string(flag).find(',') + 1);
  return app
      .add_option_function<std::string>(
          flag,
          [=](const std::string& text) {
            const auto value = parse_count(text, most);
            if (!value || *value < least)
              throw CLI::ValidationError(name, in_quotes(text, 200) + " is not a whole number from " + std::to_string(least) +
                                                   " to " + std::to_string(most));
            take(*value);
          },
          help)
      ->type_name("N");
}

CLI::Option* add_number_option(CLI::App& app, const char* flag, std::uint64_t& value, const char* help) {
  return add_number_option(app, flag, [&value](std::uint64_t given) { value = given; }, help);
}

void add_count_option(CLI::App& app, const char* flag, std::uint32_t& value, const char* help) {
  add_number_option(app, flag, [&value](std::uint64_t given) { value = static_cast<std::uint32_t>(given); }, help, 1,
                    std::numeric_limits<std::uint32_t>::max() - 1)
      ->default_str(std::to_string(value));
}

}  // namespace quern::cli
