// What the adapter tests share: adapters made in memory in each of their formats, and how refusals look.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/lora/read_adapter.hpp"
#include "test/support/gguf_writer.hpp"
#include "test/unit/model/helpers.hpp"

namespace orcd::test {

struct matrix {
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
  std::vector<float> values;
};

/// Multiples of 1/64 up to 1, which every format of adapters holds exactly.
inline matrix some_matrix(std::uint64_t rows, std::uint64_t cols, std::uint32_t seed) {
  matrix out{rows, cols, std::vector<float>(rows * cols)};
  std::uint32_t state = seed * 2'654'435'761U + 12'345U;
  for (float& value : out.values) {
    state = state * 1'664'525U + 1'013'904'223U;
    value = (static_cast<float>(state >> 25U) - 64.0F) / 64.0F;
  }
  return out;
}

inline matrix transposed(const matrix& from) {
  matrix out{from.cols, from.rows, std::vector<float>(from.values.size())};
  for (std::uint64_t r = 0; r < from.rows; ++r) {
    for (std::uint64_t c = 0; c < from.cols; ++c)
      out.values[c * from.rows + r] = from.values[r * from.cols + c];
  }
  return out;
}

/// Of a normal number that a half holds exactly, or zero.
inline std::uint16_t half_of(float value) {
  if (value == 0.0F) return 0;
  int exponent = 0;
  const float fraction = std::frexp(std::fabs(value), &exponent);
  const int bits = ((exponent + 14) << 10) + static_cast<int>((fraction * 2.0F - 1.0F) * 1024.0F);
  return static_cast<std::uint16_t>(bits | (value < 0.0F ? 0x8000 : 0));
}

/// The bytes of a matrix in F32, F16, BF16 or Q8_0; exact for values of some_matrix().
inline bytes encoded(const matrix& from, engine::ggml_type type) {
  bytes out;
  for (std::size_t i = 0; i < from.values.size(); ++i) {
    const float value = from.values[i];
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    if (type == engine::ggml_type::f32) append_number(out, bits);
    if (type == engine::ggml_type::bf16) append_number(out, static_cast<std::uint16_t>(bits >> 16U));
    if (type == engine::ggml_type::f16) append_number(out, half_of(value));
    if (type != engine::ggml_type::q8_0) continue;
    if (i % 32 == 0) append_number(out, half_of(1.0F / 64.0F));
    append_number(out, static_cast<std::int8_t>(value * 64.0F));
  }
  return out;
}

/// The metadata of a GGUF adapter without pairs.
inline gguf_writer empty_adapter(std::string_view architecture = "llama", float alpha = 16.0F) {
  gguf_writer w;
  w.add("general.type", "adapter");
  w.add("general.architecture", architecture);
  w.add("adapter.type", "lora");
  w.add("adapter.lora.alpha", alpha);
  return w;
}

inline void add_matrix(gguf_writer& to, const std::string& name, const matrix& values,
                       engine::ggml_type type = engine::ggml_type::f32) {
  to.add_tensor(name, {values.cols, values.rows}, type, encoded(values, type));
}

/// A [rank][in] and B [out][rank] of one matrix.
inline void add_pair(gguf_writer& to, const std::string& name, std::uint64_t in, std::uint64_t out,
                     std::uint64_t rank, std::uint32_t seed = 1,
                     engine::ggml_type type = engine::ggml_type::f32) {
  add_matrix(to, name + ".lora_a", some_matrix(rank, in, seed), type);
  add_matrix(to, name + ".lora_b", some_matrix(out, rank, seed + 1), type);
}

/// A safetensors file; entries and header may be changed before it is built.
class safetensors_writer {
 public:
  safetensors_writer& add(const std::string& name, const matrix& values,
                          engine::ggml_type type = engine::ggml_type::f32) {
    const std::size_t begin = data.size();
    const bytes image = encoded(values, type);
    data.insert(data.end(), image.begin(), image.end());
    return add_entry(name, std::string(engine::traits_of(type).name),
                     "[" + std::to_string(values.rows) + "," + std::to_string(values.cols) + "]", begin,
                     data.size());
  }
  safetensors_writer& add_entry(const std::string& name, const std::string& dtype, const std::string& shape,
                                std::size_t begin, std::size_t end) {
    return add_raw("\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
                   ",\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}");
  }
  safetensors_writer& add_raw(const std::string& member) {
    header += (header.empty() ? "" : ",") + member;
    return *this;
  }
  safetensors_writer& add_pair(const std::string& module, std::uint64_t in, std::uint64_t out,
                               std::uint64_t rank, std::uint32_t seed = 1,
                               engine::ggml_type type = engine::ggml_type::f32) {
    add(module + ".lora_A.weight", some_matrix(rank, in, seed), type);
    return add(module + ".lora_B.weight", some_matrix(out, rank, seed + 1), type);
  }
  [[nodiscard]] bytes build() const { return build("{" + header + "}"); }
  [[nodiscard]] bytes build(const std::string& json) const {
    bytes out;
    append_string(out, json);
    out.insert(out.end(), data.begin(), data.end());
    return out;
  }

  std::string header;  ///< its members
  bytes data;
};

inline const std::string plain_config = R"({"r": 4, "lora_alpha": 16})";

inline engine::result<engine::lora_adapter> read_gguf(const gguf_writer& writer, const engine::model& base,
                                                      const engine::adapter_limits& limits = {}) {
  return engine::read_adapter_image(writer.build(), "a.gguf", base, limits);
}

inline engine::result<engine::lora_adapter> read_peft(const safetensors_writer& writer,
                                                      const engine::model& base,
                                                      const std::string& config = plain_config,
                                                      const engine::adapter_limits& limits = {}) {
  return engine::read_peft_adapter(config, writer.build(), "dir", base, limits);
}

inline engine::lora_adapter accepted(engine::result<engine::lora_adapter> read) {
  BOOST_REQUIRE_MESSAGE(read.has_value(), read.error().message);
  return std::move(*read);
}

/// One line that has every one of `parts`.
template <class T>
void expect_refusal(const engine::result<T>& read, std::initializer_list<std::string_view> parts,
                    engine::errc code = engine::errc::model_load_failed) {
  BOOST_REQUIRE_MESSAGE(!read, "was accepted");
  const std::string& message = read.error().message;
  BOOST_TEST((read.error().code == code), message);
  BOOST_TEST(read.error().param == "lora");
  BOOST_TEST(message.find('\n') == std::string::npos);
  BOOST_TEST(message.size() < 1000U);
  for (const std::string_view part : parts) {
    BOOST_TEST(message.find(part) != std::string::npos, "no \"" << part << "\" in \"" << message << "\"");
  }
}

}  // namespace orcd::test
