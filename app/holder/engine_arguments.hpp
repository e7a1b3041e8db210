// The command lines of the engines that a holder runs: alike, but for what each must have of its own. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orcd::app {

/// What a holder says to all of its engines.
struct shared_arguments {
  std::string dir;
  std::string host;
  std::uint16_t port = 0;
  std::vector<std::string> options{};  ///< those behind --
};

/// The options of the engine of that number. A system port that all of them were given is that of engine 0,
/// and the others have those behind it; `variable` is one that their environment has for all, or empty.
[[nodiscard]] std::vector<std::string> engine_arguments(const shared_arguments& all, std::uint32_t number,
                                                        std::string_view variable);
/// What no engine could start with, as a sentence; nullopt where nothing is known to be wrong.
[[nodiscard]] std::optional<std::string> engine_options_problem(const shared_arguments& all,
                                                                std::uint32_t engines);

}  // namespace orcd::app
