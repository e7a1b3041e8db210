// Who may ask and what is answered at once: API keys, origins, tokens.
#include <boost/test/unit_test.hpp>

#include "net/http/api_keys.hpp"
#include "net/http/cors.hpp"
#include "net/http/http_request.hpp"
#include "net/http/routes.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

const test::letter_tokenizer letters;

BOOST_AUTO_TEST_SUITE(access)

BOOST_AUTO_TEST_CASE(keys_are_accepted_as_bearer_tokens_only) {
  const auto keys = api_keys::parse("# ours\n\n  first-key  \r\nsecond\n").value();
  BOOST_TEST(!keys.empty());
  for (const char* good : {"Bearer first-key", "bearer second", "BEARER  second "})
    BOOST_TEST(keys.owner_of(good).has_value(), good);
  for (const char* bad : {"", "first-key", "Basic first-key", "Bearer", "Bearer ", "Bearer first-ke",
                          "Bearer first-keyy", "Bearer # ours", "Bearer first-key second"}) {
    BOOST_TEST(!keys.owner_of(bad).has_value(), bad);
  }
}

BOOST_AUTO_TEST_CASE(keys_are_accepted_in_a_field_of_their_own) {
  const auto keys = api_keys::parse("first one\nsecond two\n").value();
  BOOST_TEST(keys.owner_of("", "first")->label == "one");
  BOOST_TEST(keys.owner_of("", " second ")->label == "two");
  BOOST_TEST(keys.owner_of("Basic abc", "second")->label == "two");
  BOOST_TEST(keys.owner_of("Bearer other", "second")->label == "two");
  BOOST_TEST(keys.owner_of("Bearer first", "second")->label == "one");
  BOOST_TEST(keys.owner_of("Bearer first", "other")->label == "one");
  for (const char* bad : {"", "Bearer first", "firs", "first second"}) {
    BOOST_TEST(!keys.owner_of("", bad).has_value(), bad);
  }
}

BOOST_AUTO_TEST_CASE(without_keys_everybody_may) {
  BOOST_TEST(api_keys().empty());
  const auto everybody = api_keys().owner_of("").value();
  BOOST_TEST(everybody.key_id.empty());
  BOOST_TEST(scoped_job_id(everybody, "a") == "a");
  BOOST_TEST(scoped_salt(everybody, "").empty());
  BOOST_TEST(scoped_salt(everybody, "mine") == "mine");
}

BOOST_AUTO_TEST_CASE(key_files_that_cannot_be_meant) {
  for (const std::string& text :
       {std::string(), std::string("\n# nothing\n"), std::string("three words here"),
        std::string("k\xC3\xA9y"), std::string("key na:me"), std::string("key ") + std::string(65, 'n'),
        std::string("words\nwords"), std::string(513, 'k'), std::string("nul\0", 4),
        std::string("key role=root"), std::string("key name role="), std::string("key role=operator name"),
        std::string("key name role=operator more"), std::string("key name Role=operator")}) {
    const auto keys = api_keys::parse(text);
    BOOST_TEST_REQUIRE(!keys.has_value());
    BOOST_TEST(keys.error().message.find("words") == std::string::npos);
  }
  std::string many;
  for (int i = 0; i < 1'025; ++i) many += "key" + std::to_string(i) + "\n";
  BOOST_TEST(!api_keys::parse(many).has_value());
}

BOOST_AUTO_TEST_CASE(a_tenant_is_a_name_or_a_key_without_one) {
  const auto keys = api_keys::parse("# keys\nk1 team\nk2\tteam\nk3\nk4").value();
  const auto one = keys.owner_of("Bearer k1").value();
  const auto two = keys.owner_of("Bearer k2").value();
  const auto three = keys.owner_of("Bearer k3").value();
  const auto four = keys.owner_of("Bearer k4").value();
  BOOST_TEST(one.label == "team");
  BOOST_TEST(three.label == "line 4");
  BOOST_TEST(one.tenant == two.tenant);
  BOOST_TEST(three.tenant != four.tenant);
  // Without a salt nobody shares with another key; with one, tenants share with themselves.
  BOOST_TEST(scoped_salt(one, "") != scoped_salt(two, ""));
  BOOST_TEST(scoped_salt(one, "s") == scoped_salt(two, "s"));
  BOOST_TEST(scoped_salt(one, "s") != scoped_salt(one, "t"));
  BOOST_TEST(scoped_salt(three, "s") != scoped_salt(four, "s"));
  BOOST_TEST(scoped_salt(three, "s") != scoped_salt(one, "s"));
  // Nobody can name the salt that another key has by itself.
  BOOST_TEST(scoped_salt(four, "key:" + three.key_id) != scoped_salt(three, ""));
  BOOST_TEST(scoped_job_id(one, "a") != scoped_job_id(two, "a"));
  BOOST_TEST(scoped_job_id(one, "a") == scoped_job_id(one, "a"));
  // The same key is known again after a restart and in another line.
  BOOST_TEST(api_keys::parse("k4\nk3").value().owner_of("Bearer k3").value().key_id == three.key_id);
  BOOST_TEST(three.key_id.find("k3") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_role_stands_behind_the_name) {
  const auto keys =
      api_keys::parse("k1 team role=operator\nk2\trole=operator\nk3 team role=inference\nk4 operator")
          .value();
  const auto role_of = [&keys](const char* key) { return keys.owner_of("", key)->role; };
  BOOST_TEST((role_of("k1") == key_role::operations));
  BOOST_TEST((role_of("k2") == key_role::operations));
  BOOST_TEST((role_of("k3") == key_role::inference));
  BOOST_TEST((role_of("k4") == key_role::inference), "a name");
  BOOST_TEST(keys.owner_of("", "k1")->label == "team");
  BOOST_TEST(keys.owner_of("", "k2")->label == "line 2");
  BOOST_TEST(keys.has_operator());
  BOOST_TEST(!api_keys::parse("k1 team\nk2 role=inference").value().has_operator());
  BOOST_TEST(!api_keys().has_operator());
  BOOST_TEST((api_keys::owner_elsewhere("", "k1").role == key_role::inference));
}

BOOST_AUTO_TEST_CASE(probes_need_no_key) {
  for (const auto open :
       {endpoint::health, endpoint::live, endpoint::ready, endpoint::metrics, endpoint::page}) {
    BOOST_TEST(!needs_key(open));
  }
  for (const auto closed :
       {endpoint::execute, endpoint::cancel, endpoint::shutdown, endpoint::chat_completions,
        endpoint::completions, endpoint::models, endpoint::model, endpoint::tokenize, endpoint::detokenize}) {
    BOOST_TEST(needs_key(closed));
  }
}

BOOST_AUTO_TEST_CASE(origins) {
  BOOST_TEST(allowed_origin({}, "https://a.example").empty());
  const auto list = parse_origins("https://a.example, http://localhost:3000").value();
  BOOST_TEST(allowed_origin(list, "http://localhost:3000") == "http://localhost:3000");
  BOOST_TEST(allowed_origin(list, "http://localhost:3001").empty());
  BOOST_TEST(allowed_origin(list, "").empty());
  BOOST_TEST(allowed_origin(parse_origins("*").value(), "null") == "*");
  const auto local = parse_origins("localhost,https://a.example").value();
  for (const char* here : {"http://localhost", "https://localhost:8443", "http://127.0.0.1:3000",
                           "http://[::1]:1", "https://a.example"}) {
    BOOST_TEST(allowed_origin(local, here) == here);
  }
  for (const char* there : {"http://localhost.example", "http://localhost:", "http://localhost:3000.example",
                            "http://localhost:x", "ftp://localhost", "localhost", "http://127.0.0.2", "null",
                            "http://xlocalhost", "http://[::1].example", "https://b.example"}) {
    BOOST_TEST(allowed_origin(local, there).empty(), there);
  }
  for (const char* bad : {"", "a.example", "https://", "https://a.example/", "https://a.example,",
                          "*,https://b", "https://a b", "null", "https://a\r\nX: y"}) {
    BOOST_TEST(!parse_origins(bad).has_value(), bad);
  }
}

BOOST_AUTO_TEST_CASE(answers_to_other_origins) {
  http_request request;
  request.method = "OPTIONS";
  request.allowed_origin = "https://a.example";
  const auto preflight = std::get<reply>(find_route("OPTIONS", "/v1/chat/completions"));
  const auto head = render_reply(preflight, request, true);
  BOOST_TEST(head.find("Access-Control-Allow-Origin: https://a.example\r\n") != std::string::npos);
  BOOST_TEST(head.find("Access-Control-Allow-Methods: POST, OPTIONS\r\n") != std::string::npos);
  BOOST_TEST(head.find("Access-Control-Allow-Headers: Authorization, *\r\n") != std::string::npos);
  request.allowed_origin.clear();
  BOOST_TEST(render_reply(preflight, request, true).find("Access-Control") == std::string::npos);
  request.allowed_origin = "*";
  BOOST_TEST(render_stream_head(request, true).find("Access-Control-Allow-Origin: *\r\n") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_missing_key_is_told_how_to_be_shown) {
  const auto refusal = make_error_reply({engine::errc::unauthorized, "no"});
  BOOST_TEST(refusal.status == 401U);
  BOOST_TEST(refusal.body.find("\"type\":\"authentication_error\"") != std::string::npos);
  BOOST_TEST(render_reply(refusal, {}, true).find("WWW-Authenticate: Bearer\r\n") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
