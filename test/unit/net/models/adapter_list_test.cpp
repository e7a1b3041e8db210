// What requests may say of LoRA adapters, and what they get.
#include "net/models/adapter_list.hpp"

#include <boost/json/parse.hpp>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>

#include "net/models/model_names.hpp"

namespace orcd::net {
namespace {

served_adapter adapter(std::uint32_t id, std::string name, float scale) {
  served_adapter out;
  out.id = id;
  out.index = id + 10;
  out.name = std::move(name);
  out.digest = "d" + std::to_string(id);
  out.path = "/p/" + out.name;
  out.strength = 0.5F;
  out.scale = scale;
  return out;
}

struct two_adapters {
  shared_adapters list =
      std::make_shared<const adapter_list>(adapter_list{adapter(0, "a", 1.0F), adapter(7, "b", 0.0F)});

  [[nodiscard]] std::string applied(const adapter_choice& choice) const {
    const auto jobs = adapters_of(choice, list);
    if (!jobs) return jobs.error().message;
    std::string out;
    for (const auto& one : *jobs) {
      out += std::to_string(one.index) + one.digest + "*" + std::to_string(one.strength).substr(0, 4) + " ";
    }
    return out;
  }
  [[nodiscard]] std::string asked(const std::string& text) const {
    auto scales = read_adapter_scales("lora", boost::json::parse(text));
    if (!scales) return scales.error().message;
    return applied({nullptr, std::move(*scales)});
  }
};

BOOST_FIXTURE_TEST_SUITE(adapter_lists, two_adapters)

BOOST_AUTO_TEST_CASE(what_a_request_says_is_what_it_gets) {
  BOOST_TEST(applied({}) == "10d0*1.00 ");
  BOOST_TEST(applied({find_adapter(list, "b"), {}}) == "17d7*0.50 ");
  BOOST_TEST(asked("[]").empty());
  BOOST_TEST(asked(R"([{"id":7,"scale":2},{"id":0,"scale":0}])") == "17d7*2.00 ");
  BOOST_TEST(asked(R"([{"id":7,"scale":-0.25},{"id":0,"scale":1}])") == "17d7*-0.2 10d0*1.00 ");
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_named) {
  const std::pair<const char*, const char*> cases[] = {
      {"{}", "'lora' must be an array"},
      {"[1]", "'lora[0]' must be an object"},
      {R"([{"scale":1}])", "'lora[0].id' is missing"},
      {R"([{"id":0}])", "'lora[0].scale' is missing"},
      {R"([{"id":-1,"scale":1}])", "'lora[0].id'"},
      {R"([{"id":0,"scale":101}])", "'lora[0].scale'"},
      {R"([{"id":0,"scale":"1"}])", "'lora[0].scale'"},
      {R"([{"id":0,"scale":1,"x":1}])", "'lora[0].x' is not supported"},
      {R"([{"id":0,"scale":1},{"id":0,"scale":1}])", "'lora[1].id' is 0, which is given twice"},
      {R"([{"id":1,"scale":1}])", "'lora[0].id' is 1, which no LoRA adapter has"}};
  for (const auto& [text, message] : cases) BOOST_TEST(asked(text).find(message) == 0U, asked(text));
  BOOST_TEST(applied({find_adapter(list, "a"), std::vector<adapter_scale>{}}) ==
             "'lora' cannot be beside an adapter's name as 'model'");
}

BOOST_AUTO_TEST_CASE(more_than_a_sequence_may_have_are_refused) {
  adapter_list many;
  std::vector<adapter_scale> scales;
  for (std::uint32_t i = 0; i < 9; ++i) {
    many.push_back(adapter(i, std::to_string(i), 0.0F));
    scales.push_back({i, 1.0F});
  }
  list = std::make_shared<const adapter_list>(many);
  BOOST_TEST(applied({nullptr, scales}) ==
             "'lora' may apply 8 adapters to one request, with these scales there are 9");
  scales[4].scale = 0.0F;
  BOOST_TEST(adapters_of({nullptr, scales}, list)->size() == 8U);
}

BOOST_AUTO_TEST_CASE(who_asked_for_an_adapter_is_known) {
  BOOST_TEST(adapters_of({find_adapter(list, "b"), {}}, list)->front().field == "model");
  BOOST_TEST(adapters_of({nullptr, std::vector<adapter_scale>{{0, 1.0F}}}, list)->front().field == "lora");
}

BOOST_AUTO_TEST_CASE(where_an_adapter_lies_is_not_told) {
  const engine::lora_adapter none;
  for (const char* path : {"/srv/secret/x.gguf", "x.gguf", "./x.gguf", "/srv/x.gguf/", "/srv/x.gguf//"}) {
    BOOST_TEST(describe_adapter("x", path, none).path == "x.gguf");
  }
  BOOST_TEST(describe_adapter("x", "/", none).path == "/");
}

/// Else a client that sends back what it has read would empty the cache.
BOOST_AUTO_TEST_CASE(a_scale_is_read_back_as_it_is) {
  for (const float scale : {0.1234567F, 1.0F / 3.0F, 1e-30F, -99.99999F, 100.0F, 0.0F}) {
    const std::string text = shown_scale(scale);
    BOOST_TEST(static_cast<float>(boost::json::parse(text).to_number<double>()) == scale, text);
  }
  BOOST_TEST(shown_scale(0.5F) == "0.5");
  BOOST_TEST(shown_scale(-0.0F) == "0");
}

BOOST_AUTO_TEST_CASE(a_name_means_the_adapter_before_the_model) {
  engine::worker_identity served;
  served.model_name = "Tiny";
  served.model_file = "tiny-q4";
  BOOST_TEST(find_model(served, list, "b").value()->id == 7U);
  BOOST_TEST(find_model(served, list, "tiny").value() == nullptr);
  BOOST_TEST(find_model(served, list, "B").has_error());
  served.any_model_name = true;
  BOOST_TEST(find_model(served, list, "b").value()->id == 7U);
  BOOST_TEST(find_model(served, list, "c").value() == nullptr);
  BOOST_TEST(names_the_model(served, "org/TINY.gguf"));
  BOOST_TEST(names_the_model(served, "tiny-Q4"));
  BOOST_TEST(!names_the_model(served, "c"));
}

BOOST_AUTO_TEST_CASE(lists_tell_all_that_decides_answers) {
  BOOST_TEST(adapters_json(*list) ==
             R"([{"id":0,"name":"a","path":"/p/a","scale":1},{"id":7,"name":"b","path":"/p/b","scale":0}])");
  BOOST_TEST(adapters_identity({}).empty());
  adapter_list other = *list;
  other[1].scale = 0.5F;
  BOOST_TEST(adapters_identity(other) != adapters_identity(*list));
  other = *list;
  other[0].digest = "d9";
  BOOST_TEST(adapters_identity(other) != adapters_identity(*list));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
