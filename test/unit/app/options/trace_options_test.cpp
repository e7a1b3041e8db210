#include <boost/test/unit_test.hpp>

#include "app/options/parse_options.hpp"

namespace orcd::app {
namespace {

options read(std::vector<std::string> more, const environment& env) {
  std::vector<std::string> args = {"--model", "m.gguf"};
  args.insert(args.end(), more.begin(), more.end());
  const auto none = [](const std::string&) { return engine::result<std::string>(std::string()); };
  return parse_options(args, env, none).value().opts;
}

BOOST_AUTO_TEST_SUITE(traces)

BOOST_AUTO_TEST_CASE(off_unless_asked_for) {
  const auto o = read({}, {{"OTEL_SERVICE_NAME", "x"}, {"OTEL_TRACES_SAMPLER", "wrong"}});
  BOOST_TEST(o.traces.endpoint == "");
  BOOST_TEST(o.warnings.empty());
}

BOOST_AUTO_TEST_CASE(options_go_before_variables) {
  const environment env = {{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b/own"},
                           {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"},
                           {"OTEL_TRACES_SAMPLER", "always_off"}};
  const auto given = read({"--otlp-endpoint", "http://a:4318", "--trace-ratio", "0.5"}, env);
  BOOST_TEST(given.traces.endpoint == "http://a:4318");
  BOOST_TEST(!given.traces.endpoint_is_whole);
  BOOST_TEST(given.traces.sampler.follows_parent);
  BOOST_TEST(given.traces.sampler.ratio == 0.5);
  const auto own = read({}, env);
  BOOST_TEST(own.traces.endpoint == "http://b/own");
  BOOST_TEST(own.traces.endpoint_is_whole);
  BOOST_TEST(!own.traces.sampler.follows_parent);
  BOOST_TEST(own.traces.sampler.ratio == 0.0);
  const auto both = read({}, {{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ""}, env[1]});
  BOOST_TEST(both.traces.endpoint == "http://c");
  BOOST_TEST(!both.traces.endpoint_is_whole);
}

BOOST_AUTO_TEST_CASE(wrong_variables_are_left_with_a_warning) {
  const auto o = read({}, {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"},
                           {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "grpc://secret:4317"},
                           {"OTEL_TRACES_SAMPLER", "traceidratio"},
                           {"OTEL_TRACES_SAMPLER_ARG", "7"},
                           {"OTEL_SERVICE_NAME", "\xFF"},
                           {"OTEL_RESOURCE_ATTRIBUTES", "secret"},
                           {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
                           {"OTEL_EXPORTER_OTLP_HEADERS", "key=secret"}});
  BOOST_TEST(o.traces.endpoint == "http://c");
  BOOST_TEST(o.traces.sampler.ratio == 1.0);
  BOOST_TEST(o.traces.service_name == "");
  BOOST_TEST(o.traces.resource.empty());
  BOOST_TEST(o.warnings.size() == 6U);
  for (const auto& warning : o.warnings) BOOST_TEST(warning.find("secret") == std::string::npos, warning);
}

BOOST_AUTO_TEST_CASE(another_protocol_is_left_with_a_warning) {
  const auto warnings = [](const environment& protocols) {
    environment all = {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"}};
    all.insert(all.end(), protocols.begin(), protocols.end());
    const auto o = read({}, all);
    BOOST_TEST(o.traces.endpoint == "http://c:4317");
    return o.warnings;
  };
  const std::string all = "OTEL_EXPORTER_OTLP_PROTOCOL", own = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
  for (const char* const wrong : {"grpc", "GRPC", "http", "http/json2"}) {
    BOOST_TEST_REQUIRE(warnings({{all, wrong}}).size() == 1U, wrong);
    BOOST_TEST(warnings({{all, wrong}})[0].find(all) != std::string::npos);
    BOOST_TEST(warnings({{all, wrong}, {own, "http/json"}}).empty());
    BOOST_TEST_REQUIRE(warnings({{all, "http/json"}, {own, wrong}}).size() == 1U);
    BOOST_TEST(warnings({{all, "http/json"}, {own, wrong}})[0].find(own) != std::string::npos);
  }
  for (const char* const right : {"", "http/json", "HTTP/JSON", "http/protobuf"}) {
    BOOST_TEST(warnings({{all, right}}).empty(), right);
  }
}

BOOST_AUTO_TEST_CASE(the_whole_can_be_turned_off) {
  for (const auto& [name, value] :
       environment{{"OTEL_SDK_DISABLED", "True"}, {"OTEL_TRACES_EXPORTER", "none"}}) {
    BOOST_TEST(read({}, {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"}, {name, value}}).traces.endpoint == "");
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::app
