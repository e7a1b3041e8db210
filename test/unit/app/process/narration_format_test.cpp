// One event, one line: what is in it, and that nothing in an event can break the line.
#include "app/process/narration_format.hpp"

#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <limits>
#include <string>

namespace {

using namespace orcd;
using app::narration_record;
using engine::severity;
namespace json = boost::json;

const app::narration_context context{"123e4567-e89b-12d3-a456-426614174000", "qwen2.5-0.5b", 3};

/// 2026-11-21T08:52:26.007Z
std::chrono::system_clock::time_point a_moment() {
  return std::chrono::system_clock::time_point(std::chrono::milliseconds(1'795'251'146'007));
}

narration_record make_record(std::string human, severity level = severity::info) {
  return {a_moment(), level, "ready", std::move(human), {}};
}

json::object parsed(const narration_record& record) {
  const auto line = app::format_json(record, context);
  BOOST_REQUIRE(line.back() == '\n');
  BOOST_REQUIRE_EQUAL(line.find('\n'), line.size() - 1);
  return json::parse(line).as_object();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(narration_format)

BOOST_AUTO_TEST_CASE(a_json_line_has_the_required_context) {
  auto record = make_record("Serving");
  record.fields = {{"job_id", std::string("job-1")},
                   {"tokens_in", std::uint64_t{18'446'744'073'709'551'615U}},
                   {"delta", std::int64_t{-5}},
                   {"decode_time_ms", 12.5},
                   {"resident", true}};
  BOOST_TEST(
      app::format_json(record, context) ==
      R"({"ts":"2026-11-21T08:52:26.007Z","level":"info","event":"ready",)"
      R"("worker_id":"123e4567-e89b-12d3-a456-426614174000","model_ref":"qwen2.5-0.5b","gpu_device":3,)"
      R"("job_id":"job-1","tokens_in":18446744073709551615,"delta":-5,"decode_time_ms":12.5,)"
      R"("resident":true,"message":"Serving"})"
      "\n");
}

BOOST_AUTO_TEST_CASE(any_bytes_come_out_as_valid_json) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  auto record = make_record("quote \" backslash \\ newline \n tab \t bell \a caf\xc3\xa9 \xf0\x9f\x98\x80");
  record.fields = {{"all\nbytes", all}};
  const auto object = parsed(record);
  BOOST_TEST(object.at("message").as_string() ==
             "quote \" backslash \\ newline \n tab \t bell \a caf\xc3\xa9 \xf0\x9f\x98\x80");
  const auto& value = object.at("all\nbytes").as_string();
  BOOST_TEST(value.subview(0, 128) == json::string_view(all.data(), 128));
  // Every byte above 0x7f is alone here, so each is one U+FFFD.
  BOOST_TEST(value.size() == 128U + 128U * 3U);
  BOOST_TEST(value.subview(128, 3) == "\xef\xbf\xbd");
}

BOOST_AUTO_TEST_CASE(what_json_lets_through_of_control_characters_is_escaped_too) {
  const auto record = make_record("del \x7f csi \xc2\x9b right to left \xe2\x80\xae end");
  const auto line = app::format_json(record, {});
  BOOST_TEST(line.find("del \\u007f csi \\u009b right to left \\u202e end") != std::string::npos);
  BOOST_TEST(parsed(record).at("message").as_string() ==
             "del \x7f csi \xc2\x9b right to left \xe2\x80\xae end");
}

BOOST_AUTO_TEST_CASE(truncated_utf8_at_the_end_is_replaced) {
  BOOST_TEST(parsed(make_record("caf\xc3")).at("message").as_string() == "caf\xef\xbf\xbd");
}

BOOST_AUTO_TEST_CASE(numbers_that_json_cannot_say_are_null) {
  auto record = make_record("x");
  record.fields = {{"nan", std::numeric_limits<double>::quiet_NaN()},
                   {"inf", -std::numeric_limits<double>::infinity()},
                   {"tiny", 5e-324}};
  const auto object = parsed(record);
  BOOST_TEST(object.at("nan").is_null());
  BOOST_TEST(object.at("inf").is_null());
  BOOST_TEST(object.at("tiny").as_double() == 5e-324);
}

BOOST_AUTO_TEST_CASE(no_key_is_written_twice) {
  auto record = make_record("the sentence");
  record.fields = {{"model_ref", std::string("other")},
                   {"message", std::string("forged")},
                   {"ts", std::string("forged")},
                   {"level", std::string("forged")},
                   {"event", std::string("forged")},
                   {"n", std::int64_t{1}},
                   {"n", std::int64_t{2}}};
  const auto line = app::format_json(record, context);
  BOOST_TEST(line.find("forged") == std::string::npos);
  const auto object = parsed(record);
  BOOST_TEST(object.at("model_ref").as_string() == "other");
  BOOST_TEST(object.at("message").as_string() == "the sentence");
  BOOST_TEST(object.at("n").as_int64() == 1);
  BOOST_TEST(object.size() == 8U);
  std::size_t keys = 0;
  for (auto at = line.find("\":"); at != std::string::npos; at = line.find("\":", at + 1)) ++keys;
  BOOST_TEST(keys == 8U);
}

BOOST_AUTO_TEST_CASE(every_severity_has_its_word_and_priority) {
  const std::pair<severity, std::pair<const char*, int>> all[] = {{severity::debug, {"debug", 7}},
                                                                  {severity::info, {"info", 6}},
                                                                  {severity::warning, {"warning", 4}},
                                                                  {severity::error, {"error", 3}},
                                                                  {severity::critical, {"critical", 2}}};
  for (const auto& [level, expected] : all) {
    BOOST_TEST(parsed(make_record("x", level)).at("level").as_string() == expected.first);
    BOOST_TEST(app::syslog_priority(level) == expected.second);
  }
}

BOOST_AUTO_TEST_CASE(times_before_1970_and_at_the_second_are_right) {
  auto record = make_record("x");
  record.at = std::chrono::system_clock::time_point(std::chrono::milliseconds(-1));
  BOOST_TEST(parsed(record).at("ts").as_string() == "1969-12-31T23:59:59.999Z");
  record.at = std::chrono::system_clock::time_point(std::chrono::seconds(0));
  BOOST_TEST(parsed(record).at("ts").as_string() == "1970-01-01T00:00:00.000Z");
}

BOOST_AUTO_TEST_CASE(a_console_line_is_for_people) {
  auto record = make_record("Serving qwen at http://127.0.0.1:8080");
  record.fields = {
      {"port", std::uint64_t{8080}}, {"ms", 12.34567}, {"whole", 3.0}, {"name", std::string("a b")}};
  BOOST_TEST(
      app::format_console(record, false) ==
      "08:52:26.007 INFO     ready  Serving qwen at http://127.0.0.1:8080  port=8080 ms=12.346 whole=3 "
      "name=\"a b\"\n");
}

BOOST_AUTO_TEST_CASE(colour_is_only_there_when_asked_for) {
  const auto record = make_record("x", severity::error);
  BOOST_TEST(app::format_console(record, false).find('\x1b') == std::string::npos);
  const auto line = app::format_console(record, true);
  BOOST_TEST(line.find("\x1b[31mERROR   \x1b[0m") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(no_text_can_forge_a_console_line_or_move_the_cursor) {
  auto record = make_record("first\nsecond\r\x1b[2Jthird\x7f \xff");
  record.fields = {{"field", std::string("a\nb\x1b[0m")}};
  const auto line = app::format_console(record, false);
  BOOST_TEST(line.find('\n') == line.size() - 1);
  BOOST_TEST(line.find('\x1b') == std::string::npos);
  BOOST_TEST(line.find('\r') == std::string::npos);
  BOOST_TEST(line.find("first\\x0asecond\\x0d\\x1b[2Jthird\\x7f \\xff") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
