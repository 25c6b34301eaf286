// See event_file.hpp.
#include "event_file.hpp"

#include <unistd.h>

#include <array>
#include <bit>
#include <cstdio>

namespace quern::cli {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
    table[byte] = crc;
  }
  return table;
}();

template <typename Integer>
std::string little_endian(Integer number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof number; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xff);
  return bytes;
}

std::string varint(std::uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  return bytes + static_cast<char>(number);
}

// Protobuf: a field begins with its number and the kind of its value.
std::string of_bytes(std::uint32_t field, std::string_view bytes) {
  return varint(field << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}
std::string of_double(std::uint32_t field, double number) {
  return varint(field << 3 | 1) + little_endian(std::bit_cast<std::uint64_t>(number));
}
std::string of_float(std::uint32_t field, float number) {
  return varint(field << 3 | 5) + little_endian(std::bit_cast<std::uint32_t>(number));
}
std::string of_integer(std::uint32_t field, std::uint64_t number) { return varint(field << 3) + varint(number); }

/// Event: wall_time 1, step 2, and one of file_version 3, summary 5, session_log 7.
std::string event(double seconds, std::uint64_t step, const std::string& what) {
  return of_double(1, seconds) + of_integer(2, step) + what;
}

/// TFRecord: the length, its sum, the data, its sum.
std::string record(const std::string& data) {
  const auto masked = [](std::string_view bytes) {
    const std::uint32_t crc = crc32c(bytes);
    return little_endian(std::uint32_t{(crc >> 15 | crc << 17) + 0xa282ead8u});
  };
  const std::string length = little_endian(std::uint64_t{data.size()});
  return length + masked(length) + data + masked(data);
}

std::string machine_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0 || *name == '\0') return "machine";
  return name;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) noexcept {
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) crc = (crc >> 8) ^ crc_table[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

base::FileProblem EventFile::open(const std::string& folder, double seconds, std::uint64_t step, EventFile& out) {
  char name[64];
  // Ten digits, so that the order of names is that of time; the process sets two runs of one second apart.
  std::snprintf(name, sizeof name, "events.out.tfevents.%010.0f.", seconds);
  const std::string path = folder + "/" + name + machine_name() + "." + std::to_string(getpid());
  if (base::FileProblem problem = base::GrowingFile::open(path, base::GrowingFile::Begin::empty, out.file_)) return problem;
  constexpr std::uint64_t start = 1;  // of SessionLog.status: TensorBoard drops what has this step or a later one, and is of another file
  std::string begin = record(of_double(1, seconds) + of_bytes(3, "brain.Event:2"));
  if (step > 0) begin += record(event(seconds, step + 1, of_bytes(7, of_integer(1, start))));
  return out.file_.append(begin);
}

base::FileProblem EventFile::append(double seconds, std::uint64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) summary += of_bytes(1, of_bytes(1, tag) + of_float(2, value));
  return file_.append(record(event(seconds, step, of_bytes(5, summary))));
}

}  // namespace quern::cli
