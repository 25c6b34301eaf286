// Which kernels of a plugin the cases of a journal reached, and which of those that its file names they did not.
//
// A plugin tells a kernel's name only in the plan that uses it [C29]. That others exist is read from the strings of its file: words
// of two or more parts ("matmul.q4_0.avx2") that begin as an op or a reached kernel does and end as a reached kernel does. A name
// that a plugin puts together at run time is not found this way.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace quern::conformance {

struct KernelCoverage {
  std::string target, path;                    // "cpu:0", the plugin's file
  std::map<std::string, std::size_t> reached;  // kernel -> cases
  std::set<std::string> unreached;             // named in the file, in no plan
};

/// One a target. Throws UsageError for a file that is no journal.
std::vector<KernelCoverage> kernel_coverage(const std::string& journal);

/// Kernel-like words of a plugin's file, given some that are kernels.
std::set<std::string> kernel_words(const std::string& file_contents, const std::map<std::string, std::size_t>& reached);

std::string coverage_text(const KernelCoverage& coverage, bool verbose);

}  // namespace quern::conformance
