#include "resources.hpp"

#include "support/processor_time.hpp"

#include <fstream>
#include <string>

namespace quern::test {
namespace {

std::uint64_t status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != field + ":") continue;
    std::uint64_t kib = 0;
    status >> kib;
    return kib * 1024;
  }
  return 0;
}

}  // namespace

Cost cost_of(const std::function<void()>& work) {
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak becomes what is resident now
  const std::uint64_t before = status_bytes("VmHWM");
  const double seconds = processor_seconds_of(work);
  const std::uint64_t after = status_bytes("VmHWM");
  return {after > before ? after - before : 0, seconds};
}

std::uint64_t resident_file_bytes() { return status_bytes("RssFile") + status_bytes("RssShmem"); }

}  // namespace quern::test
