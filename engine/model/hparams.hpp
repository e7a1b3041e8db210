// Reads a model's hyperparameters: "<architecture>.<key>", each with the range it must lie in. A wrong one
// goes to a problem_list and a usable value is returned, so that one run finds all problems.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "engine/gguf/gguf_file.hpp"
#include "engine/model/problems.hpp"

namespace orcd::engine {

/// Largest values any supported model may have. Everything sized by a hyperparameter is bounded by these.
struct hparam_limits {
  static constexpr std::uint32_t layers = 512;
  static constexpr std::uint32_t embedding = 1U << 17U;
  static constexpr std::uint32_t heads = 1024;
  static constexpr std::uint32_t head_dim = 640;
  static constexpr std::uint32_t ffn = 1U << 20U;
  static constexpr std::uint32_t experts = 512;
  static constexpr std::uint32_t context = 1U << 24U;
  static constexpr std::uint32_t vocab = 1U << 20U;
};

class hparam_reader {
 public:
  hparam_reader(const gguf_file& file, std::string_view architecture, problem_list& problems)
      : file_(file), prefix_(std::string(architecture) + "."), problems_(problems) {}

  /// An integer in [least, most]; without a fallback the key must exist. Returns `least` or the fallback when
  /// it is wrong.
  std::uint32_t count(std::string_view key, std::uint32_t least, std::uint32_t most,
                      std::optional<std::uint32_t> fallback = std::nullopt);
  /// Arrays may have so many more entries, of layers that are not run.
  void leave_out(std::uint32_t layers) noexcept { left_out_ = layers; }
  /// The same for each layer: one number for all of them, or an array with one per layer.
  std::vector<std::uint32_t> per_layer(std::string_view key, std::uint32_t layers, std::uint32_t least,
                                       std::uint32_t most,
                                       std::optional<std::uint32_t> fallback = std::nullopt);
  /// A finite number in [least, most].
  double number(std::string_view key, double least, double most, double fallback);
  bool flag(std::string_view key, bool fallback);
  std::string_view text(std::string_view key, std::string_view fallback);
  [[nodiscard]] bool has(std::string_view key) const { return file_.find(full(key)) != nullptr; }

  /// Whether a family has asked for its value.
  [[nodiscard]] bool was_read(std::string_view key) const { return read_.contains(full(key)); }

  /// The key as the file spells it.
  [[nodiscard]] std::string full(std::string_view key) const { return prefix_ + std::string(key); }
  [[nodiscard]] const gguf_file& file() const noexcept { return file_; }
  [[nodiscard]] problem_list& problems() noexcept { return problems_; }

 private:
  std::uint32_t checked(std::string_view key, std::uint64_t value, std::uint32_t least, std::uint32_t most);

  /// full(), noted.
  std::string reading(std::string_view key) { return *read_.insert(full(key)).first; }

  const gguf_file& file_;
  std::unordered_set<std::string> read_{};
  std::string prefix_;
  problem_list& problems_;
  std::uint32_t left_out_ = 0;
};

}  // namespace orcd::engine
