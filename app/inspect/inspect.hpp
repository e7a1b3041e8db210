// worker-orcd-inspect: its commands over streams, so that tests can call them.
#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <string_view>

#include "app/inspect/arguments.hpp"

namespace orcd::app {

/// Parses the arguments and runs the command. Results go to `out`, one line about a failure to `err`; returns
/// the exit status: 0 done, 1 failed, 2 wrong usage.
int run_inspect(std::span<const std::string_view> words, std::istream& in, std::ostream& out,
                std::ostream& err);

// The commands: the whole output, or what went wrong.
[[nodiscard]] engine::result<std::string> inspect_info(const inspect_arguments& arguments);
[[nodiscard]] engine::result<std::string> inspect_tokenize(const inspect_arguments& arguments,
                                                           std::istream& in);
[[nodiscard]] engine::result<std::string> inspect_detokenize(const inspect_arguments& arguments,
                                                             std::istream& in);
[[nodiscard]] engine::result<std::string> inspect_chat(const inspect_arguments& arguments, std::istream& in);
[[nodiscard]] engine::result<std::string> inspect_plan(const inspect_arguments& arguments);
/// A whole output that may end with 1: what was asked about is not so.
struct inspected {
  std::string text;
  int status = 0;
};
[[nodiscard]] engine::result<inspected> inspect_doctor(const inspect_arguments& arguments);

/// Reads a stream to its end, or a file, up to a limit; `name` is for messages.
[[nodiscard]] engine::result<std::string> read_input(std::istream& in, const std::string& name);
[[nodiscard]] engine::result<std::string> read_input_file(const std::string& path);
/// "1,234,567".
[[nodiscard]] std::string grouped(std::uint64_t value);

}  // namespace orcd::app
