// Conversations as clients send them, through every template, against what Jinja2 makes of them:
// test/oracle/chat_requests.py wrote both.
#include <boost/test/unit_test.hpp>

#include "engine/conversation/message_habits.hpp"
#include "net/completion/chat_messages.hpp"
#include "test/unit/jinja/render_case.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using namespace orcd::test;

const json::object special_tokens{
    {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"pad_token", "<pad>"}, {"unk_token", "<unk>"}};

engine::chat_template compiled(const std::string& name) {
  return engine::chat_template::compile(read_data("templates/" + name + ".jinja")).value();
}

BOOST_AUTO_TEST_SUITE(chat_conversations)

BOOST_AUTO_TEST_CASE(what_clients_send_is_refused_by_a_template_only) {
  const auto all = json::parse(read_data("requests.json"));
  std::size_t texts = 0;
  for (const auto& of_template : all.at("expected").as_object()) {
    const auto jinja = compiled(of_template.key());
    const auto habits = engine::learn_habits(jinja, special_tokens);
    for (const auto& kind : of_template.value().as_object()) {
      const std::string name = std::string(of_template.key()) + ", " + std::string(kind.key());
      auto messages = read_messages(all.at("kinds").at(kind.key()));
      BOOST_TEST_REQUIRE(messages.has_value(), name << ": " << (messages ? "" : messages.error().message));
      engine::adapt_messages(*messages, habits);
      const json::object variables{{"messages", *messages},
                                   {"tools", all.at("tools")},
                                   {"documents", nullptr},
                                   {"add_generation_prompt", true}};
      const auto got = jinja.render(variables, oracle_now(), special_tokens);
      BOOST_TEST(as_expected(got, kind.value().as_object()), name << ": " << outcome(got));
      BOOST_TEST(!kind.value().as_object().contains("error"), name << " is no template's own refusal");
      texts += got.has_value() ? 1 : 0;
    }
  }
  BOOST_TEST(all.at("expected").as_object().size() >= 19U);
  BOOST_TEST(texts >= 550U);
}

engine::message_habits habits_of(std::string_view source) {
  return engine::learn_habits(engine::chat_template::compile(source).value(), special_tokens);
}

BOOST_AUTO_TEST_CASE(habits_of_templates_that_are_stricter) {
  const std::string calls = "{% for m in messages %}{% for c in m.tool_calls or [] %}";
  const std::string end = "{% endfor %}{% endfor %}";
  const auto easy = habits_of(calls + "{{ c.function.arguments | tojson }}" + end);
  BOOST_TEST((!easy.null_content && !easy.text_arguments && easy.any_text && !easy.short_ids));
  const auto null =
      habits_of(calls + "{% if m.content is none %}{{ c.function.arguments }}{% endif %}" + end);
  BOOST_TEST((null.null_content && !null.text_arguments));
  const auto text = habits_of(calls + "{{ 'a: ' + c.function.arguments }}" + end);
  BOOST_TEST((text.text_arguments && text.any_text && !text.null_content));
  const auto object =
      habits_of(calls + "{% for k, v in c.function.arguments.items() %}{{ v }}{% endfor %}" + end);
  BOOST_TEST((!object.any_text && !object.text_arguments));
  const auto ids =
      habits_of(calls + "{% if c.id | length != 9 %}{{ raise_exception('ids') }}{% endif %}" + end);
  BOOST_TEST(ids.short_ids);
  const auto parted =
      habits_of("{% for m in messages %}<|{{ m.role }}|>{{ m.metadata }}\n{{ m.content }}{% endfor %}");
  BOOST_TEST((parted.metadata_calls && !parted.null_content && !parted.text_arguments && parted.any_text));
  BOOST_TEST(!easy.metadata_calls);
  const auto words = habits_of("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}");
  BOOST_TEST(!words.metadata_calls);
  const auto none = habits_of("{{ raise_exception('never') }}");
  BOOST_TEST((!none.null_content && !none.text_arguments && none.any_text && !none.short_ids));
}

std::vector<std::string> ids_of(const json::array& messages) {
  std::vector<std::string> out;
  for (const auto& m : messages) {
    if (const auto* id = m.as_object().if_contains("tool_call_id")) out.emplace_back(id->as_string());
    if (const auto* calls = m.as_object().if_contains("tool_calls")) {
      for (const auto& c : calls->as_array()) out.emplace_back(c.at("id").as_string());
    }
  }
  return out;
}

BOOST_AUTO_TEST_CASE(foreign_ids_become_the_same_nine_characters_every_time) {
  const auto turn = [](std::initializer_list<std::string> ids) {
    json::array out;
    for (const std::string& id : ids) {
      const json::object call{{"id", id},
                              {"function", json::object{{"name", "f"}, {"arguments", json::object()}}}};
      out.push_back(json::object{{"role", "assistant"}, {"content", ""}, {"tool_calls", json::array{call}}});
      out.push_back(json::object{{"role", "tool"}, {"content", ""}, {"tool_call_id", id}});
    }
    return out;
  };
  engine::message_habits habits;
  habits.short_ids = true;
  auto one = turn({"call_1", "abcdef123", "call_2"});
  engine::adapt_messages(one, habits);
  const auto ids = ids_of(one);
  BOOST_TEST_REQUIRE(ids.size() == 6U);
  for (const auto& id : ids) {
    BOOST_TEST(id.size() == 9U);
    BOOST_TEST(id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789") == std::string::npos);
  }
  BOOST_TEST((ids[0] == ids[1] && ids[2] == "abcdef123" && ids[4] == ids[5] && ids[0] != ids[4]));
  auto later = turn({"call_2"});  // whatever comes before it
  engine::adapt_messages(later, habits);
  BOOST_TEST(ids_of(later)[0] == ids[4]);
  auto taken = turn({"call_1", ids[0]});  // a client's own id that is what another becomes
  engine::adapt_messages(taken, habits);
  BOOST_TEST((ids_of(taken)[2] == ids[0] && ids_of(taken)[0] != ids[0]));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
