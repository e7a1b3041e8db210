#include "net/llama/llama_request.hpp"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "net/completion/completion_fields.hpp"
#include "net/completion/infill_prompt.hpp"
#include "net/completion/left_fields.hpp"
#include "net/json/names.hpp"
#include "net/json/object_members.hpp"
#include "net/json/read_body.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::error;
using engine::result;

/// A switch that this worker does not have, and the value that leaves it off.
struct absent_switch {
  std::string_view name;
  double off;
};
constexpr std::array absent_switches{absent_switch{"mirostat", 0}, absent_switch{"adaptive_target", -1},
                                     absent_switch{"n_indent", 0}, absent_switch{"min_keep", 0}};

/// Fields that cannot change the answer: what they adjust is off (above), they choose a slot, or limit times,
/// by which load would change an answer; n_keep is about contexts that are cut, which are refused here.
constexpr std::array<std::string_view, 8> left_numbers{"mirostat_tau",    "mirostat_eta",    "adaptive_decay",
                                                       "id_slot",         "n_keep",          "n_discard",
                                                       "t_max_prompt_ms", "t_max_predict_ms"};

/// The names of the most tokens of an answer: llama-server's own first.
constexpr std::array<std::string_view, 4> length_names{"n_predict", "max_tokens", "max_completion_tokens",
                                                       "max_new_tokens"};

/// llama-server has no bound; beyond this one every token is as likely as any other.
constexpr double temperature_max = 1e6;

constexpr std::string_view post_sampling = "post_sampling_probs";
constexpr std::array<std::string_view, 1> lists_empty{"image_data"};
constexpr std::size_t response_fields_max = 64;
constexpr std::size_t response_field_bytes_max = 256;

/// The fields that both endpoints have.
class llama_fields {
 public:
  explicit llama_fields(const completion_limits& limits)
      : limits_(with_temperatures(limits)), shared_(completion_kind::text, limits_) {}

  result<void> take(std::string_view name, const json::value& value) {
    if (is_llama_field(name) || name == "user") return shared_.take(name, value);
    if (value.is_null()) return {};
    const auto* const length = std::find(length_names.begin(), length_names.end(), name);
    if (length != length_names.end()) return take_length(*length, without_fraction(value));
    if (name == "n_probs") return take_n_probs(value);
    if (name == "return_tokens" || name == post_sampling) return take_flag(name, value);
    if (name == "response_fields") return take_response_fields(value);
    return take_absent(name, value);
  }

  completion_fields& shared() { return shared_; }

  result<completion_request> finish() && {
    auto request = std::move(shared_).finish();
    if (!request) return request.error();
    request->tells_prompt = true;
    request->token_ids = token_ids_;
    request->max_tokens = max_tokens_;
    request->max_tokens_field = length_name_;
    if (post_sampling_ && probs_ > 0) notes_.probabilities = kind_of(*request);
    request->logprobs = probs_ > 0;
    request->top_logprobs = probs_;
    request->notes = std::make_shared<llama_notes>(std::move(notes_));
    return request;
  }

 private:
  static completion_limits with_temperatures(completion_limits limits) {
    limits.temperature_max = temperature_max;
    return limits;
  }

  /// -1: as many as fit; -2: until the context is full, which is the same.
  result<void> take_length(std::string_view name, const json::value& value) {
    if (value == json::value(-1) || value == json::value(-2)) return {};
    const auto number = as_integer(name, value, 0, std::numeric_limits<std::int32_t>::max());
    if (!number) return number.error();
    if (max_tokens_ && *max_tokens_ != *number) {
      return refuse_field(name, "is " + std::to_string(*number) + ", but '" + std::string(length_name_) +
                                    "' is " + std::to_string(*max_tokens_));
    }
    max_tokens_ = static_cast<std::uint32_t>(*number);
    length_name_ = name;
    return {};
  }

  result<void> take_n_probs(const json::value& value) {
    const auto number = as_integer("n_probs", value, 0, engine::top_logprobs_max);
    if (!number) return number.error();
    probs_ = static_cast<std::uint32_t>(*number);
    return {};
  }

  result<void> take_flag(std::string_view name, const json::value& value) {
    const auto truth = as_flag(name, value);
    if (!truth) return truth.error();
    (name == post_sampling ? post_sampling_ : token_ids_) = *truth;
    return {};
  }

  /// What a token was drawn with is certain where one is, and the model's own where nothing has changed that;
  /// else the sampler tells it.
  static probability_kind kind_of(completion_request& asked) {
    auto& sampling = asked.sampling;
    if (sampling.temperature == 0.0F && !(sampling.dynatemp_range > 0.0F)) return probability_kind::greedy;
    const bool cut =
        sampling.top_k > 0 || sampling.top_p < 1.0F || sampling.min_p > 0.0F || sampling.needs_logits();
    const bool moved = sampling.temperature != 1.0F || sampling.penalises() || !sampling.biases.empty() ||
                       !asked.text_biases.empty();
    const bool bound = asked.constraints.kind != constraint_kind::none || !asked.banned_tokens.empty() ||
                       !asked.bad_words.empty();
    sampling.tells_drawn = cut || moved || bound;
    return probability_kind::sampled;
  }

  result<void> take_response_fields(const json::value& value) {
    constexpr std::string_view field = "response_fields";
    if (!value.is_array()) return refuse_kind(field, "an array of strings", value);
    auto& names = notes_.response_fields;
    for (const auto& name : value.get_array()) {
      if (!name.is_string()) return refuse_kind(field, "an array of strings", name);
      std::string path(name.get_string());
      if (std::find(names.begin(), names.end(), path) != names.end()) continue;
      if (path.size() > response_field_bytes_max) {
        return refuse_field(field, "may hold names of " + std::to_string(response_field_bytes_max) +
                                       " bytes, one has " + std::to_string(path.size()));
      }
      if (names.size() == response_fields_max) {
        return refuse_field(field, "may have " + std::to_string(response_fields_max) + " names");
      }
      names.push_back(std::move(path));
    }
    return {};
  }

  [[nodiscard]] result<void> take_absent(std::string_view name, const json::value& value) const {
    if (is_listed(left_numbers, name)) {
      return value.is_number() ? result<void>() : refuse_kind(name, "a number", value);
    }
    if (is_listed(lists_empty, name)) {
      if (!value.is_array()) return refuse_kind(name, "an array", value);
      return value.get_array().empty() ? result<void>() : refuse_field(name, "must be empty");
    }
    const auto* const found = find_named(absent_switches, name);
    if (found == nullptr) {
      const bool left = !limits_.strict_fields && is_listed(left_fields(field_place::request), name);
      return left ? result<void>() : unknown_field(name);
    }
    if (!value.is_number()) return refuse_kind(name, "a number", value);
    if (value.to_number<double>() == found->off) return {};
    const auto off = std::to_string(static_cast<int>(found->off));
    return refuse_field(name, "must be " + off + ", which switches it off: this worker has no such thing");
  }

  completion_limits limits_;
  completion_fields shared_;
  llama_notes notes_;
  std::optional<std::uint32_t> max_tokens_;
  std::string_view length_name_ = length_names.front();
  std::uint32_t probs_ = 0;
  bool token_ids_ = false;
  bool post_sampling_ = false;
};

/// One prompt: a text, token ids, or a list of both in turn.
result<text_prompt> read_prompt(const json::value& given, const completion_limits& limits) {
  const auto read = without_media("prompt", given);
  if (!read) return read.error();
  const json::value& value = **read;
  text_prompt out;
  const auto add_text = [&](const json::value& text) -> result<void> {
    std::string words(text.get_string());
    if (auto fits = check_length("prompt", words, limits.lengths.prompt_chars_max); !fits) return fits;
    out.push_back(prompt_text{std::move(words), true, out.empty()});
    return {};
  };
  if (value.is_string()) {
    if (const auto added = add_text(value); !added) return added.error();
    return out;
  }
  const auto* list = value.if_array();
  if (list == nullptr) return refuse_kind("prompt", "a string or a list of strings and token ids", value);
  if (list->size() > limits.lengths.context_tokens) {
    return error(engine::errc::context_length_exceeded,
                 "the prompt has " + std::to_string(list->size()) + " tokens or more, the context holds " +
                     std::to_string(limits.lengths.context_tokens),
                 "prompt");
  }
  for (const auto& part : *list) {
    if (part.is_string()) {
      if (const auto added = add_text(part); !added) return added.error();
      continue;
    }
    const auto id = as_integer("prompt", part, 0, limits.vocab - 1);
    if (!id) return id.error();
    if (out.empty() || !std::holds_alternative<std::vector<engine::token_id>>(out.back())) {
      out.emplace_back(std::vector<engine::token_id>());
    }
    std::get<std::vector<engine::token_id>>(out.back()).push_back(static_cast<engine::token_id>(*id));
  }
  return out;
}

bool holds_prompts(const json::array& list) {
  const bool numbers = std::any_of(list.begin(), list.end(), [](const auto& v) { return v.is_number(); });
  return !list.empty() && !numbers;
}

result<void> take_prompt(const json::value& value, const completion_limits& limits, completion_fields& to) {
  const auto add = [&](const json::value& one) -> result<void> {
    auto prompt = read_prompt(one, limits);
    if (!prompt) return prompt.error();
    const bool empty = std::all_of(prompt->begin(), prompt->end(), [](const auto& part) {
      const auto* text = std::get_if<prompt_text>(&part);
      return text != nullptr && text->text.empty();
    });
    if (empty) return refuse_field("prompt", "must not be empty");
    to.add_prompt(std::move(*prompt));
    return {};
  };
  const auto* list = value.if_array();
  if (list == nullptr || !holds_prompts(*list)) return add(value);
  if (list->size() > choices_max) {
    return refuse_field("prompt", "may be a list of " + std::to_string(choices_max) + " prompts, it has " +
                                      std::to_string(list->size()));
  }
  for (const auto& prompt : *list) {
    if (auto added = add(prompt); !added) return added;
  }
  return {};
}

result<std::string> read_text(std::string_view name, const json::value& value,
                              const completion_limits& limits) {
  const auto text = as_text(name, value);
  if (!text) return text.error();
  if (const auto fits = check_length(name, *text, limits.lengths.prompt_chars_max); !fits) {
    return fits.error();
  }
  return std::string(*text);
}

result<std::vector<infill_file>> read_extra(const json::value& value, const completion_limits& limits) {
  std::vector<infill_file> out;
  if (!value.is_array()) return refuse_kind("input_extra", "an array", value);
  for (const auto& chunk : value.get_array()) {
    if (!chunk.is_object()) return refuse_kind("input_extra", "an array of objects", chunk);
    infill_file file;
    for (const auto& field : chunk.get_object()) {
      if (field.key() != "text" && field.key() != "filename") {
        return unknown_field("input_extra." + shown_name(field.key()));
      }
      auto text = read_text("input_extra", field.value(), limits);
      if (!text) return text.error();
      (field.key() == "text" ? file.text : file.name) = std::move(*text);
    }
    if (!chunk.get_object().contains("text")) return refuse_field("input_extra.text", "is missing");
    out.push_back(std::move(file));
  }
  return out;
}

}  // namespace

result<completion_request> parse_llama_completion(std::string_view body, const completion_limits& limits) {
  llama_fields fields(limits);
  const auto read = read_body(body, [&](std::string_view name, const json::value& value) {
    if (name != "prompt") return fields.take(name, value);
    return value.is_null() ? result<void>() : take_prompt(value, limits, fields.shared());
  });
  if (!read) return read.error();
  return std::move(fields).finish();
}

result<completion_request> parse_infill(std::string_view body, const completion_limits& limits) {
  const auto tree = read_json_tree(body);
  if (!tree) return tree.error();
  if (!limits.infill.usable()) {
    return refuse_field("input_prefix", "cannot be served: the model's vocabulary has no tokens for infill");
  }
  llama_fields fields(limits);
  infill_parts parts;
  for (const auto& field : *tree) {
    const std::string_view name = field.key();
    std::string* const text = name == "input_prefix"   ? &parts.prefix
                              : name == "input_suffix" ? &parts.suffix
                              : name == "prompt"       ? &parts.prompt
                                                       : nullptr;
    if (text == nullptr && name != "input_extra") {
      if (const auto taken = fields.take(name, field.value()); !taken) return taken.error();
    } else if (field.value().is_null()) {
      continue;
    } else if (text == nullptr) {
      auto extra = read_extra(field.value(), limits);
      if (!extra) return extra.error();
      parts.extra = std::move(*extra);
    } else {
      auto read = read_text(name, field.value(), limits);
      if (!read) return read.error();
      *text = std::move(*read);
    }
  }
  fields.shared().add_prompt(make_infill_prompt(std::move(parts), limits.infill));
  return std::move(fields).finish();
}

}  // namespace orcd::net
