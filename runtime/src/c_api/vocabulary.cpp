// Vocabulary functions of quern.h: tokenise, detokenise, render.
#include "boundary.hpp"
#include "handles.hpp"

#include "quern/models/directory.hpp"

using namespace quern;
using namespace quern::c_api;

namespace {

quern_text* rendered_text(const runtime::Vocabulary& vocabulary, const Chat& chat, std::uint32_t flags) {
  runtime::Prompt prompt = vocabulary.render(chat, (flags & QUERN_RENDER_NO_GENERATION_PROMPT) == 0);
  return new quern_text{std::move(prompt.text), std::move(prompt.foreign), std::move(prompt.refusal)};
}

}  // namespace

extern "C" {

quern_status quern_vocabulary_open(const char* path, quern_vocabulary** out) { return quern_vocabulary_open_with(path, nullptr, out); }

quern_status quern_vocabulary_open_with(const char* path, const quern_vocabulary_options* options, quern_vocabulary** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    require(path, "path");
    const auto o = whole(options, "quern_vocabulary_options");
    const gguf::File file = models::open_model(path);
    auto handle = std::make_unique<quern_vocabulary>();
    handle->owned = std::make_shared<runtime::Vocabulary>(file, text_or_empty(o.tokenizer_pre));
    handle->vocabulary = handle->owned.get();
    *out = handle.release();
  });
}

void quern_vocabulary_release(quern_vocabulary* vocabulary) {
  if (vocabulary != nullptr && vocabulary->owned != nullptr) delete vocabulary;
}

uint32_t quern_vocabulary_size(const quern_vocabulary* v) {
  return v == nullptr ? 0 : static_cast<uint32_t>(v->vocabulary->tokenizer().size());
}
int32_t quern_vocabulary_bos(const quern_vocabulary* v) { return v == nullptr ? -1 : v->vocabulary->tokenizer().bos().value_or(-1); }
int32_t quern_vocabulary_eos(const quern_vocabulary* v) { return v == nullptr ? -1 : v->vocabulary->tokenizer().eos().value_or(-1); }
int quern_vocabulary_is_end(const quern_vocabulary* v, int32_t token) {
  return v != nullptr && token >= 0 && token < v->vocabulary->tokenizer().size() && v->vocabulary->tokenizer().is_end(token) ? 1 : 0;
}
const char* quern_vocabulary_warning(const quern_vocabulary* v) { return v == nullptr ? "" : v->vocabulary->warning().c_str(); }
const char* quern_vocabulary_chat_template(const quern_vocabulary* v) {
  return v == nullptr || !v->vocabulary->template_source() ? nullptr : v->vocabulary->template_source()->c_str();
}

quern_status quern_vocabulary_set_template_seconds(const quern_vocabulary* vocabulary, double seconds) {
  return guarded<Needs::text>([&] {
    require(vocabulary, "vocabulary");
    if (!(seconds > 0)) throw Error(QUERN_INVALID_ARGUMENT, concat("template_seconds is ", seconds, "; it takes a number above 0"));
    vocabulary->vocabulary->set_template_seconds(seconds);
  });
}

quern_status quern_tokenize(const quern_vocabulary* vocabulary, const char* text, uint64_t text_size, uint32_t flags, int32_t* ids,
                            uint64_t capacity, uint64_t* count) {
  return guarded<Needs::text>([&] {
    require(vocabulary, "vocabulary");
    if (text_size > 0) require(text, "text");
    check_flags(flags, QUERN_TOKENIZE_NO_BOS | QUERN_TOKENIZE_NO_SPECIAL | QUERN_TOKENIZE_NO_EOS, "quern_tokenize");
    EncodeOptions options;
    if ((flags & QUERN_TOKENIZE_NO_BOS) != 0) options.add_bos = false;
    if ((flags & QUERN_TOKENIZE_NO_EOS) != 0) options.add_eos = false;
    options.parse_special = (flags & QUERN_TOKENIZE_NO_SPECIAL) == 0;
    std::vector<std::int32_t> found;
    if (text_size > 0) found = vocabulary->vocabulary->tokenizer().encode({text, static_cast<std::size_t>(text_size)}, options);
    give_list(found.data(), found.size(), ids, capacity, count);
  });
}

quern_status quern_detokenize(const quern_vocabulary* vocabulary, const int32_t* ids, uint64_t count, uint32_t flags, char* buffer,
                              uint64_t capacity, uint64_t* needed) {
  return guarded<Needs::text>([&] {
    require(vocabulary, "vocabulary");
    if (count > 0) require(ids, "ids");
    check_flags(flags, QUERN_DETOKENIZE_SPECIAL, "quern_detokenize");
    const bool skip_special = (flags & QUERN_DETOKENIZE_SPECIAL) == 0;
    const std::string bytes = vocabulary->vocabulary->tokenizer().decode_bytes({ids, static_cast<std::size_t>(count)}, skip_special);
    give_list(bytes.data(), bytes.size(), buffer, capacity, needed);
  });
}

quern_status quern_token_bytes(const quern_vocabulary* vocabulary, int32_t token, const char** bytes, uint64_t* size) {
  return guarded<Needs::text>([&] {
    require(vocabulary, "vocabulary");
    require(bytes, "bytes");
    require(size, "size");
    const TokenBytes& found = vocabulary->vocabulary->bytes_of(token);
    *bytes = found.bytes.c_str();
    *size = found.bytes.size();
  });
}

quern_status quern_render_chat(const quern_vocabulary* vocabulary, const quern_message* messages, uint64_t count, uint32_t flags,
                               quern_text** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    require(vocabulary, "vocabulary");
    if (count > 0) require(messages, "messages");
    check_flags(flags, QUERN_RENDER_NO_GENERATION_PROMPT, "quern_render_chat");
    std::vector<Message> list;
    for (std::uint64_t i = 0; i < count; ++i) {
      const quern_message message = whole_at(messages, i, "quern_message");
      require(message.role, "a message's role");
      require(message.content, "a message's content");
      list.push_back({message.role, message.content_size == 0
                                        ? std::string(message.content)
                                        : std::string(message.content, static_cast<std::size_t>(message.content_size))});
    }
    *out = rendered_text(*vocabulary->vocabulary, chat_of(list), flags);
  });
}

quern_status quern_chat_from_json(const char* json, uint64_t size, quern_chat** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    if (size > 0) require(json, "json");
    *out = new quern_chat{parse_chat({size > 0 ? json : "", static_cast<std::size_t>(size)})};
  });
}

void quern_chat_release(quern_chat* chat) { delete chat; }

quern_status quern_chat_render(const quern_vocabulary* vocabulary, const quern_chat* chat, uint32_t flags, quern_text** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    require(vocabulary, "vocabulary");
    require(chat, "chat");
    check_flags(flags, QUERN_RENDER_NO_GENERATION_PROMPT, "quern_chat_render");
    *out = rendered_text(*vocabulary->vocabulary, chat->chat, flags);
  });
}

quern_status quern_tokenize_chat(const quern_vocabulary* vocabulary, const char* rendered, uint64_t rendered_size, uint32_t flags,
                                 int32_t* ids, uint64_t capacity, uint64_t* count) {
  return guarded<Needs::text>([&] {
    require(vocabulary, "vocabulary");
    if (rendered_size > 0) require(rendered, "rendered");
    check_flags(flags, QUERN_TOKENIZE_NO_BOS, "quern_tokenize_chat");
    const std::vector<std::int32_t> found =
        vocabulary->vocabulary->encode_chat({rendered_size > 0 ? rendered : "", rendered_size}, {}, (flags & QUERN_TOKENIZE_NO_BOS) != 0);
    give_list(found.data(), found.size(), ids, capacity, count);
  });
}

quern_status quern_tokenize_rendered(const quern_vocabulary* vocabulary, const quern_text* rendered, uint32_t flags, int32_t* ids,
                                     uint64_t capacity, uint64_t* count) {
  return guarded<Needs::text>([&] {
    require(vocabulary, "vocabulary");
    require(rendered, "rendered");
    check_flags(flags, QUERN_TOKENIZE_NO_BOS | QUERN_TOKENIZE_SPECIAL_IN_MESSAGES, "quern_tokenize_rendered");
    if (!rendered->foreign)
      throw Error(QUERN_INVALID_ARGUMENT,
                  "quern_tokenize_rendered: the text is not one of quern_render_chat or quern_chat_render; "
                  "quern_tokenize takes other texts");
    if (!rendered->refusal.empty()) throw Error(QUERN_UNSUPPORTED, rendered->refusal);
    std::span<const TextRange> foreign = *rendered->foreign;
    if ((flags & QUERN_TOKENIZE_SPECIAL_IN_MESSAGES) != 0) foreign = {};
    const std::vector<std::int32_t> found =
        vocabulary->vocabulary->encode_chat(rendered->text, foreign, (flags & QUERN_TOKENIZE_NO_BOS) != 0);
    give_list(found.data(), found.size(), ids, capacity, count);
  });
}

}  // extern "C"
