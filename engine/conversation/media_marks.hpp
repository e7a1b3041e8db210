// Pictures and sounds in messages on their way through a chat template. While messages are read and adapted,
// one is a mark in its message's text, which nobody can spell; for the template it becomes a part of a list,
// or stays in the text, as the template takes it; in the prompt it is found again and replaced. Immutable;
// any thread.
#pragma once

#include <boost/json/array.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/conversation/chat_format.hpp"

namespace orcd::engine {

/// What a template does with messages, as short renderings show.
struct part_habits {
  bool lists = false;    ///< of a list of parts it prints texts, and the placeholder for a medium
  bool strings = false;  ///< of a text it prints the text
  bool results = false;  ///< and so of what a call gives, as of what a user says
};
/// `placeholder`: what the model's template prints for a medium; `part`: what a list calls one ("image").
[[nodiscard]] part_habits learn_part_habits(const chat_format& format, std::string_view placeholder,
                                            std::string_view part);

class media_marks {
 public:
  /// With marks that no other request has, of 128 random bits. `part`: what lists call what is marked.
  explicit media_marks(std::string part);

  /// Stands for the index-th medium in a text.
  [[nodiscard]] std::string mark(std::size_t index) const;
  /// Stands between two texts that were parts of their own, in messages with media.
  [[nodiscard]] const std::string& between() const noexcept { return between_; }

  /// Where a template does not print media of a call's result, they become a user's, behind the results of
  /// the same calls; each leaves `trace` behind in its text. Before anything else is done with the messages.
  void lift(boost::json::array& messages, part_habits habits, std::string_view trace) const;

  /// Brings messages with marks into the form that the template takes, and those without where it takes no
  /// strings.
  void spread(boost::json::array& messages, part_habits habits) const;

  /// Replaces each medium's place in a prompt by its text, which counts as the template's words; `texts` are
  /// in the order of the marks. Errors: invalid_request, param "messages": where the template has not printed
  /// each picture once and in order.
  [[nodiscard]] result<void> put(rendered_prompt& prompt, const std::vector<std::string>& texts,
                                 part_habits habits, std::string_view placeholder) const;

 private:
  struct place {
    std::size_t from, size;
  };
  [[nodiscard]] boost::json::array list_of(std::string_view text) const;
  [[nodiscard]] std::vector<place> marked_places(const rendered_prompt& prompt, std::size_t count) const;

  std::string part_, base_, between_;
};

}  // namespace orcd::engine
