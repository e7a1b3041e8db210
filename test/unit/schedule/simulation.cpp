#include "test/unit/schedule/simulation.hpp"

#include <algorithm>
#include <stdexcept>

namespace orcd::test {

using namespace engine;
using std::chrono::milliseconds;

namespace {

constexpr token_id end_token = 42;
constexpr int actions = 400;
constexpr std::uint32_t prompt_max = 60;
constexpr std::uint32_t output_max = 60;

std::string outcome_name(const recording_sink& seen, const std::set<cancel_reason>& asked) {
  if (seen.end()) {
    if (seen.end()->reason == finish_reason::length) return "end: length";
    return asked.contains(cancel_reason::stop_string) ? "end: stop string" : "end: end token";
  }
  return std::string("error: ") + std::string(code_name(seen.error()->failure.code)) +
         (seen.started() ? "" : ", waiting");
}

}  // namespace

struct simulation::mailbox_sink final : event_sink {
  mailbox_sink(simulation& w, std::size_t i) : world(w), index(i) {}
  void offer(const job_event& event) noexcept override { world.to_io_.emplace_back(index, event); }
  simulation& world;
  std::size_t index;
};

simulation::simulation(std::uint64_t seed, coverage& seen, layers need)
    : coverage_(seen),
      random_(seed),
      need_(need),
      slots_(static_cast<std::uint32_t>(1 + below(4))),
      max_queue_(static_cast<std::uint32_t>(below(7))),
      device_(options()),
      admission_({slots_, max_queue_}) {
  scheduler_config config;
  config.slots = slots_;
  config.end_of_generation = {end_token};
  config.now = [this] { return time_; };
  config.cache = {.share = !one_in(6),
                  .tokens_min = static_cast<std::uint32_t>(below(12)),
                  .sessions = static_cast<std::uint32_t>(below(3)),
                  .system_prompts = static_cast<std::uint32_t>(below(2))};
  config.drafts = drafts();
  config.on_failure = [this](const error&) { device_lost_ = true; };
  config.on_degraded = [this](const error&) { ++coverage_["degraded"]; };
  scheduler_ = std::make_unique<scheduler>(device_, config);
}

// From memory for one job to memory for all.
kv_geometry simulation::pages() {
  if (need_ == layers::all_positions && one_in(4)) return {};
  const auto size = static_cast<std::uint32_t>(1 + below(9));
  const std::uint32_t most = (prompt_max + output_max - 1 + size - 1) / size;
  const bool scarce = need_ != layers::all_positions && one_in(2);
  return {size, most + static_cast<std::uint32_t>(below(scarce ? 3 : std::uint64_t{most} * slots_))};
}

// As many pages as the jobs can come to need and not one more, and no boundaries, some or many.
void simulation::add_windows(fake_options& to) {
  const steps_ahead ahead{to.launch_depth, to.chunk_tokens, std::min(drafts_max, to.draft_tokens)};
  to.pages.group_count = static_cast<std::uint32_t>(1 + below(2));
  to.pages.page_bytes = 100;
  for (std::uint32_t i = 0; i < to.pages.group_count; ++i) {
    kv_group& group = to.pages.groups.at(i);
    const std::uint32_t size = to.pages.page_positions;
    group.need = kv_need::window;
    group.window = static_cast<std::uint32_t>(2 + below(one_in(2) ? 4 : 30));
    group.boundary_pages =
        one_in(6) ? 0 : static_cast<std::uint32_t>(pages_before_max(group.window, size) + below(20));
    group.pages = static_cast<std::uint32_t>(windowed_pages_max(slots_, group.window, size, ahead)) +
                  group.boundary_pages;
    group.page_bytes = below(200);
  }
}

// Sometimes beside windows; no pages for states, one, some or many.
void simulation::add_states(fake_options& to) {
  if (one_in(3)) add_windows(to);
  kv_group& group = to.pages.groups.at(to.pages.group_count++);
  group.need = kv_need::state;
  group.pages = group.boundary_pages =
      one_in(6) ? 0 : static_cast<std::uint32_t>(1 + below(one_in(3) ? 2 : 20));
  to.pages.page_bytes = 100;
  group.page_bytes = below(400);
}

// While a step runs, time passes, clients act and a targeted cancel interrupts, as on two threads.
fake_options simulation::options() {
  fake_options out;
  out.slots = slots_;
  out.chunk_tokens = static_cast<std::uint32_t>(1 + below(16));
  out.pages = pages();
  out.launch_depth = static_cast<std::uint32_t>(1 + below(3));
  if (one_in(2)) out.end_of_generation = {end_token};
  if (one_in(2)) out.draft_tokens = static_cast<std::uint32_t>(1 + below(12));
  out.during_step = [this] {
    time_ += milliseconds(1 + below(10));
    if (one_in(4)) client_acts();
    if (one_in(200)) scheduler_->interrupt();
  };
  if (one_in(3)) {
    for (int i = 0; i < 3; ++i) out.faults.push_back({1 + below(150), errc::vram_oom, one_in(2)});
    injected_.insert(errc::vram_oom);
  }
  if (one_in(8)) {
    out.faults.push_back({20 + below(150), errc::cuda_error, one_in(2)});
    injected_.insert(errc::cuda_error);
  }
  if (need_ != layers::all_positions) {
    if (need_ == layers::states_too) {
      add_states(out);
    } else {
      add_windows(out);
    }
    if (one_in(8)) {
      out.extend_out_of_memory = 1 + below(60);
      injected_.insert(errc::vram_oom);
    }
  }
  return out;
}

namespace {

/// Knows what follows, and is wrong or silent now and then.
class random_drafts final : public draft_source {
 public:
  random_drafts(const fake_accelerator& device, std::uint64_t seed) : device_(device), random_(seed) {}
  std::uint32_t guess(std::span<const token_id> tokens, std::uint32_t most,
                      std::vector<token_id>& guess) override {
    guess = device_.expected({tokens.begin(), tokens.end()}, random_() % 4 == 0 ? 0 : most);
    for (token_id& token : guess) {
      if (random_() % 6 == 0) token = static_cast<token_id>(random_() % 128);
    }
    return static_cast<std::uint32_t>(random_() % draft_kinds);
  }

 private:
  const fake_accelerator& device_;
  std::mt19937_64 random_;
};

}  // namespace

speculation simulation::drafts() {
  speculation out{true, one_in(2) ? static_cast<std::uint32_t>(1 + below(6)) : 0, {}};
  out.source = [this](job_request& job, std::uint32_t) {
    return std::make_unique<random_drafts>(device_, job.seed);
  };
  return out;
}

void simulation::require(bool holds, const std::string& what) const {
  if (!holds) throw std::runtime_error(what);
}

void simulation::run() {
  for (int i = 0; i < actions; ++i) {
    act();
    check_bounds();
  }
  settle();
}

void simulation::act() {
  switch (below(8)) {
    case 0: client_acts(); break;
    case 1: time_ += milliseconds(below(5)); break;
    case 2:
    case 3: deliver_to_gpu(); break;
    case 4:
    case 5: deliver_to_io(); break;
    default: (void)scheduler_->run_step(); break;
  }
}

void simulation::client_acts() {
  const std::uint64_t choice = below(100);
  if (choice < 55 || sessions_.empty()) return request_job();
  // The last sessions are the likely live ones; an ended one now and then shows that it is ignored.
  const std::size_t recent = std::min<std::size_t>(sessions_.size(), 8);
  const std::size_t index = sessions_.size() - 1 - below(recent);
  if (choice < 70) return cancel(index, cancel_reason::client_cancel);
  if (choice < 85) return cancel(index, cancel_reason::disconnected);
  if (choice < 98) return cancel(index, cancel_reason::timeout);
  if (one_in(6)) shut_down();
}

void simulation::request_job() {
  job_request request;
  request.job_id = "job" + std::to_string(one_in(10) ? below(sessions_.size() + 1) : sessions_.size());
  const auto entered = admission_.enter(request.job_id);
  if (entered.has_error()) {
    ++coverage_["refused: " + std::string(code_name(entered.error().code))];
    return;
  }
  request.prompt = make_prompt();
  request.cache = make_cache_request();
  request.max_tokens = static_cast<std::uint32_t>(1 + below(one_in(4) ? output_max : 8));
  request.tell_progress = request.max_tokens % 2 == 0;
  request.ignore_eos = one_in(5);
  request.seed = random_();
  request.received_at = time_;
  if (one_in(3)) request.deadline = time_ + milliseconds(below(300));

  auto s = std::make_unique<session>();
  s->request = request;
  s->expected = device_.expected(request.prompt, request.max_tokens);
  if (!request.ignore_eos) {
    const auto end = std::find(s->expected.begin(), s->expected.end(), end_token);
    s->expects_stop = end != s->expected.end();
    s->expected.erase(end, s->expected.end());
  }
  if (one_in(4)) s->stop_after = 1 + below(6);
  const auto sink = std::make_shared<mailbox_sink>(*this, sessions_.size());
  sessions_.push_back(std::move(s));
  to_gpu_.emplace_back([this, request = std::move(request), sink] { scheduler_->submit(request, sink); });
}

// Half of them begin as an earlier conversation did, some with what was answered.
std::vector<token_id> simulation::make_prompt() {
  std::vector<token_id> prompt;
  const std::uint64_t length = 1 + below(one_in(2) ? prompt_max : 10);
  if (!sessions_.empty() && one_in(2)) {
    const session& earlier = *sessions_[below(sessions_.size())];
    prompt = earlier.request.prompt;
    prompt.insert(prompt.end(), earlier.expected.begin(), earlier.expected.end());
    prompt.resize(std::min<std::size_t>(prompt.size(), 1 + below(prompt_max)));
  }
  while (prompt.size() < length) prompt.push_back(static_cast<token_id>(below(128)));
  return prompt;
}

cache_request simulation::make_cache_request() {
  cache_request out;
  out.enabled = !one_in(8);
  if (one_in(3)) out.salt = "other tenant";
  if (one_in(3)) out.session = "session" + std::to_string(below(4));
  if (one_in(3)) out.system_tokens = static_cast<std::uint32_t>(below(20));
  return out;
}

/// What was not computed is the beginning of something that the same tenant had computed.
void simulation::check_cached(const session& s) const {
  const std::uint32_t cached = s.seen.stats().tokens_cached;
  if (cached == 0) return;
  require(s.request.cache.enabled, "a prefix for a job that wanted none");
  require(cached < s.request.prompt.size(), "no token of the prompt was computed");
  const auto knew = [&](const auto& other) {
    const session& earlier = *other;
    if (&earlier == &s || !earlier.request.cache.enabled ||
        earlier.request.cache.salt != s.request.cache.salt)
      return false;
    auto all = earlier.request.prompt;
    all.insert(all.end(), earlier.expected.begin(), earlier.expected.end());
    const auto& mine = s.request.prompt;
    return all.size() >= cached && std::equal(mine.begin(), mine.begin() + cached, all.begin());
  };
  require(std::any_of(sessions_.begin(), sessions_.end(), knew), "a prefix that nobody of this tenant had");
}

// A session that has seen its job's terminal event sends no cancel any more; until then it may.
void simulation::cancel(std::size_t index, cancel_reason reason) {
  session& s = *sessions_[index];
  if (s.left) {
    ++coverage_["cancel after the end"];
    return;
  }
  s.asked.insert(reason);
  to_gpu_.emplace_back([this, id = s.request.job_id, reason] { scheduler_->cancel(id, reason); });
  scheduler_->interrupt_if_alone(s.request.job_id);
}

void simulation::shut_down() {
  admission_.drain();
  admission_.on_idle([this] { idle_told_ = true; });
  for (auto& s : sessions_) {
    if (!s->left) s->asked.insert(cancel_reason::shutdown);
  }
  to_gpu_.emplace_back([this] { scheduler_->cancel_all(cancel_reason::shutdown); });
}

void simulation::deliver_to_gpu() {
  if (to_gpu_.empty()) return;
  const auto message = std::move(to_gpu_.front());
  to_gpu_.pop_front();
  message();
}

void simulation::deliver_to_io() {
  if (to_io_.empty()) return;
  const auto [index, event] = std::move(to_io_.front());
  to_io_.pop_front();
  on_event(index, event);
}

void simulation::on_event(std::size_t index, const job_event& event) {
  session& s = *sessions_[index];
  require(!s.left, "an event after the terminal one");
  s.seen.offer(event);
  require(s.seen.fault().empty(), s.seen.fault());
  if (std::holds_alternative<token_event>(event)) {
    const std::size_t count = s.seen.tokens().size();
    require(count <= s.expected.size(), "more tokens than an undisturbed run gives");
    require(s.seen.tokens().back() == s.expected[count - 1], "a token differs from the undisturbed run's");
    if (count == s.stop_after) cancel(index, cancel_reason::stop_string);
  }
  if (s.seen.ended()) on_terminal(s);
}

void simulation::on_terminal(session& s) {
  ++coverage_[outcome_name(s.seen, s.asked)];
  const bool complete = s.seen.tokens().size() == s.expected.size();
  require(s.seen.stats().tokens_out == s.seen.tokens().size(), "tokens_out differs from the tokens sent");
  require(s.seen.stats().queue_ms >= 0, "negative time");
  const bool told =
      !s.seen.progress().empty() && s.seen.progress().back().processed == s.request.prompt.size();
  require(told || s.seen.tokens().empty() || !s.request.tell_progress, "a token before its prompt is told");
  check_cached(s);
  if (s.seen.end()) {
    require(s.seen.started(), "a normal end without started");
    const bool natural = complete && (s.seen.end()->reason == finish_reason::stop) == s.expects_stop;
    const bool stopped =
        s.seen.end()->reason == finish_reason::stop && s.asked.contains(cancel_reason::stop_string);
    require(natural || stopped, "an end for no reason");
  } else {
    check_error(s, s.seen.error()->failure.code);
  }
  s.left = true;
  admission_.leave(s.request.job_id);
}

void simulation::check_error(const session& s, errc code) {
  const auto asked = [&](cancel_reason reason) { return s.asked.contains(reason); };
  switch (code) {
    case errc::cancelled:
      return require(asked(cancel_reason::client_cancel) || asked(cancel_reason::disconnected),
                     "cancelled, but nobody asked");
    case errc::inference_timeout:
      return require(asked(cancel_reason::timeout) || (s.request.deadline && time_ >= *s.request.deadline),
                     "a timeout before the deadline");
    case errc::draining: return require(asked(cancel_reason::shutdown), "draining, but nobody shut down");
    default: return require(injected_.contains(code), "an error that was not injected");
  }
}

void simulation::check_bounds() const {
  const std::uint32_t jobs = scheduler_->running() + scheduler_->waiting();
  require(scheduler_->running() <= slots_, "more running jobs than slots");
  require(jobs <= admission_.running() + admission_.waiting(), "the scheduler knows a job that was let go");
  require(admission_.running() + admission_.waiting() <= slots_ + max_queue_, "the queue is over its limit");
  require(device_.held_slots() <= scheduler_->running(), "a slot outlives its job");
  const kv_cache_counts pages = scheduler_->counts().cache;
  require(device_.written_pages().size() + pages.pages_free <= device_.kv_pages().pages || pages.pages == 0,
          "a free page was not cleared");
  check_windows(pages.windows);
}

void simulation::check_windows(const window_counts& counts) const {
  std::uint32_t written = 0;
  for (std::uint32_t i = 1; i <= device_.kv_pages().group_count; ++i) written += device_.written(i);
  require(written <= counts.pages_used + counts.pages_kept, "a free page of a window was not cleared");
  require(scheduler_->running() > 0 || counts.pages_used == 0, "a job that has ended has pages of a window");
  require(counts.boundaries > 0 || counts.pages_kept == 0, "pages that no boundary keeps");
}

// No more clients: everything still under way must end by itself.
void simulation::settle() {
  for (int round = 0; round < 100'000; ++round) {
    const bool more = scheduler_->run_step();
    deliver_to_gpu();
    deliver_to_io();
    check_bounds();
    if (!more && scheduler_->idle() && to_gpu_.empty() && to_io_.empty()) break;
  }
  require(scheduler_->idle(), "jobs that never end");
  require(device_.held_slots() == 0, "a slot was not released");
  for (const auto& s : sessions_) require(s->left, "a job without a terminal event");
  require(admission_.running() + admission_.waiting() == 0, "admission holds a job that ended");
  if (admission_.draining()) require(idle_told_, "nobody was told that the last job left");
  const kv_cache_counts pages = scheduler_->counts().cache;
  require(pages.pages_free + pages.pages_cached == pages.pages, "pages that nobody has");
  coverage_["cache hits"] += pages.hits;
  coverage_["evictions"] += pages.evictions;
  coverage_["boundaries left"] += pages.windows.boundaries;
  coverage_["boundaries given up"] += pages.windows.boundaries_given_up;
  coverage_["positions read"] += device_.windows().read();
  coverage_["states loaded"] += device_.states().loaded();
  coverage_["set back"] += scheduler_->counts().preemptions;
  coverage_["drafts right"] += scheduler_->counts().drafts.right;
  coverage_["drafts wrong"] += scheduler_->counts().drafts.tokens - scheduler_->counts().drafts.right;
  if (device_lost_) ++coverage_["device lost"];
  if (scheduler_->steps() < device_.steps()) ++coverage_["steps computed again"];
}

}  // namespace orcd::test
