#include "net/discovery/etcd_messages.hpp"

#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>

#include "net/json/base64.hpp"

using namespace orcd::net;
using namespace std::chrono_literals;

namespace {

std::string encoded(std::string_view text) {
  std::string out;
  append_base64(out, text);
  return out;
}

std::string found(const std::string& more) {
  return R"({"header":{"revision":"9"},"kvs":[{"key":")" + encoded("/w/1") + R"(",)" + more + "}]}";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(discovery_messages)

BOOST_AUTO_TEST_CASE(urls) {
  BOOST_TEST(parse_etcd_url("etcd://etcd.example:2400")->host == "etcd.example");
  BOOST_TEST(parse_etcd_url("etcd://etcd.example:2400")->port == "2400");
  BOOST_TEST(parse_etcd_url("etcd://10.0.0.1")->authority == "10.0.0.1:2379");
  BOOST_TEST(parse_etcd_url("etcd://[::1]:1")->host == "::1");
  BOOST_TEST(parse_etcd_url("etcd://[::1]")->authority == "[::1]:2379");
  for (const auto* const url :
       {"", "http://a:1", "etcd://", "etcd://a:", "etcd://a:0", "etcd://a:65536", "etcd://a:1/x",
        "etcd://u@a:1", "etcd://[::1", "etcd://[::1]x", "etcd://a b:1", "etcd://::1:1", "etcd://a:1x"}) {
    BOOST_TEST(!parse_etcd_url(url), url);
  }
  BOOST_TEST(!parse_etcd_url("etcd://" + std::string(600, 'a')));
}

BOOST_AUTO_TEST_CASE(prefixes_and_keys) {
  BOOST_TEST(etcd_key("/workers", "1") == "/workers/1");
  BOOST_TEST(etcd_key("/workers//", "1") == "/workers/1");
  BOOST_TEST(check_etcd_prefix("/workers").has_value());
  BOOST_TEST(!check_etcd_prefix(""));
  BOOST_TEST(!check_etcd_prefix("a b"));
  BOOST_TEST(!check_etcd_prefix("a\n"));
  BOOST_TEST(!check_etcd_prefix(std::string(513, 'a')));
}

BOOST_AUTO_TEST_CASE(requests_are_what_the_gateway_takes) {
  BOOST_TEST(etcd_grant(10s).body == R"({"TTL":"10"})");
  BOOST_TEST(etcd_read("a").body == R"({"key":"YQ=="})");
  BOOST_TEST(etcd_keep(7).body == R"({"ID":"7"})");
  BOOST_TEST(etcd_revoke(7).target == "/v3/lease/revoke");
  const auto put = boost::json::parse(etcd_put("a", {"http://h:1", "say \"m\"", 3}, 12, 7, 40).body);
  const auto& compare = put.at("compare").at(0);
  BOOST_TEST(compare.at("target").as_string() == "MOD");
  BOOST_TEST(compare.at("mod_revision").as_string() == "40");
  const auto& write = put.at("success").at(0).at("requestPut");
  BOOST_TEST(write.at("lease").as_string() == "7");
  const auto value = boost::json::parse(*decode_base64(std::string(write.at("value").as_string())));
  BOOST_TEST(value.at("uri").as_string() == "http://h:1");
  BOOST_TEST(value.at("model").as_string() == "say \"m\"");
  BOOST_TEST(value.at("engine_id").to_number<int>() == 3);
  BOOST_TEST(value.at("epoch").to_number<int>() == 12);
}

BOOST_AUTO_TEST_CASE(leases) {
  const auto lease = read_granted(R"({"header":{},"ID":"75","TTL":"10"})");
  BOOST_REQUIRE(lease.has_value());
  BOOST_TEST(lease->id == 75);
  BOOST_TEST(lease->ttl.count() == 10'000);
  for (const auto* const body :
       {"", "[]", "{}", R"({"ID":"0","TTL":"10"})", R"({"ID":"-4","TTL":"10"})", R"({"ID":"75"})",
        R"({"ID":"75","TTL":"100000"})", R"({"ID":"x","TTL":"1"})", R"({"ID":[],"TTL":"1"})",
        R"({"ID":"99999999999999999999","TTL":"1"})", "[[[[[[[[[[[[[[[[[["}) {
    BOOST_TEST(!read_granted(body), body);
  }
}

BOOST_AUTO_TEST_CASE(kept_leases) {
  BOOST_TEST((**read_kept(R"({"result":{"ID":"7","TTL":"10"}})", 7)).count() == 10'000);
  BOOST_TEST(!read_kept(R"({"result":{"ID":"7"}})", 7)->has_value());
  BOOST_TEST(!read_kept(R"({"result":{"ID":"8","TTL":"10"}})", 7));
  BOOST_TEST(!read_kept(R"({"error":{"message":"no"}})", 7));
  BOOST_TEST(!read_kept(R"({"result":{"ID":"7","TTL":"-1"}})", 7));
}

BOOST_AUTO_TEST_CASE(entries) {
  const auto none = read_found(R"({"header":{"revision":"9"}})", "/w/1");
  BOOST_REQUIRE(none.has_value());
  BOOST_TEST(none->revision == 9);
  BOOST_TEST(none->entry.mod_revision == 0);
  const auto one = read_found(
      found(R"("mod_revision":"4","lease":"7","value":")" + encoded(R"({"epoch":5})") + "\""), "/w/1");
  BOOST_REQUIRE(one.has_value());
  BOOST_TEST(one->entry.mod_revision == 4);
  BOOST_TEST(one->entry.lease == 7);
  BOOST_TEST(one->entry.epoch == 5U);
  // What others wrote has no epoch, and is replaced as any other.
  for (const auto& value : {encoded("hello"), encoded(R"({"epoch":-1})"), std::string("!")}) {
    const auto other = read_found(found(R"("mod_revision":"4","value":")" + value + "\""), "/w/1");
    BOOST_REQUIRE(other.has_value());
    BOOST_TEST(other->entry.epoch == 0U);
  }
  BOOST_TEST(!read_found(found(R"("mod_revision":"4")"), "/w/2"));
  BOOST_TEST(!read_found(found(R"("mod_revision":"0")"), "/w/1"));
  BOOST_TEST(!read_found(R"({"header":{"revision":"9"},"kvs":[]})", "/w/1"));
  BOOST_TEST(!read_found(R"({"kvs":[]})", "/w/1"));
  BOOST_TEST(!read_found(R"({"header":{"revision":"0"}})", "/w/1"));
}

BOOST_AUTO_TEST_CASE(writes) {
  BOOST_TEST(*read_written(R"({"header":{},"succeeded":true})"));
  BOOST_TEST(!*read_written(R"({"header":{}})"));
  BOOST_TEST(!read_written(R"({"succeeded":true})"));
  BOOST_TEST(!read_written(R"({"header":{},"succeeded":"yes"})"));
}

BOOST_AUTO_TEST_SUITE_END()
