# Compiled with the flags of avx512_vnni alone.
set(packed_avx512_vnni_sources)
foreach(file set quantise f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 q4_k q5_k q6_k word_heads coded_floats bf16_dot)
  list(APPEND packed_avx512_vnni_sources src/packed/avx512_vnni/${file}.cpp)
endforeach()
set_source_files_properties(src/packed/avx512_vnni/bf16_dot.cpp PROPERTIES COMPILE_OPTIONS -mavx512bf16)
