// Who may ask what, judged by a request's head: hosts, pages of other origins, content types.
#include "net/http/request_gate.hpp"

#include <boost/test/unit_test.hpp>

#include "net/http/cors.hpp"
#include "net/http/http_request.hpp"

namespace orcd::net {
namespace {

using engine::errc;

request_sender post_to(std::string_view host) {
  request_sender sender;
  sender.method = "POST";
  sender.target = "/execute";
  sender.host = host;
  sender.content_type = "application/json";
  sender.has_body = true;
  return sender;
}

bool may_ask(std::string_view host, const host_rules& rules) {
  return check_host(post_to(host), rules).has_value();
}

BOOST_AUTO_TEST_SUITE(request_gate)

BOOST_AUTO_TEST_CASE(on_loopback_only_own_names_are_served) {
  const auto rules =
      make_host_rules({"127.0.0.1", "gpu-7", "https://llm.example:8443/base", {"chat.example"}});
  BOOST_TEST(rules.restricted);
  for (const char* own : {"localhost", "localhost:8080", "LOCALHOST.:8080", "127.0.0.1:8080", "127.1.2.3",
                          "[::1]:8080", "app.localhost:1", "gpu-7:8080", "GPU-7", "llm.example",
                          "llm.example:80", "chat.example:8080", "[::ffff:127.0.0.1]:80", ""}) {
    BOOST_TEST(may_ask(own, rules), own);
  }
  for (const char* foreign :
       {"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1",
        "notlocalhost", "xlocalhost", ".localhost", "chat.example.evil", "[::2]:80", "[::1", "gpu-7x",
        ":8080", "127.0.0.1x", "0.0.0.0"}) {
    const auto refused = check_host(post_to(foreign), rules);
    BOOST_TEST_REQUIRE(!refused.has_value(), foreign);
    BOOST_TEST((refused.error().code == errc::forbidden));
  }
}

BOOST_AUTO_TEST_CASE(a_target_in_absolute_form_is_judged_too) {
  const auto rules = make_host_rules({"::1", "gpu-7", "", {}});
  auto sender = post_to("localhost");
  sender.target = "http://localhost:8080/execute";
  BOOST_TEST(check_host(sender, rules).has_value());
  sender.target = "http://evil.example/execute";
  BOOST_TEST(!check_host(sender, rules).has_value());
  sender.target = "/execute?next=http://evil.example/";
  BOOST_TEST(check_host(sender, rules).has_value());
}

BOOST_AUTO_TEST_CASE(on_other_addresses_names_are_judged_where_there_are_no_keys) {
  const auto open = make_host_rules({"0.0.0.0", "gpu-7", "", {}});
  for (const char* own :
       {"gpu-7:8080", "localhost", "10.0.0.7:8080", "[2001:db8::7]:8080", "127.0.0.1", ""}) {
    BOOST_TEST(may_ask(own, open), own);
  }
  for (const char* foreign : {"evil.example", "evil.example:8080", "10.0.0.7.evil.example", "10.0.0.7x"}) {
    const auto refused = check_host(post_to(foreign), open);
    BOOST_TEST_REQUIRE(!refused.has_value(), foreign);
    BOOST_TEST(refused.error().message.find("--allow-host") != std::string::npos);
  }
  host_facts keyed{"0.0.0.0", "gpu-7", "", {}};
  keyed.has_keys = true;
  BOOST_TEST(may_ask("any.example", make_host_rules(keyed)));
  keyed.address = "127.0.0.1";
  BOOST_TEST(!may_ask("any.example", make_host_rules(keyed)));
}

BOOST_AUTO_TEST_CASE(listed_names_are_the_only_ones_with_keys_too) {
  host_facts facts{"0.0.0.0", "gpu-7", "", {"any.example"}};
  for (const bool keys : {false, true}) {
    facts.has_keys = keys;
    const auto listed = make_host_rules(facts);
    BOOST_TEST(may_ask("any.example:80", listed));
    BOOST_TEST(may_ask("10.0.0.7:8080", listed));
    BOOST_TEST(!may_ask("evil.example", listed));
  }
}

BOOST_AUTO_TEST_CASE(names_that_may_be_listed) {
  BOOST_TEST(parse_host_names("a.example, [2001:db8::1] ,10.0.0.1").value().size() == 3U);
  BOOST_TEST(parse_host_names("[2001:db8::1]").value().front() == "2001:db8::1");
  for (const char* bad : {"", "a.example,", "http://a", "a/b", "a b", "*"}) {
    BOOST_TEST(!parse_host_names(bad).has_value(), bad);
  }
}

BOOST_AUTO_TEST_CASE(programs_and_own_pages_may_act) {
  const auto rules = make_host_rules({"127.0.0.1", "gpu-7", "https://llm.example", {}});
  auto sender = post_to("localhost:8080");
  BOOST_TEST(check_page(sender, rules, {}).has_value());
  for (const char* own : {"http://localhost:8080", "https://localhost:8080", "https://llm.example"}) {
    sender.origin = own;
    sender.fetch_site = "same-origin";
    BOOST_TEST(check_page(sender, rules, {}).has_value(), own);
  }
  sender.origin = "";
  sender.fetch_site = "none";
  BOOST_TEST(check_page(sender, rules, {}).has_value());
}

BOOST_AUTO_TEST_CASE(pages_of_others_may_not) {
  const auto rules = make_host_rules({"127.0.0.1", "gpu-7", "", {}});
  for (const char* origin : {"https://evil.example", "null", "http://localhost:8081", "http://localhost",
                             "http://localhost:8080.evil.example", "ftp://localhost:8080", "localhost:8080",
                             "http://evil.example/localhost:8080"}) {
    auto sender = post_to("localhost:8080");
    sender.origin = origin;
    BOOST_TEST(!check_page(sender, rules, {}).has_value(), origin);
    sender.method = "DELETE";
    BOOST_TEST(!check_page(sender, rules, {}).has_value(), origin);
    sender.method = "GET";
    BOOST_TEST(check_page(sender, rules, {}).has_value(), origin);
  }
  for (const char* site : {"cross-site", "same-site", "nonsense"}) {
    auto sender = post_to("localhost:8080");
    sender.fetch_site = site;
    BOOST_TEST(!check_page(sender, rules, {}).has_value(), site);
    sender.origin = "http://localhost:8080";
    BOOST_TEST(!check_page(sender, rules, {}).has_value(), site);
  }
}

BOOST_AUTO_TEST_CASE(pages_that_the_operator_allowed_may) {
  const auto rules = make_host_rules({"127.0.0.1", "gpu-7", "", {}});
  auto sender = post_to("localhost:8080");
  sender.origin = "https://chat.example";
  sender.fetch_site = "cross-site";
  BOOST_TEST(check_page(sender, rules, parse_origins("https://chat.example").value()).has_value());
  BOOST_TEST(check_page(sender, rules, parse_origins("*").value()).has_value());
  BOOST_TEST(!check_page(sender, rules, parse_origins("https://b.example").value()).has_value());
}

BOOST_AUTO_TEST_CASE(reading_is_judged_by_the_browser) {
  auto sender = post_to("localhost:8080");
  sender.method = "GET";
  sender.origin = "https://evil.example";
  sender.fetch_site = "cross-site";
  BOOST_TEST(check_page(sender, make_host_rules({"127.0.0.1", "gpu-7", "", {}}), {}).has_value());
}

BOOST_AUTO_TEST_CASE(bodies_are_json) {
  auto sender = post_to("localhost");
  for (const char* json : {"application/json", "Application/JSON; charset=utf-8", "application/json;x=y",
                           "application/vnd.api+json"}) {
    sender.content_type = json;
    BOOST_TEST(!check_body_type(sender).has_value(), json);
  }
  for (const char* other : {"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                            "text/plain;application/json", "application/jsonx", "text/x+json", "+json"}) {
    sender.content_type = other;
    BOOST_TEST_REQUIRE(check_body_type(sender).has_value(), other);
    BOOST_TEST(check_body_type(sender)->status == 415U, other);
  }
  sender.has_body = false;
  BOOST_TEST(!check_body_type(sender).has_value());
}

BOOST_AUTO_TEST_CASE(compressed_bodies_are_refused) {
  auto sender = post_to("localhost");
  sender.content_type = "application/json";
  for (const char* plain : {"", "identity", " Identity "}) {
    sender.content_encoding = plain;
    BOOST_TEST(!check_body_type(sender).has_value(), plain);
  }
  for (const char* coding : {"gzip", "deflate", "br", "zstd", "identity, gzip"}) {
    sender.content_encoding = coding;
    const auto refused = check_body_type(sender);
    BOOST_TEST_REQUIRE(refused.has_value(), coding);
    BOOST_TEST(refused->status == 415U);
    BOOST_TEST(render_reply(*refused, {}, false).find("Accept-Encoding: identity\r\n") != std::string::npos);
  }
  sender.has_body = false;
  BOOST_TEST(!check_body_type(sender).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
