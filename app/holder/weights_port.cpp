#include "app/holder/weights_port.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "app/holder/shared_files.hpp"

namespace orcd::app {
namespace {

using boost::system::error_code;
using engine::errc;
using engine::error;
using engine::result;
using engine::severity;
using net::file_descriptor;
using net::weights_mode;

/// Answers that may wait for a client to read: it waits for each before it asks again.
constexpr std::size_t queue_max = 2;

error breach(const char* why) {
  return {errc::invalid_request, std::string("weights: ") + why};
}

std::string file_name_of(const std::string& device) {
  return net::weights_socket_path("", device).substr(1);
}

/// A link that is there already is replaced, whatever it points to; anything else is not.
result<void> make_link(const std::string& path, const std::string& target) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) == 0) {
    if (!S_ISLNK(facts.st_mode)) return path_refusal(path, "is a file that is no link");
    if (::unlink(path.c_str()) != 0) return path_refusal(path);
  }
  if (::symlink(target.c_str(), path.c_str()) != 0) return path_refusal(path);
  return {};
}

}  // namespace

weights_port::weights_port(boost::asio::io_context& io, const held_device& device, engine::narrator& narrator)
    : io_(io), device_(device), narrator_(narrator), deadline_(io) {}

weights_port::~weights_port() {
  for (auto& one : clients_) one.socket->close();
  if (!link_.empty()) ::unlink(link_.c_str());
}

result<void> weights_port::open(const std::string& dir, const net::peer_rule& rule) {
  auto file = socket_file::listen(net::weights_socket_path(dir, device_.name), rule.group);
  if (!file) return file.error();
  file_.emplace(std::move(*file));
  const auto link = net::weights_socket_path(dir, std::to_string(device_.index));
  if (auto made = make_link(link, file_name_of(device_.name)); !made) return made;
  link_ = link;
  door_.emplace(io_, file_->listener(), rule, narrator_,
                [this](file_descriptor socket) { add_client(std::move(socket)); });
  door_->start();
  return {};
}

void weights_port::restore(restored_weights::set stored) {
  table_.restore(std::move(stored.what));
  record_ = std::move(stored.record);
  record_epoch_ = told_epoch_ = table_.what_is_there()->epoch;
  const auto state = table_.state();
  narrator_.narrate(severity::info, "weights_restored", "Has weights that the service manager kept",
                    {{"device", std::string_view(device_.name)},
                     {"epoch", state.epoch},
                     {"pieces", std::uint64_t{state.pieces}},
                     {"bytes", state.bytes}});
}

/// The memory first: what says what it is stands for a whole set.
void weights_port::add_stored(std::vector<descriptor_store::item>& to, std::size_t room) {
  const auto* const there = table_.what_is_there();
  if (there == nullptr || there->pieces.size() + 1 > room) return;
  if (!record_ || record_epoch_ != there->epoch) {
    auto made = make_record(*there);
    if (!made) return;  // tried again with the next change
    record_ = std::move(*made);
    record_epoch_ = there->epoch;
  }
  for (std::size_t i = 0; i < there->pieces.size(); ++i) {
    to.push_back({piece_name(device_.name, there->epoch, i), there->pieces[i].memory.get(), false});
  }
  to.push_back({record_name(device_.name, there->epoch), record_.get(), false});
}

/// With one too many, the oldest that has claimed nothing goes first.
void weights_port::add_client(file_descriptor socket) {
  if (clients_.size() >= weights_clients_max) {
    const auto silent = std::find_if(clients_.begin(), clients_.end(),
                                     [](const client& c) { return c.engine == net::no_engine; });
    if (silent == clients_.end()) return;
    drop(silent->number, "too many are connected");
  }
  auto& one = clients_.emplace_back(io_);
  one.number = next_number_++;
  one.socket = std::make_shared<net::frame_socket>(io_, std::move(socket), queue_max);
  net::frame_socket::handlers told;
  told.on_frame = [this, number = one.number](net::frame_socket::received got) {
    handle(number, std::move(got));
  };
  told.on_end = [this, number = one.number](const error& why) { drop(number, why.message); };
  one.socket->start(std::move(told));
}

weights_port::client* weights_port::find(weights_table::client number) {
  const auto found =
      std::find_if(clients_.begin(), clients_.end(), [&](const client& c) { return c.number == number; });
  return found == clients_.end() ? nullptr : &*found;
}

void weights_port::handle(weights_table::client number, net::frame_socket::received got) {
  client* const from = find(number);
  if (from == nullptr) return;
  if (const auto done = answer(*from, std::move(got)); !done) drop(number, done.error().message);
}

result<void> weights_port::answer(client& from, net::frame_socket::received got) {
  const auto request = got.what.request;
  const auto& body = got.what.body;
  if (std::holds_alternative<net::ask_frame>(body)) {
    from.socket->send({request, table_.state()});
    return {};
  }
  if (std::holds_alternative<net::ping_frame>(body)) {
    from.socket->send({request, net::done_frame{}});
    return {};
  }
  if (const auto* const claim = std::get_if<net::claim_frame>(&body)) {
    // Of a claim that waits the number is still needed.
    const auto before = std::exchange(from.request, request);
    auto done = on_claim(from, *claim, std::move(got.descriptors[0]));
    if (!done) from.request = before;
    return done;
  }
  if (const auto* const put = std::get_if<net::put_frame>(&body)) {
    return on_put(from, request, *put, std::move(got.descriptors[0]));
  }
  if (const auto* const commit = std::get_if<net::commit_frame>(&body))
    return on_commit(from, request, *commit);
  if (const auto* const get = std::get_if<net::get_frame>(&body)) return on_get(from, request, *get);
  return breach("a frame that is for another socket");
}

result<void> weights_port::on_claim(client& from, const net::claim_frame& what, file_descriptor process) {
  if (!is_process(process.get())) return breach("a claim without the descriptor of a process");
  // Before the table is asked: what it says then is for others, too, whatever becomes of this client.
  error_code failed;
  from.process.close(failed);
  from.process.assign(process.get(), failed);
  if (failed) return breach("a process that cannot be watched");
  [[maybe_unused]] const int owned = process.release();
  const auto told = table_.claim(from.number, what, std::chrono::steady_clock::now());
  if (!told) return told.error();
  from.engine = what.engine;
  watch_process(from);
  tell(*told);
  return {};
}

/// Somebody else may have a duplicate of its socket, which then does not end with it.
void weights_port::watch_process(client& one) {
  one.process.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                         [this, number = one.number](error_code failed) {
                           client* const gone = failed ? nullptr : find(number);
                           if (gone == nullptr) return;
                           const auto kept = gone->socket;
                           kept->read_now();
                           drop(number, "its process has ended");
                         });
}

result<void> weights_port::on_put(client& from, std::uint32_t request, const net::put_frame& what,
                                  file_descriptor memory) {
  if (!is_memory(memory.get(), what.bytes)) return breach("a descriptor that is no memory of that size");
  if (auto done = table_.put(from.number, what, std::move(memory)); !done) return done;
  from.socket->send({request, net::done_frame{}});
  return {};
}

result<void> weights_port::on_commit(client& from, std::uint32_t request, const net::commit_frame& what) {
  const auto told = table_.commit(from.number, what);
  if (!told) return told.error();
  from.request = request;
  const auto state = table_.state();
  narrator_.narrate(severity::info, "weights_committed", "An engine has shared its weights",
                    {{"device", std::string_view(device_.name)},
                     {"engine_id", std::uint64_t{from.engine}},
                     {"epoch", state.epoch},
                     {"pieces", std::uint64_t{state.pieces}},
                     {"bytes", state.bytes}});
  tell(*told);
  return {};
}

result<void> weights_port::on_get(client& from, std::uint32_t request, const net::get_frame& what) {
  const auto found = table_.get(from.number, what.name);
  if (!found) return found.error();
  if (*found == nullptr) {
    from.socket->send({request, net::piece_frame{}});
    return {};
  }
  const std::array<int, 1> beside{(*found)->memory.get()};
  from.socket->send({request, net::piece_frame{true, (*found)->bytes}}, beside);
  return {};
}

void weights_port::tell(const weights_table::answers& all) {
  for (const auto& one : all) {
    if (client* const to = find(one.to)) tell(*to, one);
  }
  await_deadline();
  // A holder after this one must not have what was let go.
  const auto* const there = table_.what_is_there();
  const std::uint64_t epoch = there == nullptr ? 0 : there->epoch;
  if (std::exchange(told_epoch_, epoch) != epoch && changed_) changed_();
}

void weights_port::tell(client& to, const weights_table::answer& one) {
  to.writes = one.granted && one.mode == weights_mode::write;
  const auto told = table_.grant(one.mode);
  narrator_.narrate(
      severity::info, one.granted ? "weights_granted" : "weights_denied",
      one.granted ? "An engine may use the weights of a device"
                  : "An engine may not use the weights of a device",
      {{"device", std::string_view(device_.name)},
       {"engine_id", std::uint64_t{to.engine}},
       {one.granted ? "mode" : "reason",
        std::string_view(one.granted ? (to.writes ? "write" : "read")
                                     : (one.why == net::denial::timeout ? "timeout" : "nothing"))},
       {"epoch", told.epoch}});
  if (one.granted) {
    to.socket->send({to.request, told});
  } else {
    to.engine = net::no_engine;  // it has nothing: one who does may need its place
    to.socket->send({to.request, net::deny_frame{one.why}});
  }
}

void weights_port::await_deadline() {
  const auto next = table_.next_deadline();
  deadline_.cancel();
  if (!next) return;
  deadline_.expires_at(*next);
  deadline_.async_wait([this](error_code failed) {
    if (!failed) tell(table_.expire(std::chrono::steady_clock::now()));
  });
}

/// May be called while one of its frames is handled: the handler goes with the socket, which is kept.
void weights_port::drop(weights_table::client number, const std::string& why) {
  client* const one = find(number);
  if (one == nullptr) return;
  const bool claimed = one->engine != net::no_engine;
  narrator_.narrate(one->writes ? severity::warning
                    : claimed   ? severity::info
                                : severity::debug,
                    one->writes ? "weights_lost" : "weights_client_gone",
                    one->writes ? "An engine has ended before it has shared its weights: they are dropped"
                                : "A client of a device's weights has gone",
                    {{"device", std::string_view(device_.name)},
                     {"engine_id", claimed ? std::int64_t{one->engine} : -1},
                     {"reason", std::string_view(why)}});
  one->socket->close();
  boost::asio::post(io_, [kept = one->socket] {});
  clients_.remove_if([&](const client& c) { return c.number == number; });
  tell(table_.leave(number));
}

}  // namespace orcd::app
