// The keys of an entry of `datasets` and `test_datasets`.
#include "setting_rows.hpp"

#include "quern/base/terminal_text.hpp"

namespace quern::training {
namespace {

constexpr Choice<ExampleType> types[] = {{"chat_template", ExampleType::chat_template},
                                         {"sharegpt", ExampleType::sharegpt},
                                         {"alpaca", ExampleType::alpaca},
                                         {"prompt_completion", ExampleType::prompt_completion},
                                         {"completion", ExampleType::completion},
                                         {"input_output", ExampleType::input_output},
                                         {"tokenized", ExampleType::tokenized},
                                         {"chat", ExampleType::chat_template},
                                         {"messages", ExampleType::chat_template},
                                         {"text", ExampleType::completion}};
constexpr Choice<TrainOnEos> eos[] = {
    {"turn", TrainOnEos::turn}, {"all", TrainOnEos::all}, {"last", TrainOnEos::last}, {"none", TrainOnEos::none}};
constexpr Choice<SpecialTokensInContent> specials[] = {
    {"text", SpecialTokensInContent::text}, {"allow", SpecialTokensInContent::allow}, {"refuse", SpecialTokensInContent::refuse}};

void read_type(const Entry& entry, DatasetSettings& to) {
  if (const std::string* word = entry.value.text())
    if (*word == "preference" || word->starts_with("chatml.") || word->starts_with("llama3.") || *word == "dpo")
      refuse(entry, concat("'", entry.path, "' is ", in_quotes(*word), "; preference training is not supported yet"));
  to.type = chosen(entry, types);
}

void read_mappings(const Entry& entry, DatasetSettings& to) {
  for (const Json::Member& member : *entry.value.members()) {
    const Entry one{concat(entry.path, ".", member.name), entry.place, member.value};
    check_value(one, Takes::text, {}, "");
    if (!to.message_property_mappings.emplace(member.name, *member.value.text()).second)
      refuse(one, concat(in_quotes(one.path), " is given twice"));
  }
}

Json show_mappings(const DatasetSettings& of) {
  Json::Members members;
  for (const auto& [ours, theirs] : of.message_property_mappings) members.push_back({ours, Json(theirs)});
  return members.empty() ? Json() : Json(std::move(members));
}

void read_prompt_style(const Entry& entry, DatasetSettings& to) {
  constexpr Choice<bool> styles[] = {{"chat_template", false}, {"alpaca", true}};
  to.alpaca_prompt = chosen(entry, styles);
}

Json show_roles(const DatasetSettings& of) {
  Json::List list;
  for (const std::string& one : of.roles_to_train) list.emplace_back(one);
  return Json(std::move(list));
}

template <std::string DatasetSettings::*member>
void read_text(const Entry& entry, DatasetSettings& to) {
  to.*member = *entry.value.text();
}
template <std::string DatasetSettings::*member>
Json show_text(const DatasetSettings& of) {
  return (of.*member).empty() ? Json() : Json(of.*member);
}
template <bool DatasetSettings::*member>
void read_truth(const Entry& entry, DatasetSettings& to) {
  to.*member = *entry.value.boolean();
}
template <bool DatasetSettings::*member>
Json show_truth(const DatasetSettings& of) {
  return Json(of.*member);
}
template <std::string DatasetSettings::*member>
constexpr DatasetRow text_row(std::string_view name, std::string_view standard, std::string_view meaning) {
  return {name, Takes::text, {}, "", standard, meaning, read_text<member>, show_text<member>};
}

using D = DatasetSettings;

const DatasetRow all_dataset_rows[] = {
    text_row<&D::path>("path", "required", ".jsonl or .json file, or a folder"),
    {"type",
     Takes::choice,
     {},
     "chat_template, sharegpt, alpaca, prompt_completion, completion, input_output, tokenized",
     "by the keys of the first example",
     "",
     read_type,
     [](const D& of) { return of.type == ExampleType::detect ? Json() : name_of(of.type, types); }},
    text_row<&D::field_messages>("field_messages", "messages", "the list of messages"),
    {"message_property_mappings",
     Takes::map,
     {},
     "",
     "role, content",
     "our name of a message's key: the file's",
     read_mappings,
     show_mappings},
    text_row<&D::field_instruction>("field_instruction", "instruction", ""),
    text_row<&D::field_input>("field_input", "input", ""),
    text_row<&D::field_output>("field_output", "output", ""),
    text_row<&D::field_system>("field_system", "system", ""),
    text_row<&D::field>("field", "text", "of completion"),
    {"roles_to_train",
     Takes::words,
     {},
     "",
     "assistant",
     "whose messages the loss counts",
     [](const Entry& entry, D& to) { to.roles_to_train = words(entry.value); },
     show_roles},
    {"train_on_eos",
     Takes::choice,
     {},
     "turn, all, last, none",
     "turn",
     "which ends of a turn the loss counts",
     [](const Entry& entry, D& to) { to.train_on_eos = chosen(entry, eos); },
     [](const D& of) { return name_of(of.train_on_eos, eos); }},
    text_row<&D::message_field_training>("message_field_training", "none", "a boolean in a message: whether the loss counts it"),
    {"mask_template_text",
     Takes::boolean,
     {},
     "",
     "false",
     "the loss does not count what the template adds to an answer",
     read_truth<&D::mask_template_text>,
     show_truth<&D::mask_template_text>},
    {"prompt_style",
     Takes::choice,
     {},
     "chat_template, alpaca",
     "chat_template",
     "alpaca: the text of 2023",
     read_prompt_style,
     [](const D& of) { return Json(std::string(of.alpaca_prompt ? "alpaca" : "chat_template")); }},
    {"special_tokens_in_content",
     Takes::choice,
     {},
     "text, allow, refuse",
     "text",
     "text like <|im_end|> in a message",
     [](const Entry& entry, D& to) { to.special_tokens_in_content = chosen(entry, specials); },
     [](const D& of) { return name_of(of.special_tokens_in_content, specials); }},
    {"skip_bad_lines",
     Takes::boolean,
     {},
     "",
     "false",
     "lines that cannot be read are counted, not refused",
     read_truth<&D::skip_bad_lines>,
     show_truth<&D::skip_bad_lines>},
};

}  // namespace

std::span<const DatasetRow> dataset_rows() { return all_dataset_rows; }

}  // namespace quern::training
