#include "completions.hpp"

#include "parser.hpp"
#include "twins.hpp"

#include <algorithm>
#include <set>

namespace quern::cli {
namespace {

/// What may follow a flag, or stand in a place.
enum class Words { none, listed, files, folders, models, anything };

struct Argument {
  std::vector<std::string> names;  // "-n", "--decode-tokens"; empty for a place
  std::string place;               // "MODEL"
  std::string help;
  Words words = Words::none;  // none: the flag has no value
  std::vector<std::string> list;
  bool repeatable = false;
};

struct VerbArguments {
  std::string name, help;
  std::vector<std::string> also;  // "ls" of "list"
  std::vector<Argument> flags, places;
};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

Argument argument_of(const CLI::Option& option) {
  Argument argument;
  for (const std::string& name : option.get_snames()) argument.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) argument.names.push_back("--" + name);
  argument.help = option.get_description();
  argument.repeatable = option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  if (!takes_value(option)) return argument;
  if (argument.names.empty()) argument.place = option.get_name(true);
  const std::string kind = argument.names.empty() ? argument.place : option.get_type_name();
  argument.words = Words::anything;
  if (kind == "FILE" || kind == "OUT") argument.words = Words::files;
  if (kind == "FOLDER" || kind == "FOLDERS") argument.words = Words::folders;
  if (kind == "MODEL" || kind == "NAME") argument.words = Words::models;
  if (kind == "LEVEL") argument.list = {"trace", "debug", "info", "warn", "error", "off"};
  if (kind.find('|') != std::string::npos) argument.list = split(kind, '|');
  if (!argument.list.empty()) argument.words = Words::listed;
  return argument;
}

VerbArguments arguments_of(const CLI::App& app) {
  VerbArguments verb{app.get_name(), app.get_description().substr(0, app.get_description().find(". ")), app.get_aliases(), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    Argument argument = argument_of(*option);
    (argument.names.empty() ? verb.places : verb.flags).push_back(std::move(argument));
  }
  return verb;
}

struct Program {
  VerbArguments outer;
  std::vector<VerbArguments> verbs;
};

Program describe() {
  CommandLine line;
  const Parser parser(line, "");
  Program program{arguments_of(parser.program), {}};
  for (const VerbApp& verb : parser.verbs) program.verbs.push_back(arguments_of(*verb.app));
  return program;
}

std::string joined(const std::vector<std::string>& words, const std::string& between) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : between) + word;
  return all;
}

std::vector<std::string> all_names(const VerbArguments& verb) {
  std::vector<std::string> names;
  for (const Argument& flag : verb.flags) names.insert(names.end(), flag.names.begin(), flag.names.end());
  return names;
}

std::vector<std::string> verb_names(const Program& program) {
  std::vector<std::string> names;
  for (const VerbArguments& verb : program.verbs) {
    names.push_back(verb.name);
    names.insert(names.end(), verb.also.begin(), verb.also.end());
  }
  names.insert(names.end(), {"help", "version"});
  return names;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) text.replace(at, what.size(), by);
  return text;
}

const char* bash_call(const Argument& argument) {
  switch (argument.words) {
    case Words::files: return "_quern_files -f";
    case Words::folders: return "_quern_files -d";
    case Words::models: return "_quern_models";
    default: return ":";
  }
}

constexpr const char* bash_head = R"bash(# Completions of quern for bash, generated from its parser.

_quern_words() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

_quern_files() {
  mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
  compopt -o filenames 2>/dev/null
}

_quern_models() {
  _quern_files -f
  local name
  while read -r name _; do
    [[ $name == "$cur"* ]] && COMPREPLY+=("$name")
  done < <(quern list --quiet 2>/dev/null)
}

_quern() {
  local line=${COMP_LINE:0:COMP_POINT} words verb= flag= cur word
  COMPREPLY=()
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  cur=${words[-1]}
  for word in "${words[@]:1:${#words[@]}-2}"; do
    [[ $word == -* ]] || { verb=$word; break; }
  done
  if [[ $cur == --*=* ]]; then
    flag=${cur%%=*} cur=${cur#*=}
  elif (( ${#words[@]} > 2 )); then
    flag=${words[-2]}
  fi
)bash";

constexpr const char* bash_tail = R"bash(  # Readline takes what follows the last colon for the word.
  if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
    local at front=${cur%"${cur##*:}"}
    for at in "${!COMPREPLY[@]}"; do COMPREPLY[at]=${COMPREPLY[at]#"$front"}; done
  fi
}

complete -F _quern quern
)bash";

std::string zsh_quoted(std::string text) { return replaced(std::move(text), "'", "'\\''"); }

/// Inside [...] and between colons.
std::string zsh_help(std::string text) {
  for (const char* special : {"\\", "[", "]", ":"}) text = replaced(std::move(text), special, std::string("\\") + special);
  return zsh_quoted(text);
}

std::string zsh_action(const Argument& argument) {
  switch (argument.words) {
    case Words::listed: return "(" + joined(argument.list, " ") + ")";
    case Words::files: return "_files";
    case Words::folders: return "_files -/";
    case Words::models: return "_quern_models";
    default: return " ";
  }
}

std::string zsh_arguments(const VerbArguments& verb, const std::string& indent) {
  std::string out;
  for (const Argument& flag : verb.flags) {
    for (const std::string& name : flag.names) {
      out += indent + "'" + (flag.repeatable ? "*" : flag.names.size() > 1 ? "(" + joined(flag.names, " ") + ")" : "") + name;
      if (flag.words != Words::none) out += name.starts_with("--") ? "=" : "+";
      out += "[" + zsh_help(flag.help) + "]";
      if (flag.words != Words::none) out += ":value:" + zsh_quoted(zsh_action(flag));
      out += "' \\\n";
    }
  }
  return out;
}

std::string fish_quoted(std::string text) {
  text = replaced(std::move(text), "\\", "\\\\");
  return "'" + replaced(std::move(text), "'", "\\'") + "'";
}

std::string fish_flags(const VerbArguments& verb, const std::string& condition) {
  std::string out;
  for (const Argument& flag : verb.flags) {
    out += "complete -c quern -n " + fish_quoted(condition);
    for (const std::string& name : flag.names) out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    if (flag.words == Words::listed) out += " -x -a " + fish_quoted(joined(flag.list, " "));
    if (flag.words == Words::files) out += " -r -F";
    if (flag.words == Words::folders) out += " -x -a '(__fish_complete_directories)'";
    if (flag.words == Words::anything) out += " -x";
    out += " -d " + fish_quoted(flag.help) + "\n";
  }
  return out;
}

}  // namespace

std::string bash_completions() {
  const Program program = describe();
  std::string out = bash_head;
  for (const VerbArguments& verb : program.verbs)
    for (const std::string& also : verb.also) out += "  [[ $verb == " + also + " ]] && verb=" + verb.name + "\n";
  out += "  case $verb:$flag in\n";
  for (const VerbArguments& verb : program.verbs) {
    for (const Argument& flag : verb.flags) {
      if (flag.words == Words::none) continue;
      std::string patterns;
      for (const std::string& name : flag.names) patterns += (patterns.empty() ? "" : "|") + verb.name + ":" + name;
      out += "    " + patterns + ") ";
      out += flag.words == Words::listed ? "_quern_words '" + joined(flag.list, " ") + "'" : bash_call(flag);
      out += " ;;\n";
    }
  }
  const auto place = [&](const std::string& name, const VerbArguments& verb, const std::string& otherwise) {
    out += "    " + name + ":*)\n      if [[ $cur == -* ]]; then _quern_words '" + joined(all_names(verb), " ") + "'\n      else " +
           otherwise + "\n      fi ;;\n";
  };
  for (const VerbArguments& verb : program.verbs) {
    const auto found = std::ranges::find_if(verb.places, [](const Argument& one) { return one.words != Words::anything; });
    place(verb.name, verb, found == verb.places.end() ? ":" : bash_call(*found));
  }
  out += "    help:*) _quern_words '" + joined(verb_names(program), " ") + "' ;;\n";
  place("", program.outer, "_quern_words '" + joined(verb_names(program), " ") + "'");
  return out + "  esac\n" + bash_tail;
}

std::string zsh_completions() {
  const Program program = describe();
  std::string out = R"zsh(#compdef quern
# Completions of quern for zsh, generated from its parser.

_quern_models() {
  local -a names
  names=(${${(f)"$(quern list --quiet 2>/dev/null)"}%% *})
  _alternative 'names:model:compadd -a names' 'files:file:_files'
}

_quern() {
  local context state state_descr line
  typeset -A opt_args
  _arguments -C \
)zsh";
  out += zsh_arguments(program.outer, "    ");
  out += "    '1:verb:->verb' '*::argument:->arguments'\n  case $state in\n    verb)\n      local -a verbs\n      verbs=(\n";
  for (const VerbArguments& verb : program.verbs) out += "        '" + verb.name + ":" + zsh_help(verb.help) + "'\n";
  for (const VerbArguments& verb : program.verbs)
    for (const std::string& also : verb.also) out += "        '" + also + ":" + zsh_help(verb.help) + "'\n";
  out += "        'help:Show the flags of a verb'\n        'version:Print version, build and plugin ABI'\n";
  out += "      )\n      _describe verb verbs ;;\n    arguments)\n      case $words[1] in\n";
  for (const VerbArguments& verb : program.verbs) {
    std::vector<std::string> names{verb.name};
    names.insert(names.end(), verb.also.begin(), verb.also.end());
    out += "        " + joined(names, "|") + ")\n          _arguments \\\n" + zsh_arguments(verb, "            ");
    std::size_t number = 0;
    for (const Argument& argument : verb.places)
      out += "            '" + std::to_string(++number) + ":" + argument.place + ":" + zsh_quoted(zsh_action(argument)) + "' \\\n";
    out += "            && return 0 ;;\n";
  }
  return out + "      esac ;;\n  esac\n}\n\nif [[ $funcstack[1] == _quern ]]; then\n  _quern \"$@\"\nelse\n  compdef _quern quern\nfi\n";
}

std::string fish_completions() {
  const Program program = describe();
  std::string out = "# Completions of quern for fish, generated from its parser.\n\ncomplete -c quern -f\n";
  for (const VerbArguments& verb : program.verbs)
    out += "complete -c quern -n __fish_use_subcommand -a " + verb.name + " -d " + fish_quoted(verb.help) + "\n";
  for (const VerbArguments& verb : program.verbs)
    for (const std::string& also : verb.also)
      out += "complete -c quern -n __fish_use_subcommand -a " + also + " -d " + fish_quoted(verb.help) + "\n";
  out +=
      "complete -c quern -n __fish_use_subcommand -a help -d 'Show the flags of a verb'\n"
      "complete -c quern -n __fish_use_subcommand -a version -d 'Print version, build and plugin ABI'\n";
  out += fish_flags(program.outer, "__fish_use_subcommand");
  for (const VerbArguments& verb : program.verbs) {
    std::string condition = "__fish_seen_subcommand_from " + verb.name;
    for (const std::string& also : verb.also) condition += " " + also;
    out += "\n" + fish_flags(verb, condition);
    std::set<Words> kinds;
    for (const Argument& argument : verb.places) kinds.insert(argument.words);
    if (kinds.contains(Words::models))
      out +=
          "complete -c quern -n " + fish_quoted(condition) + " -F -a '(quern list --quiet 2>/dev/null | string replace -r \" .*\" \"\")'\n";
    else if (kinds.contains(Words::files)) out += "complete -c quern -n " + fish_quoted(condition) + " -F\n";
  }
  return out;
}

}  // namespace quern::cli
