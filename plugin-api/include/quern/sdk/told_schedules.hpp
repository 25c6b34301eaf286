// What a plan says of its schedules in plan_info: the kernels of each, the numbers of rows that it serves, and the nodes that stand alone
// with their reasons. It owns the texts and lists behind the structs; they stay where they are when it is moved.
//
//   told.schedule();                                   then its kernels and nodes alone
//   told.kernel("gemv.cuda", "", {3, 4, 5}, 3);
//   told.alone({7, "product", "its weights are f32"});
//   told.serves(0, symbol, QUERN_ROWS_ANY, 1, 8);      a schedule may serve several ranges
//
// A device plugin's Plan has one as its member `told`; synchronous.hpp hands on its list.
// Part of the plugin SDK; C++17, not part of the ABI.
#ifndef QUERN_SDK_TOLD_SCHEDULES_HPP
#define QUERN_SDK_TOLD_SCHEDULES_HPP

#include "quern/sdk/structs.hpp"

#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace quern {
namespace sdk {

/// Why a node stands alone: the rule that came nearest, and what of the node it does not take.
struct Alone {
  std::uint32_t node = QUERN_NONE;
  std::string_view rule;    // empty: no rule is for the node's op
  std::string_view reason;  // in words, never empty
  std::uint32_t flags = 0;  // QUERN_ALONE_...
};

class ToldSchedules {
 public:
  /// Begins a further schedule, to which kernel() and alone() add from now on.
  void schedule() { contents_.emplace_back(); }
  /// `node`: the first, or where it computes none, the one whose operands it prepares.
  void kernel(std::string_view name, std::string_view reason, std::vector<std::uint32_t> nodes, std::uint32_t node) {
    Content& content = contents_.back();
    content.nodes.push_back(std::move(nodes));
    const std::vector<std::uint32_t>& of = content.nodes.back();
    quern_kernel_info info = made<quern_kernel_info>();
    info.name = kept(name);
    info.reason = kept(reason);
    info.node = node;
    info.node_count = static_cast<std::uint32_t>(of.size());
    info.nodes = {of.data(), of.size(), sizeof(std::uint32_t)};
    content.kernels.push_back(info);
  }
  void alone(const Alone& node) {
    quern_alone_info info = made<quern_alone_info>();
    info.node = node.node;
    info.flags = node.flags;
    info.rule = kept(node.rule);
    info.reason = kept(node.reason);
    contents_.back().alone.push_back(info);
  }
  /// That schedule `index`, whose kernels are all added, serves these rows; without a symbol every run.
  void serves(std::size_t index, std::uint32_t symbol = QUERN_NONE, std::uint32_t rows = QUERN_ROWS_ANY, std::int64_t least = 0,
              std::int64_t most = 0) {
    const Content& content = contents_.at(index);
    quern_schedule_info info = made<quern_schedule_info>();
    info.symbol = symbol;
    info.rows = rows;
    info.least = least;
    info.most = most;
    info.kernels = {content.kernels.data(), content.kernels.size(), sizeof(quern_kernel_info)};
    info.alone = {content.alone.data(), content.alone.size(), sizeof(quern_alone_info)};
    list_.push_back(info);
  }

  const std::vector<quern_kernel_info>& kernels(std::size_t index) const { return contents_.at(index).kernels; }
  quern_array list() const noexcept { return {list_.data(), list_.size(), sizeof(quern_schedule_info)}; }

 private:
  struct Content {
    std::deque<std::vector<std::uint32_t>> nodes;  // one a kernel
    std::vector<quern_kernel_info> kernels;
    std::vector<quern_alone_info> alone;
  };
  quern_string kept(std::string_view text) {
    auto found = texts_.find(text);
    if (found == texts_.end()) found = texts_.emplace(text).first;
    return {found->data(), found->size()};
  }

  std::deque<Content> contents_;
  std::set<std::string, std::less<>> texts_;  // each once: layers say the same
  std::vector<quern_schedule_info> list_;
};

}  // namespace sdk
}  // namespace quern

#endif
