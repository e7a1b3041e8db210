// How the readers of adapters say what is wrong: one line, "FILE: TEXT". Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "engine/base/error.hpp"

namespace orcd::engine {

/// model_load_failed, as for a model's own file; the parameter is "lora".
[[nodiscard]] inline error adapter_error(std::string_view file, std::string_view text) {
  return {errc::model_load_failed, std::string(file) + ": " + std::string(text), "lora"};
}

/// What the GGUF reader and the mapping say of models, said of an adapter.
[[nodiscard]] inline error as_adapter_error(error failure) {
  failure.param = "lora";
  return failure;
}

}  // namespace orcd::engine
