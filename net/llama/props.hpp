// What llama-server's and vLLM's clients ask a server about itself: GET /props, /slots, /tokenizer_info,
// /version and /load. From cached state. io thread only. Private to net/.
#pragma once

#include <string_view>

#include "net/http/respond.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// The model by its name, never by its path.
[[nodiscard]] reply answer_props(const service& s);
/// 501 unless the operator serves it. `query`: fail_on_no_slot=1 asks for 503 where none is free.
[[nodiscard]] reply answer_slots(const service& s, std::string_view query);
[[nodiscard]] reply answer_tokenizer_info(const service& s);
/// vLLM's {"version"} and {"server_load"}, which is how many requests have jobs that are not over.
[[nodiscard]] reply answer_version(const service& s);
[[nodiscard]] reply answer_load(const service& s);

}  // namespace orcd::net
