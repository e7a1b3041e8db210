// Arbitrary text as tokenizer.json: refused with a message, or a tokenizer that survives use.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/base/ensure.hpp"
#include "engine/text/tokenizer.hpp"

using namespace orcd::engine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto made = make_json_tokenizer(text);
  if (!made) {
    ORCD_ENSURE(!made.error().message.empty());
    return 0;
  }
  const tokenizer& t = **made;
  for (const std::string_view sample :
       {std::string_view("abc ab\nc1 <|im_end|> \xC3\xA9 e\xCC\x81\xFF"), text}) {
    for (const bool special : {true, false}) {
      for (const token_id id : t.encode(sample.substr(0, 4096), {special, special})) {
        ORCD_ENSURE(id >= 0 && static_cast<std::uint32_t>(id) < t.vocab_size());
      }
    }
  }
  std::string out;
  for (token_id id = -1; id < static_cast<token_id>(std::min<std::uint32_t>(t.vocab_size() + 1, 300)); ++id) {
    t.append_bytes(id, out, true);
    (void)t.piece(id);
    (void)t.is_control(id);
  }
  return 0;
}
