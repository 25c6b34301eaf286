// What can be told of a Vulkan device without opening it, and whether the baseline kernels run on it.
#pragma once

#include "api.hpp"
#include "kernels.hpp"

#include <optional>
#include <span>

namespace quern::vulkan {

/// Bits of quirks.def.
enum Quirk : std::uint32_t { wait_sleeping = 1, short_loops = 2, groups_at_once = 4 };

/// What one multiplication of cooperative matrices takes: m x k times k x n.
struct MatrixShape {
  std::uint32_t m = 0, n = 0, k = 0;
};

/// Where the elements of matrices lie in the lanes of a subgroup (matrix_layout.hpp).
struct MatrixLayout {
  std::uint32_t rows = 0;           // of sums, of a lane; 0: not known, or none that the kernels take
  std::uint32_t rows_of_parts = 0;  // which of those each of a lane's components is of, 4 bits each
  std::uint32_t lanes = 0;          // bits of lanes that share their rows
  bool left_like_sums = false;      // a left matrix has its elements where sums have them
  bool by_fours =
      false;  // as gemm_rows.comp wants them: four lanes have rows g and g + 8 of left matrices and sums, and those columns of right ones
  std::uint64_t places = 0;  // memory: of each element of a right matrix (row * n + column) lane * 8 + component; 0 where lanes have not 8
};

struct CardFacts {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  std::uint32_t vendor = 0, driver_version = 0;
  VkDriverId driver = VkDriverId(0);
  std::string name, driver_name, architecture, pci_address;
  unsigned char uuid[16] = {}, driver_uuid[16] = {};
  std::uint32_t api_version = 0;
  std::string refusal;  // why the baseline does not run here: what it needs and what there is
  quern_status refusal_code = QUERN_OK;

  std::uint32_t subgroup = 0, subgroup_least = 0;  // the usual size; the smallest that the driver may choose
  std::uint32_t multiprocessors = 0;               // 0 unknown
  std::uint32_t persistent_groups = 0;  // workgroups of a dispatch that are at work at once and may wait for each other; 0: not known to be
  std::uint32_t shared_limit = 0, group_limit = 0;
  std::uint32_t grid_limit[3] = {};
  std::uint64_t max_allocation = 0, memory = 0;
  std::uint64_t max_buffer = 0;              // what is tried: allocations beyond max_allocation may succeed, and on NVIDIA's drivers do
  std::uint32_t family = 0;                  // of the queue that computes
  std::optional<std::uint32_t> copy_family;  // of queues that copy and do nothing else
  std::uint32_t memory_type = 0;             // of buffers
  std::uint32_t staging_type = 0;            // host memory that the processor caches
  std::uint32_t heap = 0;
  bool mapped = false;  // buffers can be written by the processor
  bool cached = false;  // and read at its speed
  bool float64 = false, memory_budget = false, integer_dot = false;
  bool shuffles = false;                                 // between lanes of a subgroup of one size, 8 and more
  bool keeps_denormals = false, keeps_specials = false;  // float controls that shaders may ask for
  MatrixShape matrices;                                  // of f16 with f32 sums, by a subgroup; 0: none that the kernels take
  bool by_matrices = false;                              // it was opened for the tier of matrices
  MatrixLayout layout;                                   // found when the device is opened for the tier of matrices
  std::uint32_t quirks = 0;

  /// The highest that it runs: matrices only with integer dot products, which the fused schedule needs.
  Tier tier() const noexcept { return !integer_dot ? Tier::baseline : matrices.m == 0 ? Tier::dot : Tier::matrices; }
  bool software() const noexcept { return type == VK_PHYSICAL_DEVICE_TYPE_CPU; }
};

/// The first family whose queues copy and do nothing else but bind sparse memory: those that have video or optical flow besides may be slow.
std::optional<std::uint32_t> transfer_family(std::span<const VkQueueFamilyProperties> families);

std::vector<CardFacts> list_cards(const Api& api);

}  // namespace quern::vulkan
