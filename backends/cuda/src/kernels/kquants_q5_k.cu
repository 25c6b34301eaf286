// Products of up to 64 rows with weights of Q5_K and Q6_K (kquants_rows.cuh).
#include "kquants_rows.cuh"

KQUANTS_KERNELS(_q5_k, Q5_K, Q6_K)
