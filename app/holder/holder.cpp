#include "app/holder/holder.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cstring>
#include <utility>

#include "app/holder/shared_files.hpp"
#include "net/failover/peer.hpp"

namespace orcd::app {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using engine::error;
using engine::result;
using engine::severity;
using net::file_descriptor;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Frames that may wait for an engine to read: all connections, 64 a frame, and some more.
constexpr std::size_t queue_max = 256;
constexpr milliseconds port_interval{500};
constexpr milliseconds room_interval{20};
/// Connections that last shorter cost the service manager nothing.
constexpr milliseconds store_interval{250};
/// More connections than a holder has between two looks at its table: serials of those that were not kept.
constexpr std::uint64_t serials_unknown = std::uint64_t{1} << 32U;
/// For an engine that this holder has never seen to serve, as it was started after that.
constexpr milliseconds unknown_rest{1'000};

}  // namespace

holder::holder(asio::io_context& io, const holder_options& opts, engine::narrator& narrator,
               const socket_place& place, std::uint32_t sockets_max, descriptor_store& store)
    : io_(io),
      opts_(opts),
      narrator_(narrator),
      door_(io, place.listener(), place.rule(), narrator,
            [this](file_descriptor socket) { add_client(std::move(socket)); }),
      port_timer_(io),
      heart_timer_(io),
      store_timer_(io),
      store_(store),
      rest_timer_(io),
      taker_timer_(io),
      port_(
          io, [this] { return wants_connection(); },
          [this](file_descriptor socket) { hand_over_new(std::move(socket)); }),
      table_(sockets_max),
      refused_(io, table_.limit()) {}

holder::~holder() {
  for (auto& one : clients_) one.socket->close();
}

result<void> holder::open(stored_state stored) {
  result<bool> listens = true;
  if (stored.listener) {
    port_.adopt(std::move(stored.listener));
  } else {
    listens = port_.listen(opts_.host, opts_.port);
  }
  if (!listens) return listens.error();
  if (*listens) {
    if (const auto done = complete_with(std::move(stored)); !done) return done;
  } else {
    narrator_.narrate(severity::warning, "port_in_use",
                      "The port is in use: waits for the engine that has it from the holder before",
                      {{"port", std::uint64_t{opts_.port}}});
    try_port();
  }
  door_.start();
  look_at_hearts();
  if (store_.is_there()) store_often();
  return {};
}

/// An engine that lives offers what it has all the same, and that is newer.
result<void> holder::complete_with(stored_state stored) {
  journal_ = std::move(stored.journal);
  if (!journal_) {
    auto made = make_journal(opts_.journal_mib);
    if (!made) return made.error();
    journal_ = std::move(*made);
  }
  put_stored(stored);
  set_complete();
  return {};
}

void holder::put_stored(stored_state& stored) {
  if (stored.connections.empty()) return;
  for (auto& [place, socket] : stored.connections) {
    // One that is over, or beyond the limit, goes with its last duplicate.
    static_cast<void>(table_.put(place, std::move(socket)));
  }
  table_.close_ended();
  table_.skip_serials(table_.next_serial() + serials_unknown);
  narrator_.narrate(severity::info, "restored", "Goes on with connections that the service manager kept",
                    {{"connections", std::uint64_t{table_.size()}}});
}

void holder::store_all() {
  if (!complete_ || !store_.is_there()) return;
  std::vector<descriptor_store::item> wanted{{std::string(stored_listener), port_.descriptor()},
                                             {std::string(stored_journal), journal_.get()}};
  if (also_stored_) also_stored_(wanted);
  for (const auto& one : table_.all()) wanted.push_back({stored_name(one.place), one.socket});
  store_.update(wanted);
}

void holder::store_often() {
  store_all();
  store_timer_.expires_after(store_interval);
  store_timer_.async_wait([this](error_code failed) {
    if (!failed) store_often();
  });
}

/// The engines that had the port may be gone, too.
void holder::try_port() {
  port_timer_.expires_after(port_interval);
  port_timer_.async_wait([this](error_code failed) {
    if (failed || complete_) return;
    const auto listens = port_.listen(opts_.host, opts_.port);
    auto journal = make_journal(opts_.journal_mib);
    if (!listens || !*listens || !journal) {
      port_.close();
      return try_port();
    }
    journal_ = std::move(*journal);
    set_complete();
  });
}

void holder::on_complete(std::function<void()> told) {
  told_complete_ = std::move(told);
  if (complete_) std::exchange(told_complete_, nullptr)();
}

void holder::set_complete() {
  complete_ = true;
  for (auto& one : clients_) {
    if (one.engine && &one != active_) welcome(one);
  }
  if (const auto told = std::exchange(told_complete_, nullptr)) told();
}

/// With one too many, the oldest that has not said who it is goes first.
void holder::add_client(file_descriptor socket) {
  if (clients_.size() >= holder_clients_max) {
    const auto silent =
        std::find_if(clients_.begin(), clients_.end(), [](const client& c) { return !c.engine; });
    if (silent == clients_.end()) return;
    remove(*silent);
  }
  auto& one = clients_.emplace_back();
  one.socket = std::make_shared<net::frame_socket>(io_, std::move(socket), queue_max);
  net::frame_socket::handlers told;
  told.on_frame = [this, &one](net::frame_socket::received got) {
    if (!handle(one, std::move(got))) drop(one, "it broke a rule");
  };
  told.on_end = [this, &one](const error& why) { drop(one, why.message.c_str()); };
  told.on_drained = [this] { port_.start(); };
  one.socket->start(std::move(told));
}

void holder::drop(client& one, const char* why) {
  if (one.engine) {
    narrator_.narrate(severity::info, "engine_gone", "An engine's connection has ended",
                      {{"engine_id", std::uint64_t{*one.engine}},
                       {"active", &one == active_},
                       {"reason", std::string_view(why)}});
  } else {
    narrator_.narrate(severity::debug, "client_gone", "A connection of the holder's socket has ended",
                      {{"reason", std::string_view(why)}});
  }
  remove(one);
}

/// May be called while one of its frames is handled: the handler goes with the socket, which is kept.
void holder::remove(client& one) {
  one.socket->close();
  if (&one == active_) deactivate(false);
  if (taker_ && taker_->engine == &one) taker_.reset();
  asio::post(io_, [kept = one.socket] {});
  clients_.remove_if([&](const client& c) { return &c == &one; });
  go_on_with_taker();
}

bool holder::handle(client& from, net::frame_socket::received got) {
  auto& body = got.what.body;
  if (std::holds_alternative<net::probe_frame>(body)) {
    from.socket->send({got.what.request, report(from, nullptr)});
    return true;
  }
  if (std::holds_alternative<net::list_frame>(body)) {
    from.socket->send({got.what.request, list()});
    return true;
  }
  if (const auto* const hello = std::get_if<net::hello_frame>(&body)) {
    return on_hello(from, *hello, std::move(got.descriptors[0]));
  }
  if (!from.engine) return false;
  if (const auto* const taker = std::get_if<net::take_over_frame>(&body)) {
    return on_take_over(from, taker->room);
  }
  if (const auto* const sockets = std::get_if<net::sockets_frame>(&body)) {
    return on_sockets(from, *sockets, std::move(got.descriptors));
  }
  if (const auto* const closed = std::get_if<net::closed_frame>(&body)) {
    table_.close(closed->which);
    if (&from == active_) hand_over_waiting();
    return true;
  }
  if (const auto* const ping = std::get_if<net::ping_frame>(&body)) {
    from.beat_at = steady_clock::now();
    if (from.heart) from.heart->beat(from.beat_at, ping->progress);
    return true;
  }
  if (const auto* const standby = std::get_if<net::standby_frame>(&body)) {
    from.beat_at = steady_clock::now();
    if (&from != active_) from.standby = standby->answers;
    return true;
  }
  if (const auto* const ask = std::get_if<net::who_frame>(&body)) {
    from.socket->send({got.what.request, report(from, &ask->answers)});
    return true;
  }
  if (const auto* const yield = std::get_if<net::yield_frame>(&body)) {
    from.standby.reset();
    if (&from == active_) deactivate(yield->rests);
    go_on_with_taker();
    return true;
  }
  if (std::holds_alternative<net::settled_frame>(body)) {
    from.settled = &from == active_;
    return true;
  }
  if (std::holds_alternative<net::journal_damaged_frame>(body)) {
    on_journal_damaged(from);
    return true;
  }
  if (std::holds_alternative<net::reloaded_frame>(body)) {
    on_reloaded(from);
    return true;
  }
  if (std::holds_alternative<net::offer_frame>(body)) return on_offer(from, std::move(got.descriptors));
  return false;
}

/// Two engines of one number would be a mistake; one that was killed may not have been seen to be gone.
bool holder::on_hello(client& from, const net::hello_frame& what, file_descriptor process) {
  if (from.engine) return false;
  // Whatever it is of is killed when this engine hangs.
  if (!net::is_own_pidfd(from.socket->descriptor(), process.get())) {
    narrator_.narrate(severity::warning, "engine_refused", "An engine has sent the pidfd of another process",
                      {{"engine_id", std::uint64_t{what.engine}}});
    return false;
  }
  const auto same = std::find_if(clients_.begin(), clients_.end(),
                                 [&](const client& c) { return c.engine == what.engine; });
  if (same != clients_.end()) {
    if (!net::has_ended(same->process.get())) {
      narrator_.narrate(severity::warning, "engine_refused", "An engine of this number is connected already",
                        {{"engine_id", std::uint64_t{what.engine}}});
      return false;
    }
    same->socket->read_now();
    // Reading may have found its end, after which it is gone.
    const auto still = std::find_if(clients_.begin(), clients_.end(),
                                    [&](const client& c) { return c.engine == what.engine; });
    if (still != clients_.end()) drop(*still, "its process has ended");
  }
  from.engine = what.engine;
  from.system_port = what.system_port;
  from.process = std::move(process);
  narrator_.narrate(severity::info, "engine_linked", "An engine has connected",
                    {{"engine_id", std::uint64_t{what.engine}}});
  welcome(from);
  return true;
}

void holder::welcome(client& one) {
  if (!complete_) return one.socket->send({0, net::welcome_frame{false}});
  const std::array<int, 2> beside{journal_.get(), port_.descriptor()};
  one.socket->send({0, net::welcome_frame{true}}, beside);
}

/// The lock has decided who is active. What the one before has still said comes first; one that has said
/// nothing and is connected does not know yet that its lock's file was deleted or replaced. It ends when it
/// does, or hangs and is killed: until then nothing is handed over, or two engines would serve.
bool holder::on_take_over(client& from, std::uint32_t room) {
  if (active_ != nullptr && active_ != &from) active_->socket->read_now();
  if (active_ != nullptr && active_ != &from && net::has_ended(active_->process.get())) {
    drop(*active_, "its process has ended");
  }
  if (active_ != nullptr && active_ != &from) {
    let_taker_wait(from, room);
    return true;
  }
  if (!has_had_active_) rest_not_before_ = steady_clock::now() + unknown_rest;
  activate(from);
  hand_over_all(from, room);
  look_for_rest();
  port_.start();
  return true;
}

void holder::go_on_with_taker() {
  if (!taker_ || active_ != nullptr) return;
  const waiting_taker next = *std::exchange(taker_, std::nullopt);
  (void)on_take_over(*next.engine, next.room);
}

void holder::activate(client& one) {
  deactivate(false);
  active_ = &one;
  one.settled = false;
  has_had_active_ = one.has_served = true;
  // One that comes back: its connection has ended, and not its process.
  std::erase_if(leaving_, [&](const file_descriptor& other) {
    return net::is_same_process(other.get(), one.process.get());
  });
  one.standby.reset();
  one.heart.emplace(milliseconds(opts_.hang_timeout_sec * 1'000), steady_clock::now());
  narrator_.narrate(
      severity::info, "engine_active", "An engine serves",
      {{"engine_id", std::uint64_t{*one.engine}}, {"connections", std::uint64_t{table_.size()}}});
}

/// What the device still does for an engine is over with its process, or earlier if the engine says so.
void holder::deactivate(bool rests) {
  if (active_ == nullptr) return;
  active_->heart.reset();
  if (!rests && leaving_.size() < net::engine_ids) {
    leaving_.emplace_back(::fcntl(active_->process.get(), F_DUPFD_CLOEXEC, 0));
  }
  active_ = nullptr;
  inactive_since_ = steady_clock::now();
}

/// What the engine has no descriptors for stays here until it has closed others. It is told of them all the
/// same: what is in the journal of the rest is nobody's any more.
void holder::hand_over_all(client& to, std::uint32_t room) {
  auto all = table_.all();
  table_.end_waiting();
  if (all.size() > room) {
    net::waiting_frame rest;
    for (std::size_t i = room; i < all.size(); ++i) {
      table_.let_wait(all[i].place);
      rest.places.push_back(all[i].place);
    }
    all.resize(room);
    narrator_.narrate(severity::warning, "connections_wait",
                      "The engine has too few file descriptors for all connections: some wait",
                      {{"connections", std::uint64_t{room}}, {"waiting", std::uint64_t{table_.waiting()}}});
    to.socket->send({0, std::move(rest)});
  }
  std::size_t begin = 0;
  do {
    const auto end = std::min(begin + net::frame_descriptors_max, all.size());
    net::sockets_frame some{false, end == all.size(), table_.next_serial(), {}};
    std::vector<int> sockets;
    for (; begin < end; ++begin) {
      some.places.push_back(all[begin].place);
      sockets.push_back(all[begin].socket);
    }
    to.socket->send({0, std::move(some)}, sockets);
  } while (begin < all.size());
}

/// In the place of one that the engine has closed.
void holder::hand_over_waiting() {
  const auto next = table_.take_waiting();
  if (!next) return;
  const std::array<int, 1> beside{next->socket};
  active_->socket->send({0, net::sockets_frame{false, false, table_.next_serial(), {next->place}}}, beside);
  if (table_.waiting() == 0) port_.start();
}

/// Who was there before goes first.
bool holder::wants_connection() const {
  return active_ != nullptr && complete_ && !active_->socket->has_queue() && table_.waiting() == 0;
}

/// All connections are looked at for one that is over, but not for each client that comes while there is
/// none.
bool holder::has_room() {
  if (!table_.is_full()) return true;
  const auto now = steady_clock::now();
  if (now - looked_for_room_ < room_interval) return false;
  looked_for_room_ = now;
  return table_.close_ended() > 0;
}

/// Without a place for it in the table the next engine could not go on with it.
void holder::hand_over_new(file_descriptor socket) {
  if (!has_room()) return refused_.refuse(std::move(socket));
  const std::array<int, 1> beside{socket.get()};
  const auto place = table_.add(std::move(socket));
  if (!place) return;
  active_->socket->send({0, net::sockets_frame{true, false, table_.next_serial(), {*place}}}, beside);
}

bool holder::on_offer(client& from, std::vector<file_descriptor> shared) {
  if (!is_journal(shared[0].get()) || !is_listening(shared[1].get())) return false;
  from.offered = offer{std::move(shared[0]), std::move(shared[1])};
  return true;
}

bool holder::on_sockets(client& from, const net::sockets_frame& what, std::vector<file_descriptor> sockets) {
  if (!from.offered || what.fresh) return false;
  auto& offered = *from.offered;
  offered.next_serial = std::max(offered.next_serial, what.next_serial);
  for (std::size_t i = 0; i < what.places.size(); ++i) {
    if (!is_connection(sockets[i].get())) return false;
    offered.sockets.emplace_back(what.places[i], std::move(sockets[i]));
  }
  if (offered.sockets.size() > net::held_sockets_max) return false;
  return !what.last || adopt(from);
}

/// The engine knows all connections that are alive: what it did not offer is over.
bool holder::adopt(client& from) {
  offer offered = std::move(*from.offered);
  from.offered.reset();
  if (active_ != nullptr && active_ != &from) active_->socket->read_now();
  activate(from);
  for (const auto& one : table_.all()) {
    const bool kept = std::any_of(offered.sockets.begin(), offered.sockets.end(),
                                  [&](const auto& other) { return other.first == one.place; });
    if (!kept) ::shutdown(one.socket, SHUT_RDWR);
  }
  table_.clear();
  table_.skip_serials(offered.next_serial);
  bool right = true;
  for (auto& [place, socket] : offered.sockets) right = table_.put(place, std::move(socket)) && right;
  journal_ = std::move(offered.journal);
  port_.adopt(std::move(offered.listener));
  narrator_.narrate(
      severity::info, "adopted", "Took connections over from an engine",
      {{"engine_id", std::uint64_t{*from.engine}}, {"connections", std::uint64_t{table_.size()}}});
  set_complete();
  look_for_rest();
  port_.start();
  return right;
}

int holder::process_of(std::uint32_t engine) const noexcept {
  const auto found =
      std::find_if(clients_.begin(), clients_.end(), [&](const client& c) { return c.engine == engine; });
  return found == clients_.end() ? -1 : found->process.get();
}

std::optional<std::uint32_t> holder::active_engine() const noexcept {
  return active_ == nullptr ? std::nullopt : active_->engine;
}

}  // namespace orcd::app
