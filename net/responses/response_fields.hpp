// The fields of a /v1/responses body, one member function each, and the table that names them. Private to
// net/.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <initializer_list>
#include <string>
#include <string_view>

#include "net/completion/completion_fields.hpp"
#include "net/responses/offered_tools.hpp"
#include "net/responses/response_request.hpp"

namespace orcd::net {

class response_fields {
 public:
  /// `limits` must outlive it.
  explicit response_fields(const completion_limits& limits)
      : limits_(limits), chat_(completion_kind::chat, limits), stores_(limits.shelf.has_value()) {}

  /// Takes one field of the body; null counts as absent.
  [[nodiscard]] engine::result<void> take(std::string_view name, const boost::json::value& value);
  /// The request, once every field was taken.
  [[nodiscard]] engine::result<completion_request> finish() &&;

 private:
  using value_ref = const boost::json::value&;
  struct rule {
    std::string_view name;
    engine::result<void> (response_fields::*take)(value_ref);
    bool told = false;  ///< the answer repeats it
  };
  [[nodiscard]] static const rule* find_rule(std::string_view name) noexcept;

  /// A field that is the same for a chat.
  engine::result<void> take_as_chat(value_ref value);
  engine::result<void> take_max_tokens(value_ref value);
  engine::result<void> take_instructions(value_ref value);
  engine::result<void> take_input(value_ref value);
  engine::result<void> take_tools(value_ref value);
  engine::result<void> take_tool_choice(value_ref value);
  engine::result<void> take_text(value_ref value);
  engine::result<void> take_format(value_ref value);
  engine::result<void> take_reasoning(value_ref value);
  engine::result<void> take_include(value_ref value);
  engine::result<void> take_top_logprobs(value_ref value);
  engine::result<void> take_stream_options(value_ref value);
  engine::result<void> take_store(value_ref value);
  engine::result<void> take_timings(value_ref value);
  // Fields that cannot change the answer, and fields with one value that does not.
  engine::result<void> take_label(value_ref value);
  engine::result<void> take_object(value_ref value);
  engine::result<void> take_metadata(value_ref value);
  engine::result<void> take_count(value_ref value);
  engine::result<void> take_only_false(value_ref value);
  engine::result<void> take_truncation(value_ref value);
  engine::result<void> take_previous(value_ref value);
  engine::result<void> take_conversation(value_ref value);
  engine::result<void> take_unsupported(value_ref value);

  [[nodiscard]] engine::error refuse(const std::string& what) const { return refuse_field(field_, what); }
  /// One of the words in the list, or null.
  [[nodiscard]] engine::result<void> word(const boost::json::object& from, std::string_view member,
                                          std::initializer_list<std::string_view> words) const;
  [[nodiscard]] std::string echo() const;
  /// The turns of the response that the request goes on from.
  [[nodiscard]] engine::result<kept_turns> recall() const;
  [[nodiscard]] std::shared_ptr<const response_notes> make_notes(tool_names names, kept_turns earlier) const;

  const completion_limits& limits_;
  completion_fields chat_;
  bool stores_;  ///< the response is kept
  std::string previous_;
  std::string field_;
  boost::json::value instructions_;
  boost::json::value input_;
  boost::json::value tools_;
  boost::json::value tool_choice_;
  boost::json::object told_;  ///< fields that the answer repeats as they were sent
  boost::json::object hints_;
  boost::json::array told_tools_;
  bool logprobs_ = false;
  bool seals_reasoning_ = false;
  bool timings_ = false;
  std::uint64_t top_logprobs_ = 0;
};

}  // namespace orcd::net
