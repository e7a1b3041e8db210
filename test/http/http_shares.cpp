// Places for connections over the real server: a key that floods shuts no other out.
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "test/http/http_client.hpp"
#include "test/http/http_fixture.hpp"
#include "test/support/wait_until.hpp"

namespace orcd::test {
namespace {

std::string begun_upload(const char* key) {
  return std::string("POST /tokenize HTTP/1.1\r\nHost: w\r\nX-Api-Key: ") + key +
         "\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{";
}

std::string upload(const char* key) {
  return make_post("/tokenize", R"({"content":"a"})", std::string("X-Api-Key: ") + key + "\r\n");
}

BOOST_AUTO_TEST_SUITE(http_shares_of_places)

// Uploads that have just begun are not late, whose they are is known by their heads, and all are of one
// address.
BOOST_AUTO_TEST_CASE(uploads_of_one_key_on_all_places_shut_no_other_out) {
  http_options options;
  options.connections.connections_max = 16;
  options.keys = "key-of-alice alice\nkey-of-bob bob\nkey-of-carol carol\n";
  http_fixture worker(options);
  std::vector<std::unique_ptr<http_client>> flood;
  std::size_t refused = 0;
  for (int i = 0; i < 20; ++i) {
    flood.push_back(std::make_unique<http_client>(worker.port()));
    flood.back()->send(begun_upload("key-of-alice"));
    // The next one comes when this one was let in or told.
    BOOST_TEST(status_of(worker.ask("GET /live HTTP/1.1\r\nHost: w\r\n\r\n")) == 200);
  }
  for (int i = 0; i < 20; ++i) {
    BOOST_TEST(status_of(worker.ask(upload("key-of-bob"))) == 200);
    BOOST_TEST(status_of(worker.ask(upload("key-of-carol"))) == 200);
  }
  const auto told = worker.ask(upload("key-of-alice"));
  BOOST_TEST(status_of(told) == 503);
  BOOST_TEST(told.find("with this key") != std::string::npos);
  for (const auto& one : flood) refused += status_of(one->receive(1)) == 503 ? 1 : 0;
  BOOST_TEST(refused == 6U);  // an eighth of the places is kept
  flood.clear();
  wait_until([&] { return status_of(worker.ask(upload("key-of-alice"))) == 200; },
             "its places are given back");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::test
