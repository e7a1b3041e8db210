#include "net/ollama/ollama_fields.hpp"

#include <array>
#include <limits>
#include <span>
#include <utility>

#include "net/json/names.hpp"
#include "net/json/object_members.hpp"
#include "net/json/read_body.hpp"
#include "net/ollama/model_tags.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;

/// Options with the same name and meaning as fields of /v1, beside the worker's own.
constexpr std::array<std::string_view, 8> shared_options{"temperature", "top_p", "stop",     "repeat_penalty",
                                                         "typical_p",   "tfs_z", "mirostat", "mirostat_tau"};

/// Options that cannot change an answer: how a model is loaded and computed, which the worker's own options
/// say, and how contexts are cut, which are not.
constexpr std::array<std::string_view, 15> left_options{
    "num_ctx",  "num_keep",   "num_batch",  "num_gpu",        "main_gpu",
    "numa",     "num_thread", "low_vram",   "f16_kv",         "logits_all",
    "use_mmap", "use_mlock",  "vocab_only", "embedding_only", "penalize_newline"};

constexpr std::string_view options_field = "options";

std::string option_path(std::string_view name) {
  return std::string(options_field) + "." + shown_name(name);
}

}  // namespace

result<void> ollama_fields::take(std::string_view name, value_ref value) {
  using taker = result<void> (ollama_fields::*)(value_ref);
  struct rule {
    std::string_view name;
    taker take;
  };
  using f = ollama_fields;
  static constexpr std::array rules{rule{"model", &f::take_model}, rule{"stream", &f::take_stream},
                                    rule{"format", &f::take_format}, rule{"think", &f::take_think},
                                    rule{options_field, &f::take_options}};
  if (is_worker_field(name) || name == "keep_alive") return shared_.take(name, value);
  const bool own = name == "logprobs" || name == "top_logprobs";
  const auto* const known = find_named(rules, name);
  if (known == nullptr && !own) return unknown_field(name);
  if (value.is_null()) return {};
  if (known != nullptr) return (this->*known->take)(value);
  if (name == "logprobs") {
    const auto truth = as_flag(name, value);
    if (!truth) return truth.error();
    logprobs_ = *truth;
    return {};
  }
  const auto number = as_integer(name, value, 0, engine::top_logprobs_max);
  if (!number) return number.error();
  top_logprobs_ = static_cast<std::uint32_t>(*number);
  return {};
}

result<void> ollama_fields::take_model(value_ref value) {
  const auto name = as_text("model", value);
  if (!name) return name.error();
  const auto meant = without_tag(limits_.served, limits_.adapters, *name);
  return shared_.take("model", json::value(meant));
}

result<void> ollama_fields::take_stream(value_ref value) {
  const auto truth = as_flag("stream", value);
  if (!truth) return truth.error();
  stream_ = *truth;
  return {};
}

/// "json" or a schema; clients send "" for none.
result<void> ollama_fields::take_format(value_ref value) {
  if (value == json::value("")) return {};
  has_format_ = true;
  json::object format{{"type", "json_object"}};
  if (value.is_object()) {
    format = {{"type", "json_schema"}, {"json_schema", {{"name", "answer"}, {"schema", value}}}};
  } else if (value != json::value("json")) {
    return refuse_field("format", "must be 'json' or a JSON schema");
  }
  return shared_.take("response_format", format);
}

/// Whether the model is to reason, or how much. Templates that can leave it out read one of two names.
result<void> ollama_fields::take_think(value_ref value) {
  constexpr std::array<std::string_view, 3> efforts{"low", "medium", "high"};
  const auto* effort = value.if_string();
  if (!value.is_bool() && (effort == nullptr || !is_listed(efforts, *effort))) {
    return refuse_field("think", "must be true, false, 'low', 'medium' or 'high'");
  }
  const bool thinks = effort != nullptr || value.get_bool();
  hints_["enable_thinking"] = thinks;
  hints_["thinking"] = thinks;
  if (effort != nullptr) hints_["reasoning_effort"] = *effort;
  return {};
}

result<void> ollama_fields::take_options(value_ref value) {
  const auto* options = value.if_object();
  if (options == nullptr) return refuse_kind(options_field, "an object", value);
  return each_member(*options, [this](std::string_view name, value_ref option) {
    const auto taken = take_option(name, option);
    return taken ? taken : rename_field(taken.error(), name, option_path(name));
  });
}

result<void> ollama_fields::take_option(std::string_view name, value_ref value) {
  if (name == "num_predict") return value.is_null() ? result<void>() : take_num_predict(value);
  if (is_listed(left_options, name)) {
    return limits_.strict_fields && !value.is_null() ? unknown_field(name) : result<void>();
  }
  if (is_listed(shared_options, name) || name == "mirostat_eta" || is_worker_field(name)) {
    return shared_.take(name, value);
  }
  return unknown_field(name);
}

/// None or fewer ask for as many tokens as fit.
result<void> ollama_fields::take_num_predict(value_ref value) {
  if (value.is_int64() && value.get_int64() <= 0) return {};
  const auto number = as_integer("num_predict", value, 1, std::numeric_limits<std::int32_t>::max());
  if (!number) return number.error();
  max_tokens_ = static_cast<std::uint32_t>(*number);
  return {};
}

result<completion_request> ollama_fields::finish() && {
  if (top_logprobs_ > 0 && !logprobs_) return refuse_field("top_logprobs", "needs 'logprobs': true");
  auto request = std::move(shared_).finish();
  if (!request) return in_words_of_ollama(request.error());
  request->stream = stream_;
  request->logprobs = logprobs_;
  request->top_logprobs = top_logprobs_;
  request->max_tokens = max_tokens_;
  request->max_tokens_field = "options.num_predict";
  request->template_hints = std::move(hints_);
  if (has_format_) request->constraints.field = "format";
  return request;
}

engine::error in_words_of_ollama(engine::error refusal) {
  refusal = rename_field(std::move(refusal), "response_format.json_schema.schema", "format");
  return rename_field(std::move(refusal), "response_format", "format");
}

}  // namespace orcd::net
