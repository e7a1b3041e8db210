// Command lines of worker-orcd as tests parse them: with a model, and without a file of options.
#pragma once

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "app/options/parse_options.hpp"

namespace orcd::test {

inline engine::result<app::command> parse_command(std::vector<std::string> args,
                                                  const app::environment& env = {}) {
  args.insert(args.begin(), {"--model", "m.gguf"});
  return app::parse_options(args, env, [](const std::string&) -> engine::result<std::string> {
    return engine::error{engine::errc::internal, "no file"};
  });
}

inline app::options taken_options(const std::vector<std::string>& args, const app::environment& env = {}) {
  const auto parsed = parse_command(args, env);
  BOOST_TEST_REQUIRE(parsed.has_value(), (parsed ? "" : parsed.error().message));
  return parsed->opts;
}

/// The message.
inline std::string refused(const std::vector<std::string>& args, const app::environment& env = {}) {
  const auto parsed = parse_command(args, env);
  BOOST_TEST_REQUIRE(!parsed.has_value());
  return parsed.error().message;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace orcd::test
