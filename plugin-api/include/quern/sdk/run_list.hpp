// The runs of one submit: each is started behind the one before, and all have ended when submit returns. So the device goes from one
// to the next without waiting for the host.
//
// An Instance gives:
//   slot()                    below most_runs_under_way: instances are numbered in turn; of two with one number the later run waits
//                             for the earlier, so that what lies by slot (faults, small writes) is one run's at a time
//   start(run) -> bool        checked before; true: it is under way and finish() waits for it; false: it has ended. Throws Failure
//   finish(run, outcome)      fills faults. Throws Failure
//   op_of(node)
//
// Part of the plugin SDK; C++17, not part of the ABI.
#ifndef QUERN_SDK_RUN_LIST_HPP
#define QUERN_SDK_RUN_LIST_HPP

#include "quern/sdk/guard.hpp"
#include "quern/sdk/structs.hpp"

#include <cstddef>
#include <cstdint>
#include <new>

namespace quern {
namespace sdk {

inline constexpr std::uint32_t most_runs_under_way = 8;

/// Does what may throw for a run. What it throws goes to the run's status and to `error`, which may be null; false then.
template <class Instance, class Body>
bool told(const Instance& instance, quern_run_status& outcome, quern_error* error, const Body& body) noexcept {
  try {
    body();
    return true;
  } catch (const Failure& failure) {
    outcome.code = failure.code;
    outcome.rule = failure.rule;
    outcome.node = failure.node;
    if (failure.node != QUERN_NONE) outcome.op = instance.op_of(failure.node);
    set_error(error, failure);
  } catch (const std::bad_alloc&) {
    outcome.code = QUERN_HOST_OUT_OF_MEMORY;
    set_error(error, outcome.code, "the plugin ran out of host memory");
  } catch (const std::exception& exception) {
    outcome.code = QUERN_INTERNAL;
    set_error(error, outcome.code, exception.what());
  }
  return false;
}

template <class Instance>
class RunList {
 public:
  /// `error` gets the words of the last failure; may be null.
  explicit RunList(quern_error* error) noexcept : error_(error) {}
  RunList(const RunList&) = delete;
  RunList& operator=(const RunList&) = delete;
  /// Waits for what is under way.
  ~RunList() { finish(); }

  void start(Instance& instance, const quern_run& run) {
    for (std::size_t i = 0; i < count_; ++i)
      if (entries_[i].instance->slot() == instance.slot()) {
        finish();
        break;
      }
    const Entry entry{&instance, run};
    bool under_way = false;
    report(entry, [&](quern_run_status& outcome) {
      under_way = instance.start(run);
      if (!under_way) instance.finish(run, outcome);
      return !under_way;
    });
    if (under_way) entries_[count_++] = entry;
  }
  void finish() {
    for (std::size_t i = 0; i < count_; ++i)
      report(entries_[i], [&](quern_run_status& outcome) {
        entries_[i].instance->finish(entries_[i].run, outcome);
        return true;
      });
    count_ = 0;
  }

 private:
  struct Entry {
    Instance* instance = nullptr;
    quern_run run{};  // a list gives copies of its elements
  };

  /// `ended` tells whether the run has; how goes to its status.
  template <class Ended>
  void report(const Entry& entry, Ended ended) {
    quern_run_status outcome = made<quern_run_status>();
    outcome.node = QUERN_NONE;
    bool over = true;
    told(*entry.instance, outcome, error_, [&] { over = ended(outcome); });
    if (over && entry.run.status != nullptr) write(entry.run.status, outcome);
  }

  quern_error* error_;
  Entry entries_[most_runs_under_way];
  std::size_t count_ = 0;
};

}  // namespace sdk
}  // namespace quern

#endif
