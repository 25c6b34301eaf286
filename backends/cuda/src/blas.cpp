// See blas.hpp.
#include "blas.hpp"

#include "error.hpp"

#include <dlfcn.h>

namespace quern::cuda {
namespace {

constexpr int compute_f32 = 68, real_f32 = 0, real_f16 = 2, real_bf16 = 14;
constexpr int description_transpose_a = 3, description_transpose_b = 4, description_epilogue = 7, description_bias = 8,
              preference_workspace = 1;
constexpr int transpose = 1;
constexpr std::uint32_t epilogue_bias = 4;
constexpr std::size_t most_plans = 512;  // shapes that are remembered: a prompt of a new length makes some new ones

const void* pointer(Address a) { return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(a)); }

}  // namespace

std::unique_ptr<Blas> Blas::open(std::string& reason, std::span<const char* const> names) {
  void* library = nullptr;
  for (const char* name : names)
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* words = dlerror();
    reason = concat("libcublasLt cannot be opened (", words == nullptr ? "no reason given" : words, ")");
    return nullptr;
  }
  std::unique_ptr<Blas> blas(new Blas);
  const char* missing = nullptr;
  const auto load = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) missing = name;
  };
  load(blas->create_, "cublasLtCreate");
  load(blas->destroy_, "cublasLtDestroy");
  load(blas->version_, "cublasLtGetVersion");
  load(blas->description_create_, "cublasLtMatmulDescCreate");
  load(blas->description_destroy_, "cublasLtMatmulDescDestroy");
  load(blas->description_set_, "cublasLtMatmulDescSetAttribute");
  load(blas->layout_create_, "cublasLtMatrixLayoutCreate");
  load(blas->layout_destroy_, "cublasLtMatrixLayoutDestroy");
  load(blas->preference_create_, "cublasLtMatmulPreferenceCreate");
  load(blas->preference_destroy_, "cublasLtMatmulPreferenceDestroy");
  load(blas->preference_set_, "cublasLtMatmulPreferenceSetAttribute");
  load(blas->heuristic_, "cublasLtMatmulAlgoGetHeuristic");
  load(blas->matmul_, "cublasLtMatmul");
  if (missing != nullptr) {
    reason = concat("libcublasLt has no ", missing);
    return nullptr;
  }
  if (const Status status = blas->create_(&blas->handle_); status != 0) {
    blas->handle_ = nullptr;
    reason = concat("cublasLtCreate failed (", status, ")");
    return nullptr;
  }
  return blas;
}

void Blas::drop(Plan& plan) noexcept {
  if (plan.description != nullptr) description_destroy_(plan.description);
  for (Layout layout : {plan.w, plan.x, plan.y})
    if (layout != nullptr) layout_destroy_(layout);
}

Blas::~Blas() {
  for (auto& [shape, plan] : plans_) drop(plan);
  if (handle_ != nullptr) destroy_(handle_);
}

std::string Blas::version() const {
  const std::size_t v = version_();
  return concat(v / 10000, ".", v / 100 % 100, ".", v % 100);
}

/// The library stores columns one after another: our rows are its columns, so W^T is its first operand and x its second.
Blas::Plan& Blas::plan_for(const DenseParams& p, bool half) {
  const Shape shape{{p.m, p.n, p.k, p.row, p.x.row, p.w.row}, {half, p.bias != 0, p.c != 0, p.y16 != 0, p.x.turned != 0, p.w.turned != 0}};
  if (const auto known = plans_.find(shape); known != plans_.end()) return known->second;
  if (plans_.size() >= most_plans) {
    for (auto& [old, plan] : plans_) drop(plan);
    plans_.clear();
  }
  Plan& plan = plans_[shape];
  const int type = half ? real_f16 : real_bf16;
  const auto u = [](int v) { return static_cast<std::uint64_t>(v); };
  const auto layout_of = [&](Layout* layout, const DenseOperand& o, int rows) {
    return layout_create_(layout, type, u(o.turned != 0 ? rows : p.k), u(o.turned != 0 ? p.k : rows), o.row) == 0;
  };
  Preference preference = nullptr;
  bool made = description_create_(&plan.description, compute_f32, real_f32) == 0 && layout_of(&plan.w, p.w, p.n) &&
              layout_of(&plan.x, p.x, p.m) && layout_create_(&plan.y, p.y16 != 0 ? type : real_f32, u(p.n), u(p.m), p.row) == 0 &&
              preference_create_(&preference) == 0;
  if (p.w.turned == 0) made = made && description_set_(plan.description, description_transpose_a, &transpose, sizeof transpose) == 0;
  if (p.x.turned != 0) made = made && description_set_(plan.description, description_transpose_b, &transpose, sizeof transpose) == 0;
  if (p.bias != 0) {
    const void* bias = pointer(p.bias);
    made = made && description_set_(plan.description, description_epilogue, &epilogue_bias, sizeof epilogue_bias) == 0 &&
           description_set_(plan.description, description_bias, &bias, sizeof bias) == 0;
  }
  const std::uint64_t workspace = workspace_bytes;
  made = made && preference_set_(preference, preference_workspace, &workspace, sizeof workspace) == 0;
  Found found{};
  int count = 0;
  plan.usable = made && heuristic_(handle_, plan.description, plan.w, plan.x, plan.y, plan.y, preference, 1, &found, &count) == 0 &&
                count > 0 && found.state == 0 && found.workspace <= workspace_bytes;
  plan.algorithm = found.algorithm;
  if (preference != nullptr) preference_destroy_(preference);
  return plan;
}

bool Blas::product(const DenseParams& p, bool half, Stream stream, DevicePointer workspace) {
  Plan& plan = plan_for(p, half);
  if (!plan.usable) return false;
  if (p.bias != 0) {
    const void* bias = pointer(p.bias);
    if (description_set_(plan.description, description_bias, &bias, sizeof bias) != 0) return false;
  }
  const float beta = p.c != 0 ? 1.0f : 0.0f;
  const Address c = p.c != 0 ? p.c : p.y;
  return matmul_(handle_, plan.description, &p.alpha, pointer(p.w.data), plan.w, pointer(p.x.data), plan.x, &beta, pointer(c), plan.y,
                 const_cast<void*>(pointer(p.y)), plan.y, &plan.algorithm, const_cast<void*>(pointer(workspace)), workspace_bytes,
                 stream) == 0;
}

}  // namespace quern::cuda
