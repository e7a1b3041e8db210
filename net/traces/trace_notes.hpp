// What sessions note of the answer to the request that a connection is serving: for the log and the metrics,
// and where its spans are kept. io thread only. Private to net/.
#pragma once

#include "net/http/connection.hpp"
#include "net/http/respond.hpp"

namespace orcd::net {

/// The answer that the client is given: its status, and the error that it tells.
void note_answer(connection& c, const reply& answer);
void note_answer(connection& c, unsigned status);

}  // namespace orcd::net
