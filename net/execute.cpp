// POST /execute: prepare the job, take a place, stream until its terminal event, give the place back.
// Source: M0-W-1300..1312, M0-W-1611, WORK-3040, 3050..3053, design 2 (max-queue).

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <utility>

#include "engine/narration.hpp"
#include "net/job_stream.hpp"
#include "net/prepare.hpp"
#include "net/session.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::severity;
using std::chrono::steady_clock;
using std::chrono::system_clock;
using namespace asio::experimental::awaitable_operators;

constexpr std::size_t batch_bytes = 64 * 1024;          // events written at once
constexpr std::size_t pipelined_bytes_max = 16 * 1024;  // what may arrive on a connection that streams

/// A job's place in admission and in the map of streams, from its acceptance to its terminal event.
class place {
 public:
  place(service& s, job_stream& stream) : service_(s), stream_(stream) {
    if (service_.streams.empty()) service_.busy_since = steady_clock::now();
    service_.streams.emplace(stream.run.job_id(), &stream);
  }
  place(const place&) = delete;
  place& operator=(const place&) = delete;
  ~place() { service_.streams.erase(stream_.run.job_id()); }
  /// Not in the destructor: frames of a server that was never stopped are destroyed with its
  /// io_context, when the admission object may be gone.
  void leave() { service_.context.admission.leave(stream_.run.job_id()); }

 private:
  service& service_;
  job_stream& stream_;
};

/// Notices that the client closed. Bytes of a next request are kept for later, up to a limit: a plain
/// peek would see them for ever and never the end behind them.
asio::awaitable<void> watch_disconnect(job_stream& stream) {
  auto& input = stream.link.input;
  while (stream.watching) {
    const auto [ec, n] =
        co_await stream.link.stream.socket().async_read_some(input.prepare(4'096), as_tuple_token);
    if (!ec) input.commit(n);
    if (!stream.watching) co_return;
    if (ec || input.size() > pipelined_bytes_max) {
      stream.client_gone();
      co_return;
    }
  }
}

void stop_watching(job_stream& stream) {
  stream.watching = false;
  error_code ignored;
  stream.link.stream.socket().cancel(ignored);
}

/// Hands over what has arrived, until a batch is full. Returns whether more is waiting.
bool take_events(job_stream& stream, std::optional<engine::steady_time>& last_token) {
  if (const auto started = stream.events->read_started()) {
    stream.run.started(started->queue_ms, system_clock::now());
  }
  auto& metrics = stream.owner.metrics;
  while (const auto token = stream.events->read_token()) {
    if (last_token)
      metrics.inter_token_seconds.observe(std::chrono::duration<double>(token->at - *last_token).count());
    last_token = token->at;
    stream.run.token(token->id);
    if (stream.run.output_bytes() >= batch_bytes) return true;
  }
  if (const auto event = stream.events->read_terminal()) stream.run.ended(*event, steady_clock::now());
  return false;
}

/// Writes what the execution has to say. A write that fails or takes too long ends the job.
asio::awaitable<void> flush(job_stream& stream) {
  const bool last = stream.run.stream_over();
  std::string frames = stream.run.take_output(steady_clock::now());
  if (!stream.writable || (frames.empty() && !last)) co_return;
  std::string bytes = stream.chunked ? chunk_of(frames, last) : std::move(frames);
  stream.writable = co_await write_bytes(stream.owner, stream.link, std::move(bytes));
  if (stream.writable && last)
    stream.writable = false;  // nothing follows the terminal event
  else if (!stream.writable)
    stream.client_gone();
}

/// Streams until the job is over. After the terminal event was written early (a cancel that was not
/// confirmed in time) or the client has gone, it still waits for the job: its id and place are in use.
asio::awaitable<void> pump(job_stream& stream) {
  std::optional<engine::steady_time> last_token;
  for (;;) {
    const bool more = take_events(stream, last_token);
    stream.run.tick(steady_clock::now());
    stream.pass_cancel();
    co_await flush(stream);
    if (stream.run.job_over()) break;
    if (stream.run.stream_over()) stream.link.stream.close();
    if (more) continue;
    // The lower bound keeps a time limit that has passed from turning this into a busy loop.
    const auto wake_at = std::max(stream.run.next_tick(), steady_clock::now() + std::chrono::milliseconds(1));
    co_await stream.wake->wait_until(wake_at);
  }
  stop_watching(stream);
}

void narrate_start(service& s, const http_request& request, const prepared_job& prepared) {
  const auto& job = prepared.job;
  s.context.narrator.narrate(severity::info, "execute_start", "A job was accepted.",
                             {{"job_id", job.job_id},
                              {"request_id", request.request_id},
                              {"prompt_digest", prepared.prompt_digest},
                              {"prompt_chars", std::uint64_t{prepared.prompt_chars}},
                              {"tokens_in", std::uint64_t{job.prompt.size()}},
                              {"max_tokens", std::uint64_t{job.max_tokens}},
                              {"seed", job.seed},
                              {"waiting", std::uint64_t{s.context.admission.waiting()}}});
}

void narrate_deadline(service& s, const http_request& request, const prepared_job& prepared) {
  if (!prepared.deadline_left) return;
  const auto left = *prepared.deadline_left;
  s.metrics.deadline_remaining_seconds.observe(std::chrono::duration<double>(left).count());
  s.context.narrator.narrate(severity::info, "deadline", "The request carries X-Deadline.",
                             {{"job_id", prepared.job.job_id},
                              {"request_id", request.request_id},
                              {"remaining_ms", std::int64_t{left.count()}},
                              {"enforced", s.config.execute.deadlines == deadline_mode::enforce}});
}

void narrate_end(service& s, const http_request& request, const execution& run, double duration_ms) {
  const auto& stats = run.stats();
  const auto how = run.result();
  if (how == outcome::disconnected) {
    s.context.narrator.narrate(
        severity::info, "disconnect", "The client went away; its job was ended.",
        {{"job_id", run.job_id()}, {"request_id", request.request_id}, {"phase", to_string(run.where())}});
  } else if (how == outcome::error && run.failure()->code == errc::draining) {
    s.context.narrator.narrate(severity::warning, "drain_ended_job",
                               "The worker stops; a job that still ran was ended.",
                               {{"job_id", run.job_id()}, {"request_id", request.request_id}});
  } else if (how == outcome::error) {
    s.context.narrator.narrate(severity::error, "error", "A job failed.",
                               {{"job_id", run.job_id()},
                                {"request_id", request.request_id},
                                {"code", engine::code_name(run.failure()->code)}});
  }
  s.context.narrator.narrate(severity::info, "execute_end", "A job ended.",
                             {{"job_id", run.job_id()},
                              {"request_id", request.request_id},
                              {"outcome", to_string(how)},
                              {"tokens_in", std::uint64_t{stats.tokens_in}},
                              {"tokens_out", std::uint64_t{stats.tokens_out}},
                              {"queue_ms", stats.queue_ms},
                              {"prefill_ms", stats.prefill_ms},
                              {"first_token_ms", stats.first_token_ms},
                              {"decode_time_ms", stats.decode_ms},
                              {"duration_ms", duration_ms},
                              {"vram_bytes", std::uint64_t{s.context.state.vram_bytes.load()}}});
}

void account(service& s, const http_request& request, const execution& run) {
  const double duration_ms =
      std::chrono::duration<double, std::milli>(steady_clock::now() - request.received_at).count();
  s.metrics.count_job(run.result(), run.stats(), duration_ms);
  if (const auto time = run.cancel_time()) s.metrics.cancel_to_idle_seconds.observe(time->count());
  narrate_end(s, request, run, duration_ms);
}

execution make_execution(service& s, const prepared_job& prepared) {
  execution_config config;
  config.job_id = prepared.job.job_id;
  config.model = s.context.identity.model_name;
  config.seed = prepared.job.seed;
  config.tokens_in = static_cast<std::uint32_t>(prepared.job.prompt.size());
  config.max_tokens = prepared.job.max_tokens;
  config.metrics = prepared.metrics;
  config.received_at = prepared.job.received_at;
  config.deadline = prepared.job.deadline;
  config.deadline_is_final = prepared.deadline_is_final;
  config.keep_alive = s.config.connections.keep_alive_interval;
  return {std::move(config), engine::token_stream(s.context.tokenizer, prepared.stop)};
}

/// Whether the worker takes jobs at all; says why not.
engine::result<void> check_open(const service& s) {
  const auto state = s.context.state.get();
  if (s.draining()) return error(errc::draining, "the worker is draining and takes no new jobs");
  if (state == engine::lifecycle::starting) return error(errc::not_ready, "the worker is still starting");
  if (state == engine::lifecycle::failed)
    return error(errc::not_ready, "the worker has failed and takes no jobs");
  return {};
}

asio::awaitable<bool> refuse(service& s, connection& c, const http_request& request, const error& failure) {
  ++s.metrics.requests[static_cast<std::size_t>(outcome::refused)];
  reply response = make_error_reply(failure);
  // Not the message: it may quote what the client sent.
  s.context.narrator.narrate(severity::info, "request_refused", "A request to /execute was refused.",
                             {{"request_id", request.request_id},
                              {"code", engine::code_name(failure.code)},
                              {"status", std::uint64_t{response.status}}});
  co_return co_await write_reply(s, c, request, std::move(response));
}

asio::awaitable<bool> stream_job(service& s, connection& c, const http_request& request,
                                 prepared_job prepared) {
  job_stream stream(s, c, make_execution(s, prepared), prepared.job.max_tokens);
  stream.chunked = !request.http_1_0;
  place held(s, stream);
  narrate_start(s, request, prepared);
  s.context.jobs.submit(std::move(prepared.job), stream.events);

  s.count_response(200);
  const bool keep = request.keep_alive && !request.http_1_0 && !s.draining();
  std::string head = render_stream_head(request, keep);
  stream.writable = co_await write_bytes(s, c, std::move(head));
  if (!stream.writable) stream.client_gone();
  co_await (pump(stream) && watch_disconnect(stream));

  held.leave();
  account(s, request, stream.run);
  const bool complete = !stream.run.closes_connection() && stream.run.result() == outcome::completed;
  co_return complete&& keep && !s.draining();
}

}  // namespace

asio::awaitable<bool> handle_execute(service& s, connection& c, const http_request& request) {
  if (const auto open = check_open(s); !open) co_return co_await refuse(s, c, request, open.error());
  auto prepared = prepare_job(request, s.context.tokenizer, s.config.execute, system_clock::now());
  if (!prepared) co_return co_await refuse(s, c, request, prepared.error());
  narrate_deadline(s, request, *prepared);
  if (const auto entered = s.context.admission.enter(prepared->job.job_id); !entered) {
    co_return co_await refuse(s, c, request, entered.error());
  }
  co_return co_await stream_job(s, c, request, std::move(*prepared));
}

}  // namespace orcd::net
