// Products of up to 64 rows with weights of Q4_K and Q6_K (kquants_rows.cuh).
#include "kquants_rows.cuh"

KQUANTS_KERNELS(_q4_k, Q4_K, Q6_K)
