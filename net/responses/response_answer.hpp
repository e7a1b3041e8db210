// The answer of a /v1/responses request: the response object and the items of its output. Pure. io thread
// only, but for body(). Private to net/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.hpp"
#include "net/jobs/job_output.hpp"
#include "net/openai/message_output.hpp"
#include "net/responses/response_request.hpp"

namespace orcd::net {

struct response_identity {
  std::string id;
  std::int64_t created = 0;  ///< seconds since 1970
  std::string model;
  std::string echo;  ///< completion_request::echo
  std::shared_ptr<const response_notes> notes;
  engine::call_format calls = engine::call_format::none;
  bool stream = false;
  std::int64_t (*now)() = nullptr;  ///< seconds since 1970
};

enum class item_kind { reasoning, message, call, custom_call };
enum class item_status { in_progress, completed, incomplete };

/// One item of the output.
struct response_item {
  item_kind kind = item_kind::message;
  item_status status = item_status::in_progress;
  std::string id;
  std::string text;                  ///< of a call its arguments, one JSON object; of a custom one its input
  std::string name, space, call_id;  ///< of a call
  std::vector<logprob_entry> logprobs;  ///< of a message's tokens, if asked for
};

class response_answer {
 public:
  /// `vocabulary` must outlive it.
  response_answer(response_identity identity, const engine::tokenizer& vocabulary);

  [[nodiscard]] const response_identity& identity() const noexcept { return identity_; }
  [[nodiscard]] std::vector<response_item>& items() noexcept { return items_; }

  /// The response as it stands: in progress until end() or fail() was called. A thread may call it that is
  /// not the io thread, once the answer is over.
  [[nodiscard]] std::string body() const;
  [[nodiscard]] std::string render(const response_item& item) const;
  /// The one part of a reasoning item or a message, with this much of its text.
  [[nodiscard]] std::string render_part(const response_item& item, std::string_view text) const;
  /// [{"token",...}].
  [[nodiscard]] std::string render(const std::vector<logprob_entry>& logprobs) const;

  void end(const message_end& end);
  void fail(const engine::error& failure);
  [[nodiscard]] bool incomplete() const noexcept { return state_ == state::incomplete; }

 private:
  enum class state { in_progress, completed, incomplete, failed };
  [[nodiscard]] std::string usage() const;

  response_identity identity_;
  const engine::tokenizer& vocabulary_;
  std::vector<response_item> items_;
  state state_ = state::in_progress;
  message_end end_;
  std::int64_t completed_ = 0;
  std::string failure_;
};

/// Writes the answer's items and, if it is a stream, its events.
[[nodiscard]] std::unique_ptr<message_writer> make_response_writer(std::shared_ptr<response_answer> answer);

}  // namespace orcd::net
