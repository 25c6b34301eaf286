// What is behind the opaque handles of quern.h.
#pragma once

#include "boundary.hpp"

#include "../evaluate.hpp"
#include "../generate.hpp"
#include "../model.hpp"
#include "../runtime.hpp"

#include "quern/graph/stack.hpp"
#include "quern.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

struct quern_text {
  std::string text;
  std::optional<std::vector<quern::TextRange>> foreign = std::nullopt;  // of a rendered chat alone
  std::string refusal = {};                                             // of a rendered chat that is no prompt: why
};

namespace quern::c_api {

/// Two loads on one runtime take turns. One in a callback does not wait: the load that it would wait for may be what called it.
class LoadTurns {
 public:
  /// Throws Error(QUERN_BUSY).
  void take();
  void give_up() noexcept;

 private:
  std::mutex mutex_;
  std::condition_variable free_;
  bool taken_ = false;
};

}  // namespace quern::c_api

struct quern_runtime : quern::c_api::Owner {
  std::shared_ptr<quern::runtime::Runtime> runtime;
  quern::c_api::LoadTurns loads;
};

struct quern_vocabulary {
  std::shared_ptr<const quern::runtime::Vocabulary> owned;  // null inside a model
  const quern::runtime::Vocabulary* vocabulary = nullptr;
};

struct quern_chat {
  quern::Chat chat;
};

struct quern_model : quern::c_api::Owner {
  std::shared_ptr<const quern::runtime::Model> model;
  quern_vocabulary vocabulary;
  std::string backend, device, description, kernels;  // of the device with most nodes
};

struct quern_session : quern::c_api::Owner {
  std::shared_ptr<const quern::runtime::Model> model;
  std::unique_ptr<quern::runtime::Engine> engine;
  quern::runtime::GenerationTotals totals;
  std::uint64_t context = 0;
  std::uint32_t sequences = 1;
  std::atomic<bool> busy{false};
};

struct quern_adapter : quern::c_api::Owner {
  std::shared_ptr<const quern::runtime::LoadedAdapter> adapter;
};

struct quern_generation {
  std::vector<quern::runtime::Answer> answers;
  std::vector<std::vector<std::vector<std::int32_t>>> top_ids;
  std::vector<std::vector<std::vector<float>>> top_logprobs;
};

struct quern_evaluation {
  quern::runtime::Evaluation evaluation;
};

namespace quern::c_api {

/// A handle that a call needs: not null, and made in this process.
inline void require(const quern_runtime* runtime, const char* what) {
  require(static_cast<const void*>(runtime), what);
  runtime->require_same_process(what);
}
inline void require(const quern_model* model, const char* what) {
  require(static_cast<const void*>(model), what);
  model->require_same_process(what);
}
inline void require(const quern_session* session, const char* what) {
  require(static_cast<const void*>(session), what);
  session->require_same_process(what);
}

inline void require(const quern_adapter* adapter, const char* what) {
  require(static_cast<const void*>(adapter), what);
  adapter->require_same_process(what);
}

/// A call that comes to the drivers of these devices. Throws Error(QUERN_HOST_OUT_OF_MEMORY) on a small stack.
inline void require_driver_stack(const std::vector<std::shared_ptr<runtime::MemoryBudget>>& devices) {
  for (const auto& device : devices) {
    if (!device->host_memory()) require_stack(stack_for_a_driver, "a call into the driver of this device");
  }
}

/// Holds a session for one call that computes; a second call at the same time is refused.
class Turn {
 public:
  explicit Turn(quern_session* session) : session_(session) {
    require_driver_stack(session->model->devices());
    if (session_->busy.exchange(true)) throw Error(QUERN_BUSY, "the session is in use by another call");
  }
  ~Turn() { session_->busy = false; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  quern_session* session_;
};

/// Throws Error(QUERN_INVALID_ARGUMENT) for a sequence that the session does not have.
inline void check_sequence(const quern_session* session, std::uint32_t sequence, const char* what) {
  if (sequence >= session->sequences) {
    throw Error(QUERN_INVALID_ARGUMENT,
                concat(what, " is ", sequence, " but the session has ", session->sequences, " (0 to ", session->sequences - 1, ")"));
  }
}

/// Of a list of options. Throws Error(QUERN_INVALID_ARGUMENT).
std::vector<std::string> adapter_paths(const char* const* paths, std::uint64_t count);
/// "avx2" of kernels named "matmul.q4_1.avx2", ...: the ending that most nodes ran with.
std::string kernel_set(const quern::runtime::DeviceShare& share);
/// "cpu" of "cpu:0".
std::string backend_of(const std::string& label);

}  // namespace quern::c_api
