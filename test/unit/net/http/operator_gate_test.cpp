// Who may do what concerns all clients.
#include "net/http/operator_gate.hpp"

#include <boost/test/unit_test.hpp>
#include <string>
#include <variant>
#include <vector>

namespace orcd::net {
namespace {

using engine::errc;

struct asker {
  request_sender sender{};
  order_giver giver{};
  key_owner owner{};

  asker() { sender.method = "POST"; }
  asker& with_key(key_role role) {
    giver.has_keys = true;
    owner.role = role;
    giver.owner = &owner;
    return *this;
  }
  asker& without_key() {
    giver.has_keys = true;
    giver.owner = nullptr;
    return *this;
  }
  [[nodiscard]] engine::result<void> asks(const operator_order& order) const {
    return check_operator(sender, giver, order);
  }
};

constexpr operator_order stop{"stop the worker"};
constexpr operator_order load{"load adapters for all clients", false};

BOOST_AUTO_TEST_SUITE(operator_gate)

BOOST_AUTO_TEST_CASE(without_keys_programs_of_this_machine_may) {
  asker one;
  BOOST_TEST((one.asks(stop).error().code == errc::forbidden));
  BOOST_TEST(one.asks(load).has_value());
  one.sender.on_loopback = true;
  BOOST_TEST(one.asks(stop).has_value());
  one.sender.origin = "http://localhost:8080";
  BOOST_TEST((one.asks(stop).error().code == errc::forbidden));
  BOOST_TEST(one.asks({}).has_value(), "it does nothing to others");
}

BOOST_AUTO_TEST_CASE(with_keys_the_role_decides) {
  for (const auto& order : {stop, load}) {
    asker one;
    one.sender.on_loopback = true;
    BOOST_TEST(one.with_key(key_role::operations).asks(order).has_value());
    const auto refused = one.with_key(key_role::inference).asks(order);
    BOOST_TEST_REQUIRE(!refused.has_value());
    BOOST_TEST((refused.error().code == errc::forbidden));
    BOOST_TEST(refused.error().message.find("role=operator") != std::string::npos);
    BOOST_TEST((one.without_key().asks(order).error().code == errc::unauthorized));
  }
  asker one;
  BOOST_TEST(one.with_key(key_role::inference).asks({}).has_value());
}

BOOST_AUTO_TEST_CASE(whoever_runs_the_worker_needs_no_key_but_no_page_of_theirs_has_that_right) {
  asker one;
  one.without_key().giver.runs_the_worker = true;
  BOOST_TEST(one.asks(stop).has_value());
  one.sender.origin = "http://localhost:8080";
  BOOST_TEST((one.asks(stop).error().code == errc::unauthorized));
  one.with_key(key_role::operations);
  BOOST_TEST(one.asks(stop).has_value());
}

BOOST_AUTO_TEST_CASE(orders_are_what_reaches_other_clients) {
  BOOST_TEST(!order_of(endpoint::shutdown, "POST").what.empty());
  BOOST_TEST(!order_of(endpoint::lora_adapters, "POST").what.empty());
  BOOST_TEST(order_of(endpoint::lora_adapters, "GET").what.empty());
  BOOST_TEST(!order_of(endpoint::load_adapter, "POST").local_at_least);
  BOOST_TEST(!order_of(endpoint::unload_adapter, "POST").local_at_least);
  for (const auto own : {endpoint::execute, endpoint::cancel, endpoint::chat_completions, endpoint::models,
                         endpoint::stored_response, endpoint::metrics, endpoint::page}) {
    BOOST_TEST(order_of(own, "POST").what.empty());
  }
}

/// A proxy in front forbids these paths, one by one.
BOOST_AUTO_TEST_CASE(an_order_has_one_path) {
  for (const std::string path :
       {"/shutdown", "/lora-adapters", "/v1/load_lora_adapter", "/v1/unload_lora_adapter"}) {
    const auto route = find_route("POST", path);
    BOOST_TEST_REQUIRE(std::holds_alternative<endpoint>(route), path);
    BOOST_TEST(!order_of(std::get<endpoint>(route), "POST").what.empty(), path);
    const auto last = path.substr(path.rfind('/'));
    for (const std::string& other : std::vector<std::string>{
             path + "/", "/" + path, path + "//", "/v1" + path, "/v1/v1" + last, "/v1/" + last, "/." + path,
             "/%2e" + path, "/x/.." + path, "/%" + path.substr(1), path + ";x", path + "%00",
             path == last ? "/v1" + last : last}) {
      const auto found = find_route("POST", other);
      BOOST_TEST_REQUIRE(std::holds_alternative<reply>(found), other);
      BOOST_TEST(std::get<reply>(found).status == 404U, other);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
