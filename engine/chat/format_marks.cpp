// What the tables of call_syntax.hpp say of a format as a whole.
#include <string_view>
#include <vector>

#include "engine/chat/call_syntax.hpp"
#include "engine/chat/output_format.hpp"

namespace orcd::engine {

bool needs_types(call_format format) noexcept {
  const auto what = syntax_of(format).what;
  return what == call_syntax::body::elements || what == call_syntax::body::named;
}

std::vector<std::string_view> marks_of(const output_format& format) {
  if (format.calls == call_format::harmony) {
    return {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"};
  }
  const call_syntax& syntax = syntax_of(format.calls);
  std::vector<std::string_view> out{syntax.open, syntax.kind, syntax.other, syntax.close};
  if (syntax.what == call_syntax::body::lead_name) out.insert(out.end(), {"[CALL_ID]", "[ARGS]"});
  // Elements with an end of their own may be tokens; "<function=" and the like are the beginning of a text.
  const element_syntax& elements = syntax.elements;
  if (elements.key_open.ends_with('>')) {
    out.insert(out.end(), {elements.key_open, elements.key_close, elements.value_open, elements.value_close});
  }
  for (const mark_pair& pair : {reasoning_marks(format), answer_marks(format)}) {
    out.insert(out.end(), {pair.open, pair.close});
  }
  std::erase(out, std::string_view());
  return out;
}

}  // namespace orcd::engine
