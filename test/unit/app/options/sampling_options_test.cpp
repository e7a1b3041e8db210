// Options of what holds for requests that do not say it.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "test/unit/app/options/parsed_options.hpp"

namespace orcd {
namespace {

using test::refused;
using test::taken_options;

BOOST_AUTO_TEST_SUITE(sampling_options)

BOOST_AUTO_TEST_CASE(each_is_taken) {
  const auto opts = taken_options({"--temperature",
                                   "0.5",
                                   "--top-k",
                                   "40",
                                   "--top-p",
                                   "0.9",
                                   "--min-p",
                                   "0.05",
                                   "--repeat-penalty",
                                   "1.1",
                                   "--presence-penalty",
                                   "-0.5",
                                   "--frequency-penalty",
                                   "2",
                                   "--repeat-last-n",
                                   "0",
                                   "--seed",
                                   "18446744073709551615",
                                   "--reasoning",
                                   "off",
                                   "--chat-template-kwargs",
                                   R"({"tone": "dry"})"});
  const auto& s = opts.sampling;
  BOOST_TEST(s.temperature.value() == 0.5F);
  BOOST_TEST(s.top_k.value() == 40U);
  BOOST_TEST(s.top_p.value() == 0.9F);
  BOOST_TEST(s.min_p.value() == 0.05F);
  BOOST_TEST(s.repetition_penalty.value() == 1.1F);
  BOOST_TEST(s.presence_penalty.value() == -0.5F);
  BOOST_TEST(s.frequency_penalty.value() == 2.0F);
  BOOST_TEST(s.repeat_last_n.value() == 0U);
  BOOST_TEST(opts.seed.value() == 18'446'744'073'709'551'615U);
  BOOST_TEST(opts.reasoning.value() == false);
  BOOST_TEST(opts.template_kwargs == R"({"tone": "dry"})");
  BOOST_TEST(!taken_options({"--seed", "-1"}).seed.has_value());
  BOOST_TEST(!taken_options({}).sampling.temperature.has_value());
  const auto rare = taken_options({"--dry-multiplier",
                                   "0.8",
                                   "--dry-base",
                                   "2",
                                   "--dry-allowed-length",
                                   "3",
                                   "--dry-penalty-last-n",
                                   "-1",
                                   "--xtc-probability",
                                   "0.5",
                                   "--xtc-threshold",
                                   "0.2",
                                   "--typical",
                                   "0.9",
                                   "--top-nsigma",
                                   "1.5",
                                   "--dynatemp-range",
                                   "0.5",
                                   "--dynatemp-exp",
                                   "2"})
                        .sampling;
  BOOST_TEST((rare.dry_multiplier == 0.8F && rare.dry_base == 2.0F && rare.dry_allowed_length == 3U));
  BOOST_TEST((rare.dry_last_n == engine::whole_sequence && rare.xtc_probability == 0.5F));
  BOOST_TEST((rare.xtc_threshold == 0.2F && rare.typical_p == 0.9F && rare.top_n_sigma == 1.5F));
  BOOST_TEST((rare.dynatemp_range == 0.5F && rare.dynatemp_exponent == 2.0F));
  BOOST_TEST(taken_options({"--temp", "0"}).sampling.temperature.value() == 0.0F);
}

BOOST_AUTO_TEST_CASE(values_that_are_none) {
  const std::vector<std::vector<std::string>> cases{{"--temperature", "2.5"},
                                                    {"--temperature", "-0.1"},
                                                    {"--temperature", "nan"},
                                                    {"--temperature", "warm"},
                                                    {"--top-k", "-1"},
                                                    {"--top-k", "1000001"},
                                                    {"--top-p", "0"},
                                                    {"--top-p", "1e-60"},
                                                    {"--top-p", "1.1"},
                                                    {"--min-p", "-1"},
                                                    {"--repeat-penalty", "0"},
                                                    {"--presence-penalty", "3"},
                                                    {"--repeat-last-n", "4097"},
                                                    {"--dry-multiplier", "-1"},
                                                    {"--dry-base", "0.5"},
                                                    {"--dry-penalty-last-n", "-2"},
                                                    {"--dry-penalty-last-n", "4294967295"},
                                                    {"--xtc-probability", "2"},
                                                    {"--typical-p", "1.5"},
                                                    {"--seed", "-2"},
                                                    {"--seed", "18446744073709551616"},
                                                    {"--reasoning", "maybe"},
                                                    {"--chat-template-kwargs", "[1]"},
                                                    {"--chat-template-kwargs", "{"},
                                                    {"--chat-template-kwargs", R"({"messages": []})"},
                                                    {"--chat-template-kwargs", std::string(20'000, ' ')}};
  for (const auto& one : cases) {
    BOOST_TEST(refused(one).find(one.front()) != std::string::npos, one.front() << " " << one.back());
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd
