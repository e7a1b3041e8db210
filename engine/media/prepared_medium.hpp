// What a tower is given: a picture or a sound, prepared as its rules say. Plain data; any thread.
#pragma once

#include <cstdint>
#include <variant>

#include "engine/media/picture.hpp"
#include "engine/media/sound.hpp"

namespace orcd::engine {

struct prepared_medium {
  std::variant<prepared_picture, prepared_sound> content;

  [[nodiscard]] const prepared_picture* picture() const noexcept {
    return std::get_if<prepared_picture>(&content);
  }
  [[nodiscard]] const prepared_sound* sound() const noexcept { return std::get_if<prepared_sound>(&content); }
  /// Parts that go through a tower one after the other: views of a picture, chunks of a sound.
  [[nodiscard]] std::size_t parts() const noexcept {
    return sound() != nullptr ? sound()->chunks : picture()->views.size();
  }
};

}  // namespace orcd::engine
