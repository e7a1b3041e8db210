// The table of options as a whole, and the sample of the config file beside it.
#include "app/options/option_table.hpp"

#include <boost/test/unit_test.hpp>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "app/options/parse_options.hpp"

using namespace orcd;

BOOST_AUTO_TEST_SUITE(option_tables)

BOOST_AUTO_TEST_CASE(the_sample_config_shows_every_option_with_values_that_are_accepted) {
  const auto sample = app::read_config_file(ORCD_TEST_DATA "/../../etc/worker-orcd.conf");
  BOOST_REQUIRE(sample.has_value());
  std::istringstream lines(*sample);
  std::map<std::string, std::string> shown;
  for (std::string line; std::getline(lines, line);) {
    const auto equals = line.find(" = ");
    if (line.size() < 2 || line[0] != '#' || line[1] < 'a' || line[1] > 'z' || equals == std::string::npos) {
      BOOST_TEST((line.empty() || line[0] == '#'), line);  // the sample as installed sets nothing
      continue;
    }
    shown.emplace(line.substr(1, equals - 1), line.substr(1) + "\n");
  }
  BOOST_TEST(shown.size() == app::option_table().size());
  // Engines cannot have adapters loaded by clients, and the sample's backend takes no media.
  for (const char* const left_out : {"Failover", "LoRA adapters"}) {
    std::string text;
    for (const auto& row : app::option_table()) {
      BOOST_TEST_REQUIRE(shown.contains(row.name), row.name);
      if (row.group != left_out && row.group != "Pictures and sounds") text += shown.at(row.name);
    }
    const std::vector<std::string> args{"--config", "/c"};
    const auto parsed =
        app::parse_options(args, {}, [&](const std::string&) { return engine::result<std::string>(text); });
    BOOST_REQUIRE_MESSAGE(parsed.has_value(), (parsed ? "" : parsed.error().message));
    const app::options standard;
    BOOST_TEST(parsed->opts.max_body_bytes == standard.max_body_bytes);
    BOOST_TEST(parsed->opts.max_queue == standard.max_queue);
    BOOST_TEST(parsed->opts.inference_timeout_sec == standard.inference_timeout_sec);
  }
}

BOOST_AUTO_TEST_CASE(tokenizer_pre_is_a_known_name) {
  const auto parse = [](const std::string& name) {
    const std::vector<std::string> words{"--model", "m.gguf", "--tokenizer-pre", name};
    return app::parse_options(words, {}, [](const std::string&) { return engine::result<std::string>(""); });
  };
  const auto known = parse("deepseek-v3");
  BOOST_TEST_REQUIRE(known.has_value(), (known ? "" : known.error().message));
  BOOST_TEST(known->opts.tokenizer_pre == "deepseek-v3");
  const auto unknown = parse("deepseek-v9");
  BOOST_TEST_REQUIRE(unknown.has_error());
  BOOST_TEST(unknown.error().param == "tokenizer-pre");
  BOOST_TEST(unknown.error().message.find("must be one of: default gpt-2") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(every_row_refuses_what_it_cannot_be) {
  // No option of the table takes a control character; one that does has lost its check.
  const std::set<std::string> paths{"model",           "tokenizer",    "chat-template",
                                    "api-key-file",    "failover-dir", "failover-lock-path",
                                    "allow-lora-load", "weights-dir",  "mmproj"};
  for (const auto& row : app::option_table()) {
    if (paths.contains(row.name)) continue;  // any byte is a path
    app::options out;
    BOOST_TEST(row.assign("\x01", out).has_value(), row.name);
    BOOST_TEST(row.assign("", out).has_value(), row.name);
  }
}

BOOST_AUTO_TEST_SUITE_END()
