// Where the elements of matrices lie, asked of the device (matrix_layout.hpp).
#include "matrix_layout.hpp"
#include "run_once.hpp"

namespace quern::vulkan {

MatrixLayout find_matrix_layout(Gpu& gpu, Memory& places) {
  const CardFacts& card = gpu.facts();
  std::vector<std::uint32_t> table(card.subgroup * (1 + 3 * most_parts), 0);
  Memory memory = gpu.take(table.size() * 4, "the layout of matrices");
  gpu.write(memory, 0, table.data(), table.size() * 4);
  const MatrixLayoutParams p{memory.address(), most_parts, 0};
  run_once(gpu, [&](Launcher& launcher) {
    launcher.launch("matrix_layout", card.subgroup, {1, 1, 1}, p,
                    {static_cast<std::int32_t>(card.matrices.m), static_cast<std::int32_t>(card.matrices.n),
                     static_cast<std::int32_t>(card.matrices.k)});
  });
  gpu.read(table.data(), memory, 0, table.size() * 4);
  MatrixLayout layout = read_matrix_layout(table, card.subgroup, most_parts, card.matrices);
  if (const std::vector<std::uint32_t> list = read_places(table, card.subgroup, most_parts, card.matrices); !list.empty()) {
    places = gpu.take(list.size() * 4, "the layout of matrices");
    gpu.write(places, 0, list.data(), list.size() * 4);
    layout.places = places.address();
  }
  return layout;
}

}  // namespace quern::vulkan
