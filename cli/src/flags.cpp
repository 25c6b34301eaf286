#include "flags.hpp"

#include "failure.hpp"
#include "flag_words.hpp"
#include "numbers.hpp"

#include "quern/base/terminal_text.hpp"

#include <charconv>
#include <cmath>
#include <limits>

namespace quern::cli {
namespace {

constexpr const char* group_of_hub = "Getting models";

}  // namespace

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
  if (!token || !read) throw Failure(exit_usage, "run: --logit-bias: '" + text + "' is not of the form TOKEN=BIAS, such as 128=-1.5");
  return {static_cast<std::int32_t>(*token), bias};
}

void add_model_place(CLI::App& app, std::string& path, NamedPlaces& named, const char* help) {
  app.add_option("MODEL", path, help);
  app.add_option(flag_names("--model"), named.model, "the model, in place of MODEL")->type_name("MODEL")->default_str("none");
  app.add_flag("--pull", named.pull, "download the model first where it is not on this machine")->group(group_of_hub);
}

void add_prompt_flag(CLI::App& app, NamedPlaces& named, const char* help) {
  app.add_option(flag_names("--prompt"), named.prompt, help)->type_name("TEXT")->default_str("none");
}

std::vector<std::uint64_t> parse_numbers(const std::string& what, const std::string& text, std::uint64_t least, std::uint64_t most) {
  std::vector<std::uint64_t> values;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    const std::string part = text.substr(from, comma - from);
    const auto value = parse_count(part, most);
    if (!value || *value < least)
      throw Failure(exit_usage, what + ": " + in_quotes(part, 200) + " is not a whole number from " + std::to_string(least) + " to " +
                                    std::to_string(most));
    values.push_back(*value);
    from = comma + 1;
  }
  return values;
}

namespace {

template <class Number>
void add_numbers(CLI::App& app, const char* flag, std::vector<Number>& values, Number least, const char* help) {
  const std::string name = flag, verb = app.get_name();
  app.add_option_function<std::vector<std::string>>(
         flag_names(name),
         [=, &values](const std::vector<std::string>& given) {
           values.clear();
           for (const std::string& text : given)
             for (const std::uint64_t value : parse_numbers(verb + ": " + name, text, least, std::numeric_limits<Number>::max() - 1))
               values.push_back(static_cast<Number>(value));
         },
         help)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->type_name("N,...")
      ->default_str(std::to_string(values.front()));
}

}  // namespace

void add_numbers_option(CLI::App& app, const char* flag, std::vector<std::uint32_t>& values, std::uint32_t least, const char* help) {
  add_numbers(app, flag, values, least, help);
}
void add_numbers_option(CLI::App& app, const char* flag, std::vector<std::uint64_t>& values, std::uint64_t least, const char* help) {
  add_numbers(app, flag, values, least, help);
}

void add_model_flags(CLI::App& app, ModelFlags& flags, NamedPlaces& named) {
  app.add_option_function<std::string>(
         "--activations",
         [&flags](const std::string& word) { flags.activations = word == "f32" ? QUERN_ACTIVATIONS_F32 : QUERN_ACTIVATIONS_AUTO; },
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
  add_model_place(app, flags.path, named);
}

void add_adapter_flag(CLI::App& app, std::optional<std::string>& adapter) {
  app.add_option("--adapter", adapter, "a LoRA adapter that the model answers with: a PEFT folder or a GGUF adapter")
      ->type_name("DIR[:SCALE]")
      ->default_str("none");
}

void add_tokenizer_flag(CLI::App& app, std::string& rule) {
  app.add_option("--tokenizer-pre", rule, "cut text by this rule instead of the file's tokenizer.ggml.pre: qwen2, llama-bpe ...")
      ->type_name("NAME")
      ->default_str("the file's");
}

void add_sampling_flags(CLI::App& app, SamplingFlags& flags) {
  constexpr const char* group = "Sampling";
  // What a value of exactly 0 is: the number, off as it says, or none.
  enum class Zero { taken, smallest, refused };
  const auto real = [&](const char* flag, float& value, float least, float most, const char* standard, const char* help,
                        Zero zero = Zero::taken) {
    const std::string name = flag;
    app.add_option_function<std::string>(
           flag_names(name),
           [&value, name, least, most, zero](const std::string& text) {
             const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
             if (error != std::errc{} || end != text.data() + text.size() || !(value >= least && value <= most))
               throw CLI::ValidationError(name,
                                          in_quotes(text, 200) + " is not a number from " + fixed(least, 0) + " to " + fixed(most, 0));
             if (value == 0 && zero == Zero::refused)
               throw CLI::ValidationError(name, in_quotes(text, 200) + " would divide by nothing; 1 is no penalty");
             if (value == 0 && zero == Zero::smallest) value = std::numeric_limits<float>::min();  // 0 would be off for the library
           },
           help)
        ->type_name("X")
        ->default_str(standard)
        ->group(group);
  };
  real("--temperature", flags.temperature, 0, 100, "0.7", "0 takes the best token every time");
  add_number_option(app, "--top-k", [&flags](std::uint64_t k) { flags.top_k = static_cast<std::uint32_t>(k); },
                    "only the N best tokens; 0 is all", {0, std::numeric_limits<std::uint32_t>::max()})
      ->default_str("0")
      ->group(group);
  real("--top-p", flags.top_p, 0, 1, "off", "only the best tokens that together have this probability; 0 is the best one alone",
       Zero::smallest);
  real("--min-p", flags.min_p, 0, 1, "0.1", "only tokens with this share of the best one's probability; 0 is all");
  real("--repeat-penalty", flags.repeat_penalty, 0, 100, "1", "divide the logits of tokens seen; 1 is none", Zero::refused);
  real("--presence-penalty", flags.presence_penalty, -100, 100, "0", "subtract from the logits of tokens seen");
  real("--frequency-penalty", flags.frequency_penalty, -100, 100, "0", "subtract once for each time a token was seen");
  app.add_option_function<std::string>(
         flag_names("--penalty-window"),
         [&flags](const std::string& text) {
           const bool all = text == "all" || text == "-1";
           const auto window = parse_count(text, std::numeric_limits<std::uint32_t>::max());
           if (!all && (!window || *window == 0))
             throw CLI::ValidationError(
                 "--penalty-window", in_quotes(text, 200) + " is not a number of tokens from 1, or all; leave the penalties out for none");
           flags.penalty_window = all ? QUERN_WINDOW_ALL : static_cast<std::uint32_t>(*window);
         },
         "how many last tokens count as seen: a number or all")
      ->type_name("N")
      ->default_str("64")
      ->group(group);
  add_number_option(app, "--seed", [&flags](std::uint64_t seed) { flags.seed = seed; }, "the same seed gives the same answer",
                    {.minus_one = [&flags] { flags.seed.reset(); }})
      ->default_str("a random one")
      ->group(group);
  app.add_option_function<std::vector<std::string>>(
         flag_names("--logit-bias"),
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
  app.add_option("--prefill", flags.prefill, "how the answer begins; the model goes on from there")->type_name("TEXT")->default_str("none");
  add_number_option(app, "--max-tokens", flags.max_tokens, "the most tokens to generate",
                    {.least = 1, .minus_one = [&flags] { flags.max_tokens = 0; }, .remedy = "leave it out for an answer to its end"})
      ->default_str("to the end");
  add_sampling_flags(app, flags.sampling);
}

void add_setting_flags(CLI::App& app, FlagValues& values, unsigned uses) {
  for (const Setting& setting : all_settings()) {
    if ((setting.uses & uses) == 0) continue;
    const std::string key = setting.key;
    const std::string names = flag_names(setting.flag);
    const char* group = (setting.uses & for_backends) != 0 ? "Backend and device" : group_of_hub;
    if (setting.placeholder == nullptr) {
      app.add_flag_function(
             names, [&values, key](std::int64_t) { values[key] = "1"; }, setting.help)
          ->group(group);
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
    option->multi_option_policy(setting.kind == SettingKind::memory ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::Throw);
  }
}

void add_manner_flags(CLI::App& app, bool& verbose, bool& quiet) {
  app.add_flag(flag_names("--verbose"), verbose, "log what happens, on standard error (as --log debug)");
  app.add_flag(flag_names("--quiet"), quiet, "no progress bar and no closing line");
}

void add_list_option(CLI::App& app, const char* flag, std::vector<std::string>& values, const char* placeholder, const char* help) {
  app.add_option(flag_names(flag), values, help)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->type_name(placeholder)
      ->default_str("none");
}

CLI::Option* add_number_option(CLI::App& app, const char* flag, std::function<void(std::uint64_t)> take, const char* help,
                               NumberRule rule) {
  const std::string name = flag;
  return app
      .add_option_function<std::string>(
          flag_names(name),
          [=](const std::string& text) {
            if (rule.minus_one && text == "-1") {
              rule.minus_one();
              return;
            }
            const auto value = parse_count(text, rule.most);
            if (value && *value >= rule.least) {
              take(*value);
              return;
            }
            const std::string range = rule.most == UINT64_MAX
                                          ? "a whole number of at least " + std::to_string(rule.least)
                                          : "a whole number from " + std::to_string(rule.least) + " to " + std::to_string(rule.most);
            throw CLI::ValidationError(name, in_quotes(text, 200) + " is not " + range + (*rule.remedy == '\0' ? "" : "; ") + rule.remedy);
          },
          help)
      ->type_name("N");
}

CLI::Option* add_number_option(CLI::App& app, const char* flag, std::uint64_t& value, const char* help, NumberRule rule) {
  return add_number_option(
      app, flag, [&value](std::uint64_t given) { value = given; }, help, std::move(rule));
}

void add_count_option(CLI::App& app, const char* flag, std::uint32_t& value, const char* help) {
  add_number_option(app, flag, [&value](std::uint64_t given) { value = static_cast<std::uint32_t>(given); }, help,
                    {1, std::numeric_limits<std::uint32_t>::max() - 1})
      ->default_str(std::to_string(value));
}

}  // namespace quern::cli
