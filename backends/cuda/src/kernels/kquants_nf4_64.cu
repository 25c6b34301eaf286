// Products of up to 64 rows with weights of NF4_64 (kquants_rows.cuh).
#include "kquants_rows.cuh"

KQUANTS_KERNELS(_nf4_64, NF4_64, NF4_64)
