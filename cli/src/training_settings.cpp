// See training_settings.hpp.
#include "training_settings.hpp"

#include "numbers.hpp"
#include "yaml_file.hpp"

namespace quern::cli {

std::string data_line(const std::string& what, const Json& data) {
  const auto count = [&](const char* name) { return data.at(name).get<std::uint64_t>(); };
  const std::uint64_t tokens = count("tokens"), labels = count("labels");
  std::string line = what + std::string(12 - what.size(), ' ') + std::to_string(count("examples")) + " examples, " +
                     std::to_string(tokens) + " tokens, " + std::to_string(labels) + " of them count";
  if (tokens > 0) line += " (" + fixed(100.0 * static_cast<double>(labels) / static_cast<double>(tokens), 1) + " %)";
  line += ", the longest has " + std::to_string(count("longest"));
  for (const auto& [name, words] :
       {std::pair("dropped_long", " too long"), {"dropped_unlabelled", " without a token that counts"}, {"bad_lines", " unreadable"}})
    if (const std::uint64_t dropped = count(name); dropped > 0) line += "; " + std::to_string(dropped) + words + " left out";
  return line;
}

std::string plan_page(const Json& plan) {
  std::string page = data_line("train", plan.at("train")) + "\n";
  if (plan.at("validation").at("examples") != 0) page += data_line("validation", plan.at("validation")) + "\n";
  page += "steps       " + plan.at("steps").dump() + ", " + plan.at("steps_of_epoch").dump() + " an epoch";
  if (plan.at("step") != 0) page += "; " + plan.at("step").dump() + " are done";
  page += "\ntrained     " + plan.at("trained_parameters").dump() + " parameters on " + plan.at("device").get<std::string>() + "\n";
  page += "precision   " + plan.at("precision").get<std::string>() + ", since " + plan.at("precision_reason").get<std::string>() + "\n";
  const Json& memory = plan.at("estimate");
  const auto bytes = [&](const char* name) { return byte_words(memory.at(name).get<std::uint64_t>()); };
  page += "memory      " + bytes("devices_bytes") + ": weights " + bytes("weights_bytes") + ", trained with gradients and moments " +
          bytes("trained_bytes") + ", activations " + bytes("activations_bytes") + " (head " + bytes("head_bytes") + "), evaluation " +
          bytes("evaluation_bytes") + "; " + bytes("host_bytes") + " of the process\n";
  if (plan.contains("fits"))
    page += plan.at("fits").get<bool>() ? "            it fits\n"
                                        : "            it does not fit: " + plan.at("lack").get<std::string>() + "\n";
  return page;
}

OpenedTraining open_settings(const std::string& json, const std::vector<std::string>& overrides, const char* places) {
  std::vector<const char*> texts;
  for (const std::string& one : overrides) texts.push_back(one.c_str());
  quern_training_options options{};
  options.struct_size = sizeof options;
  options.overrides = texts.data();
  options.override_count = texts.size();
  options.places = places;
  const quern_training_options* given = &options;
  OpenedTraining opened{make<Training>(quern_training_open, json.c_str(), given)};
  const Text notes = make<Text>(quern_training_notes, opened.get());
  if (!view(notes).empty()) write_error_page(view(notes));
  opened.info = get<quern_training_info>(quern_training_get_info, opened.get());
  return opened;
}

OpenedTraining open_training(const std::string& file, const std::vector<std::string>& overrides) {
  const YamlFile yaml = read_yaml(file);
  OpenedTraining opened = open_settings(yaml.json, overrides, places_json(yaml, file).c_str());
  if (*opened.info.base_model == '\0')
    throw Failure(exit_usage, file + ": base_model is missing; give the GGUF file, or the name of the model, that is to be trained");
  return opened;
}

}  // namespace quern::cli
