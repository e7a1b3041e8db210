// Two servers that serve one another's clients, and what a holder does for them, in one process.
#pragma once

#include <arpa/inet.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/server/server.hpp"
#include "test/http/http_client.hpp"
#include "test/http/http_fixture.hpp"

namespace orcd::test {

/// What the holder does, in this process: it has the listening socket, a duplicate of every connection, and
/// the journal.
class fake_holder {
 public:
  fake_holder()
      : journal_(::memfd_create("journal", MFD_CLOEXEC)), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const std::size_t bytes = net::journal::bytes_of(16);
    BOOST_REQUIRE(::ftruncate(journal_.get(), static_cast<off_t>(bytes)) == 0);
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, journal_.get(), 0);
    BOOST_REQUIRE(at != MAP_FAILED);
    net::journal::format({static_cast<std::byte*>(at), bytes});
    ::munmap(at, bytes);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    BOOST_REQUIRE(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&here), sizeof here) == 0);
    const int inline_too = 1;  // as the holder does it
    BOOST_REQUIRE(::setsockopt(listener_.get(), SOL_SOCKET, SO_OOBINLINE, &inline_too, sizeof inline_too) ==
                  0);
    BOOST_REQUIRE(::listen(listener_.get(), 64) == 0);
    socklen_t size = sizeof here;
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&here), &size);
    port_ = ntohs(here.sin_port);
  }

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] int journal() const noexcept { return journal_.get(); }
  /// Takes the next client, and gives the duplicate for the server.
  net::held_socket accept() {
    const std::uint64_t serial = ++serials_;
    const auto slot = static_cast<std::uint32_t>(serial);
    held_[slot] = {slot, serial, net::file_descriptor(::accept(listener_.get(), nullptr, nullptr))};
    return duplicate(held_[slot]);
  }
  std::vector<net::held_socket> all() {
    std::vector<net::held_socket> out;
    for (const auto& [slot, held] : held_) out.push_back(duplicate(held));
    return out;
  }
  /// Whether the servers have read all that has come to them.
  [[nodiscard]] bool all_is_read() const {
    int left = 0;
    for (const auto& [slot, held] : held_) {
      BOOST_REQUIRE(::ioctl(held.socket.get(), FIONREAD, &left) == 0);
      if (left > 0) return false;
    }
    return true;
  }
  void close_all() {
    for (const auto& [slot, held] : held_) ::shutdown(held.socket.get(), SHUT_RDWR);
    held_.clear();
  }
  /// On a server's io thread.
  void closed(std::uint32_t slot, std::uint64_t serial) {
    const auto found = held_.find(slot);
    if (found == held_.end() || found->second.serial != serial) return;
    ::shutdown(found->second.socket.get(), SHUT_RDWR);
    held_.erase(found);
  }

 private:
  static net::held_socket duplicate(const net::held_socket& held) {
    return {held.slot, held.serial, net::file_descriptor(::dup(held.socket.get()))};
  }

  net::file_descriptor journal_, listener_;
  std::uint16_t port_ = 0;
  std::uint64_t serials_ = 0;
  std::map<std::uint32_t, net::held_socket> held_;
};

/// What decides a server's answers, as far as the tests want two to differ.
struct pair_answers {
  pair_answers(const char* maker = "same", net::weights_identity having = {1, 0, 0},
               std::string answering_as = "")
      : parts(maker), weights(having), fingerprint(std::move(answering_as)) {}
  std::string parts;
  net::weights_identity weights;
  std::string fingerprint;
};

/// A server of the pair. stop_for_ever() is what a SIGKILL leaves of it, as far as others see.
class engine_of_a_pair {
 public:
  explicit engine_of_a_pair(fake_holder& holder, pair_answers answers = {}, http_options options = {},
                            std::uint32_t replays = 2)
      : holder_(holder),
        answers_(std::move(answers)),
        replays_(replays),
        server_(of_a_pair(std::move(options))) {
    serve();
  }
  void serve() {
    net::held_config config;
    config.identity = {{net::number_of(answers_.parts)}, answers_.weights};
    config.fingerprint = answers_.fingerprint;
    config.replays = replays_;
    config.closed = [this](auto slot, auto serial) { holder_.closed(slot, serial); };
    server_.on_io([&] {
      auto counts = server_.server().serve_held(holder_.journal(), std::move(config), {holder_.all(), {}});
      BOOST_REQUIRE(counts.has_value());
      counts_ = *counts;
    });
  }
  ~engine_of_a_pair() {
    if (stopped_) go_on_.set_value();
  }

  [[nodiscard]] const net::takeover_counts& counts() const noexcept { return counts_; }
  [[nodiscard]] http_fixture& server() noexcept { return server_; }
  /// Serves one more client.
  void take(http_client&) {
    server_.on_io([&] { server_.server().adopt(holder_.accept()); });
  }
  /// Lets another one go on, and is well.
  void leave() {
    server_.on_io([&] { server_.server().leave_held(true); });
  }
  [[nodiscard]] std::size_t sessions() {
    std::size_t count = 0;
    server_.on_io([&] { count = server_.server().sessions(); });
    return count;
  }
  void stop_for_ever() {
    stopped_ = true;
    auto reached = std::make_shared<std::promise<void>>();
    auto waiting = reached->get_future();
    boost::asio::post(server_.io(), [reached, released = go_on_.get_future().share()] {
      reached->set_value();
      released.wait();
    });
    waiting.wait();
  }

 private:
  static http_options of_a_pair(http_options options) {
    options.listens = false;
    options.step_delay = std::chrono::microseconds(200);
    return options;
  }

  fake_holder& holder_;
  const pair_answers answers_;
  const std::uint32_t replays_;
  net::takeover_counts counts_;
  std::promise<void> go_on_;
  bool stopped_ = false;
  http_fixture server_;
};

inline std::string execute(std::string_view job, std::uint32_t tokens, std::string_view more = {}) {
  return make_post("/execute", R"({"job_id":")" + std::string(job) +
                                   R"(","prompt":"abc","seed":7,"max_tokens":)" + std::to_string(tokens) +
                                   std::string(more) + "}");
}

inline std::size_t times(std::string_view what, std::string_view in) {
  std::size_t count = 0;
  for (auto at = in.find(what); at != std::string_view::npos; at = in.find(what, at + 1)) ++count;
  return count;
}

/// Events by name and data, without what tells of time.
inline std::vector<std::string> told(std::string_view response) {
  std::vector<std::string> out;
  for (const auto& event : events_of(response)) {
    const bool has_times = event.name == "started" || event.name == "end" || event.name == "metrics";
    out.push_back(event.name + " " + event.id + " " + (has_times ? "" : event.data));
  }
  return out;
}

/// What a server alone answers.
inline std::vector<std::string> undisturbed(const std::string& request) {
  http_fixture alone;
  http_client client(alone.port());
  client.send(request);
  std::string all;
  client.read_until("0\r\n\r\n", all);
  return told(all);
}

}  // namespace orcd::test
