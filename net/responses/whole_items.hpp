// The items of an input as GET /v1/responses/{id}/input_items tells them and a later request reads them
// again. Pure. Private to net/.
#pragma once

#include <boost/json/value.hpp>

#include "net/store/response_store.hpp"

namespace orcd::net {

/// `input`: one that read_input() has taken. Each item gets what the API lets a client leave out: its id, its
/// type, its status, and the parts of a content that is a string. Members that are null are left out.
[[nodiscard]] kept_items whole_items(const boost::json::value& input);

}  // namespace orcd::net
