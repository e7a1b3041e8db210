// The identity of answers against the table of options: every option is in it, or says why not.
#include "app/identity/answer_parts.hpp"

#include <boost/test/unit_test.hpp>
#include <map>
#include <set>
#include <string>

#include "app/identity/option_effects.hpp"
#include "app/options/option_table.hpp"

using namespace orcd;

namespace {

/// Another value than the default of each option of the identity.
const std::map<std::string, std::string, std::less<>> other_values{{"max-body-bytes", "4096"},
                                                                   {"cors-origins", "https://a.example"},
                                                                   {"max-prompt-chars", "7"},
                                                                   {"max-tokens-in", "7"},
                                                                   {"max-tokens-out", "7"},
                                                                   {"pooling", "mean"},
                                                                   {"matryoshka", "true"},
                                                                   {"response-store-mib", "7"},
                                                                   {"inference-timeout-sec", "7"},
                                                                   {"allow-request-template", "true"},
                                                                   {"parse-special-in-chat", "true"},
                                                                   {"strict-fields", "true"},
                                                                   {"no-null-usage", "true"},
                                                                   {"deadline-mode", "log"},
                                                                   {"failover-replays", "7"},
                                                                   {"temperature", "0.25"},
                                                                   {"top-k", "7"},
                                                                   {"top-p", "0.5"},
                                                                   {"min-p", "0.5"},
                                                                   {"repeat-penalty", "1.5"},
                                                                   {"presence-penalty", "0.5"},
                                                                   {"frequency-penalty", "-0.5"},
                                                                   {"repeat-last-n", "7"},
                                                                   {"dry-multiplier", "0.5"},
                                                                   {"dry-base", "2.5"},
                                                                   {"dry-allowed-length", "7"},
                                                                   {"dry-penalty-last-n", "7"},
                                                                   {"xtc-probability", "0.25"},
                                                                   {"xtc-threshold", "0.25"},
                                                                   {"typical-p", "0.5"},
                                                                   {"top-n-sigma", "1.5"},
                                                                   {"dynatemp-range", "0.5"},
                                                                   {"dynatemp-exp", "1.5"},
                                                                   {"seed", "7"},
                                                                   {"chat-template-kwargs", R"({"a":1})"},
                                                                   {"reasoning", "off"},
                                                                   {"reasoning-budget", "7"},
                                                                   {"image-max-tokens", "300"},
                                                                   {"image-max-bytes", "2000"},
                                                                   {"image-max-pixels", "2000"},
                                                                   {"audio-max-bytes", "2000"},
                                                                   {"audio-max-seconds", "7"},
                                                                   {"max-images", "7"}};

app::options with(const std::string& name, const std::string& value) {
  app::options out;
  for (const auto& row : app::option_table()) {
    if (row.name != name) continue;
    BOOST_TEST_REQUIRE(!row.assign(value, out).has_value(), name);
  }
  return out;
}

app::answer_facts some_facts() {
  return {4'096, "header", "rope", "tiny", {"tokenizer", "template", "adapters", "projector"}};
}

std::string name_of_difference(const net::answer_identity& a, net::answer_identity b) {
  b.weights = {1, 0, 0};
  auto first = a;
  first.weights = b.weights;
  const auto place = net::difference(first, b);
  return place ? app::name_of_part(*place) : "";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(answer_parts)

BOOST_AUTO_TEST_CASE(every_option_is_in_the_identity_or_says_why_not) {
  std::set<std::string> known;
  std::set<std::string> listed;
  for (const auto& row : app::option_table()) known.insert(row.name);
  for (const auto& row : app::option_effects()) {
    BOOST_TEST(listed.emplace(row.option).second, row.option << " twice");
    const bool decides = row.effect == app::option_effect::identity;
    BOOST_TEST(decides == (row.value != nullptr), row.option);
    BOOST_TEST(decides == row.reason.empty(), row.option);
    BOOST_TEST(decides == other_values.contains(row.option), row.option);
  }
  BOOST_TEST(listed == known, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(another_value_of_such_an_option_is_another_identity_and_is_named) {
  const auto usual = app::answer_identity_of({}, some_facts());
  BOOST_TEST(usual.parts.size() <= net::answer_identity::parts_max);
  for (const auto& [name, value] : other_values) {
    const auto other = app::answer_identity_of(with(name, value), some_facts());
    BOOST_TEST(name_of_difference(usual, other) == "--" + name);
  }
}

BOOST_AUTO_TEST_CASE(an_option_that_decides_nothing_changes_nothing) {
  const auto usual = app::answer_identity_of({}, some_facts());
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"slots", "7"}, {"max-queue", "7"}, {"speculate", "off"}, {"log-level", "error"}}) {
    BOOST_TEST((app::answer_identity_of(with(name, value), some_facts()) == usual), name);
  }
}

BOOST_AUTO_TEST_CASE(what_options_lead_to_is_part_of_it) {
  const auto usual = app::answer_identity_of({}, some_facts());
  const auto named = [&](auto change) {
    auto facts = some_facts();
    change(facts);
    return name_of_difference(usual, app::answer_identity_of({}, facts));
  };
  BOOST_TEST(named([](auto& f) { f.context_tokens = 8'192; }) == "--context");
  BOOST_TEST(named([](auto& f) { f.model_header = "?"; }) == "the model");
  BOOST_TEST(named([](auto& f) { f.rope = "?"; }) == "the RoPE tables");
  BOOST_TEST(named([](auto& f) { f.model_names = "?"; }) == "the model's names (--model-name)");
  BOOST_TEST(named([](auto& f) { f.texts.tokenizer = "?"; }) == "the tokenizer");
  BOOST_TEST(named([](auto& f) { f.texts.chat_template = "?"; }) == "the chat template");
  BOOST_TEST(named([](auto& f) { f.texts.adapters = "?"; }) == "the LoRA adapters");
  BOOST_TEST(named([](auto& f) { f.texts.projector = "?"; }) == "the projector (--mmproj)");
  const auto kv = app::answer_identity_of(with("kv-type-k", "q8_0"), some_facts());
  BOOST_TEST(name_of_difference(usual, kv) == "the arithmetic (--backend, KV types)");
}

BOOST_AUTO_TEST_CASE(pages_are_of_one_context_only_where_the_angles_are_the_same) {
  engine::model model;
  model.spec.layers.resize(2);
  for (auto& layer : model.spec.layers) {
    layer.rope.dims = 8;
    layer.rope.base = 10'000;
    layer.rope.scaling = engine::rope_scaling::linear;
    layer.rope.factor = 2;
  }
  const auto usual = app::rope_digest(model, 4'096);
  BOOST_TEST(app::rope_digest(model, 8'192) == usual);
  model.spec.layers[1].rope.factor = 4;  // as YaRN without a factor has it for a longer context
  BOOST_TEST(app::rope_digest(model, 4'096) != usual);
  auto facts = some_facts();
  const auto pages = app::cache_digest({}, facts);
  facts.context_tokens = 8'192;
  BOOST_TEST(app::cache_digest({}, facts) == pages);
  facts.rope = "?";
  BOOST_TEST(app::cache_digest({}, facts) != pages);
}

BOOST_AUTO_TEST_SUITE_END()
