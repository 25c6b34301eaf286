// NVRTC, opened at run time: CUDA C++ source to a cubin for one architecture. Needs no GPU and no driver.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace quern::cuda {

struct SourceFile {
  std::string_view name;  // "prelude.cuh", as #include names it
  std::string_view text;
};

class Nvrtc {
 public:
  /// Opens the first of `paths` that loads. Null where none does; `reason` then says why, of the first.
  static std::unique_ptr<Nvrtc> open(const std::vector<std::string>& paths, std::string& reason);
  ~Nvrtc();
  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;

  int major() const noexcept { return major_; }
  int minor() const noexcept { return minor_; }

  /// Compiles `source` for `architecture` ("sm_90a"). The cubin, or an empty string and the compiler's words in `log`.
  std::string compile(const SourceFile& source, const std::vector<SourceFile>& headers, const std::string& architecture,
                      const std::vector<std::string>& options, std::string& log) const;

 private:
  struct Functions;
  Nvrtc() = default;
  void* library_ = nullptr;
  std::unique_ptr<Functions> functions_;
  int major_ = 0, minor_ = 0;
};

}  // namespace quern::cuda
