// See kernels.hpp.
#include "kernels.hpp"

#include "error.hpp"
#include "images.hpp"

#include <algorithm>

namespace quern::cuda {
namespace {

const Image* built_in(std::string_view unit, const std::string& architecture) {
  for (std::size_t i = 0; i < built_in_image_count; ++i)
    if (built_in_images[i].unit == unit && built_in_images[i].architecture == architecture) return &built_in_images[i];
  return nullptr;
}

/// What a model's first steps take, those first that take longest to compile.
std::vector<std::string> units_of_models(int major) {
  std::vector<std::string> names;
  if (major >= 9) names = {"attention_pages_f16_128", "attention_pages_f16_64", "tiles", "stream"};
  else names = {"attention", "gemv"};
  for (const char* name : {"gemm_mma", "attention_rows", "attention_any", "activation", "elementwise", "sampling", "norm", "gemm_dense",
                           "rows", "wide", "kv", "rope", "weights", "quantise", "mailbox", "rings"})
    names.emplace_back(name);
  return names;
}

}  // namespace

std::string architecture_name(int major, int minor) { return concat("sm_", major, minor, major == 9 && minor == 0 ? "a" : ""); }

Kernels::Kernels(std::shared_ptr<const Driver> driver, const KernelOrigin& origin)
    : driver_(std::move(driver)), shared_limit_(origin.shared_limit) {
  const std::string architecture = architecture_name(origin.major, origin.minor);
  const std::vector<std::string> names = kernel_units();
  if (!origin.force_jit && std::ranges::all_of(names, [&](const std::string& name) { return built_in(name, architecture) != nullptr; })) {
    for (const std::string& name : names) load(name, built_in(name, architecture)->data);
    return;
  }
  if (origin.probe_only) allowed_ = {"mailbox", "quantise", "weights"};
  compiler_ =
      std::make_unique<KernelCompiler>(architecture, origin.cache_directory, origin.probe_only ? allowed_ : units_of_models(origin.major),
                                       origin.threads, origin.force_jit ? QUERN_DEPENDENCY_MISSING : QUERN_ARCH_NOT_BUILT);
}

Module Kernels::load(const std::string& unit, const void* cubin) {
  Module module = nullptr;
  driver_->check(driver_->cuModuleLoadData(&module, cubin), concat("loading kernels '", unit, "'").c_str());
  modules_[unit] = module;
  return module;
}

bool Kernels::has(const KernelName& kernel) const {
  if (compiler_ == nullptr) return modules_.contains(kernel.unit);
  return allowed_.empty() || std::ranges::find(allowed_, kernel.unit) != allowed_.end();
}

Kernels::~Kernels() {
  for (const auto& [name, module] : modules_) driver_->cuModuleUnload(module);
}

Kernels::Kernel Kernels::find(const KernelName& kernel_name) {
  const auto [unit, name] = kernel_name;
  Module module = nullptr;
  if (const auto loaded = modules_.find(unit); loaded != modules_.end()) module = loaded->second;
  else if (compiler_ != nullptr) module = load(std::string(unit), compiler_->cubin(std::string(unit)).data());
  else throw Failure(QUERN_INTERNAL, concat("there is no kernel unit '", std::string(unit), "'"));
  Kernel kernel;
  driver_->check(driver_->cuModuleGetFunction(&kernel.function, module, std::string(name).c_str()),
                 concat("finding kernel '", std::string(name), "'").c_str());
  driver_->check(driver_->cuFuncGetAttribute(&kernel.fixed_shared, constant::function_fixed_shared, kernel.function),
                 concat("asking for the shared memory of kernel '", std::string(name), "'").c_str());
  kernel.allowed = usual_shared - kernel.fixed_shared;
  return kernel;
}

Function Kernels::get(const KernelName& wanted, unsigned shared) {
  const std::string_view name = wanted.name;
  auto known = found_.find(name);
  if (known == found_.end()) known = found_.emplace(std::string(name), find(wanted)).first;
  Kernel& kernel = known->second;
  if (static_cast<std::int64_t>(shared) <= kernel.allowed) return kernel.function;
  if (static_cast<std::int64_t>(shared) > shared_limit_)
    throw Failure(QUERN_UNSUPPORTED, concat("kernel ", std::string(name), " asks for ", shared, " bytes of shared memory; a block has ",
                                            shared_limit_, " here"));
  // What the driver counts as declared may have its own share in it, which is no part of the limit: it has the last word.
  const int most = std::max(static_cast<int>(shared), shared_limit_ - kernel.fixed_shared);
  driver_->check(driver_->cuFuncSetAttribute(kernel.function, constant::function_max_dynamic_shared, most),
                 concat("shared memory of kernel '", std::string(name), "'").c_str());
  kernel.allowed = most;
  return kernel.function;
}

int Kernels::clusters_at_once(const KernelName& kernel, unsigned threads, unsigned shared, unsigned cluster) {
  Function function = get(kernel, shared);
  const auto [known, is_new] = clusters_.try_emplace({reinterpret_cast<std::uintptr_t>(function), threads, shared, cluster}, 0);
  if (!is_new) return known->second;
  LaunchAttribute attribute{};
  attribute.id = constant::launch_cluster;
  attribute.value.cluster = {cluster, 1, 1};
  LaunchConfig config{};
  config.grid_x = cluster;
  config.grid_y = config.grid_z = config.block_y = config.block_z = 1;
  config.block_x = threads;
  config.shared_bytes = shared;
  config.attributes = &attribute;
  config.attribute_count = 1;
  driver_->check(driver_->cuOccupancyMaxActiveClusters(&known->second, function, &config),
                 concat("clusters of kernel '", std::string(kernel.name), "'").c_str());
  return known->second;
}

}  // namespace quern::cuda
