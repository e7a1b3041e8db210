#include "net/jobs/grammar_cache.hpp"

#include <utility>

#include "engine/grammar/program.hpp"

namespace orcd::net {

using engine::result;

std::optional<result<grammar_program>> grammar_cache::find(const std::string& key) {
  if (const grammar_program* known = programs_.find(key)) return *known;
  if (const engine::error* refused = refusals_.find(key)) return *refused;
  return std::nullopt;
}

void grammar_cache::keep(std::string key, const result<grammar_program>& made) {
  if (made) {
    programs_.keep(std::move(key), *made, (*made)->bytes);
  } else if (made.error().code == engine::errc::invalid_request) {
    const engine::error& refused = made.error();
    const std::size_t bytes = sizeof(refused) + key.size() + refused.message.size() + refused.param.size();
    refusals_.keep(std::move(key), refused, bytes);
  }
}

}  // namespace orcd::net
