// See run_cases.hpp.
#include "worker/run_cases.hpp"

#include "worker/dealing.hpp"
#include "worker/lane.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace quern::conformance {
void run_cases(const RunPlan& plan, Journal& journal, const OnResult& on_result) {
  const std::size_t jobs = std::min<std::size_t>(plan.jobs, plan.cases.size());
  Dealer dealer(plan.cases, jobs);
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::exception_ptr failure;
  HostMemory memory(plan.memory_limit);

  const auto work = [&] {
    try {
      Lane lane(plan, journal, memory);
      std::pair<std::size_t, std::size_t> part;
      while (!stop) {
        if (part.first == part.second) part = dealer.take();
        if (part.first == part.second) break;
        const std::size_t i = part.first++;
        const Case& c = *plan.cases[i];
        std::vector<bool> wanted(plan.targets.size());
        std::vector<CaseResult> results(plan.targets.size());
        bool any = false;
        for (std::size_t t = 0; t < plan.targets.size(); ++t) {
          const auto known = journal.finished().find({c.name, plan.targets[t].label});
          wanted[t] = known == journal.finished().end();
          any = any || wanted[t];
          if (!wanted[t]) results[t] = known->second;
        }
        if (any) {
          std::vector<CaseResult> ran = lane.run(c, wanted);
          for (std::size_t t = 0; t < ran.size(); ++t)
            if (wanted[t]) results[t] = std::move(ran[t]);
        }
        const std::lock_guard lock(mutex);
        for (std::size_t t = 0; t < results.size(); ++t) {
          on_result(c, t, results[t]);
          if (plan.stop_at_failure && results[t].verdict.status > Status::waived) stop = true;
        }
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      stop = true;
    }
  };

  std::vector<std::thread> lanes;
  for (std::size_t j = 0; j < jobs; ++j) lanes.emplace_back(work);
  for (std::thread& lane : lanes) lane.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace quern::conformance
