#include "app/worker/holder_role.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "net/failover/held_socket.hpp"
#include "net/journal/head.hpp"

namespace orcd::app {

namespace asio = boost::asio;
using boost::system::error_code;
using engine::result;
using engine::severity;
using tcp = asio::ip::tcp;

namespace {

constexpr std::chrono::milliseconds pause_length{20};
constexpr std::chrono::milliseconds holder_wait{500};  // it is looked for every 100 ms

std::vector<net::held_place> places_of(const net::held_connections& held) {
  std::vector<net::held_place> out = held.waiting;
  for (const auto& one : held.sockets) out.push_back({one.slot, one.serial});
  return out;
}

void narrate_takeover(engine::narrator& narrator, std::uint64_t all, const net::takeover_counts& counts) {
  narrator.narrate(severity::info, "connections_taken_over", "Goes on with connections of the engine before",
                   {{"connections", all},
                    {"resumed", counts.resumed},
                    {"idle", counts.idle},
                    {"fresh", counts.fresh},
                    {"lost", counts.lost},
                    {"conflicts", counts.conflicts}});
}

}  // namespace

std::optional<std::string> why_not_yet(const holder_facts& facts) {
  // A holder that has just been started has everything from the engine before: it is worth a moment.
  const bool may_come = facts.lock_held_for < holder_wait && facts.is_there;
  if (!facts.connected && may_come) return "the holder is not there yet";
  if (!facts.has_listener) return "the holder does not have the serving port";
  return std::nullopt;
}

std::uint64_t count_missing(const std::vector<net::held_place>& before,
                            const std::vector<net::held_place>& now) {
  return static_cast<std::uint64_t>(std::count_if(before.begin(), before.end(), [&](const auto& place) {
    return std::find(now.begin(), now.end(), place) == now.end();
  }));
}

holder_role::holder_role(asio::io_context& io, std::string path, net::failover_status& status,
                         engine::worker_state& state, engine::narrator& narrator, hooks asked)
    : io_(io),
      path_(std::move(path)),
      status_(status),
      state_(state),
      narrator_(narrator),
      asked_(std::move(asked)),
      pause_(io) {}

bool holder_role::is_there(const std::string& path) noexcept {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISSOCK(facts.st_mode);
}

result<void> holder_role::open(const net::hello_frame& self) {
  net::holder_events events;
  // Without the role they stay with the holder, for the engine that has it.
  events.accepted = [this](net::held_socket one) {
    if (takes_) asked_.adopt(std::move(one));
  };
  events.came_late = [this](net::held_socket one) {
    if (takes_) asked_.adopt_late(std::move(one));
  };
  events.rested = asked_.rested;
  events.lost = [this] { on_lost(); };
  events.connected = [this] { on_connected(); };
  events.signalled = [this](net::signal_frame::kind what) {
    if (what == net::signal_frame::kind::hang_up) return asked_.hung_up();
    asked_.hand_over();
  };
  link_ = std::make_shared<net::holder_link>(io_, path_, self, std::move(events));
  if (auto opened = link_->open(); !opened) return opened;
  status_.set_holder(true);
  return {};
}

std::optional<std::string> holder_role::why_not(std::chrono::nanoseconds lock_held_for) const {
  return why_not_yet({link_->is_connected(), is_there(path_), link_->listener() >= 0, lock_held_for});
}

void holder_role::take_over(std::uint32_t room, net::holder_link::held_handler done) {
  link_->take_over(room, std::move(done));
}

bool holder_role::replaces_journal(net::held_connections& held) {
  const auto head = net::look_at_head(link_->journal());
  const bool is_damaged = head && *head == net::head_state::damaged;
  if (!is_damaged || without_journal_ || !link_->is_complete()) return false;
  without_journal_ = places_of(held);
  narrator_.narrate(severity::warning, "journal_damaged",
                    "Nobody can read the journal of connections: the holder is asked for another one",
                    {{"connections", std::uint64_t{without_journal_->size()}}});
  held = {};
  link_->report_damaged_journal();
  return true;
}

/// Connections that the holder has had to end, since only their journal could tell how they go on.
std::uint64_t holder_role::take_lost_with_journal(const net::held_connections& held) {
  const auto before = std::exchange(without_journal_, std::nullopt);
  return before ? count_missing(*before, places_of(held)) : 0;
}

result<void> holder_role::serve(net::held_connections held, net::held_config config) {
  config.closed = [to = std::weak_ptr<net::holder_link>(link_)](std::uint32_t slot, std::uint64_t serial) {
    if (const auto there = to.lock()) there->closed(slot, serial);
  };
  config.lost = take_lost_with_journal(held);
  const std::uint64_t all = held.sockets.size() + config.lost;
  const auto counts = asked_.serve(link_->journal(), std::move(config), std::move(held));
  if (!counts) return counts.error();
  takes_ = true;
  status_.set_resumed(status_.resumed() + counts->resumed);
  if (all > 0) narrate_takeover(narrator_, all, *counts);
  link_->settled();
  if (!link_->is_connected()) on_lost();
  if (link_->is_connected() && !link_->is_complete()) link_->offer();
  has_all_ = link_->is_connected();
  return {};
}

void holder_role::on_lost() {
  has_all_ = false;
  status_.set_holder(false);
  state_.set_holder(false);
  narrator_.narrate(severity::warning, "holder_lost", "The holder is gone and is looked for");
  accept_without_holder();
}

/// Where the system is short of what it takes, connects wait for the next try or the next holder.
void holder_role::accept_without_holder() {
  const int listener = link_->listener();
  if (!takes_ || substitute_ || listener < 0) return;
  if (link_->is_connected()) return;
  net::file_descriptor duplicate(::fcntl(listener, F_DUPFD_CLOEXEC, 0));
  if (duplicate) {
    error_code failed;
    substitute_.emplace(io_).assign(net::protocol_of(duplicate.get()), duplicate.get(), failed);
    if (!failed) {
      static_cast<void>(duplicate.release());
      return accept_itself();
    }
    substitute_.reset();
  }
  pause_.expires_after(pause_length);
  pause_.async_wait([this](error_code ended) {
    if (!ended) accept_without_holder();
  });
}

/// Takes a connection out of the kernel's queue only while it can be served: what a holder has been offered
/// must be all that there is.
void holder_role::accept_itself() {
  substitute_->async_wait(tcp::acceptor::wait_read, [this](error_code failed) {
    if (failed || !substitute_) return;
    net::file_descriptor client(::accept4(substitute_->native_handle(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client) {
      auto kept = link_->keep(std::move(client));
      if (kept) asked_.adopt(std::move(*kept));
      return accept_itself();
    }
    pause_.expires_after(pause_length);
    pause_.async_wait([this](error_code ended) {
      if (!ended && substitute_) accept_itself();
    });
  });
}

void holder_role::on_connected() {
  status_.set_holder(true);
  state_.set_holder(true);
  narrator_.narrate(severity::info, "holder_connected", "A holder is there again");
  substitute_.reset();
  if (takes_) {
    link_->offer();
    link_->settled();
  }
  has_all_ = takes_;
}

void holder_role::leave() {
  takes_ = false;
  substitute_.reset();
  link_->yield(false);
}

}  // namespace orcd::app
