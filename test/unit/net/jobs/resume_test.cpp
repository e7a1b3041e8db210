// Answers that another process goes on with: what it sends is what the first one had not sent, byte for byte,
// wherever the cut was, for every API.
#include <boost/test/unit_test.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/anthropic/message_events.hpp"
#include "net/completion/prepare_completion.hpp"
#include "net/execute/execute_output.hpp"
#include "net/jobs/job_group.hpp"
#include "net/llama/llama_answer.hpp"
#include "net/openai/completion_answer.hpp"
#include "net/responses/response_answer.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

using engine::steady_time;
using engine::token_id;
using namespace std::chrono_literals;

const test::letter_tokenizer letters;
const steady_time now{1h};
const std::chrono::system_clock::time_point wall{std::chrono::milliseconds(1'759'521'600'000)};

/// Reasoning, characters of several bytes, what might be a stop string and is none, and two calls.
const std::string talk =
    "<think>why n\xC3\xB6t</think>H\xC3\xA9llo S ST STO!"
    "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>"
    "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>";
const std::string plain = "a\nb\xC3\xA9 S ST \xF0\x9F\x98\x80 STO";  // the end sets the last of it free
const std::string stopped = "ab ST STOP and more";

struct step {
  enum kind { start, progress, token, end } what = start;
  std::size_t job = 0;
  token_id id = -1;
};

/// The events of jobs that take turns.
std::vector<step> script(const std::vector<std::string>& texts) {
  std::vector<step> out;
  std::size_t longest = 0;
  for (std::size_t job = 0; job < texts.size(); ++job) {
    out.push_back({step::start, job});
    out.push_back({step::progress, job});
    longest = std::max(longest, texts[job].size());
  }
  for (std::size_t i = 0; i <= longest; ++i) {
    for (std::size_t job = 0; job < texts.size(); ++job) {
      if (i < texts[job].size()) out.push_back({step::token, job, static_cast<unsigned char>(texts[job][i])});
      if (i == texts[job].size()) out.push_back({step::end, job});
    }
  }
  return out;
}

/// How a job's answer is made, and what its model says.
struct story {
  std::string name;
  std::function<job_group()> make;
  std::vector<std::string> texts;
};

/// What the model gives with a token.
std::vector<engine::token_logprob> values_of(token_id id) {
  return {{id, -0.25F}, {id + 1, -2.5F}};
}

std::string play(job_group& group, const step& one, std::uint32_t tokens_out, bool values = false) {
  auto& job = group.executions()[one.job];
  switch (one.what) {
    case step::start: job.started(1.5, wall); break;
    case step::progress: job.progress({1, 1, 0}); break;
    case step::token:
      job.token(one.id, values ? values_of(one.id) : std::vector<engine::token_logprob>());
      break;
    case step::end: {
      engine::end_event end;
      end.reason = engine::finish_reason::length;
      end.stats.tokens_in = 3;
      end.stats.tokens_out = tokens_out;
      end.stats.decode_ms = 10;
      job.ended(end, now);
      break;
    }
  }
  return group.take_output(now);
}

/// A first process' whole answer.
struct first_run {
  explicit first_run(const story& s) : steps(script(s.texts)), group(s.make()) {
    for (const step& one : steps) {
      outputs.push_back(play(group, one, static_cast<std::uint32_t>(s.texts[one.job].size())));
      std::vector<resume_point> points;
      for (const auto& job : group.executions()) points.push_back(job.told());
      told.push_back(std::move(points));
    }
  }
  [[nodiscard]] std::string sent(std::size_t from, std::size_t to) const {
    std::string out;
    for (std::size_t i = from; i < to; ++i) out += outputs[i];
    return out;
  }
  std::vector<step> steps;
  std::vector<std::string> outputs;
  std::vector<std::vector<resume_point>> told;
  job_group group;
};

/// A second process: the client has been told of the first `told` steps, the tokens of the first `known` ones
/// are at hand.
std::string second_run(const story& s, const first_run& first, std::size_t told, std::size_t known,
                       std::string& body) {
  job_group group = s.make();
  std::string out;
  for (std::size_t job = 0; job < s.texts.size(); ++job) {
    auto& execution = group.executions()[job];
    if (told > 0) execution.resume(first.told[told - 1][job]);
    std::vector<token_id> tokens;
    for (std::size_t i = 0; i < known; ++i) {
      if (first.steps[i].what == step::token && first.steps[i].job == job)
        tokens.push_back(first.steps[i].id);
    }
    if (tokens.empty()) continue;
    execution.started(1.5, wall);
    execution.progress({1, 1, 0});
    const auto half = std::span(tokens).first(tokens.size() / 2);
    execution.restore(half);
    execution.restore(std::span(tokens).subspan(half.size()));
    out += group.take_output(now);
  }
  for (std::size_t i = 0; i < first.steps.size(); ++i) {
    const step& one = first.steps[i];
    if (i < known && one.what == step::token) continue;
    out += play(group, one, static_cast<std::uint32_t>(s.texts[one.job].size()));
  }
  if (!group.streams()) body = group.final_reply().body;
  return out;
}

void check(const story& s) {
  const first_run first(s);
  const std::size_t all = first.steps.size();
  BOOST_TEST(first.group.stream_over());
  const std::string want = first.group.streams() ? std::string() : first.group.final_reply().body;
  if (first.group.streams()) BOOST_TEST(!first.sent(0, all).empty());
  for (std::size_t told = 0; told < all; ++told) {
    const std::string rest = first.sent(told, all);
    const std::string where = s.name + ", told of " + std::to_string(told);
    std::string body;
    BOOST_TEST(second_run(s, first, told, told, body) == rest, where << ", with their tokens");
    BOOST_TEST(body == want, where);
    BOOST_TEST(second_run(s, first, told, 0, body) == rest, where << ", computed again");
    BOOST_TEST(body == want, where);
    if (s.texts.size() > 1) continue;  // otherwise the jobs' frames would come in another order
    BOOST_TEST(second_run(s, first, told, std::min(told + 5, all - 1), body) == rest,
               where << ", with more tokens");
    BOOST_TEST(second_run(s, first, told, told - std::min<std::size_t>(told, 5), body) == rest,
               where << ", with fewer tokens");
    BOOST_TEST(body == want, where);
  }
}

job_execution_config config_of(std::uint32_t max_tokens) {
  job_execution_config out;
  out.job_id = "j";
  out.model = "m";
  out.seed = 7;
  out.tokens_in = 3;
  out.max_tokens = max_tokens;
  out.received_at = now;
  return out;
}

reader_options reader_of(std::vector<std::string> stop, bool parallel = true) {
  reader_options out;
  out.format = {engine::call_format::hermes, true};
  out.stop = std::move(stop);
  out.parallel = parallel;
  return out;
}

/// `reads`: message_reader separates the output and looks for stop strings.
job_group group_of(std::vector<std::unique_ptr<job_output>> outputs, answer_plan plan, bool reads,
                   std::uint32_t max_tokens) {
  std::vector<job_execution> executions;
  for (auto& output : outputs) {
    const auto stop = reads ? std::vector<std::string>() : std::vector<std::string>{"STOP"};
    executions.emplace_back(config_of(max_tokens), engine::token_stream(letters, stop), std::move(output));
  }
  return {"j", std::move(executions), std::move(plan)};
}

job_group group_of(std::unique_ptr<job_output> output, answer_plan plan, bool reads,
                   std::uint32_t max_tokens) {
  std::vector<std::unique_ptr<job_output>> outputs;
  outputs.push_back(std::move(output));
  return group_of(std::move(outputs), std::move(plan), reads, max_tokens);
}

job_group execute(std::uint32_t max_tokens, const resume_point& told = {}) {
  auto output = make_execute_output(config_of(max_tokens), true);
  auto out = group_of(std::move(output), {}, false, max_tokens);
  out.executions().front().resume(told);
  return out;
}

job_group completion(completion_kind kind, bool stream, std::uint32_t choices, bool reads,
                     std::uint32_t max_tokens, bool values = false) {
  completion_identity identity;
  identity.kind = kind;
  identity.id = "c1";
  identity.model = "m";
  identity.stream = stream;
  identity.include_usage = true;
  identity.usage_in_chunks = true;
  identity.prompt_tokens = {3};
  identity.choices = choices;
  identity.logprobs = values;
  identity.shows.token_ids = true;
  identity.shows.timings = true;
  identity.shows.progress = true;
  const auto answer = std::make_shared<completion_answer>(identity);
  std::vector<std::unique_ptr<job_output>> outputs;
  for (std::uint32_t i = 0; i < choices; ++i) {
    outputs.push_back(make_choice_output(answer, i, letters, reads ? reader_of({"STOP"}) : reader_options{}));
  }
  answer_plan plan;
  plan.streams = stream;
  plan.closing = [answer] { return answer->closing(); };
  plan.body = [answer] { return answer->body(); };
  return group_of(std::move(outputs), std::move(plan), reads, max_tokens);
}

job_group message(bool stream, std::uint32_t max_tokens) {
  const message_identity identity{"msg_1", "m", 9, false, engine::call_format::hermes};
  answer_plan plan;
  plan.streams = stream;
  const auto whole = std::make_shared<whole_message>();
  plan.body = [identity, whole] { return render_message(identity, *whole); };
  auto writer = stream ? make_event_writer(identity) : make_block_collector(identity, *whole);
  return group_of(make_message_output(std::move(writer), letters, reader_of({"STOP"})), std::move(plan), true,
                  max_tokens);
}

job_group response(bool stream, bool parallel, std::uint32_t max_tokens) {
  auto notes = std::make_shared<response_notes>();
  notes->names["f"] = {"f", "", false};
  notes->names["g"] = {"g", "n", true};
  response_identity identity;
  identity.id = "resp_1";
  identity.model = "m";
  identity.echo = R"("store":false)";
  identity.notes = std::move(notes);
  identity.calls = engine::call_format::hermes;
  identity.stream = stream;
  identity.now = [] { return std::int64_t{7}; };
  const auto answer = std::make_shared<response_answer>(std::move(identity), letters);
  answer_plan plan;
  plan.streams = stream;
  plan.body = [answer] { return answer->body(); };
  return group_of(make_message_output(make_response_writer(answer), letters, reader_of({"STOP"}, parallel)),
                  std::move(plan), true, max_tokens);
}

job_group llama(bool stream, std::uint32_t jobs, std::uint32_t max_tokens, bool values = false) {
  prepared_completion prepared;
  prepared.asked.logprobs = values;
  prepared.asked.stream = stream;
  prepared.asked.token_ids = true;
  prepared.asked.shows.timings = true;
  prepared.asked.shows.progress = true;
  for (std::uint32_t i = 0; i < jobs; ++i) {
    engine::job_request job;
    job.prompt = {'a', 'b', 'c'};
    job.max_tokens = max_tokens;
    prepared.jobs.push_back(std::move(job));
    prepared.echoes.push_back(std::make_shared<prompt_echo>(prompt_echo{"abc", 'a', false, 0}));
  }
  auto answer = make_llama_answer(prepared, "m", letters, {});
  return group_of(std::move(answer.outputs), std::move(answer.plan), false, max_tokens);
}

/// Jobs of one text that show log probabilities: of the tokens that were told those are taken whose values
/// were written, the others come again.
void check_values(const std::string& name, const std::function<job_group()>& make, const std::string& text) {
  const auto steps = script({text});
  const auto length = static_cast<std::uint32_t>(text.size());
  job_group first = make();
  std::vector<std::string> outputs;
  std::vector<resume_point> told;
  std::vector<std::size_t> unwritten;
  for (const step& one : steps) {
    outputs.push_back(play(first, one, length, true));
    told.push_back(first.executions().front().told());
    unwritten.push_back(first.executions().front().unwritten_values());
  }
  std::size_t taken_in_all = 0;
  for (std::size_t cut = 1; cut < steps.size(); ++cut) {
    const std::uint32_t tokens = told[cut - 1].tokens;
    const std::size_t taken = tokens - std::min<std::size_t>(tokens, tokens > 0 ? unwritten[cut - 1] : 0);
    taken_in_all += taken;
    job_group second = make();
    auto& execution = second.executions().front();
    execution.resume(told[cut - 1]);
    std::string out;
    std::vector<token_id> restored;
    for (std::size_t i = 0; i < taken; ++i) restored.push_back(static_cast<unsigned char>(text[i]));
    if (!restored.empty()) {
      execution.started(1.5, wall);
      execution.progress({1, 1, 0});
      execution.restore(restored, true);
    }
    out += second.take_output(now);
    std::size_t token = 0;
    for (const step& one : steps) {
      if (one.what == step::token && token++ < taken) continue;
      out += play(second, one, length, true);
    }
    std::string rest;
    for (std::size_t i = cut; i < outputs.size(); ++i) rest += outputs[i];
    BOOST_TEST(out == rest, name << ", told of " << cut << ", " << taken << " taken");
  }
  BOOST_TEST(taken_in_all > 0U, name);
}

/// The texts as ends with everything told, with something set free, and at the limit of tokens.
template <class Make>
void check_texts(const std::string& name, const Make& make, const std::vector<std::string>& texts) {
  for (const auto& text : texts) {
    const auto length = static_cast<std::uint32_t>(text.size());
    for (const std::uint32_t max_tokens : {length, length + 9}) {
      check({name + " '" + text + "'", [&make, max_tokens] { return make(max_tokens); }, {text}});
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(resumed_answers)

BOOST_AUTO_TEST_CASE(of_execute) {
  check_texts("execute", [](auto most) { return execute(most); }, {plain, stopped, "", "a", "S"});
}

BOOST_AUTO_TEST_CASE(of_chat_completions) {
  for (const bool stream : {true, false}) {
    check_texts("chat",
                [stream](auto most) { return completion(completion_kind::chat, stream, 1, true, most); },
                {talk, stopped, plain});
  }
}

BOOST_AUTO_TEST_CASE(of_completions) {
  for (const bool stream : {true, false}) {
    check_texts("text",
                [stream](auto most) { return completion(completion_kind::text, stream, 1, false, most); },
                {stopped, plain, ""});
  }
}

BOOST_AUTO_TEST_CASE(of_answers_with_log_probabilities) {
  for (const auto& text : {plain, stopped, talk}) {
    for (const std::uint32_t most : {500U, static_cast<std::uint32_t>(text.size())}) {
      check_values(
          "chat " + text, [&] { return completion(completion_kind::chat, true, 1, true, most, true); }, text);
      check_values(
          "text " + text, [&] { return completion(completion_kind::text, true, 1, false, most, true); },
          text);
      check_values(
          "llama " + text, [&] { return llama(true, 1, most, true); }, text);
    }
  }
}

BOOST_AUTO_TEST_CASE(of_several_choices) {
  for (const auto kind : {completion_kind::chat, completion_kind::text}) {
    const bool chat = kind == completion_kind::chat;
    check({"choices", [&] { return completion(kind, true, 3, chat, 500); }, {plain, talk, stopped}});
  }
  check({"llama", [] { return llama(true, 2, 500); }, {plain, stopped}});
}

BOOST_AUTO_TEST_CASE(of_messages) {
  for (const bool stream : {true, false}) {
    check_texts("messages", [stream](auto most) { return message(stream, most); }, {talk, stopped, plain});
  }
}

BOOST_AUTO_TEST_CASE(of_responses) {
  for (const bool stream : {true, false}) {
    for (const bool parallel : {true, false}) {
      check_texts("responses", [=](auto most) { return response(stream, parallel, most); },
                  {talk, stopped, plain});
    }
  }
}

BOOST_AUTO_TEST_CASE(of_llama_completions) {
  for (const bool stream : {true, false}) {
    check_texts("llama", [stream](auto most) { return llama(stream, 1, most); }, {stopped, plain, ""});
  }
}

BOOST_AUTO_TEST_CASE(more_progress_than_before_is_told) {
  auto group = completion(completion_kind::chat, true, 1, false, 9);
  auto& job = group.executions().front();
  resume_point told;
  told.started = true;
  told.processed = 2;
  job.resume(told);
  job.started(1.5, wall);
  job.progress({0, 0, 0});
  job.progress({0, 2, 1});
  BOOST_TEST(group.take_output(now) == "");
  job.progress({0, 3, 2});
  BOOST_TEST(group.take_output(now).find("\"processed\":3") != std::string::npos);
  BOOST_TEST(job.told().processed == 3U);
}

BOOST_AUTO_TEST_CASE(a_stop_string_in_restored_output_ends_the_job) {
  auto group = execute(50);
  auto& job = group.executions().front();
  job.started(1.5, wall);
  std::vector<token_id> tokens;
  for (const char c : stopped) tokens.push_back(static_cast<unsigned char>(c));
  job.restore(tokens);
  BOOST_TEST((job.take_cancel() == engine::cancel_reason::stop_string));
  BOOST_TEST(job.told().tokens == stopped.find("STOP") + 4);
  // More jobs than slots: this one need not wait for one.
  job.ended(end_of_unsubmitted(engine::cancel_reason::stop_string, 3), now);
  BOOST_TEST(group.take_output(now).find("\"finish_reason\":\"stop\",\"tokens_in\":3,") != std::string::npos);
  BOOST_TEST(group.completed());
  const auto other = end_of_unsubmitted(engine::cancel_reason::client_cancel, 3);
  BOOST_TEST_REQUIRE(std::holds_alternative<engine::error_event>(other));
  BOOST_TEST(std::get<engine::error_event>(other).stats.tokens_in == 3U);
}

BOOST_AUTO_TEST_CASE(failures_and_keep_alive_are_told_behind_the_cut) {
  auto group = execute(50);
  auto& job = group.executions().front();
  job.resume(resume_point::after_event(9));
  job.started(1.5, wall);
  job.token('a');
  BOOST_TEST(group.take_output(now) == "");
  group.tick(now + 15s);
  BOOST_TEST(group.take_output(now + 15s) == ": keep-alive\n\n");
  engine::error_event failed;
  failed.failure = engine::error(engine::errc::internal, "because");
  job.ended(failed, now);
  BOOST_TEST(group.take_output(now + 15s).starts_with("event: error\n"));
}

// What a client that names the last event that it has gets.
BOOST_AUTO_TEST_CASE(events_of_execute_after_an_id) {
  for (const auto& text : {plain, stopped, std::string("S"), std::string()}) {
    for (const bool limit : {true, false}) {
      const auto most = static_cast<std::uint32_t>(text.size()) + (limit ? 0 : 9);
      const story whole{"execute", [most] { return execute(most); }, {text}};
      const first_run first(whole);
      const std::string all = first.sent(0, first.steps.size());
      const auto last = all.find("event: metrics");
      for (std::uint32_t id = 0; id < text.size() + 3; ++id) {
        std::string rest = all;
        for (std::uint32_t seen = 0; seen <= id; ++seen) {
          const auto at = rest.find("id: " + std::to_string(seen) + "\n");
          if (at != std::string::npos) rest.erase(0, rest.find("\n\n", at) + 2);
        }
        if (rest.starts_with("event: started")) rest.erase(0, rest.find("\n\n") + 2);
        const story behind{"", [=] { return execute(most, resume_point::after_event(id)); }, {text}};
        std::string body;
        BOOST_TEST(second_run(behind, first, 0, 0, body) == rest, text << " after " << id);
        if (id >= text.size()) BOOST_TEST(rest == all.substr(last));
      }
      const story beyond{"", [=] { return execute(most, resume_point::after_event(~0U)); }, {text}};
      std::string body;
      BOOST_TEST(second_run(beyond, first, 0, 0, body) == all.substr(last));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::net
