#!/usr/bin/env python3
"""Writes mutants of the readers of quantised weights and of the rotation: copies of their sources with one step exchanged.

    make_mutants.py SOURCES OUTPUT     SOURCES is models/directory/src, OUTPUT a C++ file with all copies, each in a namespace of its own

mutants_test.cpp reads the goldens with each. A step that is not in its source exactly once ends the build.
"""
import pathlib
import sys

AWQ, GPTQ, COMPRESSED, FP8, BITSANDBYTES = ("quantised_awq.cpp", "quantised_gptq.cpp", "quantised_compressed.cpp", "quantised_fp8.cpp",
                                            "quantised_bitsandbytes.cpp")
ROPE = "rope_keys.cpp"
EXPORTS = {AWQ: ["awq_weight"], GPTQ: ["gptq_weight"], COMPRESSED: ["compressed_weight"], FP8: ["fp8_weight"], BITSANDBYTES: ["bitsandbytes_weight"],
           ROPE: ["write_rope_keys", "divisors_of"]}
# What a source calls before it is defined there.
DECLARED = {ROPE: "std::vector<float> divisors_of(const Llama3Rotation&, double, std::uint64_t);"}

# Columns go where they should come from.
TURNED = ("static std::vector<std::uint32_t> turned;\n    turned.resize(order.size());\n    for (std::uint32_t i = 0; i < order.size(); ++i) turned[order[i]] = i;\n"
          "    Codes blocks{format, rows, columns, group, {}, {}, {}, group_of, turned};")

# Name, source, what stands there, and what the mutant has.
MUTANTS = [
    ("awq_words_in_order", AWQ, "rows_of_word * w + row_of_nibble[2 * i + half]", "rows_of_word * w + 2 * i + half"),
    ("awq_words_by_the_inverse_order", AWQ, "rows_of_word * w + row_of_nibble[2 * i + half]", "rows_of_word * w + nibble_of_row[2 * i + half]"),
    ("awq_zeros_in_order", AWQ, "nibble_of_row[row % rows_of_word]", "row % rows_of_word"),
    ("awq_zeros_plus_one", AWQ, "nibble_of_row[row % rows_of_word] & 15u;", "nibble_of_row[row % rows_of_word] & 15u) + 1;"),
    ("awq_scales_along_rows", AWQ, "scale[g * rows + row]", "scale[row * (columns / group) + g]"),
    ("awq_zeros_of_the_first_group", AWQ, "word_at(lying[1], g * words", "word_at(lying[1], 0 * g * words"),
    ("gptq_zeros_of_the_other_version", GPTQ, "zeros_less_one ? 1 : 0;", "zeros_less_one ? 0 : 1;"),
    ("gptq_zeros_by_the_field_alone", GPTQ, "if (context.quantisation.symmetric) {", "if (false) {"),
    ("gptq_codes_from_the_top", GPTQ, "of.bits, out + row * tile.pitch + column);",
     "of.bits, out + row * tile.pitch + column), std::reverse(out + row * tile.pitch + column, out + row * tile.pitch + column + of.in_word());"),
    ("gptq_halves_exchanged", GPTQ, "(words & mask) | (further & mask) << 4", "(further & mask) | (words & mask) << 4"),
    ("gptq_halves_side_by_side", GPTQ, "further = first + 2 * rows;", "further = first + rows;"),
    ("gptq_odd_codes_first", GPTQ, "even, odd, 0, 16, 1, 17,", "even, odd, 16, 0, 17, 1,"),
    ("gptq_words_along_columns", GPTQ, "(tile.column + column) / of.in_word() * rows + tile.row + row",
     "(tile.row + row) * (words.size() / 4 / rows) + (tile.column + column) / of.in_word()"),
    ("gptq_zeros_from_the_top", GPTQ, "row % of.in_word());", "of.in_word() - 1 - row % of.in_word());"),
    ("gptq_order_of_activations_ignored", GPTQ, "places.empty() ? read_pairs", "true ? read_pairs"),
    ("gptq_order_of_activations_turned", GPTQ, "from = order[tile.column + column + i / 2 + i % 2 * 16];",
     "from = static_cast<std::uint32_t>(std::ranges::find(order, tile.column + column + i / 2 + i % 2 * 16) - order.begin());"),
    ("gptq_order_of_groups_turned", GPTQ, "group_of = columns_in_other_groups(context, *index, columns, group);",
     "group_of = columns_in_other_groups(context, *index, columns, group), std::ranges::reverse(group_of);"),
    ("gptq_scales_along_rows", GPTQ, "scale[g * rows + row]", "scale[row * (columns / group) + g]"),
    ("compressed_codes_without_their_offset", COMPRESSED, "if (!has_zeros) return 1u << (bits - 1);", "if (!has_zeros) return 0u;"),
    ("compressed_offset_less_one", COMPRESSED, "if (!has_zeros) return 1u << (bits - 1);", "if (!has_zeros) return (1u << (bits - 1)) - 1;"),
    ("compressed_codes_from_the_top", COMPRESSED, "bits, whole ? out : last);",
     "bits, last), std::reverse(last, last + in_word), std::copy_n(last, whole ? in_word : 0, out);"),
    ("compressed_zeros_along_a_row", COMPRESSED, "row / in_word * (columns / group) + g)", "row * (columns / group) / in_word + g)"),
    ("compressed_zeros_not_read", COMPRESSED, "if (zeros != nullptr) made.further.push_back(zeros);\n  made.change = [=, format = made.dtype, rows",
     "if (zeros != nullptr) made.further.push_back(&scales);\n  made.change = [=, format = made.dtype, rows"),
    ("compressed_scales_of_the_first_group", COMPRESSED, "scale[grid.at(row, g * group)]", "scale[grid.at(row, 0 * g)]"),
    ("compressed_order_of_activations_ignored", COMPRESSED, "{}, {}, {}, group_of, order};", "{}, {}, {}, {}, {}};"),
    ("compressed_order_of_activations_turned", COMPRESSED, "Codes blocks{format, rows, columns, group, {}, {}, {}, group_of, order};",
     TURNED),
    ("integers_without_a_sign", COMPRESSED, "std::to_integer<std::uint8_t>(codes[i]) ^ middle", "static_cast<std::uint8_t>(std::to_integer<std::uint8_t>(codes[i]) + 0 * middle)"),
    ("fp8_scales_divide", FP8, "return scale[grid.at(row, g * block)];", "return 1 / scale[grid.at(row, g * block)];"),
    ("fp8_scales_of_the_first_row", FP8, "grid.at(row, g * block)", "grid.at(0 * row, g * block)"),
    ("fp8_scales_of_the_first_column", FP8, "grid.at(row, g * block)", "grid.at(row, 0 * g * block)"),
    ("nf4_low_nibble_first", BITSANDBYTES, "(bits >> 4 & low) | (bits & low) << 4;", "bits + 0 * low;"),
    ("nf4_with_the_table_of_fp4", BITSANDBYTES, "state.columns, nf4 != nullptr ? QUERN_NF4_64 : QUERN_FP4_64", "state.columns, nf4 == nullptr ? QUERN_NF4_64 : QUERN_FP4_64"),
    ("nested_offset_forgotten", BITSANDBYTES, "product + state.nested_offset", "product"),
    ("nested_map_not_applied", BITSANDBYTES, "map[std::to_integer<std::size_t>(lying[1][i])] * outer", "static_cast<float>(lying[1][i]) * outer"),
    ("nf4_scales_along_columns", BITSANDBYTES, "state, row * (state.columns / block) + g)", "state, g * state.rows + row)"),
    ("int8_by_128", BITSANDBYTES, "most[row] / 127.0f", "most[row] / 128.0f"),
    ("rope_type_in_its_new_spelling_alone", ROPE, '{"rope_type", "type"}', '{"rope_type"}'),
    ("rope_old_object_ignored", ROPE, '{"rope_parameters", "rope_scaling"}', '{"rope_parameters"}'),
    ("llama3_factors_multiply", ROPE, "static_cast<float>(1 / share)", "static_cast<float>(share)"),
    ("llama3_without_a_blend", ROPE, "(1 - smooth) / factor + smooth", "1 / factor"),
    ("llama3_over_the_new_context", ROPE, "return *inside;", "return shape.context + 0 * *inside;"),
    ("yarn_magnitude_counted_twice", ROPE, 'magnitude(factor, rope.require("mscale")) / magnitude(factor, rope.require("mscale_all_dim"))',
     'magnitude(factor, rope.require("mscale"))'),
    ("yarn_magnitude_upside_down", ROPE, 'magnitude(factor, rope.require("mscale")) / magnitude(factor, rope.require("mscale_all_dim"))',
     'magnitude(factor, rope.require("mscale_all_dim")) / magnitude(factor, rope.require("mscale"))'),
    ("rope_base_of_the_class", ROPE, 'config.find_number("rope_theta").value_or(usual)', "usual"),
]


def mutant_of(text, name, source, old, new):
    if text.count(old) != 1:
        sys.exit(f"{source}: the step of the mutant {name} is there {text.count(old)} times: {old}")
    if name == "awq_zeros_plus_one":
        old, new = "return word_at(lying[1], g * words + row / rows_of_word) >> 4 * " + old, "return (word_at(lying[1], g * words + row / rows_of_word) >> 4 * " + new
    opening = f"namespace quern::directory::{name} {{\n{DECLARED.get(source, '')}"
    text = text.replace(old, new).replace("namespace quern::directory {", opening, 1)
    for function in EXPORTS[source]:
        text = text.replace(f"{function}(", f"mutant_{function}(")
    return text


def main():
    sources, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    parts, weights, ropes = ["// Written by make_mutants.py.\n"], [], []
    for name, source, old, new in MUTANTS:
        parts.append(mutant_of((sources / source).read_text(encoding="utf-8"), name, source, old, new))
        entry = f'    {{"{name}", "{source}", {name}::mutant_{EXPORTS[source][0]}}},\n'
        (ropes if source == ROPE else weights).append(entry)
    parts.append('#include "mutants.hpp"\n\nnamespace quern::directory {\n\nconst std::vector<WeightMutant> weight_mutants = {\n' + "".join(weights) +
                 "};\nconst std::vector<RopeMutant> rope_mutants = {\n" + "".join(ropes) + "};\n\n}  // namespace quern::directory\n")
    output.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
