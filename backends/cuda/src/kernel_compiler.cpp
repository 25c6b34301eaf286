// See kernel_compiler.hpp.
#include "kernel_compiler.hpp"

#include "compile_options.hpp"
#include "error.hpp"
#include "images.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

namespace quern::cuda {
namespace {

constexpr std::string_view unit_ending = ".cu";
/// How long a kernel that another process compiles is waited for: that process may be stopped. A unit takes some 10 s of a busy processor.
constexpr std::chrono::seconds patience{60};

std::string_view text_of(const Source& source) { return {source.data, source.bytes}; }

}  // namespace

std::vector<std::string> kernel_units() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kernel_source_count; ++i)
    if (const std::string_view name = kernel_sources[i].name; name.ends_with(unit_ending))
      names.emplace_back(name.substr(0, name.size() - unit_ending.size()));
  return names;
}

KernelCompiler::KernelCompiler(std::string architecture, const std::string& cache_directory, std::vector<std::string> soon,
                               unsigned threads, quern_status without_compiler)
    : architecture_(std::move(architecture)), cache_(cache_directory), soon_(std::move(soon)) {
  std::string reason;
  nvrtc_ = Nvrtc::open({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}, reason);
  if (nvrtc_ == nullptr)
    throw Failure(without_compiler,
                  concat("no kernels for ", architecture_, " are built in, and the compiler for others, NVRTC, is missing (", reason, ")"),
                  6);
  common_key_ = concat(architecture_, "\n", nvrtc_->major(), ".", nvrtc_->minor(), "\n");
  for (const std::string& option : compile_options()) common_key_ += option + "\n";
  for (std::size_t i = 0; i < kernel_source_count; ++i) {
    if (kernel_sources[i].name.ends_with(unit_ending)) continue;
    headers_.push_back({kernel_sources[i].name, text_of(kernel_sources[i])});
    common_key_ += std::string(text_of(kernel_sources[i]));
  }
  for (const std::string& name : kernel_units()) units_[name];
  std::erase_if(soon_, [&](const std::string& name) { return !units_.contains(name); });
  const std::size_t count = std::min<std::size_t>(soon_.size(), std::max(1u, threads));
  try {
    threads_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {  // no more threads: what they leave is compiled when it is wanted
  } catch (const std::bad_alloc&) {}
}

KernelCompiler::~KernelCompiler() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  threads_.clear();
}

void KernelCompiler::work() {
  std::unique_lock lock(mutex_);
  while (!ending_ && next_ < soon_.size()) {
    const std::string& name = soon_[next_++];
    if (Unit& unit = units_.at(name); !unit.begun) make(name, unit, lock, Others::skip);
  }
}

/// The unit's cubin, kept or compiled; empty with the compiler's words in `log`. False: another process compiles it, and is not waited for.
bool KernelCompiler::compile(const std::string& name, std::string& cubin, std::string& log, Others others) const {
  std::string_view text;
  for (std::size_t s = 0; s < kernel_source_count; ++s)
    if (kernel_sources[s].name == name + std::string(unit_ending)) text = text_of(kernel_sources[s]);
  const std::string key = common_key_ + std::string(text);
  const auto until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    if (cubin = cache_.find(name, key); !cubin.empty()) return true;
    std::optional<KernelCache::Place> place = cache_.take(name, key);
    if (!place && others == Others::skip) return false;
    const bool ours = place || std::chrono::steady_clock::now() >= until;
    if (!ours) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    // Whoever had the place before may have kept it.
    if (cubin = cache_.find(name, key); !cubin.empty()) return true;
    cubin = nvrtc_->compile({name + std::string(unit_ending), text}, headers_, architecture_, compile_options(), log);
    if (place && !cubin.empty()) KernelCache::keep(std::move(*place), key, cubin);
    return true;
  }
}

/// Compiles without the lock. What another process compiles is as if it was not begun here.
void KernelCompiler::make(const std::string& name, Unit& unit, std::unique_lock<std::mutex>& lock, Others others) {
  unit.begun = true;
  lock.unlock();
  std::string cubin, log;
  bool done = true;
  try {
    done = compile(name, cubin, log, others);
  } catch (const std::exception& error) {  // no memory: whoever wants the unit is told
    cubin.clear();
    try {
      log = error.what();
    } catch (const std::bad_alloc&) { log.clear(); }
  }
  lock.lock();
  unit.cubin = std::move(cubin);
  unit.log = std::move(log);
  unit.begun = unit.done = done;
  finished_.notify_all();
}

std::string KernelCompiler::cubin(const std::string& name) {
  std::unique_lock lock(mutex_);
  const auto found = units_.find(name);
  if (found == units_.end()) throw Failure(QUERN_INTERNAL, concat("there is no kernel unit '", name, "'"));
  Unit& unit = found->second;
  while (!unit.done) {
    if (!unit.begun) make(name, unit, lock, Others::await);
    else finished_.wait(lock, [&] { return unit.done || !unit.begun; });
  }
  if (unit.cubin.empty())
    throw Failure(QUERN_ARCH_NOT_BUILT, concat("kernels '", name, "' do not compile for ", architecture_, ": ", unit.log.substr(0, 400)));
  return std::move(unit.cubin);
}

}  // namespace quern::cuda
