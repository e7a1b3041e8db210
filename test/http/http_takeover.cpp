// A client's connection goes from one server to the next: byte for byte what it would have got from one
// alone. The first server stops between two of its handlers and never moves again; what is in the middle of a
// system call is tried with real processes elsewhere.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "test/http/engine_pair.hpp"
#include "test/support/wait_until.hpp"

namespace orcd::test {
namespace {

using std::chrono::milliseconds;

}  // namespace

BOOST_AUTO_TEST_SUITE(takeover)

BOOST_AUTO_TEST_CASE(a_stream_goes_on_on_the_same_connection) {
  const std::string request = execute("j1", 300, R"(,"temperature":0.8)");
  const auto whole = undisturbed(request);
  BOOST_REQUIRE(whole.size() > 300U);
  for (const std::size_t until : {0U, 1U, 500U, 5'000U, 12'000U}) {
    fake_holder holder;
    engine_of_a_pair first(holder);
    http_client client(holder.port());
    first.take(client);
    client.send(request);
    std::string all;
    BOOST_TEST_REQUIRE(client.read_up_to(until, all));
    first.stop_for_ever();
    {
      engine_of_a_pair second(holder);
      BOOST_TEST(second.counts().conflicts == 0U);
      BOOST_TEST(second.counts().lost == 0U);
      client.read_until("0\r\n\r\n", all);
      BOOST_TEST(told(all) == whole, boost::test_tools::per_element());
      // And the connection serves another request.
      client.send(execute("j2", 5));
      std::string next;
      BOOST_TEST(client.read_until("0\r\n\r\n", next));
      BOOST_TEST(status_of(next) == 200);
    }
    holder.close_all();
  }
}

BOOST_AUTO_TEST_CASE(engines_may_die_again_and_again) {
  const std::string request = execute("j1", 400);
  const auto whole = undisturbed(request);
  fake_holder holder;
  std::vector<std::unique_ptr<engine_of_a_pair>> engines;
  engines.push_back(std::make_unique<engine_of_a_pair>(holder));
  http_client client(holder.port());
  engines.back()->take(client);
  client.send(request);
  std::string all;
  for (int deaths = 0; deaths < 2; ++deaths) {
    const std::size_t enough = all.size() + 4'000;
    BOOST_TEST_REQUIRE(client.read_up_to(enough, all));
    engines.back()->stop_for_ever();
    engines.push_back(std::make_unique<engine_of_a_pair>(holder));
    BOOST_TEST(engines.back()->counts().resumed == 1U);
  }
  client.read_until("0\r\n\r\n", all);
  BOOST_TEST(told(all) == whole, boost::test_tools::per_element());
  engines.back().reset();
  holder.close_all();
}

BOOST_AUTO_TEST_CASE(another_model_does_not_go_on) {
  fake_holder holder;
  engine_of_a_pair first(holder);
  http_client client(holder.port());
  first.take(client);
  client.send(execute("j1", 2'000));
  std::string all;
  client.read_until("event: token", all);
  first.stop_for_ever();
  {
    engine_of_a_pair second(holder, "another");
    BOOST_TEST(client.read_until("ENGINE_CHANGED", all));
  }
  holder.close_all();
}

BOOST_AUTO_TEST_CASE(other_weights_do_not_go_on_and_the_same_do_by_whatever_is_known) {
  struct weights_case {
    net::weights_identity first, second;
    bool goes_on;
  };
  const std::vector<weights_case> cases{{{1, 0, 0}, {1, 0, 0}, true},  {{1, 0, 0}, {2, 1, 0}, true},
                                        {{1, 0, 9}, {2, 0, 9}, true},  {{1, 0, 9}, {2, 0, 8}, false},
                                        {{1, 0, 9}, {2, 0, 0}, false}, {{1, 0, 0}, {2, 0, 9}, false}};
  const std::string request = execute("j1", 600);
  const auto whole = undisturbed(request);
  for (const auto& one : cases) {
    fake_holder holder;
    engine_of_a_pair first(holder, {"same", {one.first.files, one.first.mapped, 0}});
    http_client client(holder.port());
    first.take(client);
    // The digest is learned while it serves.
    first.server().on_io([&] { first.server().server().know_digest(one.first.digest); });
    client.send(request);
    std::string all;
    BOOST_TEST_REQUIRE(client.read_up_to(2'000, all));
    first.stop_for_ever();
    {
      engine_of_a_pair second(holder, {"same", one.second});
      BOOST_TEST(client.read_until("0\r\n\r\n", all));
      BOOST_TEST((told(all) == whole) == one.goes_on);
      BOOST_TEST((all.find("ENGINE_CHANGED") == std::string::npos) == one.goes_on);
    }
    holder.close_all();
  }
}

// One that was still being read is the next engine's own, whoever had begun to read it.
BOOST_AUTO_TEST_CASE(a_request_is_of_the_engine_that_answers_it) {
  const std::string request =
      make_post("/v1/completions", R"({"prompt":"abc","seed":7,"max_tokens":600,"stream":true})");
  for (const char* const third : {"first", "second"}) {
    fake_holder holder;
    engine_of_a_pair reader(holder, {"first", {1, 0, 0}, "fp_0000000000000001"});
    http_client client(holder.port());
    reader.take(client);
    client.send(request.substr(0, request.size() - 9));
    wait_until([&] { return holder.all_is_read(); }, "what was sent is read");
    reader.stop_for_ever();
    engine_of_a_pair answers(holder, {"second", {2, 0, 0}, "fp_0000000000000002"});
    client.send(request.substr(request.size() - 9));
    std::string all;
    BOOST_TEST_REQUIRE(client.read_up_to(3'000, all));
    answers.stop_for_ever();
    {
      const bool same = std::string_view(third) == "second";
      engine_of_a_pair last(holder, {third, {same ? 2U : 1U, 0, 0}, "fp_0000000000000003"});
      BOOST_TEST(client.read_until("0\r\n\r\n", all));
      BOOST_TEST((all.find("ENGINE_CHANGED") == std::string::npos) == same);
      BOOST_TEST(times("fp_0000000000000001", all) + times("fp_0000000000000003", all) == 0U);
    }
    holder.close_all();
  }
}

BOOST_AUTO_TEST_CASE(a_request_that_was_let_in_stays_in_whatever_keys_the_next_engine_has) {
  const std::string request = execute("j1", 600);
  const auto whole = undisturbed(request);
  const auto with_key = [&](std::string_view key) {
    std::string out = request;
    return out.insert(out.find("\r\n") + 2, "X-Api-Key: " + std::string(key) + "\r\n");
  };
  http_options keys;
  keys.keys = "old-key alice\n";
  http_options others;
  others.keys = "new-key alice\n";
  fake_holder holder;
  engine_of_a_pair first(holder, {}, keys);
  http_client client(holder.port());
  first.take(client);
  client.send(with_key("old-key"));
  std::string all;
  BOOST_TEST_REQUIRE(client.read_up_to(2'000, all));
  first.stop_for_ever();
  {
    engine_of_a_pair second(holder, {}, others);
    BOOST_TEST(client.read_until("0\r\n\r\n", all));
    BOOST_TEST(told(all) == whole, boost::test_tools::per_element());
    client.send(with_key("old-key"));
    std::string next;
    BOOST_TEST(client.read_until("}", next));
    BOOST_TEST(status_of(next) == 401);
  }
  holder.close_all();
}

// Its body and its output are longer than the next engine takes.
BOOST_AUTO_TEST_CASE(a_stream_that_the_next_engine_refuses_ends_in_its_own_form) {
  const auto asked = [&](std::string_view path) {
    std::string body = R"({"prompt":"abc","seed":7,"stream":true,"max_tokens":2000})";
    if (path == "/execute") body = R"({"job_id":"j","prompt":"abc","seed":7,"max_tokens":2000})";
    if (path == "/completion") body = R"({"prompt":"abc","seed":7,"stream":true,"n_predict":2000})";
    return make_post(path, body + std::string(2'000, ' '));
  };
  const std::vector<std::pair<std::string, std::string>> forms{
      {"/execute", "event: error\ndata: {\"code\":\"ENGINE_CHANGED\""},
      {"/v1/completions", "data: {\"error\":{\"code\":\"ENGINE_CHANGED\""},
      {"/completion", "data: {\"error\":{\"code\":\"ENGINE_CHANGED\""}};
  http_options small;
  small.connections.body_bytes_max = 1'500;
  small.execute.tokens_out_max = 50;
  small.context_tokens = 100;
  for (const auto& [path, end] : forms) {
    fake_holder holder;
    engine_of_a_pair first(holder);
    http_client client(holder.port());
    first.take(client);
    client.send(asked(path));
    std::string all;
    BOOST_TEST_REQUIRE(client.read_up_to(3'000, all), path);
    first.stop_for_ever();
    {
      engine_of_a_pair second(holder, "another", small);
      BOOST_TEST(client.read_until("0\r\n\r\n", all), path);
      BOOST_TEST(times(end, all) == 1U, path << ": " << all.substr(all.size() - 400));
      BOOST_TEST(times("HTTP/1.1", all) == 1U, path);
    }
    holder.close_all();
  }
}

BOOST_AUTO_TEST_CASE(an_answer_has_one_fingerprint_whichever_build_goes_on) {
  const std::string request =
      make_post("/v1/completions", R"({"prompt":"abc","seed":7,"max_tokens":600,"stream":true})");
  fake_holder holder;
  engine_of_a_pair first(holder, {"same", {1, 0, 0}, "fp_0123456789abcdef"});
  http_client client(holder.port());
  first.take(client);
  client.send(request);
  std::string all;
  BOOST_TEST_REQUIRE(client.read_up_to(3'000, all));
  first.stop_for_ever();
  {
    engine_of_a_pair second(holder, {"same", {1, 0, 0}, "fp_fedcba9876543210"});
    const auto before = all.size();
    BOOST_TEST(client.read_until("[DONE]", all));
    BOOST_TEST(times("fp_0123456789abcdef", all.substr(before)) > 10U);
    BOOST_TEST(times("fp_fedcba9876543210", all) == 0U);
  }
  holder.close_all();
}

BOOST_AUTO_TEST_CASE(requests_in_every_state_are_answered) {
  fake_holder holder;
  engine_of_a_pair first(holder);
  std::vector<std::unique_ptr<http_client>> clients;
  const auto connect = [&] {
    clients.push_back(std::make_unique<http_client>(holder.port()));
    first.take(*clients.back());
    return clients.back().get();
  };
  auto* const idle = connect();
  auto* const half_head = connect();
  half_head->send("GET /health HT");
  auto* const half_body = connect();
  const std::string request = execute("half", 4);
  half_body->send(request.substr(0, request.size() - 9));
  auto* const served = connect();
  served->send("GET /live HTTP/1.1\r\nHost: w\r\n\r\n");
  std::string answer;
  served->read_until("}", answer);
  auto* const waits_for_body = connect();
  waits_for_body->send(
      "POST /execute HTTP/1.1\r\nHost: w\r\nExpect: 100-continue\r\nContent-Type: "
      "application/json\r\nContent-Length: " +
      std::to_string(request.size() - request.find("\r\n\r\n") - 4) + "\r\n\r\n");
  std::string interim;
  BOOST_REQUIRE(waits_for_body->read_until("100 Continue\r\n\r\n", interim));
  first.stop_for_ever();
  http_client between(holder.port());  // waits in the listener's queue
  between.send("GET /live HTTP/1.1\r\nHost: w\r\n\r\n");
  {
    engine_of_a_pair second(holder);
    BOOST_TEST(second.counts().lost == 0U);
    second.take(between);
    const auto expect = [](http_client& client, std::string_view rest, std::string_view end) {
      client.send(rest);
      std::string all;
      BOOST_TEST(client.read_until(end, all));
      BOOST_TEST(status_of(all) == 200);
    };
    expect(between, "", "}");
    expect(*idle, "GET /live HTTP/1.1\r\nHost: w\r\n\r\n", "}");
    expect(*served, "GET /live HTTP/1.1\r\nHost: w\r\n\r\n", "}");
    expect(*half_head, "TP/1.1\r\nHost: w\r\n\r\n", "}");
    expect(*half_body, request.substr(request.size() - 9), "0\r\n\r\n");
    expect(*waits_for_body, request.substr(request.find("\r\n\r\n") + 4), "0\r\n\r\n");
  }
  holder.close_all();
}

BOOST_AUTO_TEST_CASE(an_idle_connection_has_as_much_time_as_before) {
  http_options hasty;
  hasty.connections.header_timeout = std::chrono::seconds(1);
  fake_holder holder;
  engine_of_a_pair first(holder, "same", hasty);
  http_client served(holder.port()), silent(holder.port());
  first.take(served);
  first.take(silent);
  const std::string_view request = "GET /live HTTP/1.1\r\nHost: w\r\n\r\n";
  std::string answer;
  served.send(request);
  BOOST_REQUIRE(served.read_until("}", answer));
  first.stop_for_ever();
  {
    engine_of_a_pair second(holder, "same", hasty);
    BOOST_TEST(silent.closed_within());  // it has never asked for anything
    answer.clear();
    served.send(request);
    BOOST_TEST(served.read_until("}", answer));
  }
  holder.close_all();
}

BOOST_AUTO_TEST_CASE(the_end_of_a_choice_is_told_once) {
  http_options one_at_a_time;
  one_at_a_time.slots = 1;
  fake_holder holder;
  engine_of_a_pair first(holder, "same", one_at_a_time);
  http_client client(holder.port());
  first.take(client);
  client.send(make_post("/v1/completions",
                        R"({"prompt":"x","n":2,"max_tokens":300,"ignore_eos":true,"stream":true})"));
  std::string all;
  BOOST_REQUIRE(client.read_until(R"("finish_reason":"length")", all));
  BOOST_REQUIRE(client.read_until(R"("index":1)", all));
  first.stop_for_ever();
  {
    engine_of_a_pair second(holder, "same", one_at_a_time);
    BOOST_TEST(client.read_until("0\r\n\r\n", all));
    BOOST_TEST(times(R"("finish_reason":"length")", all) == 2U);
    BOOST_TEST(times("[DONE]", all) == 1U);
  }
  holder.close_all();
}

BOOST_AUTO_TEST_CASE(a_body_that_has_come_is_not_asked_for_again) {
  const std::string body = R"({"job_id":"j1","prompt":"abc","seed":7,"max_tokens":900})";
  std::string head =
      "POST /execute HTTP/1.1\r\nHost: w\r\nExpect: 100-continue\r\nContent-Type: application/json\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\nX-Pad: ";
  head += std::string(4'096 - head.size() - 4, 'a') + "\r\n\r\n";  // as much as is read at once
  fake_holder holder;
  engine_of_a_pair first(holder);
  http_client client(holder.port());
  client.send(head + body);
  first.take(client);
  std::string all;
  BOOST_REQUIRE(client.read_until("event: token", all));
  const auto asked = times("100 Continue", all);
  first.stop_for_ever();
  {
    engine_of_a_pair second(holder);
    BOOST_TEST(client.read_until("0\r\n\r\n", all));
    BOOST_TEST(times("100 Continue", all) == asked);
  }
  holder.close_all();
}

BOOST_AUTO_TEST_CASE(a_connection_that_was_being_closed_is_no_conflict) {
  fake_holder holder;
  engine_of_a_pair first(holder);
  http_client client(holder.port());
  first.take(client);
  client.send("GET /live HTTP/1.1\r\nHost: w\r\nConnection: close\r\n\r\n");
  std::string all;
  BOOST_REQUIRE(client.read_until("}", all));
  first.stop_for_ever();
  {
    engine_of_a_pair second(holder);
    BOOST_TEST(second.counts().conflicts == 0U);
    BOOST_TEST(second.counts().lost == 0U);
    BOOST_TEST(client.closed_within());
  }
  holder.close_all();
}

BOOST_AUTO_TEST_CASE(a_stream_that_has_begun_has_its_place_whatever_the_limits_are) {
  http_options full;
  full.slots = 1;
  full.max_queue = 0;
  fake_holder holder;
  engine_of_a_pair first(holder, "same", full);
  http_client client(holder.port());
  first.take(client);
  // The body is read on a background thread, so that others may come first.
  const std::string spaces(900'000, ' ');
  client.send(
      make_post("/execute", R"({"job_id":"j1","prompt":"abc","seed":7,"max_tokens":900)" + spaces + "}"));
  std::string all;
  BOOST_REQUIRE(client.read_until("event: token", all));
  first.stop_for_ever();
  http_client other(holder.port());
  other.send(execute("j2", 2'000));
  {
    http_options fuller = full;
    fuller.connections.connections_max = 1;
    engine_of_a_pair second(holder, "same", fuller);
    second.take(other);
    BOOST_TEST(client.read_until("event: end", all));
    BOOST_TEST(all.find("HTTP/1.1 503") == std::string::npos);
  }
  holder.close_all();
}

BOOST_AUTO_TEST_CASE(bytes_beside_the_stream_do_not_complete_a_body) {
  fake_holder holder;
  engine_of_a_pair first(holder);
  http_client client(holder.port());
  first.take(client);
  client.send(
      "POST /tokenize HTTP/1.1\r\nHost: w\r\nContent-Type: application/json\r\n"
      "Content-Length: 40\r\n\r\n{\"content\":\"");
  for (int n = 0; n < 12; ++n) {
    client.send_urgent('!');
    wait_until([&] { return holder.all_is_read(); }, "the first engine has read it");
  }
  first.stop_for_ever();
  {
    engine_of_a_pair second(holder);
    BOOST_TEST(second.counts().conflicts == 0U);
    client.send(std::string(14, 'a') + "\"}");
    std::string all;
    BOOST_TEST(client.read_until("tokens", all));
  }
  holder.close_all();
}

BOOST_AUTO_TEST_CASE(a_connection_that_its_server_closes_is_closed_for_the_client) {
  fake_holder holder;
  engine_of_a_pair only(holder);
  http_client client(holder.port());
  only.take(client);
  client.send("GET /live HTTP/1.1\r\nHost: w\r\nConnection: close\r\n\r\n");
  const std::string all = client.drain();  // to the end, or for half a minute
  BOOST_TEST(all.find("200 OK") != std::string::npos);
  BOOST_TEST(client.closed_within());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
