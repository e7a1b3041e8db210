// How a ranking model is given a query and a document: as two texts with separators (the second with a token
// type of its own, where the model has one), or written into the template named "rerank". Immutable; any
// thread.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "engine/schedule/job.hpp"
#include "engine/text/tokenizer.hpp"

namespace orcd::engine {

class pair_format {
 public:
  /// Error: model_load_failed where a causal model has no template for it.
  [[nodiscard]] static result<pair_format> make(const gguf_file& file, const model_spec& spec);

  [[nodiscard]] pooled_input encode(std::string_view query, std::string_view document,
                                    const tokenizer& vocabulary) const;
  /// Bytes of the template, which are tokenized for each pair besides the two texts.
  [[nodiscard]] std::size_t frame_bytes() const noexcept { return template_.size(); }

 private:
  std::string template_;  ///< with {query} and {document}; empty: two texts
};

}  // namespace orcd::engine
