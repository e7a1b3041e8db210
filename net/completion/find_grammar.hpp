// The grammar of a request: from the cache, or compiled on a background thread. io thread only. Private to
// net/.
#pragma once

#include "net/completion/grammar_source.hpp"
#include "net/http/asio.hpp"
#include "net/http/http_request.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// `key` is key_of(source). Errors: as compile_grammar and run_in_background.
asio::awaitable<engine::result<grammar_program>> find_grammar(service& s, connection& c,
                                                              const http_request& request, std::string key,
                                                              grammar_source source);

}  // namespace orcd::net
