// The options of LoRA adapters.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "test/unit/app/options/parsed_options.hpp"

namespace {

using namespace orcd;

using test::contains;
using test::refused;

app::options taken(const std::vector<std::string>& args, const app::environment& env = {}) {
  return test::taken_options(args, env);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(lora_options)

BOOST_AUTO_TEST_CASE(adapters_have_names_paths_and_scales) {
  const auto shown = [](const app::options& o) {
    std::string out;
    for (const auto& one : o.adapters.at_start) {
      out += one.name + "|" + one.path + "|" + std::to_string(static_cast<int>(one.scale * 100)) + ";";
    }
    return out;
  };
  BOOST_TEST(shown(taken({})).empty());
  BOOST_TEST(shown(taken({"--lora", "a=/x/y.gguf"})) == "a|/x/y.gguf|100;");
  BOOST_TEST(shown(taken({"--lora", "a=/x:0.5", "--lora", "b c=z:-2,d=w=v"})) ==
             "a|/x|50;b c|z|-200;d|w=v|100;");
  // Behind the last colon: a scale where it is a number, else part of the path.
  BOOST_TEST(shown(taken({"--lora", "a=/x:y"})) == "a|/x:y|100;");
  BOOST_TEST(shown(taken({"--lora", "a=/x:7:1"})) == "a|/x:7|100;");
  BOOST_TEST(shown(taken({"--lora", "a=/x:y:0.25"})) == "a|/x:y|25;");
  BOOST_TEST(shown(taken({}, {{"WORKER_ORCD_LORA", "a=b,c=d:2"}})) == "a|b|100;c|d|200;");
  for (const auto& bad :
       {std::string(), std::string("a"), std::string("=b"), std::string("a="), std::string("a=:1"),
        std::string("a=b:101"), std::string("a=b,"), std::string("a=b,,c=d"), std::string("a\n=b"),
        std::string(257, 'a') + "=b", std::string("a=b,a=c"), "a=" + std::string(4'097, 'x')}) {
    BOOST_TEST(contains(refused({"--lora", bad}), "--lora must "), bad);
  }
  BOOST_TEST(contains(refused({"--lora", "a=b:101"}), "scales from -100 to 100"));
  BOOST_TEST(contains(refused({"--lora", "a=b,a=c"}), "the name 'a' twice"));
  for (const char* none : {"a=b:0", "a=b:-0.0", "a=b:1e-60"}) {
    BOOST_TEST(contains(refused({"--lora", none}), "--lora must not have the scale 0, of 'a'"), none);
  }
}

BOOST_AUTO_TEST_CASE(room_for_adapters_is_as_much_as_can_be_used) {
  BOOST_TEST(taken({"--lora", "a=b", "--max-loras", "1"}).adapters.count == 1U);
  const app::options more = taken({"--allow-lora-load", "/d", "--max-loras", "64", "--max-lora-rank", "8"});
  BOOST_TEST(more.adapters.count == 64U);
  BOOST_TEST(more.adapters.rank == 8U);
  BOOST_TEST(more.adapters.folder == "/d");
  BOOST_TEST(taken({"--lora-init-without-apply"}).adapters.unapplied);
  BOOST_TEST(contains(refused({"--lora", "a=b,c=d", "--max-loras", "1"}),
                      "--max-loras is 1, but --lora has 2 adapters"));
  BOOST_TEST(
      contains(refused({"--lora", "a=b", "--max-loras", "2"}), "more come only with --allow-lora-load"));
  BOOST_TEST(contains(refused({"--max-loras", "65"}), "must be an integer, 1 to 64"));
  BOOST_TEST(contains(refused({"--max-lora-rank", "513"}), "must be an integer, 1 to 512"));
  BOOST_TEST(contains(refused({"--max-lora-rank", "8"}), "need --lora or --allow-lora-load"));
}

/// Else a worker would start that refuses every request.
BOOST_AUTO_TEST_CASE(no_more_are_applied_than_a_request_can_have) {
  std::vector<std::string> nine;
  for (int i = 0; i < 9; ++i) nine.insert(nine.end(), {"--lora", "a" + std::to_string(i) + "=x"});
  BOOST_TEST(contains(refused(nine), "--lora has 9 adapters that every request would have, which may be 8"));
  nine.push_back("--lora-init-without-apply");
  BOOST_TEST(taken(nine).adapters.at_start.size() == 9U);
}

BOOST_AUTO_TEST_SUITE_END()
