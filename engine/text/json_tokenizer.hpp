// make_json_tokenizer with ids from the model file that it is used with.
#pragma once

#include "engine/text/tokenizer.hpp"

namespace orcd::engine {

/// Special ids that a GGUF names; tokenizer.json itself does not say which token is EOS. -1: not named.
struct special_ids {
  token_id bos = -1;
  token_id eos = -1;
  token_id eot = -1;
  token_id eom = -1;
};

[[nodiscard]] result<std::unique_ptr<tokenizer>> make_json_tokenizer(std::string_view json,
                                                                     const special_ids& ids);

}  // namespace orcd::engine
