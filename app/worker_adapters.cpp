// How the worker gets its LoRA adapters: those of --lora are read while it opens the model, and are on the
// device before it is ready; others come through the registry's hooks.
#include <algorithm>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <utility>

#include "app/worker_parts.hpp"
#include "engine/lora/read_adapter.hpp"
#include "net/models/adapter_folder.hpp"

namespace orcd::app {
namespace {

namespace asio = boost::asio;
using engine::errc;
using engine::error;
using engine::result;

/// Room for adapters that clients may have loaded, where no option says how much.
constexpr std::uint32_t loaded_rank_min = 16;

engine::adapter_limits limits_of(const options& opts, std::uint32_t rank_room) {
  engine::adapter_limits out;
  if (opts.adapters.rank > 0) out.rank = opts.adapters.rank;
  if (rank_room > 0) out.rank = rank_room;
  return out;
}

error start_error(const adapter_option& asked, const error& why) {
  return {why.code, "--lora '" + asked.name + "': " + why.message, "lora"};
}

}  // namespace

/// Reads those of --lora and plans the room for all.
result<void> worker::read_adapters() {
  const adapter_options& asked = opts_.adapters;
  const bool may_load = !asked.folder.empty();
  if (asked.at_start.empty() && !may_load) return {};
  if (model_->spec.spec.pooling) {
    return error(errc::worker_start_failed,
                 "--lora and --allow-lora-load need a model that generates text, this one is served for "
                 "embeddings or ranking",
                 "lora");
  }
  if (may_load && failover_) {
    return error(errc::worker_start_failed,
                 "--allow-lora-load cannot be beside --failover-dir: the engines must have the same adapters",
                 "allow-lora-load");
  }
  std::error_code failed;
  if (may_load && !std::filesystem::is_directory(asked.folder, failed)) {
    return error(errc::worker_start_failed, "--allow-lora-load '" + asked.folder + "' is no directory",
                 "allow-lora-load");
  }
  std::uint32_t rank = may_load ? loaded_rank_min : 0;
  for (const adapter_option& one : asked.at_start) {
    service_.waiting("reading LoRA adapters");
    auto values = engine::read_adapter(one.path, model_->spec, limits_of(opts_, 0));
    if (!values) return start_error(one, values.error());
    rank = std::max(rank, values->rank_max);
    start_adapters_.push_back({one, std::make_shared<const engine::lora_adapter>(std::move(*values))});
    if (guard_.stop_asked()) return error{errc::cancelled, "stopped by a signal"};
  }
  const auto given = static_cast<std::uint32_t>(asked.at_start.size());
  const std::uint32_t count = asked.count > 0 ? asked.count : std::max(given, may_load ? 1U : 0U);
  model_->plan_for.adapters = {count, may_load && asked.rank > 0 ? asked.rank : rank};
  return {};
}

net::adapter_hooks worker::hooks_of_adapters() {
  net::adapter_hooks hooks;
  hooks.read = [this](const std::string& path, const std::stop_token& stop) -> result<net::adapter_values> {
    const auto real = net::adapter_in_folder(opts_.adapters.folder, path);
    if (!real) return real.error();
    engine::adapter_access access{.name = path, .stop = stop};
    access.allowed = [this](int descriptor) { return net::check_opened(opts_.adapters.folder, descriptor); };
    const auto limits = limits_of(opts_, model_->plan_for.adapters.rank_max);
    auto values = engine::read_adapter(*real, model_->spec, limits, access);
    if (!values) return values.error();
    return net::adapter_values(std::make_shared<const engine::lora_adapter>(std::move(*values)));
  };
  hooks.put = [this](std::uint32_t index, net::adapter_values values,
                     std::function<void(result<void>)> done) {
    gpu_thread_->put_adapter(index, std::move(values), std::move(done));
  };
  hooks.drop = [this](std::uint32_t index, std::function<void(bool)> done) {
    gpu_thread_->drop_adapter(index, std::move(done));
  };
  return hooks;
}

/// Lists what was read, under the indices at which it will be.
result<void> worker::make_adapters() {
  if (model_->plan_for.adapters.count == 0) return {};
  net::adapter_config config;
  config.rooms = model_->plan_for.adapters.count;
  config.may_load = !opts_.adapters.folder.empty();
  config.fixed_scales = failover_ != nullptr;
  adapters_ = std::make_unique<net::adapter_registry>(io_.get_executor(), config, hooks_of_adapters(),
                                                      identity_, narrator_);
  for (const start_adapter& one : start_adapters_) {
    auto listed = net::describe_adapter(one.asked.name, one.asked.path, *one.values);
    listed.strength = one.asked.scale;
    listed.scale = opts_.adapters.unapplied ? 0.0F : one.asked.scale;
    if (const auto added = adapters_->add(std::move(listed)); !added) {
      return start_error(one.asked, added.error());
    }
  }
  return {};
}

/// Puts the next one on the device, after which on_loaded() goes on; false when all are there.
bool worker::put_next_adapter(const engine::memory_plan& plan) {
  if (start_adapters_.empty()) return false;
  const auto index = static_cast<std::uint32_t>(adapters_->list()->size() - start_adapters_.size());
  start_adapter one = std::move(start_adapters_.front());
  start_adapters_.erase(start_adapters_.begin());
  gpu_thread_->put_adapter(index, std::move(one.values),
                           [this, plan, index, asked = std::move(one.asked)](const result<void>& put) {
                             if (cancel_load_) return;
                             asio::post(io_, [this, plan, index, asked, put] {
                               if (!put) return on_loaded(start_error(asked, put.error()));
                               adapters_->tell_loaded(index);
                               on_loaded(plan);
                             });
                           });
  return true;
}

}  // namespace orcd::app
