// The two ways in which OpenAI's completions write a choice: the chunks of a stream, or what the single
// answer will say of it.
#include <utility>

#include "net/completion/answer_extras.hpp"
#include "net/completion/logprob_text.hpp"
#include "net/http/sse.hpp"
#include "net/json/json_text.hpp"
#include "net/openai/completion_answer.hpp"

namespace orcd::net {
namespace {

using engine::output_delta;

/// Where a choice of an answer is kept, and what its writers need to know.
struct choice_place {
  std::shared_ptr<completion_answer> answer;
  std::uint32_t index = 0;
  const engine::tokenizer& vocabulary;
  engine::call_format format;

  [[nodiscard]] const completion_identity& identity() const noexcept { return answer->identity(); }
  [[nodiscard]] completion_answer::choice& choice() const { return answer->at(index); }
  [[nodiscard]] id_series ids() const { return id_series(identity().id + "-" + std::to_string(index)); }
};

class chunk_writer final : public message_writer {
 public:
  explicit chunk_writer(choice_place place)
      : place_(std::move(place)),
        ids_(place_.ids()),
        timing_(place_.identity().now, place_.choice().prompt_tokens) {}

  void started(std::string& out) override {
    timing_.started();
    message_progress none;
    if (is_chat()) add_chunk(out, R"("delta":{"role":"assistant","content":""})", {}, "null", none);
  }

  void progress(std::string& out, const prompt_progress& progress) override {
    timing_.progress(progress);
    if (!shows().progress) return;
    std::string more;
    append_progress(more, place_.choice().prompt_tokens, progress);
    message_progress none;
    add_chunk(out, is_chat() ? R"("delta":{})" : R"("text":"")", {}, "null", none, more);
  }

  void part(std::string& out, const output_delta& part, message_progress& progress) override {
    timing_.note_output();
    if (part.what == output_delta::kind::reasoning && !shows().reasoning) return;
    switch (part.what) {
      case output_delta::kind::content:
      case output_delta::kind::reasoning: add_text(out, part.what, part.text, progress); break;
      case output_delta::kind::call: begin_call(out, part, progress); break;
      case output_delta::kind::arguments: add_arguments(out, part, progress); break;
    }
  }

  void ended(std::string& out, const message_end& end, message_progress& progress) override {
    auto& choice = place_.choice();
    choice.message.end = end;
    timing_.note_output();
    if (!progress.logprobs.empty()) add_text(out, output_delta::kind::content, {}, progress);
    std::string finish;
    append_json_string(finish, choice.finish_reason());
    add_chunk(out, is_chat() ? R"("delta":{})" : R"("text":"")", {}, finish, progress);
  }

  void failed(std::string& out, const engine::error& failure) override { append_error_object(out, failure); }

  [[nodiscard]] bool writes_values_once() const noexcept override { return true; }

  void keep_alive(std::string& out) override { append_keep_alive(out); }

 private:
  [[nodiscard]] const answer_shape& shows() const noexcept { return place_.identity().shows; }

  /// A chunk's tail, which begins with the end of its choices, with members of the chunk behind them.
  [[nodiscard]] static std::string with_members(std::string tail, std::string_view members) {
    return tail.insert(1, members);
  }

  /// What the chunk shows besides its choice.
  [[nodiscard]] std::string members(const message_progress& progress, bool last) const {
    std::string out;
    const auto& choice = place_.choice();
    if (shows().token_ids && is_chat() && !prompt_shown_)
      append_ids(out, "prompt_token_ids", choice.prompt_ids);
    const auto running = timing_.at(progress.tokens);
    if (!shows().timings || !running) return out;
    append_timings(out, last ? timing_of(choice.message.end.stats) : *running);
    return out;
  }

  [[nodiscard]] bool is_chat() const noexcept { return place_.identity().kind == completion_kind::chat; }

  void add_text(std::string& out, output_delta::kind what, std::string_view text,
                message_progress& progress) {
    const bool reasoning = what == output_delta::kind::reasoning;
    std::string body = !is_chat()  ? R"("text":)"
                       : reasoning ? R"("delta":{"reasoning_content":)"
                                   : R"("delta":{"content":)";
    append_json_string(body, text);
    if (is_chat() && reasoning) {  // by either of its names
      body += R"(,"reasoning":)";
      append_json_string(body, text);
    }
    if (is_chat()) body += '}';
    add_delta(out, body, progress);
  }

  void begin_call(std::string& out, const output_delta& part, message_progress& progress) {
    std::string body = R"("delta":{"tool_calls":[)";
    json_object call(body);
    call.integer("index", part.index)
        .text("id", make_call_id("call_", place_.format, ids_))
        .text("type", "function");
    json_object function = call.object("function");
    function.text("name", part.name).text("arguments", "");
    function.close();
    call.close();
    add_delta(out, body + "]}", progress);
  }

  void add_arguments(std::string& out, const output_delta& part, message_progress& progress) {
    std::string body = R"("delta":{"tool_calls":[)";
    json_object call(body);
    call.integer("index", part.index);
    json_object function = call.object("function");
    function.text("arguments", part.text);
    function.close();
    call.close();
    add_delta(out, body + "]}", progress);
  }

  /// A chunk with the log probabilities that were kept.
  void add_delta(std::string& out, std::string_view body, message_progress& progress) {
    const auto entries = std::exchange(progress.logprobs, {});
    const std::string logprobs = entries.empty() ? std::string()
                                                 : render_logprobs(place_.identity().kind, entries,
                                                                   place_.vocabulary, shows().tokens_as_ids);
    add_chunk(out, body, logprobs, "null", progress);
  }

  /// `more`: members of the chunk besides its choice.
  void add_chunk(std::string& out, std::string_view body, std::string_view logprobs, std::string_view finish,
                 message_progress& progress, std::string_view more = {}) {
    out += "data: ";
    out += place_.answer->chunk_head();
    out += "{\"index\":" + std::to_string(place_.index) + ",";
    out += body;
    out += ",\"logprobs\":";
    out += logprobs.empty() ? std::string_view("null") : logprobs;
    out += ",\"finish_reason\":";
    out += finish;
    if (shows().token_ids) {
      append_ids(out, "token_ids", std::exchange(progress.ids, {}));
      if (!is_chat() && !prompt_shown_) append_ids(out, "prompt_token_ids", place_.choice().prompt_ids);
    }
    out += '}';
    out += with_members(place_.answer->chunk_tail(place_.index, progress.tokens),
                        members(progress, finish != "null").append(more));
    out += "\n\n";
    prompt_shown_ = true;
  }

  choice_place place_;
  id_series ids_;
  running_timing timing_;
  bool prompt_shown_ = false;
};

class choice_collector final : public message_collector {
 public:
  explicit choice_collector(choice_place place)
      : message_collector(place.choice().message,
                          [format = place.format, ids = place.ids()]() mutable {
                            return make_call_id("call_", format, ids);
                          }),
        place_(std::move(place)) {}

  void part(std::string& out, const output_delta& part, message_progress& progress) override {
    if (part.what == output_delta::kind::reasoning && !place_.identity().shows.reasoning) return;
    message_collector::part(out, part, progress);
  }

  void ended(std::string& out, const message_end& end, message_progress& progress) override {
    auto& choice = place_.choice();
    message_collector::ended(out, end, progress);
    if (!place_.identity().logprobs) return;
    choice.logprobs = [kind = place_.identity().kind, entries = std::move(choice.message.logprobs),
                       &vocabulary = place_.vocabulary, as_ids = place_.identity().shows.tokens_as_ids] {
      return render_logprobs(kind, entries, vocabulary, as_ids);
    };
  }

 private:
  choice_place place_;
};

}  // namespace

std::unique_ptr<job_output> make_choice_output(std::shared_ptr<completion_answer> answer, std::uint32_t index,
                                               const engine::tokenizer& vocabulary,
                                               const reader_options& reader,
                                               std::shared_ptr<const prompt_echo> echo) {
  const bool stream = answer->identity().stream;
  auto values = answer->at(index).values;
  choice_place place{std::move(answer), index, vocabulary, reader.format.calls};
  std::unique_ptr<message_writer> writer;
  if (stream) {
    writer = std::make_unique<chunk_writer>(std::move(place));
  } else {
    writer = std::make_unique<choice_collector>(std::move(place));
  }
  return make_message_output(std::move(writer), vocabulary, reader, std::move(echo), std::move(values));
}

}  // namespace orcd::net
