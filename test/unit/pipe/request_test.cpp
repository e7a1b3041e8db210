#include "app/pipe/request.hpp"

#include <boost/test/unit_test.hpp>

#include "app/pipe/line_buffer.hpp"

using namespace orcd;
using namespace orcd::app;
using lines = std::vector<std::string>;
using ids = std::vector<engine::token_id>;

namespace {

constexpr std::uint32_t vocabulary = 100, room = 4;

const lines header{"3", "1", "0.6", "50", "0.9", "1.1", "64", "7"};
const lines block{"8",
                  "kv_position=5",
                  "tokens=1,2",
                  "temperature=0.6",
                  "top_k=0",
                  "top_p=1",
                  "repetition_penalty=1.0",
                  "rep_penalty_lookback=0",
                  "max_tokens=0"};

engine::result<std::optional<pipe_request>> read(pipe_protocol protocol, const lines& given) {
  request_reader reader(protocol, vocabulary, room);
  for (std::size_t i = 0;; ++i) {
    BOOST_TEST(given[i].size() <= reader.line_max());
    auto taken = reader.take(given[i]);
    const bool last = i + 1 == given.size();
    if (taken) BOOST_TEST(reader.between() == taken->has_value());
    if (!taken || last) return taken;
    BOOST_REQUIRE(!*taken);
  }
}

lines with(lines base, std::size_t at, const std::string& text) {
  base[at] = text;
  return base;
}

lines and_ids(lines base, const lines& more) {
  base.insert(base.end(), more.begin(), more.end());
  return base;
}

std::string refusal(pipe_protocol protocol, const lines& given) {
  const auto done = read(protocol, given);
  BOOST_REQUIRE_MESSAGE(!done, "accepted");
  BOOST_TEST((done.error().code == engine::errc::invalid_request));
  return done.error().message;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pipe_requests)

BOOST_AUTO_TEST_CASE(lines_of_the_first_protocol) {
  const auto done = read(pipe_protocol::lines, and_ids(header, {"0", "99", "5"}));
  BOOST_REQUIRE(done && *done);
  const pipe_request& r = **done;
  BOOST_TEST(!r.quit);
  BOOST_TEST(r.keep.value() == 0U);
  BOOST_TEST((r.tokens.ids == ids{0, 99, 5}));
  BOOST_TEST(r.sampling.temperature == 0.6F);
  BOOST_TEST(r.sampling.top_k == 50U);
  BOOST_TEST(r.sampling.top_p == 0.9F);
  BOOST_TEST(r.sampling.repetition_penalty == 1.1F);
  BOOST_TEST(r.sampling.repeat_last_n == 64U);
  BOOST_TEST(r.max_tokens == 7U);
  const auto going_on = read(pipe_protocol::lines, and_ids(with(header, 1, "0"), {"1", "2", "3"}));
  BOOST_TEST(!(*going_on)->keep.has_value());
  BOOST_TEST((*read(pipe_protocol::lines, {"0"}))->quit);
}

BOOST_AUTO_TEST_CASE(a_block_of_the_later_protocol) {
  const auto done = read(pipe_protocol::blocks, block);
  BOOST_REQUIRE(done && *done);
  BOOST_TEST((*done)->keep.value() == 5U);
  BOOST_TEST((*(*done)).tokens.count == 2U);
  BOOST_TEST((*done)->sampling.repetition_penalty == 1.0F);
  auto hinted = with(block, 0, "9");
  hinted.emplace_back("later=1");
  BOOST_TEST(read(pipe_protocol::blocks, hinted)->has_value());
  BOOST_TEST((*read(pipe_protocol::blocks, with(block, 2, "tokens=")))->tokens.count == 0U);
  BOOST_TEST((*read(pipe_protocol::blocks, {"0"}))->quit);
}

BOOST_AUTO_TEST_CASE(one_reader_reads_one_request_after_the_other) {
  request_reader reader(pipe_protocol::lines, vocabulary, room);
  for (int turn = 0; turn < 3; ++turn) {
    for (const std::string& line : and_ids(with(header, 0, "1"), {"7"})) {
      const auto done = reader.take(line);
      BOOST_REQUIRE(done);
      if (*done) BOOST_TEST(((*done)->tokens.ids == ids{7}));
      BOOST_TEST(reader.between() == done->has_value());
    }
  }
}

BOOST_AUTO_TEST_CASE(more_tokens_than_fit_are_counted_and_not_kept) {
  const auto done = read(pipe_protocol::lines, and_ids(with(header, 0, "6"), {"1", "2", "3", "4", "5", "6"}));
  BOOST_REQUIRE(done && *done);
  BOOST_TEST((*done)->tokens.count == 6U);
  BOOST_TEST((*done)->tokens.ids.size() == room);
  const auto listed = read(pipe_protocol::blocks, with(block, 2, "tokens=1,2,3,4,5,6"));
  BOOST_TEST((*listed)->tokens.count == 6U);
  BOOST_TEST((*listed)->tokens.ids.size() == room);
}

BOOST_AUTO_TEST_CASE(refusals_of_lines) {
  const auto why = [](std::size_t at, const std::string& text) {
    return refusal(pipe_protocol::lines, with(header, at, text));
  };
  constexpr const char* any = "; it must be a whole number that is not negative";
  constexpr const char* amount = "; it must be a number that is not negative";
  constexpr const char* count = "; it must be a whole number from 0 to 2147483647";
  BOOST_TEST(why(0, "x") == std::string("num_tokens is 'x'") + count);
  BOOST_TEST(why(0, "-1") == std::string("num_tokens is '-1'") + count);
  BOOST_TEST(why(0, "2147483648") == std::string("num_tokens is '2147483648'") + count);
  BOOST_TEST(why(0, "3\r") == std::string("num_tokens is '3\\x0d'") + count);
  BOOST_TEST(why(0, "") == std::string("num_tokens is ''") + count);
  BOOST_TEST(why(0, " 3") == std::string("num_tokens is ' 3'") + count);
  BOOST_TEST(why(1, "2") == "reset_flag is '2'; it must be a whole number from 0 to 1");
  BOOST_TEST(why(2, "") == std::string("temperature is ''") + amount);
  BOOST_TEST(why(2, "-inf") == std::string("temperature is '-inf'") + amount);
  BOOST_TEST(why(2, "-0.5") == std::string("temperature is '-0.5'") + amount);
  BOOST_TEST(why(2, "1e400") == std::string("temperature is '1e400'") + amount);
  BOOST_TEST(why(3, "1.5") == std::string("top_k is '1.5'") + any);
  BOOST_TEST(why(3, "") == std::string("top_k is ''") + any);
  BOOST_TEST(why(3, "9999999999999999999999x") == std::string("top_k is '9999999999999999999999x'") + any);
  BOOST_TEST(why(4, "1.01") == "top_p is '1.01'; it must be a number from 0 to 1");
  BOOST_TEST(why(4, "nan") == "top_p is 'nan'; it must be a number from 0 to 1");
  BOOST_TEST(why(5, "-1") == std::string("repetition_penalty is '-1'") + amount);
  BOOST_TEST(why(6, "-1") == std::string("rep_penalty_lookback is '-1'") + any);
  BOOST_TEST(why(7, "-9999999999") == std::string("max_tokens is '-9999999999'") + any);
  BOOST_TEST(refusal(pipe_protocol::lines, and_ids(header, {"1", "100"})) ==
             "token 2 of 3 is '100'; it must be a whole number from 0 to 99");
  BOOST_TEST(refusal(pipe_protocol::lines, and_ids(header, {"-1"})) ==
             "token 1 of 3 is '-1'; it must be a whole number from 0 to 99");
}

BOOST_AUTO_TEST_CASE(refusals_of_blocks) {
  const auto why = [](std::size_t at, const std::string& text) {
    return refusal(pipe_protocol::blocks, with(block, at, text));
  };
  BOOST_TEST(why(0, "257") == "the number of lines is '257'; it must be a whole number from 0 to 256");
  BOOST_TEST(why(1, "kv_position=-1") ==
             "kv_position is '-1'; it must be a whole number from 0 to 2147483647");
  BOOST_TEST(why(2, "tokens=1,,2") == "tokens is ''; it must be a whole number from 0 to 99");
  BOOST_TEST(why(2, "tokens=1,100") == "tokens is '100'; it must be a whole number from 0 to 99");
  BOOST_TEST(why(2, "tokens=1,") == "tokens ends with a comma");
  BOOST_TEST(why(3, "temperature") == "a line of a block is 'temperature'; it must be KEY=VALUE");
  BOOST_TEST(why(3, "top_k=1").find("top_k is there twice") == 0U);
  BOOST_TEST(why(8, "other=1") == "max_tokens is missing in a block");
  BOOST_TEST(why(1, "other=1") == "kv_position is missing in a block");
}

BOOST_AUTO_TEST_CASE(values_that_the_sampler_takes) {
  const auto top = read(pipe_protocol::lines, and_ids(with(header, 4, "0"), {"1", "2", "3"}));
  BOOST_TEST((*top)->sampling.top_p > 0.0F);
  const auto far = read(pipe_protocol::lines, and_ids(with(header, 6, "2147483647"), {"1", "2", "3"}));
  BOOST_TEST((*far)->sampling.repeat_last_n == 4096U);
}

/// The SDK's HTTP server hands on what it does not limit itself.
BOOST_AUTO_TEST_CASE(too_much_is_the_most) {
  const auto with_line = [](std::size_t at, const std::string& text) {
    const auto done = read(pipe_protocol::lines, and_ids(with(header, at, text), {"1", "2", "3"}));
    BOOST_REQUIRE_MESSAGE(done && *done, text);
    return **done;
  };
  for (const std::string much : {"1e7", "inf", "1e300"})
    BOOST_TEST(with_line(2, much).sampling.temperature == 1e6F);
  for (const char* none : {"-0.0", "1e-300", "1e-40", "nan"})
    BOOST_TEST(with_line(2, none).sampling.temperature == 0.0F);
  for (const std::string& much : {std::string("3000000000"), std::string(4'300, '9')}) {
    BOOST_TEST(with_line(3, much).sampling.top_k == 2'147'483'647U);
    BOOST_TEST(with_line(6, much).sampling.repeat_last_n == 4'096U);
    BOOST_TEST(with_line(7, much).max_tokens == 2'147'483'647U);
  }
  for (const char* off : {"0", "0.0", "-0.0", "1e-300", "nan"})
    BOOST_TEST(with_line(5, off).sampling.repetition_penalty == 1.0F);
  for (const char* much : {"1001", "inf"})
    BOOST_TEST(with_line(5, much).sampling.repetition_penalty == 1'000.0F);
  BOOST_TEST(with_line(5, "1e-30").sampling.repetition_penalty == 0.001F);
}

BOOST_AUTO_TEST_CASE(pieces_become_lines) {
  line_buffer buffer;
  BOOST_TEST(!buffer.next("x", 5).value().has_value());
  buffer.add("ab");
  BOOST_TEST(!buffer.next("x", 5).value().has_value());
  buffer.add("c\n\nde");
  BOOST_TEST(buffer.next("x", 5).value().value() == "abc");
  BOOST_TEST(buffer.next("x", 5).value().value() == "");
  BOOST_TEST(!buffer.next("x", 5).value().has_value());
  buffer.add("f\ng");
  BOOST_TEST(buffer.next("x", 5).value().value() == "def");
  buffer.close();
  BOOST_TEST(buffer.next("x", 5).value().value() == "g");
  BOOST_TEST(!buffer.next("x", 5).value().has_value());
}

BOOST_AUTO_TEST_CASE(a_line_without_an_end_is_refused_at_its_limit) {
  line_buffer buffer;
  buffer.add("123456");
  const auto line = buffer.next("num_tokens", 5);
  BOOST_REQUIRE(!line);
  BOOST_TEST(line.error().message == "the line of num_tokens has more than 5 bytes, the limit");
  line_buffer whole;
  whole.add("12345\n");
  BOOST_TEST(whole.next("num_tokens", 5).value().value() == "12345");
}

BOOST_AUTO_TEST_SUITE_END()
