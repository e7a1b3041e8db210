// Renders one template and says what came of it. Aborts the test case when a data file is not there.
#pragma once

#include <boost/json.hpp>
#include <ctime>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "engine/jinja/chat_template.hpp"

namespace orcd::test {

inline std::string read_data(const std::string& name) {
  std::ifstream in(std::string(ORCD_TEST_DATA "/chat/") + name, std::ios::binary);
  if (!in) throw std::runtime_error("no test data " + name);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// Noon of 15 July 2025, local time, as in test/oracle/chat_templates.py.
inline std::chrono::system_clock::time_point oracle_now() {
  std::tm day{};
  day.tm_year = 2025 - 1900;
  day.tm_mon = 6;
  day.tm_mday = 15;
  day.tm_hour = 12;
  day.tm_isdst = -1;
  return std::chrono::system_clock::from_time_t(std::mktime(&day));
}

inline engine::result<std::string> render(std::string_view text, const boost::json::object& variables,
                                          const engine::template_limits& limits = {}) {
  const auto compiled = engine::chat_template::compile(text, limits);
  if (!compiled) return compiled.error();
  return compiled->render(variables, oracle_now());
}

/// The text, or "error PARAM: MESSAGE".
inline std::string outcome(const engine::result<std::string>& rendered) {
  return rendered ? *rendered : "error " + rendered.error().param + ": " + rendered.error().message;
}

/// Whether a rendering is what Jinja2 made of it: its text, its raise_exception, or any error where it has
/// one.
inline bool as_expected(const engine::result<std::string>& got, const boost::json::object& expected) {
  if (const auto* text = expected.if_contains("text")) return got.has_value() && *got == text->as_string();
  if (got.has_value()) return false;
  const auto* raised = expected.if_contains("raised");
  return raised == nullptr || (got.error().param == "messages" && got.error().message == raised->as_string());
}

}  // namespace orcd::test
