// What the worker has answered can be sent back: for every template, API and shape of an answer the next
// request is accepted, and its prompt says again what the model wrote, so that the prefix cache has it.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <map>
#include <set>

#include "test/unit/jinja/render_case.hpp"
#include "test/unit/net/turns/conversations.hpp"
#include "test/unit/net/turns/manners.hpp"

namespace orcd::net {
namespace {

using namespace test;

struct shape {
  std::string_view name;
  turn said;
  bool cut = false;
};

const said_call oslo_call{"weather", {{"city", "\"Oslo\""}}};
const said_call now_call{"now", {}};

const std::vector<shape> shapes{
    {"text", {"", "It is 20 °C.", {}}},
    {"thoughts and text", {"I know it.", "It is 20 °C.", {}}},
    {"nothing", {"", "", {}}},
    {"text, cut", {"", "It is 20", {}}, true},
    {"thoughts, cut", {"I know", "", {}}, true},
    {"call", {"", "", {oslo_call}}},
    {"call of nothing", {"", "", {now_call}}},
    {"text and call", {"", "I look.", {oslo_call}}},
    {"thoughts and call", {"I look it up.", "", {oslo_call}}},
    {"thoughts, text and call", {"I look it up.", "I look.", {oslo_call}}},
    {"two calls", {"", "", {oslo_call, now_call}}},
    {"text and two calls", {"", "I look.", {oslo_call, now_call}}},
    {"other letters", {"", "", {{"weather", {{"city", R"("Zürich \"☃\" \\ 日本\n2")"}}}}}},
    {"numbers", {"", "", {{"weather", {{"x", "0.10"}, {"n", "12345678901234567890123"}}}}}},
    {"nested", {"", "", {{"weather", {{"o", R"({"a": [1, 2.50, null, "s"], "b": true})"}, {"l", "[]"}}}}}},
    {"call, cut", {"", "", {oslo_call}}, true},
};

bool is_left_out(remembers reasoning, const turn& said, bool user) {
  switch (reasoning) {
    case remembers::all: return false;
    case remembers::of_this_turn: return user;
    case remembers::of_two: return user && !said.calls.empty();
    case remembers::before_calls: return said.calls.empty();
    case remembers::none: break;
  }
  return true;
}

/// Why a turn does not come back as the model wrote it; empty where it must.
std::string_view excuse(const manner& how, api which, const shape& one, bool user) {
  const auto& [reasoning, text, calls] = one.said;
  const bool objects = which == api::messages || which == api::ollama;
  const auto& limits = how.limits;
  if (!reasoning.empty() && is_left_out(limits.reasoning, one.said, user)) return "reasoning is left out";
  if (calls.empty()) return {};
  if (!text.empty() && limits.no_preamble) return "text before calls is left out";
  if (calls.size() > 1 && limits.one_call) return "a turn has one call";
  if (one.cut && which == api::ollama) return "ollama's answers have no calls that were cut";
  if (limits.own_ids && !(one.cut && how.name != "Mistral-Small-3.2-24B-Instruct-2506")) {
    return "calls have ids of the worker";
  }
  if (one.name == "nested" && limits.prints_nested) return "the template prints lists and objects";
  if (objects && (one.name == "nested" || one.name == "numbers"))
    return "an object has no spelling of numbers";
  return {};
}

struct counts {
  int asked = 0, same = 0, begins_so = 0;
  std::map<std::string_view, int> excused{};
};

void try_shape(const manner& how, const engine::chat_format& format, api which, const shape& one, bool user,
               counts& count) {
  const std::string name = std::string(how.name) + ", " + std::string(to_string(which)) + ", " +
                           std::string(one.name) + (user ? ", user" : ", results");
  const bool tools = format.mentions("tools") && how.call != nullptr;
  conversation talk(which, format, tools, !one.said.reasoning.empty());
  talk.say("How warm is it?");
  const asked first = talk.ask();
  BOOST_TEST_REQUIRE(first.refusal.empty(), name << ": " << first.refusal);
  const std::string text = written(how, one.said, one.cut);
  const std::string_view lead = one.said.reasoning.empty() ? how.unthought : std::string_view();
  talk.take_answer(first, std::string(lead) + text, one.cut);
  talk.give_results(one.name.size() % 2 == 0);
  if (user) talk.say("And now?");
  const asked second = talk.ask();
  ++count.asked;
  BOOST_TEST(second.refusal.empty(), name << " is refused: " << second.refusal);
  const bool begins_so = second.prompt.starts_with(first.prompt + text);
  const bool same = begins_so || text.empty() || second.prompt.find(text) != std::string::npos;
  count.same += same ? 1 : 0;
  count.begins_so += begins_so ? 1 : 0;
  const std::string_view why = excuse(how, which, one, user);
  if (!why.empty()) ++count.excused[why];
  BOOST_TEST(same == why.empty(), name << (why.empty() ? ": " : " is excused, and need not be: ") << "wrote ["
                                       << text << "], comes back in [" << second.prompt << "]");
  if (!why.empty() || text.empty() || how.limits.rewrites) return;
  BOOST_TEST(begins_so,
             name << ": [" << first.prompt << text << "] is no beginning of [" << second.prompt << "]");
}

void try_template(const manner& how, counts& count) {
  const boost::json::object special{{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  const std::string source = orcd::test::read_data("templates/" + std::string(how.name) + ".jinja");
  const auto format = engine::chat_format::make(source, special);
  BOOST_TEST_REQUIRE(format.has_value(), how.name);
  const bool reasons = !how.think.empty() || !how.thought.empty();
  for (int which = 0; which < apis; ++which) {
    for (const shape& one : shapes) {
      if ((!one.said.reasoning.empty() && !reasons) || (!one.said.calls.empty() && how.call == nullptr))
        continue;
      if (!one.said.calls.empty()) try_shape(how, *format, static_cast<api>(which), one, false, count);
      try_shape(how, *format, static_cast<api>(which), one, true, count);
    }
  }
}

BOOST_AUTO_TEST_SUITE(round_trips)

BOOST_AUTO_TEST_CASE(what_was_answered_can_be_sent_back) {
  counts count;
  for (const manner& how : manners()) try_template(how, count);
  BOOST_TEST(count.asked >= 2'900);
  BOOST_TEST_MESSAGE(count.asked << " round trips, " << count.same << " with the model's own text, of these "
                                 << count.begins_so << " behind an unchanged prompt");
  for (const auto& [why, times] : count.excused) BOOST_TEST_MESSAGE(times << ": " << why);
}

BOOST_AUTO_TEST_CASE(every_template_has_its_manner) {
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(ORCD_TEST_DATA "/chat/templates")) {
    names.insert(file.path().stem());
  }
  for (const manner& how : manners()) BOOST_TEST(names.erase(std::string(how.name)) == 1U, how.name);
  BOOST_TEST(names.empty(), (names.empty() ? std::string() : *names.begin()));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
