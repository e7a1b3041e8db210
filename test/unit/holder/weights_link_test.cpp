// An engine's side against a holder's port, on a thread of its own as it would be in its process.
#include "net/failover/weights_link.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "test/support/only_root.hpp"
#include "test/support/wait_until.hpp"
#include "test/unit/holder/held_weights.hpp"

using namespace orcd;
using net::file_descriptor;
using net::weights_link;
using net::weights_mode;
using net::weights_problem;
using std::chrono::milliseconds;

namespace {

using test::hash_of;
using test::held_weights;
using test::memory_with;
using test::patience;
using test::text_in;

void wait_until_somebody_waits(const held_weights& device) {
  const auto somebody_waits = [&] {
    const auto state = weights_link(device.path(), 9).state();
    return state && state->waiting == 1;
  };
  orcd::test::wait_until(somebody_waits, "an engine waits for the weights");
}

void commit(weights_link& link, std::uint8_t layout, const char* text) {
  BOOST_TEST_REQUIRE(link.put("weights", 4'096, memory_with(text).get()).has_value());
  BOOST_TEST_REQUIRE(link.commit({hash_of(layout), hash_of(9), "some model"}).has_value());
}

/// An engine that loads and shares what it has; the link goes on reading.
std::unique_ptr<weights_link> loaded_engine(const held_weights& where, std::uint8_t layout = 1,
                                            const char* text = "tensors") {
  auto out = std::make_unique<weights_link>(where.path(), 0);
  const auto granted = out->request(weights_mode::write_or_read, patience);
  BOOST_TEST_REQUIRE(granted.has_value());
  BOOST_TEST_REQUIRE((granted->mode == weights_mode::write));
  commit(*out, layout, text);
  return out;
}

/// An engine that has read once, and sleeps without memory: what it had.
net::grant_frame had_once(weights_link& link) {
  const auto granted = link.request(weights_mode::read, patience);
  BOOST_TEST_REQUIRE(granted.has_value());
  link.release();
  return *granted;
}

template <class T>
bool failed_as(const net::weights_result<T>& outcome, weights_problem kind) {
  BOOST_TEST_INFO((outcome ? std::string("it succeeded") : outcome.error().message));
  return !outcome && outcome.error().kind == kind;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(weights_links)

BOOST_AUTO_TEST_CASE(memory_passes_from_one_engine_to_the_other) {
  const held_weights device;
  const auto first = loaded_engine(device);
  weights_link second(device.path(), 1);
  const auto granted = second.request(weights_mode::read, patience);
  BOOST_TEST_REQUIRE(granted.has_value());
  BOOST_TEST((granted->mode == weights_mode::read && granted->layout == hash_of(1)));
  BOOST_TEST(granted->metadata == "some model");
  auto got = second.get("weights");
  BOOST_TEST_REQUIRE((got.has_value() && got->has_value()));
  BOOST_TEST((*got)->bytes == 4'096U);
  BOOST_TEST(text_in((*got)->descriptor.get()) == "tensors");
  const auto none = second.get("pool");
  BOOST_TEST((none.has_value() && !none->has_value()));
  // The holder keeps it when both are gone.
  const auto state = weights_link(device.path(), 2).state();
  BOOST_TEST_REQUIRE(state.has_value());
  BOOST_TEST((state->readers == 2U && state->committed && state->bytes == 4'096U));
}

BOOST_AUTO_TEST_CASE(the_index_is_a_link_to_the_device) {
  const std::string uuid = "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";
  held_weights device(uuid, 7);
  const auto path = device.folder().file("gms_7.sock");
  BOOST_TEST(std::filesystem::read_symlink(path).string() == "gms_" + uuid + ".sock");
  // For people: an engine follows no link, which might lead to anybody's socket.
  weights_link by_index(path, 0);
  BOOST_TEST(failed_as(by_index.state(), weights_problem::connection));
  device.stop();
  BOOST_TEST(std::filesystem::is_empty(device.folder().path()));
}

BOOST_AUTO_TEST_CASE(a_strangers_socket_is_not_connected_to, *boost::unit_test::precondition(test::is_root)) {
  const held_weights device;
  BOOST_TEST_REQUIRE(::chown(device.path().c_str(), 12'345, static_cast<gid_t>(-1)) == 0);
  weights_link link(device.path(), 0);
  const auto refused = link.request(weights_mode::write_or_read, patience);
  BOOST_TEST(failed_as(refused, weights_problem::connection));
  BOOST_TEST(refused.error().message.find("belongs to user 12345") != std::string::npos);
  BOOST_TEST(!link.has_reached());
}

BOOST_AUTO_TEST_CASE(a_link_waits_until_the_other_one_commits) {
  const held_weights device;
  weights_link first(device.path(), 0);
  BOOST_TEST_REQUIRE(first.request(weights_mode::write_or_read, patience).has_value());
  std::optional<net::weights_result<net::grant_frame>> got;
  std::thread waiting(
      [&] { got = weights_link(device.path(), 1).request(weights_mode::read, std::nullopt); });
  wait_until_somebody_waits(device);
  commit(first, 3, "later");
  waiting.join();
  BOOST_TEST_REQUIRE((got && got->has_value()));
  BOOST_TEST(((*got)->layout == hash_of(3)));
}

BOOST_AUTO_TEST_CASE(the_end_of_a_writer_before_its_commit_frees_the_device) {
  const held_weights device;
  weights_link second(device.path(), 1);
  {
    weights_link first(device.path(), 0);
    BOOST_TEST_REQUIRE(first.request(weights_mode::write_or_read, patience).has_value());
    BOOST_TEST_REQUIRE(first.put("weights", 4'096, memory_with("half").get()).has_value());
    BOOST_TEST(
        failed_as(second.request(weights_mode::write_or_read, milliseconds(20)), weights_problem::timeout));
  }
  const auto granted = second.request(weights_mode::write_or_read, patience);
  BOOST_TEST_REQUIRE(granted.has_value());
  BOOST_TEST((granted->mode == weights_mode::write && granted->epoch == 2U));
  const auto left = second.get("weights");
  BOOST_TEST((left.has_value() && !left->has_value()));
}

BOOST_AUTO_TEST_CASE(a_rule_that_is_broken_ends_the_connection) {
  const held_weights device;
  const auto first = loaded_engine(device);
  const auto memory = memory_with("x");
  BOOST_TEST(failed_as(first->put("more", 4'096, memory.get()), weights_problem::connection));
  BOOST_TEST(!first->is_connected());
  BOOST_TEST(failed_as(first->put("more", 4'096, memory.get()), weights_problem::connection));
  weights_link second(device.path(), 1);
  BOOST_TEST_REQUIRE(second.request(weights_mode::write, patience).has_value());
  // Memory that is shorter than it says would end a reader by a signal.
  BOOST_TEST(failed_as(second.put("weights", 4'097, memory.get()), weights_problem::connection));
}

BOOST_AUTO_TEST_CASE(a_cancelled_link_waits_no_more) {
  const held_weights device;
  weights_link link(device.path(), 1);
  std::thread other([&] {
    wait_until_somebody_waits(device);
    link.cancel();
  });
  BOOST_TEST(failed_as(link.request(weights_mode::read, std::nullopt), weights_problem::cancelled));
  other.join();
  BOOST_TEST(failed_as(link.request(weights_mode::read, std::nullopt), weights_problem::cancelled));
}

BOOST_AUTO_TEST_CASE(the_end_of_the_holder_is_waited_for) {
  held_weights device;
  const auto first = loaded_engine(device);
  weights_link second(device.path(), 1);
  BOOST_TEST_REQUIRE(second.request(weights_mode::read, patience).has_value());
  std::optional<net::weights_failure> first_end;
  std::optional<net::weights_failure> second_end;
  std::thread first_waits([&] { first_end = first->await_end(); });
  std::thread second_waits([&] { second_end = second.await_end(); });
  second.cancel();
  second_waits.join();
  BOOST_TEST((second_end->kind == weights_problem::cancelled));
  BOOST_TEST(second.is_connected());
  device.stop();
  first_waits.join();
  BOOST_TEST((first_end->kind == weights_problem::connection));
  BOOST_TEST(!first->is_connected());
  BOOST_TEST((first->await_end()->kind == weights_problem::connection));
}

BOOST_AUTO_TEST_CASE(test_remap_timeout) {
  const held_weights device;
  weights_link sleeping(device.path(), 1);
  net::grant_frame had;
  {
    const auto first = loaded_engine(device);
    had = had_once(sleeping);
  }
  weights_link writer(device.path(), 2);
  BOOST_TEST_REQUIRE(writer.request(weights_mode::write, patience).has_value());
  const auto begin = std::chrono::steady_clock::now();
  BOOST_TEST(failed_as(sleeping.remap(had, milliseconds(1'000)), weights_problem::timeout));
  BOOST_TEST((std::chrono::steady_clock::now() - begin >= milliseconds(1'000)));
}

BOOST_AUTO_TEST_CASE(test_remap_stale_layout) {
  const held_weights device;
  weights_link sleeping(device.path(), 1);
  net::grant_frame had;
  {
    const auto first = loaded_engine(device, 1);
    had = had_once(sleeping);
  }
  weights_link writer(device.path(), 2);
  BOOST_TEST_REQUIRE(writer.request(weights_mode::write, patience).has_value());
  commit(writer, 2, "others");
  const auto again = sleeping.remap(had);
  BOOST_TEST(failed_as(again, weights_problem::stale));
  BOOST_TEST(again.error().message.find("0200000000000000, not 0100000000000000") != std::string::npos);
  BOOST_TEST(!sleeping.is_connected());
}

BOOST_AUTO_TEST_CASE(test_remap_gms_dead) {
  held_weights device;
  weights_link sleeping(device.path(), 1);
  net::grant_frame had;
  {
    const auto first = loaded_engine(device);
    had = had_once(sleeping);
  }
  device.stop();
  BOOST_TEST(failed_as(sleeping.remap(had), weights_problem::connection));
}

BOOST_AUTO_TEST_CASE(test_remap_success) {
  const held_weights device;
  const auto first = loaded_engine(device);
  weights_link sleeping(device.path(), 1);
  const auto had = had_once(sleeping);
  const auto again = sleeping.remap(had);
  BOOST_TEST_REQUIRE(again.has_value());
  const auto got = sleeping.get("weights");
  BOOST_TEST_REQUIRE((got.has_value() && got->has_value()));
  BOOST_TEST(text_in((*got)->descriptor.get()) == "tensors");
}

namespace {

/// What there is while an engine sleeps without its memory.
struct scenario {
  held_weights device{};
  weights_link sleeping{device.path(), 1};
  weights_link writer{device.path(), 2};
  file_descriptor bound{};
  std::thread later{};

  void write() { BOOST_TEST_REQUIRE(writer.request(weights_mode::write, patience).has_value()); }
  void restart() {
    device.stop();
    device.start();
  }
};

struct scenario_row {
  const char* name;
  std::function<void(scenario&)> happens;
  milliseconds timeout;
  std::optional<weights_problem> ends;  ///< nothing: it wakes
};

void listen_no_more(scenario& all) {
  all.device.stop();
  // As after a crash: the file is there, and nobody behind it.
  all.bound.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto path = all.device.path();
  std::memcpy(address.sun_path, path.data(), path.size());
  BOOST_TEST_REQUIRE(::bind(all.bound.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
                     0);
}

const std::vector<scenario_row>& failure_table() {
  static const std::vector<scenario_row> rows{
      {"healthy, no writer", [](scenario&) {}, patience, std::nullopt},
      {"a writer for a moment",
       [](scenario& all) {
         all.write();
         all.later = std::thread([&all] {
           wait_until_somebody_waits(all.device);
           commit(all.writer, 1, "tensors");
         });
       },
       patience, std::nullopt},
      {"a writer for too long", [](scenario& all) { all.write(); }, milliseconds(50),
       weights_problem::timeout},
      {"dead, no socket", [](scenario& all) { all.device.stop(); }, patience, weights_problem::connection},
      {"a socket and no listener", listen_no_more, patience, weights_problem::connection},
      {"a new one with nothing", [](scenario& all) { all.restart(); }, patience, weights_problem::stale},
      {"a new one with other weights",
       [](scenario& all) {
         all.restart();
         all.write();
         commit(all.writer, 2, "others");
       },
       patience, weights_problem::stale},
      {"a new one with the same weights",
       [](scenario& all) {
         all.restart();
         all.write();
         commit(all.writer, 1, "tensors");
       },
       patience, std::nullopt},
  };
  return rows;
}

}  // namespace

BOOST_AUTO_TEST_CASE(test_remap_failure_scenarios) {
  for (const auto& row : failure_table()) {
    BOOST_TEST_CONTEXT(row.name) {
      scenario all;
      net::grant_frame had;
      {
        const auto first = loaded_engine(all.device);
        had = had_once(all.sleeping);
      }
      row.happens(all);
      const auto again = all.sleeping.remap(had, row.timeout);
      if (all.later.joinable()) all.later.join();
      if (row.ends) {
        BOOST_TEST(failed_as(again, *row.ends));
        BOOST_TEST(!all.sleeping.is_connected());
        continue;
      }
      BOOST_TEST_REQUIRE(again.has_value());
      const auto got = all.sleeping.get("weights");
      BOOST_TEST_REQUIRE((got.has_value() && got->has_value()));
      BOOST_TEST(text_in((*got)->descriptor.get()) == "tensors");
    }
  }
}

BOOST_AUTO_TEST_CASE(two_devices_are_loaded_by_two_engines_and_a_crash_between) {
  const held_weights first_device("host", 0);
  const held_weights second_device("host", 1);
  const auto load = [](weights_link& link, const char* text) {
    const auto granted = link.request(weights_mode::write_or_read, patience);
    BOOST_TEST_REQUIRE(granted.has_value());
    if (granted->mode == weights_mode::write) commit(link, 1, text);
    return granted->mode;
  };
  std::atomic<int> read{0};
  std::thread engine_1([&] {
    weights_link a(first_device.path(), 1);
    weights_link b(second_device.path(), 1);
    for (auto* const one : {&b, &a}) {
      const auto granted = one->request(weights_mode::read, std::nullopt);
      if (granted && granted->mode == weights_mode::read) ++read;
    }
  });
  {
    weights_link a(first_device.path(), 0);
    weights_link b(second_device.path(), 0);
    BOOST_TEST((load(a, "first") == weights_mode::write));
    BOOST_TEST_REQUIRE(b.request(weights_mode::write_or_read, patience).has_value());
    BOOST_TEST_REQUIRE(b.put("weights", 4'096, memory_with("half").get()).has_value());
  }
  weights_link a(first_device.path(), 0);
  weights_link b(second_device.path(), 0);
  BOOST_TEST((load(a, "again") == weights_mode::read));
  BOOST_TEST((load(b, "second") == weights_mode::write));
  engine_1.join();
  BOOST_TEST(read == 2);
  const auto kept = a.get("weights");
  BOOST_TEST_REQUIRE((kept.has_value() && kept->has_value()));
  BOOST_TEST(text_in((*kept)->descriptor.get()) == "first");
}

BOOST_AUTO_TEST_SUITE_END()
