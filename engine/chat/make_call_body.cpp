#include <utility>

#include "engine/chat/call_bodies.hpp"
#include "engine/chat/call_body.hpp"
#include "engine/chat/call_reader.hpp"

namespace orcd::engine {

std::unique_ptr<call_body> make_call_body(const call_syntax& syntax,
                                          std::shared_ptr<const argument_types> types, bool lenient) {
  switch (syntax.what) {
    case call_syntax::body::elements: return make_element_reader(syntax, std::move(types), lenient);
    case call_syntax::body::python: return make_python_reader();
    case call_syntax::body::marked: return make_marked_reader(syntax);
    case call_syntax::body::named: return make_named_reader(std::move(types));
    default: return std::make_unique<call_reader>();
  }
}

}  // namespace orcd::engine
