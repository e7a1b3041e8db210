// How each format writes calls, reasoning and answers, as data: the readers and the grammars follow these
// tables. Immutable; any thread. Private to engine/.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/chat/output_format.hpp"

namespace orcd::engine {

/// A call written in elements: a name, then keys with values that are text.
struct element_syntax {
  std::string_view name_open{};   ///< before the name; may be empty
  std::string_view name_close{};  ///< one byte after the name; empty: white space or the next element ends it
  std::string_view key_open{};    ///< before a key
  std::string_view key_close{};   ///< behind it
  std::string_view value_open{};  ///< before the value; empty where key_close does that
  std::string_view value_close{};  ///< behind the value
  std::string_view call_close{};   ///< behind the last value; empty: the mark behind the call
  bool value_lines = false;        ///< a line end before and one behind the value are not part of it
};

/// How the calls of an output are written. In what a grammar writes, white space is the models' own; readers
/// take any.
struct call_syntax {
  enum class body {
    none,
    objects,    ///< a JSON object with name and arguments, or a list of them
    named,      ///< the name, a line end, the arguments as a JSON object
    elements,   ///< element_syntax
    python,     ///< name(key=value, ...), a call a line or in a list
    marked,     ///< the name and an object of bare names, in which texts stand between marks
    lead_name,  ///< objects in a list, or the name, [ARGS] and the arguments (mistral)
    channels,   ///< harmony
  };
  call_format of = call_format::none;
  body what = body::none;
  std::string_view open{};     ///< the mark before calls
  std::string_view also{};     ///< another that some models write in its place; may be empty
  std::string_view kind{};     ///< a second mark right behind `open`, without which nothing is called
  std::string_view other{};    ///< a mark in its place that makes text of both
  std::string_view close{};    ///< the mark behind them; may be empty
  std::string_view trailer{};  ///< text behind them that is no mark; may be empty
  std::string_view result{};   ///< what begins a call's result, which is not the model's to write
  bool bare = false;           ///< a call may begin the output without a mark
  bool bare_list = false;      ///< so may a list of calls of offered functions
  bool each = false;           ///< every call has marks of its own
  std::string_view head{};     ///< between the mark and the first call
  std::string_view number{};   ///< in an object before its number; empty: calls have none
  std::string_view name{};     ///< in an object, or (marked) behind the mark, before the name
  std::string_view middle{};   ///< between name and arguments
  std::string_view tail{};     ///< behind the arguments
  std::string_view foot{};     ///< behind the last call
  std::string_view between{};  ///< between calls
  std::string_view quote{};    ///< with body::marked: around a text, which does not hold it
  element_syntax elements{};   ///< with body::elements
};

[[nodiscard]] const call_syntax& syntax_of(call_format format) noexcept;

/// The marks of a format around an answer, or none.
[[nodiscard]] mark_pair answer_marks(const output_format& format) noexcept;

struct written_call {
  std::string name;
  std::string arguments;  ///< JSON text
};
/// Calls as a model of a format writes them, for templates that show none. Empty for formats whose calls are
/// neither JSON objects between marks nor written as Python does.
[[nodiscard]] std::string written_calls(call_format format, std::span<const written_call> calls);

}  // namespace orcd::engine
