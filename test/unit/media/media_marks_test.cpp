// Pictures on their way through chat templates, and into a prompt's tokens.
#include "engine/conversation/media_marks.hpp"

#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <string>

using namespace orcd::engine;
namespace json = boost::json;

namespace {

constexpr std::string_view listing =
    "{% for m in messages %}[{{ m.role }}]{% for part in m.content %}{% if part.type == 'text' %}{{ "
    "part.text }}"
    "{% elif part.type == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}{% endfor %}";
constexpr std::string_view joining = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";

chat_format format_of(std::string_view text) {
  return chat_format::make(text, {}).value();
}

struct prompt_of {
  prompt_of(std::string_view text, const std::string& content, std::vector<std::string> pictures)
      : format(format_of(text)), habits(learn_part_habits(format, "<image>", "image")) {
    json::array messages{json::object{{"role", "system"}, {"content", "Say <image>"}},
                         json::object{{"role", "user"}, {"content", filled(content)}}};
    marks.spread(messages, habits);
    made = format.render({{"messages", std::move(messages)}}).value();
    put = marks.put(made, pictures, habits, "<image>");
  }

  /// '0', '1' become marks and '|' what stands between parts.
  [[nodiscard]] std::string filled(const std::string& content) const {
    std::string out;
    for (const char c : content) {
      if (c == '|')
        out += marks.between();
      else if (c >= '0' && c <= '9')
        out += marks.mark(static_cast<std::size_t>(c - '0'));
      else
        out += c;
    }
    return out;
  }
  /// The request's own text, in braces.
  [[nodiscard]] std::string shown() const {
    std::string out = made.text;
    for (auto part = made.callers.rbegin(); part != made.callers.rend(); ++part) {
      out.insert(part->from + part->size, "}");
      out.insert(part->from, "{");
    }
    return out;
  }

  chat_format format;
  part_habits habits;
  media_marks marks{"image"};
  rendered_prompt made;
  result<void> put = {};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(picture_places)

BOOST_AUTO_TEST_CASE(a_template_is_asked_what_it_takes) {
  const auto lists = learn_part_habits(format_of(listing), "<image>", "image");
  BOOST_TEST(lists.lists);
  BOOST_TEST(!lists.strings);
  const auto strings = learn_part_habits(format_of(joining), "<image>", "image");
  BOOST_TEST(!strings.lists);
  BOOST_TEST(strings.strings);
  BOOST_TEST(!learn_part_habits(format_of(listing), "<start_of_image>", "image").lists);
}

BOOST_AUTO_TEST_CASE(pictures_stand_where_they_were) {
  const prompt_of lists(listing, "a0b|c1", {"(first)", "(second)"});
  BOOST_REQUIRE(lists.put.has_value());
  BOOST_TEST(lists.made.text == "[system]Say <image>[user]a(first)bc(second)");
  BOOST_TEST(lists.shown() == "[system]{Say <image>}[user]{a}(first){bc}(second)");
  const prompt_of strings(joining, "a0b|c1", {"(first)", "(second)"});
  BOOST_REQUIRE(strings.put.has_value());
  BOOST_TEST(strings.made.text == "[system]Say <image>[user]a(first)b\nc(second)");
  BOOST_TEST(strings.shown() == "[system]{Say <image>}[user]{a}(first){b\nc}(second)");
}

BOOST_AUTO_TEST_CASE(a_placeholder_that_is_spelled_is_no_place) {
  const prompt_of lists(listing, "<image>0<image>", {"(it)"});
  BOOST_REQUIRE(lists.put.has_value());
  BOOST_TEST(lists.made.text == "[system]Say <image>[user]<image>(it)<image>");
}

BOOST_AUTO_TEST_CASE(a_template_that_loses_or_repeats_pictures_is_refused) {
  const prompt_of lost("{% for m in messages %}{{ m.role }}{% endfor %}", "a0", {"(it)"});
  BOOST_REQUIRE(!lost.put.has_value());
  BOOST_TEST(lost.put.error().param == "messages");
  const prompt_of twice("{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}", "a0", {"(it)"});
  BOOST_TEST(!twice.put.has_value());
}

BOOST_AUTO_TEST_CASE(messages_without_pictures_stay_as_they_are) {
  const media_marks marks("image");
  const json::array messages{json::object{{"role", "user"}, {"content", "a\nb"}}};
  json::array spread = messages;
  marks.spread(spread, {.lists = true, .strings = true});
  BOOST_TEST((spread == messages));
  marks.spread(spread, {.lists = true, .strings = false});
  BOOST_TEST(spread[0].at("content").is_array());
}

BOOST_AUTO_TEST_CASE(no_two_requests_have_the_same_marks) {
  BOOST_TEST(media_marks("image").mark(0) != media_marks("image").mark(0));
}

BOOST_AUTO_TEST_CASE(a_sound_is_a_part_of_its_own_kind) {
  const std::string listing_sounds =
      "{% for m in messages %}{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}"
      "{% elif part.type == 'audio' %}{{ '[AUDIO]' }}{% endif %}{% endfor %}{% endfor %}";
  const auto habits = learn_part_habits(format_of(listing_sounds), "[AUDIO]", "audio");
  BOOST_TEST(habits.lists);
  BOOST_TEST(!learn_part_habits(format_of(listing_sounds), "[AUDIO]", "image").lists);
  const media_marks marks("audio");
  json::array messages{json::object{{"role", "user"}, {"content", "a " + marks.mark(0) + " b"}}};
  marks.spread(messages, habits);
  const auto& parts = messages[0].at("content").as_array();
  BOOST_REQUIRE_EQUAL(parts.size(), 3U);
  BOOST_TEST(parts[1].at("type") == json::value("audio"));
  auto made = format_of(listing_sounds).render({{"messages", messages}}).value();
  BOOST_TEST(marks.put(made, {"<rows>"}, habits, "[AUDIO]").has_value());
  BOOST_TEST(made.text == "a <rows> b");
  const auto two = marks.put(made, {"<rows>", "<rows>"}, habits, "[AUDIO]");
  BOOST_REQUIRE(!two.has_value());
  BOOST_TEST(two.error().message.find("have 2 sounds") != std::string::npos);
}

json::array call_with_result(const std::string& result) {
  json::object function{{"name", "look"}, {"arguments", json::object()}};
  json::object call{{"id", "a"}, {"type", "function"}, {"function", std::move(function)}};
  return {json::object{{"role", "user"}, {"content", "Look"}},
          json::object{{"role", "assistant"}, {"content", ""}, {"tool_calls", json::array{std::move(call)}}},
          json::object{{"role", "tool"}, {"tool_call_id", "a"}, {"content", result}}};
}

BOOST_AUTO_TEST_CASE(media_of_results_stay_where_the_template_prints_them_or_become_a_user_s) {
  constexpr std::string_view users_alone =
      "{% for m in messages %}[{{ m.role }}]{% if m.role == 'user' %}{% for part in m.content %}"
      "{% if part.type == 'text' %}{{ part.text }}{% else %}{{ '<image>' }}{% endif %}{% endfor %}"
      "{% else %}{{ m.content }}{% endif %}{% endfor %}";
  for (const auto& [told, stays] : {std::pair{listing, true}, {joining, true}, {users_alone, false}}) {
    // A template that knows calls: of others the results become text.
    constexpr std::string_view calls =
        "]{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}</tool_call>{% endfor %}";
    std::string text(told);
    text.replace(text.find("}}]") + 2, 1, calls);
    const auto format = format_of(text);
    const auto habits = learn_part_habits(format, "<image>", "image");
    BOOST_TEST(habits.results == stays, text);
    const media_marks marks{"image"};
    auto messages = call_with_result("one" + marks.mark(0) + "two" + marks.between() + "three");
    messages.push_back(json::object{{"role", "tool"}, {"tool_call_id", "b"}, {"content", marks.mark(1)}});
    messages.push_back(json::object{{"role", "user"}, {"content", "So?"}});
    marks.lift(messages, habits, "[image]");
    marks.spread(messages, habits);
    auto made = format.render({{"messages", messages}}).value();
    const auto put = marks.put(made, {"(first)", "(second)"}, habits, "<image>");
    BOOST_REQUIRE_MESSAGE(put.has_value(), text);
    if (stays) {
      BOOST_TEST(made.text.find("(first)two") != std::string::npos, made.text);
      BOOST_TEST(made.text.find("[tool](second)") != std::string::npos, made.text);
    } else {
      BOOST_TEST(made.text.ends_with("[tool]one[image]two\nthree[tool][image][user](first)(second)[user]So?"),
                 made.text);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
