#include "test/unit/net/turns/conversations.hpp"

#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "net/anthropic/message_events.hpp"
#include "net/anthropic/messages_request.hpp"
#include "net/ollama/ollama_answer.hpp"
#include "net/ollama/ollama_request.hpp"
#include "net/openai/completion_answer.hpp"
#include "net/responses/response_answer.hpp"
#include "net/responses/response_request.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net::test {
namespace {

namespace json = boost::json;

const letter_tokenizer letters;

// Functions in the words of each API.
json::value parameters_of(std::string_view name) {
  if (name == "now") return json::parse(R"({"type":"object","properties":{}})");
  return json::parse(R"({"type":"object","properties":{"city":{"type":"string"},"x":{"type":"number"},
    "n":{"type":"integer"},"o":{"type":"object"},"l":{"type":"array"}}})");
}

json::array tools_of(api which) {
  json::array out;
  for (const std::string_view name : {"weather", "now"}) {
    json::object function{{"name", name}, {"description", "A tool."}};
    if (which == api::messages) {
      function["input_schema"] = parameters_of(name);
      out.push_back(std::move(function));
      continue;
    }
    function["parameters"] = parameters_of(name);
    if (which == api::responses) {
      function["type"] = "function";
      out.push_back(std::move(function));
      continue;
    }
    out.push_back(json::object{{"type", "function"}, {"function", std::move(function)}});
  }
  return out;
}

request_form form_of(api which) {
  switch (which) {
    case api::chat: break;
    case api::messages: return {endpoint::messages, "msg_", "messages", parse_messages};
    case api::responses: return {endpoint::responses, "resp_", "input", parse_response};
    case api::ollama: return {endpoint::ollama_chat, "chat-", "messages", parse_ollama_chat};
  }
  return net::form_of(completion_kind::chat);
}

/// Gives the model's text to an output, a character at a time.
void play(job_output& output, std::string_view text, bool cut) {
  std::string out;
  output.started(out, 0, {});
  std::uint32_t index = 0;
  bool over = false;
  for (std::size_t at = 0; at < text.size() && !over;) {
    std::size_t size = 1;
    while (at + size < text.size() && (static_cast<unsigned char>(text[at + size]) & 0xC0U) == 0x80U) ++size;
    output_token token;
    token.id = 'a';
    token.index = index++;
    token.text = text.substr(at, size);
    over = output.token(out, token);
    at += size;
  }
  output.ended(out, cut ? engine::finish_reason::length : engine::finish_reason::stop, {});
}

std::string chat_answer(const asked& request, std::string_view text, bool cut) {
  completion_identity identity;
  identity.id = "c1";
  const auto answer = std::make_shared<completion_answer>(identity);
  play(*make_choice_output(answer, 0, letters, request.reader), text, cut);
  return answer->body();
}

std::string messages_answer(const asked& request, std::string_view text, bool cut) {
  message_identity identity;
  identity.id = "m1";
  identity.calls = request.reader.format.calls;
  whole_message message;
  play(*make_message_output(make_block_collector(identity, message), letters, request.reader), text, cut);
  return render_message(identity, message);
}

std::string responses_answer(const asked& request, std::string_view text, bool cut) {
  response_identity identity;
  identity.id = "r1";
  identity.echo = R"("store":false)";
  identity.notes = std::static_pointer_cast<const response_notes>(request.notes);
  identity.calls = request.reader.format.calls;
  identity.now = [] { return std::int64_t{7}; };
  const auto answer = std::make_shared<response_answer>(std::move(identity), letters);
  play(*make_message_output(make_response_writer(answer), letters, request.reader), text, cut);
  return answer->body();
}

std::string ollama_answer(const asked& request, std::string_view text, bool cut) {
  ollama_identity identity;
  identity.id = "o1";
  identity.calls = request.reader.format.calls;
  whole_message message;
  play(*make_message_output(make_ollama_collector(identity, message), letters, request.reader), text, cut);
  return render_ollama(identity, message, letters);
}

}  // namespace

std::string_view to_string(api which) noexcept {
  constexpr std::array<std::string_view, apis> names{"chat", "messages", "responses", "ollama"};
  return names[static_cast<std::size_t>(which)];
}

conversation::conversation(api which, const engine::chat_format& format, bool tools, bool reasons)
    : api_(which), format_(format), tools_(tools), reasons_(reasons) {}

std::string conversation::body() const {
  json::object body{{api_ == api::responses ? "input" : "messages", messages_}};
  if (tools_) body["tools"] = tools_of(api_);
  if (api_ == api::messages) {
    body["max_tokens"] = 4'000;
    if (reasons_) body["thinking"] = json::object{{"type", "enabled"}, {"budget_tokens", 2'000}};
  }
  if (api_ == api::ollama) body["model"] = "served";
  return json::serialize(body);
}

asked conversation::ask() const {
  request_limits lengths;
  lengths.context_tokens = 1U << 20U;
  engine::worker_identity served;
  served.model_name = "served";
  const json::object standard{{"enable_thinking", reasons_}, {"thinking", reasons_}};
  completion_limits limits{lengths, served};
  limits.vocab = letters.vocab_size();
  limits.template_defaults = &standard;
  http_request request;
  request.body = body();
  const auto prepared = prepare_completion(request, form_of(api_), {limits, letters, &format_, {}}, {});
  asked out;
  if (!prepared) {
    out.refusal = prepared.error().param + ": " + prepared.error().message;
    return out;
  }
  out.prompt = letters.decode(prepared->jobs.front().prompt, true);
  out.reader = prepared->reader;
  out.notes = prepared->asked.notes;
  return out;
}

json::object conversation::answer(const asked& request, std::string_view text, bool cut) const {
  std::string body;
  switch (api_) {
    case api::chat: body = chat_answer(request, text, cut); break;
    case api::messages: body = messages_answer(request, text, cut); break;
    case api::responses: body = responses_answer(request, text, cut); break;
    case api::ollama: body = ollama_answer(request, text, cut); break;
  }
  return json::parse(body).as_object();
}

std::size_t conversation::take_answer(const asked& request, std::string_view text, bool cut) {
  const json::object got = answer(request, text, cut);
  const auto note = [&](const json::value& id, const json::value& name) {
    calls_.emplace_back(id.as_string(), name.as_string());
  };
  if (api_ == api::messages) {
    messages_.push_back(json::object{{"role", "assistant"}, {"content", got.at("content")}});
    for (const auto& block : got.at("content").as_array()) {
      if (block.at("type") == "tool_use") note(block.at("id"), block.at("name"));
    }
  } else if (api_ == api::responses) {
    for (const auto& item : got.at("output").as_array()) {
      messages_.push_back(item);
      if (item.at("type") == "function_call") note(item.at("call_id"), item.at("name"));
    }
  } else {
    const json::value& message =
        api_ == api::chat ? got.at("choices").at(0).at("message") : got.at("message");
    messages_.push_back(message);
    const auto* calls = message.as_object().if_contains("tool_calls");
    if (calls != nullptr && calls->is_array()) {
      for (const auto& call : calls->as_array()) note(call.at("id"), call.at("function").at("name"));
    }
  }
  return calls_.size();
}

void conversation::give_result(const std::string& id, std::string_view name, bool parts) {
  const std::string text = "Result of " + std::string(name) + ": 20 °C";
  const auto content = [&](std::string_view type) {
    json::array list;
    list.push_back(json::object{{"type", type}, {"text", text}});
    list.push_back(json::object{{"type", type}, {"text", "and \"more\""}});
    return parts ? json::value(std::move(list)) : json::value(text);
  };
  switch (api_) {
    case api::chat:
      messages_.push_back(json::object{{"role", "tool"}, {"tool_call_id", id}, {"content", content("text")}});
      break;
    case api::ollama:  // which knows no parts
      messages_.push_back(json::object{{"role", "tool"}, {"tool_name", name}, {"content", text}});
      break;
    case api::responses:
      messages_.push_back(
          json::object{{"type", "function_call_output"}, {"call_id", id}, {"output", content("input_text")}});
      break;
    case api::messages: {
      if (messages_.back().at("role") != json::value("user")) {
        messages_.push_back(json::object{{"role", "user"}, {"content", json::array()}});
      }
      messages_.back().at("content").as_array().push_back(
          json::object{{"type", "tool_result"}, {"tool_use_id", id}, {"content", content("text")}});
      break;
    }
  }
}

void conversation::give_results(bool parts) {
  for (const auto& [id, name] : std::exchange(calls_, {})) give_result(id, name, parts);
}

void conversation::say(std::string_view text) {
  if (api_ == api::messages && !messages_.empty() && messages_.back().at("role") == json::value("user")) {
    messages_.back().at("content").as_array().push_back(json::object{{"type", "text"}, {"text", text}});
    return;
  }
  messages_.push_back(json::object{{"role", "user"}, {"content", text}});
}

}  // namespace orcd::net::test
