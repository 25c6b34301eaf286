// What rows of ../mutants.def are made of.
#pragma once

#include "mutation.hpp"

#include "quern/quern_ops.h"

namespace quern::mutant {

Mutation behaves(Behaviour behaviour);
/// The descriptors as in the first, the values as in the second.
Mutation both(const Mutation& descriptors, const Mutation& values);
Mutation where_invariant(Mutation values);  // nodes that ask for INVARIANT alone
Mutation declaring_ftz(Mutation values);    // the device says that it takes f32 subnormals for zeros

// Descriptors: of every node of `op` (0: of any op), before the plugin underneath sees them.
Mutation without_attribute(std::uint32_t op, std::uint32_t key);
Mutation with_attribute(std::uint32_t op, std::uint32_t key, double value);          // whether it was sent or not
Mutation changed_attribute(std::uint32_t op, std::uint32_t key, double difference);  // only where it was sent
Mutation swapped_attributes(std::uint32_t op, std::uint32_t key, std::uint32_t other);
Mutation without_input(std::uint32_t op, std::size_t input);
Mutation without_predicate(std::uint32_t op);
Mutation without_strides(std::size_t input);
Mutation without_unknown_uses();  // bits of `uses` that this ABI does not have are masked off
Mutation without_unknown_attributes();
Mutation with_any_format_hash();
Mutation with_conversions(std::uint32_t conversions);  // as if every node allowed them

// Plugins that look whether the suite drives them, and compute with care only then.
bool runs_in_the_suite(const GraphCopy& graph);   // by the name of the program
bool has_no_layer_names(const GraphCopy& graph);  // nodes of a model are named after its tensors
bool has_at_most_100_nodes(const GraphCopy& graph);
/// The mutation, but for graphs that `recognised` takes for the suite's.
Mutation unless(bool (*recognised)(const GraphCopy&), const Mutation& spoiled);

// Inputs: what a private copy of them becomes.
using Edit = std::function<void(const NodeRun&)>;
Mutation edits_input(std::uint32_t op, std::size_t input, Edit edit);
Mutation edits_inputs(std::uint32_t op, std::vector<std::size_t> inputs, Edit before, Edit after = {});
/// x becomes f(x) in every element of the input.
Mutation maps_input(std::uint32_t op, std::size_t input, double (*f)(double));
/// add: x becomes f(x) in both operands and in the result, unless those are f16.
Mutation flushes_sums(double (*f)(double));
double to_bf16(double x);
double to_tf32(double x);
double finite_mask(double x);  // -inf becomes -1e4
double nan_to_minus_infinity(double x);
double one_less_behind_512(double x);
double zero_unless_finite(double x);
double zero_if_negative(double x);
double flushed_f32(double x);  // 0 for what is subnormal in f32
double flushed_below_2_120(double x);
double raised_to_normal(double x);  // the smallest normal of f32 for what is subnormal
double zero(double x);
double one(double x);
void drop_last_of_k(const NodeRun& node);      // matmul: the last column of a counts as 0
void flush_block_scales(const NodeRun& node);  // input 1, formats that open with an f16 scale: subnormal ones become 0
using BlockEdit = void (*)(std::uint8_t* block);
Mutation edits_blocks(std::uint32_t op, std::size_t input, quern_dtype dtype, BlockEdit edit);
void swap_nibbles(std::uint8_t* q4_0);
void negate_min(std::uint8_t* q4_1);
void drop_fifth_bits(std::uint8_t* q5_1);
void swap_scale_and_min(std::uint8_t* q4_k);
void rotate_sub_scales(std::uint8_t* q6_k);
void skip_last_block(const NodeRun& node);           // input 0: the last block of each row counts as 0
void keep_first_of_duplicates(const NodeRun& node);  // input 1, indices: later ones of the same row become -1
Edit identity_table(std::size_t input);              // entry i of a block table becomes i
/// Rows work on the pages of the slot behind theirs, where that has a page for their position.
Edit pages_of_next_sequence(std::size_t table, std::size_t slot, std::size_t position);
void one_position_more(const NodeRun& node);           // attention, input 5, where the page table reaches so far
void examples_begin_a_row_early(const NodeRun& node);  // attention_ragged: they see one key of their neighbour
void next_expert(const NodeRun& node);
void count_ignored_labels(const NodeRun& node);
void coupled_decay(const NodeRun& node);
void late_step(const NodeRun& node);
void rank_blind_scale(const NodeRun& node);
Mutation heads_modulo();    // attention: head h reads kv head h % kv_heads
Mutation batches_modulo();  // matmul: batch i of a meets batch i % n of b

// Outputs.
Mutation edits_output(std::uint32_t op, Edit edit);
/// Also inside of larger graphs: for edits that look at outputs alone.
Mutation edits_any_output(std::uint32_t op, Edit edit);
Mutation edits_fused_output(Edit edit);
Edit gain(double factor);
/// The edit of the first row of each node of `op`, but for those whose input 0 has numbers of the suite's generator.
Mutation unless_of_the_generator(std::uint32_t op, Edit edit);
void add_1e4_of_rms(const NodeRun& node);
void round_to_bf16(const NodeRun& node);
void four_fraction_bits(const NodeRun& node);
void one_dead_element(const NodeRun& node);
void stale_last_row(const NodeRun& node);
void swap_last_rows(const NodeRun& node);
void one_row_otherwise(const NodeRun& node);  // of one row the first element is the next float
void edge_of_16(const NodeRun& node);         // rows of 16 n + 1: the last element is its neighbour's
void all_zero(const NodeRun& node);
Edit zero_output(std::size_t output);
Edit unstored_output(std::size_t output);  // what it held before the run
void truncated_store(const NodeRun& node);
void flush_subnormals(const NodeRun& node);
void nan_for_empty_rows(const NodeRun& node);
void accumulate_in_f16(const NodeRun& node);
void uncopied_rope_tail(const NodeRun& node);
void last_of_ties(const NodeRun& node);
void unstable_sort(const NodeRun& node);
void minus_zero_lost(const NodeRun& node);
void quiet_nan_lost(const NodeRun& node);
void decode_off_by_one_code(const NodeRun& node);
void unscaled_dropout(const NodeRun& node);
void one_kept_fewer(const NodeRun& node);
void values_of_first_heads(const NodeRun& node);  // attention_ragged_backward: dv has the first query head of each kv head alone

// Numbers that kernels get wrong. "Row": of input 0, and those of output 0 that belong to it.
void nan_reaches_next_row(const NodeRun& node);
void infinity_is_nan(const NodeRun& node);
void infinity_spreads(const NodeRun& node);       // a row of y with an infinity becomes NaN
void infinite_rows_are_nan(const NodeRun& node);  // of x
void f16_overflows(const NodeRun& node);          // where the node allows f16: rows with an element beyond it are infinite
Mutation cut_to_f16(std::uint32_t op);            // where the node allows f16: input 0 ends at +-65504
void tiny_blocks_are_nan(const NodeRun& node);  // where the node allows conversions: rows with 32 neighbours whose scale has no reciprocal
void zero_blocks_are_nan(const NodeRun& node);  // the same of 32 zeros
void small_rows_are_lost(const NodeRun& node);  // the same of rows that f16 has not: zeros
void f16_outputs_are_cut(const NodeRun& node);
void zeros_change_sign(const NodeRun& node);
void gain_of_rows_near_60000(const NodeRun& node);
Edit far_largest_is_missed(bool last);            // exp of the last (first) element overflows where it is far above the others
Edit negative_rows_vanish(std::size_t lse);       // sums of exp are 0 where no element is near 0; `lse`: the output with one element a row
void negative_lse_vanishes(const NodeRun& node);  // output 1, the lse: -inf where it is below -88
void negative_logprob_vanishes(const NodeRun& node);  // output 1: infinite where all logits are below -88
void attention_far_key_overflows(const NodeRun& node);
void attention_negative_rows_vanish(const NodeRun& node);
void attention_zero_blocks_are_nan(const NodeRun& node);
void scales_of_zero_are_nan(const NodeRun& node);
double nan_to_zero(double x);
double infinity_to_largest(double x);

// Shapes, counts and positions that a plugin's own limits stop at (shape_edits.cpp).
using Condition = std::function<bool(const NodeRun&)>;
/// The edit where the node's shape is one that the condition names.
Edit where(Condition condition, Edit edit);
Condition group_ratio(std::vector<std::int64_t> ratios);  // attention: query heads a key head
Condition k_is(std::int64_t least, bool odd);             // matmul: the length of its sums
Condition rows_and_k(std::int64_t rows, std::int64_t k);  // matmul: at least so many, both
bool turns_blocks(const NodeRun& node);                   // matmul: transpose_b of a block format
Condition product_of(std::int64_t rows, std::int64_t n);  // matmul: at least so many rows and columns
/// What lies at `limit` and beyond it along a dimension of an output is that of `limit` before.
Edit output_wraps(std::size_t output, std::uint32_t dim, std::int64_t limit);
/// The same of an input.
Edit input_wraps(std::size_t input, std::uint32_t dim, std::int64_t limit);
/// Elements behind the first `limit` of an input's rows count as 0.
Edit input_ends(std::size_t input, std::int64_t limit);
/// Elements behind the first `limit` of an input's rows are below all others.
Edit input_least(std::size_t input, std::int64_t limit);
/// Numbers of an input (positions, slots, page ids) at `limit` and above are taken modulo it.
Edit numbers_wrap(std::size_t input, double limit);
Edit output_numbers_wrap(std::size_t output, double limit);

// Faults that only whole layers show (layer_edits.cpp): of graphs of more than one node alone.
Mutation layers_without_attribute(std::uint32_t op, std::uint32_t key);
Mutation last_window_is_ignored();
Mutation norms_behind_products_without_weight();
Mutation norms_of_keys_are_skipped();
Mutation norms_of_all_keys_are_skipped();  // of all heads together
Mutation sums_behind_norms_are_read_before();
Mutation activations_are_skipped();
Mutation second_sums_are_skipped();
Mutation gate_and_up_of_experts_are_swapped();
Mutation residuals_of_experts_are_skipped();
Mutation layer_norms_without_bias();
Mutation columns_start_at_their_product();
Mutation partial_rotations_pair_neighbours();
Mutation gate_and_up_views_are_swapped();
Mutation views_start_at_their_root();  // views that are packed: rows of a matrix
Mutation sinks_are_ignored();          // of more than one row
Mutation norms_read_what_is_written_later();
Mutation adapters_of_values_are_skipped();
Mutation extents_change_places();  // ranged values of one symbol count those of the other
Mutation outputs_are_all_rows();   // what lies behind the rows whose outputs are wanted is made of all rows
Mutation first_output_is_of_the_first_row();

}  // namespace quern::mutant
