// POST /v1/messages and /v1/messages/count_tokens: Anthropic's words around what answers a chat.

#include "net/anthropic/messages.hpp"

#include <utility>

#include "net/anthropic/message_events.hpp"
#include "net/anthropic/messages_request.hpp"
#include "net/completion/serve_completion.hpp"
#include "net/jobs/write.hpp"
#include "net/json/json_text.hpp"

namespace orcd::net {
namespace {

/// Clients look for these words before they shorten a conversation.
engine::error tell_too_long(std::size_t tokens, std::uint32_t most, std::string_view field) {
  return {engine::errc::context_length_exceeded,
          "prompt is too long: " + std::to_string(tokens) + " tokens > " + std::to_string(most) + " maximum",
          std::string(field)};
}

constexpr request_form messages_form{endpoint::messages, "msg_",        "messages",
                                     parse_messages,     tell_too_long, in_words_of_messages};
constexpr request_form count_form{endpoint::count_tokens, "msg_",        "messages",
                                  parse_count_tokens,     tell_too_long, in_words_of_messages};

written_answer write_message(const service& s, const prepared_completion& prepared,
                             std::chrono::system_clock::time_point) {
  message_identity identity;
  identity.id = prepared.id;
  identity.model = answered_model(s, prepared.asked);
  identity.prompt_tokens = static_cast<std::uint32_t>(prepared.jobs.front().prompt.size());
  identity.omit_reasoning = prepared.asked.omit_reasoning;
  identity.calls = prepared.reader.format.calls;
  written_answer out;
  out.plan.streams = prepared.asked.stream;
  std::unique_ptr<message_writer> writer;
  if (out.plan.streams) {
    writer = make_event_writer(std::move(identity));
  } else {
    const auto message = std::make_shared<whole_message>();
    writer = make_block_collector(identity, *message);
    out.plan.body = [identity = std::move(identity), message] { return render_message(identity, *message); };
  }
  out.outputs.push_back(make_message_output(std::move(writer), s.context.tokenizer, prepared.reader));
  return out;
}

}  // namespace

asio::awaitable<bool> handle_messages(service& s, connection& c, const http_request& request) {
  const completion_api api{messages_form, write_message};
  co_return co_await serve_completion(s, c, request, api);
}

asio::awaitable<bool> handle_count_tokens(service& s, connection& c, const http_request& request) {
  const auto now = request.received_wall;
  const auto prepared = co_await prepare_request(s, c, request, count_form, now);
  reply answer;
  if (prepared) {
    std::string body;
    json_object json(body);
    json.integer("input_tokens", prepared->jobs.front().prompt.size());
    json.close();
    answer = make_json_reply(200, std::move(body));
  } else {
    answer = make_error_reply(in_words_of_messages(prepared.error()));
  }
  co_return co_await write_reply(s, c, request, std::move(answer));
}

}  // namespace orcd::net
