#include "app/quantize/arguments.hpp"

#include <boost/test/unit_test.hpp>

using namespace orcd;
using namespace orcd::app;
using words = std::vector<std::string_view>;

namespace {

const words sdk{"--manifest",
                "m",
                "--output",
                "o",
                "--arch",
                "2",
                "--hidden-dim",
                "256",
                "--intermediate-dim",
                "384",
                "--intermediate-dim-orig",
                "300",
                "--norm-eps",
                "1e-05",
                "--rope-theta",
                "500000.0",
                "--max-pos",
                "512",
                "--head-dim",
                "64",
                "--tie-embeddings"};

std::string refusal(const words& given) {
  const auto parsed = parse_quantize_arguments(given);
  BOOST_REQUIRE(!parsed);
  BOOST_TEST((parsed.error().code == engine::errc::invalid_request));
  return parsed.error().message;
}

words with(std::initializer_list<std::string_view> more) {
  words out = sdk;
  out.insert(out.end(), more);
  return out;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(quantize_arguments_of)

BOOST_AUTO_TEST_CASE(a_call_of_the_sdk) {
  const auto parsed = parse_quantize_arguments(sdk);
  BOOST_REQUIRE_MESSAGE(parsed, (parsed ? "" : parsed.error().message));
  BOOST_TEST((parsed->what == quantize_arguments::action::manifest));
  const model_sizes& s = parsed->manifest.sizes;
  BOOST_TEST((s.arch == model_arch::llama && s.tied));
  BOOST_TEST(s.hidden_original == 256U);
  BOOST_TEST(s.ffn == 384U);
  BOOST_TEST(s.ffn_original == 300U);
  BOOST_TEST(s.eps == 1e-5);
  BOOST_TEST(s.theta == 5e5);
  BOOST_TEST(s.rope_dim == 64U);
  BOOST_TEST(!parsed->manifest.lora_rank);
}

BOOST_AUTO_TEST_CASE(a_call_by_a_person) {
  const auto parsed =
      parse_quantize_arguments(words{"--type=tq1_0", "model", "--out", "x.gguf", "--embedding", "q8_0"});
  BOOST_REQUIRE_MESSAGE(parsed, (parsed ? "" : parsed.error().message));
  BOOST_TEST(parsed->directory.model == "model");
  BOOST_TEST((parsed->directory.type == engine::ggml_type::tq1_0));
  BOOST_TEST((parsed->directory.embedding == engine::ggml_type::q8_0));
}

BOOST_AUTO_TEST_CASE(numbers_that_are_none) {
  for (const std::string_view bad :
       {"", "-1", "0", "1.5", "0x10", "1025", "18446744073709551616", " 4", "4 "}) {
    BOOST_TEST(has(refusal(with({"--num-heads", bad})), "--num-heads"), bad);
  }
  for (const std::string_view bad : {"inf", "nan", "-1", "0", "1e400", "1,5", "x"}) {
    words given = sdk;
    given[13] = bad;
    BOOST_TEST(has(refusal(given), "--norm-eps"), bad);
  }
}

BOOST_AUTO_TEST_CASE(what_does_not_go_together) {
  BOOST_TEST(has(refusal(with({"--out", "x"})), "--out"));
  BOOST_TEST(has(refusal(with({"model"})), "is for --manifest"));
  BOOST_TEST(has(refusal(with({"--tie-embeddings"})), "twice"));
  BOOST_TEST(has(refusal({"--manifest", "m"}), "--output is missing"));
  BOOST_TEST(has(refusal(with({"--hidden-dim-orig", "128"})), "rounded up"));
}

BOOST_AUTO_TEST_CASE(help_wins) {
  const auto parsed = parse_quantize_arguments(words{"model", "--help"});
  BOOST_REQUIRE(parsed);
  BOOST_TEST((parsed->what == quantize_arguments::action::help));
}

BOOST_AUTO_TEST_SUITE_END()
