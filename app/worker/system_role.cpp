#include "app/worker/system_role.hpp"

#include <boost/asio/post.hpp>
#include <utility>

#include "app/options/serving_config.hpp"

namespace orcd::app {

using engine::lifecycle;
using engine::result;
using engine::severity;
using net::failover_state;
using std::chrono::milliseconds;

namespace {

/// Those of some pairs of engines on one host, behind the one that is an engine's by its number.
constexpr std::uint16_t system_ports_tried = 64;

}  // namespace

milliseconds waking_limit(const failover_options& opts) noexcept {
  const bool unmaps = opts.standby_unmaps && opts.share_weights != holder_use::off;
  return milliseconds(opts.waking_timeout_ms) + milliseconds(unmaps ? opts.remap_timeout_ms : 0);
}

failover_state state_alone(lifecycle now) noexcept {
  switch (now) {
    case lifecycle::ready:
    case lifecycle::busy: return failover_state::active;
    case lifecycle::draining: return failover_state::draining;
    case lifecycle::failed: return failover_state::dead;
    case lifecycle::starting:
    case lifecycle::standby:
    case lifecycle::waking: break;
  }
  return failover_state::init;
}

system_role::system_role(boost::asio::io_context& io, const options& opts, facts about,
                         engine::narrator& narrator, hooks asked)
    : io_(io), opts_(opts), about_(about), narrator_(narrator), asked_(std::move(asked)) {}

net::probe_facts system_role::gather() const {
  net::probe_facts out;
  out.alone = about_.engine == nullptr;
  out.lifecycle = about_.state.get();
  out.cause = about_.state.cause();
  out.moving = about_.threads.are_moving();
  out.starts_healthy = opts_.failover.starts_healthy;
  out.endpoint_only = opts_.failover.endpoint_health;
  if (out.alone) {
    out.state = state_alone(out.lifecycle);
    return out;
  }
  const auto& status = about_.engine->status();
  out.state = status.state();
  out.engine = opts_.failover.engine_id;
  out.owner = about_.engine->lock().owner();
  out.holder_connected = status.holder_connected();
  out.resumed = status.resumed();
  out.epoch = status.epoch();
  return out;
}

net::system_context system_role::make_context(net::current_keys keys) {
  net::system_context out;
  out.keys = std::move(keys);
  out.facts = [this] { return gather(); };
  out.scrape = [this](std::function<void(std::string)> done) {
    boost::asio::post(io_, [this, done = std::move(done)] { done(asked_.scrape()); });
  };
  out.hand_over = [this](std::function<void(result<void>)> done) {
    if (about_.engine == nullptr) {
      return done(engine::error(engine::errc::not_ready, "the worker is alone: it has no --failover-dir"));
    }
    boost::asio::post(io_, [this, done = std::move(done)] { asked_.hand_over(done); });
  };
  out.shut_down = [this] { boost::asio::post(io_, [this] { asked_.shut_down(); }); };
  out.on_order = [this](const net::order_note& note) { net::narrate_order(narrator_, note); };
  if (auto* const engine = about_.engine) {
    out.status = &engine->status();
    out.lock_held_for = [engine] { return engine->lock().held_for(); };
    out.on_waking_timeout = [engine] { engine->on_waking_timeout(); };
  }
  return out;
}

std::optional<start_failure> system_role::start(net::current_keys keys) {
  const bool alone = about_.engine == nullptr;
  if (alone && opts_.failover.port.value_or(0) == 0) return std::nullopt;
  net::system_config config;
  config.address = opts_.host;
  config.port = opts_.failover.port.value_or(0);
  if (!alone && !opts_.failover.port_given) config.others = system_ports_tried;
  config.serving_port = opts_.port;
  config.waking_timeout = waking_limit(opts_.failover);
  config.hosts = serving_hosts(opts_);
  auto started = net::system_port::start(std::move(config), make_context(std::move(keys)));
  if (!started) return started.error();
  port_ = std::move(*started);
  if (port() != 0) {
    narrator_.narrate(
        severity::info, "system_port", "The engine answers probes",
        {{"port", std::uint64_t{port()}}, {"engine_id", std::uint64_t{opts_.failover.engine_id}}});
  }
  return std::nullopt;
}

}  // namespace orcd::app
