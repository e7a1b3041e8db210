#include "engine/lora/stored_values.hpp"

#include <cstdint>
#include <cstring>

#include "engine/base/ensure.hpp"
#include "engine/base/number_formats.hpp"

namespace orcd::engine {
namespace {

/// A block: its factor, then 32 integers.
void read_q8_0(const std::byte* from, std::uint64_t blocks, float* to) {
  constexpr std::uint64_t values = 32;
  for (std::uint64_t block = 0; block < blocks; ++block, from += sizeof(std::uint16_t) + values) {
    const float factor = half_to_float(load_number<std::uint16_t>(from));
    for (std::uint64_t i = 0; i < values; ++i) {
      *to++ = factor * static_cast<float>(load_number<std::int8_t>(from + sizeof(std::uint16_t) + i));
    }
  }
}

}  // namespace

bool is_adapter_type(ggml_type type) noexcept {
  return type == ggml_type::f32 || type == ggml_type::f16 || type == ggml_type::bf16 ||
         type == ggml_type::q8_0;
}

void read_values(const tensor_view& tensor, float* to) {
  ORCD_ENSURE(is_adapter_type(tensor.type));
  const std::uint64_t count = tensor.elements();
  if (count == 0) return;
  if (tensor.type == ggml_type::f32) {
    std::memcpy(to, tensor.data, count * sizeof(float));
  } else if (tensor.type == ggml_type::q8_0) {
    read_q8_0(tensor.data, count / 32, to);
  } else {
    const auto read = tensor.type == ggml_type::f16 ? half_to_float : bfloat_to_float;
    for (std::uint64_t i = 0; i < count; ++i) {
      to[i] = read(load_number<std::uint16_t>(tensor.data + i * sizeof(std::uint16_t)));
    }
  }
}

}  // namespace orcd::engine
