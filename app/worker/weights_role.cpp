#include "app/worker/weights_role.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <filesystem>
#include <system_error>
#include <utility>

#include "app/identity/model_digest.hpp"

namespace orcd::app {
namespace {

namespace asio = boost::asio;
using engine::errc;
using engine::error;
using engine::result;
using engine::severity;

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

double ms_between(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

error load_cancelled() {
  return {errc::cancelled, "the load was cancelled by a signal"};
}

}  // namespace

weights_role::weights_role(asio::io_context& io, const options& opts, engine::worker_state& state,
                           service_manager& service, engine::narrator& narrator, hooks asked)
    : io_(io), opts_(opts), state_(state), service_(service), narrator_(narrator), asked_(std::move(asked)) {}

/// The thread that loads asks the holder for them.
std::optional<start_failure> weights_role::link(const sharing& how) {
  const auto use = opts_.failover.share_weights;
  if (use == holder_use::off) return std::nullopt;
  const auto device = find_device(opts_, {.cancelled = asked_.stop_asked,
                                          .waiting = [this](const auto& notice) { tell_of_wait(notice); }});
  if (!device) return device.error();
  share_config config{{}, opts_.failover.engine_id, use == holder_use::require};
  if (how.pages) config.pages = {engine::kv_page_positions, parts_->model.plan_for.kv_pages};
  config.cache = how.cache;
  for (const auto& name : net::device_names_of(*device)) {
    const auto path = net::weights_socket_path(opts_.failover.weights_dir, name);
    std::error_code ignored;
    if (std::filesystem::is_socket(path, ignored)) config.socket = path;
  }
  if (config.socket.empty() && use == holder_use::automatic) return std::nullopt;
  if (config.socket.empty()) config.socket = net::weights_socket_path(opts_.failover.weights_dir, *device);
  try {
    share_ = std::make_unique<weights_share>(std::move(config), share_hooks());
  } catch (const std::system_error& failed) {
    return error{errc::worker_start_failed, std::string("no thread for shared weights: ") + failed.what()};
  }
  return std::nullopt;
}

weights_share::hooks weights_role::share_hooks() {
  weights_share::hooks told;
  told.others_live = asked_.others_live;
  told.waiting = [this](const std::string& what) {
    service_.waiting(what);
    narrator_.narrate(severity::info, "weights_wait", what, {{"waited_ms", loading_ms()}});
  };
  told.shared = [this] {
    narrator_.narrate(severity::info, "weights_shared", "Other engines can use these weights");
    asio::post(io_, [this] { let_go(); });
  };
  told.trouble = [this](const std::string& why) {
    narrator_.narrate(severity::warning, "weights_not_shared",
                      "Other engines cannot use these weights: " + why);
  };
  return told;
}

/// The hash takes about a second per gigabyte and nothing waits for it; /health shows it when known.
void weights_role::start() {
  digest_ = std::jthread([this](const std::stop_token& stop) {
    yield_to_others();
    try {
      find_digest(stop);
    } catch (const std::bad_alloc&) {
      narrator_.narrate(severity::warning, "model_digest", "No digest of the model file: out of memory");
      if (share_) share_->keep("out of memory");
    }
  });
  started_at_ = clock::now();
  const auto& spec = parts_->model.spec.spec;
  narrator_.narrate(severity::info, "model_load_start", "Loading the model",
                    {{"model", std::string_view(opts_.model)},
                     {"architecture", std::string_view(spec.architecture)},
                     {"quant_kind", std::string_view(spec.quant_kind)},
                     {"file_bytes", parts_->model.file.file_bytes()}});
  parts_->thread.post([this] {
    if (cancelled_) return;
    auto plan = load();
    if (cancelled_) return;
    asio::post(io_, [this, plan = std::move(plan)] { asked_.loaded(plan); });
  });
}

double weights_role::loading_ms() const {
  return ms_between(started_at_);
}

void weights_role::tell_of_wait(const gpu::wait_notice& notice) {
  service_.waiting("Waiting for a GPU: " + notice.found);
  narrator_.narrate(severity::warning, "gpu_wait", "Waiting for a GPU: " + notice.found,
                    {{"waited_ms", static_cast<std::int64_t>(notice.waited.count())},
                     {"limit_ms", static_cast<std::int64_t>(notice.limit.count())},
                     {"tries", std::uint64_t{notice.tries}}});
}

void weights_role::let_go() {
  if (!share_ || !opts_.failover.standby_unmaps || !asked_.stands_by()) return;
  parts_->thread.post([this] { unmap(); });
}

void weights_role::unmap() {
  if (cancelled_ || are_away_ || !share_->sleep()) return;
  try {
    parts_->accelerator.unmap_weights();
  } catch (const engine::accelerator_failure& failure) {
    const error why{failure.code, failure.what()};
    const auto code = fault_exit_code(failure.code, parts_->accelerator.device_lost());
    return asio::post(io_, [this, why, code] { asked_.fail(why, code); });
  }
  are_away_ = true;
  narrator_.narrate(severity::info, "weights_unmapped", "Maps the weights again when it is to serve");
}

void weights_role::get_back(std::function<void()> next) {
  if (!share_ || !opts_.failover.standby_unmaps) return next();
  parts_->thread.post([this, next = std::move(next)] {
    if (cancelled_) return;
    const auto mapped = map_again();
    asio::post(io_, [this, mapped, next] {
      if (asked_.given_up()) return;
      if (!mapped) return asked_.fail_start(mapped.error());
      next();
    });
  });
}

result<void> weights_role::map_again() {
  if (!are_away_) return {};
  const auto begin = clock::now();
  const auto from = share_->wake(std::chrono::milliseconds(opts_.failover.remap_timeout_ms));
  if (!from) return from.error();
  const auto granted_ms = ms_between(begin);
  if (const auto mapped = parts_->accelerator.map_weights(*from); !mapped) return mapped.error();
  are_away_ = false;
  narrator_.narrate(severity::info, "weights_mapped", "Has mapped the weights again",
                    {{"granted_ms", granted_ms}, {"mapped_ms", ms_between(begin)}});
  return {};
}

std::optional<engine::page_ledger> weights_role::ledger() const {
  return share_ ? share_->ledger() : std::nullopt;
}

std::string weights_role::mapped_files() const {
  return share_ ? share_->mapped_files() : std::string();
}

void weights_role::cancel() noexcept {
  cancelled_ = true;
  digest_.request_stop();
  if (share_) share_->cancel();
}

void weights_role::end() {
  if (digest_.joinable()) digest_.join();
  share_.reset();
}

void weights_role::find_digest(const std::stop_token& stop) {
  const auto& file = parts_->model.file;
  if (share_) {
    auto need = share_->wait_for_role(stop);
    if (!need.find) return know_digest(std::move(need.known));
  }
  const auto digest = model_digest(file.parts(), stop);
  if (!digest) return;
  const bool intact = file.check_intact().has_value();
  if (intact) know_digest(*digest);
  if (!share_ || !share_->wait_until_loaded(stop)) return;
  // What was loaded may not be what has the digest.
  if (!intact || !file.check_intact()) return share_->keep("the model's file was written to");
  share_->give(*digest);
}

void weights_role::know_digest(std::string digest) {
  if (digest.empty()) return;
  narrator_.narrate(severity::info, "model_digest", "The model file's digest is known",
                    {{"digest", std::string_view(digest)}});
  asio::post(io_, [this, text = std::move(digest)]() mutable { asked_.digest_known(std::move(text)); });
}

/// With --verify the weights are checked while they are read, and a load whose weights are bad is broken off.
result<engine::memory_plan> weights_role::load() {
  auto config = parts_->model.plan_for;
  if (share_) {
    auto from = claim();
    if (!from) return from.error();
    config.weights = std::move(from->weights);
    config.cache = std::move(from->cache);
    // What the ledger of pages says of a cache that outlives its engine is said of pages of all layers.
    config.window_groups = !config.cache.share && !config.cache.imported;
  }
  auto plan = load_checked(config);
  const bool damaged = !plan && plan.error().code == errc::stale_weights && config.weights.imported;
  if (damaged && opts_.failover.engine_id == 0) {
    // Others would find the same again and again, whoever asks the holder for them.
    auto own = share_->replace(plan.error().message);
    if (!own) return own.error();
    config.weights = std::move(own->weights);
    config.cache = std::move(own->cache);
    plan = load_checked(config);
  }
  if (share_ && plan) {
    auto& device = parts_->accelerator;
    const auto kept =
        share_->loaded(device.exported_weights(), device.exported_cache(), device.device().uuid);
    if (!kept) return kept.error();
  }
  return plan;
}

result<engine::memory_plan> weights_role::load_checked(const engine::accelerator_config& config) {
  std::optional<gpu::weight_check> check;
  if (opts_.verify && !config.weights.imported) check.emplace(parts_->model.file.tensors());
  auto plan = load_weights(config, check ? &*check : nullptr);
  if (check && (plan || check->failed())) {
    if (const auto good = wait_for_check(*check); !good) return good.error();
  }
  return plan;
}

/// Waits for the holder's grant, without a limit.
result<weights_share::claimed> weights_role::claim() {
  const auto& file = parts_->model.file;
  const weights_record own{.numerics = numerics_id(opts_), .files = files_digest(file)};
  // As long as a load: the start's time limit begins anew while it moves.
  const auto moves = [this, said = clock::time_point()]() mutable {
    if (clock::now() - said < notice_interval) return;
    said = clock::now();
    service_.waiting("Comparing the model with the weights of other engines");
  };
  auto from = share_->claim(own, [&file, moves, stop = digest_.get_stop_token()] {
    return model_digest(file.parts(), stop, moves);
  });
  if (from && from->weights.imported) {
    narrator_.narrate(severity::info, "weights_imported", "Uses the weights that another engine has loaded",
                      {{"bytes", from->weights.imported->bytes},
                       {"kv_cache", from->cache.imported ? "shared" : "own"},
                       {"waited_ms", loading_ms()}});
  }
  return from;
}

result<void> weights_role::wait_for_check(gpu::weight_check& check) {
  for (auto noticed = clock::now() - notice_interval; !check.done_within(std::chrono::milliseconds(20));) {
    if (clock::now() - noticed >= notice_interval) {
      service_.waiting("Checking the weights of the loaded model");
      noticed = clock::now();
    }
    if (cancelled_) return load_cancelled();
  }
  if (const auto good = check.finish(); !good) return good.error();
  const auto& file = parts_->model.file;
  narrator_.narrate(severity::info, "weights_verified", "Every scale of the model is finite",
                    {{"verify_ms", loading_ms()},
                     {"tensors", std::uint64_t{file.tensors().size()}},
                     {"bytes", file.tensor_bytes()}});
  return {};
}

result<engine::memory_plan> weights_role::load_weights(const engine::accelerator_config& config,
                                                       const gpu::weight_check* check) {
  try {
    return parts_->accelerator.load(parts_->model.spec, config, [&](unsigned percent) {
      if (cancelled_ || (check != nullptr && check->failed())) throw load_ended{};
      report_progress(percent);
    });
  } catch (const load_ended&) {
    return load_cancelled();
  } catch (const engine::accelerator_failure& failure) {
    return error{failure.code, failure.what()};
  } catch (const std::exception& failure) {
    return error{errc::model_load_failed, std::string("loading the weights failed: ") + failure.what()};
  }
}

void weights_role::report_progress(unsigned percent) {
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
