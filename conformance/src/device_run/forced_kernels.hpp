// A case under each kernel that the plugin has for it: by family, as the user's option, and a node case by name, as the compiler's.
// Kernels that compute several nodes are reached by the families alone: no node has their names.
#pragma once

#include "device_run/case_run.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace quern::conformance {

/// Keeps one open device a family, each of a plugin handle of its own. One thread.
class ForcedKernels {
 public:
  /// Opens the device under test with the plugin's option force_kernel set.
  using Open = std::function<std::shared_ptr<loader::Device>(const std::string& force_kernel)>;
  explicit ForcedKernels(Open open) : open_(std::move(open)) {}

  /// The modes of run_case or run_graph, free; then under each family that a node of it has; then, of a node case, under each kernel
  /// name that any of these plans told. Where a family leads to kernels that ran already, its modes are left out. Failed are: a kernel
  /// that does not exist and is accepted, a name that a plan told and that no mode accepts, and a plan that names another kernel than
  /// the one forced [C29].
  std::vector<ModeResult> run(const loader::Device& device, const Case& c, const CaseData& data);

 private:
  std::vector<ModeResult> run_node(const loader::Device& device, const Case& c, const CaseData& data);
  std::vector<ModeResult> run_whole_graph(const loader::Device& device, const Case& c, const CaseData& data);
  /// The families that this plugin has for an op, `graph` being one node of it: those words of its refusal that it accepts.
  const std::vector<std::string>& families(const loader::Device& device, std::uint32_t op, const quern_graph* graph);
  loader::Device& device_of(const std::string& family);
  void run_by_name(const loader::Device& device, const Case& c, const CaseData& data, const std::string& name,
                   std::vector<ModeResult>& results);

  Open open_;
  std::map<std::string, std::shared_ptr<loader::Device>> devices_;
  std::map<std::uint32_t, std::vector<std::string>> families_;  // by op
  std::string accepted_nonsense_;
};

}  // namespace quern::conformance
