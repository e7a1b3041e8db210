// The command line of the token pipe. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "app/pipe/sdk_config.hpp"

namespace orcd::app {

struct pipe_arguments {
  enum class action { run, help, version };
  action what = action::run;
  std::string model_dir;
  std::optional<std::string> adapter;  ///< the folder of qmodel.lora
  std::optional<sdk_config> config;    ///< nullopt: the first block of standard input has it
};

/// `words` without the program's name. --lora may stand before or after the values of --config; without a
/// folder it means model_dir. Errors (invalid_request) name the argument, its value and what it may be.
[[nodiscard]] engine::result<pipe_arguments> parse_pipe_arguments(std::span<const std::string_view> words);

[[nodiscard]] std::string_view pipe_usage() noexcept;

}  // namespace orcd::app
