// See kernels.hpp.
#include "kernels.hpp"

#include "compile_options.hpp"
#include "error.hpp"
#include "images.hpp"
#include "kernel_cache.hpp"
#include "nvrtc.hpp"

#include <atomic>
#include <thread>

namespace quern::cuda {
namespace {

const Image* built_in(std::string_view unit, const std::string& architecture) {
  for (std::size_t i = 0; i < built_in_image_count; ++i)
    if (built_in_images[i].unit == unit && built_in_images[i].architecture == architecture) return &built_in_images[i];
  return nullptr;
}

bool is_unit(std::string_view name) { return name.size() > 3 && name.substr(name.size() - 3) == ".cu"; }

std::vector<std::string> units() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kernel_source_count; ++i)
    if (is_unit(kernel_sources[i].name)) names.emplace_back(kernel_sources[i].name.substr(0, kernel_sources[i].name.size() - 3));
  return names;
}

std::string_view text_of(const Source& source) { return {source.data, source.bytes}; }

/// Compiles all units in parallel, or takes them from the cache. The result is in the order of `names`.
std::vector<std::string> compile(const std::vector<std::string>& names, const KernelOrigin& origin, std::string& how) {
  std::string reason;
  const auto nvrtc = Nvrtc::open({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}, reason);
  const std::string architecture = architecture_name(origin.major, origin.minor);
  if (nvrtc == nullptr) {
    throw Failure(origin.force_jit ? QUERN_DEPENDENCY_MISSING : QUERN_ARCH_NOT_BUILT,
                  concat("no kernels for ", architecture,
                         " are built in, and the compiler for others, NVRTC, is missing (", reason, ")"),
                  6);
  }
  std::vector<SourceFile> headers;
  for (std::size_t i = 0; i < kernel_source_count; ++i)
    if (!is_unit(kernel_sources[i].name)) headers.push_back({kernel_sources[i].name, text_of(kernel_sources[i])});
  std::string common = concat(architecture, "\n", nvrtc->major(), ".", nvrtc->minor(), "\n");
  for (const std::string& option : compile_options()) common += option + "\n";
  for (const SourceFile& header : headers) common += std::string(header.text);

  std::vector<std::string> cubins(names.size()), logs(names.size());
  std::atomic<std::size_t> next{0}, fresh{0};
  const KernelCache cache(origin.cache_directory);
  const auto work = [&] {
    for (std::size_t i = next++; i < names.size(); i = next++) {
      std::string_view text;
      for (std::size_t s = 0; s < kernel_source_count; ++s)
        if (kernel_sources[s].name == names[i] + ".cu") text = text_of(kernel_sources[s]);
      const std::string key = common + std::string(text);
      cubins[i] = cache.find(names[i], key);
      if (!cubins[i].empty()) continue;
      cubins[i] = nvrtc->compile({names[i] + ".cu", text}, headers, architecture, compile_options(), logs[i]);
      if (!cubins[i].empty()) cache.keep(names[i], key, cubins[i]);
      ++fresh;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 1;
       t < std::min<std::size_t>(names.size(), std::max(1u, std::thread::hardware_concurrency())); ++t)
    threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < names.size(); ++i)
    if (cubins[i].empty())
      throw Failure(QUERN_ARCH_NOT_BUILT, concat("kernels '", names[i], "' do not compile for ", architecture,
                                                 ": ", logs[i].substr(0, 400)));
  how = fresh == 0 ? concat("from the cache, for ", architecture)
                   : concat("compiled by NVRTC ", nvrtc->major(), ".", nvrtc->minor(), " for ", architecture);
  return cubins;
}

}  // namespace

std::string architecture_name(int major, int minor) { return concat("sm_", major, minor, major == 9 && minor == 0 ? "a" : ""); }

Kernels::Kernels(std::shared_ptr<const Driver> driver, const KernelOrigin& origin)
    : driver_(std::move(driver)), shared_limit_(origin.shared_limit) {
  std::vector<std::string> names = units();
  const std::string architecture = architecture_name(origin.major, origin.minor);
  bool all_built_in = !origin.force_jit;
  for (const std::string& name : names) all_built_in = all_built_in && built_in(name, architecture) != nullptr;
  if (!all_built_in && origin.probe_only) names = {"mailbox", "quantise", "weights"};
  std::vector<std::string> compiled;
  if (all_built_in) origin_ = "built in for " + architecture;
  else compiled = compile(names, origin, origin_);
  for (std::size_t i = 0; i < names.size(); ++i) {
    Module module = nullptr;
    const void* data = all_built_in ? static_cast<const void*>(built_in(names[i], architecture)->data) : compiled[i].data();
    driver_->check(driver_->cuModuleLoadData(&module, data), concat("loading kernels '", names[i], "'").c_str());
    modules_[names[i]] = module;
  }
}

Kernels::~Kernels() {
  for (const auto& [name, module] : modules_) driver_->cuModuleUnload(module);
}

Function Kernels::get(std::string_view unit, std::string_view name) {
  if (const auto found = functions_.find(name); found != functions_.end()) return found->second;
  const auto module = modules_.find(unit);
  if (module == modules_.end()) throw Failure(QUERN_INTERNAL, concat("there is no kernel unit '", std::string(unit), "'"));
  Function function = nullptr;
  driver_->check(driver_->cuModuleGetFunction(&function, module->second, std::string(name).c_str()),
                 concat("finding kernel '", std::string(name), "'").c_str());
  if (unit == "tiles" || unit == "stream" || unit == "gemm_dense" || unit == "attention_rows" || unit == "attention_pages" ||
      unit == "attention_dense" || unit == "attention_backward" || unit == "attention_any")  // they use what a multiprocessor has
    driver_->check(driver_->cuFuncSetAttribute(function, constant::function_max_dynamic_shared, shared_limit_),
                   concat("shared memory of kernel '", std::string(name), "'").c_str());
  functions_.emplace(std::string(name), function);
  return function;
}

}  // namespace quern::cuda
