#include "engine/model/not_a_model.hpp"

#include <string>
#include <string_view>

#include "engine/gguf/byte_cursor.hpp"
#include "engine/gguf/model_folder.hpp"

namespace orcd::engine {
namespace {

std::string_view text_of(const gguf_file& file, std::string_view key) {
  const auto text = file.get_string(key, "");
  return text ? *text : std::string_view();
}

error no_model(const gguf_file& file, std::string_view what) {
  return {errc::model_load_failed, std::string(file.location()) + ": " + std::string(what), "model"};
}

}  // namespace

result<void> check_is_model(const gguf_file& file) {
  const auto type = text_of(file, "general.type");
  const auto architecture = text_of(file, "general.architecture");
  if (type == "adapter" && text_of(file, "adapter.type") == "lora") return no_model(file, is_an_adapter);
  if (architecture == "controlvector") return no_model(file, "is a control vector, and no model");
  if (type == "adapter") return no_model(file, "is an adapter, and no model");
  if (type == "mmproj" || architecture == "clip") {
    return no_model(file, "is a projector of images or sound (mmproj), and no model");
  }
  if (architecture.starts_with("gemma4") && architecture.find("assistant") != std::string_view::npos) {
    return no_model(
        file,
        "drafts tokens for a Gemma 4 model from its states and its cache (multi-token prediction), "
        "and is no model of its own; drafts of such files are not supported");
  }
  if (type == "imatrix") return no_model(file, "is an importance matrix for quantizers, and no model");
  return {};
}

}  // namespace orcd::engine
