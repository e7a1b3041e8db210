#include "net/completion_answer.hpp"

#include <utility>

#include "net/json_text.hpp"
#include "net/logprob_text.hpp"
#include "net/respond.hpp"
#include "net/sse.hpp"
#include "net/text.hpp"

namespace orcd::net {
namespace {

/// "id","object","created","model","system_fingerprint": the beginning of every object.
std::string opening(const completion_identity& identity, std::string_view object) {
  std::string out;
  json_object json(out);
  json.text("id", identity.id)
      .text("object", object)
      .integer("created", identity.created)
      .text("model", identity.model)
      .text("system_fingerprint", identity.system_fingerprint);
  return out;
}

class choice_output final : public job_output {
 public:
  choice_output(std::shared_ptr<completion_answer> answer, std::uint32_t index,
                const engine::tokenizer& vocabulary)
      : answer_(std::move(answer)), identity_(answer_->identity()), index_(index), vocabulary_(vocabulary) {}

  void started(std::string& out, double, std::chrono::system_clock::time_point) override {
    if (identity_.kind == completion_kind::chat && identity_.stream) {
      add_chunk(out, R"("delta":{"role":"assistant","content":""})", {}, "null");
    }
  }

  void token(std::string& out, const output_token& token) override {
    text_bytes_ += token.text.size();
    if (!token.logprobs.empty()) keep(token);
    if (token.stopped) std::erase_if(entries_, [this](const auto& e) { return e.first_byte >= text_bytes_; });
    if (!token.text.empty()) emit(out, token.text);
  }

  void tail(std::string& out, std::string_view text, std::uint32_t) override { emit(out, text); }

  void ended(std::string& out, engine::finish_reason reason, const engine::job_stats& stats) override {
    auto& choice = answer_->at(index_);
    choice.reason = reason;
    choice.stats = stats;
    if (!identity_.stream) {
      if (identity_.logprobs) choice.logprobs = render_logprobs(identity_.kind, entries_, vocabulary_);
      return;
    }
    if (!entries_.empty()) emit(out, {});
    std::string finish;
    append_json_string(finish, to_string(reason));
    const bool chat = identity_.kind == completion_kind::chat;
    add_chunk(out, chat ? R"("delta":{})" : R"("text":"")", {}, finish);
  }

  void failed(std::string& out, const engine::error& failure) override {
    if (identity_.stream) out += "data: " + make_error_reply(failure).body + "\n\n";
  }

  void keep_alive(std::string& out) override {
    if (identity_.stream) append_keep_alive(out);
  }

 private:
  /// The log probabilities wait for the text that the token belongs to.
  void keep(const output_token& token) {
    scratch_.clear();
    vocabulary_.append_bytes(token.id, scratch_);
    entries_.push_back({{token.logprobs.begin(), token.logprobs.end()}, token_bytes_, token_characters_});
    token_bytes_ += scratch_.size();
    token_characters_ += code_points(scratch_);
  }

  void emit(std::string& out, std::string_view text) {
    if (!identity_.stream) {
      answer_->at(index_).text += text;
      return;
    }
    std::string body = identity_.kind == completion_kind::chat ? R"("delta":{"content":)" : R"("text":)";
    append_json_string(body, text);
    if (identity_.kind == completion_kind::chat) body += '}';
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
    out += answer_->chunk_tail();
    out += "\n\n";
  }

  std::shared_ptr<completion_answer> answer_;
  const completion_identity& identity_;
  std::uint32_t index_;
  const engine::tokenizer& vocabulary_;
  std::vector<logprob_entry> entries_;  ///< of a stream: those whose text was not sent yet
  std::size_t text_bytes_ = 0;          ///< of the text that was set free
  std::size_t token_bytes_ = 0;         ///< of the tokens so far
  std::size_t token_characters_ = 0;    ///< code points that begin in them
  std::string scratch_;
};

}  // namespace

completion_answer::completion_answer(completion_identity identity)
    : identity_(std::move(identity)), choices_(identity_.choices) {
  const bool chat = identity_.kind == completion_kind::chat;
  chunk_head_ = opening(identity_, chat ? "chat.completion.chunk" : "text_completion") + ",\"choices\":[";
}

std::string_view completion_answer::chunk_tail() const noexcept {
  return identity_.include_usage ? "],\"usage\":null}" : "]}";
}

std::string completion_answer::usage() const {
  std::uint64_t generated = 0;
  for (const auto& choice : choices_) generated += choice.stats.tokens_out;
  const auto& prompt = choices_.front().stats;  // the same for all
  std::string out;
  json_object json(out);
  json.integer("prompt_tokens", prompt.tokens_in)
      .integer("completion_tokens", generated)
      .integer("total_tokens", prompt.tokens_in + generated);
  json_object cached = json.object("prompt_tokens_details");
  cached.integer("cached_tokens", prompt.tokens_cached);
  cached.close();
  json_object reasoning = json.object("completion_tokens_details");
  reasoning.integer("reasoning_tokens", 0);
  reasoning.close();
  json.close();
  return out;
}

std::string completion_answer::closing() const {
  std::string out;
  if (identity_.include_usage) out += "data: " + chunk_head_ + "],\"usage\":" + usage() + "}\n\n";
  return out + "data: [DONE]\n\n";
}

std::string completion_answer::whole() const {
  const bool chat = identity_.kind == completion_kind::chat;
  std::string out = opening(identity_, chat ? "chat.completion" : "text_completion") + ",\"choices\":[";
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const auto& choice = choices_[i];
    out += (i > 0 ? ",{\"index\":" : "{\"index\":") + std::to_string(i);
    out += chat ? R"(,"message":{"role":"assistant","content":)" : R"(,"text":)";
    append_json_string(out, choice.text);
    if (chat) out += ",\"refusal\":null}";
    out += ",\"logprobs\":" + (choice.logprobs.empty() ? "null" : choice.logprobs);
    out += ",\"finish_reason\":";
    append_json_string(out, to_string(choice.reason));
    out += '}';
  }
  return out + "],\"usage\":" + usage() + "}";
}

std::unique_ptr<job_output> make_choice_output(std::shared_ptr<completion_answer> answer, std::uint32_t index,
                                               const engine::tokenizer& vocabulary) {
  return std::make_unique<choice_output>(std::move(answer), index, vocabulary);
}

}  // namespace orcd::net
