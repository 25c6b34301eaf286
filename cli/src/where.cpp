#include "where.hpp"

#include "numbers.hpp"

namespace quern::cli {

Where where_it_ran(const quern_model* model, quern_session* session, const std::string& path) {
  const auto info = get<quern_model_info>(quern_model_get_info, model);
  const auto statistics = make<Statistics>(quern_session_statistics, session);
  const quern_statistics* snapshot = statistics.get();
  const auto ran = get<quern_statistics_info>(quern_statistics_get_info, snapshot);
  const auto first = [](const char* executed, const char* planned) {
    return std::string(executed != nullptr && *executed != '\0' ? executed : planned);
  };
  Where where;
  where.ran_on = {path, first(ran.backend, info.backend), first(ran.device, info.device), first(ran.kernels, info.kernels)};
  if (where.ran_on.device == info.device) where.description = info.device_description;
  where.choice = placement_choice(model);
  where.statistics = Json::parse(view(make<Text>(quern_statistics_json, snapshot)));
  return where;
}

std::string placement_choice(const quern_model* model) {
  return Json::parse(view(make<Text>(quern_model_placement_json, model)))["choice"];
}

std::string plan_words(const quern_model* model) { return std::string(view(make<Text>(quern_model_plan_words, model))); }
Json plan_json(const quern_model* model) { return Json::parse(view(make<Text>(quern_model_plan_json, model))); }

std::string closing_line(const Where& where, double tokens_per_second, const std::string& what) {
  const RanOn& ran_on = where.ran_on;
  return ran_on.backend + " on " + ran_on.device + (where.description.empty() ? "" : " (" + printable(where.description) + ")") +
         ", kernels " + ran_on.kernels + ": " + fixed(tokens_per_second, 1) + " tokens/s " + what +
         (where.choice.empty() ? "" : "; " + printable(where.choice));
}

}  // namespace quern::cli
