#include "engine/chat/delta_writer.hpp"

namespace orcd::engine {

namespace {

constexpr std::string_view white_space = " \n\t\r";

}  // namespace

void delta_writer::write(channel& to, output_delta::kind what, std::string_view text) {
  if (to.after_mark) {
    const std::size_t first = text.find_first_not_of(white_space);
    if (first == std::string_view::npos) return;
    text.remove_prefix(first);
    to.after_mark = false;
  }
  const std::size_t last = text.find_last_not_of(white_space);
  if (last == std::string_view::npos) {
    to.held += text;
    return;
  }
  add(what, std::exchange(to.held, {}));
  add(what, text.substr(0, last + 1));
  to.held = text.substr(last + 1);
  to.written = true;
}

void delta_writer::add(output_delta::kind what, std::string_view text) {
  if (text.empty()) return;
  if (out_.empty() || out_.back().what != what) out_.push_back({what, {}, {}, 0});
  out_.back().text += text;
}

void delta_writer::begin_call(std::string name) {
  boundary();
  out_.push_back({output_delta::kind::call, {}, std::move(name), calls_++});
}

void delta_writer::arguments(std::string_view text) {
  if (text.empty()) return;
  const std::uint32_t index = calls_ - 1;
  if (out_.empty() || out_.back().what != output_delta::kind::arguments) {
    out_.push_back({output_delta::kind::arguments, {}, {}, index});
  }
  out_.back().text += text;
}

void delta_writer::boundary() {
  for (channel* c : {&content_, &reasoning_}) {
    c->held.clear();
    c->after_mark = true;
  }
}

void delta_writer::finish() {
  add(output_delta::kind::reasoning, std::exchange(reasoning_.held, {}));
  add(output_delta::kind::content, std::exchange(content_.held, {}));
}

}  // namespace orcd::engine
