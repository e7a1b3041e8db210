// What a rendering costs is counted, and the count is true: whatever a template does until it is refused
// takes about as long. Prints what each kind takes (--log_level=message).
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <string_view>

#include "engine/conversation/chat_format.hpp"
#include "engine/jinja/template_interpreter.hpp"
#include "engine/jinja/template_parser.hpp"
#include "test/support/thread_time.hpp"
#include "test/unit/jinja/render_case.hpp"
#include "test/unit/jinja/work_hogs.hpp"

using namespace orcd;
using namespace orcd::test;
namespace json = boost::json;
namespace jinja = orcd::engine::jinja;

namespace {

// On the machine that the units were measured on it is 1 to 1.5; sanitizers, other machines and what shares a
// core with the test make it more. What is not charged for takes thousands.
constexpr double most_ns_a_unit = 60;
constexpr double spare_ms = 200;  // a rendering's own memory, up to its limit, is taken once

struct measured {
  std::uint64_t work = 0;
  double ms = 0;
  bool refused = false;
  std::string outcome;
};

std::shared_ptr<const jinja::program> parsed(std::string_view source) {
  jinja::work_meter unlimited(UINT64_MAX);
  return jinja::parse(source, {}, unlimited);
}

measured rendering(std::string_view source, const json::object& variables = {},
                   std::uint64_t most_work = engine::template_limits{}.work) {
  measured out;
  const auto program = parsed(source);
  const double begun = cpu_ms();
  {
    jinja::interpreter interpreter(*program, oracle_now(), most_work);
    try {
      std::vector<engine::text_range> callers;
      out.outcome = interpreter.run(variables, {}, callers);
    } catch (const jinja::template_failure& failure) {
      out.refused = failure.out_of_work;
      out.outcome = failure.text();
    }
    out.work = interpreter.work();
  }
  out.ms = cpu_ms() - begun;
  return out;
}

void check(std::string_view kind, const measured& got, std::uint64_t most_work) {
  // What could not be charged any more was not done.
  const std::uint64_t work = got.refused ? most_work : got.work;
  BOOST_TEST(got.work <= most_work, kind << ": " << got.work);
  BOOST_TEST(got.ms < spare_ms + static_cast<double>(work) * 1e-6 * most_ns_a_unit,
             kind << ": " << got.ms << " ms");
  BOOST_TEST_MESSAGE(kind << ": " << work << " units, " << got.ms << " ms, "
                          << got.ms * 1e6 / static_cast<double>(work) << " ns a unit, "
                          << got.outcome.substr(0, 50));
}

/// `begin`, as many `part`s as a source has room for, `end`; each # of a part is another number of six
/// digits.
std::string largest_source(std::string_view begin, std::string_view part, std::string_view end) {
  const engine::template_limits limits;
  std::string out(begin);
  for (std::size_t i = 0; out.size() + part.size() + end.size() + 6 <= limits.source_bytes; ++i) {
    for (const char c : part) {
      if (c == '#') {
        out += std::to_string(100'000 + i);
      } else {
        out += c;
      }
    }
  }
  return out.append(end);
}

/// As many entries whose keys begin with `prefix`.
json::object many_entries(std::size_t count, const std::string& prefix) {
  json::object out;
  for (std::size_t i = 0; i < count; ++i) out.emplace(prefix + std::to_string(100'000 + i), 1);
  return out;
}

/// 200 messages with a megabyte of text, and tools.
json::object long_chat() {
  const auto scenarios = json::parse(read_data("scenarios.json"));
  json::object chat = scenarios.at("long").as_object();
  chat["tools"] = scenarios.at("tools").at("tools");
  std::string content;
  while (content.size() < (1U << 20U) / 200)
    content += "The quick <b>fox</b> {\"a\": 1}\nna\xC3\xAFve, again. ";
  json::array messages;
  for (int i = 0; i < 200; ++i) {
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", content}});
  }
  chat["messages"] = std::move(messages);
  return chat;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(work)

BOOST_AUTO_TEST_CASE(what_is_charged_is_what_it_takes) {
  constexpr std::uint64_t most_work = 20'000'000;
  for (const hog& h : hogs) check(h.kind, rendering(h.source, {}, most_work), most_work);
}

/// Where two things that a caller chooses the number of are multiplied.
BOOST_AUTO_TEST_CASE(products_are_charged) {
  constexpr std::uint64_t most_work = 20'000'000;
  const std::string long_prefix(1'000, 'k');
  const json::object many{{"d", many_entries(20'000, "p")}};
  const json::object long_keys{{"d", many_entries(4'000, long_prefix)}, {"k", long_prefix + "99999"}};
  struct product {
    std::string source;
    const json::object& variables;
  };
  const std::string loop = "{% for i in range(99999) %}";
  for (const auto& [source, variables] : {
           product{largest_source("{% macro m(", "q#,", "p100000) %}{% endmacro %}{{ m(**d) }}"), many},
           product{largest_source("{% if false %}{{ (a", ",b#", ") }}{% endif %}"), many},
           product{largest_source("{% if false %}{{ (a", ",b#", ") }}{% endif %}{{ d|length }}"), many},
           product{"{{ ('{p119999}' * 20000).format(**d) }}", many},
           product{"{% macro m() %}{{ kwargs|length }}{% endmacro %}{{ m(**d) }}", many},
           product{"{% set n = namespace(**d) %}{{ n.p119999 }}", many},
           product{"{{ dict(**d)|length }}", many},
           product{"{{ d == dict(d) }}", many},
           product{loop + "{% set x = d.p119999 %}{% endfor %}", many},
           product{loop + "{% set x = d.get('p119999') %}{% endfor %}", many},
           product{loop + "{% set x = 7 in d %}{% endfor %}", many},
           product{loop + "{% set x = d|items|list %}{% endfor %}", many},
           product{loop + "{% set x = d|dictsort %}{% endfor %}", many},
           product{loop + "{% set x = d|tojson(sort_keys=true) %}{% endfor %}", many},
           product{loop + "{% set x = k in d %}{% endfor %}", long_keys},
           product{loop + "{% set x = d[k] %}{% endfor %}", long_keys},
           product{loop + "{% set x = d|list|sort %}{% endfor %}", long_keys},
           product{"{% set n = namespace(**d) %}" + loop + "{% set x = n[k] %}{% endfor %}", long_keys},
       }) {
    check(source.substr(source.size() - std::min<std::size_t>(source.size(), 50)),
          rendering(source, variables, most_work), most_work);
  }
}

BOOST_AUTO_TEST_CASE(the_largest_sources_take_what_is_charged) {
  const auto format = engine::chat_format::make("a", {}).value();
  for (const source_hog& h : source_hogs) {
    const std::string source = largest_source(h.begin, h.part, h.end);
    const engine::template_limits limits;
    jinja::work_meter meter(limits.work);
    measured got;
    const double begun = cpu_ms();
    try {
      meter.charge(jinja::cost::source(source.size()));
      (void)jinja::parse(source, limits, meter);
    } catch (const jinja::template_failure& failure) {
      got.refused = failure.out_of_work;
      got.outcome = failure.text();
    }
    (void)format.with_template(source);  // once more, with what a format does besides
    got.ms = (cpu_ms() - begun) / 2;
    got.work = meter.spent();
    check(std::string(h.begin) + h.part, got, limits.work);
    BOOST_TEST(!format.with_template_quickly(source).has_value());
  }
}

BOOST_AUTO_TEST_CASE(a_long_chat_takes_a_small_part) {
  const auto names = json::parse(read_data("expected.json"));
  const json::object chat = long_chat();
  const auto scenarios = json::parse(read_data("scenarios.json"));
  const engine::template_limits limits;
  for (const auto& entry : names.as_object()) {
    const std::string name(entry.key());
    const std::string source = read_data("templates/" + name + ".jinja");
    const measured got = rendering(source, chat);
    const measured small = rendering(source, scenarios.at("long").as_object());
    BOOST_TEST(got.outcome.size() > (1U << 20U), name << ": " << got.outcome.substr(0, 100));
    // One template looks at all messages before each.
    const unsigned part = name == "google-gemma-4-31B-it" ? 5 : 20;
    BOOST_TEST(got.work < limits.work / part, name << ": " << got.work);
    BOOST_TEST(small.work < limits.quick_work / 2, name << ": " << small.work);
    jinja::work_meter meter(limits.work);
    meter.charge(jinja::cost::source(source.size()));
    const auto program = jinja::parse(source, limits, meter);
    BOOST_TEST(meter.spent() < limits.quick_work, name << ": " << meter.spent());
    BOOST_TEST_MESSAGE(name << ": " << got.work << " units, " << got.ms << " ms; of 20 messages "
                            << small.work << "; to compile " << meter.spent());
  }
}

BOOST_AUTO_TEST_CASE(the_same_work_every_time) {
  const json::object chat = long_chat();
  const std::string source = read_data("templates/openai-gpt-oss-120b.jinja");
  const std::uint64_t once = rendering(source, chat).work;
  BOOST_TEST(rendering(source, chat).work == once);
  // With just enough there is the whole text, with one unit less there is none.
  BOOST_TEST(rendering(source, chat, once).outcome.size() > (1U << 20U));
  BOOST_TEST(rendering(source, chat, once - 1).refused);
}

BOOST_AUTO_TEST_CASE(quick_renderings) {
  engine::template_limits limits;
  const auto chat = json::parse(read_data("scenarios.json")).at("long").as_object();
  const auto compiled = engine::chat_template::compile(read_data("templates/Qwen-Qwen3-0.6B.jinja"), limits);
  const auto quick = compiled->render_quickly(chat, oracle_now());
  BOOST_TEST_REQUIRE(quick.has_value());
  BOOST_TEST(outcome(*quick) == outcome(compiled->render(chat, oracle_now())));
  // What takes too long for it has its text all the same.
  BOOST_TEST(!compiled->render_quickly(long_chat(), oracle_now()).has_value());
  BOOST_TEST(compiled->render(long_chat(), oracle_now()).has_value());
  // An error is told at once; too much work is one only where there is no more of it.
  const auto raises = engine::chat_template::compile("{{ raise_exception('no') }}", limits);
  BOOST_TEST(outcome(*raises->render_quickly({})) == "error messages: no");
  limits.work = limits.quick_work;
  const auto bomb = engine::chat_template::compile("{% for i in range(99999) %}{{ i }}{% endfor %}", limits);
  BOOST_TEST(
      outcome(*bomb->render_quickly({})) ==
      "error chat_template: chat template, line 1: the chat template takes more work than the limit of "
      "1000000 units");
}

BOOST_AUTO_TEST_CASE(quick_compilations) {
  const std::string source = read_data("templates/openai-gpt-oss-120b.jinja");
  const auto quick = engine::chat_template::compile_quickly(source);
  BOOST_TEST_REQUIRE(quick.has_value());
  BOOST_TEST(quick->has_value());
  BOOST_TEST(outcome(engine::chat_template::compile_quickly("{{")->error()) ==
             outcome(engine::chat_template::compile("{{").error()));
  BOOST_TEST(!engine::chat_template::compile_quickly(std::string(100'000, 'a')).has_value());
}

BOOST_AUTO_TEST_CASE(quick_formats) {
  const auto format = engine::chat_format::make("{{ bos_token }}{{ x }}", {{"bos_token", "<s>"}}).value();
  BOOST_TEST(format.render_quickly({{"x", 1}})->value().text == "<s>1");
  BOOST_TEST(format.render({{"x", 1}, {"bos_token", "own"}}).value().text == "own1");
  const auto other =
      format.with_template_quickly("{{ bos_token }}{% for i in range(99999) %}{{ i }}{% endfor %}");
  BOOST_TEST_REQUIRE(other.has_value());
  BOOST_TEST(!(*other)->render_quickly({}).has_value());
  BOOST_TEST((*other)->render({}).value().text.starts_with("<s>0123"));
  BOOST_TEST(!format.with_template_quickly(std::string(100'000, 'a')).has_value());
}

/// However much there is to do, the quick ones stop.
BOOST_AUTO_TEST_CASE(quick_is_quick) {
  const std::uint64_t most_work = engine::template_limits{}.quick_work;
  for (const hog& h : hogs) {
    const measured got = rendering(h.source, {}, most_work);
    BOOST_TEST(got.ms < 100, h.kind << ": " << got.ms << " ms");
    if (got.ms > 2) BOOST_TEST_MESSAGE(h.kind << " quickly: " << got.ms << " ms");
  }
}

BOOST_AUTO_TEST_SUITE_END()
