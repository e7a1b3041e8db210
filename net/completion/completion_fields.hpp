// The fields of a completion body, one member function each, and the table that names them. Private to net/.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sampling/sampler_order.hpp"
#include "engine/sampling/sampling_ranges.hpp"
#include "net/completion/completion_request.hpp"
#include "net/completion/sent_media.hpp"
#include "net/json/json_value.hpp"
#include "net/json/object_members.hpp"

namespace orcd::net {

/// Whether it is a field of this worker that every API which makes text takes as a chat does, beside its own.
[[nodiscard]] bool is_worker_field(std::string_view name) noexcept;
/// Whether llama-server's endpoints have it under the same name and with the same meaning as /v1/completions.
[[nodiscard]] bool is_llama_field(std::string_view name) noexcept;

/// The text of a prompt in llama-server's form {"prompt_string": TEXT}; any other prompt as it is. Refuses
/// what the text comes with.
[[nodiscard]] engine::result<const boost::json::value*> without_media(std::string_view field,
                                                                      const boost::json::value& prompt);

class completion_fields {
 public:
  completion_fields(completion_kind kind, const completion_limits& limits)
      : media(kind == completion_kind::chat ? make_sent_media(limits.media) : nullptr), limits_(limits) {
    request_.kind = kind;
    request_.sampling = limits.lengths.sampling;
    request_.seed = limits.lengths.seed;
    request_.media = media;
    if (kind == completion_kind::chat) request_.reasoning_tokens_max = limits.reasoning_tokens_max;
  }

  /// Where media of messages go; null: none are taken.
  const std::shared_ptr<sent_media> media;

  /// Takes one field of the body; null counts as absent. Refuses names that this kind of request does not
  /// have.
  [[nodiscard]] engine::result<void> take(std::string_view name, const boost::json::value& value);
  /// Adds a prompt to those that the body's own field gives, whose values the caller has checked.
  void add_prompt(text_prompt prompt) { request_.prompts.push_back(std::move(prompt)); }
  /// The request, once every field was taken. Refuses what is missing and what contradicts itself.
  [[nodiscard]] engine::result<completion_request> finish() &&;

 private:
  using value_ref = const boost::json::value&;
  using taker = engine::result<void> (completion_fields::*)(value_ref);
  using params = engine::sampling_params;
  using asked = completion_request;
  /// Whose a field is: of chats, of texts, of every API that makes text, of llama-server's endpoints.
  enum api : std::uint8_t { of_chats = 1, of_texts = 2, of_both = 3, of_all = 4, of_llama = 8 };
  /// What takes a field also says where it goes: nothing is found by its name once more, so that a row that
  /// compiles is honoured.
  struct rule {
    std::string_view name;
    std::uint8_t apis;
    taker take;
  };
  friend bool is_worker_field(std::string_view name) noexcept;
  friend bool is_llama_field(std::string_view name) noexcept;
  [[nodiscard]] static std::span<const rule> openai_rules() noexcept;
  [[nodiscard]] static std::span<const rule> dialect_rules() noexcept;    ///< of other servers' fields
  [[nodiscard]] static std::span<const rule> reasoning_rules() noexcept;  ///< theirs of what chats begin with
  [[nodiscard]] static const rule* find_rule(std::string_view name) noexcept;

  // Values of one kind. `Path` leads to the member that is set: one of the request, then one of that, ...
  template <auto... Path>
  engine::result<void> take_flag(value_ref value) {
    const auto truth = flag(value);
    if (!truth) return truth.error();
    member_of(request_, Path...) = *truth;
    return {};
  }
  template <auto... Path>
  engine::result<void> take_inverted_flag(value_ref value) {
    const auto truth = flag(value);
    if (!truth) return truth.error();
    member_of(request_, Path...) = !*truth;
    return {};
  }
  template <const engine::real_range& Range, float params::*To>
  engine::result<void> take_real(value_ref value) {
    return set_real(value, Range, request_.sampling.*To);
  }
  /// The same of a number with several names, which must not contradict one another.
  template <const engine::real_range& Range, float params::*To, std::string completion_fields::*Named>
  engine::result<void> take_real_of_names(value_ref value) {
    return set_real(value, Range, request_.sampling.*To, &(this->*Named));
  }
  template <float params::*To>
  engine::result<void> take_temperature(value_ref value) {
    const auto& range = engine::temperature_range;
    return set_real(value, {range.low, limits_.temperature_max, range.above_low}, request_.sampling.*To);
  }
  /// `All` is what -1 means; without it -1 is refused.
  template <std::uint32_t params::*To, std::uint32_t Most, std::uint32_t... All>
  engine::result<void> take_count(value_ref value) {
    return set_count(value, Most, request_.sampling.*To, All...);
  }
  template <std::vector<engine::token_id> completion_request::*To, bool MayBeEmpty>
  engine::result<void> take_token_list(value_ref value) {
    return set_tokens(value, request_.*To, MayBeEmpty);
  }
  template <std::string engine::cache_request::*To>
  engine::result<void> take_cache_name(value_ref value) {
    return set_cache_name(value, request_.cache.*To);
  }
  template <guided_kind Kind>
  engine::result<void> take_guided(value_ref value) {
    return guide(Kind, value);
  }

  // The prompt.
  engine::result<void> take_model(value_ref value);
  engine::result<void> take_messages(value_ref value);
  engine::result<void> take_prompt(value_ref value);
  engine::result<void> take_template(value_ref value);
  engine::result<void> take_template_variables(value_ref value);
  engine::result<void> take_template_variable(value_ref value);
  // Lengths, counts and sampling.
  engine::result<void> take_max_tokens(value_ref value);
  engine::result<void> take_timeout(value_ref value);
  engine::result<void> take_choices(value_ref value);
  engine::result<void> take_best_of(value_ref value);
  engine::result<void> take_stop(value_ref value);
  engine::result<void> take_seed(value_ref value);
  engine::result<void> take_repeat_last_n(value_ref value);
  engine::result<void> take_logit_bias(value_ref value);
  engine::result<void> take_logprobs(value_ref value);
  engine::result<void> take_logprob_count(value_ref value);
  engine::result<void> take_stream_options(value_ref value);
  engine::result<void> take_prediction(value_ref value);
  // What other servers' clients ask for besides: dialect_fields.cpp.
  engine::result<void> take_min_tokens(value_ref value);
  engine::result<void> take_bias_list(value_ref value);
  engine::result<void> take_bad_words(value_ref value);
  engine::result<void> take_prompt_logprobs(value_ref value);
  engine::result<void> take_samplers(value_ref value);
  engine::result<void> take_dry_base(value_ref value);
  engine::result<void> take_breakers(value_ref value);
  engine::result<void> take_truncation(value_ref value);
  engine::result<void> take_truncation_side(value_ref value);
  engine::result<void> take_special_tokens(value_ref value);
  engine::result<void> take_reasoning_budget(value_ref value);
  engine::result<void> take_reasoning(value_ref value);
  engine::result<void> take_reasoning_format(value_ref value);
  engine::result<void> take_thinking(value_ref value);
  engine::result<void> take_documents(value_ref value);
  engine::result<void> take_usage(value_ref value);
  // What the output must look like.
  engine::result<void> take_tools(value_ref value);
  engine::result<void> take_tool_choice(value_ref value);
  engine::result<void> take_response_format(value_ref value);
  engine::result<void> take_parallel_calls(value_ref value);
  engine::result<void> take_grammar(value_ref value);
  engine::result<void> take_structured_outputs(value_ref value);
  engine::result<void> take_lora(value_ref value);
  // Fields with one value that does not change the output; the others of this kind: left_fields.hpp.
  engine::result<void> take_modalities(value_ref value);
  engine::result<void> take_unsupported(value_ref value);

  [[nodiscard]] engine::error refuse(const std::string& what) const { return refuse_field(field_, what); }
  [[nodiscard]] engine::error wrong_kind(std::string_view must, value_ref value) const;
  [[nodiscard]] engine::result<std::uint64_t> integer(value_ref value, std::uint64_t low,
                                                      std::uint64_t high) const;
  [[nodiscard]] engine::result<bool> flag(value_ref value) const;
  template <class Object, class Member, class... Further>
  static auto& member_of(Object& object, Member member, Further... further) {
    if constexpr (sizeof...(further) == 0) {
      return object.*member;
    } else {
      return member_of(object.*member, further...);
    }
  }
  /// `named`, if it is not null, is the name by which the number was given before; empty: by none.
  engine::result<void> set_real(value_ref value, const engine::real_range& range, float& to,
                                std::string* named = nullptr);
  engine::result<void> set_count(value_ref value, std::uint32_t most, std::uint32_t& to,
                                 std::optional<std::uint32_t> all = std::nullopt);
  engine::result<void> set_tokens(value_ref value, std::vector<engine::token_id>& list, bool may_be_empty);
  engine::result<void> set_cache_name(value_ref value, std::string& to);
  [[nodiscard]] engine::result<std::vector<engine::token_id>> token_ids(const boost::json::array& ids) const;
  [[nodiscard]] engine::result<void> take_one_prompt(value_ref value);
  [[nodiscard]] engine::result<void> add_bias(std::uint32_t token, value_ref bias);
  [[nodiscard]] engine::result<void> add_text_bias(std::string_view text, value_ref bias);
  [[nodiscard]] engine::result<void> sort_biases();
  [[nodiscard]] engine::result<void> check_samplers();
  [[nodiscard]] engine::result<void> take_suffix(value_ref value);
  [[nodiscard]] engine::result<void> join_suffix();
  [[nodiscard]] engine::result<void> add_variable(std::string_view name, value_ref value);
  [[nodiscard]] engine::result<void> guide(guided_kind kind, value_ref value);
  /// A field that no rule names: left, idle or unknown.
  [[nodiscard]] engine::result<void> take_other(std::string_view name, value_ref value);
  [[nodiscard]] engine::result<void> check_together();

  const completion_limits& limits_;
  std::string budget_field_;  ///< the name by which reasoning was limited
  completion_request request_;
  constraint_fields constraint_fields_;
  adapter_choice adapters_;
  std::string field_;
  bool has_messages_ = false;
  bool has_stream_options_ = false;
  bool has_top_logprobs_ = false;
  std::optional<std::uint32_t> best_of_;
  std::optional<std::string> suffix_;
  std::string repetition_field_;  ///< the name under which the repetition penalty was given
  std::string typical_field_;     ///< likewise of typical_p
  std::optional<std::vector<engine::sampler>> samplers_;  ///< the order that the request wants
};

}  // namespace orcd::net
