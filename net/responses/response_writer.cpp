// Makes items of the parts of an output, and tells a stream of each step.
#include <utility>

#include "net/http/sse.hpp"
#include "net/json/json_text.hpp"
#include "net/json/request_fields.hpp"
#include "net/responses/response_answer.hpp"

namespace orcd::net {
namespace {

using engine::output_delta;

class response_writer final : public message_writer {
 public:
  explicit response_writer(std::shared_ptr<response_answer> answer)
      : answer_(std::move(answer)),
        ids_(answer_->identity().id),
        streams_(answer_->identity().stream),
        timing_(answer_->identity().clock, answer_->identity().prompt_tokens) {}

  void started(std::string& out) override {
    timing_.started();
    started_ = true;
    whole(out, "response.created");
    whole(out, "response.in_progress");
  }

  void progress(std::string&, const prompt_progress& progress) override { timing_.progress(progress); }

  void part(std::string& out, const output_delta& part, message_progress& progress) override {
    timing_.note_output();
    tokens_ = progress.tokens;
    const bool content = part.what == output_delta::kind::content;
    auto logprobs = std::exchange(progress.logprobs, {});
    // Those of reasoning and of calls have no place in a response.
    if (!content || !answer_->identity().notes->logprobs) logprobs.clear();
    switch (part.what) {
      case output_delta::kind::content: text(out, item_kind::message, part.text, std::move(logprobs)); break;
      case output_delta::kind::reasoning: text(out, item_kind::reasoning, part.text, {}); break;
      case output_delta::kind::call: begin_call(out, part.name); break;
      case output_delta::kind::arguments: arguments(out, part.text); break;
    }
  }

  void ended(std::string& out, const message_end& end, message_progress&) override {
    const bool cut = end.reason == engine::finish_reason::length;
    // A model that says nothing at all has said it in a message.
    if (answer_->items().empty()) text(out, item_kind::message, {}, {});
    close(out, cut ? item_status::incomplete : item_status::completed);
    answer_->end(end);
    if (answer_->identity().notes->timings) end_timings_ = render_timings(timing_of(end.stats));
    if (answer_->identity().over != nullptr) answer_->identity().over(*answer_);
    whole(out, cut ? "response.incomplete" : "response.completed");
  }

  void failed(std::string& out, const engine::error& failure) override {
    if (!streams_) return;
    if (started_) {
      close(out, item_status::incomplete);
      answer_->fail(failure);
      return whole(out, "response.failed");
    }
    event(out, "error", [&](json_object& json) {
      json.text("code", engine::code_name(failure.code)).text("message", failure.message).null("param");
    });
  }

  void keep_alive(std::string& out) override {
    if (streams_) append_keep_alive(out);
  }

 private:
  [[nodiscard]] response_item& item() { return answer_->items().back(); }
  [[nodiscard]] bool open() const {
    const auto& items = answer_->items();
    return !items.empty() && items.back().status == item_status::in_progress;
  }

  template <class Members>
  void event(std::string& out, std::string_view type, const Members& members) {
    if (!streams_) return;
    out += "event: ";
    out += type;
    out += "\ndata: ";
    json_object json(out);
    json.text("type", type).integer("sequence_number", sequence_++);
    members(json);
    json.close();
    out += "\n\n";
  }
  /// An event about the item that is open.
  template <class Members>
  void item_event(std::string& out, std::string_view type, const Members& members) {
    event(out, type, [&](json_object& json) {
      json.text("item_id", item().id).integer("output_index", answer_->items().size() - 1);
      members(json);
    });
  }
  void whole(std::string& out, std::string_view type) {
    event(out, type, [&](json_object& json) {
      json.raw("response", answer_->body());
      if (!end_timings_.empty()) json.raw("timings", end_timings_);
    });
  }
  void whole_item(std::string& out, std::string_view type) {
    event(out, type, [&](json_object& json) {
      json.integer("output_index", answer_->items().size() - 1).raw("item", answer_->render(item()));
    });
  }

  response_item& begin(std::string& out, item_kind kind, std::string_view prefix) {
    close(out, item_status::completed);
    response_item made;
    made.kind = kind;
    made.id = std::string(prefix) + ids_.next();
    answer_->items().push_back(std::move(made));
    return item();
  }

  void text(std::string& out, item_kind kind, std::string_view text, std::vector<logprob_entry> logprobs) {
    if (!open() || item().kind != kind) {
      begin(out, kind, kind == item_kind::message ? "msg_" : "rs_");
      whole_item(out, "response.output_item.added");
      item_event(out, "response.content_part.added", [&](json_object& json) {
        json.integer("content_index", 0).raw("part", answer_->render_part(item(), {}));
      });
    }
    const bool message = kind == item_kind::message;
    if (text.empty()) return;
    item().text += text;
    item_event(out, message ? "response.output_text.delta" : "response.reasoning_text.delta",
               [&](json_object& json) {
                 json.integer("content_index", 0).text("delta", text);
                 if (message) json.raw("logprobs", answer_->render(logprobs));
                 if (const auto now = timing_.at(tokens_); now && answer_->identity().notes->timings) {
                   json.raw("timings", render_timings(*now));
                 }
               });
    keep(std::move(logprobs));
  }

  /// Keeps log probabilities for the end, unless they are too many for a stream.
  void keep(std::vector<logprob_entry> logprobs) {
    for (auto& entry : logprobs) {
      logprobs_ += entry.logprobs.size();
      if (!streams_ || logprobs_ <= logprobs_repeated_max) item().logprobs.push_back(std::move(entry));
    }
    if (!streams_ || logprobs_ <= logprobs_repeated_max) return;
    for (auto& one : answer_->items()) one.logprobs.clear();
  }

  void begin_call(std::string& out, const std::string& name) {
    const auto& names = answer_->identity().notes->names;
    const auto known = names.find(name);
    const called_tool called = known == names.end() ? called_tool{name, {}, false} : known->second;
    auto& made =
        called.custom ? begin(out, item_kind::custom_call, "ctc_") : begin(out, item_kind::call, "fc_");
    made.name = called.name;
    made.space = called.space;
    made.call_id = make_call_id("call_", answer_->identity().calls, ids_);
    whole_item(out, "response.output_item.added");
  }

  void arguments(std::string& out, std::string_view text) {
    item().text += text;
    // The text of a custom tool is known when its arguments are whole.
    if (item().kind != item_kind::call) return;
    item_event(out, "response.function_call_arguments.delta",
               [&](json_object& json) { json.text("delta", text); });
  }

  /// Ends the item that is open, if there is one.
  void close(std::string& out, item_status status) {
    if (!open()) return;
    switch (item().kind) {
      case item_kind::message: close_text(out, "response.output_text.done", true); break;
      case item_kind::reasoning: close_text(out, "response.reasoning_text.done", false); break;
      case item_kind::call:
        item_event(out, "response.function_call_arguments.done",
                   [&](json_object& json) { json.text("name", item().name).text("arguments", item().text); });
        break;
      case item_kind::custom_call: close_custom(out); break;
    }
    item().status = status;
    whole_item(out, "response.output_item.done");
  }

  void close_text(std::string& out, std::string_view type, bool message) {
    item_event(out, type, [&](json_object& json) {
      json.integer("content_index", 0).text("text", item().text);
      if (message) json.raw("logprobs", answer_->render(item().logprobs));
    });
    item_event(out, "response.content_part.done", [&](json_object& json) {
      json.integer("content_index", 0).raw("part", answer_->render_part(item(), item().text));
    });
  }

  void close_custom(std::string& out) {
    item().text = custom_input(item().text);
    item_event(out, "response.custom_tool_call_input.delta",
               [&](json_object& json) { json.text("delta", item().text); });
    item_event(out, "response.custom_tool_call_input.done",
               [&](json_object& json) { json.text("input", item().text); });
  }

  std::shared_ptr<response_answer> answer_;
  id_series ids_;
  const bool streams_;
  bool started_ = false;
  std::uint64_t sequence_ = 0;
  std::size_t logprobs_ = 0;  ///< of all text so far
  running_timing timing_;
  std::uint32_t tokens_ = 0;  ///< of the output so far
  std::string end_timings_;   ///< of the last event, as llama-server has them; empty: none are wanted
};

}  // namespace

std::unique_ptr<message_writer> make_response_writer(std::shared_ptr<response_answer> answer) {
  return std::make_unique<response_writer>(std::move(answer));
}

}  // namespace orcd::net
