#include "net/completion/message_reader.hpp"

#include <boost/test/unit_test.hpp>

#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

using engine::call_format;
using kind = engine::output_delta::kind;

/// One token per byte, and <think>, </think> and <tool_call> as control tokens.
class marks_tokenizer final : public engine::tokenizer {
 public:
  std::vector<engine::token_id> encode(std::string_view text,
                                       const engine::encode_options& o) const override {
    for (std::size_t i = 0; i < std::size(marks); ++i) {
      if (text == marks[i]) return {static_cast<engine::token_id>(256 + i)};
    }
    return letters_.encode(text, o);
  }
  void append_bytes(engine::token_id t, std::string& out, bool special) const override {
    if (t < 256) return letters_.append_bytes(t, out, special);
    if (special) out += marks[t - 256];
  }
  std::string decode(std::span<const engine::token_id> t, bool s) const override {
    return letters_.decode(t, s);
  }
  std::uint32_t vocab_size() const noexcept override { return 259; }
  std::string_view piece(engine::token_id) const noexcept override { return {}; }
  bool is_end_of_generation(engine::token_id) const noexcept override { return false; }
  bool is_control(engine::token_id t) const noexcept override { return t >= 256; }
  std::span<const engine::token_id> end_of_generation() const noexcept override { return {}; }
  engine::token_id bos() const noexcept override { return -1; }
  engine::token_id eos() const noexcept override { return -1; }
  std::string_view kind() const noexcept override { return "marks"; }

 private:
  static constexpr std::string_view marks[] = {"<think>", "</think>", "<tool_call>"};
  test::letter_tokenizer letters_;
};

struct reader {
  explicit reader(reader_options o, const engine::tokenizer& t) : options(std::move(o)), read(options, t) {}
  void add(const message_reader::step& step) {
    for (const auto& d : step.deltas) {
      if (d.what == kind::content) content += d.text;
      if (d.what == kind::reasoning) reasoning += d.text;
      if (d.what == kind::call) calls += "[" + d.name + "]";
      if (d.what == kind::arguments) calls += d.text;
    }
    if (step.over && !over) cut = step.cut_bytes;
    over = over || step.over;
  }
  void say(std::string_view text) {
    for (const char c : text) {
      if (over) return;
      add(read.token(static_cast<unsigned char>(c), {&c, 1}));
    }
  }
  reader_options options;
  message_reader read;
  std::string content, reasoning, calls;
  std::size_t cut = 0;
  bool over = false;
};

const test::letter_tokenizer letters;

reader_options options_of(bool think, call_format calls, std::vector<std::string> stop = {}) {
  reader_options out;
  out.format = {calls, think};
  out.stop = std::move(stop);
  return out;
}

BOOST_AUTO_TEST_SUITE(message_readers)

BOOST_AUTO_TEST_CASE(nothing_to_part) {
  BOOST_TEST(!options_of(false, call_format::none).separates());
  BOOST_TEST(options_of(true, call_format::none).separates());
  BOOST_TEST(options_of(false, call_format::hermes).separates());
}

BOOST_AUTO_TEST_CASE(stop_strings_are_looked_for_in_content_alone) {
  reader r(options_of(true, call_format::hermes, {"stop"}), letters);
  r.say(
      "<think>do not stop</think>\nWell, "
      "st<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"stop\"}}</tool_call>");
  r.say("now stop here");
  BOOST_TEST(r.reasoning == "do not stop");
  BOOST_TEST(r.calls == R"([f]{"a":"stop"})");
  BOOST_TEST(r.content == "Well, stnow ");
  BOOST_TEST(r.over);
  BOOST_TEST(r.cut == 4U);
  r.add(r.read.finish());
  BOOST_TEST(r.content == "Well, stnow ");
}

BOOST_AUTO_TEST_CASE(a_stop_string_does_not_span_a_call) {
  reader r(options_of(false, call_format::hermes, {"ab"}), letters);
  r.say("a<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>b");
  r.add(r.read.finish());
  BOOST_TEST(r.content == "ab");
  BOOST_TEST(!r.over);
}

BOOST_AUTO_TEST_CASE(an_answer_ends_where_the_model_invents_a_result) {
  reader r(options_of(false, call_format::hermes, {"stop"}), letters);
  r.say(
      "st<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_response>20</tool_response>It is.");
  r.add(r.read.finish());
  BOOST_TEST(r.content == "st");
  BOOST_TEST(r.calls == "[f]{}");
  BOOST_TEST(r.over);
}

// Of a vocabulary in which it is no token: neither it nor half of it is content, nor has it log
// probabilities.
BOOST_AUTO_TEST_CASE(the_text_that_ends_an_answer_is_no_part_of_it) {
  auto options = options_of(false, call_format::none, {"stop"});
  options.format.text_end = true;
  BOOST_TEST(options.separates());
  reader r(options, letters);
  r.say("So <|im_ <|im_end|>more");
  BOOST_TEST((r.over && r.content == "So <|im_" && r.cut == 10U));
  reader in_one_token(options, letters);
  in_one_token.add(in_one_token.read.token('a', "So.<|im"));
  in_one_token.add(in_one_token.read.token('b', "_end|>mo"));
  BOOST_TEST((in_one_token.over && in_one_token.content == "So." && in_one_token.cut == 12U));
  reader cut(options, letters);
  cut.say("So.<|im_en");
  cut.add(cut.read.finish(engine::output_end::cut));
  BOOST_TEST(cut.content == "So.");
  reader whole(options, letters);
  whole.say("So.<|im_en");
  whole.add(whole.read.finish());
  BOOST_TEST(whole.content == "So.<|im_en");
  reader stopped(options, letters);
  stopped.say("Now stop.<|im_end|>");
  BOOST_TEST((stopped.over && stopped.content == "Now "));
}

BOOST_AUTO_TEST_CASE(what_was_cut_off_is_no_content) {
  reader r(options_of(false, call_format::hermes), letters);
  r.say("So.<tool_call>{\"name\":\"f\"");
  r.add(r.read.finish(engine::output_end::cut));
  BOOST_TEST(r.content == "So.");
  BOOST_TEST(r.calls.empty());
}

BOOST_AUTO_TEST_CASE(reasoning_is_counted_with_its_marks) {
  const marks_tokenizer marks;
  reader r(options_of(true, call_format::none), marks);
  r.add(r.read.token(256, {}));
  r.say("abc");
  r.add(r.read.token(257, {}));
  r.say("\n\nde");
  r.add(r.read.finish());
  BOOST_TEST(r.reasoning == "abc");
  BOOST_TEST(r.content == "de");
  BOOST_TEST(r.read.reasoning_tokens() == 5U);
}

BOOST_AUTO_TEST_CASE(a_prompt_may_have_begun_the_reasoning) {
  auto f = options_of(true, call_format::none);
  f.parsing.in_reasoning = true;
  reader r(f, letters);
  r.say("abc</think>de");
  r.add(r.read.finish());
  BOOST_TEST(r.reasoning == "abc");
  BOOST_TEST(r.content == "de");
  BOOST_TEST(r.read.reasoning_tokens() == 11U);
}

BOOST_AUTO_TEST_CASE(marks_that_are_control_tokens) {
  const marks_tokenizer marks;
  reader r(options_of(false, call_format::hermes), marks);
  r.add(r.read.token(258, {}));
  r.say("{\"name\":\"f\",\"arguments\":{}}");
  r.add(r.read.finish());
  BOOST_TEST(r.calls == "[f]{}");
  BOOST_TEST(r.content.empty());
}

BOOST_AUTO_TEST_CASE(without_parallel_calls_a_second_one_ends_the_output) {
  auto f = options_of(false, call_format::hermes);
  f.parallel = false;
  reader r(f, letters);
  const std::string call = "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>\n";
  r.say(call + call);
  BOOST_TEST(r.over);
  BOOST_TEST(r.calls == R"([f]{"a":1})");
  BOOST_TEST(r.content.empty());
}

BOOST_AUTO_TEST_CASE(a_broken_call_is_content) {
  reader r(options_of(false, call_format::hermes), letters);
  r.say("<tool_call>not json</tool_call>");
  r.add(r.read.finish());
  BOOST_TEST(r.calls.empty());
  BOOST_TEST(r.content == "<tool_call>not json</tool_call>");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
