#include "kernels/host/finite.hpp"

#include <cstring>

#include "kernels/product/quant_blocks.hpp"

namespace orcd::kernels::host {
namespace {

using engine::ggml_type;

/// A number inside a block: where, and which bits say that it is not finite.
template <class Word, Word exponent>
struct number {
  static constexpr Word exponent_bits = exponent;
  std::size_t offset;
  const char* part;

  [[nodiscard]] Word read(const std::byte* block) const noexcept {
    Word word;
    std::memcpy(&word, block + offset, sizeof word);
    return word;
  }
  [[nodiscard]] bool bad(const std::byte* block) const noexcept {
    return (read(block) & exponent) == exponent;
  }
  [[nodiscard]] const char* what(const std::byte* block) const noexcept {
    // With every exponent bit set: infinite without a fraction, else NaN. E8M0 has no fraction and no
    // infinity.
    constexpr Word fraction = exponent & static_cast<Word>(0U - exponent);
    constexpr bool has_fraction = fraction > 1;
    return has_fraction && (read(block) & (fraction - 1U)) == 0 ? "infinite" : "NaN";
  }
};
using half = number<std::uint16_t, 0x7c00>;
using bfloat = number<std::uint16_t, 0x7f80>;
using single = number<std::uint32_t, 0x7f800000>;
using power_of_two = number<std::uint8_t, 0xff>;

/// A scale of NVFP4. Its one number that is none reads as 0, which its writer cannot have meant.
struct e4m3_scale {
  std::size_t offset;
  const char* part;

  [[nodiscard]] bool bad(const std::byte* block) const noexcept {
    return block[offset] == std::byte{nvfp4_no_scale};
  }
  [[nodiscard]] static const char* what(const std::byte* /*block*/) noexcept { return "NaN"; }
};

template <std::size_t stride, class... Numbers>
std::optional<not_finite> scan(const std::byte* data, std::uint64_t blocks, const Numbers&... numbers) {
  unsigned any = 0;
  const std::byte* at = data;
  for (std::uint64_t i = 0; i < blocks; ++i, at += stride) any |= (unsigned{numbers.bad(at)} | ...);
  if (any == 0) return std::nullopt;
  at = data;
  for (std::uint64_t i = 0; i < blocks; ++i, at += stride) {
    std::optional<not_finite> found;
    const auto look = [&](const auto& n) {
      if (!found && n.bad(at)) found = {.block = i, .part = n.part, .what = n.what(at)};
    };
    (look(numbers), ...);
    if (found) return found;
  }
  return std::nullopt;
}

/// Of the formats whose codes stand for values of a table.
std::optional<not_finite> scan_tables(ggml_type type, const std::byte* data, std::uint64_t blocks) {
  constexpr half first{0, "d"};
  switch (type) {
    case ggml_type::iq4_nl: return scan<sizeof(block_iq4_nl)>(data, blocks, first);
    case ggml_type::iq4_xs: return scan<sizeof(block_iq4_xs)>(data, blocks, first);
    case ggml_type::iq3_s: return scan<sizeof(block_iq3_s)>(data, blocks, first);
    case ggml_type::iq3_xxs: return scan<sizeof(block_iq3_xxs)>(data, blocks, first);
    case ggml_type::iq2_s: return scan<sizeof(block_iq2_s)>(data, blocks, first);
    case ggml_type::iq2_xs: return scan<sizeof(block_iq2_xs)>(data, blocks, first);
    case ggml_type::iq2_xxs: return scan<sizeof(block_iq2_xxs)>(data, blocks, first);
    default:
      return scan<sizeof(block_nvfp4)>(data, blocks, e4m3_scale{0, "scale"}, e4m3_scale{1, "scale"},
                                       e4m3_scale{2, "scale"}, e4m3_scale{3, "scale"});
  }
}

}  // namespace

std::optional<not_finite> find_not_finite(ggml_type type, const std::byte* data, std::uint64_t blocks) {
  switch (type) {
    case ggml_type::f32: return scan<4>(data, blocks, single{0, "value"});
    case ggml_type::f16: return scan<2>(data, blocks, half{0, "value"});
    case ggml_type::bf16: return scan<2>(data, blocks, bfloat{0, "value"});
    case ggml_type::q4_0: return scan<sizeof(block_q4_0)>(data, blocks, half{offsetof(block_q4_0, d), "d"});
    case ggml_type::q4_1:
      return scan<sizeof(block_q4_1)>(data, blocks, half{offsetof(block_q4_1, d), "d"},
                                      half{offsetof(block_q4_1, m), "m"});
    case ggml_type::q5_0: return scan<sizeof(block_q5_0)>(data, blocks, half{offsetof(block_q5_0, d), "d"});
    case ggml_type::q5_1:
      return scan<sizeof(block_q5_1)>(data, blocks, half{offsetof(block_q5_1, d), "d"},
                                      half{offsetof(block_q5_1, m), "m"});
    case ggml_type::q8_0: return scan<sizeof(block_q8_0)>(data, blocks, half{offsetof(block_q8_0, d), "d"});
    case ggml_type::q2_k:
      return scan<sizeof(block_q2_k)>(data, blocks, half{offsetof(block_q2_k, d), "d"},
                                      half{offsetof(block_q2_k, dmin), "dmin"});
    case ggml_type::q3_k: return scan<sizeof(block_q3_k)>(data, blocks, half{offsetof(block_q3_k, d), "d"});
    case ggml_type::q4_k:
      return scan<sizeof(block_q4_k)>(data, blocks, half{offsetof(block_q4_k, d), "d"},
                                      half{offsetof(block_q4_k, dmin), "dmin"});
    case ggml_type::q5_k:
      return scan<sizeof(block_q5_k)>(data, blocks, half{offsetof(block_q5_k, d), "d"},
                                      half{offsetof(block_q5_k, dmin), "dmin"});
    case ggml_type::q6_k: return scan<sizeof(block_q6_k)>(data, blocks, half{offsetof(block_q6_k, d), "d"});
    case ggml_type::mxfp4:
      return scan<sizeof(block_mxfp4)>(data, blocks, power_of_two{offsetof(block_mxfp4, e), "scale"});
    case ggml_type::iq4_nl:
    case ggml_type::iq4_xs:
    case ggml_type::iq3_s:
    case ggml_type::iq3_xxs:
    case ggml_type::iq2_s:
    case ggml_type::iq2_xs:
    case ggml_type::iq2_xxs:
    case ggml_type::nvfp4: return scan_tables(type, data, blocks);
    case ggml_type::tq1_0:
      return scan<sizeof(block_tq1_0)>(data, blocks, half{offsetof(block_tq1_0, d), "d"});
    case ggml_type::tq2_0:
      return scan<sizeof(block_tq2_0)>(data, blocks, half{offsetof(block_tq2_0, d), "d"});
    case ggml_type::q1_0: return scan<sizeof(block_q1_0)>(data, blocks, half{offsetof(block_q1_0, d), "d"});
    case ggml_type::q2_0: return scan<sizeof(block_q2_0)>(data, blocks, half{offsetof(block_q2_0, d), "d"});
    case ggml_type::i2_s: break;  // its blocks have no numbers
  }
  return std::nullopt;
}

}  // namespace orcd::kernels::host
