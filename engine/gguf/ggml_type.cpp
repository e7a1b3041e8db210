#include "engine/gguf/ggml_type.hpp"

#include <array>

#include "engine/base/ensure.hpp"

namespace orcd::engine {
namespace {

constexpr std::array<type_traits, 27> supported{{
    {ggml_type::f32, "F32", 1, 4},
    {ggml_type::f16, "F16", 1, 2},
    {ggml_type::bf16, "BF16", 1, 2},
    {ggml_type::q4_0, "Q4_0", 32, 18},
    {ggml_type::q4_1, "Q4_1", 32, 20},
    {ggml_type::q5_0, "Q5_0", 32, 22},
    {ggml_type::q5_1, "Q5_1", 32, 24},
    {ggml_type::q8_0, "Q8_0", 32, 34},
    {ggml_type::q2_k, "Q2_K", 256, 84},
    {ggml_type::q3_k, "Q3_K", 256, 110},
    {ggml_type::q4_k, "Q4_K", 256, 144},
    {ggml_type::q5_k, "Q5_K", 256, 176},
    {ggml_type::q6_k, "Q6_K", 256, 210},
    {ggml_type::iq4_nl, "IQ4_NL", 32, 18},
    {ggml_type::iq4_xs, "IQ4_XS", 256, 136},
    {ggml_type::iq3_s, "IQ3_S", 256, 110},
    {ggml_type::iq3_xxs, "IQ3_XXS", 256, 98},
    {ggml_type::iq2_s, "IQ2_S", 256, 82},
    {ggml_type::iq2_xs, "IQ2_XS", 256, 74},
    {ggml_type::iq2_xxs, "IQ2_XXS", 256, 66},
    {ggml_type::mxfp4, "MXFP4", 32, 17},
    {ggml_type::nvfp4, "NVFP4", 64, 36},
    {ggml_type::tq1_0, "TQ1_0", 256, 54},
    {ggml_type::tq2_0, "TQ2_0", 256, 66},
    {ggml_type::i2_s, "I2_S", 128, 32, 32},
    {ggml_type::q1_0, "Q1_0", 128, 18},
    {ggml_type::q2_0, "Q2_0", 64, 18},
}};

// Indexed by id. Ids that the format no longer uses are "removed(n)": an old file may still have them.
constexpr std::array<std::string_view, 43> all_names{
    "F32",         "F16",         "Q4_0",
    "Q4_1",        "removed(4)",  "removed(5)",
    "Q5_0",        "Q5_1",        "Q8_0",
    "Q8_1",        "Q2_K",        "Q3_K",
    "Q4_K",        "Q5_K",        "Q6_K",
    "Q8_K",        "IQ2_XXS",     "IQ2_XS",
    "IQ3_XXS",     "IQ1_S",       "IQ4_NL",
    "IQ3_S",       "IQ2_S",       "IQ4_XS",
    "I8",          "I16",         "I32",
    "I64",         "F64",         "IQ1_M",
    "BF16",        "removed(31)", "removed(32)",
    "removed(33)", "TQ1_0",       "TQ2_0",
    "I2_S",        "removed(37)", "removed(38), TL1 in BitNet forks",
    "MXFP4",       "NVFP4",       "Q1_0",
    "Q2_0"};

}  // namespace

std::span<const type_traits> supported_types() noexcept {
  return supported;
}

const type_traits& traits_of(ggml_type type) noexcept {
  for (const type_traits& t : supported) {
    if (t.type == type) return t;
  }
  ORCD_ENSURE(!"a ggml_type that type_from_id did not return");
  return supported.front();
}

std::optional<ggml_type> type_from_id(std::uint32_t id) noexcept {
  for (const type_traits& t : supported) {
    if (static_cast<std::uint32_t>(t.type) == id) return t.type;
  }
  return std::nullopt;
}

std::string_view known_type_name(std::uint32_t id) noexcept {
  return id < all_names.size() ? all_names[id] : std::string_view("unknown");
}

}  // namespace orcd::engine
