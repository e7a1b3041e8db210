#include "app/weights/weights_share.hpp"

#include <array>
#include <charconv>
#include <chrono>
#include <new>
#include <utility>

#include "app/weights/claim_turns.hpp"
#include "engine/base/hexadecimal.hpp"

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;
using engine::result;
using net::weights_mode;
using net::weights_problem;
using std::chrono::milliseconds;

constexpr const char* piece_name = "weights";
/// How long a claim waits before it is told that it does.
constexpr milliseconds notice_interval{10'000};
constexpr milliseconds look_interval{50};
constexpr const char* load_notice = "Waits for another engine to load the weights";

/// All zero where it is no hash.
net::weights_hash hash_of(std::string_view hex) {
  net::weights_hash out{};
  if (hex.size() != 2 * out.size()) return out;
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::from_chars(hex.data() + 2 * i, hex.data() + 2 * i + 2, out.at(i), 16);
  }
  return out;
}

error error_of(const net::weights_failure& failure) {
  switch (failure.kind) {
    case weights_problem::stale: return {errc::stale_weights, failure.message};
    case weights_problem::cancelled: return {errc::cancelled, failure.message};
    default: return {errc::weights_lost, failure.message};
  }
}

error stale(const std::string& why) {
  return {errc::stale_weights, "the shared weights " + why};
}

}  // namespace

weights_share::weights_share(share_config config, hooks told)
    : config_(std::move(config)),
      told_(std::move(told)),
      link_(config_.socket, config_.engine_id),
      pages_(config_.pages),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

weights_share::~weights_share() {
  thread_.request_stop();
  cancel();
}

void weights_share::cancel() noexcept {
  link_.cancel();
}

void weights_share::set_role(role now) {
  {
    const std::lock_guard held(mutex_);
    role_ = now;
  }
  changed_.notify_all();
}

void weights_share::set_stage(stage now) {
  {
    const std::lock_guard held(mutex_);
    stage_ = now;
  }
  changed_.notify_all();
}

/// As weights_record::pages has it.
std::string weights_share::own_pages() const {
  return has_pages() ? text_of(config_.pages) + " of " + config_.cache : std::string();
}

std::string weights_share::mapped_files() {
  const std::lock_guard held(mutex_);
  return role_ == role::reader ? record_.files : std::string();
}

result<weights_share::claimed> weights_share::claim(const weights_record& own,
                                                    const digest_function& own_digest) {
  record_ = own;
  record_.pages = own_pages();
  const auto grant = first_grant();
  if (!grant) return grant.error();
  bool writes = grant->mode == weights_mode::write;
  if (!writes) {
    if (const auto differs = compare(*grant, own_digest)) {
      if (const auto left = leave_others(*differs); !left) return left.error();
      writes = true;
    } else if (const auto taken = take(*grant); !taken) {
      return taken.error();
    } else if (has_pages() && record_.pages == own_pages()) {
      if (const auto pages = pages_.take(link_); !pages) return error_of(pages.error());
    }
  }
  claimed out;
  if (writes) {
    set_role(role::writer);
    out.weights.share = true;
    out.cache.share = has_pages();
  } else {
    out.weights.imported = weights_;
    out.cache.imported = pages_.cache();
  }
  return out;
}

result<weights_share::claimed> weights_share::replace(const std::string& why) {
  if (const auto left = leave_others("cannot be used: " + why); !left) return left.error();
  imported_.reset();
  pages_ = shared_pages(config_.pages);
  record_.pages = own_pages();
  set_role(role::writer);
  claimed out;
  out.weights.share = true;
  out.cache.share = has_pages();
  return out;
}

result<net::grant_frame> weights_share::first_grant() {
  const auto begin = std::chrono::steady_clock::now();
  const bool may_write = config_.engine_id == 0;
  for (bool told = false;; told = true) {
    const auto found = link_.state();
    if (!found) return error_of(found.error());
    const auto waited = std::chrono::steady_clock::now() - begin;
    const claim_facts facts{may_write, told_.others_live(), found->committed || found->has_writer,
                            std::chrono::duration_cast<milliseconds>(waited)};
    switch (decide(facts)) {
      case claim_turn::read: return wait_for(weights_mode::read, load_notice);
      case claim_turn::write_or_read: return wait_for(weights_mode::write_or_read, load_notice);
      case claim_turn::look_again: break;
    }
    if (!told) told_.waiting("Waits for an engine that lives to offer its weights to the holder again");
    if (const auto paused = link_.pause(look_interval); !paused) return error_of(paused.error());
  }
}

/// Without a limit, and says now and then for what.
result<net::grant_frame> weights_share::wait_for(weights_mode mode, const std::string& what) {
  auto grant = link_.request(mode, notice_interval);
  while (!grant && grant.error().kind == weights_problem::timeout) {
    // A holder that hangs gives no grant either.
    if (const auto answers = link_.state(); !answers) return error_of(answers.error());
    told_.waiting(what);
    grant = link_.request(mode, notice_interval);
  }
  if (!grant) return error_of(grant.error());
  return *grant;
}

/// What keeps this engine from using what was granted.
std::optional<std::string> weights_share::compare(const net::grant_frame& grant,
                                                  const digest_function& own_digest) const {
  const auto others = weights_record_of(grant.metadata);
  if (!others) return "are another program's, or another version's";
  return difference(record_, *others, own_digest);
}

/// So that this engine may load weights of its own, now or as soon as nobody reads those of the others.
result<void> weights_share::leave_others(const std::string& why) {
  const auto found = link_.state();
  if (!found) return error_of(found.error());
  // This engine is one of the readers still.
  const unsigned others = found->readers > 0 ? found->readers - 1 : 0;
  const auto users = std::to_string(others) + (others == 1 ? " other engine uses" : " other engines use");
  switch (decide(stale_facts{config_.engine_id == 0, config_.must_share, others})) {
    case stale_turn::refuse: return stale(why);
    case stale_turn::load_own:
      link_.release();
      replaces_ = true;
      told_.trouble(users + " weights that " + why + "; these are passed on when nobody uses those any more");
      return {};
    case stale_turn::replace: break;
  }
  const auto waits = "Waits for the end of engines with other weights: " + users + " weights that " + why;
  if (others > 0) told_.waiting(waits);
  if (const auto grant = wait_for(weights_mode::write, waits); !grant) return grant.error();
  return {};
}

result<void> weights_share::take(const net::grant_frame& grant) {
  auto others = weights_record_of(grant.metadata);
  auto memory = link_.get(piece_name);
  if (!memory) return error_of(memory.error());
  if (!others || !*memory) return stale("are not there: the holder has something else");
  record_ = std::move(*others);
  imported_ = std::move((*memory)->descriptor);
  committed_ = {grant.layout, grant.content, grant.metadata};
  epoch_ = grant.epoch;
  weights_ = {imported_.get(), (*memory)->bytes, engine::hexadecimal(grant.layout),
              engine::hexadecimal(grant.content)};
  return {};
}

result<void> weights_share::loaded(const engine::shared_weights* weights, const engine::shared_cache* cache,
                                   const std::string& gpu) {
  if (cache != nullptr) {
    if (const auto made = pages_.make(*cache); !made) return made.error();
  }
  if (weights == nullptr) {
    if (record_.gpu != gpu) return stale("are in the memory of GPU " + record_.gpu + ", not of " + gpu);
    set_role(role::reader);
    set_stage(stage::watching);
  } else {
    weights_ = *weights;
    record_.gpu = gpu;
  }
  {
    const std::lock_guard held(mutex_);
    is_loaded_ = true;
  }
  changed_.notify_all();
  return {};
}

weights_share::digest_need weights_share::wait_for_role(const std::stop_token& stop) {
  std::unique_lock held(mutex_);
  if (!changed_.wait(held, stop, [this] { return role_ != role::unknown; })) return {};
  if (role_ == role::writer) return {true, {}};
  return {false, record_.digest};
}

bool weights_share::wait_until_loaded(const std::stop_token& stop) {
  std::unique_lock held(mutex_);
  return changed_.wait(held, stop, [this] { return is_loaded_; });
}

void weights_share::give(const std::string& digest) {
  record_.digest = digest;
  committed_ = {hash_of(weights_.layout_hash), hash_of(weights_.content_hash), to_text(record_)};
  if (replaces_) return set_stage(stage::offering);
  if (const auto given = put_and_commit(); !given) {
    told_.trouble(given.error().message);
    return set_stage(stage::offering);
  }
  // First, for whoever hears of it and has the engine sleep at once.
  set_stage(stage::watching);
  told_.shared();
}

void weights_share::keep(const std::string& why) {
  {
    const std::lock_guard held(mutex_);
    if (role_ != role::writer) return;
  }
  told_.trouble(why);
  link_.release();
}

net::weights_result<void> weights_share::put_and_commit() {
  if (auto put = link_.put(piece_name, weights_.bytes, weights_.descriptor); !put) return put;
  if (auto put = pages_.put(link_); !put) return put;
  const auto granted = link_.commit(committed_);
  if (!granted) return granted.error();
  epoch_ = granted->epoch;
  return {};
}

void weights_share::run(const std::stop_token& stop) {
  for (;;) {
    stage now = stage::none;
    {
      std::unique_lock held(mutex_);
      const auto has_work = [this] { return stage_ != stage::none && stage_ != stage::asleep; };
      if (!changed_.wait(held, stop, has_work)) return;
      now = stage_;
    }
    if (now == stage::over || stop.stop_requested()) return;
    try {
      set_stage(now == stage::watching ? watch() : offer());
    } catch (const std::bad_alloc&) {
      // What has run out may be there a moment later, and nothing else waits for this.
      std::this_thread::sleep_for(next_offer(false, {}));
    }
  }
}

/// The connection is what tells the holder that the weights are in use.
weights_share::stage weights_share::watch() {
  const auto end = link_.await_end();
  if (!end) return fall_asleep();
  if (end->kind == weights_problem::cancelled) return stage::over;
  told_.trouble("the holder is gone, and is looked for");
  return stage::offering;
}

weights_share::stage weights_share::fall_asleep() {
  const std::lock_guard held(mutex_);
  if (!std::exchange(wants_sleep_, false)) return stage::watching;
  link_.release();
  imported_.reset();
  return stage::asleep;
}

bool weights_share::sleep() {
  std::unique_lock held(mutex_);
  if (stage_ != stage::watching) return false;
  wants_sleep_ = true;
  link_.nudge();
  changed_.wait(held, [this] { return stage_ != stage::watching; });
  wants_sleep_ = false;
  return stage_ == stage::asleep;
}

result<engine::shared_weights> weights_share::wake(milliseconds timeout) {
  const net::grant_frame had{weights_mode::read, epoch_, committed_.layout, committed_.content,
                             committed_.metadata};
  const auto grant = link_.remap(had, timeout);
  if (!grant) return error_of(grant.error());
  if (const auto taken = take(*grant); !taken) return taken.error();
  set_stage(stage::watching);
  return weights_;
}

/// To a holder that may have just been started: it gets the memory again from whoever comes first, and the
/// others find their own weights there. Waits in its queue, so that nothing has to be asked for twice.
weights_share::stage weights_share::offer() {
  const auto is_ours = [this](const net::grant_frame& had) {
    return had.layout == committed_.layout && had.content == committed_.content &&
           had.metadata == committed_.metadata;
  };
  auto grant = link_.request(weights_mode::write_or_read, std::nullopt);
  if (grant && grant->mode == weights_mode::read && !is_ours(*grant)) {
    if (!replaces_) {
      link_.release();
      told_.trouble("the holder has other weights by now");
      return stage::over;
    }
    grant = link_.request(weights_mode::write, std::nullopt);
  }
  if (!grant) return offer_later(grant.error());
  if (grant->mode == weights_mode::write) {
    if (const auto given = put_and_commit(); !given) return offer_later(given.error());
  } else {
    epoch_ = grant->epoch;
  }
  replaces_ = said_ = false;
  pause_ = {};
  set_stage(stage::watching);
  if (grant->mode == weights_mode::write) told_.shared();
  return stage::watching;
}

weights_share::stage weights_share::offer_later(const net::weights_failure& why) {
  if (why.kind == weights_problem::cancelled) return stage::over;
  const bool was_there = link_.has_reached();
  pause_ = next_offer(was_there, pause_);
  if (was_there && !said_) told_.trouble("the holder does not take them: " + why.message);
  said_ = was_there;
  return link_.pause(pause_) ? stage::offering : stage::over;
}

}  // namespace orcd::app
