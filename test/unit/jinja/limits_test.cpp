// What a hostile or broken template may not do: every limit, every malformed source, and the values' own
// bounds.
#include <boost/test/unit_test.hpp>

#include "test/unit/jinja/render_case.hpp"

using namespace orcd;
using namespace orcd::test;
namespace json = boost::json;

namespace {

std::string refusal(std::string_view text, const json::object& variables = {},
                    const engine::template_limits& limits = {}) {
  const auto got = render(text, variables, limits);
  BOOST_REQUIRE_MESSAGE(!got.has_value(), "was rendered: " << text);
  BOOST_TEST((got.error().code == engine::errc::invalid_request));
  return got.error().message;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::string repeated(std::string_view part, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += part;
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(limits)

BOOST_AUTO_TEST_CASE(source_bytes) {
  engine::template_limits limits;
  limits.source_bytes = 10;
  BOOST_TEST(render("0123456789", {}, limits).has_value());
  BOOST_TEST(has(refusal("0123456789a", {}, limits), "11 bytes, over the limit of 10"));
}

BOOST_AUTO_TEST_CASE(a_template_appends_to_lists_of_its_own_alone) {
  const json::object variables{{"given", json::array{1, 2}}};
  const auto shown = [&](std::string_view text) { return outcome(render(text, variables)); };
  BOOST_TEST(
      shown("{% set l = [] %}{% for i in range(9) %}{% set _ = l.append(i) %}{% endfor %}{{ l|tojson }}") ==
      "[0, 1, 2, 3, 4, 5, 6, 7, 8]");
  BOOST_TEST(shown("{% set l = [1] %}{% for i in l %}{% set _ = l.append(i) %}{% endfor %}{{ l }}") ==
             "[1, 1]");
  BOOST_TEST(shown("{% set a = [1] %}{% set b = a.copy() %}{% set _ = b.append(2) %}{{ a }}{{ b }}") ==
             "[1][1, 2]");
  BOOST_TEST(shown("{% set a = given|list %}{% set _ = a.append(3) %}{{ given }}{{ a }}") ==
             "[1, 2][1, 2, 3]");
  BOOST_TEST(shown("{% set a = given[:1] %}{% set _ = a.append(3) %}{{ given }}{{ a }}") == "[1, 2][1, 3]");
  BOOST_TEST(shown("{% set a = given + [3] %}{% set _ = a.append(4) %}{{ a }}") == "[1, 2, 3, 4]");
  BOOST_TEST(has(refusal("{{ given.append(3) }}", variables), "a template may not change a list"));
  BOOST_TEST(has(refusal("{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}"), "nests deeper"));
  BOOST_TEST(has(refusal("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}"), "nests deeper"));
  engine::template_limits limits;
  limits.work = 2'000'000;
  BOOST_TEST(has(refusal("{% set l = [] %}{% for i in range(9999) %}{% for j in range(9999) %}"
                         "{% set _ = l.append(j) %}{% endfor %}{% endfor %}",
                         {}, limits),
                 "more work"));
}

BOOST_AUTO_TEST_CASE(what_a_filter_gives_is_written_as_a_list) {
  BOOST_TEST(outcome(render("{{ [{'a': 1}, {'a': 2}]|map(attribute='a')|tojson }}", {})) == "[1, 2]");
}

BOOST_AUTO_TEST_CASE(output_bytes) {
  engine::template_limits limits;
  limits.output_bytes = 10;
  BOOST_TEST(outcome(render("{{ 'abcde' * 2 }}", {}, limits)) == "abcdeabcde");
  BOOST_TEST(has(refusal("{{ 'abcde' * 2 }}x", {}, limits), "more than the limit of 10 bytes"));
  BOOST_TEST(has(refusal("{% set x %}{{ 'abcde' * 3 }}{% endset %}", {}, limits), "limit of 10 bytes"));
}

BOOST_AUTO_TEST_CASE(work) {
  engine::template_limits limits;
  limits.work = 2'000'000;
  BOOST_TEST(has(
      refusal("{% set r = range(999) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}", {}, limits),
      "more work than the limit of 2000000 units"));
  // Text that doubles, looked at again and again: charged by its bytes.
  const std::string doubling =
      "{% set ns = namespace(s='ab') %}{% for i in range(20) %}{% set ns.s = ns.s + ns.s %}"
      "{% endfor %}{% for i in range(9999) %}{% set x = 'c' in ns.s %}{% endfor %}";
  BOOST_TEST(has(refusal(doubling, {}, limits), "more work than the limit"));
  BOOST_TEST(has(refusal("{{ (range(9999)|list)|unique|list|length }}", {}, limits), "more work"));
}

BOOST_AUTO_TEST_CASE(many_names_are_charged) {
  engine::template_limits limits;
  std::string source;
  for (int i = 0; i < 20'000; ++i) source += "{% set v" + std::to_string(i) + " = 1 %}";
  BOOST_TEST(engine::chat_template::compile(source, limits).has_value());
  BOOST_TEST(has(refusal(source, {}, limits), "more work than the limit of 100000000 units"));
}

BOOST_AUTO_TEST_CASE(memory) {
  const engine::template_limits limits;
  BOOST_TEST(has(refusal("{{ 'a' * 9223372036854775807 }}", {}, limits), "more memory than the limit"));
  BOOST_TEST(has(refusal("{{ [1, 2] * 4611686018427387904 }}", {}, limits), "more memory than the limit"));
  BOOST_TEST(has(refusal("{{ 'a'.zfill(9223372036854775807) }}", {}, limits), "limit"));
  BOOST_TEST(has(refusal("{{ 'a'.center(9223372036854775807) }}", {}, limits), "limit"));
  BOOST_TEST(has(refusal("{{ 'a'.rjust(-9223372036854775807 - 1) }}{{ 'x'.ljust(99999999) }}", {}, limits),
                 "limit"));
  BOOST_TEST(has(
      refusal(
          "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
          {}, limits),
      "limit"));
  BOOST_TEST(has(
      refusal(
          "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
          {}, limits),
      "limit"));
  // The text of a list that holds one large text many times.
  BOOST_TEST(has(refusal("{{ (['a' * 9000000] * 900)|string|length }}", {}, limits), "limit"));
  BOOST_TEST(has(refusal("{{ ['a' * 9000000] * 900 }}", {}, limits), "limit"));
  BOOST_TEST(has(refusal("{{ ('a' * 9000).replace('', 'b' * 90000)|length }}", {}, limits), "limit"));
}

BOOST_AUTO_TEST_CASE(depth) {
  const engine::template_limits limits;
  BOOST_TEST(has(refusal("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", {}, limits),
                 "nests deeper than the limit"));
  BOOST_TEST(has(refusal("{{ " + repeated("1 + ", 2'000) + "1 }}", {}, limits), "nests deeper"));
  const std::string nest =
      "{% set ns = namespace(l=[]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}";
  BOOST_TEST(has(refusal(nest + "{{ ns.l }}", {}, limits), "nests deeper"));
  BOOST_TEST(has(refusal(nest + "{{ ns.l|tojson }}", {}, limits), "nests deeper"));
  BOOST_TEST(
      has(refusal(nest + "{% set a = ns.l %}" + nest + "{{ ns.l == a }}", {}, limits), "nests deeper"));
  BOOST_TEST(has(refusal(nest + "{% set a = ns.l %}" + nest + "{{ ns.l < a }}", {}, limits), "nests deeper"));
  BOOST_TEST(
      has(refusal("{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns }}", {}, limits), "nests deeper"));
  json::value deep = json::array();
  for (int i = 0; i < 2'000; ++i) deep = json::array({std::move(deep)});
  BOOST_TEST(has(refusal("{{ deep }}", {{"deep", std::move(deep)}}, limits), "nests deeper"));
}

BOOST_AUTO_TEST_CASE(nesting_of_the_source) {
  constexpr std::size_t n = 50'000;
  const auto enclosed = [](std::string_view open, std::string_view close) {
    return "{{ " + repeated(open, n) + "1" + repeated(close, n) + " }}";
  };
  for (const std::string& source :
       {enclosed("(", ")"), enclosed("[", "]"), enclosed("{1:", "}"), enclosed("-", ""), enclosed("not ", ""),
        enclosed("a[", "]"), enclosed("a(", ")"), enclosed("x|f(", ")"), enclosed("x is eq (", ")"),
        enclosed("1 if 1 else ", ""), enclosed("1 + (", ")"), repeated("{% if 1 %}", n),
        "{% set " + repeated("(", n) + "a" + repeated(")", n) + " = 1 %}"}) {
    BOOST_TEST(has(refusal(source), "deeper than the limit of 120"), source.substr(0, 20));
  }
}

BOOST_AUTO_TEST_CASE(integers_stay_in_their_bits) {
  for (const char* source :
       {"{{ 9223372036854775807 + 1 }}", "{{ -9223372036854775807 - 2 }}", "{{ 4611686018427387904 * 2 }}",
        "{{ 10 ** 19 }}", "{{ -(-9223372036854775807 - 1) }}", "{{ (-9223372036854775807 - 1) // -1 }}",
        "{{ (-9223372036854775807 - 1)|abs }}", "{{ [9223372036854775807, 1]|sum }}"}) {
    BOOST_TEST(has(refusal(source), "does not fit 64 bits"), source);
  }
  BOOST_TEST(has(refusal("{{ 9223372036854775808 }}"), "is not an integer of 64 bits"));
  BOOST_TEST(
      outcome(render("{{ (-9223372036854775807 - 1) % -1 }} {{ 'abc'[::-9223372036854775807 - 1] }} "
                     "{{ 'abc'[-9223372036854775807 - 1:9223372036854775807] }} {{ 1 ** 999999999999 }}",
                     {})) == "0 c abc 1");
  BOOST_TEST(has(refusal("{{ range(-9223372036854775807, 9223372036854775807)|list }}"), "limit of 100000"));
}

BOOST_AUTO_TEST_CASE(malformed_sources_name_the_line) {
  BOOST_TEST(has(refusal("a\nb\n{{ 1 + }}"), "line 3: expected an expression, found the end of the tag"));
  BOOST_TEST(has(refusal("a\n{% if true %}\n"), "line 2: expected 'elif', found the end of the template"));
  BOOST_TEST(has(refusal("\n{% nosuch %}"), "line 2: unknown tag 'nosuch'"));
  BOOST_TEST(has(refusal("\n\n{{ \"abc }}"), "line 3: a string has no end"));
  BOOST_TEST(has(refusal("{{ \"\\ud800\" }}"), "an escape in a string"));
  BOOST_TEST(has(refusal("{% for x in y recursive %}{% endfor %}"), "recursive loops are not supported"));
  BOOST_TEST(has(refusal("ab\xFF"), "is not UTF-8 at byte 2"));
  BOOST_TEST(has(refusal("a\n{{ b.c }}"), "line 2: 'b' is undefined"));
  BOOST_TEST(has(refusal("a\n{{ 1|nosuch }}"), "line 2: no filter named 'nosuch'"));
  BOOST_TEST(has(refusal("{{ [].extend([1]) }}"), "a template may not change a list"));
  BOOST_TEST(!refusal("{{ (1,).append(1) }}").empty());
  const auto raised = render("{{ raise_exception('no ' ~ 1) }}", {});
  BOOST_TEST(outcome(raised) == "error messages: no 1");
  const auto long_text = render("{{ raise_exception('\u3001' * 100000) }}", {});
  BOOST_TEST(long_text.error().message == repeated("\u3001", 1'365));  // whole characters within 4,096 bytes
}

/// Every beginning of a template that uses everything either parses or is refused.
BOOST_AUTO_TEST_CASE(every_prefix_of_a_template_ends) {
  const std::string source = read_data("templates/openai-gpt-oss-120b.jinja");
  const auto scenarios = json::parse(read_data("scenarios.json"));
  for (std::size_t size = 0; size < source.size(); size += 7) {
    const auto got = render(std::string_view(source).substr(0, size), scenarios.at("tools").as_object());
    BOOST_TEST_REQUIRE((got.has_value() || !got.error().message.empty()));
  }
}

BOOST_AUTO_TEST_CASE(mentioned_variables) {
  const auto compiled = engine::chat_template::compile("{% if tools %}{{ a.documents }}{% endif %}");
  BOOST_REQUIRE(compiled.has_value());
  BOOST_TEST(compiled->mentions("tools"));
  BOOST_TEST(!compiled->mentions("documents"));
}

BOOST_AUTO_TEST_SUITE_END()
