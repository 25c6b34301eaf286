// The public face: checks what comes in, sets the variables that apply_chat_template sets, and renders.
#include "quern/models/chat_template.hpp"

#include "evaluate.hpp"
#include "json_value.hpp"
#include "parser.hpp"
#include "quern/models/chat.hpp"
#include "quern/graph/error.hpp"
#include "text.hpp"

#include <algorithm>
#include <iterator>

namespace quern {

namespace {

constexpr std::size_t largest_source = 1024 * 1024;

void check_utf8(const std::string& name, std::string_view what, std::string_view text, quern_status code = QUERN_INVALID_ARGUMENT) {
  const std::size_t bad = jinja::find_invalid_utf8(text);
  if (bad == std::string_view::npos) return;
  throw Error(code, concat(name, ": ", what, " is not UTF-8 at byte ", bad));
}

// A role that chats know chooses the turn's marker in templates that write '<|' + role + '|>': the caller said
// who speaks, which no text inside the chat can.
constexpr std::string_view known_roles[] = {"assistant",   "developer", "function", "ipython", "model",
                                            "observation", "system",    "tool",     "user"};

jinja::Value role_value(jinja::Runtime& runtime, const std::string& role) {
  const bool is_known = std::find(std::begin(known_roles), std::end(known_roles), role) != std::end(known_roles);
  return is_known ? runtime.own_text(role) : runtime.text(role);
}

jinja::Value message_values(jinja::Runtime& runtime, const Json& messages) {
  jinja::Counted<jinja::Value> values(runtime);
  values.reserve(messages.list()->size());
  for (const Json& message : *messages.list()) {
    const auto what = [&](const std::string& member) { return concat("the ", jinja::shown(member), " of message ", values.size()); };
    values.push_back(jinja::mapping_value(runtime, *message.members(), [&](const Json::Member& member) {
      if (member.value.text() == nullptr) return jinja::json_value(runtime, member.value, what(member.name));
      check_utf8(runtime.template_name(), what(member.name), *member.value.text());
      return member.name == "role" ? role_value(runtime, *member.value.text()) : runtime.text(*member.value.text());
    }));
  }
  return runtime.list(std::move(values));
}

jinja::Value variable_value(jinja::Runtime& runtime, const std::string& name, const std::string& variable, const TemplateVariable& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    check_utf8(name, "variable '" + variable + "'", *text);
    return runtime.text(*text);
  }
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  return std::get<double>(value);
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string_view source, std::string name_for_errors, const TemplateLimits& limits) {
  if (source.size() > largest_source) {
    throw Error(QUERN_BAD_MODEL, concat(name_for_errors, ": the chat template has ", source.size(), " bytes; the most that is accepted is ",
                                        largest_source));
  }
  if (const std::size_t bad = jinja::find_invalid_utf8(source); bad != std::string_view::npos) {
    throw Error(QUERN_BAD_MODEL, concat(name_for_errors, ": the chat template is not UTF-8 at byte ", bad));
  }
  return ChatTemplate(jinja::Parser::parse(source, std::move(name_for_errors), limits));
}

const std::string& ChatTemplate::name() const noexcept { return parsed_->name; }

RenderedChat ChatTemplate::render_marked(const std::vector<Message>& messages, const TemplateOptions& options) const {
  return render_as_given(chat_of(messages), options);
}

RenderedChat ChatTemplate::render_as_given(const Chat& chat, const TemplateOptions& options) const {
  const std::string& name = parsed_->name;
  jinja::Runtime runtime(name, options.limits, options.now);
  runtime.take(parsed_->bytes);
  jinja::Evaluator evaluator(*parsed_, runtime);
  evaluator.set_variable("tools", json_value(runtime, chat.tools, "a tool"));
  evaluator.set_variable("documents", jinja::None{});
  evaluator.set_variable("add_generation_prompt", options.add_generation_prompt);
  // These two come from the model's file.
  for (const auto& [variable, token] : {std::pair{"bos_token", &options.bos_token}, {"eos_token", &options.eos_token}}) {
    if (!*token) continue;
    check_utf8(name, concat("variable '", variable, "'"), **token, QUERN_BAD_MODEL);
    evaluator.set_variable(variable, runtime.own_text(**token));
  }
  for (const auto& [variable, value] : options.variables) {
    evaluator.set_variable(variable, variable_value(runtime, name, variable, value));
  }
  evaluator.set_variable("messages", message_values(runtime, chat.messages));
  return evaluator.run();
}

}  // namespace quern
