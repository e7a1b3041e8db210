// What a grammar of plain text takes, and how it is refused.
#pragma once

#include <boost/test/unit_test.hpp>
#include <initializer_list>
#include <memory>
#include <string_view>

#include "cases.hpp"
#include "piece_tokenizer.hpp"

namespace orcd::test {

using made_grammar = engine::result<std::shared_ptr<const engine::grammar::program>>;
using texts = std::initializer_list<std::string_view>;

inline void expect_texts(const made_grammar& compiled, texts taken, texts left) {
  static const auto table = engine::grammar::make_token_table(piece_tokenizer(), 257);
  BOOST_REQUIRE_MESSAGE(compiled.has_value(), (compiled ? "" : compiled.error().message));
  for (const std::string_view text : taken) BOOST_TEST(takes(*compiled, table, text), text);
  for (const std::string_view text : left) BOOST_TEST(!takes(*compiled, table, text), text);
}

inline void expect_refused_at(const made_grammar& compiled, std::string_view message,
                              std::string_view param) {
  BOOST_REQUIRE_MESSAGE(compiled.has_error(), "taken, but should give " << message);
  BOOST_TEST(compiled.error().message.substr(0, message.size()) == message);
  BOOST_TEST((compiled.error().code == engine::errc::invalid_request));
  BOOST_TEST(compiled.error().param == param);
}

}  // namespace orcd::test
