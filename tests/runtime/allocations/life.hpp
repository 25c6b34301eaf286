// A life of calls, in each of which an allocation may fail.
#pragma once

#include "failing_allocator.hpp"

#include "quern.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace quern::test::allocations {

/// What the lives are about.
struct Subject {
  std::string model, plugins, backend = "cpu";
  std::string cache;        // a folder of the test's own
  std::string hub;          // a cache of the hub's clients
  std::string macro_model;  // the model's file with another chat template
};

inline constexpr const char* url_model = "https://example.org/m-Q4_0.gguf";

/// Fills the folders, and writes the model with the other template.
bool make_subject(Subject& subject);

/// What a life made, for comparison.
struct Results {
  std::vector<std::int32_t> ids;
  std::vector<float> embedding, product;
  std::vector<double> losses;  // of a training
  std::vector<char> texts;     // of the readers
  bool operator==(const Results&) const = default;
};

/// One life. Calls that fail are made once more with every allocation granted.
class Life {
 public:
  quern_status first_failure = QUERN_OK;
  std::string trouble;  // what must not be; empty if nothing
  Results results;

  explicit Life(const Subject& subject) : subject_(subject) {}
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;
  virtual ~Life() = default;

  void run() {
    counting = true;
    live_all();
    counting = false;
    clean_up();
  }

 protected:
  /// With counting, but for what is the test's own.
  virtual void live_all() = 0;
  /// Without counting.
  virtual void clean_up() {}
  /// Whether a status that is none of memory's is one of its failures all the same.
  virtual bool is_of_memory(quern_status) const { return false; }

  /// True if the call succeeded, now or when made again.
  template <typename Call>
  bool step(const char* name, const Call& call) {
    const quern_status status = call();
    if (status == QUERN_OK) return true;
    counting = false;
    note(name, status);
    const quern_status again = call();
    counting = true;
    if (again == QUERN_OK) return true;
    say(std::string(name) + " failed again, with enough memory: " + quern_status_name(again) + ": " + quern_last_error());
    return false;
  }
  /// A call that makes a text, which is kept for comparison if it says the same each time.
  template <typename Call>
  void text_of(const char* name, const Call& call, bool constant = true) {
    quern_text* text = nullptr;
    if (step(name, [&] { return call(&text); }) && constant) {
      counting = false;
      results.texts.insert(results.texts.end(), quern_text_data(text), quern_text_data(text) + quern_text_size(text));
      counting = true;
    }
    quern_text_release(text);
  }
  void say(const std::string& text) {
    if (trouble.empty()) trouble = text;
  }

  /// Options of a runtime with the plugin alone.
  quern_runtime_options runtime_options() const;
  /// A runtime whose plugin is ready; null where none could be made.
  quern_runtime* ready_runtime();

  const Subject& subject_;

 private:
  void note(const char* name, quern_status status);
};

std::unique_ptr<Life> life_of_sessions(const Subject& subject);
std::unique_ptr<Life> life_of_readers(const Subject& subject);
std::unique_ptr<Life> life_of_training(const Subject& subject);
std::unique_ptr<Life> life_of_full_training(const Subject& subject);

}  // namespace quern::test::allocations
