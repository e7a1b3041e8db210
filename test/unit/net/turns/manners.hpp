// What models write, template by template: a turn of reasoning, text and calls as the model that the template
// is of writes it, behind the prompt that the template made.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/chat/output_format.hpp"

namespace orcd::net::test {

/// Arguments by name, each as JSON text.
using said_arguments = std::vector<std::pair<std::string, std::string>>;

struct said_call {
  std::string name;
  said_arguments arguments;
};

struct turn {
  std::string reasoning;
  std::string text;
  std::vector<said_call> calls;
};

/// Which reasoning a template shows of past turns.
enum class remembers {
  all,
  of_this_turn,  ///< none once the user has said more
  of_two,        ///< of the last two messages
  before_calls,  ///< none of turns without calls
  none,
};

/// What a template makes of a turn that the model did not write. All of it is the published template's own.
struct template_limits {
  remembers reasoning = remembers::all;
  bool no_preamble = false;    ///< text before calls is left out, or becomes something else
  bool one_call = false;       ///< a turn has one call, whose result comes before the next
  bool own_ids = false;        ///< calls have ids, and those of the worker are not the model's
  bool prints_nested = false;  ///< lists and objects in arguments are written in the template's own way
  bool rewrites = false;       ///< what is before the turn changes, or a line end is added to it
};

/// How a model writes what its template shows of a turn.
struct manner {
  std::string_view name;                    ///< of the template
  std::string_view think{}, thought{};      ///< around reasoning; none: the model does not reason
  std::string_view unthought{};             ///< in the place of reasoning, where the prompt has begun one
  std::string_view answer{}, answered{};    ///< around text
  std::string_view gap{"\n"};               ///< between text and calls
  std::string_view calls{}, between{"\n"};  ///< before calls and between them
  std::string_view called{};                ///< behind them
  std::string (*call)(const said_call&){};  ///< null: the model calls nothing
  std::string_view first_gap{};             ///< before calls without text
  std::string_view preamble{};              ///< before text that calls follow, in place of `answer`
  template_limits limits{};
};

/// All templates of test/data/chat, by name.
[[nodiscard]] const std::vector<manner>& manners();

/// Without what stands in the place of reasoning. With `cut` no more than a part of reasoning, or of the
/// first argument.
[[nodiscard]] std::string written(const manner& how, const turn& said, bool cut);

}  // namespace orcd::net::test
