// The output of one choice of a completion: chunks of a stream, or what the whole answer will say.
#include <algorithm>
#include <optional>
#include <utility>

#include "net/completion_answer.hpp"
#include "net/json_text.hpp"
#include "net/logprob_text.hpp"
#include "net/request_fields.hpp"
#include "net/respond.hpp"
#include "net/sse.hpp"
#include "net/text.hpp"

namespace orcd::net {
namespace {

using engine::output_delta;

/// Mistral's templates take ids of nine letters and digits only.
std::string make_call_id(engine::call_format format) {
  const std::string digits = make_request_id();
  return format == engine::call_format::mistral ? digits.substr(0, 9) : "call_" + digits.substr(0, 24);
}

class choice_output final : public job_output {
 public:
  choice_output(std::shared_ptr<completion_answer> answer, std::uint32_t index,
                const engine::tokenizer& vocabulary, const message_form& form)
      : answer_(std::move(answer)),
        identity_(answer_->identity()),
        choice_(answer_->at(index)),
        index_(index),
        vocabulary_(vocabulary),
        format_(form.format.calls) {
    if (form.parts()) reader_.emplace(form, vocabulary);
  }

  void started(std::string& out, double, std::chrono::system_clock::time_point) override {
    if (is_chat() && identity_.stream) {
      add_chunk(out, R"("delta":{"role":"assistant","content":""})", {}, "null");
    }
  }

  bool token(std::string& out, const output_token& token) override {
    tokens_ = token.index + 1;
    text_bytes_ += token.text.size();
    if (!token.logprobs.empty()) keep(token);
    if (!reader_) {
      if (token.stopped) forget_from(text_bytes_);
      if (!token.text.empty()) emit_text(out, output_delta::kind::content, token.text);
      return false;
    }
    const auto step = reader_->token(token.id, token.text);
    if (step.over) forget_from(text_bytes_ - std::min(step.cut_bytes, text_bytes_));
    return emit(out, step);
  }

  void tail(std::string& out, std::string_view text, std::uint32_t) override {
    if (!reader_) return emit_text(out, output_delta::kind::content, text);
    text_bytes_ += text.size();
    emit(out, reader_->text(text));
  }

  void ended(std::string& out, engine::finish_reason reason, const engine::job_stats& stats) override {
    if (reader_) {
      emit(out, reader_->finish());
      choice_.reasoning_tokens = reader_->reasoning_tokens();
    }
    choice_.reason = over_ ? engine::finish_reason::stop : reason;
    choice_.stats = stats;
    tokens_ = stats.tokens_out;
    if (!identity_.stream) {
      if (identity_.logprobs) choice_.logprobs = render_logprobs(identity_.kind, entries_, vocabulary_);
      return;
    }
    if (!entries_.empty()) emit_text(out, output_delta::kind::content, {});
    std::string finish;
    append_json_string(finish, choice_.finish_reason());
    add_chunk(out, is_chat() ? R"("delta":{})" : R"("text":"")", {}, finish);
  }

  void failed(std::string& out, const engine::error& failure) override {
    if (identity_.stream) out += "data: " + make_error_reply(failure).body + "\n\n";
  }

  void keep_alive(std::string& out) override {
    if (identity_.stream) append_keep_alive(out);
  }

 private:
  [[nodiscard]] bool is_chat() const noexcept { return identity_.kind == completion_kind::chat; }

  /// The log probabilities wait for the text that the token belongs to.
  void keep(const output_token& token) {
    scratch_.clear();
    vocabulary_.append_bytes(token.id, scratch_);
    entries_.push_back({{token.logprobs.begin(), token.logprobs.end()}, token_bytes_, token_characters_});
    token_bytes_ += scratch_.size();
    token_characters_ += code_points(scratch_);
  }

  /// Of the tokens whose text begins there or later, which is no part of the answer.
  void forget_from(std::size_t byte) {
    std::erase_if(entries_, [byte](const auto& e) { return e.first_byte >= byte; });
  }

  bool emit(std::string& out, const message_reader::step& step) {
    for (const output_delta& delta : step.deltas) {
      switch (delta.what) {
        case output_delta::kind::content:
        case output_delta::kind::reasoning: emit_text(out, delta.what, delta.text); break;
        case output_delta::kind::call: begin_call(out, delta); break;
        case output_delta::kind::arguments: add_arguments(out, delta); break;
      }
    }
    over_ = over_ || step.over;
    return step.over;
  }

  void emit_text(std::string& out, output_delta::kind what, std::string_view text) {
    const bool reasoning = what == output_delta::kind::reasoning;
    if (!identity_.stream) {
      (reasoning ? choice_.reasoning : choice_.text) += text;
      return;
    }
    std::string body = !is_chat()  ? R"("text":)"
                       : reasoning ? R"("delta":{"reasoning_content":)"
                                   : R"("delta":{"content":)";
    append_json_string(body, text);
    if (is_chat()) body += '}';
    add_delta(out, body);
  }

  void begin_call(std::string& out, const output_delta& delta) {
    choice_.calls.push_back({make_call_id(format_), delta.name, {}});
    if (!identity_.stream) return;
    std::string body = R"("delta":{"tool_calls":[)";
    json_object call(body);
    call.integer("index", delta.index).text("id", choice_.calls.back().id).text("type", "function");
    json_object function = call.object("function");
    function.text("name", delta.name).text("arguments", "");
    function.close();
    call.close();
    add_delta(out, body + "]}");
  }

  void add_arguments(std::string& out, const output_delta& delta) {
    if (!identity_.stream) {
      choice_.calls.at(delta.index).arguments += delta.text;
      return;
    }
    std::string body = R"("delta":{"tool_calls":[)";
    json_object call(body);
    call.integer("index", delta.index);
    json_object function = call.object("function");
    function.text("arguments", delta.text);
    function.close();
    call.close();
    add_delta(out, body + "]}");
  }

  /// A chunk with the log probabilities that wait.
  void add_delta(std::string& out, std::string_view body) {
    const std::string logprobs =
        entries_.empty() ? std::string() : render_logprobs(identity_.kind, entries_, vocabulary_);
    entries_.clear();
    add_chunk(out, body, logprobs, "null");
  }

  void add_chunk(std::string& out, std::string_view body, std::string_view logprobs,
                 std::string_view finish) const {
    out += "data: ";
    out += answer_->chunk_head();
    out += "{\"index\":" + std::to_string(index_) + ",";
    out += body;
    out += ",\"logprobs\":";
    out += logprobs.empty() ? std::string_view("null") : logprobs;
    out += ",\"finish_reason\":";
    out += finish;
    out += '}';
    out += answer_->chunk_tail(tokens_);
    out += "\n\n";
  }

  std::shared_ptr<completion_answer> answer_;
  const completion_identity& identity_;
  completion_answer::choice& choice_;
  std::uint32_t index_;
  const engine::tokenizer& vocabulary_;
  engine::call_format format_;
  std::optional<message_reader> reader_;  ///< where there is anything to part
  std::uint32_t tokens_ = 0;              ///< so far
  bool over_ = false;                     ///< the reader has ended the output
  std::vector<logprob_entry> entries_;    ///< of a stream: those whose text was not sent yet
  std::size_t text_bytes_ = 0;            ///< of the text that was set free
  std::size_t token_bytes_ = 0;           ///< of the tokens so far
  std::size_t token_characters_ = 0;      ///< code points that begin in them
  std::string scratch_;
};

}  // namespace

std::unique_ptr<job_output> make_choice_output(std::shared_ptr<completion_answer> answer, std::uint32_t index,
                                               const engine::tokenizer& vocabulary,
                                               const message_form& form) {
  return std::make_unique<choice_output>(std::move(answer), index, vocabulary, form);
}

}  // namespace orcd::net
