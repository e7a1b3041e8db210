#include "net/run_jobs.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <exception>
#include <utility>

#include "engine/base/ensure.hpp"
#include "net/errand.hpp"
#include "net/job_narration.hpp"
#include "net/job_stream.hpp"
#include "net/session.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;
using std::chrono::steady_clock;
using std::chrono::system_clock;
using namespace asio::experimental::awaitable_operators;

constexpr std::size_t batch_bytes = 64 * 1024;          // events written at once
constexpr std::size_t pipelined_bytes_max = 16 * 1024;  // what may arrive on a connection that streams
constexpr std::chrono::seconds answer_patience{30};     // for what is written on another thread

/// The jobs' places in admission and the request's in the map of streams, from enter() until their terminal
/// events or, where something is thrown, until then: what was submitted is cancelled.
class place {
 public:
  place(service& s, const job_batch& batch) : service_(s), id_(batch.id) {
    for (const auto& job : batch.jobs) jobs_.push_back(job.job_id);
  }
  place(const place&) = delete;
  place& operator=(const place&) = delete;
  ~place() {
    if (shown_) service_.streams.erase(id_);
    // Only then: frames of a server that was never stopped are destroyed with its io_context, when the
    // admission object may be gone.
    if (std::uncaught_exceptions() > 0) give_up();
  }

  /// All jobs and the name of their request, or none.
  result<void> enter() {
    auto& admission = service_.context.admission;
    if (jobs_.size() > 1) {
      if (const auto reserved = admission.reserve(id_); !reserved) return reserved;
      reserved_ = true;
    }
    for (; entered_ < jobs_.size(); ++entered_) {
      const auto in = admission.enter(jobs_[entered_]);
      if (in) continue;
      leave();
      return in;
    }
    return {};
  }
  void show(job_stream& stream) {
    if (service_.streams.empty()) service_.busy_since = steady_clock::now();
    shown_ = service_.streams.emplace(id_, &stream).second;
    ORCD_ENSURE(shown_);
  }
  /// The jobs in their order.
  void submit(engine::job_request job, std::shared_ptr<event_channel> events) {
    service_.context.jobs.submit(std::move(job), std::move(events));
    ++submitted_;
  }
  void leave() {
    auto& admission = service_.context.admission;
    if (std::exchange(reserved_, false)) admission.unreserve(id_);
    while (entered_ > 0) admission.leave(jobs_[--entered_]);
  }

 private:
  /// A job that cannot be cancelled keeps its place, so that no more are submitted than may be.
  void give_up() noexcept {
    try {
      while (submitted_ > 0) {
        service_.context.jobs.cancel(jobs_[submitted_ - 1], engine::cancel_reason::disconnected);
        --submitted_;
      }
      leave();
    } catch (const std::exception&) {
      return;
    }
  }

  service& service_;
  std::string id_;
  std::vector<std::string> jobs_;
  std::size_t entered_ = 0, submitted_ = 0;
  bool reserved_ = false, shown_ = false;
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

/// Hands over what has arrived for one job, until a batch is full. Returns whether more is waiting.
bool take_events(job_stream& stream, std::size_t job) {
  auto& events = *stream.events[job];
  auto& run = stream.group.runs()[job];
  auto& last_token = stream.last_token[job];
  if (const auto started = events.read_started()) run.started(started->queue_ms, system_clock::now());
  auto& metrics = stream.owner.metrics;
  while (const auto token = events.read_token()) {
    if (last_token)
      metrics.inter_token_seconds.observe(std::chrono::duration<double>(token->at - *last_token).count());
    last_token = token->at;
    run.token(token->id, token->logprobs);
    if (run.output_bytes() >= batch_bytes) return true;
  }
  if (const auto event = events.read_terminal()) run.ended(*event, steady_clock::now());
  return false;
}

bool take_all_events(job_stream& stream) {
  bool more = false;
  for (std::size_t job = 0; job < stream.events.size(); ++job) more = take_events(stream, job) || more;
  return more;
}

/// The answer of jobs that are over, as it is sent; a long one is written on another thread.
asio::awaitable<std::string> whole_answer(job_stream& stream, const http_request& request) {
  const auto render = [&](const reply& answer) {
    stream.owner.count_response(answer.status);
    stream.keep_alive = stream.keep_alive && !answer.close && stream.group.job_over();
    return render_reply(answer, request, stream.keep_alive);
  };
  auto body = stream.group.whole_beside();
  if (!body) co_return render(stream.group.whole());
  const auto work = errand<std::string>::start(
      stream.owner.context.run_aside, stream.link.stream.get_executor(),
      [body = std::move(body), request, keep_alive = stream.keep_alive] {
        return engine::result<std::string>(render_reply(make_json_reply(200, body()), request, keep_alive));
      },
      "the answer could not be written");
  if (!co_await work->done_by(steady_clock::now() + answer_patience))
    co_return render(make_error_reply(error(errc::inference_timeout, "the answer was not written in time")));
  if (!work->made()) co_return render(make_error_reply(work->made().error()));
  stream.owner.count_response(200);
  co_return std::move(*work->made());
}

/// A chunk of the stream to write now, or nothing. What is no stream has nothing before its end.
std::string next_chunk(job_stream& stream) {
  std::string frames = stream.group.take_output(steady_clock::now());
  const bool last = stream.group.stream_over();
  if (!stream.writable || !stream.group.streams() || (frames.empty() && !last)) return {};
  return stream.chunked ? chunk_of(frames, last) : std::move(frames);
}

/// Writes what the jobs have to say. A write that fails or takes too long ends them.
asio::awaitable<void> flush(job_stream& stream, const http_request& request) {
  std::string bytes = next_chunk(stream);
  const bool last = stream.group.stream_over();
  if (last && stream.writable && !stream.group.streams()) bytes = co_await whole_answer(stream, request);
  if (bytes.empty()) {
    if (last) stream.writable = false;
    co_return;
  }
  stream.writable = co_await write_bytes(stream.owner, stream.link, std::move(bytes));
  if (stream.writable && last)
    stream.writable = false;  // nothing follows the terminal event
  else if (!stream.writable)
    stream.client_gone();
}

/// Works until the jobs are over. After the last frame was written early (a cancel that was not
/// confirmed in time) or the client has gone, it still waits for the jobs: their ids and places are in use.
asio::awaitable<void> pump(job_stream& stream, const http_request& request) {
  for (;;) {
    const bool more = take_all_events(stream);
    stream.group.tick(steady_clock::now());
    stream.pass_cancel();
    co_await flush(stream, request);
    if (stream.group.job_over()) break;
    if (stream.group.gave_up()) stream.link.stream.close();
    if (more) continue;
    // The lower bound keeps a time limit that has passed from turning this into a busy loop.
    const auto wake_at =
        std::max(stream.group.next_tick(), steady_clock::now() + std::chrono::milliseconds(1));
    co_await stream.wake->wait_until(wake_at);
  }
  stop_watching(stream);
}

}  // namespace

result<void> check_open(const service& s) {
  const auto state = s.context.state.get();
  if (s.draining()) return error(errc::draining, "the worker is draining and takes no new jobs");
  if (state == engine::lifecycle::starting) return error(errc::not_ready, "the worker is still starting");
  if (state == engine::lifecycle::failed)
    return error(errc::not_ready, "the worker has failed and takes no jobs");
  return {};
}

execution_config execution_config_of(const service& s, const engine::job_request& job,
                                     bool deadline_is_final) {
  execution_config config;
  config.job_id = job.job_id;
  config.model = s.context.identity.model_name;
  config.seed = job.seed;
  config.tokens_in = job.tokens_in();
  config.max_tokens = job.max_tokens;
  config.received_at = job.received_at;
  config.deadline = job.deadline;
  config.deadline_is_final = deadline_is_final;
  config.keep_alive = s.config.connections.keep_alive_interval;
  return config;
}

asio::awaitable<bool> refuse_jobs(service& s, connection& c, const http_request& request,
                                  const error& failure) {
  ++s.metrics.requests[static_cast<std::size_t>(outcome::refused)];
  reply response = make_error_reply(failure);
  narrate_refusal(s, request, failure, response.status);
  co_return co_await write_reply(s, c, request, std::move(response));
}

asio::awaitable<bool> run_jobs(service& s, connection& c, const http_request& request, job_batch batch) {
  narrate_deadline(s, request, batch);
  place held(s, batch);
  if (const auto entered = held.enter(); !entered) {
    co_return co_await refuse_jobs(s, c, request, entered.error());
  }
  job_group group(batch.id, std::move(batch.runs), batch.form);
  job_stream stream(s, c, std::move(group), batch.jobs);
  stream.chunked = !request.http_1_0;
  held.show(stream);
  narrate_start(s, request, batch);
  for (std::size_t i = 0; i < batch.jobs.size(); ++i) {
    held.submit(std::move(batch.jobs[i]), stream.events[i]);
  }

  stream.keep_alive = request.keep_alive && !s.draining();
  if (stream.group.streams()) {
    s.count_response(200);
    stream.keep_alive = stream.keep_alive && !request.http_1_0;
    std::string head = render_stream_head(request, stream.keep_alive);
    stream.writable = co_await write_bytes(s, c, std::move(head));
    if (!stream.writable) stream.client_gone();
  }
  co_await (pump(stream, request) && watch_disconnect(stream));

  held.leave();
  for (const execution& run : stream.group.runs()) account(s, request, run);
  // The head of a stream has promised nothing about its end; a whole answer has said what follows it.
  const bool keep = stream.keep_alive && (!stream.group.streams() || stream.group.completed());
  co_return keep && !stream.gone && !s.draining();
}

}  // namespace orcd::net
