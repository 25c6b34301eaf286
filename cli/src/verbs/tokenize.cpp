// quern tokenize MODEL [TEXT]: ids of a text or of a rendered chat. Opens the vocabulary only.
#include "verbs.hpp"

#include "engine.hpp"
#include "shapes.hpp"

namespace quern::cli {

int tokenize_verb(const CommandLine& line, const Settings& settings) {
  const TokenizeFlags& flags = line.tokenize;
  Chat chat;
  std::string text;
  if (flags.messages_file) chat = read_chat(*flags.messages_file);
  else text = flags.text ? *flags.text : read_stdin();

  const Vocabulary vocabulary = open_vocabulary(flags.path, flags.tokenizer_pre);
  limit_template(vocabulary.get(), settings);
  warn_of(vocabulary.get(), flags.path);
  const std::uint32_t no_bos = flags.no_bos ? std::uint32_t{QUERN_TOKENIZE_NO_BOS} : 0;
  const std::uint32_t no_special = flags.no_special ? std::uint32_t{QUERN_TOKENIZE_NO_SPECIAL} : 0;
  const std::uint32_t no_eos = flags.no_eos ? std::uint32_t{QUERN_TOKENIZE_NO_EOS} : 0;
  std::vector<std::int32_t> ids;
  if (flags.messages_file) {
    const Text rendered = render_chat(vocabulary.get(), chat.get(), flags.path);
    try {
      ids = tokenize_rendered(vocabulary.get(), rendered, no_bos | special_flag(flags.special_in_messages));
    } catch (const Failure& failure) {  // longer than the model's context: data, where nothing is computed
      if (failure.code() != exit_context) throw;
      throw Failure(exit_refused, failure.what());
    }
    text = std::string(view(rendered));
  } else {
    ids = tokenize(vocabulary.get(), text, no_bos | no_eos | no_special);
  }

  if (line.json) {
    write_json(tokenize_json(ids, flags.messages_file ? &text : nullptr));
    return exit_ok;
  }
  std::string out;
  for (const std::int32_t id : ids) out += (out.empty() ? "" : " ") + std::to_string(id);
  write_out(out + "\n");
  return exit_ok;
}

}  // namespace quern::cli
