// What an option is where nobody sets it: what its document says.
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <map>
#include <string>

#include "test/unit/app/options/parsed_options.hpp"

namespace orcd::test {
namespace {

/// By etc/worker-orcd.conf, which has a commented line `name = value` for every option.
std::map<std::string, std::string> documented_values() {
  std::map<std::string, std::string> out;
  std::ifstream file(ORCD_TEST_DATA "/../../etc/worker-orcd.conf");
  for (std::string line; std::getline(file, line);) {
    const auto equals = line.find(" = ");
    if (line.starts_with('#') && equals != std::string::npos && line.find(' ', 1) == equals)
      out[line.substr(1, equals - 1)] = line.substr(equals + 3);
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(option_defaults)

BOOST_AUTO_TEST_CASE(defaults_are_the_documented_ones) {
  const auto documented = documented_values();
  const auto o = taken_options({});
  const auto text = [](bool value) { return std::string(value ? "true" : "false"); };
  const std::map<std::string, std::string> defaults{
      {"gpu-device", std::to_string(o.gpu.index)},
      {"host", o.host},
      {"port", std::to_string(o.port)},
      {"max-tokens-in", std::to_string(o.max_tokens_in)},
      {"max-tokens-out", std::to_string(o.max_tokens_out)},
      {"max-prompt-chars", std::to_string(o.max_prompt_chars)},
      {"inference-timeout-sec", std::to_string(o.inference_timeout_sec)},
      {"residency-check-sec", std::to_string(o.residency_check_sec)},
      {"context", std::to_string(o.context)},
      {"slots", std::to_string(o.slots)},
      {"max-queue", std::to_string(o.max_queue)},
      {"kv-cache-size-mb", std::to_string(o.kv_cache_size_mb)},
      {"kv-tokens", std::to_string(o.kv_tokens)},
      {"no-prefix-cache", text(o.no_prefix_cache)},
      {"no-page", text(o.no_page)},
      {"cache-min-tokens", std::to_string(o.cache_min_tokens)},
      {"imc-sessions", std::to_string(o.imc_sessions)},
      {"drain-timeout", std::to_string(o.drain_timeout_sec)},
      {"max-connections", std::to_string(o.max_connections)},
      {"max-body-bytes", std::to_string(o.max_body_bytes)}};
  for (const auto& [name, value] : defaults) {
    BOOST_TEST_REQUIRE(documented.contains(name), name);
    BOOST_TEST(documented.at(name) == value, name << " is " << value);
  }
  // Words: what the documented one gives is what is there without it.
  const auto given = [&](const std::string& name) {
    return taken_options({"--" + name, documented.at(name)});
  };
  BOOST_TEST((given("backend").backend == o.backend));
  BOOST_TEST((given("deadline-mode").deadlines == o.deadlines));
  BOOST_TEST((given("log-format").format == o.format));
  BOOST_TEST((given("log-level").log_level == o.log_level));
  const auto boundaries = given("prefix-boundaries").prefix_boundaries;
  BOOST_TEST((!boundaries.bytes && boundaries.thousandths == o.prefix_boundaries.thousandths));
  const auto speculating = given("speculate");
  BOOST_TEST((speculating.speculate == o.speculate && speculating.drafts_always == o.drafts_always));
}

BOOST_AUTO_TEST_CASE(what_has_no_default_is_not_set) {
  const auto o = taken_options({});
  BOOST_TEST(o.model == "m.gguf");
  BOOST_TEST(o.tokenizer == "");
  BOOST_TEST(o.gpu.uuid == "");
  BOOST_TEST(o.callback_url == "");
  BOOST_TEST(!o.rope.scaling.has_value());
  BOOST_TEST(!o.rope.freq_base.has_value());
  BOOST_TEST(o.warnings.empty());
  BOOST_TEST(!o.api_ollama.has_value());
  BOOST_TEST(taken_options({"--api-ollama"}).api_ollama.value());
  BOOST_TEST(!taken_options({"--api-ollama", "false"}).api_ollama.value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
