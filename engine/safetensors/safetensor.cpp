#include "engine/safetensors/safetensor.hpp"

#include <algorithm>

namespace orcd::engine {
namespace {

struct named_type {
  std::string_view name;
  safetensor_type type;
  std::uint64_t bytes;
};
constexpr std::array types{
    named_type{"BOOL", safetensor_type::boolean, 1},    named_type{"U8", safetensor_type::u8, 1},
    named_type{"I8", safetensor_type::i8, 1},           named_type{"F8_E4M3", safetensor_type::f8_e4m3, 1},
    named_type{"F8_E5M2", safetensor_type::f8_e5m2, 1}, named_type{"I16", safetensor_type::i16, 2},
    named_type{"U16", safetensor_type::u16, 2},         named_type{"F16", safetensor_type::f16, 2},
    named_type{"BF16", safetensor_type::bf16, 2},       named_type{"I32", safetensor_type::i32, 4},
    named_type{"U32", safetensor_type::u32, 4},         named_type{"F32", safetensor_type::f32, 4},
    named_type{"I64", safetensor_type::i64, 8},         named_type{"U64", safetensor_type::u64, 8},
    named_type{"F64", safetensor_type::f64, 8}};

const named_type& row_of(safetensor_type type) noexcept {
  return *std::find_if(types.begin(), types.end(), [&](const named_type& t) { return t.type == type; });
}

}  // namespace

std::string_view to_string(safetensor_type type) noexcept {
  return row_of(type).name;
}

std::optional<safetensor_type> safetensor_type_named(std::string_view name) noexcept {
  const auto* found =
      std::find_if(types.begin(), types.end(), [&](const named_type& t) { return t.name == name; });
  return found == types.end() ? std::nullopt : std::optional(found->type);
}

std::uint64_t bytes_of(safetensor_type type) noexcept {
  return row_of(type).bytes;
}

}  // namespace orcd::engine
