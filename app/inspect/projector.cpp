#include "app/inspect/projector.hpp"

#include <utility>

#include "app/inspect/inspect.hpp"
#include "engine/media/tower.hpp"
#include "gpu/plan/media/media_layout.hpp"

namespace orcd::app {
namespace {

std::string sentence_of(const engine::tower& of) {
  const engine::tower_spec& spec = of.spec;
  if (spec.sound) {
    return "projector '" + spec.projector + "' of sounds: " + std::to_string(of.weights.layers.size()) +
           " layers, " + grouped(spec.width) + " wide, " + std::to_string(spec.sound->bins) + " bands, " +
           grouped(spec.view_rows_max()) +
           " tokens for each 30 seconds that a sound begins; for a "
           "model that is " +
           grouped(spec.out_width) + " wide (--mmproj)";
  }
  return "projector '" + spec.projector + "' of pictures: " + std::to_string(of.weights.layers.size()) +
         " layers, " + grouped(spec.width) + " wide, views of " + std::to_string(spec.pictures.side) +
         " pixels a side in patches of " + std::to_string(spec.pictures.patch) + ", " +
         grouped(spec.view_rows_max()) + " tokens a view, at most " + grouped(spec.picture_rows_max()) +
         " a picture; for a model that is " + grouped(spec.out_width) + " wide (--mmproj)";
}

}  // namespace

std::optional<engine::result<described_projector>> describe_projector(const engine::gguf_file& file) {
  const auto architecture = file.get_string("general.architecture", "");
  if (!architecture || *architecture != "clip") return std::nullopt;
  auto again = engine::gguf_file::open(file.location());
  if (!again) return engine::result<described_projector>(again.error());
  const auto loaded = engine::load_tower(std::move(*again), nullptr);
  if (!loaded) return engine::result<described_projector>(loaded.error());
  const auto taken = gpu::check_cuda_tower(loaded->spec);
  return described_projector{sentence_of(*loaded), taken ? "" : taken.error().message};
}

}  // namespace orcd::app
