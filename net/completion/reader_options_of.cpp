#include "net/completion/reader_options_of.hpp"

#include "engine/chat/argument_types.hpp"

namespace orcd::net {

reader_options reader_options_of(const completion_request& asked, const engine::output_frame& frame) {
  reader_options out;
  out.format = frame.format;
  out.parsing.tools = !asked.constraints.tools.empty();
  out.parsing.in_reasoning = frame.in_reasoning;
  const bool generic = frame.format.calls == engine::call_format::generic;
  const bool framed = generic || frame.format.calls == engine::call_format::harmony;
  out.parsing.in_answer = frame.in_answer;
  out.parsing.json_answer = generic && asked.constraints.kind == constraint_kind::json;
  if (!out.parsing.tools && !framed) out.format.calls = engine::call_format::none;
  if (out.parsing.tools) out.parsing.types = engine::argument_types::of(asked.constraints.tools);
  // A grammar promises what it allows, and no more.
  out.parsing.lenient = asked.constraints.kind == constraint_kind::none;
  out.parallel = asked.constraints.parallel;
  if (asked.shows.raw_reasoning && !framed) {
    out.format.think = false;
    out.parsing.in_reasoning = false;
  }
  out.marks_are_text = asked.shows.special_tokens;
  out.keep_stop = asked.shows.stop_string;
  if (out.separates()) out.stop = asked.stop;
  return out;
}

}  // namespace orcd::net
