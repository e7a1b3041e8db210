#include "engine/conversation/media_marks.hpp"

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <optional>
#include <random>
#include <utility>

namespace orcd::engine {
namespace {

namespace json = boost::json;

constexpr std::string_view probe = "A text, to be found again.";
constexpr std::size_t index_digits = 4;

error refuse(std::string text) {
  return {errc::invalid_request, std::move(text), "messages"};
}

std::optional<rendered_prompt> render_messages(const chat_format& format, json::array messages) {
  json::object variables{{"messages", std::move(messages)}, {"add_generation_prompt", false}};
  auto done = format.render_quickly(variables);
  if (!done || !*done) return std::nullopt;
  return std::move(**done);
}

/// What a user says, or with `result` what a call gives.
std::optional<rendered_prompt> render_probe(const chat_format& format, json::value content, bool result) {
  if (!result) {
    json::object message{{"role", "user"}, {"content", std::move(content)}};
    return render_messages(format, {std::move(message)});
  }
  constexpr std::string_view id = "call00000";
  json::array messages{json::object{{"role", "user"}, {"content", "Look."}}};
  json::object function{{"name", "look"}, {"arguments", json::object()}};
  json::object call{{"id", id}, {"type", "function"}, {"function", std::move(function)}};
  messages.push_back(
      json::object{{"role", "assistant"}, {"content", ""}, {"tool_calls", json::array{std::move(call)}}});
  messages.push_back(json::object{{"role", "tool"}, {"tool_call_id", id}, {"name", "look"}, {"content", ""}});
  format.adapt(messages, {}, true);
  auto& last = messages.back().as_object();
  if (last.at("role") != json::value("tool")) return std::nullopt;  // results are somewhere else
  last["content"] = std::move(content);
  return render_messages(format, std::move(messages));
}

/// Where a text stands in what the template itself wrote.
std::vector<std::size_t> own_places(const rendered_prompt& prompt, std::string_view text) {
  std::vector<std::size_t> out;
  for (auto at = prompt.text.find(text); at != std::string::npos;
       at = prompt.text.find(text, at + text.size())) {
    const bool callers = std::any_of(
        prompt.callers.begin(), prompt.callers.end(),
        [&](const text_range& part) { return part.from < at + text.size() && at < part.from + part.size; });
    if (!callers) out.push_back(at);
  }
  return out;
}

/// The parts of `range` that lie before and behind the place, moved as the text behind it moves.
void keep_around(std::vector<text_range>& out, text_range range, std::size_t from, std::size_t size,
                 std::size_t written) {
  if (range.from < from) out.push_back({range.from, std::min(range.size, from - range.from)});
  const std::size_t end = range.from + range.size;
  if (end <= from + size) return;
  const std::size_t begin = std::max(range.from, from + size);
  out.push_back({begin - size + written, end - begin});
}

}  // namespace

part_habits learn_part_habits(const chat_format& format, std::string_view placeholder,
                              std::string_view part) {
  part_habits out;
  const json::array parts{json::object{{"type", json::string(part)}},
                          json::object{{"type", "text"}, {"text", json::string(probe)}}};
  const auto prints_list = [&](bool result) {
    const auto made = render_probe(format, parts, result);
    return made && made->text.find(probe) != std::string::npos && own_places(*made, placeholder).size() == 1;
  };
  const auto prints_string = [&](bool result) {
    const auto made = render_probe(format, json::string(probe), result);
    return made && made->text.find(probe) != std::string::npos;
  };
  out.lists = prints_list(false);
  out.strings = prints_string(false);
  out.results = out.lists ? prints_list(true) : prints_string(true);
  return out;
}

media_marks::media_marks(std::string part) : part_(std::move(part)) {
  std::random_device source;
  constexpr std::array<char, 16> digits{'0', '1', '2', '3', '4', '5', '6', '7',
                                        '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};
  for (int word = 0; word < 4; ++word) {
    std::uint32_t bits = source();
    for (int digit = 0; digit < 8; ++digit, bits >>= 4U) base_ += digits[bits & 15U];
  }
  between_ = base_ + std::string(index_digits, '-');
}

std::string media_marks::mark(std::size_t index) const {
  std::string number = std::to_string(index);
  number.insert(0, index_digits - std::min(index_digits, number.size()), '0');
  return base_ + number;
}

json::array media_marks::list_of(std::string_view text) const {
  json::array out;
  const auto add_text = [&](std::string_view part) {
    if (!part.empty()) out.push_back(json::object{{"type", "text"}, {"text", json::string(part)}});
  };
  while (true) {
    const auto at = text.find(base_);
    add_text(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    if (text.substr(at, between_.size()) != between_)
      out.push_back(json::object{{"type", json::string(part_)}});
    text.remove_prefix(at + between_.size());
  }
}

void media_marks::lift(json::array& messages, part_habits habits, std::string_view trace) const {
  if (habits.results) return;
  json::array out;
  std::string lifted;
  const auto put_down = [&] {
    if (!lifted.empty())
      out.push_back(json::object{{"role", "user"}, {"content", std::exchange(lifted, {})}});
  };
  for (json::value& value : messages) {
    json::object& message = value.as_object();
    auto* const content = message.if_contains("content");
    if (message.at("role") != json::value("tool")) {
      put_down();
    } else if (content != nullptr && content->is_string()) {
      std::string text(content->get_string());
      for (auto at = text.find(base_); at != std::string::npos; at = text.find(base_, at)) {
        const std::string found = text.substr(at, between_.size());
        text.replace(at, found.size(), found == between_ ? std::string_view("\n") : trace);
        if (found != between_) lifted += found;
      }
      *content = text;
    }
    out.push_back(std::move(value));
  }
  put_down();
  messages = std::move(out);
}

void media_marks::spread(json::array& messages, part_habits habits) const {
  for (json::value& value : messages) {
    auto* const content = value.as_object().if_contains("content");
    if (content == nullptr || !content->is_string()) continue;
    // Lifted: what calls give is text alone, which a template that prints no lists there takes.
    const auto* const role = value.as_object().if_contains("role");
    if (!habits.results && role != nullptr && *role == json::value("tool")) continue;
    const std::string_view text = content->get_string();
    const bool marked = text.find(base_) != std::string_view::npos;
    if (habits.lists && (marked || !habits.strings)) {
      *content = list_of(std::string(text));
      continue;
    }
    if (!marked) continue;
    std::string whole(text);
    for (auto at = whole.find(between_); at != std::string::npos; at = whole.find(between_, at))
      whole.replace(at, between_.size(), "\n");
    *content = whole;
  }
}

std::vector<media_marks::place> media_marks::marked_places(const rendered_prompt& prompt,
                                                           std::size_t count) const {
  std::vector<place> out;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string text = mark(i);
    for (auto at = prompt.text.find(text); at != std::string::npos; at = prompt.text.find(text, at + 1))
      out.push_back({at, text.size()});
  }
  return out;
}

result<void> media_marks::put(rendered_prompt& prompt, const std::vector<std::string>& texts,
                              part_habits habits, std::string_view placeholder) const {
  std::vector<place> places;
  if (habits.lists) {
    for (const std::size_t at : own_places(prompt, placeholder)) places.push_back({at, placeholder.size()});
  } else {
    places = marked_places(prompt, texts.size());
  }
  const bool ordered = std::is_sorted(places.begin(), places.end(),
                                      [](const place& a, const place& b) { return a.from < b.from; });
  if (places.size() != texts.size() || !ordered) {
    return refuse("have " + std::to_string(texts.size()) + (part_ == "image" ? " pictures" : " sounds") +
                  ", but the model's chat template prints " + std::to_string(places.size()) +
                  (ordered ? "" : ", in another order"));
  }
  for (std::size_t i = texts.size(); i-- > 0;) {
    const auto [from, size] = places[i];
    prompt.text.replace(from, size, texts[i]);
    std::vector<text_range> kept;
    kept.reserve(prompt.callers.size() + 1);
    for (const text_range& range : prompt.callers) keep_around(kept, range, from, size, texts[i].size());
    prompt.callers = std::move(kept);
  }
  return {};
}

}  // namespace orcd::engine
