// The public face: checks what comes in, sets the variables that apply_chat_template sets, and renders.
#include "quern/models/chat_template.hpp"

#include "evaluate.hpp"
#include "parser.hpp"
#include "quern/graph/error.hpp"
#include "text.hpp"

#include <algorithm>
#include <iterator>

namespace quern {

namespace {

constexpr std::size_t largest_source = 1024 * 1024;

void check_utf8(const std::string& name, std::string_view what, std::string_view text,
                quern_status code = QUERN_INVALID_ARGUMENT) {
  const std::size_t bad = jinja::find_invalid_utf8(text);
  if (bad == std::string_view::npos) return;
  throw Error(code, concat(name, ": ", what, " is not UTF-8 at byte ", bad));
}

// A role that chats know chooses the turn's marker in templates that write '<|' + role + '|>': the caller said
// who speaks, which no text inside the chat can.
constexpr std::string_view known_roles[] = {"assistant", "developer", "function", "ipython", "model",
                                            "observation", "system", "tool", "user"};

jinja::Value role_value(jinja::Runtime& runtime, const std::string& role) {
  const bool is_known = std::find(std::begin(known_roles), std::end(known_roles), role) != std::end(known_roles);
  return is_known ? runtime.own_text(role) : runtime.text(role);
}

jinja::Value message_value(jinja::Runtime& runtime, const std::string& name, const Message& message,
                           std::size_t index) {
  check_utf8(name, concat("the role of message ", index), message.role);
  check_utf8(name, concat("the content of message ", index), message.content);
  jinja::Entries entries(runtime);
  entries.emplace_back(runtime.text("role"), role_value(runtime, message.role));
  entries.emplace_back(runtime.text("content"), runtime.text(message.content));
  return runtime.mapping(std::move(entries));
}

jinja::Value variable_value(jinja::Runtime& runtime, const std::string& name, const std::string& variable,
                            const TemplateVariable& value) {
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
    throw Error(QUERN_BAD_MODEL, concat(name_for_errors, ": the chat template has ", source.size(),
                                        " bytes; the most that is accepted is ", largest_source));
  }
  if (const std::size_t bad = jinja::find_invalid_utf8(source); bad != std::string_view::npos) {
    throw Error(QUERN_BAD_MODEL, concat(name_for_errors, ": the chat template is not UTF-8 at byte ", bad));
  }
  return ChatTemplate(jinja::Parser::parse(source, std::move(name_for_errors), limits));
}

RenderedChat ChatTemplate::render_marked(const std::vector<Message>& messages,
                                         const TemplateOptions& options) const {
  const std::string& name = parsed_->name;
  jinja::Runtime runtime(name, options.limits, options.now);
  runtime.take(parsed_->bytes);
  jinja::Evaluator evaluator(*parsed_, runtime);
  evaluator.set_variable("tools", jinja::None{});
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
  jinja::Counted<jinja::Value> values(runtime);
  values.reserve(messages.size());
  for (const Message& message : messages)
    values.push_back(message_value(runtime, name, message, values.size()));
  evaluator.set_variable("messages", runtime.list(std::move(values)));
  return evaluator.run();
}

}  // namespace quern
