#include "help_page.hpp"

#include "flag_words.hpp"
#include "twins.hpp"

#include <algorithm>
#include <string_view>

namespace quern::cli {
namespace {

constexpr std::size_t help_width = 100;

constexpr Example examples[] = {
    {"run", "quern run MODEL.gguf \"Why is the sky blue?\""},
    {"run", "cat notes.txt | quern run MODEL.gguf \"Summarise this\""},
    {"tokenize", "quern tokenize MODEL.gguf \"some text\""},
    {"eval", "quern eval MODEL.gguf text.txt"},
    {"eval", "quern eval MODEL.gguf --data val.jsonl --adapter out"},
    {"bench", "quern bench MODEL.gguf -p 512 -n 128"},
    {"devices", "quern devices"},
    {"doctor", "quern doctor"},
    {"show", "quern show MODEL.gguf"},
    {"show", "quern show out"},
    {"estimate", "quern estimate MODEL.gguf --context 8192"},
    {"estimate", "quern estimate MODEL.gguf --adapter out"},
    {"estimate", "quern estimate --train cfg.yaml micro_batch_size=2"},
    {"estimate", "quern estimate --hidden 4096 --ffn 14336 --layers 32 --vocab 32000 --heads 32"},
    {"pull", "quern pull owner/name:Q4_K_M"},
    {"list", "quern list"},
    {"rm", "quern rm owner/name:Q4_K_M"},
    {"monitor", "quern monitor --interval 5"},
    {"trace", "quern trace trace.json --html trace.html"},
    {"ps", "quern ps"},
    {"quantize", "quern quantize MODEL.gguf small.gguf Q4_K_M"},
    {"quantize", "quern quantize MODEL.gguf small.gguf Q4_K_M --imatrix text.imatrix"},
    {"quantize", "quern quantize MODEL.gguf folder --to awq --imatrix text.imatrix"},
    {"imatrix", "quern imatrix MODEL.gguf text.txt -o text.imatrix"},
    {"merge", "quern merge MODEL.gguf out -o merged.gguf"},
    {"export", "quern export MODEL.gguf out -o adapter.gguf --format gguf"},
    {"convert", "quern convert FOLDER model.gguf"},
    {"convert", "quern convert MODEL.gguf folder --type bf16"},
    {"train", "quern train --init lora MODEL.gguf > cfg.yaml"},
    {"train", "quern train cfg.yaml learning_rate=1e-4"},
};

constexpr std::string_view program_end =
    "Settings: a flag is stronger than its QUERN_ variable, and that is stronger than $XDG_CONFIG_HOME/quern/quern.conf and "
    "/etc/quern/quern.conf. Exit codes: 0 success, 2 usage, 3 backend or device unavailable, 4 model or data refused, 5 does not fit into "
    "memory, 6 context limit, 8 a training run that its watchdog ended, 70 bug. The manual is quern(1).";

/// Words in lines of at most `help_width` columns; each line but the first begins with `indent` blanks, and `at` columns of the first are taken.
std::string filled(std::string_view text, std::size_t at, std::size_t indent) {
  std::string out;
  std::size_t column = at;
  bool begins = true;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (word.empty()) continue;
    if (!begins && column + 1 + word.size() > help_width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!begins) {
      out += " ";
      ++column;
    }
    out += word;
    column += word.size();
    begins = false;
  }
  return out + "\n";
}

struct Entry {
  std::string left, text;
};

std::string entries_text(const std::vector<Entry>& entries) {
  constexpr std::size_t widest = 26;
  std::size_t width = 0;
  for (const Entry& entry : entries)
    if (entry.left.size() <= widest) width = std::max(width, entry.left.size());
  const std::size_t indent = 2 + width + 2;
  std::string out;
  for (const Entry& entry : entries) {
    out += "  " + entry.left;
    out += entry.left.size() <= width ? std::string(indent - 2 - entry.left.size(), ' ') : "\n" + std::string(indent, ' ');
    out += filled(entry.text, indent, indent);
  }
  return out;
}

/// "-n, --max-tokens N"; with `all` every name.
std::string names_of(const CLI::Option& option, bool all) {
  if (option.get_lnames().empty() && option.get_snames().empty()) return option.get_name(true);
  std::string names;
  const auto add = [&names](const std::string& name) { names += (names.empty() ? "" : ", ") + name; };
  for (const std::string& name : option.get_snames()) add("-" + name);
  for (const std::string& name : option.get_lnames()) {
    add("--" + name);
    if (!all) break;
  }
  return names + (takes_value(option) ? " " + option.get_type_name() : "");
}

Entry entry_of(const CLI::Option& option, bool all) {
  Entry entry{names_of(option, all), option.get_description()};
  const std::string standard = takes_value(option) ? option.get_default_str() : "";
  if (!standard.empty() && standard != "none") entry.text += " (default: " + standard + ")";
  if (const std::string variable = variable_of(option); all && !variable.empty()) entry.text += " [" + variable + "]";
  return entry;
}

std::vector<const CLI::Option*> options_of(const CLI::App& app, bool places) {
  return app.get_options([&](const CLI::Option* option) { return option->get_positional() == places; });
}

std::string usage_line(const CLI::App& app) {
  const std::string verb = app.get_name();
  std::string usage = "Usage: quern " + verb;
  for (const CLI::Option* place : options_of(app, true)) {
    const std::string name = place->get_name(true);
    const bool needed = place->get_required() || (name == "MODEL" && verb != "estimate") || (name == "FILE" && verb == "eval");
    usage += needed ? " " + name : " [" + name + "]";
  }
  return usage + " [flags]\n";
}

std::string flags_text(const CLI::App& app, bool all) {
  std::string out;
  for (const std::string& group : app.get_groups()) {
    std::vector<Entry> entries;
    for (const CLI::Option* option : options_of(app, false))
      if (option->get_group() == group && (all || shown_always(flag_name(*option)))) entries.push_back(entry_of(*option, all));
    if (!entries.empty()) out += "\n" + (group == "Options" ? "Flags" : group) + ":\n" + entries_text(entries);
  }
  return out;
}

std::string verb_page(const CLI::App& app, bool all) {
  std::string out;
  for (const Example& example : examples)
    if (app.get_name() == example.verb) out += (out.empty() ? "Example: " : "         ") + std::string(example.line) + "\n";
  out += "\n" + filled(app.get_description(), 0, 0) + "\n" + usage_line(app);
  std::vector<Entry> places;
  for (const CLI::Option* place : options_of(app, true)) places.push_back(entry_of(*place, all));
  if (!places.empty()) out += entries_text(places);
  out += flags_text(app, all);
  const auto hidden = options_of(app, false);
  const bool any_hidden = std::ranges::any_of(hidden, [](const CLI::Option* option) { return !shown_always(flag_name(*option)); });
  if (!all)
    out += "\n" + filled("quern " + app.get_name() + " --help-all shows " + (any_hidden ? "the rare flags too, " : "") +
                             "other names of each flag, and its variable.",
                         0, 0);
  return out;
}

std::string program_page(const CLI::App& program, bool all) {
  std::string out = "Example: quern run MODEL.gguf \"Why is the sky blue?\"\n\n" + filled(program.get_description(), 0, 0) +
                    "\nUsage: quern VERB [flags]; quern help VERB shows the flags of a verb.\n\nVerbs:\n";
  std::vector<Entry> verbs;
  for (const CLI::App* verb : program.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string text = verb->get_description();
    std::string also;
    for (const std::string& name : verb->get_aliases()) also += (also.empty() ? " (also: " : ", ") + name;
    const std::size_t end = text.find(". ");
    verbs.push_back({verb->get_name(), text.substr(0, end) + (end == std::string::npos ? "" : ".") + also + (also.empty() ? "" : ")")});
  }
  verbs.push_back({"help", "Show the flags of a verb: quern help run."});
  verbs.push_back({"version", "Print version, build and plugin ABI."});
  return out + entries_text(verbs) + flags_text(program, all) + "\n" + filled(program_end, 0, 0);
}

}  // namespace

std::span<const Example> all_examples() { return examples; }

std::string help_page(const CLI::App& app, bool all) { return app.get_parent() == nullptr ? program_page(app, all) : verb_page(app, all); }

std::string start_page() {
  return "Quern runs language models on this machine.\n"
         "\n"
         "  quern pull owner/name         download a model, for example bartowski/SmolLM2-135M-Instruct-GGUF\n"
         "  quern run MODEL               chat with a model: a file, or a name that quern list prints\n"
         "  quern run MODEL \"a question\"  one answer\n"
         "  quern list                    the models that are here\n"
         "  quern doctor                  which devices are used, why not the others, and what to do\n"
         "  quern help                    all verbs; quern help run shows the flags of one\n";
}

}  // namespace quern::cli
