// The format descriptors, tested as data: a decoder that knows nothing but quern_formats.h decodes random blocks to what
// the PyPI package gguf makes of them, or to what the rule of a directory's format says. Each hash is that of its descriptor.
#include "quern/quern_formats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

/// Short names in the list of tests.
static void PrintTo(const quern_format& format, std::ostream* out) { *out << format.name.data; }

namespace {

template <class T>
const T& element(const quern_array& array, std::uint64_t i) {
  return *reinterpret_cast<const T*>(static_cast<const char*>(array.data) + i * array.stride);
}

std::uint64_t bits_at(const unsigned char* block, std::uint32_t address, std::uint32_t count) {
  std::uint64_t value = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    value |= static_cast<std::uint64_t>(block[(address + i) / 8] >> ((address + i) % 8) & 1u) << i;
  }
  return value;
}

std::uint32_t address_of(const quern_format_piece& piece, std::uint32_t entry) {
  std::uint32_t rest = entry - piece.first, address = piece.bit_offset;
  for (std::uint32_t d = piece.rank; d-- > 0;) {
    address += rest % piece.dims[d].size * piece.dims[d].stride;
    rest /= piece.dims[d].size;
  }
  return address;
}

double from_half(std::uint64_t bits) {
  const double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>(bits >> 10 & 0x1Fu);
  const double fraction = static_cast<double>(bits & 0x3FFu);
  return exponent == 0 ? sign * std::ldexp(fraction, -24) : sign * std::ldexp(1024.0 + fraction, exponent - 25);
}

double from_e4m3(std::uint64_t bits) {
  const int exponent = static_cast<int>(bits >> 3 & 15u), eighths = static_cast<int>(bits & 7u);
  if ((bits & 0x7Fu) == 0x7Fu) return NAN;
  const double size = exponent == 0 ? std::ldexp(eighths, -9) : std::ldexp(8 + eighths, exponent - 10);
  return (bits & 0x80u) != 0 ? -size : size;
}

double field_entry(const quern_format_field& field, const unsigned char* block, std::uint32_t entry) {
  std::uint64_t value = 0;
  std::uint32_t width = 0;
  for (std::uint64_t p = 0; p < field.pieces.count; ++p) {
    const auto& piece = element<quern_format_piece>(field.pieces, p);
    if (entry < piece.first || entry >= piece.first + piece.count) continue;
    value += bits_at(block, address_of(piece, entry), piece.bits) << piece.shift;
    width = std::max(width, piece.shift + piece.bits);
  }
  if (field.stored == QUERN_STORED_F16) return from_half(value);
  if (field.stored == QUERN_STORED_F32) return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(value)));
  if (field.stored == QUERN_STORED_E4M3) return from_e4m3(value);
  double number = static_cast<double>(value);
  if (field.stored == QUERN_STORED_INT && (value >> (width - 1) & 1u) != 0) number -= std::ldexp(1.0, static_cast<int>(width));
  return number - field.bias;
}

/// The entry of a field by its role; `absent` where the format has none.
double number(const quern_format& format, std::uint32_t role, const unsigned char* block, std::uint32_t entry, double absent) {
  for (std::uint64_t f = 0; f < format.fields.count; ++f) {
    const auto& field = element<quern_format_field>(format.fields, f);
    if (field.role == role) return field_entry(field, block, entry);
  }
  return absent;
}

const quern_code_table& table_of(const quern_format& format) { return *static_cast<const quern_code_table*>(format.header.next); }

/// Exact: products of an f16 and two small integers have at most 24 bits, and a sum of two spans less than 53.
double decode(const quern_format& format, const unsigned char* block, std::uint32_t i) {
  const std::uint32_t group = i / format.group_elements;
  const double scaled = number(format, QUERN_ROLE_SUPER_SCALE, block, 0, NAN) * number(format, QUERN_ROLE_SCALE, block, group, 1) *
                        number(format, QUERN_ROLE_CODE, block, i, NAN);
  switch (format.formula) {
    case QUERN_FORMULA_SYMMETRIC:
    case QUERN_FORMULA_SUPER_SYMMETRIC: return scaled;
    case QUERN_FORMULA_SUPER_TABLE:
      return number(format, QUERN_ROLE_SUPER_SCALE, block, 0, NAN) *
             static_cast<double>(element<float>(table_of(format).values,
                                                static_cast<std::uint64_t>(number(format, QUERN_ROLE_CODE, block, i, NAN))));
    case QUERN_FORMULA_SUPER_ZERO:
      return number(format, QUERN_ROLE_SUPER_SCALE, block, 0, NAN) *
             (number(format, QUERN_ROLE_CODE, block, i, NAN) - number(format, QUERN_ROLE_ZERO, block, group, NAN));
    case QUERN_FORMULA_OFFSET: return scaled + number(format, QUERN_ROLE_SUPER_MIN, block, 0, NAN);
    case QUERN_FORMULA_SUPER_OFFSET:
      return scaled - number(format, QUERN_ROLE_SUPER_MIN, block, 0, NAN) * number(format, QUERN_ROLE_MIN, block, group, NAN);
    default: return NAN;
  }
}

class Fnv {
 public:
  void add(std::uint32_t word) {
    for (int i = 0; i < 4; ++i) hash_ = (hash_ ^ (word >> (8 * i) & 0xFFu)) * 0x100000001b3ull;
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ull;
};

std::uint64_t hash_of(const quern_format& format) {
  Fnv fnv;
  for (const std::uint32_t w : {format.block_elements, format.block_bytes, format.group_elements, format.formula}) fnv.add(w);
  for (std::uint64_t f = 0; f < format.fields.count; ++f) {
    const auto& field = element<quern_format_field>(format.fields, f);
    const auto pieces = static_cast<std::uint32_t>(field.pieces.count);
    for (const std::uint32_t w : {field.role, field.stored, field.entries, field.bias, pieces}) fnv.add(w);
    for (std::uint64_t p = 0; p < field.pieces.count; ++p) {
      const auto& piece = element<quern_format_piece>(field.pieces, p);
      for (const std::uint32_t w : {piece.first, piece.count, piece.bits, piece.shift, piece.bit_offset, piece.rank}) fnv.add(w);
      for (std::uint32_t d = 0; d < piece.rank; ++d) {
        fnv.add(piece.dims[d].size);
        fnv.add(piece.dims[d].stride);
      }
    }
  }
  if (format.formula == QUERN_FORMULA_SUPER_TABLE) {
    const quern_array& values = table_of(format).values;
    fnv.add(table_of(format).vector_elements);
    fnv.add(static_cast<std::uint32_t>(values.count));
    for (std::uint64_t i = 0; i < values.count; ++i) fnv.add(std::bit_cast<std::uint32_t>(element<float>(values, i)));
  }
  return fnv.value();
}

class Formats : public testing::TestWithParam<quern_format> {};

TEST_P(Formats, DecodeAsTheGoldensSay) {
  const quern_format& format = GetParam();
  const std::string path = std::string(QUERN_SOURCE_DIR "/tests/data/formats/") + format.name.data + ".bin";
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const std::size_t per_block = format.block_bytes + 4u * format.block_elements;
  ASSERT_GT(bytes.size(), 0u) << path;
  ASSERT_EQ(bytes.size() % per_block, 0u) << path;
  const std::size_t blocks = bytes.size() / per_block;
  const bool is_exact = format.formula != QUERN_FORMULA_OFFSET && format.formula != QUERN_FORMULA_SUPER_OFFSET &&
                        format.formula != QUERN_FORMULA_SUPER_TABLE;
  for (std::size_t b = 0; b < blocks; ++b) {
    const auto* block = reinterpret_cast<const unsigned char*>(bytes.data()) + b * format.block_bytes;
    for (std::uint32_t i = 0; i < format.block_elements; ++i) {
      float theirs;
      std::memcpy(&theirs, bytes.data() + blocks * format.block_bytes + (b * format.block_elements + i) * 4, 4);
      const double ours = decode(format, block, i);
      const float rounded = static_cast<float>(ours);
      if (is_exact) {
        ASSERT_EQ(static_cast<double>(rounded), ours) << "a symmetric value is exact in f32: block " << b << " element " << i;
        ASSERT_EQ(std::memcmp(&rounded, &theirs, 4), 0) << "block " << b << " element " << i << ": " << ours << " " << theirs;
      } else {
        const double step = static_cast<double>(std::nextafter(std::fabs(rounded), INFINITY)) - std::fabs(rounded);
        ASSERT_LE(std::fabs(static_cast<double>(theirs) - ours), step / 2) << "block " << b << " element " << i;
      }
    }
  }
}

TEST_P(Formats, HashIsThatOfTheDescriptor) { EXPECT_EQ(hash_of(GetParam()), GetParam().hash) << GetParam().name.data; }

TEST_P(Formats, EveryBitOfABlockIsReadOnceAndEachEntryIsCovered) {
  const quern_format& format = GetParam();
  std::vector<int> bits(format.block_bytes * 8u, 0);
  for (std::uint64_t f = 0; f < format.fields.count; ++f) {
    const auto& field = element<quern_format_field>(format.fields, f);
    std::vector<int> covered(field.entries, 0);
    for (std::uint64_t p = 0; p < field.pieces.count; ++p) {
      const auto& piece = element<quern_format_piece>(field.pieces, p);
      ASSERT_LE(piece.first + piece.count, field.entries);
      for (std::uint32_t e = piece.first; e < piece.first + piece.count; ++e) {
        covered[e] = 1;
        for (std::uint32_t i = 0; i < piece.bits; ++i) {
          ASSERT_LT(address_of(piece, e) + i, bits.size());
          ++bits[address_of(piece, e) + i];
        }
      }
    }
    for (const int c : covered) EXPECT_EQ(c, 1);
  }
  for (std::size_t i = 0; i < bits.size(); ++i) EXPECT_EQ(bits[i], 1) << format.name.data << " bit " << i;
}

INSTANTIATE_TEST_SUITE_P(All, Formats, testing::ValuesIn(quern_formats),
                         [](const auto& format) { return std::string(format.param.name.data); });

TEST(FormatTable, CountsItsRowsAndAscendsById) {
  ASSERT_EQ(std::size(quern_formats), QUERN_FORMAT_COUNT);
  for (std::size_t i = 1; i < std::size(quern_formats); ++i) EXPECT_LT(quern_formats[i - 1].id, quern_formats[i].id);
}

}  // namespace
