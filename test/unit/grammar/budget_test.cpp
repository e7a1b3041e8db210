// What a compilation may spend is asked for before it is spent: the worst schemas are refused within their
// budget, what the budget counts is what the heap gives, and honest schemas are far from it.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>

#include "cases.hpp"
#include "engine/grammar/compile_budget.hpp"
#include "engine/grammar/program.hpp"
#include "piece_tokenizer.hpp"
#include "test/support/counted_memory.hpp"
#include "test/support/thread_time.hpp"
#include "worst_to_follow.hpp"

namespace {

using namespace orcd;
using namespace orcd::test;
namespace grammar = engine::grammar;
using grammar::compile_budget;

constexpr grammar::compile_limits limits;
constexpr double mib = 1U << 20U;

struct spent {
  std::string refusal;  ///< empty: it compiled
  compile_budget::figures counted;
  std::size_t heap_peak = 0;
  double ms = 0;
};

spent compile(const boost::json::value& schema) {
  spent out;
  const heap_watch heap;
  const double start = cpu_ms();
  {
    const auto made = grammar::compile_json_schema(schema);
    if (!made) out.refusal = made.error().message;
  }
  out.ms = cpu_ms() - start;
  out.heap_peak = heap.peak();
  out.counted = compile_budget::last();
  return out;
}

void show(const std::string& name, const spent& s) {
  BOOST_TEST_MESSAGE(name << ": " << s.counted.work << " steps, " << s.ms << " ms, counted "
                          << static_cast<double>(s.counted.bytes_peak) / mib << " MiB, heap "
                          << static_cast<double>(s.heap_peak) / mib << " MiB " << s.refusal.substr(0, 200));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(budgets)

BOOST_AUTO_TEST_CASE(the_worst_schemas_end_within_the_budget) {
  for (const auto& [name, schema] : costly_schemas()) {
    BOOST_TEST_CONTEXT(name) {
      const spent s = compile(schema);
      show(name, s);
      BOOST_TEST(s.counted.work <= limits.work);
      BOOST_TEST(s.counted.bytes_peak <= limits.bytes);
      // Counted is what the heap gives, but for its own heads and rounding, and a few buffers at hand.
      BOOST_TEST(s.heap_peak <= limits.bytes * 4 / 3);
      BOOST_TEST(s.heap_peak <= s.counted.bytes_peak * 4 / 3 + (2U << 20U));
      BOOST_TEST(s.ms < 5'000.0);
      if (!s.refusal.empty()) BOOST_TEST(s.refusal.find(": the schema is too ") != std::string::npos);
      if (!s.refusal.empty()) BOOST_TEST(s.refusal.size() < 2'000U);
    }
  }
}

BOOST_AUTO_TEST_CASE(schemas_that_explode_are_refused_with_their_path) {
  const std::set<std::string> refused{"counts nested twice",        "counts nested thrice",
                                      "the twentieth from the end", "many letters from the end",
                                      "long tails side by side",    "any character, optional",
                                      "a thousand alternatives",    "280 bytes",
                                      "one string of a million",    "128 lists told apart",
                                      "1,000 ranges of numbers",    "doubled references to a long name"};
  std::size_t found = 0;
  for (const auto& [name, schema] : costly_schemas()) {
    if (!refused.contains(name)) continue;
    ++found;
    const spent s = compile(schema);
    BOOST_TEST(s.refusal.find(": the schema is too complex: it takes more than ") != std::string::npos,
               name << ": " << s.refusal);
    if (schema.get_object().contains("pattern"))
      BOOST_TEST(s.refusal.starts_with("#/pattern: "), name << ": " << s.refusal);
  }
  BOOST_TEST(found == refused.size());
}

BOOST_AUTO_TEST_CASE(the_same_schema_has_the_same_answer_and_costs_the_same) {
  for (const auto& [name, schema] : costly_patterns()) {
    const spent first = compile(schema);
    const spent second = compile(schema);
    BOOST_TEST(first.refusal == second.refusal, name);
    BOOST_TEST(first.counted.work == second.counted.work, name);
    BOOST_TEST(first.counted.bytes_peak == second.counted.bytes_peak, name);
  }
}

BOOST_AUTO_TEST_CASE(honest_schemas_use_little_of_it) {
  const auto cases = read_json("cases.json");
  spent most;
  for (const auto& item : cases.at("schemas").as_array()) {
    const spent s = compile(item.at("schema"));
    BOOST_TEST(s.refusal.empty(), text_of(item.at("name")));
    most.counted.work = std::max(most.counted.work, s.counted.work);
    most.counted.bytes_peak = std::max(most.counted.bytes_peak, s.counted.bytes_peak);
    most.ms = std::max(most.ms, s.ms);
  }
  show("the most of all cases", most);
  BOOST_TEST(most.counted.work < limits.work / 10);
  BOOST_TEST(most.counted.bytes_peak < limits.bytes / 10);
}

BOOST_AUTO_TEST_CASE(nothing_is_held_when_a_compilation_has_ended) {
  (void)compile(with_pattern("^a$"));
  const heap_watch heap;
  for (const auto& [name, schema] : costly_references()) (void)compile(schema);
  BOOST_TEST(heap.held() < 100'000);
}

BOOST_AUTO_TEST_CASE(a_budget_is_asked_first) {
  compile_budget budget({100, 1'000});
  BOOST_CHECK_THROW(compile_budget::take(1'001), grammar::grammar_failure);
  BOOST_TEST(budget.bytes() == 0U);
  grammar::counted_vector<char> some(600);
  BOOST_CHECK_THROW(grammar::counted_vector<char>(600), grammar::grammar_failure);
  some = grammar::counted_vector<char>();
  const grammar::counted_vector<char> again(600);
  BOOST_TEST(budget.bytes_peak() == 600U);
  boost::json::array list(compile_budget::json());
  BOOST_CHECK_THROW(list.resize(100), grammar::grammar_failure);
  compile_budget::work(50);
  BOOST_CHECK_THROW(compile_budget::work(51), grammar::grammar_failure);
}

BOOST_AUTO_TEST_CASE(a_refusal_names_the_place_that_is_at_work) {
  const std::string outer = "#/a", inner = "#/a/b";
  const auto place_of_refusal = [] {
    try {
      compile_budget::work(1'000);
    } catch (const grammar::grammar_failure& failure) {
      return failure.where;
    }
    return std::string();
  };
  const compile_budget budget({100, 1'000});
  BOOST_TEST(place_of_refusal() == "#");
  const compile_budget::place here(outer);
  {
    const compile_budget::place below(inner);
    BOOST_TEST(place_of_refusal() == inner);
  }
  BOOST_TEST(place_of_refusal() == outer);
}

BOOST_AUTO_TEST_CASE(without_a_budget_nothing_is_refused) {
  compile_budget::work(~0ULL);
  BOOST_TEST(grammar::counted_vector<char>(1'000'000).size() == 1'000'000U);
  const compile_budget budget({10, 10});
  {
    const compile_budget inside;
    compile_budget::work(1'000);
  }
  BOOST_CHECK_THROW(compile_budget::work(1'000), grammar::grammar_failure);
}

// Each '[' may open many arrays, each string be many strings: what is followed, and kept, is bounded.
BOOST_AUTO_TEST_CASE(what_a_matcher_keeps_is_bounded) {
  const piece_tokenizer vocabulary(json_pieces());
  const auto table = grammar::make_token_table(vocabulary, vocabulary.vocab_size());
  for (const auto& [name, schema] : costly_to_follow()) {
    const auto program = compiled(schema);
    const heap_watch heap;
    grammar::matcher m(program, table);
    std::uint64_t seed = 11;
    for (int i = 0; i < 600 && m.failure().empty(); ++i) {
      const engine::token_mask mask = m.mask();
      std::vector<engine::token_id> allowed;
      for (engine::token_id token = 0; token < vocabulary.end(); ++token) {
        const bool ends = vocabulary.text(token).find_first_of("\"]}") != std::string::npos && i > 1;
        if (engine::allows(mask, token) && (!ends || allowed.empty())) allowed.push_back(token);
      }
      if (allowed.empty()) break;
      seed = seed * 6364136223846793005U + 1442695040888963407U;
      BOOST_REQUIRE(m.accept(allowed[(seed >> 33U) % allowed.size()]));
    }
    BOOST_TEST_MESSAGE(name << ": " << static_cast<double>(heap.peak()) / mib << " MiB");
    BOOST_TEST(heap.peak() < (20U << 20U), name);
  }
}

BOOST_AUTO_TEST_CASE(wide_tokens_are_kept_within_their_bytes) {
  grammar::wide_cache cache;
  const auto of_size = [](std::size_t bytes) {
    grammar::wide_tokens out;
    out.within.resize(bytes / sizeof(std::uint32_t));
    return out;
  };
  for (std::uint32_t i = 0; i < 100; ++i) {
    (void)cache.find({1, i}, [&] { return of_size(grammar::wide_cache::bytes_max / 10); });
    BOOST_TEST(cache.bytes() <= grammar::wide_cache::bytes_max);
  }
  std::vector<std::unique_ptr<grammar::wide_cache>> many;
  for (int i = 0; i < 10; ++i) {
    many.push_back(std::make_unique<grammar::wide_cache>());
    (void)many.back()->find({1, 0}, [&] { return of_size(grammar::wide_cache::bytes_max - 1'000); });
    std::size_t all = cache.bytes();
    for (const auto& one : many) all += one->bytes();
    BOOST_TEST(all <= grammar::wide_cache::bytes_of_all_max);
  }
}

BOOST_AUTO_TEST_SUITE_END()
