#include "app/worker/adapters_role.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <utility>

#include "engine/base/permanent.hpp"
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

engine::adapter_limits adapter_limits_of(const adapter_options& asked, std::uint32_t rank_room) {
  engine::adapter_limits out;
  if (asked.rank > 0) out.rank = asked.rank;
  if (rank_room > 0) out.rank = rank_room;
  return out;
}

error adapter_error(const adapter_option& asked, const error& why) {
  return {why.code, "--lora '" + asked.name + "': " + why.message, "lora"};
}

}  // namespace

engine::adapter_room adapter_room_for(const adapter_options& asked, std::uint32_t largest) {
  const bool may_load = !asked.folder.empty();
  const auto given = static_cast<std::uint32_t>(asked.at_start.size());
  const std::uint32_t count = asked.count > 0 ? asked.count : std::max(given, may_load ? 1U : 0U);
  const std::uint32_t rank = std::max(may_load ? loaded_rank_min : 0U, largest);
  return {count, may_load && asked.rank > 0 ? asked.rank : rank};
}

adapters_role::adapters_role(asio::io_context& io, const adapter_options& asked, hooks does)
    : io_(io), asked_(asked), does_(std::move(does)) {}

result<void> adapters_role::read(engine::served_model& model) {
  model_ = &model;
  const bool may_load = !asked_.folder.empty();
  if (asked_.at_start.empty() && !may_load) return {};
  if (model.spec.spec.pooling) {
    return engine::made_permanent(
        {errc::worker_start_failed,
         "--lora and --allow-lora-load need a model that generates text, this one is served "
         "for embeddings or ranking",
         "lora"});
  }
  std::error_code failed;
  if (may_load && !std::filesystem::is_directory(asked_.folder, failed)) {
    return error(errc::worker_start_failed, "--allow-lora-load '" + asked_.folder + "' is no directory",
                 "allow-lora-load");
  }
  std::uint32_t largest = 0;
  for (const adapter_option& one : asked_.at_start) {
    does_.reading();
    auto values = engine::read_adapter(one.path, model.spec, adapter_limits_of(asked_, 0));
    if (!values) return adapter_error(one, values.error());
    largest = std::max(largest, values->rank_max);
    waiting_.push_back({one, std::make_shared<const engine::lora_adapter>(std::move(*values))});
    if (does_.stop_asked()) return error{errc::cancelled, "stopped by a signal"};
  }
  model.plan_for.adapters = adapter_room_for(asked_, largest);
  return {};
}

net::adapter_hooks adapters_role::registry_hooks() const {
  net::adapter_hooks out;
  out.read = [this](const std::string& path, const std::stop_token& stop) -> result<net::adapter_values> {
    const auto real = net::adapter_in_folder(asked_.folder, path);
    if (!real) return real.error();
    engine::adapter_access access{.name = path, .stop = stop};
    access.allowed = [this](int descriptor) { return net::check_opened(asked_.folder, descriptor); };
    const auto limits = adapter_limits_of(asked_, model_->plan_for.adapters.rank_max);
    auto values = engine::read_adapter(*real, model_->spec, limits, access);
    if (!values) return values.error();
    return net::adapter_values(std::make_shared<const engine::lora_adapter>(std::move(*values)));
  };
  out.put = does_.put;
  out.drop = does_.drop;
  return out;
}

result<void> adapters_role::list(const engine::worker_identity& served, engine::narrator& narrator,
                                 bool fixed_scales) {
  const auto room = model_->plan_for.adapters;
  if (room.count == 0) return {};
  net::adapter_config config;
  config.rooms = room.count;
  config.may_load = !asked_.folder.empty();
  config.fixed_scales = fixed_scales;
  registry_ =
      std::make_unique<net::adapter_registry>(io_.get_executor(), config, registry_hooks(), served, narrator);
  for (const read_adapter& one : waiting_) {
    auto listed = net::describe_adapter(one.asked.name, one.asked.path, *one.values);
    listed.strength = one.asked.scale;
    listed.scale = asked_.unapplied ? 0.0F : one.asked.scale;
    if (const auto added = registry_->add(std::move(listed)); !added) {
      return engine::made_permanent(adapter_error(one.asked, added.error()));
    }
  }
  return {};
}

bool adapters_role::put_next(std::function<void(const result<void>&)> done) {
  if (waiting_.empty()) return false;
  const auto index = static_cast<std::uint32_t>(registry_->list()->size() - waiting_.size());
  read_adapter one = std::move(waiting_.front());
  waiting_.erase(waiting_.begin());
  does_.put(index, std::move(one.values),
            [this, &io = io_, cancelled = does_.load_cancelled, index, asked = std::move(one.asked),
             done = std::move(done)](const result<void>& put) {
              if (cancelled()) return;
              asio::post(io, [this, index, asked, put, done] {
                if (!put) return done(adapter_error(asked, put.error()));
                registry_->tell_loaded(index);
                done({});
              });
            });
  return true;
}

}  // namespace orcd::app
