# Compiled with the flags of avx512_vnni: the tiles' instructions are written as assembly.
set(packed_avx512_amx_sources)
foreach(file set k_formats legacy_formats)
  list(APPEND packed_avx512_amx_sources src/packed/avx512_amx/${file}.cpp)
endforeach()
