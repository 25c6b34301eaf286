// What a kernel that has several jobs is told to do, by one of its constants; read by the C++ compiler and by glslc alike.
//
// Kernels whose compiled form is committed read none of this.
#ifdef __cplusplus
#pragma once
namespace quern::vulkan {
#endif

// norm.comp, norm_backward.comp
const int norm_rms = 0, norm_layer = 1, norm_l2 = 2, norm_add_rms = 3;
// norm_backward.comp: the mean and r of each row, column sums, dx, dweight and dbias
const int norm_measure = 0, norm_columns = 1, norm_gradients = 2, norm_store_sums = 3;
// loss.comp
const int loss_entropy = 0, loss_entropy_backward = 1, loss_masked_mean = 2, loss_masked_mean_backward = 3;
// sort.comp; logits_sort is top_k too: p.kept of them
const int logits_sort = 0, logits_top_p = 1, logits_min_p = 2, logits_top_k = 3, logits_sample = 4, logits_sample_parts = 5;
// lora.comp: h = A x, y, g = B^T dy, dx, dpool, a merged weight
const int lora_h = 0, lora_y = 1, lora_g = 2, lora_dx = 3, lora_pool = 4, lora_merged = 5;
// experts_backward.comp: an invocation an element of da or db, or a row of dlogits
const int experts_da = 0, experts_db = 1, experts_dlogits = 2;
// write_rows.comp: of an index that stands twice the last row is stored, or all are added; the last mode adds at -1 too, which is out of range
const int rows_last = 0, rows_add = 1, rows_add_strictly = 2;
// operand_f16.comp: the largest elements of a share of k, the rows with the largest of all shares, or both
const int operand_both = 0, operand_measure = 1, operand_convert = 2;
// grad_norm.comp
const int grad_norm_parts = 0, grad_norm_whole = 1, grad_norm_scale = 2;
// quantise.comp, and chain.comp without the last
const int source_plain = 0, source_norm = 1, source_glu = 2;
// chain.comp: the kind of stage that is no product
const int stage_attention = 2;

#ifdef __cplusplus
}  // namespace quern::vulkan
#endif
