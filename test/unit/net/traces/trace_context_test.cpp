#include "net/traces/trace_context.hpp"

#include <boost/test/unit_test.hpp>

namespace orcd::net {
namespace {

const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string span = "00f067aa0ba902b7";

std::string header(const std::string& version, const std::string& flags, const std::string& more = "") {
  return version + "-" + trace + "-" + span + "-" + flags + more;
}

BOOST_AUTO_TEST_SUITE(trace_context)

BOOST_AUTO_TEST_CASE(a_parent) {
  const auto parent = parse_traceparent(header("00", "01"));
  BOOST_TEST_REQUIRE(parent.has_value());
  BOOST_TEST(parent->trace_id == trace);
  BOOST_TEST(parent->span_id == span);
  BOOST_TEST(parent->sampled);
  BOOST_TEST(!parse_traceparent(header("00", "00"))->sampled);
  BOOST_TEST(!parse_traceparent(header("00", "02"))->sampled);
  BOOST_TEST(parse_traceparent(header("00", "ff"))->sampled);
}

BOOST_AUTO_TEST_CASE(later_versions_may_have_more_fields) {
  BOOST_TEST(parse_traceparent(header("01", "01")).has_value());
  BOOST_TEST(parse_traceparent(header("cc", "01", "-what-comes")).has_value());
  BOOST_TEST(!parse_traceparent(header("cc", "01", ".")).has_value());
  BOOST_TEST(!parse_traceparent(header("00", "01", "-more")).has_value());
}

BOOST_AUTO_TEST_CASE(what_is_no_parent) {
  const std::string none(32, '0');
  const auto upper = "00-4BF92F3577B34DA6A3CE929D0E0E4736-" + span + "-01";
  for (const std::string& bad :
       {std::string(), std::string("00"), header("ff", "01"), header("0", "01"), header("0g", "01"), upper,
        header("00", "0"), header("00", "0x"), header("00", "01", " "), header("00", "01", "-"),
        "00-" + none + "-" + span + "-01", "00-" + trace + "-0000000000000000-01", "00-" + trace + "-" + span,
        "00-" + trace + span + "-01", "00_" + trace + "-" + span + "-01", " " + header("00", "01"),
        "00-" + trace + "0-" + span + "-01"}) {
    BOOST_TEST(!parse_traceparent(bad).has_value(), bad);
  }
  // Each of its parts cut off at every length.
  const std::string whole = header("00", "01");
  for (std::size_t n = 0; n < whole.size(); ++n) BOOST_TEST(!parse_traceparent(whole.substr(0, n)));
}

BOOST_AUTO_TEST_CASE(a_state_is_passed_on_within_limits) {
  BOOST_TEST(is_tracestate("vendor=value,other=1"));
  BOOST_TEST(is_tracestate("vendor=value,\tother=1 \t,, third=a b"));
  BOOST_TEST(is_tracestate(std::string(512, 'a')));
  for (const std::string& bad : {std::string(), std::string(513, 'a'), std::string("a=\xC3\xA9"),
                                 std::string("a=\tb"), std::string("a=1,b=\x7F"), std::string("a=\0b", 4)}) {
    BOOST_TEST(!is_tracestate(bad));
  }
}

BOOST_AUTO_TEST_CASE(samplers) {
  BOOST_TEST(parse_sampler("", "0.1")->ratio == 1.0);
  BOOST_TEST(parse_sampler("parentbased_always_on", "")->follows_parent);
  BOOST_TEST(parse_sampler("parentbased_always_off", "")->ratio == 0.0);
  BOOST_TEST(parse_sampler("parentbased_traceidratio", "0.25")->ratio == 0.25);
  BOOST_TEST(parse_sampler("traceidratio", "")->ratio == 1.0);
  BOOST_TEST(!parse_sampler("traceidratio", "0.5")->follows_parent);
  BOOST_TEST(!parse_sampler("always_on", "")->follows_parent);
  for (const char* bad :
       {"jaeger_remote", "parentbased_", "parentbased_parentbased_always_on", "ALWAYS_ON"}) {
    BOOST_TEST(!parse_sampler(bad, "").has_value(), bad);
  }
  for (const char* bad : {"2", "-0.1", "nan", "inf", "0.5x", " 1", "x"}) {
    BOOST_TEST(!parse_sampler("traceidratio", bad).has_value(), bad);
    BOOST_TEST(!parse_ratio(bad).has_value(), bad);
  }
}

BOOST_AUTO_TEST_CASE(the_parent_decides_before_the_ratio) {
  const trace_parent kept{trace, span, true};
  const trace_parent left{trace, span, false};
  BOOST_TEST(is_sampled({true, 0.0}, trace, kept));
  BOOST_TEST(!is_sampled({true, 1.0}, trace, left));
  BOOST_TEST(is_sampled({false, 1.0}, trace, left));
  BOOST_TEST(!is_sampled({false, 0.0}, trace, kept));
}

BOOST_AUTO_TEST_CASE(a_ratio_keeps_the_highest_ids) {
  const std::string low = std::string(18, 'f') + std::string(14, '0');
  const std::string high = std::string(18, '0') + std::string(14, 'f');
  BOOST_TEST(is_sampled({true, 1.0}, low, {}));
  BOOST_TEST(is_sampled({true, 0.01}, high, {}));
  BOOST_TEST(!is_sampled({true, 0.0}, high, {}));
  BOOST_TEST(!is_sampled({true, 0.99}, low, {}));
  const std::string middle = std::string(18, '0') + "80000000000000";
  BOOST_TEST(is_sampled({true, 0.5}, middle, {}));
  BOOST_TEST(!is_sampled({true, 0.49}, middle, {}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
