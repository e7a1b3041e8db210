// A whole schema document before it is compiled: the keywords in it that JSON Schema does not know, and
// references by URI and by anchor brought to pointers. Both take time that is linear in the document, charged
// to the thread's compile_budget. One thread. Source: JSON Schema 2020-12, 6.5 (unknown keywords are
// annotations) and 8.2; RFC 3986, 5.2.
#pragma once

#include <boost/json/value.hpp>
#include <functional>
#include <optional>
#include <string_view>

namespace orcd::engine::grammar {

/// Calls `found` for each keyword that is unknown, where it stands in a schema.
void each_unknown_keyword(const boost::json::value& root, const std::function<void(std::string_view)>& found);

/// The document in which each $ref to a part of it is "#/...", a pointer from the root; nothing where that is
/// so already. A reference that names nothing in the document is left as a URI. Throws grammar_failure.
[[nodiscard]] std::optional<boost::json::value> with_plain_references(const boost::json::value& root);

}  // namespace orcd::engine::grammar
