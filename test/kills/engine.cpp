#include "test/kills/engine.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "net/journal/socket_counters.hpp"
#include "net/server/takeover.hpp"
#include "test/kills/served.hpp"

namespace orcd::kills {

namespace {

class engine {
 public:
  explicit engine(engine_start& start) : start_(start), counts_(*start.counts) {}

  bool take_over();
  /// False when the holder is gone.
  bool serve();

 private:
  void inherit(std::vector<net::held_socket> sockets);
  void note(const net::held_socket& held, const net::socket_counters& counters);
  void judge(net::held_socket held, bool dead_engine);
  void count(const net::journalled& kept, const net::takeover_counts& before);
  void leave(std::uint32_t slot);
  bool hear_holder();

  engine_start& start_;
  board& counts_;
  std::unique_ptr<net::takeover> journal_;
  std::map<std::uint32_t, served> connections_;
  std::vector<pollfd> polled_;
};

bool engine::take_over() {
  const net::file_descriptor lock(::open(start_.lock.c_str(), O_RDWR | O_CLOEXEC));
  while (::flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return false;
  }
  // The lock stays until the end of the process.
  static const int kept = ::fcntl(lock.get(), F_DUPFD_CLOEXEC, 900);
  if (kept < 0 || !tell(start_.channel, {word::take_over, 0, 0})) return false;
  std::vector<net::held_socket> sockets;
  for (;;) {
    auto one = hear(start_.channel);
    if (!one) return false;
    if (one->told.what == word::all) break;
    sockets.push_back({one->told.slot, one->told.serial, std::move(one->socket)});
  }
  inherit(std::move(sockets));
  return true;
}

void engine::inherit(std::vector<net::held_socket> sockets) {
  net::held_config config;
  config.identity = {{net::number_of("kills")}, {1, 0, 0}};
  config.replays = 1'000'000;
  auto made = net::takeover::make(start_.journal, std::move(config));
  if (!made) {
    std::fprintf(stderr, "engine: %s\n", made.error().message.c_str());
    ++counts_.conflicts;
    return;
  }
  journal_ = std::move(*made);
  net::held_connections all{std::move(sockets), {}};
  journal_->begin(all);
  for (net::held_socket& held : all.sockets) {
    judge(std::move(held), true);
    start_.end.passed(point::taking_over);
  }
  counts_.found_all = 1;
}

/// Compares what the kernel took with what the dead engine knew of it.
void engine::note(const net::held_socket& held, const net::socket_counters& counters) {
  noted_bytes& noted = counts_.noted[held.slot];
  if (noted.serial != held.serial) noted = {};  // it knew nothing of it
  if (noted.received > counters.received || noted.sent > counters.sent) ++counts_.wrong_facts;
  if (noted.received < counters.received) ++counts_.read_ambiguities;
  if (noted.sent < counters.sent) ++counts_.sent_ambiguities;
  noted = {held.serial, counters.received, counters.sent};
}

void engine::count(const net::journalled& kept, const net::takeover_counts& before) {
  ++counts_.taken_over;
  counts_.in_request += journal_->counts().resumed - before.resumed;
  if (!kept.recovered) return;
  if (!kept.recovered->unsent.empty()) ++counts_.unsent;
  if (is_under_way(*kept.recovered)) ++counts_.found_under_way;
}

void engine::judge(net::held_socket held, bool dead_engine) {
  const auto slot = held.slot;
  const auto before = journal_->counts();
  if (dead_engine) {
    if (const auto counters = net::read_counters(held.socket.get())) note(held, *counters);
  } else {
    counts_.noted[slot] = {held.serial, 0, 0};
  }
  auto kept = start_.end.within([&] { return journal_->judge(held, dead_engine); });
  counts_.conflicts += journal_->counts().conflicts - before.conflicts;
  counts_.lost += journal_->counts().lost - before.lost;
  if (!kept) {
    ::shutdown(held.socket.get(), SHUT_RDWR);
    tell(start_.channel, {word::closed, slot, held.serial});
    return;
  }
  if (dead_engine) count(*kept, before);
  connections_.try_emplace(slot, std::move(held), std::move(*kept), counts_, start_.end);
}

void engine::leave(std::uint32_t slot) {
  const auto found = connections_.find(slot);
  const auto serial = found->second.held().serial;
  found->second.end();
  connections_.erase(found);
  tell(start_.channel, {word::closed, slot, serial});
}

bool engine::hear_holder() {
  auto one = hear(start_.channel);
  if (!one) return false;
  start_.end.passed(point::socket_passed);
  judge({one->told.slot, one->told.serial, std::move(one->socket)}, false);
  return true;
}

bool engine::serve() {
  polled_.assign(1, {start_.channel, POLLIN, 0});
  std::vector<std::uint32_t> slots;
  for (const auto& [slot, one] : connections_) {
    polled_.push_back({one.socket(), one.wanted(), 0});
    slots.push_back(slot);
  }
  if (::poll(polled_.data(), polled_.size(), -1) < 0) return errno == EINTR;
  for (std::size_t at = 1; at < polled_.size(); ++at) {
    if (polled_[at].revents == 0) continue;
    if (!connections_.at(slots[at - 1]).move(polled_[at].revents)) leave(slots[at - 1]);
  }
  return polled_[0].revents == 0 || hear_holder();
}

}  // namespace

int run_engine(engine_start start) {
  engine here(start);
  if (!here.take_over()) return 0;
  while (here.serve()) {
  }
  return 0;
}

}  // namespace orcd::kills
