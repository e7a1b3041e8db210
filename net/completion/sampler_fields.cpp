// The fields that say how tokens are chosen.
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "engine/served/breaker_tokens.hpp"
#include "net/completion/completion_fields.hpp"
#include "net/json/names.hpp"
#include "net/json/object_members.hpp"
#include "net/limits.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;

/// llama-server's samplers, by name and by letter.
struct named_sampler {
  std::string_view name;
  engine::sampler which;
};
constexpr std::array sampler_names = {
    named_sampler{"penalties", engine::sampler::penalties},
    named_sampler{"e", engine::sampler::penalties},
    named_sampler{"dry", engine::sampler::dry},
    named_sampler{"d", engine::sampler::dry},
    named_sampler{"top_n_sigma", engine::sampler::top_n_sigma},
    named_sampler{"top-n-sigma", engine::sampler::top_n_sigma},
    named_sampler{"s", engine::sampler::top_n_sigma},
    named_sampler{"top_k", engine::sampler::top_k},
    named_sampler{"top-k", engine::sampler::top_k},
    named_sampler{"k", engine::sampler::top_k},
    named_sampler{"typ_p", engine::sampler::typical},
    named_sampler{"typ-p", engine::sampler::typical},
    named_sampler{"typical_p", engine::sampler::typical},
    named_sampler{"typical-p", engine::sampler::typical},
    named_sampler{"typical", engine::sampler::typical},
    named_sampler{"typ", engine::sampler::typical},
    named_sampler{"y", engine::sampler::typical},
    named_sampler{"top_p", engine::sampler::top_p},
    named_sampler{"top-p", engine::sampler::top_p},
    named_sampler{"nucleus", engine::sampler::top_p},
    named_sampler{"p", engine::sampler::top_p},
    named_sampler{"min_p", engine::sampler::min_p},
    named_sampler{"min-p", engine::sampler::min_p},
    named_sampler{"m", engine::sampler::min_p},
    named_sampler{"xtc", engine::sampler::xtc},
    named_sampler{"x", engine::sampler::xtc},
    named_sampler{"temperature", engine::sampler::temperature},
    named_sampler{"temp", engine::sampler::temperature},
    named_sampler{"t", engine::sampler::temperature},
};
/// Off here, since the field that would switch it on is refused.
constexpr std::array<std::string_view, 3> samplers_off = {"adaptive_p", "adaptive-p", "a"};

}  // namespace

result<void> completion_fields::set_real(value_ref value, const real_range& range, float& to,
                                         std::string* named) {
  const auto number = as_real(field_, value, range);
  if (!number) return number.error();
  if (named != nullptr) {
    if (!named->empty() && to != *number) return refuse("contradicts '" + *named + "'");
    *named = field_;
  }
  to = *number;
  return {};
}

/// What is below 1 is the default, as llama-server has it.
result<void> completion_fields::take_dry_base(value_ref value) {
  const auto number = as_real(field_, value, {0.0, engine::dry_base_range.high});
  if (!number) return number.error();
  request_.sampling.dry_base = *number < 1.0F ? limits_.lengths.sampling.dry_base : *number;
  return {};
}

result<void> completion_fields::set_count(value_ref value, std::uint32_t most, std::uint32_t& to,
                                          std::optional<std::uint32_t> all) {
  if (value == json::value(-1) && all) {
    to = *all;
    return {};
  }
  const auto number = integer(value, 0, most);
  if (!number) return number.error();
  to = static_cast<std::uint32_t>(*number);
  return {};
}

result<void> completion_fields::take_repeat_last_n(value_ref value) {
  const auto all = std::min(limits_.lengths.context_tokens, repeat_last_n_max);
  return set_count(value, repeat_last_n_max, request_.sampling.repeat_last_n, all);
}

/// Texts across which DRY sees no repetition; none are none.
result<void> completion_fields::take_breakers(value_ref value) {
  if (!value.is_array()) return wrong_kind("an array of strings", value);
  const auto& texts = value.get_array();
  if (texts.size() > breakers_max) {
    return refuse("may have " + std::to_string(breakers_max) + " texts, it has " +
                  std::to_string(texts.size()));
  }
  auto& out = request_.dry_breakers.emplace();
  for (const auto& one : texts) {
    const auto text = as_text(field_, one);
    if (!text) return text.error();
    if (text->empty() || text->size() > engine::breaker_bytes_max) {
      return refuse("texts must have 1 to " + std::to_string(engine::breaker_bytes_max) + " bytes, one has " +
                    std::to_string(text->size()));
    }
    out.emplace_back(*text);
  }
  return {};
}

/// llama-server's order of samplers: a list of names, or a string of one letter for each.
result<void> completion_fields::take_samplers(value_ref value) {
  std::vector<std::string_view> names;
  if (const auto* letters = value.if_string()) {
    for (std::size_t i = 0; i < letters->size(); ++i) {
      names.push_back(std::string_view(*letters).substr(i, 1));
    }
  } else if (!value.is_array()) {
    return wrong_kind("an array of names, or a string of letters", value);
  } else {
    for (const auto& name : value.get_array()) {
      const auto text = as_text(field_, name);
      if (!text) return text.error();
      names.push_back(*text);
    }
  }
  samplers_.emplace();
  for (const std::string_view name : names) {
    if (is_listed(samplers_off, name)) continue;
    const auto* const known = find_named(sampler_names, name);
    if (known == nullptr) return refuse("names '" + shown_name(name) + "', which this worker does not have");
    if (std::find(samplers_->begin(), samplers_->end(), known->which) != samplers_->end()) {
      return refuse("names '" + std::string(to_string(known->which)) + "' twice");
    }
    samplers_->push_back(known->which);
  }
  return {};
}

/// An order is taken where it chooses what one of this worker's two does.
result<void> completion_fields::check_samplers() {
  if (!samplers_) return {};
  const auto difference = engine::differs(*samplers_, request_.sampling);
  if (!difference) return {};
  auto usual = request_.sampling;
  usual.temperature_last = true;
  if (!engine::differs(*samplers_, usual)) {
    request_.sampling.temperature_last = true;
    return {};
  }
  const std::string which(to_string(difference->which));
  if (difference->absent) {
    return refuse_field("samplers", "does not have '" + which + "', which the request sets");
  }
  return refuse_field(
      "samplers",
      "has '" + std::string(to_string(difference->behind)) + "' before '" + which +
          "', which changes the answer: this worker's orders are penalties, temperature, top_k, " +
          "top_p, min_p, and penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, " + "temperature");
}

}  // namespace orcd::net
