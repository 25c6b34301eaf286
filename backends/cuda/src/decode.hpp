// The schedule of small steps: few fused kernels a layer.
//
//   - products of few rows take int8 activations; those that read one value (q, k, v; gate, up) are one kernel.
//   - a norm whose users are such products is not computed. Its weight goes into the quantised activations. Its factor, which is the same
//     for a whole row, goes into the products' results.
//   - GLUs, other activations, residual sums, and the quantising of what the next product reads are the epilogues of products.
//   - a sum with a norm behind a product, and a layer norm, are made by the next product (one row), or are one kernel that quantises too.
//   - parts may be columns of one product: queries, keys and values, gate and up.
//   - with one row: adapters of products are further columns of their dot products, and the blocks of the product make what those multiply.
//   - of few pairs of experts: gate, up and GLU are one kernel, and down, weighted sum and residual another.
//   - with one row: rotating queries and keys, writing keys and values, and attention are one kernel.
#pragma once

#include "schedule.hpp"

namespace quern::cuda {

/// For runs of up to `most_rows` rows (1 to 8). Empty where nothing of the graph can be fused. `given`: what `graph` was read from.
Schedule decode_schedule(const Graph& graph, const quern_graph* given, std::uint32_t most_rows, const CardFacts& card);
/// For runs of any number of rows, whose bits do not depend on it. Empty too where no products with most of the weights ask for that: then those
/// that do run by themselves.
Schedule invariant_schedule(const Graph& graph, const CardFacts& card);

}  // namespace quern::cuda
