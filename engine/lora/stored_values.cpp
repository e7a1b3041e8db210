#include "engine/lora/stored_values.hpp"

#include <bit>
#include <cstdint>
#include <cstring>

#include "engine/base/ensure.hpp"

namespace orcd::engine {
namespace {

template <class T>
T load(const std::byte* from) {
  T value{};
  std::memcpy(&value, from, sizeof value);
  return value;
}

float of_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

/// IEEE binary16.
float of_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {  // zero, or a multiple of 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 0x1F ? 0xFFU : exponent + (127U - 15U);
  return std::bit_cast<float>(sign | wide << 23U | fraction << 13U);
}

/// A block: its factor, then 32 integers.
void read_q8_0(const std::byte* from, std::uint64_t blocks, float* to) {
  constexpr std::uint64_t values = 32;
  for (std::uint64_t block = 0; block < blocks; ++block, from += sizeof(std::uint16_t) + values) {
    const float factor = of_f16(load<std::uint16_t>(from));
    for (std::uint64_t i = 0; i < values; ++i) {
      *to++ = factor * static_cast<float>(load<std::int8_t>(from + sizeof(std::uint16_t) + i));
    }
  }
}

}  // namespace

bool is_adapter_type(ggml_type type) noexcept {
  return type == ggml_type::f32 || type == ggml_type::f16 || type == ggml_type::bf16 ||
         type == ggml_type::q8_0;
}

std::vector<float> values_of(const tensor_view& tensor) {
  ORCD_ENSURE(is_adapter_type(tensor.type));
  const std::uint64_t count = tensor.elements();
  std::vector<float> out(count);
  if (count == 0) return out;
  if (tensor.type == ggml_type::f32) {
    std::memcpy(out.data(), tensor.data, count * sizeof(float));
  } else if (tensor.type == ggml_type::q8_0) {
    read_q8_0(tensor.data, count / 32, out.data());
  } else {
    const auto read = tensor.type == ggml_type::f16 ? of_f16 : of_bf16;
    for (std::uint64_t i = 0; i < count; ++i) {
      out[i] = read(load<std::uint16_t>(tensor.data + i * sizeof(std::uint16_t)));
    }
  }
  return out;
}

}  // namespace orcd::engine
