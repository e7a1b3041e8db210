#include "app/holder/engine_arguments.hpp"

#include <boost/test/unit_test.hpp>

#include "app/holder/holder_options.hpp"

using namespace orcd;

namespace {

using words = std::vector<std::string>;

std::string line(const words& all) {
  std::string out;
  for (const auto& word : all) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string line_of(const words& engine_options, std::uint32_t number, std::string_view variable = {}) {
  return line(app::engine_arguments({"/d", "127.0.0.1", 8'080, engine_options}, number, variable));
}

/// What every engine has behind its own words.
std::string end_of(int number) {
  return " --failover-dir /d --engine-id " + std::to_string(number) +
         " --host 127.0.0.1 --port 8080 --holder require";
}

std::string refused(const words& engine_options, std::uint32_t engines = 2) {
  words args{"--failover-dir", "/d", "--run", std::to_string(engines), "--"};
  args.insert(args.end(), engine_options.begin(), engine_options.end());
  const auto parsed = app::parse_holder_options(args);
  return parsed ? std::string() : parsed.error().message;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(engine_arguments)

BOOST_AUTO_TEST_CASE(engines_are_alike_but_for_their_number) {
  BOOST_TEST(line_of({"--model", "M"}, 0) == "--model M" + end_of(0));
  BOOST_TEST(line_of({"--model", "M"}, 5) == "--model M" + end_of(5));
}

BOOST_AUTO_TEST_CASE(each_engine_has_a_system_port_of_its_own) {
  BOOST_TEST(line_of({"--system-port", "9100", "--slots", "2"}, 0) ==
             "--system-port 9100 --slots 2" + end_of(0));
  BOOST_TEST(line_of({"--system-port", "9100", "--slots", "2"}, 1) ==
             "--system-port 9101 --slots 2" + end_of(1));
  BOOST_TEST(line_of({"--system-port=9100"}, 3) == "--system-port=9103" + end_of(3));
  // None is none for all, and what is no port is for the engine to refuse.
  for (const std::string none : {"0", "x", "", "-1", "70000"}) {
    BOOST_TEST(line_of({"--system-port", none}, 1) == "--system-port " + none + end_of(1));
    BOOST_TEST(line_of({"--system-port=" + none}, 1) == "--system-port=" + none + end_of(1));
  }
}

BOOST_AUTO_TEST_CASE(a_variable_of_all_is_no_less) {
  BOOST_TEST(line_of({"--model", "M"}, 1, "9100") == "--model M --system-port 9101" + end_of(1));
  BOOST_TEST(line_of({"--system-port=9200"}, 1, "9100") == "--system-port=9201" + end_of(1));
  BOOST_TEST(line_of({"--model", "M"}, 1, "0") == "--model M --system-port 0" + end_of(1));
}

BOOST_AUTO_TEST_CASE(what_no_engine_could_start_with_is_wrong_usage) {
  BOOST_TEST(refused({"--model", "M", "--system-port", "9100"}).empty());
  BOOST_TEST(refused({"--system-port=0"}).empty());
  for (const char* const option :
       {"--failover-dir", "--engine-id", "--host", "--port", "--holder", "--engine-id=1"}) {
    BOOST_TEST(contains(refused({"--model", "M", option, "1"}), "behind -- is the holder's"), option);
  }
  BOOST_TEST(contains(refused({"--system-port", "8080"}), "engine 0 would be 8080, which is the clients'"));
  BOOST_TEST(contains(refused({"--system-port=8079"}), "engine 1 would be 8080, which is the clients'"));
  BOOST_TEST(refused({"--system-port", "8081"}).empty());
  BOOST_TEST(contains(refused({"--system-port", "65535"}), "engine 1 would be 65536, the limit is 65535"));
  BOOST_TEST(refused({"--system-port", "65535"}, 1).empty());
}

BOOST_AUTO_TEST_SUITE_END()
