// A conversation that is put together item by item, in the form of /v1/chat/completions. Items of one turn of
// the model (reasoning, text, calls) become one message, and so do neighbouring messages of the system and of
// the user, because many chat templates take no two of a kind in a row. Pure. Private to net/.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string_view>

namespace orcd::net {

class transcript {
 public:
  void system(std::string_view text) { append("system", "content", text, "\n\n"); }
  void user(std::string_view text) { append("user", "content", text, "\n\n"); }
  void assistant(std::string_view text) { append("assistant", "content", text, "\n"); }
  void thought(std::string_view text) { append("assistant", "reasoning_content", text, "\n"); }
  /// `arguments`: a JSON object as text, or whatever an earlier turn has made of it.
  void call(std::string_view id, std::string_view name, std::string_view arguments);
  void result_of(std::string_view id, std::string_view text);

  [[nodiscard]] std::size_t size() const noexcept { return messages_.size(); }
  [[nodiscard]] boost::json::array take() && { return std::move(messages_); }

 private:
  /// The last message if it is of this role, else a new one.
  boost::json::object& message(std::string_view role);
  void append(std::string_view role, std::string_view member, std::string_view text,
              std::string_view between);

  boost::json::array messages_;
};

}  // namespace orcd::net
