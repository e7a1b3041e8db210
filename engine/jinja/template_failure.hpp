// The exception by which compiling or rendering ends early. Private to engine/jinja: chat_template.cpp
// catches it and turns it into an engine::error. An exception because a failure may come from any depth of an
// expression.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace orcd::engine::jinja {

class template_failure : public std::exception {
 public:
  explicit template_failure(std::string text) : text_(std::move(text)) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

  std::uint32_t line = 0;    ///< 0 = not known yet: the innermost node that knows its line sets it
  bool raised = false;       ///< by the template itself, with raise_exception
  bool out_of_work = false;  ///< set by work_meter: with a higher limit it might succeed

 private:
  std::string text_;
};

}  // namespace orcd::engine::jinja
