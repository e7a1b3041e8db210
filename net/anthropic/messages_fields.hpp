// The fields of a /v1/messages body, one member function each. Private to net/.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/completion/completion_fields.hpp"

namespace orcd::net {

enum class messages_use { answer, count };

class messages_fields {
 public:
  messages_fields(messages_use use, const completion_limits& limits)
      : use_(use), strict_fields_(limits.strict_fields), chat_(completion_kind::chat, limits) {}

  /// Takes one field of the body; null counts as absent.
  [[nodiscard]] engine::result<void> take(std::string_view name, const boost::json::value& value);
  /// The request, once every field was taken.
  [[nodiscard]] engine::result<completion_request> finish() &&;

 private:
  using value_ref = const boost::json::value&;
  struct rule {
    std::string_view name;
    engine::result<void> (messages_fields::*take)(value_ref);
  };
  [[nodiscard]] static const rule* find_rule(std::string_view name) noexcept;

  /// A field that is the same for a chat.
  engine::result<void> take_as_chat(value_ref value);
  engine::result<void> take_max_tokens(value_ref value);
  engine::result<void> take_temperature(value_ref value);
  engine::result<void> take_stops(value_ref value);
  engine::result<void> take_system(value_ref value);
  engine::result<void> take_messages(value_ref value);
  engine::result<void> take_tools(value_ref value);
  engine::result<void> take_tool_choice(value_ref value);
  engine::result<void> take_thinking(value_ref value);
  engine::result<void> take_output_config(value_ref value);
  engine::result<void> take_effort(std::string_view effort);
  engine::result<void> take_format(value_ref value);
  engine::result<void> take_context_management(value_ref value);
  // Fields that cannot change the answer, and fields with one value that does not.
  engine::result<void> take_object(value_ref value);
  engine::result<void> take_label(value_ref value);
  engine::result<void> take_only_empty(value_ref value);

  engine::result<void> take_beginning(completion_request& request) const;
  [[nodiscard]] engine::error refuse(const std::string& what) const { return refuse_field(field_, what); }

  messages_use use_;
  bool strict_fields_;
  completion_fields chat_;
  std::string field_;
  std::string format_field_;  ///< that asked for a format; empty: none has
  boost::json::value system_;
  boost::json::value messages_;
  std::vector<std::string> stops_;
  boost::json::object hints_;
  left_names left_;
  bool has_max_tokens_ = false;
  std::optional<std::uint32_t> budget_;  ///< tokens of reasoning
  bool thinks_ = false;
  bool hides_thoughts_ = false;
};

}  // namespace orcd::net
