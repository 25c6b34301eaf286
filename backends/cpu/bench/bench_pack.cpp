// Speed of packing, without the plugin around it: bytes of canonical rows that one thread packs a second.
//
//   bench_pack [set] [format] [k] [MiB]    defaults: all sets, all formats, k 4096, 64 MiB of source a figure
// Source and panels are resident and larger than the caches: what is measured is the shuffle and the memory, not page faults. The
// best of several passes counts. Beside it: memcpy of the same bytes.
#include "formats.hpp"
#include "packed/packed.hpp"
#include "view.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

using namespace quern::cpu;

namespace {

/// Of this thread on a processor: what other work takes is not counted.
double seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::byte* reserve(std::size_t bytes) {
  constexpr std::size_t page = 2 << 20;
  auto* base = static_cast<std::byte*>(mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (base == MAP_FAILED) std::exit(1);
  auto* p = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(base) + page - 1) / page * page);
  madvise(p, bytes, MADV_HUGEPAGE);
  std::memset(p, 0x5a, bytes);
  return p;
}

template <class Work>
double best_rate(std::int64_t bytes, Work&& work) {
  double least = 1e9;
  for (int pass = 0; pass < 5; ++pass) {
    const double start = seconds();
    work();
    least = std::min(least, seconds() - start);
  }
  return static_cast<double>(bytes) / least * 1e-9;
}

void measure(const PackedLayout& layout, std::int64_t k, std::int64_t source_bytes) {
  if (k % layout.k_multiple != 0) return;
  const std::int64_t row = k / unit_elements(layout.format) * unit_bytes(layout.format);
  const std::int64_t panels = std::max<std::int64_t>(1, source_bytes / (row * layout.panel_rows)), bytes = panels * layout.panel_rows * row;
  const std::int64_t packed = panels * layout.panel_bytes(k);
  std::byte *source = reserve(static_cast<std::size_t>(bytes)), *to = reserve(static_cast<std::size_t>(packed));
  const double pack = best_rate(bytes, [&] {
    for (std::int64_t p = 0; p < panels; ++p)
      layout.pack(source + p * layout.panel_rows * row, row, layout.panel_rows, k, to + p * layout.panel_bytes(k));
  });
  const double copy = best_rate(bytes, [&] { std::memcpy(to, source, static_cast<std::size_t>(std::min(bytes, packed))); });
  std::printf("%-14s %7.2f GB/s   memcpy %7.2f GB/s   packed / source %.3f\n", layout.key, pack, copy,
              static_cast<double>(packed) / static_cast<double>(bytes));
  munmap(source, static_cast<std::size_t>(bytes));
  munmap(to, static_cast<std::size_t>(packed));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string set_wanted = argc > 1 ? argv[1] : "all", format_wanted = argc > 2 ? argv[2] : "all";
  const std::int64_t k = argc > 3 ? std::atoll(argv[3]) : 4096, bytes = (argc > 4 ? std::atoll(argv[4]) : 64) << 20;
  const Processor processor = detect_processor();
  const auto run = [&](const char* name, bool here, const PackedSet& set) {
    if (!here || (set_wanted != "all" && set_wanted != name)) return;
    for (const PackedLayout& layout : set.layouts)
      if (format_wanted == "all" || std::string(layout.key).starts_with(format_wanted)) measure(layout, k, bytes);
  };
  run("avx2", processor.best >= Isa::avx2, packed_set_avx2());
  run("avx512_vnni", processor.vnni, packed_set_avx512_vnni());
  return 0;
}
