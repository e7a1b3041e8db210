// Before anything is written: what is written must not take the place of what is read, of another target, or
// of what is no file.
#pragma once

#include <span>
#include <string>

#include "engine/base/error.hpp"

namespace orcd::app {

/// `outputs` are names that output_file will write, each with its temporary one; `inputs` files that are
/// read, of which some may not exist. Errors are invalid_request and name both.
[[nodiscard]] engine::result<void> check_targets(std::span<const std::string> outputs,
                                                 std::span<const std::string> inputs);

}  // namespace orcd::app
