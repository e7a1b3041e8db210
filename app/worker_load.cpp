#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <filesystem>
#include <system_error>

#include "app/model_digest.hpp"
#include "app/worker_parts.hpp"
#include "engine/sha256.hpp"
#include "gpu/weight_check.hpp"

namespace orcd::app {
namespace {

namespace asio = boost::asio;
using engine::errc;
using engine::error;
using engine::result;
using engine::severity;
using clock = std::chrono::steady_clock;

/// Between two words to a service manager, whose limit for a start begins anew with each.
constexpr std::chrono::seconds notice_interval{10};

/// Thrown by the progress report through accelerator::load, to end a load that is not wanted any more.
struct load_ended {};

/// Lets the threads that serve or load go first. Where the system does not allow it the priority stays as it
/// is.
void yield_to_others() noexcept {
  constexpr int least_urgent = 19;
  static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), least_urgent));
}

}  // namespace

/// The thread that loads asks for them.
std::optional<start_failure> worker::link_weights() {
  const auto use = opts_.failover.share_weights;
  if (!failover_ || use == holder_use::off) return std::nullopt;
  const auto device =
      find_device(opts_, {.cancelled = [this] { return guard_.stop_asked(); },
                          .waiting = [this](const auto& notice) { narrate_gpu_wait(notice); }});
  if (!device) return start_failure{device.error(), {}, {}};
  share_config config{{}, opts_.failover.engine_id, use == holder_use::require};
  // Only a holder of connections says when the engine before has ended for good.
  if (failover_->link) config.pages = {engine::kv_page_positions, model_->plan_for.kv_pages};
  for (const auto& name : net::device_names_of(*device)) {
    const auto path = net::weights_socket_path(opts_.failover.dir, name);
    std::error_code ignored;
    if (std::filesystem::is_socket(path, ignored)) config.socket = path;
  }
  if (config.socket.empty() && use == holder_use::automatic) return std::nullopt;
  if (config.socket.empty()) config.socket = net::weights_socket_path(opts_.failover.dir, *device);
  try {
    weights_ = std::make_unique<weights_share>(std::move(config), hooks_of_weights());
  } catch (const std::system_error& failed) {
    return start_failure{
        error{errc::worker_start_failed, std::string("no thread for shared weights: ") + failed.what()},
        {},
        {}};
  }
  return std::nullopt;
}

weights_share::hooks worker::hooks_of_weights() {
  weights_share::hooks told;
  told.others_live = [this] { return failover_->lock.is_taken(); };
  told.waiting = [this](const std::string& what) {
    service_.waiting(what);
    narrator_.narrate(severity::info, "weights_wait", what, {{"waited_ms", ms_since(load_started_at_)}});
  };
  told.shared = [this] {
    narrator_.narrate(severity::info, "weights_shared", "Other engines can use these weights");
    asio::post(io_, [this] { let_weights_go(); });
  };
  told.trouble = [this](const std::string& why) {
    narrator_.narrate(severity::warning, "weights_not_shared",
                      "Other engines cannot use these weights: " + why);
  };
  return told;
}

/// Of an engine that waits, where it was asked for. With the GPU thread's tasks in their order, what maps
/// them again comes later.
void worker::let_weights_go() {
  if (!weights_ || !opts_.failover.standby_unmaps || fsm_.ending()) return;
  if (failover_->status.state() != net::failover_state::standby) return;
  gpu_thread_->post([this] {
    if (weights_are_away_ || !weights_->sleep()) return;
    try {
      accelerator_->unmap_weights();
    } catch (const engine::accelerator_failure& failure) {
      const error why{failure.code, failure.what()};
      const auto code = fault_exit_code(failure.code, accelerator_->device_lost());
      return asio::post(io_, [this, why, code] { on_fatal(why, code); });
    }
    weights_are_away_ = true;
    narrator_.narrate(severity::info, "weights_unmapped", "Maps the weights again when it is to serve");
  });
}

void worker::get_weights_back() {
  if (!weights_ || !opts_.failover.standby_unmaps) {
    weights_are_back_ = true;
    return try_to_serve();
  }
  gpu_thread_->post([this] {
    const auto mapped = map_weights_again();
    asio::post(io_, [this, mapped] {
      if (fsm_.ending() || failover_->expired) return;
      if (!mapped) return fail_start({mapped.error(), {}, {}});
      weights_are_back_ = true;
      try_to_serve();
    });
  });
}

/// On the GPU thread.
result<void> worker::map_weights_again() {
  if (!weights_are_away_) return {};
  const auto begin = clock::now();
  const auto from = weights_->wake(std::chrono::milliseconds(opts_.failover.remap_timeout_ms));
  if (!from) return from.error();
  const auto granted_ms = ms_since(begin);
  if (const auto mapped = accelerator_->map_weights(*from); !mapped) return mapped.error();
  weights_are_away_ = false;
  narrator_.narrate(severity::info, "weights_mapped", "Has mapped the weights again",
                    {{"granted_ms", granted_ms}, {"mapped_ms", ms_since(begin)}});
  return {};
}

/// The hash takes about a second per gigabyte and nothing waits for it; /health shows it when known.
void worker::start_digest() {
  digest_ = std::jthread([this](const std::stop_token& stop) {
    yield_to_others();
    try {
      find_digest(stop);
    } catch (const std::bad_alloc&) {
      narrator_.narrate(severity::warning, "model_digest", "No digest of the model file: out of memory");
      if (weights_) weights_->keep("out of memory");
    }
  });
}

void worker::find_digest(const std::stop_token& stop) {
  if (weights_) {
    auto need = weights_->wait_for_role(stop);
    if (!need.find) return know_digest(std::move(need.known));
  }
  const auto digest = model_digest(model_->file.parts(), stop);
  if (!digest) return;
  const bool intact = model_->file.check_intact().has_value();
  if (intact) know_digest(*digest);
  if (!weights_ || !weights_->wait_until_loaded(stop)) return;
  // What was loaded may not be what has the digest.
  if (!intact || !model_->file.check_intact()) return weights_->keep("the model's file was written to");
  weights_->give(*digest);
}

void worker::know_digest(std::string digest) {
  if (digest.empty()) return;
  narrator_.narrate(severity::info, "model_digest", "The model file's digest is known",
                    {{"digest", std::string_view(digest)}});
  // identity_ is read on the io thread only, so it is written there.
  asio::post(io_, [this, text = std::move(digest)]() mutable { identity_.digest = std::move(text); });
}

void worker::start_load() {
  load_started_at_ = clock::now();
  narrator_.narrate(severity::info, "model_load_start", "Loading the model",
                    {{"model", std::string_view(opts_.model)},
                     {"architecture", std::string_view(identity_.architecture)},
                     {"quant_kind", std::string_view(identity_.quant_kind)},
                     {"file_bytes", model_->file.file_bytes()}});
  gpu_thread_->post([this] {
    auto plan = load_on_gpu_thread();
    if (cancel_load_) return;
    asio::post(io_, [this, plan = std::move(plan)] { on_loaded(plan); });
  });
}

/// On the GPU thread, or before there is one.
void worker::narrate_gpu_wait(const gpu::wait_notice& notice) {
  service_.waiting("Waiting for a GPU: " + notice.found);
  narrator_.narrate(severity::warning, "gpu_wait", "Waiting for a GPU: " + notice.found,
                    {{"waited_ms", static_cast<std::int64_t>(notice.waited.count())},
                     {"limit_ms", static_cast<std::int64_t>(notice.limit.count())},
                     {"tries", std::uint64_t{notice.tries}}});
}

/// On the GPU thread. With --verify the weights are checked while they are read, and a load whose weights are
/// bad is broken off.
result<engine::memory_plan> worker::load_on_gpu_thread() {
  auto config = model_->plan_for;
  if (weights_) {
    auto from = claim_weights();
    if (!from) return from.error();
    config.weights = std::move(from->weights);
    config.cache = std::move(from->cache);
  }
  auto plan = load_checked(config);
  const bool damaged = !plan && plan.error().code == errc::stale_weights && config.weights.imported;
  if (damaged && opts_.failover.engine_id == 0) {
    // Others would find the same again and again, whoever asks the holder for them.
    auto own = weights_->replace(plan.error().message);
    if (!own) return own.error();
    config.weights = std::move(own->weights);
    config.cache = std::move(own->cache);
    plan = load_checked(config);
  }
  if (weights_ && plan) {
    const auto kept = weights_->loaded(accelerator_->exported_weights(), accelerator_->exported_cache(),
                                       accelerator_->device().uuid);
    if (!kept) return kept.error();
  }
  return plan;
}

result<engine::memory_plan> worker::load_checked(const engine::accelerator_config& config) {
  std::optional<gpu::weight_check> check;
  if (opts_.verify && !config.weights.imported) check.emplace(model_->file.tensors());
  auto plan = load_weights(config, check ? &*check : nullptr);
  if (check && (plan || check->failed())) {
    if (const auto good = wait_for_check(*check); !good) return good.error();
  }
  return plan;
}

/// Waits for the holder's grant, without a limit.
result<weights_share::claimed> worker::claim_weights() {
  weights_record own{.numerics = numerics_id(opts_)};
  // What is long where a model has hundreds of files.
  if (const auto files = model_->file.identity(); !files.empty()) own.files = engine::sha256_of(files);
  // As long as a load: the start's time limit begins anew while it moves.
  const auto moves = [this, said = clock::time_point()]() mutable {
    if (clock::now() - said < notice_interval) return;
    said = clock::now();
    service_.waiting("Comparing the model with the weights of other engines");
  };
  auto from = weights_->claim(own, [this, moves, stop = digest_.get_stop_token()] {
    return model_digest(model_->file.parts(), stop, moves);
  });
  if (from && from->weights.imported) {
    narrator_.narrate(severity::info, "weights_imported", "Uses the weights that another engine has loaded",
                      {{"bytes", from->weights.imported->bytes},
                       {"kv_cache", from->cache.imported ? "shared" : "own"},
                       {"waited_ms", ms_since(load_started_at_)}});
  }
  return from;
}

result<void> worker::wait_for_check(gpu::weight_check& check) {
  for (auto noticed = clock::now() - notice_interval; !check.done_within(std::chrono::milliseconds(20));) {
    if (clock::now() - noticed >= notice_interval) {
      service_.waiting("Checking the weights of the loaded model");
      noticed = clock::now();
    }
    if (cancel_load_) return error{errc::cancelled, "the load was cancelled by a signal"};
  }
  if (const auto good = check.finish(); !good) return good.error();
  narrator_.narrate(severity::info, "weights_verified", "Every scale of the model is finite",
                    {{"verify_ms", ms_since(load_started_at_)},
                     {"tensors", std::uint64_t{model_->file.tensors().size()}},
                     {"bytes", model_->file.tensor_bytes()}});
  return {};
}

result<engine::memory_plan> worker::load_weights(const engine::accelerator_config& config,
                                                 const gpu::weight_check* check) {
  try {
    return accelerator_->load(model_->spec, config, [&](unsigned percent) {
      if (cancel_load_ || (check != nullptr && check->failed())) throw load_ended{};
      report_progress(percent);
    });
  } catch (const load_ended&) {
    return error{errc::cancelled, "the load was cancelled by a signal"};
  } catch (const engine::accelerator_failure& failure) {
    return error{failure.code, failure.what()};
  } catch (const std::exception& failure) {
    return error{errc::model_load_failed, std::string("loading the weights failed: ") + failure.what()};
  }
}

/// On the GPU thread.
void worker::report_progress(unsigned percent) {
  state_.load_percent = percent;
  if (percent != notified_percent_) service_.loading(percent);
  notified_percent_ = percent;
  for (const auto milestone : progress_.reached(percent)) {
    narrator_.narrate(severity::info, "model_load_progress",
                      "The model is " + std::to_string(milestone) + " % loaded",
                      {{"percent", std::uint64_t{milestone}}});
  }
}

}  // namespace orcd::app
