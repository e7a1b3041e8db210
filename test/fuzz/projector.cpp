// Arbitrary bytes as a projector file: what is taken has sizes that pictures can be made for.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "engine/media/prepare_picture.hpp"
#include "engine/media/tower.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace orcd::engine;
  auto file = gguf_file::parse(std::as_bytes(std::span(data, size)), "fuzz");
  if (!file) return 0;
  const auto loaded = load_tower(std::move(*file), nullptr);
  if (!loaded) {
    if (loaded.error().message.empty() || loaded.error().param != "mmproj") std::abort();
    return 0;
  }
  const tower_spec& spec = loaded->spec;
  if (spec.view_rows_max() == 0 || spec.patches_max() == 0 || spec.picture_rows_max() < spec.view_rows_max())
    std::abort();
  if (spec.head_width() * spec.heads != spec.width || loaded->weights.layers.empty()) std::abort();
  const picture_size view = view_size(spec.pictures, {7, 5}, picture_detail::low);
  if (view.width == 0 || view.height == 0 || view.width % spec.pictures.patch != 0) std::abort();
  return 0;
}
