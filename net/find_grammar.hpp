// The grammar of a request: from the cache, or compiled on another thread while the io thread goes on.
// io thread only. Source: issue 5 item 1. Private to net/.
#pragma once

#include "net/asio.hpp"
#include "net/grammar_cache.hpp"
#include "net/service.hpp"

namespace orcd::net {

/// Compilations that may be under way or waiting at once; more are refused.
constexpr std::uint32_t grammars_in_work_max = 16;
/// Until then a compilation must be done; one takes a second or two at most, one after the other.
constexpr std::chrono::seconds grammar_patience{30};

/// Errors: as compile_demand; queue_full; inference_timeout.
asio::awaitable<engine::result<grammar_program>> find_grammar(service& s, connection& c,
                                                              const grammar_order& order);

}  // namespace orcd::net
