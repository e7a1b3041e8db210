#include "net/failover/holder_link.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <thread>

#include "test/support/temporary_directory.hpp"

using namespace orcd;
using net::file_descriptor;
using std::chrono::milliseconds;

namespace {

/// The holder's end, as the test wants it: it answers HELLO and keeps what comes after it.
struct scripted_holder {
  explicit scripted_holder(boost::asio::io_context& io, const std::string& path) : context(io) {
    ::unlink(path.c_str());
    listening.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    BOOST_TEST_REQUIRE(::bind(listening.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    BOOST_TEST_REQUIRE(::listen(listening.get(), 8) == 0);
  }
  ~scripted_holder() {
    if (engine) engine->close();
  }

  /// On the thread of the test: what connect() of the link needs is done by the kernel.
  void accept(bool complete) {
    engine = std::make_shared<net::frame_socket>(
        context, file_descriptor(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)),
        128);
    engine->start({[this](net::frame_socket::received one) { got.push_back(std::move(one)); },
                   [this](const engine::error&) { gone = true; }});
    if (complete) return welcome();
    engine->send({0, net::welcome_frame{false}});
  }
  /// Each time with another journal.
  void welcome() {
    const std::array<int, 2> beside{::memfd_create("journal", MFD_CLOEXEC), ::dup(listening.get())};
    engine->send({0, net::welcome_frame{true}}, beside);
    for (const int one : beside) ::close(one);
  }

  template <class Frame>
  std::size_t count() const {
    std::size_t n = 0;
    for (const auto& one : got) n += std::holds_alternative<Frame>(one.what.body) ? 1 : 0;
    return n;
  }

  boost::asio::io_context& context;
  file_descriptor listening;
  std::shared_ptr<net::frame_socket> engine{};
  std::vector<net::frame_socket::received> got{};
  bool gone = false;
};

struct linked {
  net::holder_events events() {
    return {.accepted = [this](net::held_socket one) { accepted.push_back(std::move(one)); },
            .came_late = [this](net::held_socket one) { late.push_back(std::move(one)); },
            .rested = [this] { ++rested; },
            .lost = [this] { ++lost; },
            .connected = [this] { ++connected; },
            .signalled = [this](net::signal_frame::kind what) { signals.push_back(what); }};
  }
  /// Runs handlers until that is so; a hang ends the test.
  template <class Condition>
  void run_until(Condition condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
      BOOST_TEST_REQUIRE((std::chrono::steady_clock::now() < limit));
      io.restart();
      io.run_for(milliseconds(2));
    }
  }
  /// open() waits on this thread for an answer that another one sends.
  engine::result<void> open(bool complete) {
    std::thread holder([this, complete] { other->accept(complete); });
    auto opened = link.open();
    holder.join();
    return opened;
  }
  /// The link finds the holder by itself.
  void accept(bool complete) {
    pollfd waiting{other->listening.get(), POLLIN, 0};
    run_until([&] { return ::poll(&waiting, 1, 0) > 0; });
    other->accept(complete);
  }

  test::temporary_directory folder;
  std::string path = folder.file("connections.sock");
  boost::asio::io_context io;
  std::unique_ptr<scripted_holder> other = std::make_unique<scripted_holder>(io, path);
  std::vector<net::held_socket> accepted;
  std::vector<net::held_socket> late;
  int rested = 0;
  int lost = 0;
  int connected = 0;
  std::vector<net::signal_frame::kind> signals;
  net::holder_link link{io, path, {5, 9'095}, events()};
};

/// The file behind a descriptor.
ino_t file_of(int descriptor) {
  struct stat facts {};
  BOOST_TEST_REQUIRE(::fstat(descriptor, &facts) == 0);
  return facts.st_ino;
}

/// Two ends; what is written into one can be read from the other.
std::array<file_descriptor, 2> socket_pair() {
  std::array<int, 2> ends{};
  BOOST_TEST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  return {file_descriptor(ends[0]), file_descriptor(ends[1])};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(holder_link)

BOOST_AUTO_TEST_CASE(open_brings_journal_and_listener) {
  linked l;
  BOOST_TEST_REQUIRE(l.open(true).has_value());
  BOOST_TEST(l.link.is_connected());
  BOOST_TEST(l.link.is_complete());
  BOOST_TEST(l.link.journal() >= 0);
  BOOST_TEST(l.link.listener() >= 0);
  l.run_until([&] { return !l.other->got.empty(); });
  BOOST_TEST((l.other->got[0].what.body == net::frame(net::hello_frame{5, 9'095})));
  BOOST_TEST(l.other->got[0].descriptors.size() == 1U);
  BOOST_TEST(l.connected == 0);
}

BOOST_AUTO_TEST_CASE(open_without_a_holder_is_an_error) {
  linked l;
  l.other.reset();
  const auto opened = l.link.open();
  BOOST_TEST_REQUIRE(!opened.has_value());
  BOOST_TEST(opened.error().message.find(l.path) != std::string::npos);
  net::holder_link far(l.io, std::string(200, 'x'), {}, l.events());
  BOOST_TEST(far.open().error().message.find("the limit of a socket's is 107") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_engine_takes_over_and_gets_new_connections) {
  linked l;
  BOOST_TEST_REQUIRE(l.open(true).has_value());
  std::vector<net::held_socket> held;
  std::vector<net::held_place> waiting;
  bool done = false;
  l.link.take_over(9, [&](net::held_connections all) {
    held = std::move(all.sockets);
    waiting = std::move(all.waiting);
    done = true;
  });
  l.run_until([&] { return l.other->count<net::take_over_frame>() == 1; });
  BOOST_TEST(!done);
  const auto ends = socket_pair();
  const std::array<int, 1> beside{ends[0].get()};
  l.other->engine->send({0, net::sockets_frame{false, false, 3, {{1, 1}}}}, beside);
  l.other->engine->send({0, net::waiting_frame{{{9, 1}}}});
  l.other->engine->send({0, net::sockets_frame{false, true, 3, {{7, 2}}}}, beside);
  l.other->engine->send({0, net::sockets_frame{false, false, 3, {{9, 1}}}}, beside);
  l.other->engine->send({0, net::sockets_frame{true, false, 4, {{2, 3}}}}, beside);
  l.run_until([&] { return !l.accepted.empty(); });
  BOOST_TEST(done);
  BOOST_TEST_REQUIRE(held.size() == 2U);
  BOOST_TEST((held[1].slot == 7 && held[1].serial == 2));
  BOOST_TEST((l.other->got.back().what.body == net::frame(net::take_over_frame{9})));
  BOOST_TEST_REQUIRE(waiting.size() == 1U);
  BOOST_TEST((waiting[0] == net::held_place{9, 1}));
  BOOST_TEST_REQUIRE(l.late.size() == 1U);
  BOOST_TEST(l.late[0].slot == 9U);
  BOOST_TEST((l.accepted[0].slot == 2 && l.accepted[0].serial == 3));
  BOOST_TEST(::write(held[0].socket.get(), "x", 1) == 1);
  char letter = 0;
  BOOST_TEST(::read(ends[1].get(), &letter, 1) == 1);
  l.link.closed(7, 2);
  l.run_until([&] { return l.other->count<net::closed_frame>() == 1; });
  BOOST_TEST((l.other->got.back().what.body == net::frame(net::closed_frame{{7, 2}})));
  l.other->engine->send({0, net::rest_frame{}});
  l.run_until([&] { return l.rested == 1; });
  l.link.yield(true);
  l.run_until([&] { return l.other->count<net::yield_frame>() == 1; });
  // Its own connections have places that nobody else has.
  const auto fifth = l.link.keep(file_descriptor(::dup(ends[0].get())));
  BOOST_TEST_REQUIRE(fifth.has_value());
  BOOST_TEST((fifth->slot == 0 && fifth->serial == 4));
  BOOST_TEST(l.link.keep(file_descriptor(::dup(ends[0].get())))->slot == 3U);
}

BOOST_AUTO_TEST_CASE(what_a_holder_sent_before_it_ended_is_not_lost) {
  linked l;
  BOOST_TEST_REQUIRE(l.open(true).has_value());
  bool done = false;
  l.link.take_over(1, [&](const net::held_connections& all) { done = all.sockets.size() == 1; });
  l.run_until([&] { return l.other->count<net::take_over_frame>() == 1; });
  const auto ends = socket_pair();
  const std::array<int, 1> beside{ends[0].get()};
  l.other->engine->send({0, net::sockets_frame{false, false, 3, {{1, 1}}}}, beside);
  l.link.ping(1);  // it ends without having read this
  l.other.reset();
  l.link.closed(0, 1);
  l.run_until([&] { return l.lost == 1; });
  BOOST_TEST(done);
  BOOST_TEST(!l.link.is_connected());
  BOOST_TEST(l.link.journal() >= 0);
}

BOOST_AUTO_TEST_CASE(the_next_holder_is_given_everything) {
  linked l;
  BOOST_TEST_REQUIRE(l.open(true).has_value());
  l.other.reset();
  l.run_until([&] { return l.lost == 1; });
  bool done = false;
  l.link.take_over(1, [&](const net::held_connections& all) { done = all.sockets.empty(); });
  l.run_until([&] { return done; });
  l.other = std::make_unique<scripted_holder>(l.io, l.path);
  l.accept(false);
  l.run_until([&] { return l.connected == 1; });
  BOOST_TEST(!l.link.is_complete());
  const auto ends = socket_pair();
  std::vector<net::held_socket> sockets;
  for (int i = 0; i < 102; ++i) {
    const std::array<file_descriptor, 2> more = socket_pair();
    sockets.push_back(std::move(*l.link.keep(file_descriptor(::dup(more[0].get())))));
  }
  // Of these two the link knows by itself that one is over, and is told of the other.
  sockets[7].socket.reset(::dup(ends[0].get()));
  l.link.closed(sockets[8].slot, sockets[8].serial);
  l.link.offer();
  l.run_until([&] { return l.other->count<net::sockets_frame>() == 2; });
  BOOST_TEST(l.other->count<net::offer_frame>() == 1U);
  const auto& last = std::get<net::sockets_frame>(l.other->got.back().what.body);
  BOOST_TEST((last.last && last.places.size() == 36U && last.next_serial == 103U));
  BOOST_TEST(l.link.is_complete());
}

BOOST_AUTO_TEST_CASE(a_damaged_journal_is_told_and_the_next_one_comes_before_the_connections) {
  linked l;
  BOOST_TEST_REQUIRE(l.open(true).has_value());
  int taken = 0;
  const auto count = [&](const net::held_connections&) { ++taken; };
  l.link.take_over(1, count);
  const net::sockets_frame none{false, true, 3, {}};
  l.other->engine->send({0, none});
  l.run_until([&] { return taken == 1; });
  const auto before = file_of(l.link.journal());
  l.link.report_damaged_journal();
  l.link.take_over(1, count);
  l.run_until([&] { return l.other->count<net::take_over_frame>() == 2; });
  BOOST_TEST(l.other->count<net::journal_damaged_frame>() == 1U);
  l.other->welcome();
  l.other->engine->send({0, none});
  l.run_until([&] { return taken == 2; });
  BOOST_TEST(file_of(l.link.journal()) != before);
}

BOOST_AUTO_TEST_CASE(an_engine_that_serves_goes_on_with_its_own_journal) {
  linked l;
  BOOST_TEST_REQUIRE(l.open(true).has_value());
  bool done = false;
  l.link.take_over(1, [&](const net::held_connections&) { done = true; });
  l.other->engine->send({0, net::sockets_frame{false, true, 3, {}}});
  l.run_until([&] { return done; });
  const auto own = file_of(l.link.journal());
  l.link.settled();
  l.other.reset();
  l.run_until([&] { return l.lost == 1; });
  // It was restarted with a journal that its service manager kept, or a new one.
  l.other = std::make_unique<scripted_holder>(l.io, l.path);
  l.accept(true);
  l.run_until([&] { return l.connected == 1; });
  BOOST_TEST(file_of(l.link.journal()) == own);
  l.link.offer();
  l.run_until([&] { return l.other->count<net::offer_frame>() == 1; });
  const auto& offered = *std::find_if(l.other->got.begin(), l.other->got.end(), [](const auto& one) {
    return std::holds_alternative<net::offer_frame>(one.what.body);
  });
  BOOST_TEST(file_of(offered.descriptors[0].get()) == own);
  // When another engine may serve, this one stands by with what the holder has.
  l.link.yield(true);
  l.other->welcome();
  l.run_until([&] { return file_of(l.link.journal()) != own; });
}

BOOST_AUTO_TEST_CASE(signals_of_the_holder_reach_the_engine_in_their_order) {
  using kind = net::signal_frame::kind;
  linked l;
  BOOST_TEST_REQUIRE(l.open(true).has_value());
  for (const kind one : {kind::hang_up, kind::hand_over, kind::hang_up}) {
    l.other->engine->send({0, net::signal_frame{one}});
  }
  l.run_until([&] { return l.signals.size() == 3; });
  BOOST_TEST((l.signals == std::vector{kind::hang_up, kind::hand_over, kind::hang_up}));
}

BOOST_AUTO_TEST_CASE(a_reload_is_told_once_and_to_the_next_holder_where_there_is_none) {
  linked l;
  BOOST_TEST_REQUIRE(l.open(true).has_value());
  l.link.reloaded();
  l.run_until([&] { return l.other->count<net::reloaded_frame>() == 1; });
  l.other.reset();
  l.run_until([&] { return l.lost == 1; });
  l.link.reloaded();
  l.link.reloaded();
  l.other = std::make_unique<scripted_holder>(l.io, l.path);
  l.accept(true);
  l.run_until([&] { return l.other->count<net::reloaded_frame>() == 1; });
  l.link.ping(1);
  l.run_until([&] { return l.other->count<net::ping_frame>() == 1; });
  BOOST_TEST(l.other->count<net::reloaded_frame>() == 1U);
}

BOOST_AUTO_TEST_CASE(a_holder_that_breaks_a_rule_is_left_and_found_again) {
  linked l;
  BOOST_TEST_REQUIRE(l.open(true).has_value());
  l.other->engine->send({0, net::hello_frame{64}});  // no such engine, and no pidfd
  l.run_until([&] { return l.lost == 1; });
  l.accept(true);
  l.run_until([&] { return l.connected == 1; });
  BOOST_TEST(l.link.is_complete());
}

BOOST_AUTO_TEST_SUITE_END()
