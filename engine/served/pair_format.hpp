// How a ranking model is given a query and a document: as two texts with separators (the second with a token
// type of its own, where the model has one), or written into the template named "rerank". Immutable; any
// thread.
#pragma once

#include <limits>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "engine/schedule/job.hpp"
#include "engine/text/tokenizer.hpp"

namespace orcd::engine {

/// How many tokens a pair may have; what is beyond is cut from its document, of which at least one token is
/// left.
struct pair_room {
  std::size_t document = std::numeric_limits<std::size_t>::max();  ///< tokens of the document
  std::size_t pair = std::numeric_limits<std::size_t>::max();      ///< of all
  bool keeps_last = false;  ///< the document's last tokens rather than its first
};

class pair_format {
 public:
  /// Error: model_load_failed where a causal model has no template for it.
  [[nodiscard]] static result<pair_format> make(const gguf_file& file, const model_spec& spec);

  [[nodiscard]] pooled_input encode(std::string_view query, std::string_view document,
                                    const tokenizer& vocabulary, const pair_room& room = {}) const;
  /// Bytes of the template, which are tokenized for each pair besides the two texts.
  [[nodiscard]] std::size_t frame_bytes() const noexcept { return template_.size(); }

 private:
  [[nodiscard]] pooled_input encode_filled(std::string_view query, std::string_view document,
                                           const tokenizer& vocabulary, const pair_room& room) const;

  std::string template_;  ///< with {query} and {document}; empty: two texts
};

}  // namespace orcd::engine
