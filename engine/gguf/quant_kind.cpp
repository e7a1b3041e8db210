#include <map>

#include "engine/gguf/gguf_contents.hpp"
#include "engine/gguf/gguf_file.hpp"

namespace orcd::engine {
namespace {

/// The name of a general.file_type; empty for a number without one.
std::string_view file_type_name(std::uint64_t id) {
  switch (id) {
    case 0: return "F32";
    case 1: return "F16";
    case 2: return "Q4_0";
    case 3: return "Q4_1";
    case 7: return "Q8_0";
    case 8: return "Q5_0";
    case 9: return "Q5_1";
    case 10: return "Q2_K";
    case 11: return "Q3_K_S";
    case 12: return "Q3_K_M";
    case 13: return "Q3_K_L";
    case 14: return "Q4_K_S";
    case 15: return "Q4_K_M";
    case 16: return "Q5_K_S";
    case 17: return "Q5_K_M";
    case 18: return "Q6_K";
    case 19: return "IQ2_XXS";
    case 20: return "IQ2_XS";
    case 21: return "Q2_K_S";
    case 22: return "IQ3_XS";
    case 23: return "IQ3_XXS";
    case 25: return "IQ4_NL";
    case 26: return "IQ3_S";
    case 27: return "IQ3_M";
    case 28: return "IQ2_S";
    case 29: return "IQ2_M";
    case 30: return "IQ4_XS";
    case 32: return "BF16";
    case 36: return "TQ1_0";
    case 37: return "TQ2_0";
    case 38: return "MXFP4";
    case 39: return "NVFP4";
    default: return {};
  }
}

constexpr std::uint64_t guessed = 1024;  ///< added by writers that derived the type from the tensors

}  // namespace

std::string gguf_file::quant_kind() const {
  const gguf_value* value = find("general.file_type");
  if (value != nullptr) {
    if (const auto* id = std::get_if<std::uint64_t>(&value->value)) {
      if (const auto name = file_type_name(*id >= guessed ? *id - guessed : *id); !name.empty()) {
        return std::string(name);
      }
    }
  }
  // Not the bytes: the embedding of a ternary model has more of them than all of its matrices.
  std::map<ggml_type, std::uint64_t> values;
  for (const tensor_view& tensor : tensors()) values[tensor.type] += tensor.elements();
  std::string_view name = "none";
  std::uint64_t most = 0;
  for (const auto& [type, sum] : values) {
    if (sum <= most) continue;
    most = sum;
    name = traits_of(type).name;
  }
  return std::string(name);
}

}  // namespace orcd::engine
