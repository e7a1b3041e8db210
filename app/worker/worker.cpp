#include "app/worker/worker.hpp"

#include <boost/asio/post.hpp>
#include <cstdlib>
#include <memory>
#include <utility>

#include "app/process/process_limits.hpp"
#include "app/worker/adapters_role.hpp"
#include "app/worker/connection_room.hpp"
#include "app/worker/ending.hpp"
#include "app/worker/failover_role.hpp"
#include "app/worker/io_loop.hpp"
#include "app/worker/public_address.hpp"
#include "app/worker/reloads.hpp"
#include "app/worker/reports.hpp"
#include "app/worker/signals.hpp"
#include "app/worker/start_up.hpp"
#include "app/worker/start_words.hpp"
#include "app/worker/system_role.hpp"
#include "app/worker/watchers.hpp"
#include "app/worker/weights_role.hpp"
#include "net/jobs/background_threads.hpp"

namespace orcd::app {
namespace {

namespace asio = boost::asio;
using engine::error;
using engine::lifecycle;
using engine::result;
using engine::severity;
using std::chrono::milliseconds;
using std::chrono::seconds;
using clock = std::chrono::steady_clock;

/// For the last words of an engine whose wake takes too long.
constexpr milliseconds last_words{1'000};
/// To ask who would follow, for one that does to serve, and to have the lock back from one that does not.
constexpr seconds hand_over_limit{15};

double ms_since(clock::time_point start) {
  return std::chrono::duration<double, std::milli>(clock::now() - start).count();
}

/// Where all parts meet: makes the roles, says what each may ask of the others, and has no step of its own
/// that one of them could have. Everything is on the io thread unless a function says otherwise.
class worker {
 public:
  worker(const options& opts, log_narrator& narrator, process_guard& guard,
         std::function<result<options>()> read_again)
      : opts_(opts),
        narrator_(narrator),
        guard_(guard),
        start_(opts, narrator,
               {.stop_asked = [this] { return guard_.stop_asked(); },
                .wait = {.cancelled = [this] { return weights_.is_cancelled(); },
                         .waiting = [this](const auto& notice) { weights_.tell_of_wait(notice); }}}),
        weights_(io_, opts, state_, service_, narrator, make_weights_hooks()),
        ending_(io_, opts, state_, service_, narrator, make_ending_hooks()),
        adapters_(io_, opts.adapters, make_adapter_hooks()),
        reloads_(
            io_, opts.api_key_file, keys_, narrator,
            {.read_again = std::move(read_again),
             .in_background = [this](net::queued_task task) { return background_.take(std::move(task)); },
             .set_least = [this](severity least) { narrator_.set_least(least); }}),
        watchers_(io_, opts.backend, state_, narrator, make_watcher_hooks()),
        room_(opts, narrator),
        address_(io_, opts, service_, narrator),
        listing_(opts, narrator, [this](std::uint64_t epoch) {
          if (failover_) failover_->status().set_epoch(epoch);
        }) {}
  ~worker();
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  exit_code run();

 private:
  // What the roles ask for.
  [[nodiscard]] ending::hooks make_ending_hooks();
  [[nodiscard]] adapters_role::hooks make_adapter_hooks();
  [[nodiscard]] watchers::hooks make_watcher_hooks();
  [[nodiscard]] weights_role::hooks make_weights_hooks();
  [[nodiscard]] failover_role::hooks make_failover_hooks();
  [[nodiscard]] holder_role* holder() const noexcept { return failover_ ? failover_->holder() : nullptr; }
  [[nodiscard]] descriptor_users users() const noexcept;
  // Start-up, in this order.
  std::optional<start_failure> join_others();
  std::optional<start_failure> open();
  void make_server();
  void on_loaded(const result<engine::memory_plan>& plan);
  void serve();
  void stand_by();
  void announce();
  void become_ready();
  // Running and ending.
  void reload(reload_cause cause);
  void hand_over(hand_over_role::told_function told);
  void stop(shutdown_event event, const char* reason);
  void cancel_start();
  void stop_server(milliseconds grace);
  void finish();
  [[nodiscard]] std::string render_more_metrics() const;

  const options& opts_;
  log_narrator& narrator_;
  process_guard& guard_;
  const clock::time_point started_at_ = clock::now();
  service_manager service_;

  // What sessions refer to is declared before the io_context that holds their frames, and what posts to the
  // io_context after it: members are destroyed in reverse. The destructor stops the GPU thread first.
  engine::worker_state state_;
  start_up start_;
  weights_role weights_;  ///< the GPU thread has tasks of it
  std::unique_ptr<gpu::gpu_thread> gpu_thread_;
  std::optional<engine::admission> admission_;
  std::unique_ptr<net::trace_exporter> traces_;  ///< null: no spans are kept
  asio::io_context io_{1};
  ending ending_;
  net::background_threads background_;  ///< posts its results to `io_`
  adapters_role adapters_;
  std::optional<signals> signals_;
  net::current_keys keys_;
  reloads reloads_;
  watchers watchers_;
  connection_room room_;
  public_address address_;
  std::optional<net::server> server_;
  bool listening_ = false;                   ///< of a worker that is alone
  std::unique_ptr<failover_role> failover_;  ///< null: the worker is alone
  listing listing_;
  std::optional<system_role> system_;  ///< last: its thread reads what is above
};

worker::~worker() {
  guard_.arm(abandon_limit, ending_.code());
  if (server_) server_->leave_held(false);
  weights_.cancel();
  // Background tasks read what belongs to the server.
  background_.stop();
  if (gpu_thread_) gpu_thread_->stop();
  // Neither thread uses the shared weights any more.
  weights_.end();
  if (!gpu_thread_) return;
  // The GPU's memory is freed by the thread that allocated it; nothing uses the accelerator after stop().
  gpu_thread_->post([this] { start_.end_device(); });
}

exit_code worker::run() {
  guard_.allow_drain(seconds(opts_.drain_timeout_sec));
  signals_.emplace(
      io_, guard_,
      signals::hooks{.stop = [this](shutdown_event event, const char* name) { stop(event, name); },
                     .hung_up = [this] { reload(reload_cause::signal); },
                     .hand_over = [this] { hand_over([](const result<void>&) {}); }});
  narrate_begin(narrator_, opts_);
  auto failure = start_.read_first_keys(keys_);
  if (!failure) failure = join_others();
  if (!failure) failure = open();
  if (failure) {
    // A signal that came meanwhile made open() give up: that is no failure.
    if (guard_.stop_asked()) {
      narrator_.narrate(severity::info, "shutdown", "Stopped before the worker was ready",
                        {{"reason", std::string_view("signal")}});
      return exit_code::ok;
    }
    ending_.fail_start(*failure);
    return start_exit_code(failure->why);
  }
  guard_.enter(run_phase::loading);
  weights_.start();
  ask_for_short_turns();
  run_handlers(
      io_, [this] { return engine::is_before_ready(state_.get()); },  // start-up is one chain of handlers
      [this] {
        ending_.wind_up();
        watchers_.look_again();
      });
  return ending_.code();
}

descriptor_users worker::users() const noexcept {
  return {.probes = system_ && system_->is_there(), .holder = holder() != nullptr};
}

/// The lock, the system port and the holder's socket, where the worker is one of several engines.
std::optional<start_failure> worker::join_others() {
  if (!opts_.failover.dir.empty()) {
    forbid_core_dumps();
    failover_ =
        std::make_unique<failover_role>(io_, opts_.failover, state_, narrator_, make_failover_hooks());
    if (const auto usable = failover_->check(); !usable) return usable.error();
  }
  system_.emplace(io_, opts_, system_role::facts{state_, watchers_, failover_.get()}, narrator_,
                  system_role::hooks{
                      .scrape = [this] { return server_ ? server_->scrape() : std::string(); },
                      .hand_over = [this](hand_over_role::told_function told) { hand_over(std::move(told)); },
                      .shut_down = [this] { stop(shutdown_event::request, "POST /shutdown"); }});
  if (auto failure = system_->start(keys_)) return failure;
  if (!failover_) return std::nullopt;
  if (const auto linked = failover_->link_holder(system_->port()); !linked) return linked.error();
  return std::nullopt;
}

/// Everything that can fail before a weight is read. The port is bound here, so that a worker whose port is
/// taken does not load for a minute first.
std::optional<start_failure> worker::open() {
  auto opening = users();
  if (opts_.backend == backend_kind::cuda) opening.opening = 96;  // a CUDA driver opens some dozens
  if (const auto room = room_.make(opening); !room) return room.error();
  if (auto failure = start_.open()) return failure;
  if (const auto read = adapters_.read(start_.model()); !read) return read.error();
  const auto engine = failover_ ? std::optional(opts_.failover.engine_id) : std::nullopt;
  if (auto failure = start_.describe(engine)) return failure;
  if (const auto listed = adapters_.list(start_.identity(), narrator_, failover_ != nullptr); !listed) {
    return listed.error();
  }
  auto* const adapters = adapters_.registry();
  start_.identify(adapters != nullptr ? net::adapters_identity(*adapters->list()) : std::string());
  if (failover_) failover_->know_answers(start_.answers());
  make_server();
  if (const auto started = background_.start(); !started) return started.error();
  weights_.load_with({start_.model(), start_.device(), *gpu_thread_});
  if (failover_) return weights_.link({holder() != nullptr, start_.cache()});
  // Of several engines another one may serve there.
  if (const auto reserved = address_.reserve(*server_); !reserved) return reserved.error();
  return std::nullopt;
}

void worker::make_server() {
  auto schedule = start_.schedule();
  schedule.on_failure = [this](const error& why) {
    ending_.fail(why, fault_exit_code(why.code, start_.device().device_lost()));
  };
  // Before the first job is told of it.
  schedule.on_lost = [this](const error&) {
    if (failover_ && !start_.device().device_lost()) failover_->leave_if_possible();
  };
  gpu_thread_ = std::make_unique<gpu::gpu_thread>(start_.device(), std::move(schedule), state_);
  admission_.emplace(engine::admission_limits{opts_.slots, opts_.max_queue});
  ending_.watch_jobs(*admission_);
  auto config = start_.serving(keys_);
  traces_ = make_trace_exporter(opts_, start_.identity().model_name, narrator_);
  auto context = start_.context(*gpu_thread_, *admission_, state_);
  context.request_shutdown = [this] {
    asio::post(io_, [this] { stop(shutdown_event::request, "POST /shutdown"); });
  };
  context.background = [this](net::queued_task task) { return background_.take(std::move(task)); };
  context.more_metrics = [this] { return render_more_metrics(); };
  context.adapters = adapters_.registry();
  context.traces = traces_.get();
  server_.emplace(io_, std::move(config), std::move(context));
  if (failover_) {
    failover_->serve_with({*server_, *gpu_thread_, *admission_, start_.identity().system_fingerprint});
  }
}

void worker::on_loaded(const result<engine::memory_plan>& plan) {
  if (ending_.has_begun()) return;
  if (!plan) return ending_.fail_start(plan.error());
  const bool more = adapters_.put_next([this, plan](const result<void>& put) {
    on_loaded(put ? plan : result<engine::memory_plan>(put.error()));
  });
  if (more) return;
  if (const auto intact = start_.model().file.check_intact(); !intact)
    return ending_.fail_start(intact.error());
  narrator_.set_gpu_device(start_.device().device().index);
  start_.note_loaded(*plan, weights_.loading_ms(), state_);
  if (const auto room = room_.make(users()); !room) return ending_.fail_start(room.error());
  server_->limit_connections(room_.connections());
  serve();
}

void worker::serve() {
  if (failover_) {
    if (const auto files = weights_.mapped_files(); !files.empty()) {
      failover_->know_mapped(net::number_of(files));
    }
    return failover_->step(net::cycle_event::initialised);
  }
  if (const auto listened = server_->listen(); !listened) return ending_.fail_start(listened.error());
  listening_ = true;
  announce();
}

void worker::announce() {
  address_.announce(start_.identity().model_name, start_.device().vram_bytes(),
                    [this](const result<void>& told) {
                      if (!told && !ending_.has_begun()) return ending_.fail_start(told.error());
                      if (!ending_.has_begun()) become_ready();
                    });
}

void worker::become_ready() {
  const auto& identity = start_.identity();
  ending_.handle(shutdown_event::loaded, "");
  guard_.enter(run_phase::serving);
  state_.startup_seconds = ms_since(started_at_) / 1000.0;
  state_.set(lifecycle::ready);
  narrate_ready(narrator_, identity, start_.device().vram_bytes(), address_.uri(), address_.port(),
                ms_since(started_at_));
  service_.ready("Serving " + identity.model_name + " at " + address_.uri());
  if (!ending_.has_begun()) {
    listing_.enter({address_.uri(), identity.model_name, opts_.failover.engine_id});
  }
  if (failover_) return failover_->hand_over().note_serving();  // watched since it stands by
  watchers_.start(watchers::plan_for(opts_, system_->is_there(), weights_.are_shared()));
}

void worker::stand_by() {
  service_.ready("Engine " + std::to_string(opts_.failover.engine_id) + " stands by");
  watchers_.start(watchers::plan_for(opts_, true, weights_.are_shared()));
  weights_.let_go();
}

void worker::reload(reload_cause cause) {
  if (!server_ || ending_.has_begun()) return;
  if (auto* const there = holder(); there != nullptr && cause == reload_cause::signal) there->reloaded();
  reloads_.begin(cause);
}

void worker::hand_over(hand_over_role::told_function told) {
  if (failover_) return failover_->hand_over().request(std::move(told));
  const error why(engine::errc::not_ready, "this worker is not one of several engines");
  narrator_.narrate(severity::warning, "hand_over_refused", "The engine goes on: " + why.message);
  told(why);
}

void worker::stop(shutdown_event event, const char* reason) {
  auto carry_out = [this, event, reason] { ending_.handle(event, reason); };
  if (!failover_) return carry_out();
  failover_->hand_over().stop(std::move(carry_out));
}

void worker::cancel_start() {
  weights_.cancel();
  if (failover_) failover_->give_up();
  io_.stop();
}

void worker::stop_server(milliseconds grace) {
  const auto stopped = [this] { ending_.post(shutdown_event::stopped, ""); };
  if (failover_ && failover_->leaves()) {
    failover_->leave_streams();
    return stopped();
  }
  if (auto* const there = holder()) there->leave();
  if (!(failover_ ? failover_->is_listening() : listening_)) return stopped();
  server_->stop(grace, stopped);
}

void worker::finish() {
  // The port is closed: the next engine need not wait for the rest, nor find it at its connections.
  if (server_) server_->leave_held(false);
  if (failover_) failover_->release();
  if (traces_) traces_->leave();
  io_.stop();
}

std::string worker::render_more_metrics() const {
  std::string out = failover_ ? net::render_failover_metrics(failover_->status()) : std::string();
  out += listing_.render_metrics() + start_.media_metrics(state_.media);
  if (traces_) out += traces_->render_metrics();
  return out;
}

ending::hooks worker::make_ending_hooks() {
  return {.cancel_start = [this] { cancel_start(); },
          .handed_over = [this] { return failover_ && failover_->hand_over().has_left(); },
          .failed =
              [this](bool device_lost) {
                using failure = failover_role::failure;
                if (failover_) failover_->on_failed(device_lost ? failure::device : failure::process);
              },
          .start_failed =
              [this] {
                if (failover_) failover_->on_failed(failover_role::failure::start);
              },
          .leave_lists =
              [this] {
                if (failover_) failover_->step(net::cycle_event::drain);
                listing_.leave();
              },
          .lingers = [this] { return !failover_ && server_->connections() > 0; },
          .stop_server = [this](milliseconds grace) { stop_server(grace); },
          .finish = [this] { finish(); },
          .exit_now =
              [this] {
                narrator_.flush();
                std::_Exit(static_cast<int>(ending_.code()));
              },
          .arm = [this](milliseconds limit, exit_code code) { guard_.arm(limit, code); },
          .allow_stop = [this](milliseconds limit, exit_code code) { guard_.allow_stop(limit, code); },
          .listen_again = [this] { signals_->listen_again(); }};
}

adapters_role::hooks worker::make_adapter_hooks() {
  return {
      .stop_asked = [this] { return guard_.stop_asked(); },
      .reading = [this] { service_.waiting("reading LoRA adapters"); },
      .put = [this](std::uint32_t index, net::adapter_values values,
                    auto done) { gpu_thread_->put_adapter(index, std::move(values), std::move(done)); },
      .drop = [this](std::uint32_t index, auto done) { gpu_thread_->drop_adapter(index, std::move(done)); },
      .load_cancelled = [this] { return weights_.is_cancelled(); }};
}

watchers::hooks worker::make_watcher_hooks() {
  return {.on_gpu_thread = [this](std::function<void()> task) { gpu_thread_->post(std::move(task)); },
          .feed = [this] { service_.feed_watchdog(); },
          .moved =
              [this](std::uint64_t progress) {
                if (auto* const there = holder()) there->ping(progress);
              },
          .check_file = [this] { return start_.model().file.check_intact(); },
          .file_damaged = [this](const error& why) { gpu_thread_->fail(why); },
          .audit = [this] { return start_.device().audit(); }};
}

weights_role::hooks worker::make_weights_hooks() {
  return {.others_live = [this] { return failover_->lock().is_taken(); },
          .stop_asked = [this] { return guard_.stop_asked(); },
          .loaded = [this](const auto& plan) { on_loaded(plan); },
          .digest_known =
              [this](std::string digest) {
                start_.identity().digest = std::move(digest);
                if (failover_) failover_->know_digest(net::number_of(start_.identity().digest));
              },
          .stands_by =
              [this] {
                return !ending_.has_begun() && failover_->status().state() == net::failover_state::standby;
              },
          .given_up = [this] { return ending_.has_begun() || failover_->is_out_of_time(); },
          .fail_start = [this](const error& why) { ending_.fail_start(why); },
          .fail = [this](const error& why, exit_code code) { ending_.fail(why, code); }};
}

failover_role::hooks worker::make_failover_hooks() {
  return {.ending = [this] { return ending_.has_begun(); },
          .fail_start = [this](const error& why) { ending_.fail_start(why); },
          .fail = [this](const error& why) { ending_.fail(why, exit_code::failure); },
          .out_of_time = [this] { guard_.arm(last_words, exit_code::waking_timeout); },
          .stands_by = [this] { stand_by(); },
          .get_weights = [this](std::function<void()> next) { weights_.get_back(std::move(next)); },
          .reload = [this] { reload(reload_cause::takeover); },
          .reloading = [this] { return reloads_.pending(); },
          .when_reloaded = [this](std::function<void()> next) { reloads_.when_done(std::move(next)); },
          .reserve = [this] { return address_.reserve(*server_); },
          .listen = [this] { return server_->listen(); },
          .use_holders_port = [this] { address_.use(opts_.port); },
          .serves_others =
              [this] {
                state_.set(lifecycle::ready);
                ending_.handle(shutdown_event::loaded, "");
                guard_.enter(run_phase::serving);
              },
          .announce = [this] { announce(); },
          .unlist = [this] { listing_.leave(); },
          .asleep =
              [this] {
                ending_.handle(shutdown_event::asleep, "");
                guard_.enter(run_phase::loading);
              },
          .allow_stop =
              [this] {
                guard_.allow_stop(
                    hand_over_limit + seconds(opts_.drain_timeout_sec) + farewell_limit + teardown_limit,
                    exit_code::terminated);
              },
          .room = [this] { return connection_room::for_held(users()); },
          .ledger = [this] { return weights_.ledger(); },
          .reload_told = [this] { reload(reload_cause::holder); }};
}

}  // namespace

exit_code run_worker(const options& opts, log_narrator& narrator, process_guard& guard,
                     std::function<result<options>()> read_again) {
  const auto started_at = clock::now();
  // The worker is destroyed before the last line of the log, so that the line is true.
  const auto code = std::make_unique<worker>(opts, narrator, guard, std::move(read_again))->run();
  narrator.narrate(severity::info, "stopped", "The worker has stopped",
                   {{"exit_code", static_cast<std::int64_t>(code)},
                    {"uptime_seconds", std::chrono::duration<double>(clock::now() - started_at).count()}});
  return code;
}

}  // namespace orcd::app
