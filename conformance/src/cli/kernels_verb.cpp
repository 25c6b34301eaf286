// kernels: which kernels of each plugin the cases of a journal reached.
#include "cli/verbs.hpp"
#include "cli/output.hpp"
#include "report/kernel_coverage.hpp"

namespace quern::conformance {

int kernels_verb(const Options& options) {
  std::size_t reached = 0;
  for (const KernelCoverage& coverage : kernel_coverage(options.journal)) {
    to_output() << coverage_text(coverage, options.verbose);
    reached += coverage.reached.size();
  }
  return reached == 0 ? 7 : 0;
}

}  // namespace quern::conformance
