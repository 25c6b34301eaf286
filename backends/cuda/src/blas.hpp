// cuBLASLt, opened at run time: 16-bit products with f32 sums. Declarations of our own, after the library's manual (12 and 13 alike).
#pragma once

#include "driver.hpp"
#include "kernels/params.hpp"

#include <array>
#include <map>
#include <span>

namespace quern::cuda {

class Blas {
 public:
  static constexpr std::uint64_t workspace_bytes = 32 << 20;

  static constexpr const char* libraries[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so",
                                              "/usr/local/cuda/lib64/libcublasLt.so"};

  /// The first of `names` that there is. Null and a reason where none is, or it lacks a symbol. Needs the card's context to be current.
  static std::unique_ptr<Blas> open(std::string& reason, std::span<const char* const> names = libraries);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  /// Enqueues the product; false where the library has no algorithm for it, and nothing was enqueued. `half`: operands are f16, else bf16.
  /// `workspace`: workspace_bytes that no other stream uses.
  bool product(const DenseParams& p, bool half, Stream stream, DevicePointer workspace);
  /// "13.0.2"
  std::string version() const;

 private:
  Blas() = default;
  using Status = int;
  using Handle = struct HandleTag*;
  using Description = struct DescriptionTag*;
  using Layout = struct LayoutTag*;
  using Preference = struct PreferenceTag*;
  struct Algorithm {
    std::uint64_t data[8];
  };
  struct Found {  // cublasLtMatmulHeuristicResult_t
    Algorithm algorithm;
    std::size_t workspace;
    Status state;
    float waves;
    int reserved[4];
  };
  /// A shape's descriptors and the algorithm that the library's heuristics name for it.
  struct Plan {
    Description description = nullptr;
    Layout w = nullptr, x = nullptr, y = nullptr;
    Algorithm algorithm{};
    bool usable = false;
  };
  struct Shape {
    std::array<int, 6> sizes;  // m, n, k; rows of y, x, w
    std::array<bool, 6> is;    // half; there are bias and c; y16; x and w turned
    auto operator<=>(const Shape&) const = default;
  };

  Plan& plan_for(const DenseParams& p, bool half);
  void drop(Plan& plan) noexcept;

  Status (*create_)(Handle*) = nullptr;
  Status (*destroy_)(Handle) = nullptr;
  std::size_t (*version_)() = nullptr;
  Status (*description_create_)(Description*, int, int) = nullptr;
  Status (*description_destroy_)(Description) = nullptr;
  Status (*description_set_)(Description, int, const void*, std::size_t) = nullptr;
  Status (*layout_create_)(Layout*, int, std::uint64_t, std::uint64_t, std::int64_t) = nullptr;
  Status (*layout_destroy_)(Layout) = nullptr;
  Status (*preference_create_)(Preference*) = nullptr;
  Status (*preference_destroy_)(Preference) = nullptr;
  Status (*preference_set_)(Preference, int, const void*, std::size_t) = nullptr;
  Status (*heuristic_)(Handle, Description, Layout, Layout, Layout, Layout, Preference, int, Found*, int*) = nullptr;
  Status (*matmul_)(Handle, Description, const void*, const void*, Layout, const void*, Layout, const void*, const void*, Layout, void*,
                    Layout, const Algorithm*, void*, std::size_t, Stream) = nullptr;
  Handle handle_ = nullptr;
  std::map<Shape, Plan> plans_;
};

}  // namespace quern::cuda
