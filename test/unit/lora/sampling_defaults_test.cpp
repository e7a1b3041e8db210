// What holds for requests that do not say how tokens are chosen: the operator's word, the file's, the API's.
#include "engine/served/sampling_defaults.hpp"

#include <boost/test/unit_test.hpp>
#include <limits>
#include <string>

#include "engine/sampling/sampling_ranges.hpp"
#include "test/support/gguf_writer.hpp"

namespace orcd {
namespace {

using engine::default_origin;

template <class Write>
engine::file_sampling read_of(Write write) {
  test::gguf_writer writer;
  writer.add("general.architecture", "llama");
  write(writer);
  const test::bytes image = writer.build();
  const auto file = engine::gguf_file::parse(image, "test.gguf").value();
  return engine::read_file_sampling(file);
}

BOOST_AUTO_TEST_SUITE(sampling_defaults)

BOOST_AUTO_TEST_CASE(a_file_recommends_by_the_keys_that_converters_write) {
  const auto read = read_of([](auto& w) {
    w.add("general.sampling.temp", 0.6F);
    w.add("general.sampling.top_k", std::int32_t{20});
    w.add("general.sampling.top_p", 0.95F);
    w.add("general.sampling.min_p", 0.0F);
    w.add("general.sampling.penalty_repeat", 1.05F);
    w.add("general.sampling.penalty_last_n", std::int32_t{-1});
    w.add("general.sampling.xtc_probability", 0.5F);
    w.add("general.sampling.xtc_threshold", 0.2F);
  });
  BOOST_TEST(read.left.empty());
  BOOST_TEST(read.values.temperature.value() == 0.6F);
  BOOST_TEST(read.values.top_k.value() == 20U);
  BOOST_TEST(read.values.top_p.value() == 0.95F);
  BOOST_TEST(read.values.min_p.value() == 0.0F);
  BOOST_TEST(read.values.repetition_penalty.value() == 1.05F);
  BOOST_TEST(read.values.repeat_last_n.value() == engine::repeat_last_n_max);
  BOOST_TEST((read.values.xtc_probability == 0.5F && read.values.xtc_threshold == 0.2F));
  BOOST_TEST(!read.values.presence_penalty.has_value());
  BOOST_TEST(!read_of([](auto&) {}).values.temperature.has_value());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_is_left_and_named) {
  const auto read = read_of([](auto& w) {
    w.add("general.sampling.temp", 3.0F);
    w.add("general.sampling.top_k", -1.5F);
    w.add("general.sampling.top_p", std::numeric_limits<float>::quiet_NaN());
    w.add("general.sampling.min_p", "much");
    w.add("general.sampling.xtc_probability", 1.5F);
    w.add("general.sampling.mirostat", std::int32_t{0});
    w.add("general.sampling.penalty_last_n", 1e300);
  });
  BOOST_TEST(read.left.size() == 6U);
  BOOST_TEST(read.left.front().find("general.sampling.temp") != std::string::npos);
  BOOST_TEST(!read.values.temperature.has_value());
  BOOST_TEST(!read.values.top_k.has_value());
  BOOST_TEST(!read.values.top_p.has_value());
  BOOST_TEST(!read.values.min_p.has_value());
}

BOOST_AUTO_TEST_CASE(a_top_k_of_nothing_is_off) {
  for (const std::int32_t k : {0, -1, -40}) {
    BOOST_TEST(read_of([k](auto& w) { w.add("general.sampling.top_k", k); }).values.top_k.value() == 0U);
  }
}

BOOST_AUTO_TEST_CASE(an_option_goes_before_the_file_and_both_are_told) {
  engine::sampling_values file, options;
  file.temperature = 0.5F;
  file.top_k = 7;
  options.top_k = 9;
  const auto settled = engine::settle_sampling(file, options);
  BOOST_TEST(settled.params.temperature == 0.5F);
  BOOST_TEST(settled.params.top_k == 9U);
  BOOST_TEST(settled.params.top_p == 1.0F);
  BOOST_TEST(settled.told.size() == 18U);
  for (const auto& one : settled.told) {
    const auto expected = one.name == "temperature" ? default_origin::file
                          : one.name == "top_k"     ? default_origin::option
                                                    : default_origin::api;
    BOOST_TEST((one.origin == expected), one.name);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd
