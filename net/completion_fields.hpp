// The fields of a completion body, one member function each, and the table that names them. Private to net/.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "net/completion_request.hpp"
#include "net/field_checks.hpp"
#include "net/json_value.hpp"

namespace orcd::net {

class completion_fields {
 public:
  completion_fields(completion_kind kind, const completion_limits& limits) : limits_(limits) {
    request_.kind = kind;
  }

  /// One field of the body that is not null. Refuses names that this kind of request does not have.
  [[nodiscard]] engine::result<void> take(std::string_view name, const boost::json::value& value);
  /// The request, once every field was taken: what is missing, what contradicts itself.
  [[nodiscard]] engine::result<completion_request> finish() &&;

 private:
  using value_ref = const boost::json::value&;
  using taker = engine::result<void> (completion_fields::*)(value_ref);
  struct rule {
    std::string_view name;
    bool chat;
    bool text;
    taker take;
  };
  [[nodiscard]] static const rule* find_rule(std::string_view name) noexcept;

  // The prompt.
  engine::result<void> take_model(value_ref value);
  engine::result<void> take_messages(value_ref value);
  engine::result<void> take_prompt(value_ref value);
  engine::result<void> take_template(value_ref value);
  engine::result<void> take_template_variables(value_ref value);
  engine::result<void> take_template_variable(value_ref value);
  // How much, how many, how.
  engine::result<void> take_max_tokens(value_ref value);
  engine::result<void> take_timeout(value_ref value);
  engine::result<void> take_choices(value_ref value);
  engine::result<void> take_best_of(value_ref value);
  engine::result<void> take_stop(value_ref value);
  engine::result<void> take_seed(value_ref value);
  engine::result<void> take_real(value_ref value);
  engine::result<void> take_count(value_ref value);
  engine::result<void> take_logit_bias(value_ref value);
  engine::result<void> take_logprobs(value_ref value);
  engine::result<void> take_logprob_count(value_ref value);
  engine::result<void> take_stream_options(value_ref value);
  engine::result<void> take_flag(value_ref value);
  // The form of the output.
  engine::result<void> take_tools(value_ref value);
  engine::result<void> take_tool_choice(value_ref value);
  engine::result<void> take_response_format(value_ref value);
  // The prefix cache.
  engine::result<void> take_cache_name(value_ref value);
  // Fields that cannot change the output, and fields of which one value cannot.
  engine::result<void> take_label(value_ref value);
  engine::result<void> take_metadata(value_ref value);
  engine::result<void> take_only_false(value_ref value);
  engine::result<void> take_service_tier(value_ref value);
  engine::result<void> take_modalities(value_ref value);
  engine::result<void> take_unsupported(value_ref value);

  [[nodiscard]] engine::error refuse(const std::string& what) const { return refuse_field(field_, what); }
  [[nodiscard]] engine::error wrong_kind(std::string_view must, value_ref value) const;
  [[nodiscard]] engine::result<json_scalar> scalar(std::string_view must, value_ref value) const;
  [[nodiscard]] engine::result<std::uint64_t> integer(value_ref value, std::uint64_t low,
                                                      std::uint64_t high) const;
  [[nodiscard]] engine::result<bool> flag(value_ref value) const;
  [[nodiscard]] engine::result<void> token_ids(const boost::json::array& ids);
  [[nodiscard]] engine::result<void> add_variable(std::string_view name, value_ref value);

  const completion_limits& limits_;
  completion_request request_;
  output_constraints constraints_;
  std::string field_;
  bool has_messages_ = false;
  bool has_stream_options_ = false;
  bool has_top_logprobs_ = false;
  std::optional<std::uint32_t> best_of_;
};

}  // namespace orcd::net
