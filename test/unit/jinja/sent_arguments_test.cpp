// Arguments in the spelling of the client: whole, cut anywhere, and no JSON at all.
#include <boost/test/unit_test.hpp>

#include "engine/jinja/template_limits.hpp"
#include "test/unit/jinja/render_case.hpp"

namespace orcd {
namespace {

namespace json = boost::json;

std::string rendered(std::string_view source, std::string_view sent) {
  const json::object function{{"name", "f"}, {"arguments", json::object()}, {engine::sent_arguments, sent}};
  return test::outcome(test::render(source, {{"function", function}}));
}
std::string as_json(std::string_view sent) {
  return rendered("{{ function.arguments | tojson }}", sent);
}
std::string items(std::string_view sent) {
  return rendered("{% for k, v in function.arguments | items %}{{ k }}={{ v }};{% endfor %}", sent);
}

BOOST_AUTO_TEST_SUITE(sent_arguments)

BOOST_AUTO_TEST_CASE(json_is_what_was_sent) {
  for (const std::string sent :
       {R"({"x": 0.10, "n": 12345678901234567890123, "e": 1E+2})", R"({"a":[1,2] , "b" :"\u00fc"})", R"({})",
        R"({"a": 1, "a": 2})", "{\n  \"a\": {\"b\": null}\n}"}) {
    BOOST_TEST(as_json(sent) == sent);
    BOOST_TEST(as_json(" " + sent + "\n") == sent);
    BOOST_TEST(rendered("{{ function | tojson }}", sent) == R"({"name": "f", "arguments": )" + sent + "}");
  }
}

BOOST_AUTO_TEST_CASE(values_are_what_they_say) {
  BOOST_TEST(items(R"({"x": 0.10, "n": -0, "l": [1.50, "a"], "t": true, "s": "\u00fc\n\ud83d\ude00"})") ==
             "x=0.10;n=-0;l=[1.50, 'a'];t=True;s=ü\n\U0001F600;");
  const std::string sent = R"({"x": 0.10, "y": 3, "o": {"k": [2.50]}})";
  BOOST_TEST(rendered("{{ function.arguments.x * 2 }} {{ function.arguments.y + 1 }}", sent) == "0.2 4");
  BOOST_TEST(rendered("{{ function.arguments.o | tojson }} {{ function.arguments.o.k[0] }}", sent) ==
             R"({"k": [2.50]} 2.50)");
  BOOST_TEST(rendered("{{ function.arguments is mapping }}{{ function | length }}", sent) == "True2");
}

BOOST_AUTO_TEST_CASE(another_style_is_the_templates_own) {
  const std::string sent = R"({"b":0.10,"a":"ü"})";
  BOOST_TEST(rendered("{{ function.arguments | tojson(indent=1) }}", sent) ==
             "{\n \"b\": 0.10,\n \"a\": \"ü\"\n}");
  BOOST_TEST(rendered("{{ function.arguments | tojson(sort_keys=true) }}", sent) ==
             R"({"a": "ü", "b": 0.10})");
  BOOST_TEST(rendered("{{ function.arguments | tojson(ensure_ascii=true) }}", sent) ==
             R"({"b": 0.10, "a": "\u00fc"})");
}

BOOST_AUTO_TEST_CASE(what_was_cut_is_an_object_of_what_has_come) {
  const std::string whole = R"({"a": "x\u00e9\ud83d\ude00\"y", "l": [1, {"k": "z"}], "t": true, "n": 1.5e3})";
  for (std::size_t size = 1; size < whole.size(); ++size) {
    const std::string sent = whole.substr(0, size);
    const std::string shown = as_json(sent);
    BOOST_TEST(whole.starts_with(shown));
    BOOST_TEST((shown == sent || shown + " " == sent), sent);
    BOOST_TEST(rendered("{{ function.arguments is mapping }}", sent) == "True");
    BOOST_TEST(!items(sent).starts_with("arguments"), sent);
  }
  BOOST_TEST(items(R"({"a": "x\u00)") == "a=x;");
  BOOST_TEST(items(R"({"a": "x\ud83d\ude)") == "a=x;");
  BOOST_TEST(items(R"({"a": "x\)") == "a=x;");
  BOOST_TEST(items(R"({"a": 1, "b": tr)") == "a=1;");
  BOOST_TEST(items(R"({"a": 1, "b")") == "a=1;");
  BOOST_TEST(items(R"({"a": [1, 2)") == "a=[1, 2];");
}

BOOST_AUTO_TEST_CASE(what_is_no_json_stays_text) {
  const std::string deep = "{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}";
  for (const std::string& sent :
       {std::string(R"({"a": 1} x)"), std::string("{a: 1}"), std::string(R"({"a" 1})"),
        std::string(R"({"a": 1,, "b": 2})"), std::string(R"({"a": "\x"})"), std::string(R"({"a": truth})"),
        std::string("{\"a\": +}"), deep}) {
    BOOST_TEST(as_json(sent) == sent);
    BOOST_TEST(items(sent) == "arguments=" + sent + ";");
  }
  BOOST_TEST(items(R"({"a": "\ud83d!"})") == "a=\xEF\xBF\xBD!;");  // half a pair
}

BOOST_AUTO_TEST_CASE(it_is_the_callers_text) {
  const auto compiled =
      engine::chat_template::compile("<a>{{ f.arguments | tojson }}<b>{{ f.arguments.x }}").value();
  const json::object function{{"arguments", json::object()}, {engine::sent_arguments, R"({"x": "<b>\n"})"}};
  std::vector<engine::text_range> callers;
  const auto text = compiled.render({{"f", function}}, test::oracle_now(), {}, &callers);
  BOOST_TEST_REQUIRE(text.has_value());
  BOOST_TEST(*text == "<a>{\"x\": \"<b>\\n\"}<b><b>\n");
  BOOST_TEST_REQUIRE(callers.size() == 2U);
  BOOST_TEST(
      (callers[0].from == 3U && callers[0].size == 14U && callers[1].from == 20U && callers[1].size == 4U));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd
