// Lists of the indices that have the same row (row_lists.comp): of each index the next and the one before, of each row the last.
#define NO_INDEX 0xffffffffu
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Link { uint v; };
uint64_t next_of(uint i) { return p.lists + uint64_t(i) * 4ul; }
uint64_t before_of(uint i) { return p.lists + (uint64_t(p.count) + uint64_t(i)) * 4ul; }
uint64_t last_of(uint row) { return p.lists + (2ul * uint64_t(p.count) + uint64_t(row)) * 4ul; }

int row_of(uint i) { return load_index(p.index + uint64_t(int64_t(i) * int64_t(p.index_step)), p.index_dtype); }
