// A chat that remembers, in C++17: c++ -std=c++17 chat.cpp $(pkg-config --cflags --libs quern) && ./a.out model.gguf
// Each line is a turn. What the session holds already is not computed again, so a turn costs its own tokens alone.
#include <quern.h>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

template <auto release>
struct Releaser {
  template <typename T>
  void operator()(T* handle) const noexcept {
    release(handle);
  }
};
using Runtime = std::unique_ptr<quern_runtime, Releaser<quern_runtime_release>>;
using Model = std::unique_ptr<quern_model, Releaser<quern_model_release>>;
using Session = std::unique_ptr<quern_session, Releaser<quern_session_release>>;
using Generation = std::unique_ptr<quern_generation, Releaser<quern_generation_release>>;
using Text = std::unique_ptr<quern_text, Releaser<quern_text_release>>;

void check(quern_status status) {
  if (status != QUERN_OK) throw std::runtime_error(std::string(quern_status_name(status)) + ": " + quern_last_error());
}

/// Calls function(arguments..., &handle) and owns what it made.
template <typename Owner, typename Function, typename... Arguments>
Owner make(Function function, Arguments... arguments) {
  typename Owner::pointer handle = nullptr;
  check(function(arguments..., &handle));
  return Owner(handle);
}

struct Turn {
  std::string role, text;
};

std::vector<std::int32_t> ids_of(const quern_vocabulary* vocabulary, const std::vector<Turn>& turns) {
  std::vector<quern_message> messages;
  for (const Turn& turn : turns) messages.push_back({sizeof(quern_message), turn.role.c_str(), turn.text.c_str(), turn.text.size()});
  const quern_message* first = messages.data();
  const auto rendered = make<Text>(quern_render_chat, vocabulary, first, std::uint64_t{messages.size()}, std::uint32_t{0});
  std::vector<std::int32_t> ids(quern_text_size(rendered.get()) + 8);
  std::uint64_t count = 0;
  check(quern_tokenize_rendered(vocabulary, rendered.get(), 0, ids.data(), ids.size(), &count));
  ids.resize(count);
  return ids;
}

int print_piece(void*, const quern_token_event* event) {
  std::cout.write(event->piece, static_cast<std::streamsize>(event->piece_size)).flush();
  return std::cout ? 0 : 1;
}

std::string answer(quern_session* session, const std::vector<std::int32_t>& prompt) {
  quern_request request{};
  request.struct_size = sizeof request;
  request.prompt = prompt.data();
  request.prompt_count = prompt.size();
  request.max_tokens = 256;
  request.on_token = print_piece;
  const quern_request* requests = &request;
  const auto generation = make<Generation>(quern_generate, session, requests, std::uint64_t{1});
  quern_answer_info info{};
  info.struct_size = sizeof info;
  check(quern_generation_answer(generation.get(), 0, &info));
  return {info.text, static_cast<std::size_t>(info.text_size)};
}

}  // namespace

int main(int argc, char** argv) try {
  const char* path = argc > 1 ? argv[1] : "model.gguf";
  const quern_runtime_options* defaults = nullptr;
  const auto runtime = make<Runtime>(quern_runtime_create, defaults);
  const quern_model_options* model_defaults = nullptr;
  const auto model = make<Model>(quern_model_load, runtime.get(), path, model_defaults);
  const quern_session_options* session_defaults = nullptr;
  const auto session = make<Session>(quern_session_create, model.get(), session_defaults);
  std::vector<Turn> turns;
  for (std::string line; std::cout << "> " << std::flush, std::getline(std::cin, line);) {
    turns.push_back({"user", line});
    turns.push_back({"assistant", answer(session.get(), ids_of(quern_model_vocabulary(model.get()), turns))});
    std::cout << "\n";
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
