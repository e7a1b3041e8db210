// What is wrong with a file, as an error (model_load_failed).
#pragma once

#include <string>

#include "engine/base/error.hpp"

namespace orcd::app {

[[nodiscard]] inline engine::error refuse(const std::string& text) {
  return {engine::errc::model_load_failed, text};
}
[[nodiscard]] inline engine::error refuse(const std::string& file, const std::string& text) {
  return refuse(file + ": " + text);
}

}  // namespace orcd::app
