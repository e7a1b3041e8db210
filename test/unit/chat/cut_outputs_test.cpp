// Outputs that max_tokens cuts, at every byte: what is handed out is the beginning of the whole answer, and
// no call looks like one that the model had ended.
#include <algorithm>
#include <string>
#include <vector>

#include "engine/chat/argument_types.hpp"
#include "test/support/thread_time.hpp"
#include "test/unit/chat/parted_output.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::answer_style;
using engine::call_format;
using engine::output_end;
using engine::reasoning_style;

namespace {

std::shared_ptr<const engine::argument_types> types() {
  static const auto made = engine::argument_types::of(boost::json::parse(R"([
    {"function": {"name": "look_up", "parameters": {"properties": {
      "s": {"type": "string"}, "n": {"type": "integer"}, "l": {"type": "array"}}}}},
    {"function": {"name": "now"}}])")
                                                          .as_array());
  return made;
}

struct sample {
  engine::output_format format;
  std::string text;
  std::size_t calls = 2;
};

const std::string arguments = R"({"s": "a \"b\" \u00e9", "n": 12, "l": [1, {"x": null}]})";

std::string object(std::string_view member, std::string_view name = "name") {
  return "{\"" + std::string(name) + "\": \"look_up\", \"" + std::string(member) + "\": " + arguments + "}";
}
std::string now(std::string_view member, std::string_view name = "name") {
  return "{\"" + std::string(name) + "\": \"now\", \"" + std::string(member) + "\": {}}";
}

/// Elements with an end of their own, for a function.
std::string coder(std::string_view open, std::string_view close) {
  const std::string body =
      "\n<function=look_up>\n<parameter=s>\ngrep \"</parameter>\" a\n</parameter>\n<parameter=n>\n12\n"
      "</parameter>\n<parameter=l>\n[1, {\"x\": null}]\n</parameter>\n</function>\n";
  return std::string(open) + body + std::string(close) + "\n" + std::string(open) +
         "\n<function=now>\n</function>\n" + std::string(close);
}

engine::output_format with_text_end(call_format calls) {
  engine::output_format out{calls};
  out.text_end = true;
  return out;
}

/// For every format reasoning, content and calls, as far as it has them.
std::vector<sample> samples() {
  const std::string thought = "<think>\nI look <it> up.\n</think>\n\n", said = "I look: 1 < 2.\n";
  const std::string thought_and_said = thought + said;
  const std::string one = object("arguments"), two = now("arguments");
  const std::string pairs =
      "<tool_call>look_up\n<arg_key>n</arg_key>\n<arg_value>12</arg_value>\n<arg_key>s</"
      "arg_key>\n<arg_value>a "
      "</b></arg_value>\n<arg_key>l</arg_key>\n<arg_value>[1, {\"x\": null}]</arg_value>\n</tool_call>\n"
      "<tool_call>now\n</tool_call>";
  const std::string to = "<|start|>assistant<|channel|>commentary to=functions.";
  return {
      {{call_format::none, true}, thought_and_said, 0},
      {{call_format::hermes, true},
       thought_and_said + "<tool_call>\n" + one + "\n</tool_call>\n<tool_call>\n" + two + "\n</tool_call>"},
      {{call_format::llama3, false}, object("parameters") + "; " + now("parameters")},
      {{call_format::llama3, false},
       "<|python_tag|>" + object("parameters") + "<|python_tag|>" + now("parameters")},
      {{call_format::mistral, true, reasoning_style::brackets},
       "[THINK]I look.[/THINK]" + said + "[TOOL_CALLS][" + one + ", " + two + "]"},
      {{call_format::mistral, false},
       said + "[TOOL_CALLS]look_up[CALL_ID]abcdef123[ARGS]" + arguments + "[TOOL_CALLS]now[ARGS]{}"},
      {{call_format::harmony, false},
       "<|channel|>analysis<|message|>I look <it> "
       "up.<|end|><|start|>assistant<|channel|>commentary<|message|>"
       "I look: 1 < 2.<|end|>" +
           to + "look_up <|constrain|>json<|message|>" + arguments + "<|call|>" + to +
           "now <|constrain|>json<|message|>{}<|call|>"},
      {{call_format::granite, true, reasoning_style::think, answer_style::response},
       "<think>I look.</think><response>Look.</response><|tool_call|>[" + one + ", " + two + "]"},
      {{call_format::command_r, false},
       said + "Action:\n```json\n[\n    " + object("parameters", "tool_name") + ",\n    " +
           now("parameters", "tool_name") + "\n]```"},
      {{call_format::action, true, reasoning_style::thinking, answer_style::response_tokens},
       "<|START_THINKING|>I look.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", " +
           object("parameters", "tool_name").substr(1) + ",\n    {\"tool_call_id\": \"1\", " +
           now("parameters", "tool_name").substr(1) + "\n]<|END_ACTION|>"},
      {{call_format::tool_code, false},
       said + "```tool_code\n" + object("parameters") + "\n```\n```tool_code\n" + now("parameters") +
           "\n```"},
      {{call_format::glm, false}, "look_up\n" + arguments + "<|assistant|>now\n{}"},
      {{call_format::arg_pairs, true}, thought_and_said + pairs},
      {{call_format::qwen_coder, true}, thought_and_said + coder("<tool_call>", "</tool_call>")},
      {{call_format::seed, true, reasoning_style::seed},
       "<seed:think>I look.</seed:think>\n" + said + coder("<seed:tool_call>", "</seed:tool_call>")},
      {{call_format::olmo, true},
       thought_and_said +
           "<function_calls>\nlook_up(s='a \"b\"', n=12, l=[1, {'x': None}])\nnow()\n</function_calls>"},
      {{call_format::lfm2, true},
       thought_and_said +
           "<|tool_call_start|>[look_up(s='a \"b\"', n=12, l=[1, {'x': None}]), now()]<|tool_call_end|>"},
      {{call_format::internlm, false},
       said + "<|action_start|><|plugin|>\n" + object("parameters") +
           "<|action_end|><|action_start|><|plugin|>\n" + now("parameters") + "<|action_end|>"},
      {{call_format::gemma4, true, reasoning_style::channel},
       "<|channel>thought\nI look <it> up.\n<channel|>" + said +
           "<|tool_call>call:look_up{s:<|\"|>a \"b\" \\ <|\"|>,n:12,l:[1,{x:null}]}<tool_call|>"
           "<|tool_call>call:now{}<tool_call|>"},
      {{call_format::generic, true}, thought + "{\"tool_calls\": [" + one + ", " + two + "]}"},
      {{call_format::generic, false}, "{\"tool_call\": " + one + "}", 1},
      {{call_format::generic, true},
       thought + "{\"response\": \"a \\\"b\\\" \\u00e9\\ud83d\\ude00 1 < 2.\\n\"}",
       0},
      {with_text_end(call_format::none), "I look: 1 < 2 <|im.<|im_end|>And <|im_end|> more.", 0},
      {with_text_end(call_format::generic),
       "{\"tool_calls\": [{\"name\": \"look_up\", \"arguments\": {\"s\": \"<|im_end|>\"}}]}<|im_end|>{}", 1},
  };
}

engine::parse_options known() {
  return {true, false, types()};
}

bool begins(std::string_view whole, std::string_view part) {
  const std::size_t last = part.find_last_not_of(" \n\t\r");
  return whole.starts_with(part.substr(0, last == std::string_view::npos ? 0 : last + 1));
}

/// The whole answer's, up to somewhere: no mark, no half of one.
void check_beginning(const parted& got, const parted& whole, std::string_view text) {
  BOOST_TEST(begins(whole.content, got.content), "content [" << got.content << "] of " << text);
  BOOST_TEST(begins(whole.reasoning, got.reasoning), "reasoning [" << got.reasoning << "] of " << text);
  BOOST_TEST_REQUIRE(got.calls.size() <= whole.calls.size(), text);
  for (std::size_t i = 0; i < got.calls.size(); ++i) {
    const std::string &args = got.calls[i].arguments, &full = whole.calls[i].arguments;
    BOOST_TEST(got.calls[i].name == whole.calls[i].name, text);
    BOOST_TEST(full.starts_with(args), args << " of " << text);
    BOOST_TEST(!args.empty(), text);
    BOOST_TEST(is_object(args) == (args == full), args << " of " << text);
    BOOST_TEST((i + 1 == got.calls.size() || args == full), text);
  }
}

/// Milliseconds that a text that is this part again and again takes to be read.
double time_of(const engine::output_format& format, std::string_view part, bool reasoning, std::size_t size) {
  std::string many;
  while (many.size() < size) many += part;
  engine::parse_options options = known();
  options.in_reasoning = reasoning;
  const double start = cpu_ms();
  engine::output_parser parser(format, options);
  for (std::size_t at = 0; at < many.size(); at += 4'096)
    (void)parser.push(std::string_view(many).substr(at, 4'096));
  (void)parser.finish(output_end::cut);
  return cpu_ms() - start;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cut_outputs)

BOOST_AUTO_TEST_CASE(every_format_at_every_byte) {
  std::size_t cuts = 0;
  for (const auto& [format, text, calls] : samples()) {
    const auto whole = in_pieces(format, known(), text, {});
    BOOST_TEST_REQUIRE(whole.calls.size() == calls, text);
    for (const auto& call : whole.calls)
      BOOST_TEST(is_object(call.arguments), call.arguments << " of " << text);
    for (std::size_t size = 0; size <= text.size(); ++size, ++cuts) {
      const std::string_view cut = std::string_view(text).substr(0, size);
      const auto got = in_pieces(format, known(), cut, {}, output_end::cut);
      check_beginning(got, whole, cut);
      BOOST_TEST(in_pieces(format, known(), cut, every_byte(size), output_end::cut) == got, cut);
      BOOST_TEST(in_tokens(format, known(), cut, output_end::cut) == got, cut);
    }
  }
  BOOST_TEST(cuts > 2'000U);
}

// What a call has before its arguments is nothing to a client.
BOOST_AUTO_TEST_CASE(a_call_that_is_cut_before_its_arguments_is_none) {
  for (const auto& [format, text, calls] : samples()) {
    if (calls == 0) continue;
    const std::size_t name = text.find("look_up");
    const auto got = in_pieces(format, known(), text.substr(0, name + 7), {}, output_end::cut);
    BOOST_TEST(got.calls.empty(), text);
    BOOST_TEST(got.content.find("look_up") == std::string::npos, got.content);
  }
}

BOOST_AUTO_TEST_CASE(text_that_only_looks_like_a_call_is_content_where_it_is_cut) {
  const engine::output_format llama{call_format::llama3, false}, glm{call_format::glm, false};
  const auto content = [](const engine::output_format& format, std::string_view text) {
    return in_pieces(format, known(), text, {}, output_end::cut).content;
  };
  BOOST_TEST(content(llama, "{\"name\": \"Ann") == "{\"name\": \"Ann");
  BOOST_TEST(content(llama, "{\"name\": \"look") == "");
  BOOST_TEST(content(glm, "It is") == "It is");
  BOOST_TEST(content(glm, "It") == "It");
  BOOST_TEST(content(glm, "look_") == "");
  // A beginning of a mark that would be no mark here.
  BOOST_TEST(content({call_format::none, true}, "1 <") == "1 <");
  BOOST_TEST(content({call_format::hermes, true}, "1 <") == "1 ");
}

BOOST_AUTO_TEST_CASE(arguments_that_are_a_text_are_handed_out_as_far_as_they_came) {
  const engine::output_format hermes{call_format::hermes, false};
  const std::string begin = "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": \\\"x";
  const parted expected{"", "", {{"f", "{\"a\": \"x"}}};
  BOOST_TEST(in_pieces(hermes, {}, begin, {}, output_end::cut) == expected);
  BOOST_TEST(in_pieces(hermes, {}, begin + "\\u00", {}, output_end::cut) == expected);
}

/// Whether there is a call of a function that nobody offers. Where no mark begins a call, its beginning is
/// text until its arguments come.
bool has_strange_call(const engine::output_format& format, const parted& output) {
  if (format.calls != call_format::llama3 && format.calls != call_format::glm) return false;
  return !std::ranges::all_of(output.calls,
                              [](const call& one) { return one.name == "look_up" || one.name == "now"; });
}

// Of outputs that are damaged at random, too, what a cut hands out is what the whole output would have had.
BOOST_AUTO_TEST_CASE(damaged_outputs_at_any_byte_in_any_pieces) {
  std::mt19937 random(5);
  for (const auto& [format, text, calls] : samples()) {
    for (int i = 0; i < 150; ++i) {
      const std::string wrong = damaged(text, random);
      const auto size = random() % (wrong.size() + 1);
      const std::string_view cut = std::string_view(wrong).substr(0, size);
      const auto whole = in_pieces(format, known(), wrong, {});
      const auto got = in_pieces(format, known(), cut, {}, output_end::cut);
      BOOST_TEST(in_pieces(format, known(), cut, random_cuts(size, random), output_end::cut) == got, cut);
      if (!has_strange_call(format, whole))
        BOOST_TEST(begins(whole.content, got.content), got << " of " << whole);
      for (std::size_t n = 0; n < got.calls.size(); ++n) {
        if (!is_object(got.calls[n].arguments)) continue;
        BOOST_TEST((n < whole.calls.size() && got.calls[n] == whole.calls[n]), got << " of " << whole);
      }
    }
  }
}

// A time that grows with the square would be minutes for a mebibyte, and seconds for a sixteenth of it.
BOOST_AUTO_TEST_CASE(marks_again_and_again_take_no_long_time) {
  for (const auto& [format, text, calls] : samples()) {
    const auto marks = engine::reading_marks(format);
    std::vector<std::string> parts(marks.begin(), marks.end());
    parts.insert(parts.end(),
                 {text, "{", "[", "}", "<", "\n", "</parameter>\n\n\n", "<tool_call>[{}, ", "f(a=(("});
    if (!marks.empty()) parts.push_back(std::string(marks.front()) + "[{} ,");
    for (const std::string& part : parts) {
      for (const bool reasoning : {false, true})
        BOOST_TEST(time_of(format, part, reasoning, 1U << 16U) < 2'000, part);
    }
    if (!marks.empty()) BOOST_TEST(time_of(format, marks.front(), true, 1U << 20U) < 5'000, marks.front());
  }
}

BOOST_AUTO_TEST_SUITE_END()
