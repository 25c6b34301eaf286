// quern list: the models in the caches, a row each; with --quiet their names alone.
#include "verbs.hpp"

#include "engine.hpp"
#include "numbers.hpp"
#include "output.hpp"
#include "table.hpp"

#include <array>
#include <ctime>

namespace quern::cli {
namespace {

/// "2026-11-22" where this machine is.
std::string date_of(std::int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  std::array<char, 32> text{};
  if (seconds <= 0 || localtime_r(&time, &parts) == nullptr) return "-";
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts)};
}

/// The tokens of context that the file was made for; null where its head cannot be read.
Json context_of(const std::string& path) {
  quern_text* raw = nullptr;
  const quern_status status = quern_show_json(path.c_str(), &raw);
  const Text text(raw);
  return status == QUERN_OK ? Json::parse(view(text)).value("context_length", Json()) : Json();
}

std::string table_of(const Json& models) {
  Table table({{"NAME"}, {"SIZE", Align::right}, {"DATE"}, {"FORMAT"}, {"CONTEXT", Align::right}});
  for (const Json& model : models) {
    const std::string format = printable(model.value("quantisation", ""));
    const Json& context = model.at("context_length");
    table.add({printable(model.at("name").get<std::string>()), byte_words(model.at("bytes").get<std::uint64_t>()),
               date_of(model.value("modified", std::int64_t{0})), format.empty() ? "-" : format,
               context.is_number_unsigned() ? with_commas(context.get<std::uint64_t>()) : "-"});
  }
  return table.text();
}

}  // namespace

int list_verb(const CommandLine& line, const Settings& settings) {
  const quern_hub_options options = settings.hub_options();
  Json json = Json::parse(view(make<Text>(quern_cached_models_json, &options)));
  Json& models = json.at("models");
  if (line.quiet && !line.json) {  // names alone, for scripts: no file is opened
    std::string names;
    for (const Json& model : models) names += printable(model.at("name").get<std::string>()) + "\n";
    write_out(names);
    return exit_ok;
  }
  for (Json& model : models) model["context_length"] = context_of(model.at("path").get<std::string>());
  if (line.json) {
    write_json(json);
    return exit_ok;
  }
  if (models.empty()) write_error_line("no model in " + json.at("hub_cache").get<std::string>() + "; quern pull gets one");
  else write_out(table_of(models));
  return exit_ok;
}

}  // namespace quern::cli
