// See completions.hpp.
#include "cli/completions.hpp"

#include "cli/flags.hpp"
#include "cli/output.hpp"
#include "quern/base/files.hpp"

#include <algorithm>

namespace quern::conformance {
namespace {

std::string replaced_all(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) text.replace(at, what.size(), by);
  return text;
}

/// "quick full huge" of "quick|full|huge"; empty for a value that is no list.
std::string listed_words(const Flag& flag) {
  return flag.value.find('|') == std::string_view::npos ? "" : replaced_all(std::string(flag.value), "|", " ");
}

std::string zsh_quoted(std::string text) {
  for (const char* special : {"\\", "[", "]", ":"}) text = replaced_all(std::move(text), special, std::string("\\") + special);
  return replaced_all(std::move(text), "'", "'\\''");
}

std::string fish_quoted(std::string text) {
  text = replaced_all(std::move(text), "\\", "\\\\");
  return "'" + replaced_all(std::move(text), "'", "\\'") + "'";
}

constexpr const char* bash_head = R"bash(# Completions of quern-conformance for bash, generated from its table of flags.

_quern_conformance() {
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
  case $flag in
)bash";

constexpr const char* bash_tail = R"bash(  esac
}

complete -F _quern_conformance quern-conformance
)bash";

std::string bash_words(const std::string& words) { return "mapfile -t COMPREPLY < <(compgen -W '" + words + "' -- \"$cur\")"; }
std::string bash_files(const char* kind) {
  return std::string("mapfile -t COMPREPLY < <(compgen ") + kind + " -- \"$cur\"); compopt -o filenames 2>/dev/null";
}

std::string all_verb_names() {
  std::string names;
  for (const VerbRow& verb : verb_table()) names += (names.empty() ? "" : " ") + std::string(verb.name);
  return names;
}

std::string verbs_with_a_journal(const char* between) {
  std::string names;
  for (const VerbRow& verb : verb_table())
    if (!verb.argument.empty()) names += (names.empty() ? "" : between) + std::string(verb.name);
  return names;
}

}  // namespace

std::string bash_completions() {
  std::string out = bash_head, names = "-h";
  for (const Flag& flag : flag_table()) {
    names += " " + std::string(flag.name);
    if (flag.value.empty()) continue;
    const std::string words = listed_words(flag);
    out += "    " + std::string(flag.name) + ") ";
    out += !words.empty() ? bash_words(words) : flag.value == "FILE" ? bash_files("-f") : flag.value == "FOLDER" ? bash_files("-d") : ":";
    out += " ;;\n";
  }
  out += "    *)\n      if [[ $cur == -* ]]; then " + bash_words(names) + "\n      elif [[ -z $verb ]]; then " +
         bash_words(all_verb_names()) + "\n      else\n        case $verb in " + verbs_with_a_journal("|") + ") " + bash_files("-f") +
         " ;; esac\n      fi ;;\n";
  return out + bash_tail;
}

std::string zsh_completions() {
  std::string out =
      "#compdef quern-conformance\n# Completions of quern-conformance for zsh, generated from its table of flags.\n\n"
      "_quern-conformance() {\n  local context state state_descr line\n  typeset -A opt_args\n  _arguments \\\n";
  for (const Flag& flag : flag_table()) {
    const std::string words = listed_words(flag);
    out += "    " + std::string(flag.name == "--help" ? "{-h,--help}'" : flag.repeatable ? "'*" : "'");
    if (flag.name != "--help") out += flag.name;
    out += (flag.value.empty() ? "[" : "=[") + zsh_quoted(std::string(flag.help)) + "]";
    if (!words.empty()) out += ":value:(" + words + ")";
    else if (!flag.value.empty()) out += flag.value == "FILE" ? ":value:_files" : flag.value == "FOLDER" ? ":value:_files -/" : ":value: ";
    out += "' \\\n";
  }
  out += "    '1:verb:->verb' '*:journal:->journal'\n  case $state in\n    verb)\n      local -a verbs\n      verbs=(\n";
  for (const VerbRow& verb : verb_table()) out += "        '" + std::string(verb.name) + ":" + zsh_quoted(std::string(verb.help)) + "'\n";
  return out + "      )\n      _describe verb verbs ;;\n    journal)\n      [[ $line[1] == (" + verbs_with_a_journal("|") +
         ") ]] && _files ;;\n  esac\n}\n\nif [[ $funcstack[1] == _quern-conformance ]]; then\n  _quern-conformance \"$@\"\nelse\n"
         "  compdef _quern-conformance quern-conformance\nfi\n";
}

std::string fish_completions() {
  std::string out = "# Completions of quern-conformance for fish, generated from its table of flags.\n\ncomplete -c quern-conformance -f\n";
  for (const VerbRow& verb : verb_table())
    out += "complete -c quern-conformance -n __fish_use_subcommand -a " + std::string(verb.name) + " -d " +
           fish_quoted(std::string(verb.help)) + "\n";
  out += "complete -c quern-conformance -n '__fish_seen_subcommand_from " + verbs_with_a_journal(" ") + "' -F\n";
  for (const Flag& flag : flag_table()) {
    const std::string words = listed_words(flag);
    out +=
        std::string("complete -c quern-conformance") + (flag.name == "--help" ? " -s h" : "") + " -l " + std::string(flag.name.substr(2));
    if (!words.empty()) out += " -x -a " + fish_quoted(words);
    else if (flag.value == "FILE") out += " -r -F";
    else if (flag.value == "FOLDER") out += " -x -a '(__fish_complete_directories)'";
    else if (!flag.value.empty()) out += " -x";
    out += " -d " + fish_quoted(std::string(flag.help)) + "\n";
  }
  return out;
}

int write_completions(const std::string& folder) {
  if (folder.empty()) throw UsageError("completions: a folder is missing");
  const auto write = [&](const char* name, const std::string& text) {
    const base::FileProblem problem = base::write_file(folder + "/" + name, text);
    if (problem) write_error(problem.text);
    return !problem;
  };
  const bool bash = write("quern-conformance.bash", bash_completions()), zsh = write("_quern-conformance", zsh_completions());
  return write("quern-conformance.fish", fish_completions()) && bash && zsh ? 0 : 70;
}

}  // namespace quern::conformance
