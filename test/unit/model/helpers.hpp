// What the model tests share: tiny models, loaded, changed or refused.
#pragma once

#include <boost/test/unit_test.hpp>
#include <initializer_list>
#include <memory>
#include <string_view>

#include "engine/model/model_spec.hpp"
#include "test/support/tiny_model.hpp"

namespace orcd::test {

/// A model with the image and the file that its views point into.
struct loaded {
  bytes image;
  engine::gguf_file file;
  engine::model model;
};

inline std::unique_ptr<loaded> load(const gguf_writer& writer, std::uint32_t context = 0,
                                    const engine::rope_overrides& rope = {}) {
  bytes image = writer.build();
  auto file = engine::gguf_file::parse(image, "tiny.gguf");
  BOOST_REQUIRE_MESSAGE(file.has_value(), file.error().message);
  auto model = engine::load_model(*file, context, rope);
  BOOST_REQUIRE_MESSAGE(model.has_value(), model.error().message);
  return std::make_unique<loaded>(loaded{std::move(image), std::move(*file), std::move(*model)});
}

inline std::string refusal(const gguf_writer& writer, const engine::rope_overrides& rope = {}) {
  const bytes image = writer.build();
  const auto file = engine::gguf_file::parse(image, "tiny.gguf");
  BOOST_REQUIRE_MESSAGE(file.has_value(), file.error().message);
  const auto model = engine::load_model(*file, 0, rope);
  BOOST_REQUIRE_MESSAGE(!model, "was accepted");
  BOOST_TEST((model.error().code == engine::errc::model_load_failed));
  BOOST_TEST(model.error().message.starts_with("tiny.gguf: "));
  BOOST_TEST(model.error().message.size() < 8192U);
  return model.error().message;
}

inline void expect_refused(const gguf_writer& writer, std::initializer_list<std::string_view> parts,
                           const engine::rope_overrides& rope = {}) {
  const std::string message = refusal(writer, rope);
  for (const std::string_view part : parts) {
    BOOST_TEST(message.find(part) != std::string::npos, "no \"" << part << "\" in \"" << message << "\"");
  }
}

inline gguf_writer tiny(std::string_view family) {
  tiny_model_options o;
  o.family = family;
  return make_tiny_writer(o);
}

/// The tiny model with one key replaced.
template <class T>
gguf_writer tiny_with(std::string_view family, const std::string& key, const T& value) {
  gguf_writer w = tiny(family);
  w.remove(key);
  w.add(key, value);
  return w;
}

}  // namespace orcd::test
