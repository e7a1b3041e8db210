// Random walks over masks, from the beginning to an end token: what comes out was judged by jsonschema
// (test/oracle/grammar_cases.py), and each mask is compared with trying every token.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <random>

#include "cases.hpp"
#include "piece_tokenizer.hpp"

namespace {

using namespace orcd;
using namespace orcd::test;
namespace grammar = engine::grammar;

const piece_tokenizer& vocabulary() {
  static const piece_tokenizer made(json_pieces());
  return made;
}

class walk {
 public:
  walk(const std::shared_ptr<const grammar::program>& program, std::uint64_t seed)
      : program_(program), random_(seed), matcher_(program, table()) {}

  std::string run() {
    for (int i = 0; i < 5'000; ++i) {
      if (matcher_.complete()) BOOST_TEST(matcher_.may_end());
      const engine::token_mask mask = matcher_.mask();
      if (i % 16 == 0) compare(mask);
      const engine::token_id token = choose(mask);
      BOOST_REQUIRE_MESSAGE(token >= 0, "nothing can follow " << text_);
      if (token == vocabulary().end()) return text_;
      BOOST_REQUIRE(matcher_.accept(token));
      accepted_.push_back(token);
      text_ += vocabulary().text(token);
    }
    BOOST_FAIL("no end after " << text_);
    return {};
  }

 private:
  static const std::shared_ptr<const grammar::token_table>& table() {
    static const auto made = grammar::make_token_table(vocabulary(), vocabulary().vocab_size() + 7);
    return made;
  }

  void compare(engine::token_mask mask) {
    for (engine::token_id token = 0; token < vocabulary().end(); ++token) {
      grammar::matcher fresh(program_, table());
      for (const engine::token_id before : accepted_) BOOST_REQUIRE(fresh.accept(before));
      const bool expected = fresh.accept(token);
      if (expected != engine::allows(mask, token)) {
        BOOST_ERROR("after " << text_ << " token " << vocabulary().text(token) << " is "
                             << (expected ? "missing" : "allowed"));
      }
    }
    BOOST_TEST(engine::allows(mask, vocabulary().end()) == matcher_.may_end());
    BOOST_TEST(!engine::allows(mask, vocabulary().end() + 1));
  }

  // Ends often, so that the walk does.
  engine::token_id choose(engine::token_mask mask) {
    std::vector<engine::token_id> all, closing;
    for (engine::token_id token = 0; token <= vocabulary().end(); ++token) {
      if (!engine::allows(mask, token)) continue;
      all.push_back(token);
      const char first = vocabulary().text(token).front();
      const bool closes =
          vocabulary().text(token).size() == 1 && (first == '"' || first == '}' || first == ']');
      if (closes || token == vocabulary().end()) closing.push_back(token);
    }
    if (all.empty()) return -1;
    const auto& from = !closing.empty() && random_() % 3 == 0 ? closing : all;
    return from[random_() % from.size()];
  }

  const std::shared_ptr<const grammar::program>& program_;
  std::mt19937_64 random_;
  grammar::matcher matcher_;
  std::string text_;
  std::vector<engine::token_id> accepted_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(generation)

BOOST_AUTO_TEST_CASE(gives_what_a_validator_has_judged) {
  boost::json::object out;
  const auto cases = read_json("cases.json");
  for (const auto& item : cases.at("schemas").as_array()) {
    BOOST_TEST_CONTEXT(text_of(item.at("name"))) {
      const auto program = compiled(item.at("schema"));
      boost::json::array texts;
      for (std::uint64_t seed = 1; seed <= 12; ++seed) texts.emplace_back(walk(program, seed).run());
      out[text_of(item.at("name"))] = std::move(texts);
    }
  }
  if (const char* path = std::getenv("ORCD_WRITE_GENERATED")) {
    std::ofstream(path) << boost::json::serialize(out) << '\n';
    return;
  }
  const auto golden = read_json("generated.json");
  for (const auto& member : out) {
    BOOST_TEST(golden.as_object().contains(member.key()));
    BOOST_TEST((golden.at(member.key()) == member.value()), member.key());
  }
}

BOOST_AUTO_TEST_SUITE_END()
