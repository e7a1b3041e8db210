#include "app/holder/run_holder.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <list>
#include <utility>

#include "app/holder/check.hpp"
#include "app/holder/engine_runner.hpp"
#include "app/holder/holder.hpp"
#include "app/holder/shared_files.hpp"
#include "app/holder/socket_place.hpp"
#include "app/holder/stored_state.hpp"
#include "app/holder/weights_port.hpp"
#include "app/process/process_limits.hpp"
#include "app/service/service_manager.hpp"

namespace orcd::app {

namespace {

using boost::system::error_code;
using engine::severity;

/// Descriptors that a holder needs beside those of clients: engines with their pidfds, clients that are
/// refused, what engines offer and the log.
constexpr std::uint64_t fixed_descriptors = 2 * holder_clients_max + refused_clients::kept_max + 32;

/// Service managers take wrong usage for final; what has only run out is worth another start.
exit_code refuse(engine::narrator& narrator, const engine::error& why) {
  narrator.narrate(severity::critical, "error", "The holder cannot start: " + why.message,
                   {{"code", engine::code_name(why.code)}, {"param", std::string_view(why.param)}});
  return why.code == engine::errc::not_ready ? exit_code::failure : exit_code::usage;
}

std::uint32_t find_room(engine::narrator& narrator, std::size_t devices) {
  const std::uint64_t own_descriptors = fixed_descriptors + devices * weights_descriptors_max;
  const auto limit = raise_descriptor_limit();
  if (limit >= net::held_sockets_max + own_descriptors) return net::held_sockets_max;
  const auto room = limit > 2 * own_descriptors ? limit - own_descriptors : limit / 2;
  narrator.narrate(severity::warning, "connections_limited",
                   "Fewer connections than are possible fit into the limit of file descriptors",
                   {{"connections", std::uint64_t{room}}, {"descriptors", std::uint64_t{limit}}});
  return static_cast<std::uint32_t>(room);
}

void say_refused(const std::vector<std::string>& names, engine::narrator& narrator) {
  if (names.empty()) return;
  narrator.narrate(severity::warning, "stored_refused",
                   "The service manager passed descriptors that are not this holder's; they are closed",
                   {{"count", std::uint64_t{names.size()}}, {"first", std::string_view(names.front())}});
}

void restore(weights_port& to, const std::string& device, restored_weights& stored) {
  const auto epoch = stored.epochs.find(device);
  if (epoch != stored.epochs.end()) to.begin_behind(epoch->second);
  const auto had = stored.by_device.find(device);
  if (had == stored.by_device.end()) return;
  to.restore(std::move(had->second));
  stored.by_device.erase(had);
}

/// One of each device, in one order, with what the service manager kept of it. A device that nobody has named
/// is no reason not to start: the engines may not share weights.
engine::result<std::list<weights_port>> open_weights(boost::asio::io_context& io, const holder_options& opts,
                                                     const net::peer_rule& rule, engine::narrator& narrator,
                                                     restored_weights stored) {
  std::list<weights_port> out;
  for (const auto& device : opts.devices.empty() ? find_devices() : opts.devices) {
    const auto opened = out.emplace_back(io, device, narrator).open(opts.dir, rule);
    if (opened) {
      restore(out.back(), device.name, stored);
      continue;
    }
    if (!opts.devices.empty()) return opened.error();
    out.pop_back();
    narrator.narrate(severity::warning, "weights_unavailable",
                     "Engines cannot share the weights of a device: " + opened.error().message,
                     {{"device", std::string_view(device.name)}});
  }
  for (const auto& [device, set] : stored.by_device) {
    stored.refused.push_back(record_name(device, set.what.epoch));
  }
  say_refused(stored.refused, narrator);
  return out;
}

/// What the service manager kept; what of it is foreign is closed, said and no longer kept.
struct all_stored {
  stored_state connections;
  restored_weights weights;
};
engine::result<all_stored> take_stored(descriptor_store& store, const holder_options& opts,
                                       engine::narrator& narrator) {
  auto passed = take_stored_descriptors();
  if (!passed) return passed.error();
  for (const auto& one : *passed) store.note(one);
  auto weights = take_weights(*passed);
  auto stored = sort_stored(std::move(*passed), opts.host, opts.port);
  say_refused(stored.refused, narrator);
  return all_stored{std::move(stored), std::move(weights)};
}

/// Has the service manager keep the weights of all devices, as far as its room goes.
void store_weights(holder& held, std::list<weights_port>& weights) {
  held.also_store([&weights](std::vector<descriptor_store::item>& wanted) {
    const auto before = wanted.size();
    for (auto& one : weights) one.add_stored(wanted, stored_weights_max - (wanted.size() - before));
  });
  for (auto& one : weights) one.on_change([&held] { held.store_all(); });
}

constexpr std::chrono::milliseconds engines_look_for{1'500};

/// Before anything is open: until there is somebody to pass a signal on to, it is for nobody.
void ignore_signals() {
  for (const int number : {SIGPIPE, SIGXFSZ, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM}) std::signal(number, SIG_IGN);
}

/// SIGHUP is for all engines, SIGUSR2 for the one that serves.
void pass_signals_on(boost::asio::signal_set& signals, holder& held) {
  signals.async_wait([&](error_code failed, int number) {
    if (failed) return;
    using kind = net::signal_frame::kind;
    held.pass_on(number == SIGHUP ? kind::hang_up : kind::hand_over);
    pass_signals_on(signals, held);
  });
}

/// Ends the io loop, by a signal or because there is nothing to run any more.
class ending {
 public:
  ending(boost::asio::io_context& io, engine::narrator& narrator)
      : io_(io), narrator_(narrator), signals_(io, SIGTERM, SIGINT) {}

  /// Calls it for each SIGTERM and SIGINT.
  void on_signal(std::function<void()> told) {
    told_ = std::move(told);
    await();
  }
  void finish(exit_code code) {
    code_ = code;
    io_.stop();
  }
  [[nodiscard]] exit_code code() const noexcept { return code_; }

 private:
  void await() {
    signals_.async_wait([this](error_code failed, int) {
      if (failed) return;
      narrator_.narrate(severity::info, "shutdown", "The holder was asked to end");
      told_();
      await();
    });
  }

  boost::asio::io_context& io_;
  engine::narrator& narrator_;
  boost::asio::signal_set signals_;
  std::function<void()> told_;
  exit_code code_ = exit_code::ok;
};

}  // namespace

exit_code run_holder(const holder_options& opts, engine::narrator& narrator) {
  ignore_signals();
  forbid_core_dumps();
  descriptor_store store(stored_max);
  auto stored = take_stored(store, opts, narrator);
  if (!stored) return refuse(narrator, stored.error());
  // The last to go: with its lock the next holder may have the folder, and every file in it.
  const auto place = socket_place::take(opts.dir, opts.group);
  if (!place) return refuse(narrator, place.error());
  boost::asio::io_context io{1};
  // Before the port: who waits for the holder to be there expects all of its sockets.
  auto weights = open_weights(io, opts, place->rule(), narrator, std::move(stored->weights));
  if (!weights) return refuse(narrator, weights.error());
  holder held(io, opts, narrator, *place, find_room(narrator, weights->size()), store);
  store_weights(held, *weights);
  if (const auto opened = held.open(std::move(stored->connections)); !opened) {
    return refuse(narrator, opened.error());
  }
  ending end(io, narrator);
  boost::asio::signal_set passed(io, SIGHUP, SIGUSR2);
  pass_signals_on(passed, held);
  service_manager service;
  held.on_complete([&] {
    narrator.narrate(severity::info, "ready", "The holder listens for clients and engines",
                     {{"port", std::uint64_t{opts.port}}, {"failover_dir", std::string_view(opts.dir)}});
    service.ready("Holds the connections of port " + std::to_string(opts.port));
  });
  engine_runner runner(io, opts, narrator,
                       {[&](std::uint32_t engine) { return held.process_of(engine); },
                        [&] { return held.active_engine(); }, [&](exit_code code) { end.finish(code); }});
  if (opts.engines > 0) {
    // Where the port is in use, engines of the holder before are there and look for this one.
    runner.start(held.is_complete() ? std::chrono::milliseconds(0) : engines_look_for);
    end.on_signal([&] { runner.stop(); });
  } else {
    end.on_signal([&] { end.finish(exit_code::ok); });
  }
  io.run();
  held.store_all();
  return end.code();
}

exit_code run_check(const holder_options& opts) {
  const auto there = ask_holder(opts.socket_path());
  if (!there) {
    std::printf("no holder answers at %s\n", opts.socket_path().c_str());
    return exit_code::failure;
  }
  std::fputs(describe(*there).c_str(), stdout);
  const bool is_enough = opts.what == holder_options::task::check_startup || has_active(*there);
  const bool good = there->complete && is_enough;
  return good ? exit_code::ok : exit_code::failure;
}

}  // namespace orcd::app
