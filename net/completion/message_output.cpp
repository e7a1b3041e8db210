#include "net/completion/message_output.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "net/json/text.hpp"

namespace orcd::net {
namespace {

using engine::output_delta;

class message_output final : public job_output {
 public:
  message_output(std::unique_ptr<message_writer> writer, const engine::tokenizer& vocabulary,
                 const reader_options& reader, std::shared_ptr<const prompt_echo> echo,
                 std::shared_ptr<prompt_values> values)
      : writer_(std::move(writer)),
        vocabulary_(vocabulary),
        echo_(std::move(echo)),
        values_(std::move(values)) {
    if (reader.separates()) reader_.emplace(reader, vocabulary);
  }

  void started(std::string& out, double, std::chrono::system_clock::time_point) override {
    writer_->started(out);
    if (echo_) write_prompt(out);
  }

  void progress(std::string& out, const prompt_progress& progress) override {
    writer_->progress(out, progress);
  }

  void beside_output(std::string& out, const beside_token& token) override {
    auto logprobs = token.logprobs;
    if (token.part == engine::token_part::end) {
      progress_.logprobs.push_back({{logprobs.begin(), logprobs.end()}, token_bytes_, token_characters_});
      return;
    }
    if (values_) values_->push_back({{logprobs.begin(), logprobs.end()}, token.rank});
    if (!echo_ || !echo_->logprobs) return;
    logprobs = logprobs.first(std::min<std::size_t>(logprobs.size(), 1 + echo_->listed));
    keep_of_prompt({{logprobs.begin(), logprobs.end()}}, token.id);
    // Its text is written already; a stream gets the log probability at once, so that none gather here.
    writer_->part(out, {output_delta::kind::content, {}, {}, 0}, progress_);
  }

  bool token(std::string& out, const output_token& token) override {
    progress_.tokens = token.index + 1;
    progress_.ids.push_back(token.id);
    text_bytes_ += token.text.size();
    if (!token.logprobs.empty()) keep(token);
    if (!reader_) {
      if (token.stopped) forget_from(text_bytes_);
      end_.stop = token.stop;
      write_content(out, token.text);
      return false;
    }
    auto step = reader_->token(token.id, token.text);
    if (step.over) forget_from(text_bytes_ - std::min(step.cut_bytes, text_bytes_));
    return emit(out, std::move(step));
  }

  void tail(std::string& out, std::string_view text, std::uint32_t) override {
    if (!reader_) return write_content(out, text);
    text_bytes_ += text.size();
    emit(out, reader_->text(text));
  }

  void ended(std::string& out, engine::finish_reason reason, const engine::job_stats& stats) override {
    if (reader_) {
      const bool cut = reason == engine::finish_reason::length;
      emit(out, reader_->finish(cut ? engine::output_end::cut : engine::output_end::whole));
      end_.reasoning_tokens = reader_->reasoning_tokens();
    }
    end_.reason = over_ ? engine::finish_reason::stop : reason;
    end_.stats = stats;
    progress_.tokens = stats.tokens_out;
    writer_->ended(out, end_, progress_);
  }

  void failed(std::string& out, const engine::error& failure) override { writer_->failed(out, failure); }
  [[nodiscard]] std::size_t unwritten_values() const noexcept override {
    // Those of tokens that were cut off are gone: what is left may be of any before them.
    const bool told_in_order = writer_->writes_values_once() && !cut_;
    return told_in_order ? progress_.logprobs.size() : job_output::unwritten_values();
  }
  void keep_alive(std::string& out) override { writer_->keep_alive(out); }

 private:
  /// Keeps log probabilities until the text that their token belongs to is sent.
  void keep(const output_token& token) {
    scratch_.clear();
    vocabulary_.append_bytes(token.id, scratch_);
    progress_.logprobs.push_back(
        {{token.logprobs.begin(), token.logprobs.end()}, token_bytes_, token_characters_});
    token_bytes_ += scratch_.size();
    token_characters_ += code_points(scratch_);
  }

  void write_prompt(std::string& out) {
    constexpr float unknown = std::numeric_limits<float>::quiet_NaN();
    if (echo_->logprobs) keep_of_prompt({{{echo_->first, unknown}}}, echo_->first);
    write_content(out, echo_->text);
    text_bytes_ = token_bytes_ = echo_->text.size();
    token_characters_ = code_points(echo_->text);
  }

  /// The offset is that in the prompt's text: what a token prints and the text does not have is left out.
  void keep_of_prompt(logprob_entry entry, engine::token_id id) {
    entry.text_offset = prompt_characters_ - std::min(prompt_characters_, echo_->unshown);
    scratch_.clear();
    vocabulary_.append_bytes(id, scratch_, true);
    prompt_characters_ += code_points(scratch_);
    progress_.logprobs.push_back(std::move(entry));
  }

  /// Drops the log probabilities of tokens whose text begins at `byte` or later: that text is not part of the
  /// answer.
  void forget_from(std::size_t byte) {
    cut_ = true;
    std::erase_if(progress_.logprobs, [byte](const auto& e) { return e.first_byte >= byte; });
  }

  void write_content(std::string& out, std::string_view text) {
    if (text.empty()) return;
    writer_->part(out, {output_delta::kind::content, std::string(text), {}, 0}, progress_);
  }

  bool emit(std::string& out, message_reader::step step) {
    for (const output_delta& delta : step.deltas) {
      if (delta.what == output_delta::kind::call) ++end_.calls;
      writer_->part(out, delta, progress_);
    }
    if (!step.stop.empty()) end_.stop = std::move(step.stop);
    over_ = over_ || step.over;
    return step.over;
  }

  std::unique_ptr<message_writer> writer_;
  const engine::tokenizer& vocabulary_;
  std::shared_ptr<const prompt_echo> echo_;
  std::shared_ptr<prompt_values> values_;
  std::optional<message_reader> reader_;  ///< set where reasoning or calls must be separated from content
  message_progress progress_;
  message_end end_;
  bool over_ = false;                  ///< the reader has ended the output
  bool cut_ = false;                   ///< the last tokens are no part of the answer
  std::size_t text_bytes_ = 0;         ///< bytes of all text so far
  std::size_t token_bytes_ = 0;        ///< bytes of all tokens so far
  std::size_t token_characters_ = 0;   ///< code points that begin in them
  std::size_t prompt_characters_ = 0;  ///< of the prompt's tokens so far
  std::string scratch_;
};

}  // namespace

std::unique_ptr<job_output> make_message_output(std::unique_ptr<message_writer> writer,
                                                const engine::tokenizer& vocabulary,
                                                const reader_options& reader,
                                                std::shared_ptr<const prompt_echo> echo,
                                                std::shared_ptr<prompt_values> values) {
  return std::make_unique<message_output>(std::move(writer), vocabulary, reader, std::move(echo),
                                          std::move(values));
}

std::string make_call_id(std::string_view prefix, engine::call_format format, id_series& ids) {
  const std::string digits = ids.next();
  if (format == engine::call_format::mistral) return digits.substr(0, 9);
  return std::string(prefix) + digits.substr(0, 24);
}

std::string whole_message::text_of(output_delta::kind what) const {
  std::string out;
  for (const part& one : parts) {
    if (one.what == what) out += one.text;
  }
  return out;
}

message_collector::message_collector(whole_message& message, std::function<std::string()> make_call_id)
    : message_(message), make_call_id_(std::move(make_call_id)) {}

void message_collector::part(std::string&, const output_delta& part, message_progress&) {
  auto& parts = message_.parts;
  const bool is_call = part.what == output_delta::kind::call;
  // Arguments follow their call: no other part comes between.
  const auto what = part.what == output_delta::kind::arguments ? output_delta::kind::call : part.what;
  if (is_call || parts.empty() || parts.back().what != what) parts.push_back({what, {}, part.name, {}});
  if (is_call) parts.back().id = make_call_id_();
  parts.back().text += part.text;
}

void message_collector::ended(std::string&, const message_end& end, message_progress& progress) {
  message_.end = end;
  message_.logprobs = std::move(progress.logprobs);
  message_.ids = std::move(progress.ids);
}

}  // namespace orcd::net
