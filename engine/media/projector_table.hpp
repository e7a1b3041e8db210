// The projectors that are taken: each a row, and a function for what differs from the common keys. Private to
// engine/media.
#pragma once

#include <span>
#include <string_view>

#include "engine/media/tower.hpp"
#include "engine/model/hparams.hpp"

namespace orcd::engine {

struct projector_kind {
  std::string_view name;  ///< clip.projector_type
  /// Sets what the common keys do not say; read_common_tower() has run.
  void (*read)(hparam_reader& from, tower_spec& spec);
  const char* projection;       ///< the tensor's name; null: there is a tower_merger
  const char* merge_norm;       ///< likewise; null: there is none
  bool sounds = false;          ///< a tower of sounds
  bool leaves_sounds = false;   ///< its files may have one beside it, which is not used
  const char* merger = "mm.0";  ///< the first of a tower_merger's matrices; the second is mm.2
};

[[nodiscard]] std::span<const projector_kind> projector_kinds() noexcept;

}  // namespace orcd::engine
