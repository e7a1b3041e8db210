#include "app/identity/answer_parts.hpp"

#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "app/identity/option_effects.hpp"
#include "engine/base/sha256.hpp"
#include "engine/model/rope.hpp"

namespace orcd::app {
namespace {

using fact = std::pair<std::string_view, std::string (*)(const options&, const answer_facts&)>;

/// The first ones; behind them are the options of the identity. The code comes first: engines of one number
/// have the same list.
constexpr std::array facts_of_an_answer{
    fact{"the version, which answers otherwise",
         [](const options&, const answer_facts&) { return std::to_string(answers_contract); }},
    fact{"the model", [](const options&, const answer_facts& f) { return f.model_header; }},
    fact{"the arithmetic (--backend, KV types)",
         [](const options& opts, const answer_facts&) { return numerics_id(opts); }},
    fact{"the RoPE tables", [](const options&, const answer_facts& f) { return f.rope; }},
    fact{"--context", [](const options&, const answer_facts& f) { return std::to_string(f.context_tokens); }},
    fact{"the model's names (--model-name)",
         [](const options&, const answer_facts& f) { return f.model_names; }},
    fact{"the tokenizer", [](const options&, const answer_facts& f) { return f.texts.tokenizer; }},
    fact{"the chat template", [](const options&, const answer_facts& f) { return f.texts.chat_template; }},
    fact{"the LoRA adapters", [](const options&, const answer_facts& f) { return f.texts.adapters; }},
    fact{"the projector (--mmproj)", [](const options&, const answer_facts& f) { return f.texts.projector; }},
};

template <class T>
void add(engine::sha256& hash, const T* values, std::size_t count) {
  hash.update(std::as_bytes(std::span(values, count)));
}

}  // namespace

std::string rope_digest(const engine::model& model, std::uint32_t context_tokens) {
  const auto factors = engine::rope_freq_factors(model, context_tokens);
  engine::sha256 hash;
  for (const auto& layer : model.spec.layers) {
    const auto table = engine::make_rope_table(layer.rope, factors);
    const std::uint64_t pairs = table.inv_freq.size();
    add(hash, &pairs, 1);
    add(hash, table.inv_freq.data(), table.inv_freq.size());
    add(hash, &table.magnitude, 1);
  }
  add(hash, &model.spec.attention_scale, 1);
  add(hash, &model.spec.query_scale, 1);
  add(hash, &model.spec.query_scale_period, 1);
  return hash.finish();
}

net::answer_identity answer_identity_of(const options& opts, const answer_facts& facts) {
  net::answer_identity out;
  for (const auto& [name, value] : facts_of_an_answer)
    out.parts.push_back(net::number_of(value(opts, facts)));
  for (const auto& row : option_effects()) {
    if (row.effect == option_effect::identity) out.parts.push_back(net::number_of(row.value(opts)));
  }
  return out;
}

std::string name_of_part(std::uint32_t place) {
  if (place == net::weights_differ) return "the weights (or a digest is not known yet)";
  if (place < facts_of_an_answer.size()) return std::string(facts_of_an_answer.at(place).first);
  std::size_t next = facts_of_an_answer.size();
  for (const auto& row : option_effects()) {
    if (row.effect == option_effect::identity && next++ == place) return "--" + std::string(row.option);
  }
  return "the version";
}

std::string cache_digest(const options& opts, const answer_facts& facts) {
  return engine::sha256_of(numerics_id(opts) + facts.rope + facts.texts.adapters);
}

}  // namespace orcd::app
