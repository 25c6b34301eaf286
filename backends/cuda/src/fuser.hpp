// What the schedules that fuse have in common: which nodes their rules take, whatever kernels they launch.
//
// A product reads an operand: a value in the form that its kernel reads, perhaps through the norm in front. Behind it stand residual sums, a
// gated activation, or a norm with a sum; attention takes its norms, rotations and writes along. Each schedule says what its kernels compose
// (the virtual functions) and launches them: decode.cpp for few rows, wide.cpp for more.
#pragma once

#include "adapted_graph.hpp"
#include "fusion.hpp"
#include "quern/sdk/fusion/rules.hpp"

#include <map>

namespace quern::cuda {

class Fuser : protected Uses {
 protected:
  static constexpr std::uint32_t none = QUERN_NONE;

  Fuser(const AdaptedGraph& adapted, const CardFacts& card, bool invariant = false)
      : Uses(adapted.graph(), invariant),
        adapted_(adapted),
        done_(graph_.nodes.size(), false),
        in_front_(graph_.nodes.size(), false),
        groups_(graph_.nodes.size()),
        card_(card) {
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) stored_.push_back(n);
  }
  virtual ~Fuser() = default;

  // What the kernels of a schedule compose. A refusal is null where they do.
  virtual Refusal why_no_kernel(std::uint32_t product) const = 0;
  virtual bool serves_rows(std::uint32_t value) const = 0;
  virtual Refusal why_no_attention(std::uint32_t node, const Attention& what) const = 0;
  virtual Refusal why_no_norm(std::uint32_t norm) const = 0;
  virtual Refusal why_no_glu(std::uint32_t glu, std::uint32_t gate, std::uint32_t up) const = 0;  // gate is up: the halves of one product
  /// Of an activation behind a product that it could be part of, or could make the next operand from.
  virtual Refusal why_no_activation(std::uint32_t activation, std::uint32_t product) const = 0;
  /// Why a norm's own kernel does not make the operand of the products that read it.
  virtual Refusal why_no_operand(std::uint32_t norm) const = 0;
  /// Of a product of chosen experts of few pairs.
  virtual Refusal why_no_experts(std::uint32_t /*product*/) const { return "this schedule has no kernels of few pairs of experts"; }
  /// The form in which a product reads its operand; negative: in f32, which it converts itself.
  virtual int form_of(std::uint32_t product) const = 0;
  /// The value whose index a product's operand is stored by; none: its elements lie as they come.
  virtual std::uint32_t order_of(std::uint32_t /*product*/) const { return none; }
  virtual std::uint64_t operand_bytes_of(std::uint32_t product, int form) const = 0;
  /// Emits the steps of the first rule that takes a node; whether one did.
  virtual bool emit(std::uint32_t node) = 0;
  /// Why no rule took a node.
  sdk::Alone why_left(std::uint32_t node) const;

  /// Asks of each node once why it is no product of this schedule.
  void judge_products();
  Refusal why_no_product(std::uint32_t n) const { return products_[n]; }
  bool is_product(std::uint32_t n) const { return products_[n] == nullptr; }
  /// Whether all that reads a value are products that take it as their operand, `alike`: in one form.
  bool only_products(std::uint32_t r, bool alike) const;
  /// Why a norm is not in front of the products that read it. `others`: where those are not all that reads it, or not alike.
  Refusal why_not_in_front(std::uint32_t norm, bool alike, Refusal others) const;
  bool is_layer_norm(std::uint32_t n) const { return n != none && graph_.nodes[n].op == QUERN_OP_LAYER_NORM; }

  /// An operand of products: a value, perhaps times a norm, in one form.
  struct Key {
    std::uint32_t value;  // root
    std::uint32_t norm;   // node, or none
    int form;
    std::uint32_t order = QUERN_NONE;  // the value whose index it is stored by, or none
    auto operator<=>(const Key&) const = default;
  };
  struct Operand {
    std::uint32_t slot = 0;
    std::int64_t k = 0;
    bool filled = false;
    float scale = 1;                   // of what is stored
    std::uint32_t order = QUERN_NONE;  // as of its key
  };
  Key key_of(std::uint32_t product) const;
  void find_norms();
  void find_operands();
  std::uint32_t slot(std::uint64_t bytes) {
    schedule_.extras.push_back(bytes);
    return static_cast<std::uint32_t>(schedule_.extras.size() - 1);
  }

  /// Products that share a kernel: the first, and how many they are.
  struct Group {
    std::uint32_t first = QUERN_NONE;
    std::size_t size = 1;
  };

  void find_attention();
  /// Sums with norms behind products, which the sum's kernel makes.
  void find_sums();
  /// Residual sums behind a node that its step makes too, at most two; from now on they are done.
  struct Residuals {
    std::uint32_t stored = QUERN_NONE, first = QUERN_NONE, second = QUERN_NONE;  // values
    std::vector<std::uint32_t> nodes{};
  };
  Residuals take_residuals(std::uint32_t node, std::size_t most);

  /// What a norm's node says to the kernel that makes it; of none nothing.
  struct Norm {
    std::uint32_t weight = QUERN_NONE, bias = QUERN_NONE;  // values
    float offset = 0, epsilon = 0;
    bool layer = false;
  };
  Norm norm_of(std::uint32_t node) const;
  /// Of a key's norm, where it is no layer norm, which products make by another way.
  Norm norm_of(const Key& key) const { return is_layer_norm(key.norm) ? Norm{} : norm_of(key.norm); }

  /// Appends a step; valid until the next is.
  Step& add_step(std::uint32_t first, std::vector<std::uint32_t> nodes, std::string kernel, std::vector<std::uint32_t> reads);
  /// A step of kernels/wide.cu's norm_row: node n is a norm, or its sum. `next`: a norm of the result that it makes too, or none; `made`: what
  /// of the name says what else it makes, which `also` fills, in slot `out` or none.
  struct Row {
    std::uint32_t node, norm, other, next, next_weight, out;
    bool store;
    const char* made;
  };
  Step& add_row(const Row& row, std::function<void(RowParams&, const StepContext&, std::int64_t rows)> also);

  /// Layers of chosen experts, and products of few pairs of them with the glu or the weighted sum behind.
  void find_experts();
  /// Whether the node is the last of those that one step makes, which then is emitted.
  bool emit_experts(std::uint32_t node);
  /// The weights of attention's norms of queries and keys.
  std::vector<std::uint32_t> weights_of_norms(const Attention& what) const;
  /// Whether no kernel of the run makes the rotations' table or the cache's pages, slots and positions.
  bool is_given(const Attention& what, const Node& node) const;

  /// The steps of all nodes, in order: by the rules, else each by itself.
  Schedule emit_all();

  /// Two products of one operand, their gated activation, its product and the weighted sum of that.
  struct Experts {
    ExpertGlu glu;
    std::uint32_t activation, down;  // nodes
  };
  std::optional<Experts> experts_at(std::uint32_t combine, Refusal* why = nullptr) const;
  void emit_expert_layer(std::uint32_t combine);
  // The table of rules (fuser_rules.cpp).
  static const sdk::fusion::Rule<Fuser> rules[];
  bool reads_from(std::uint32_t n, std::uint32_t op) const;
  bool sums_a_norm(std::uint32_t add) const;
  bool is_summed(std::uint32_t norm) const;
  bool gates_experts(std::uint32_t glu) const;
  bool ends_with_sums(std::uint32_t node) const;
  Refusal why_no_attention_at(std::uint32_t n) const { return attention_.contains(n) ? nullptr : why_not_with_attention(n); }
  Refusal why_no_normed_sum(std::uint32_t add) const;
  Refusal why_no_sum_behind(std::uint32_t norm) const;
  Refusal why_no_residual(std::uint32_t add) const;
  Refusal why_no_gated(std::uint32_t glu) const;
  Refusal why_no_end(std::uint32_t activation) const;
  Refusal why_no_expert_layer(std::uint32_t node) const;
  Refusal why_no_few_experts(std::uint32_t node) const;
  Refusal why_no_adapters(std::uint32_t n) const { return adapted_.why_no_adapters(n); }
  Refusal why_no_order(std::uint32_t take) const { return adapted_.why_no_order(take); }
  void emit_expert_glu(std::uint32_t glu);
  void emit_expert_sum(std::uint32_t combine);

  const AdaptedGraph& adapted_;
  std::vector<bool> done_;
  std::vector<bool> in_front_;         // norms that products read through
  std::vector<std::uint32_t> stored_;  // the node at whose place the step stands that stores the sum of this one
  std::vector<Group> groups_;          // of products of few rows
  std::vector<Refusal> products_;
  std::map<Key, Operand> operands_;
  std::map<std::uint32_t, NormedSum> sums_;  // by the add node
  std::map<std::uint32_t, Attention> attention_;
  std::map<std::uint32_t, Experts> expert_layers_;      // by the node that sums
  std::map<std::uint32_t, ExpertGlu> expert_glus_;      // by the glu node
  std::map<std::uint32_t, std::uint32_t> expert_sums_;  // products by the node that sums them
  const CardFacts& card_;
  Schedule schedule_;
};

}  // namespace quern::cuda
