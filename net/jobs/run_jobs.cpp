#include "net/jobs/run_jobs.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <memory>
#include <utility>

#include "engine/text/tokenizer.hpp"
#include "net/http/keep_alive.hpp"
#include "net/http/read_input.hpp"
#include "net/jobs/admission_hold.hpp"
#include "net/jobs/job_narration.hpp"
#include "net/jobs/job_stream.hpp"
#include "net/jobs/resumption.hpp"
#include "net/jobs/run_in_background.hpp"
#include "net/jobs/write.hpp"
#include "net/jobs/write_order.hpp"
#include "net/journal/job_turn.hpp"
#include "net/traces/trace_notes.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;
using std::chrono::steady_clock;
using std::chrono::system_clock;
using namespace asio::experimental::awaitable_operators;

constexpr std::size_t batch_bytes = 64 * 1024;  // events written at once

write_state write_state_of(const job_stream& stream) {
  write_state out;
  out.streams = stream.group.streams();
  out.chunked = stream.chunked;
  out.writable = stream.writable;
  out.must_ask = stream.must_ask;
  out.over = stream.group.stream_over();
  return out;
}

/// Notices that the client closed the connection. Bytes of a next request are kept for later, up to a limit:
/// a mere peek would return them for ever and never show the end behind them. A client that only closed its
/// sending side is noticed by sending to it: if it is gone, its host answers with a reset.
asio::awaitable<void> watch_disconnect(job_stream& stream) {
  auto& input = stream.link.input;
  auto& socket = stream.link.stream.socket();
  while (stream.watching && !stream.half_closed) {
    const auto got = co_await read_input(stream.link, 4'096);
    const error_code ec = got.failed;
    if (!stream.watching) co_return;
    const write_state state = write_state_of(stream);
    const auto client = judge_read(state, ec == asio::error::eof, ec.failed(), input.size());
    if (client == client_state::half_closed) stream.sends_no_more();
    if (client != client_state::gone) continue;
    stream.client_gone();
    co_return;
  }
  if (!stream.watching) co_return;
  const auto [ec] = co_await socket.async_wait(tcp::socket::wait_error, as_tuple_token);
  static_cast<void>(ec);  // a reset, or stop_watching()
  if (stream.watching) stream.client_gone();
}

void stop_watching(job_stream& stream) {
  stream.watching = false;
  error_code ignored;
  stream.link.stream.socket().cancel(ignored);
}

/// Does something with a job's execution that may tell the client more, and notes in the journal what it did.
template <class Action>
void tell(job_stream& stream, std::size_t job, engine::token_id token, const Action& action) {
  auto& execution = stream.group.executions()[job];
  if (!stream.link.record || !stream.group.streams()) return action(execution);
  const resume_point before = execution.told();
  action(execution);
  auto event = event_between(job, before, execution.told(), stream.known[job], token);
  if (!event) return;
  if (event->what == journal_event::kind::token && stream.shows_values[job]) {
    event->unwritten =
        static_cast<std::uint8_t>(std::min<std::size_t>(execution.unwritten_values(), all_unwritten));
  }
  stream.link.record->event(*event);
  if (event->what != journal_event::kind::token || execution.told().tokens != 1) return;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(steady_clock::now() - execution.received_at());
  stream.link.record->event(
      {event->job, journal_event::kind::first_token, static_cast<std::int32_t>(ms.count())});
}

/// Tells the job's beginning and how far its prompt is, before the token or the end that came after it.
void take_progress(job_stream& stream, std::size_t job) {
  auto& events = *stream.events[job];
  if (const auto started = events.read_started()) {
    tell(stream, job, -1, [&](auto& to) { to.started(started->queue_ms, system_clock::now()); });
    stream.cached[job] = started->cached;
    tell(stream, job, -1, [&](auto& to) { to.progress({started->cached, started->cached, 0}); });
  }
  if (const auto progress = events.read_progress()) {
    const prompt_progress made{stream.cached[job], progress->processed, progress->elapsed_ms};
    tell(stream, job, -1, [&](auto& to) { to.progress(made); });
  }
}

/// Another engine could go on with it.
bool is_kept(const connection& c) {
  return c.record && !c.record->abandoned();
}

/// Passes on the events that have arrived for one job, until a batch is full. Returns whether more are
/// waiting.
bool take_events(job_stream& stream, std::size_t job) {
  if (!stream.events[job]) return false;  // not submitted yet, or ended before it was
  auto& events = *stream.events[job];
  auto& execution = stream.group.executions()[job];
  auto& last_token = stream.last_token[job];
  auto& metrics = stream.owner.metrics;
  take_progress(stream, job);
  while (const auto token = events.read_token()) {
    take_progress(stream, job);
    if (token->part != engine::token_part::output) {
      tell(stream, job, token->id, [&](auto& to) {
        to.beside_output({token->part, token->id, token->logprobs, token->rank});
      });
      if (execution.output_bytes() >= batch_bytes) return true;
      continue;
    }
    if (last_token) {
      metrics.inter_token_seconds.observe(std::chrono::duration<double>(token->at - *last_token).count());
    } else if (execution.told().tokens == 0) {  // a resumed job's first token was another engine's
      metrics.first_token_seconds.observe(
          std::chrono::duration<double>(token->at - execution.received_at()).count());
    }
    last_token = token->at;
    tell(stream, job, token->id, [&](auto& to) { to.token(token->id, token->logprobs); });
    if (execution.output_bytes() >= batch_bytes) return true;
  }
  if (const auto event = events.read_terminal()) {
    // The engine fails: the next one tells how the job ends.
    if (is_kept(stream.link) && stream.owner.keeps_ends && stream.owner.keeps_ends()) return false;
    take_progress(stream, job);
    tell(stream, job, -1, [&](auto& to) { to.ended(*event, steady_clock::now()); });
  }
  return false;
}

bool take_all_events(job_stream& stream) {
  bool more = false;
  for (std::size_t job = 0; job < stream.events.size(); ++job) more = take_events(stream, job) || more;
  return more;
}

/// The answer of jobs that are over, as bytes; a long one is made on a background thread.
asio::awaitable<std::string> render_answer(job_stream& stream, const http_request& request) {
  // Its head is only sent now: nothing has been promised yet.
  stream.keep_alive = stream.keep_alive && !stream.owner.draining();
  const auto render = [&](const reply& answer) {
    stream.owner.count_response(answer.status);
    note_answer(stream.link, answer);
    const final_reply_head head{stream.keep_alive, answer.close, stream.group.job_over()};
    stream.keep_alive = may_keep_alive(head);
    return render_reply(answer, request, stream.keep_alive);
  };
  auto body = stream.group.background_body();
  if (!body) co_return render(stream.group.final_reply());
  std::function<result<std::string>()> write = [body = std::move(body), request,
                                                keep_alive = stream.keep_alive] {
    return result<std::string>(render_reply(make_json_reply(200, body()), request, keep_alive));
  };
  background_plan plan(task_length::brief, "the answer could not be written",
                       "the answer was not written in time");
  auto written = co_await run_in_background<std::string>(stream.owner, stream.link, request.owner.tenant,
                                                         std::move(plan), std::move(write));
  if (!written) co_return render(make_error_reply(written.error()));
  stream.owner.count_response(200);
  note_answer(stream.link, 200);
  co_return std::move(*written);
}

/// Writes what is due. A write that fails or takes too long ends the jobs.
asio::awaitable<void> flush(job_stream& stream, const http_request& request) {
  std::string frames = stream.group.take_output(steady_clock::now());
  const write_state state = write_state_of(stream);
  stream.must_ask = false;
  next_write next = plan_write(state, std::move(frames));
  if (next.final_reply) next.bytes = co_await render_answer(stream, request);
  bool written = true;
  if (!next.bytes.empty()) {
    const bool goes_on = stream.keep_alive && stream.group.completed();
    const std::uint32_t end = journal_answered | (goes_on ? journal_keep_alive : 0U);
    const std::uint32_t flags = state.over ? end : 0U;
    written = co_await write_bytes(stream.owner, stream.link, std::move(next.bytes), flags);
  }
  if (!written) stream.client_gone();
  // Nothing follows the terminal event.
  stream.writable = stream.writable && written && !state.over;
}

/// Runs until the jobs are over. Even after the last frame was written early (a cancel was not confirmed in
/// time) or the client has gone, it waits for the jobs: their ids and places are still in use.
asio::awaitable<void> pump(job_stream& stream, const http_request& request) {
  for (;;) {
    const bool more = take_all_events(stream);
    stream.group.tick(steady_clock::now());
    stream.pass_cancel();
    stream.submit();
    co_await flush(stream, request);
    if (stream.group.job_over()) break;
    if (stream.group.gave_up()) stream.link.close();
    if (more) continue;
    // At least a millisecond, so that a time limit that has passed does not make this a busy loop.
    const auto wake_at =
        std::max(stream.group.next_tick(), steady_clock::now() + std::chrono::milliseconds(1));
    co_await stream.wake->wait_until(wake_at);
  }
  stop_watching(stream);
}

/// Goes on with what a dead engine told of these jobs: it is not told again. Whether that is possible.
bool go_on_with(const recovered_connection& before, job_batch& batch, std::uint32_t vocab,
                std::vector<resume_point>& known) {
  auto told = told_jobs(before.told, batch.jobs.size());
  if (!told) return false;
  for (std::size_t job = 0; job < batch.jobs.size(); ++job) {
    if (!are_tokens_of(batch.jobs[job], (*told)[job].tokens, vocab)) return false;
  }
  for (std::size_t job = 0; job < batch.jobs.size(); ++job) {
    told_job& one = (*told)[job];
    known[job] = one.point;
    auto& execution = batch.executions[job];
    execution.resume(one.point, before.resumed);
    const auto taken = taken_tokens(batch.jobs[job], one);
    if (!one.point.started || !taken) continue;
    one.tokens.resize(*taken);
    execution.started(0, system_clock::now());
    execution.restore(one.tokens, batch.jobs[job].logprobs);
    batch.jobs[job].produced = std::move(one.tokens);
    if (one.first_token) batch.jobs[job].first_token_at = execution.received_at() + *one.first_token;
  }
  return true;
}

/// From here on the request waits for the scheduler. One that is suspected of a crash lets those go first
/// that are read again at the same time, as it is.
asio::awaitable<void> await_turn(connection& c, std::vector<engine::job_request>& jobs) {
  constexpr std::chrono::milliseconds others_first{300};
  if (!c.record) co_return;
  c.record->waits(true);
  for (auto& job : jobs) {
    job.suspect = c.alone;
    job.watch = std::make_shared<job_turn>(*c.record, c.alone);
  }
  if (!c.alone || c.refusal) co_return;
  asio::steady_timer timer(c.stream.get_executor(), others_first);
  const auto [waited] = co_await timer.async_wait(as_tuple_token);
  static_cast<void>(waited);
}

/// Ends all jobs of the request with one error, before any was submitted.
void end_all(job_batch& batch, const error& why) {
  for (std::size_t job = 0; job < batch.jobs.size(); ++job) {
    engine::error_event end{why, {}};
    end.stats.tokens_in = batch.jobs[job].tokens_in();
    batch.executions[job].ended(terminal_event(std::move(end)), steady_clock::now());
  }
}

}  // namespace

result<void> check_open(const service& s, const connection& c) {
  const auto state = s.context.state.get();
  if (s.draining()) return error(errc::draining, "the worker is draining and takes no new jobs");
  // A request that another engine took is gone on with before new ones are taken.
  const bool taken = c.recovered && state == engine::lifecycle::waking;
  if (engine::is_before_ready(state) && !taken) return error(errc::not_ready, "the worker is still starting");
  if (state == engine::lifecycle::failed)
    return error(errc::not_ready, "the worker has failed and takes no jobs");
  return {};
}

job_execution_config job_execution_config_of(const service& s, const engine::job_request& job,
                                             const request_facts& facts) {
  job_execution_config config;
  config.job_id = job.job_id;
  config.model = s.context.identity.model_name;
  config.seed = job.seed;
  config.tokens_in = job.tokens_in();
  config.max_tokens = job.max_tokens;
  config.received_at = job.received_at;
  config.deadline = job.deadline;
  config.deadline_is_final = facts.deadline_is_final;
  config.keep_alive = s.config.connections.keep_alive_interval;
  return config;
}

asio::awaitable<bool> refuse_jobs(service& s, connection& c, const http_request& request,
                                  const error& failure) {
  ++s.metrics.requests[static_cast<std::size_t>(outcome::refused)];
  reply response = make_error_reply(failure);
  co_return co_await write_reply(s, c, request, std::move(response));
}

asio::awaitable<bool> run_jobs(service& s, connection& c, const http_request& request, job_batch batch) {
  narrate_deadline(s, request, batch);
  const traced_jobs traced{steady_clock::now(), batch.jobs.front().inputs.empty()};
  const auto hold = std::make_shared<admission_hold>(s, batch.id, batch.jobs, request.owner,
                                                     [&s, &c] { s.connections.mark_unread(c); });
  if (const auto entered = hold->enter(c.recovered.has_value()); !entered) {
    co_return co_await refuse_jobs(s, c, request, entered.error());
  }
  c.entered = true;
  // All jobs of a request have the same adapters.
  const adapter_use used =
      s.context.adapters == nullptr ? adapter_use() : s.context.adapters->use(batch.jobs.front().adapters);
  std::vector<resume_point> known(batch.jobs.size());
  if (c.recovered && !go_on_with(*c.recovered, batch, s.context.tokenizer.vocab_size(), known)) {
    c.refusal = error(errc::internal, "the journal of this request cannot be read");
  }
  co_await await_turn(c, batch.jobs);
  if (c.refusal) end_all(batch, *std::exchange(c.refusal, std::nullopt));
  job_group group(batch.id, std::move(batch.executions), batch.answer);
  narrate_start(s, request, batch);
  narrate_adapters(s, request, batch);
  job_stream stream(s, c, std::move(group), std::move(batch.jobs), hold);
  stream.chunked = !request.http_1_0;
  stream.known = std::move(known);
  hold->show(stream);
  stream.submit();

  const answer_begin begin{request.keep_alive, s.draining(), stream.group.streams(), request.http_1_0};
  stream.keep_alive = may_keep_alive(begin);
  if (stream.group.streams()) {
    s.count_response(200);
    note_answer(c, 200);
    const bool told = c.recovered && (c.recovered->flags & journal_head) != 0;
    std::string head = told ? std::string() : render_stream_head(request, stream.keep_alive);
    stream.writable = told || co_await write_bytes(s, c, std::move(head), journal_head);
    if (!stream.writable) stream.client_gone();
  }
  co_await (pump(stream, request) && watch_disconnect(stream));
  if (c.record) c.record->waits(false);

  hold->finish();
  for (const job_execution& execution : stream.group.executions()) {
    if (stream.is_left()) break;  // the other engine tells how they end
    account(s, request, execution);
    note_job(c, execution, traced);
  }
  jobs_end end;
  end.promised = stream.keep_alive;
  end.streams = stream.group.streams();
  end.completed = stream.group.completed();
  end.client_gone = stream.gone;
  end.half_closed = stream.half_closed;
  end.stopping = s.stopping;
  co_return keeps_alive(end);
}

}  // namespace orcd::net
