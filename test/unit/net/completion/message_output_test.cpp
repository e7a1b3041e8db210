#include "net/completion/message_output.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <optional>
#include <utility>

#include "net/jobs/job_execution.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

using engine::output_delta;
using engine::steady_time;
using namespace std::chrono_literals;

const test::letter_tokenizer letters;

/// Writes what it is called with.
class call_writer final : public message_writer {
 public:
  explicit call_writer(message_end& end) : end_(end) {}
  void started(std::string& out) override { out += "start "; }
  void part(std::string& out, const output_delta& part, message_progress& progress) override {
    constexpr std::string_view kinds = "trca";  // text, reasoning, call, arguments
    out += kinds[static_cast<std::size_t>(part.what)];
    out += std::to_string(progress.tokens) + "'" + part.name + part.text + "' ";
  }
  void ended(std::string& out, const message_end& end, message_progress&) override {
    out += "end";
    end_ = end;
  }
  void failed(std::string& out, const engine::error& failure) override { out += failure.message; }
  void keep_alive(std::string& out) override { out += "alive"; }

 private:
  message_end& end_;
};

reader_options hermes(std::vector<std::string> stop = {}) {
  reader_options out;
  out.format = {engine::call_format::hermes, true};
  out.stop = std::move(stop);
  return out;
}

struct fixture {
  explicit fixture(const reader_options& reader = {}, std::vector<std::string> stop = {})
      : job({}, engine::token_stream(letters, std::move(stop)),
            make_message_output(std::make_unique<call_writer>(end), letters, reader)) {
    job.started(1, {});
  }
  std::string run(std::string_view text, engine::finish_reason reason = engine::finish_reason::length) {
    for (const char c : text) job.token(static_cast<unsigned char>(c));
    engine::end_event event;
    event.reason = reason;
    event.stats.tokens_out = static_cast<std::uint32_t>(text.size());
    job.ended(event, steady_time{1h});
    return job.take_output(steady_time{1h});
  }
  message_end end;
  job_execution job;
};

BOOST_AUTO_TEST_SUITE(message_outputs)

BOOST_AUTO_TEST_CASE(parts_come_in_the_order_of_the_output) {
  fixture f(hermes());
  const auto text = f.run("<think>a</think>b<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>");
  BOOST_TEST(text == "start r8'a' t17'b' c56'f' a56'{' a57'}' end");
  BOOST_TEST(f.end.calls == 1U);
  BOOST_TEST(f.end.reasoning_tokens == 10U);
  BOOST_TEST(f.end.stop.empty());
}

BOOST_AUTO_TEST_CASE(the_end_names_the_stop_string_whoever_has_found_it) {
  fixture plain({}, {"x", "cd"});
  plain.run("abcdef");
  BOOST_TEST(plain.end.stop == "cd");
  BOOST_TEST((plain.end.reason == engine::finish_reason::stop));
  fixture read(hermes({"x", "cd"}));
  read.run("<think>x</think>abcdef");
  BOOST_TEST(read.end.stop == "cd");
  BOOST_TEST((read.end.reason == engine::finish_reason::stop));
}

BOOST_AUTO_TEST_CASE(no_stop_string_where_the_output_ends_for_another_reason) {
  auto one_call = hermes({"x"});
  one_call.parallel = false;
  fixture f(one_call);
  f.run(
      "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"
      "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>");
  BOOST_TEST((f.end.reason == engine::finish_reason::stop));
  BOOST_TEST(f.end.stop.empty());
  BOOST_TEST(f.end.calls == 1U);
}

BOOST_AUTO_TEST_CASE(a_collector_joins_pieces_and_keeps_the_order) {
  whole_message message;
  int made = 0;
  message_collector collector(message, [&made] { return "id" + std::to_string(++made); });
  message_progress progress;
  std::string out;
  using kind = output_delta::kind;
  for (const auto& [what, text, name] :
       std::vector<std::tuple<kind, std::string, std::string>>{{kind::content, "a", ""},
                                                               {kind::content, "b", ""},
                                                               {kind::call, "", "f"},
                                                               {kind::arguments, "{", ""},
                                                               {kind::arguments, "}", ""},
                                                               {kind::call, "", "g"},
                                                               {kind::content, "c", ""}}) {
    collector.part(out, {what, text, name, 0}, progress);
  }
  BOOST_TEST(out.empty());
  BOOST_TEST_REQUIRE(message.parts.size() == 4U);
  BOOST_TEST(message.parts[0].text == "ab");
  BOOST_TEST(message.parts[1].name == "f");
  BOOST_TEST(message.parts[1].text == "{}");
  BOOST_TEST(message.parts[1].id == "id1");
  BOOST_TEST(message.parts[2].id == "id2");
  BOOST_TEST(message.text_of(kind::content) == "abc");
}

BOOST_AUTO_TEST_CASE(ids_of_calls) {
  id_series ids("answer");
  const auto id = make_call_id("toolu_", engine::call_format::hermes, ids);
  BOOST_TEST(id.starts_with("toolu_"));
  BOOST_TEST(id.size() == 30U);
  BOOST_TEST(make_call_id("toolu_", engine::call_format::hermes, ids) != id);
  BOOST_TEST(make_call_id("toolu_", engine::call_format::mistral, ids).size() == 9U);
  id_series again("answer");
  BOOST_TEST(make_call_id("toolu_", engine::call_format::hermes, again) == id);
  id_series other("another");
  BOOST_TEST(make_call_id("toolu_", engine::call_format::hermes, other) != id);
}

/// The entries' own tokens, each with its offset; '?' where there is no log probability.
std::string shown(const std::vector<logprob_entry>& entries) {
  std::string out;
  for (const auto& entry : entries) {
    const auto& own = entry.logprobs.front();
    out += std::to_string(own.token) + "@" + std::to_string(entry.text_offset);
    out += std::isnan(own.logprob) ? "? " : " ";
  }
  return out;
}

struct echoing {
  explicit echoing(prompt_echo echo)
      : job({}, engine::token_stream(letters, {}),
            make_message_output(std::make_unique<message_collector>(whole, [] { return std::string(); }),
                                letters, {}, std::make_shared<prompt_echo>(std::move(echo)))) {
    job.started(1, {});
  }
  void prompt(std::initializer_list<engine::token_id> ids) {
    for (const auto id : ids) {
      const std::vector<engine::token_logprob> told{{id, -1.0F}};
      job.beside_output({engine::token_part::prompt, id, told});
    }
  }
  void output(std::initializer_list<engine::token_id> ids, std::optional<engine::token_id> end = {}) {
    for (const auto id : ids) job.token(id, std::vector<engine::token_logprob>{{id, -2.0F}});
    if (end) {
      const std::vector<engine::token_logprob> last{{*end, -3.0F}};
      job.beside_output({engine::token_part::end, *end, last});
    }
    job.ended(engine::end_event{}, steady_time{1h});
  }
  whole_message whole;
  job_execution job;
};

BOOST_AUTO_TEST_CASE(an_output_may_begin_with_its_prompt) {
  echoing e({"ab", 'a', true, 0});
  e.prompt({'b'});
  e.output({'c', 'd'}, 256);
  BOOST_TEST(e.whole.text_of(output_delta::kind::content) == "abcd");
  BOOST_TEST(shown(e.whole.logprobs) == "97@0? 98@1 99@2 100@3 256@4 ");
}

BOOST_AUTO_TEST_CASE(values_of_a_prompt_go_where_they_are_wanted_and_an_echo_lists_its_own_number) {
  for (const bool logprobs : {true, false}) {
    whole_message whole;
    const auto values = std::make_shared<prompt_values>();
    job_execution job({}, engine::token_stream(letters, {}),
                      make_message_output(
                          std::make_unique<message_collector>(whole, [] { return std::string(); }), letters,
                          {}, std::make_shared<prompt_echo>(prompt_echo{"ab", 'a', logprobs, 0, 1}), values));
    job.started(1, {});
    const std::vector<engine::token_logprob> told{{'b', -2.0F}, {'x', -1.0F}, {'y', -1.5F}};
    job.beside_output({engine::token_part::prompt, 'b', told, 3});
    job.ended(engine::end_event{}, steady_time{1h});
    BOOST_TEST_REQUIRE(values->size() == 1U);
    BOOST_TEST((values->front().logprobs.size() == 3U && values->front().rank == 3U));
    BOOST_TEST(whole.text_of(output_delta::kind::content) == "ab");
    BOOST_TEST_REQUIRE(whole.logprobs.size() == (logprobs ? 2U : 0U));
    if (logprobs) BOOST_TEST(whole.logprobs.back().logprobs.size() == 2U);
  }
}

BOOST_AUTO_TEST_CASE(tokens_that_the_text_does_not_show_take_no_room_in_it) {
  echoing e({"b", 'x', true, 1});  // as a BOS before the text
  e.prompt({'b'});
  e.output({'c'});
  BOOST_TEST(e.whole.text_of(output_delta::kind::content) == "bc");
  BOOST_TEST(shown(e.whole.logprobs) == "120@0? 98@0 99@1 ");
}

BOOST_AUTO_TEST_CASE(a_prompt_without_log_probabilities_is_text_alone) {
  echoing e({"ab", 'a', false, 0});
  e.output({'c'});
  BOOST_TEST(e.whole.text_of(output_delta::kind::content) == "abc");
  BOOST_TEST(shown(e.whole.logprobs) == "99@2 ");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
