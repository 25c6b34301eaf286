// See vocabulary.hpp.
#include "vocabulary.hpp"

#include "quern/graph/error.hpp"

#include <ctime>

namespace quern::runtime {

Vocabulary::Vocabulary(const gguf::File& file, std::string_view tokenizer_pre)
    : tokenizer_(tokenizer_from_gguf(file, tokenizer_pre)), file_name_(file.name()) {
  if (tokenizer_pre.empty()) warning_ = pre_tokenizer_warning(file);
  if (const auto source = file.find_string("tokenizer.chat_template")) source_ = std::string(*source);
  if (const auto architecture = file.find_string("general.architecture"))
    context_ = file.find_u64(concat(*architecture, ".context_length"));
  bytes_ = std::vector<MadeOnce<TokenBytes>>(static_cast<std::size_t>(tokenizer_->size()));
}

const TokenBytes& Vocabulary::bytes_of(std::int32_t token) const {
  if (token < 0 || token >= tokenizer_->size()) {
    throw Error(QUERN_INVALID_ARGUMENT, concat("token ", token, " is outside the vocabulary of ", tokenizer_->size()));
  }
  return bytes_[static_cast<std::size_t>(token)].get([&] { return tokenizer_->token_bytes(token); });
}

Prompt Vocabulary::render(const Chat& chat, bool add_generation_prompt) const {
  if (!source_ || source_->find_first_not_of(" \t\r\n") == std::string::npos) {
    throw Error(QUERN_UNSUPPORTED, concat(file_name_, source_ ? ": the file's chat template is empty" : ": the file has no chat template",
                                          " (key 'tokenizer.chat_template'); give the whole prompt as raw text instead"));
  }
  TemplateOptions options;
  options.add_generation_prompt = add_generation_prompt;
  options.limits.cpu_seconds = template_seconds_;
  if (const auto bos = tokenizer_->bos()) options.bos_token = std::string(tokenizer_->token_text(*bos));
  if (const auto eos = tokenizer_->eos()) options.eos_token = std::string(tokenizer_->token_text(*eos));
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  if (localtime_r(&now, &local) != nullptr) options.now = local;
  const ChatTemplate& parsed = template_.get([&] { return ChatTemplate::parse(*source_, file_name_, options.limits); });
  RenderedChat rendered = render_chat(parsed, chat, options);
  Prompt prompt{std::move(rendered.text), {}, std::move(rendered.refusal)};
  prompt.foreign.reserve(rendered.foreign.size());
  for (const ForeignRange& range : rendered.foreign) prompt.foreign.push_back({range.begin, range.end});
  return prompt;
}

std::vector<std::int32_t> Vocabulary::encode_chat(std::string_view rendered, std::span<const TextRange> foreign, bool no_bos) const {
  EncodeOptions options;
  options.add_bos = false;
  options.add_eos = false;
  options.most_ids = context_;
  std::vector<std::int32_t> ids = tokenizer_->encode(rendered, foreign, options);
  const std::optional<std::int32_t> bos = tokenizer_->bos();
  if (!no_bos && bos && tokenizer_->adds_bos() && (ids.empty() || ids.front() != *bos)) ids.insert(ids.begin(), *bos);
  return ids;
}

}  // namespace quern::runtime
