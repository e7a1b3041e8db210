// Real templates and single constructs against Jinja2: test/oracle/chat_templates.py wrote what is expected.
#include <boost/test/unit_test.hpp>

#include "test/unit/jinja/render_case.hpp"

using namespace orcd;
using namespace orcd::test;

BOOST_AUTO_TEST_SUITE(oracle)

BOOST_AUTO_TEST_CASE(real_templates) {
  const auto expected = boost::json::parse(read_data("expected.json"));
  const auto scenarios = boost::json::parse(read_data("scenarios.json"));
  std::size_t texts = 0;
  for (const auto& entry : expected.as_object()) {
    const std::string name(entry.key());
    const auto compiled = engine::chat_template::compile(read_data("templates/" + name + ".jinja"));
    BOOST_REQUIRE_MESSAGE(compiled.has_value(), name);
    for (const auto& scenario : entry.value().as_object()) {
      const auto got = compiled->render(scenarios.at(scenario.key()).as_object(), oracle_now());
      BOOST_TEST(as_expected(got, scenario.value().as_object()),
                 name << ", " << scenario.key() << ": " << outcome(got));
      texts += got.has_value() ? 1 : 0;
    }
  }
  BOOST_TEST(expected.as_object().size() >= 19U);
  BOOST_TEST(texts >= 250U);
}

BOOST_AUTO_TEST_CASE(constructs) {
  const auto all = boost::json::parse(read_data("constructs.json"));
  const auto& variables = all.at("variables").as_object();
  for (const auto& one : all.at("cases").as_array()) {
    const std::string source(one.at("template").as_string());
    const auto got = render(source, variables);
    BOOST_TEST(as_expected(got, one.as_object()), source << "\n-> " << outcome(got));
  }
  BOOST_TEST(all.at("cases").as_array().size() >= 230U);
}

BOOST_AUTO_TEST_SUITE_END()
