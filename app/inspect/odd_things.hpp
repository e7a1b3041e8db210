// What is unusual about a model file, in sentences for its owner: nothing that keeps it from being served,
// but what explains an answer, a size or a speed. Pure, but for projector_beside().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "engine/text/tokenizer.hpp"

namespace orcd::app {

/// Of the file alone: parts, alignment, keys and types of tensors.
[[nodiscard]] std::vector<std::string> odd_in_file(const engine::gguf_file& file);
/// Of a file that makes a model: tensors that nothing uses, a tied head, padding, positions.
[[nodiscard]] std::vector<std::string> odd_in_model(const engine::gguf_file& file, const engine::model& m);
/// Of its tokenizer beside the model's vocabulary.
[[nodiscard]] std::vector<std::string> odd_in_tokenizer(const engine::gguf_file& file,
                                                        const engine::tokenizer& vocabulary,
                                                        const engine::model_spec& spec);
/// A vision or audio projector in the file's folder, which llama.cpp's --mmproj would take: its name.
[[nodiscard]] std::optional<std::string> projector_beside(const std::string& path);

}  // namespace orcd::app
