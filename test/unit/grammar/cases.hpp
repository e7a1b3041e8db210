// test/data/grammar/cases.json, written by test/oracle/grammar_cases.py.
#pragma once

#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>

#include "engine/grammar/grammar.hpp"
#include "engine/grammar/matcher.hpp"

namespace orcd::test {

inline boost::json::value read_json(const std::string& name) {
  std::ifstream in(std::string(ORCD_TEST_DATA "/grammar/") + name, std::ios::binary);
  BOOST_REQUIRE_MESSAGE(in.is_open(), name);
  std::ostringstream text;
  text << in.rdbuf();
  return boost::json::parse(text.str());
}

inline std::string text_of(const boost::json::value& value) {
  return {value.get_string().data(), value.get_string().size()};
}

inline std::shared_ptr<const engine::grammar::program> compiled(const boost::json::value& schema) {
  const auto made = engine::grammar::compile_json_schema(schema);
  BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
  return *made;
}

/// Byte by byte, to the end.
inline bool takes(const std::shared_ptr<const engine::grammar::program>& program,
                  const std::shared_ptr<const engine::grammar::token_table>& table, std::string_view text) {
  engine::grammar::matcher m(program, table);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!m.accept_text(text.substr(i, 1))) return false;
  }
  return m.may_end();
}

}  // namespace orcd::test
