// worker-orcd-inspect: its commands over streams, so that tests can call them.
#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <string_view>

#include "app/inspect/arguments.hpp"

namespace orcd::app {

// Exit statuses.
inline constexpr int inspect_done = 0;
inline constexpr int inspect_failed = 1;
inline constexpr int inspect_usage_wrong = 2;
inline constexpr int inspect_no_room = 3;  ///< the GPU that was given has too little memory

/// Parses the arguments and runs the command. Results go to `out`, one line about a failure to `err`; returns
/// the exit status.
int run_inspect(std::span<const std::string_view> words, std::istream& in, std::ostream& out,
                std::ostream& err);

// The commands: the whole output, or what went wrong.
[[nodiscard]] engine::result<std::string> inspect_info(const inspect_arguments& arguments);
[[nodiscard]] engine::result<std::string> inspect_tokenize(const inspect_arguments& arguments,
                                                           std::istream& in);
[[nodiscard]] engine::result<std::string> inspect_detokenize(const inspect_arguments& arguments,
                                                             std::istream& in);
[[nodiscard]] engine::result<std::string> inspect_chat(const inspect_arguments& arguments, std::istream& in);
/// A whole output that may end with 1 or 3: what was asked about is not so.
struct inspected {
  std::string text;
  int status = inspect_done;
};
[[nodiscard]] engine::result<inspected> inspect_plan(const inspect_arguments& arguments);
[[nodiscard]] engine::result<inspected> inspect_doctor(const inspect_arguments& arguments);

/// Reads a stream to its end, or a plain file, up to a limit; `name` is for messages.
[[nodiscard]] engine::result<std::string> read_input(std::istream& in, const std::string& name);
[[nodiscard]] engine::result<std::string> read_input_file(const std::string& path);
/// "1,234,567".
[[nodiscard]] std::string grouped(std::uint64_t value);

}  // namespace orcd::app
