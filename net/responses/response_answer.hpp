// The answer of a /v1/responses request: the response object and the items of its output. Pure. io thread
// only, but for body(). Private to net/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.hpp"
#include "net/completion/answer_extras.hpp"
#include "net/completion/message_output.hpp"
#include "net/jobs/job_output.hpp"
#include "net/responses/response_request.hpp"

namespace orcd::net {

class response_answer;

/// So many log probabilities are told again at the end of an item, of a stream and of a response that is
/// kept; of more, the events of the text and the answer that is no stream alone have them. To write one takes
/// some 100 ns, and the io thread writes these in one go.
constexpr std::size_t logprobs_repeated_max = 1'024;

struct response_identity {
  std::string id;
  std::int64_t created = 0;  ///< seconds since 1970
  std::string model;
  std::string echo;  ///< completion_request::echo
  std::shared_ptr<const response_notes> notes;
  engine::call_format calls = engine::call_format::none;
  bool stream = false;
  std::int64_t (*now)() = nullptr;  ///< seconds since 1970
  std::uint32_t prompt_tokens = 0;
  running_timing::clock clock{};  ///< of timings
  /// Called once, when the answer is complete and before its last bytes are made; null: nothing is to be
  /// done.
  void (*over)(const response_answer& answer) = nullptr;
};

enum class item_kind { reasoning, message, call, custom_call };
enum class item_status { in_progress, completed, incomplete };

/// One item of the output.
struct response_item {
  item_kind kind = item_kind::message;
  item_status status = item_status::in_progress;
  std::string id;
  std::string text;  ///< of a call its arguments, JSON unless they were cut off; of a custom one its input
  std::string name, space, call_id;     ///< of a call
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
  /// The same but for the items of its output.
  struct frame {
    std::string before, after;
  };
  [[nodiscard]] frame body_frame() const;
  /// The items of the output, with their log probabilities unless these are many.
  [[nodiscard]] kept_items output() const;
  [[nodiscard]] std::string render(const response_item& item, bool logprobs = true) const;
  /// The one part of a reasoning item or a message, with this much of its text.
  [[nodiscard]] std::string render_part(const response_item& item, std::string_view text,
                                        bool logprobs = true) const;
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
