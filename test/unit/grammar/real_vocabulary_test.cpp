// Masks over real vocabularies: a model's own tokens of a valid text are allowed at every step, masks agree
// with trying tokens one by one, and what they cost.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <random>

#include "cases.hpp"
#include "engine/text/tokenizer.hpp"

namespace {

using namespace orcd;
using namespace orcd::test;
namespace grammar = engine::grammar;
using clock_type = std::chrono::steady_clock;

std::unique_ptr<engine::tokenizer> load(const std::string& name) {
  std::ifstream in(ORCD_VOCABULARIES "/" + name + ".tokenizer.json", std::ios::binary);
  BOOST_REQUIRE(in.is_open());
  std::ostringstream text;
  text << in.rdbuf();
  auto made = engine::make_json_tokenizer(text.str());
  BOOST_REQUIRE(made.has_value());
  return std::move(*made);
}

double us_since(clock_type::time_point start) {
  return std::chrono::duration<double, std::micro>(clock_type::now() - start).count();
}

const char* const person_schema = R"({"type": "object", "properties": {
  "name": {"type": "string", "maxLength": 60}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
  "email": {"type": "string", "format": "email"}, "born": {"type": "string", "format": "date"},
  "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 20},
  "address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"},
    "country": {"enum": ["DE", "FR", "US", "中国"]}}, "required": ["street", "city", "country"],
    "additionalProperties": false},
  "notes": {"type": ["string", "null"]}, "score": {"type": "number", "minimum": 0, "maximum": 1}},
  "required": ["name", "age", "email", "born", "tags", "address", "notes", "score"],
  "additionalProperties": false})";
const char* const person = R"({
  "name": "Zoë \"Z\" O'Neill-Großmann", "age": 42,
  "email": "zoe.oneill@example.com", "born": "1983-02-28",
  "tags": ["early adopter", "日本語のテスト", "speaks 3 languages \u2014 fluently", "😀"],
  "address": {"street": "12 Long Street, second entrance behind the yard", "city": "Köln", "country": "DE"},
  "notes": "Met at the conference.\nWants a call back next week, but not before noon; prefers written notes.",
  "score": 0.875
})";
const char* const free_object =
    R"({"users": [{"id": 1, "tags": ["a", "b c"], "ok": true, "ratio": -1.5e3},
  {"id": 2, "tags": [], "ok": null, "text": "The quick brown fox jumps over the lazy dog; naïve café, 狐"}],
  "next": {"page": 2}})";

struct figures {
  double first = 0, median = 0, mean = 0, most = 0;
};

figures follow(const std::shared_ptr<const grammar::program>& program,
               const std::shared_ptr<const grammar::token_table>& table,
               std::span<const engine::token_id> tokens) {
  grammar::matcher m(program, table);
  std::vector<double> costs;
  for (const engine::token_id token : tokens) {
    const auto start = clock_type::now();
    const engine::token_mask mask = m.mask();
    const bool allowed = engine::allows(mask, token);
    const bool taken = m.accept(token);
    costs.push_back(us_since(start));
    BOOST_REQUIRE_MESSAGE(allowed && taken, "token " << costs.size());
  }
  BOOST_TEST(m.may_end());
  figures out;
  out.first = costs.front();
  for (const double cost : costs) out.mean += cost / static_cast<double>(costs.size());
  std::sort(costs.begin(), costs.end());
  out.median = costs[costs.size() / 2];
  out.most = costs.back();
  return out;
}

// Tokens drawn at random, tried one by one.
void compare_some(const std::shared_ptr<const grammar::program>& program,
                  const std::shared_ptr<const grammar::token_table>& table,
                  std::span<const engine::token_id> tokens, std::uint32_t vocabulary) {
  std::mt19937 random(3);
  for (std::size_t i = 0; i < tokens.size(); i += 9) {
    grammar::matcher m(program, table);
    for (std::size_t j = 0; j < i; ++j) BOOST_REQUIRE(m.accept(tokens[j]));
    const engine::token_mask mask = m.mask();
    const std::vector<std::uint32_t> words(mask.begin(), mask.end());
    std::size_t wrong = 0;
    for (int n = 0; n < 150; ++n) {
      const auto token = static_cast<engine::token_id>(random() % vocabulary);
      if (!table->has_text(token) && !table->has_marked(token)) continue;
      grammar::matcher trial(program, table);
      for (std::size_t j = 0; j < i; ++j) (void)trial.accept(tokens[j]);
      if (trial.accept(token) != engine::allows(words, token)) ++wrong;
    }
    BOOST_TEST(wrong == 0U);
  }
}

void measure(const std::string& name) {
  const auto vocabulary = load(name);
  auto start = clock_type::now();
  const auto table = grammar::make_token_table(*vocabulary, vocabulary->vocab_size() + 64);
  BOOST_TEST_MESSAGE(name << ": table of " << vocabulary->vocab_size() << " tokens, " << table->nodes()
                          << " nodes in " << us_since(start) / 1000 << " ms");
  start = clock_type::now();
  (void)table->string_body();
  BOOST_TEST_MESSAGE("  string body: " << table->string_body().ends.size() << " ends in "
                                       << us_since(start) / 1000 << " ms, once per model");
  start = clock_type::now();
  const auto schema = compiled(boost::json::parse(person_schema));
  BOOST_TEST_MESSAGE("  schema compiled in " << us_since(start) << " us");
  const auto tokens = [&](const char* text) { return vocabulary->encode(text, {false, false}); };
  for (const char* round : {"cold", "warm"}) {
    const figures f = follow(schema, table, tokens(person));
    const figures g = follow(grammar::json_object_grammar(), table, tokens(free_object));
    BOOST_TEST_MESSAGE("  " << round << " schema: first " << f.first << " us, median " << f.median
                            << ", mean " << f.mean << ", most " << f.most << "; json_object: first "
                            << g.first << ", median " << g.median << ", mean " << g.mean << ", most "
                            << g.most);
  }
  compare_some(schema, table, tokens(person), vocabulary->vocab_size());
  compare_some(grammar::json_object_grammar(), table, tokens(free_object), vocabulary->vocab_size());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(real_vocabulary)

BOOST_AUTO_TEST_CASE(qwen3) {
  measure("qwen3");
}
BOOST_AUTO_TEST_CASE(gpt_oss) {
  measure("gpt-oss");
}

BOOST_AUTO_TEST_SUITE_END()
