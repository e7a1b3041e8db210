// Reasoning that is ended after so many tokens, by the format's own mark.
#include "engine/chat/reasoning/reasoning_budget.hpp"

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/sampling/token_rules.hpp"

namespace orcd {
namespace {

using engine::token_id;

/// A byte a token, and the marks of two formats as tokens of their own, where they are wanted.
class marked_letters final : public engine::tokenizer {
 public:
  explicit marked_letters(std::vector<std::string> marks) : marks_(std::move(marks)) {}

  std::vector<token_id> encode(std::string_view text, const engine::encode_options&) const override {
    std::vector<token_id> out;
    while (!text.empty()) {
      std::size_t taken = 0;
      for (std::size_t i = 0; i < marks_.size() && taken == 0; ++i) {
        if (!text.starts_with(marks_[i])) continue;
        out.push_back(static_cast<token_id>(256 + i));
        taken = marks_[i].size();
      }
      if (taken == 0) out.push_back(static_cast<unsigned char>(text.front())), taken = 1;
      text.remove_prefix(taken);
    }
    return out;
  }
  void append_bytes(token_id token, std::string& out, bool special) const override {
    if (token < 256) out += static_cast<char>(token);
    if (token >= 256 && special) out += marks_.at(static_cast<std::size_t>(token) - 256);
  }
  std::string decode(std::span<const token_id> tokens, bool special) const override {
    std::string out;
    for (const auto token : tokens) append_bytes(token, out, special);
    return out;
  }
  std::uint32_t vocab_size() const noexcept override {
    return 256 + static_cast<std::uint32_t>(marks_.size());
  }
  std::string_view piece(token_id) const noexcept override { return {}; }
  bool is_end_of_generation(token_id) const noexcept override { return false; }
  bool is_control(token_id token) const noexcept override { return token >= 256; }
  std::span<const token_id> end_of_generation() const noexcept override { return {}; }
  token_id bos() const noexcept override { return -1; }
  token_id eos() const noexcept override { return -1; }
  std::string_view kind() const noexcept override { return "letters"; }

 private:
  std::vector<std::string> marks_;
};

const marked_letters tagged({"<think>", "</think>"});
const marked_letters letters({});
const marked_letters harmony({"<|channel|>", "<|message|>", "<|end|>", "<|start|>"});

engine::output_format with_tags() {
  engine::output_format out;
  out.think = true;
  return out;
}

engine::output_format of_harmony() {
  engine::output_format out;
  out.calls = engine::call_format::harmony;
  return out;
}

/// What a model writes that wants to write `text`, token by token, and takes the first token that is allowed
/// where its own is not.
std::string written(engine::token_constraint& limited, const engine::tokenizer& vocabulary,
                    std::string_view text) {
  std::string out;
  auto wanted = vocabulary.encode(text, {});
  std::size_t next = 0;
  for (int steps = 0; next < wanted.size() && steps < 1'000; ++steps) {
    const auto mask = limited.mask();
    token_id chosen = wanted[next];
    if (engine::allows(mask, chosen)) {
      ++next;
    } else {
      chosen = 0;
      while (!engine::allows(mask, chosen)) ++chosen;
    }
    BOOST_TEST_REQUIRE(limited.accept(chosen));
    vocabulary.append_bytes(chosen, out, true);
  }
  return out;
}

std::string limited_to(std::uint32_t tokens, const engine::tokenizer& vocabulary, std::string_view text,
                       bool in_reasoning = false, engine::output_format format = with_tags()) {
  const auto limited = engine::make_reasoning_budget({tokens, format, in_reasoning}, vocabulary, nullptr);
  return written(*limited, vocabulary, text);
}

BOOST_AUTO_TEST_SUITE(reasoning_budget)

BOOST_AUTO_TEST_CASE(reasoning_ends_after_so_many_tokens) {
  BOOST_TEST(limited_to(3, tagged, "<think>abcdef") == "<think>abc</think>def");
  BOOST_TEST(limited_to(3, tagged, " \n<think>abcdef") == " \n<think>abc</think>def");
  BOOST_TEST(limited_to(3, tagged, "abcdef", true) == "abc</think>def");
  BOOST_TEST(limited_to(0, tagged, "abc", true) == "</think>abc");
  BOOST_TEST(limited_to(0, tagged, "<think>abc") == "<think></think>abc");
}

BOOST_AUTO_TEST_CASE(reasoning_that_is_short_enough_is_left_alone) {
  for (const char* text : {"<think>abc</think>the answer is long", "<think></think>x", "no reasoning at all",
                           "<thin air", "a <think>b is a tag of the answer"}) {
    BOOST_TEST(limited_to(3, tagged, text) == text);
    BOOST_TEST(limited_to(3, letters, text) == text);
  }
  const auto limited = engine::make_reasoning_budget({9, with_tags(), true}, tagged, nullptr);
  BOOST_TEST(!limited->spent());
  written(*limited, tagged, "ab</think>");
  BOOST_TEST(limited->spent());
}

BOOST_AUTO_TEST_CASE(a_mark_that_is_text_is_ended_where_it_has_begun) {
  BOOST_TEST(limited_to(3, letters, "abcdef", true) == "abc</think>def");
  BOOST_TEST(limited_to(5, letters, "abc</think>x", true) == "abc</think>x");
  BOOST_TEST(limited_to(3, letters, "<think>abcdef") == "<think>abc</think>def");
}

BOOST_AUTO_TEST_CASE(a_character_is_ended_first) {
  const std::string euro = "\xE2\x82\xAC";
  BOOST_TEST(limited_to(1, letters, euro + "x", true) == euro + "</think>x");
  BOOST_TEST(limited_to(3, letters, euro + "x", true) == euro + "</think>x");
  // Bytes that are no character are not waited for without end.
  BOOST_TEST(limited_to(1, letters, "\xE2\xE2\xE2\xE2\xE2\xE2", true).find("</think>") == 4U);
}

BOOST_AUTO_TEST_CASE(harmony_goes_on_with_another_channel) {
  const std::string begun = "<|channel|>analysis<|message|>abc";
  const auto out = limited_to(3, harmony, begun + "def", false, of_harmony());
  BOOST_TEST(out == begun + "<|end|><|start|>assistant<|channel|>def");
  // It does not reason again in the next message.
  const auto again = limited_to(3, harmony, begun + "analysis", false, of_harmony());
  BOOST_TEST(again.starts_with(begun + "<|end|><|start|>assistant<|channel|>"));
  BOOST_TEST(again.find("<|channel|>a", begun.size()) == std::string::npos);
  const std::string whole =
      begun + "<|end|><|start|>assistant<|channel|>final<|message|>a long answer with analysis";
  BOOST_TEST(limited_to(9, harmony, whole, false, of_harmony()) == whole);
  // What was used up in one message is used up in the next.
  const std::string twice =
      "<|channel|>analysis<|message|>ab<|end|><|start|>assistant<|channel|>analysis<|message|>";
  BOOST_TEST(limited_to(3, harmony, twice + "cdef", false, of_harmony()).starts_with(twice + "c<|end|>"));
}

// The label behind the mark is no reasoning, and a thought may come behind the answer.
BOOST_AUTO_TEST_CASE(a_channel_of_thought_is_limited_wherever_it_is) {
  const marked_letters gemma4({"<|channel>", "<channel|>"});
  engine::output_format format = with_tags();
  format.reasoning = engine::reasoning_style::channel;
  const auto limited = [&](std::uint32_t tokens, const std::string& text, bool in_reasoning = false) {
    return limited_to(tokens, gemma4, text, in_reasoning, format);
  };
  const std::string open = "<|channel>thought\n";
  BOOST_TEST(limited(3, open + "abcdef") == open + "abc<channel|>def");
  BOOST_TEST(limited(3, "<|channel>" + open + "abcdef") == "<|channel>" + open + "abc<channel|>def");
  BOOST_TEST(limited(0, open + "abc") == open + "<channel|>abc");
  BOOST_TEST(limited(3, "abcdef", true) == "abc<channel|>def");
  BOOST_TEST(limited(9, open + "a<channel|>So. " + open + "<channel|>") ==
             open + "a<channel|>So. " + open + "<channel|>");
  BOOST_TEST(limited(3, open + "ab<channel|>So. " + open + "cdef") ==
             open + "ab<channel|>So. " + open + "c<channel|>def");
}

BOOST_AUTO_TEST_CASE(what_another_constraint_forbids_is_not_forced) {
  engine::token_rules rules;
  rules.banned = {257};
  const auto inner = engine::make_token_rules(rules, tagged.vocab_size());
  const auto limited = engine::make_reasoning_budget({2, with_tags(), true}, tagged, inner);
  BOOST_TEST(written(*limited, tagged, "abcd") == "abcd");
}

BOOST_AUTO_TEST_CASE(a_copy_goes_on_by_itself_and_tells_what_is_forced) {
  const auto limited = engine::make_reasoning_budget({2, with_tags(), true}, letters, nullptr);
  written(*limited, letters, "ab");
  const auto copy = limited->copy();
  std::vector<token_id> forced;
  copy->force(3, forced);
  BOOST_TEST(letters.decode(forced, true) == "</t");
  copy->force(99, forced);
  BOOST_TEST(letters.decode(forced, true) == "</think>");
  BOOST_TEST(copy->spent());
  BOOST_TEST(written(*limited, letters, "x") == "</think>x");
}

BOOST_AUTO_TEST_CASE(masks_follow_from_the_tokens_alone) {
  const auto first = engine::make_reasoning_budget({2, with_tags(), true}, tagged, nullptr);
  const auto second = engine::make_reasoning_budget({2, with_tags(), true}, tagged, nullptr);
  for (const token_id token : tagged.encode("ab</think>cd", {})) {
    const std::vector<std::uint32_t> asked(first->mask().begin(), first->mask().end());
    static_cast<void>(first->mask());  // as after a step that was lost
    const std::vector<std::uint32_t> again(first->mask().begin(), first->mask().end());
    BOOST_TEST(asked == again);
    const auto other = second->mask();
    BOOST_TEST(std::equal(asked.begin(), asked.end(), other.begin(), other.end()));
    BOOST_TEST(first->accept(token));
    BOOST_TEST(second->accept(token));
  }
}

BOOST_AUTO_TEST_CASE(a_format_without_reasoning_has_no_limit) {
  BOOST_TEST(engine::make_reasoning_budget({2, {}, false}, tagged, nullptr) == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd
