// A client of each API: it asks, gets the answer to what a model wrote, and goes on with the conversation as
// the API's own clients do.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/conversation/chat_format.hpp"
#include "net/completion/prepare_completion.hpp"

namespace orcd::net::test {

enum class api { chat, messages, responses, ollama };
inline constexpr int apis = 4;
[[nodiscard]] std::string_view to_string(api which) noexcept;

/// What a request becomes.
struct asked {
  std::string prompt;   ///< empty where it was refused
  std::string refusal;  ///< empty where it was not
  reader_options reader;
  std::shared_ptr<const request_notes> notes;
};

class conversation {
 public:
  /// `format` must outlive it.
  conversation(api which, const engine::chat_format& format, bool tools, bool reasons);

  [[nodiscard]] asked ask() const;
  /// Takes the answer to `request` that the model's text is. Returns the calls in it.
  std::size_t take_answer(const asked& request, std::string_view text, bool cut);
  /// The results of the calls, as text or, with the API's own word for it, in parts.
  void give_results(bool parts);
  void say(std::string_view text);

 private:
  [[nodiscard]] std::string body() const;
  [[nodiscard]] boost::json::object answer(const asked& request, std::string_view text, bool cut) const;
  void give_result(const std::string& id, std::string_view name, bool parts);

  api api_;
  const engine::chat_format& format_;
  bool tools_;
  bool reasons_;
  boost::json::array messages_;
  std::vector<std::pair<std::string, std::string>> calls_;  ///< id and name of those without a result
};

}  // namespace orcd::net::test
