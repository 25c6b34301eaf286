# Compiled with the flags of avx2 alone.
set(packed_avx2_sources)
foreach(file set quantise floats coded_floats q4_0 q4_1 q5_0 q5_1 q8_0 q4_k q5_k q6_k word_heads)
  list(APPEND packed_avx2_sources src/packed/avx2/${file}.cpp)
endforeach()
